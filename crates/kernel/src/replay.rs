//! Replay: deciding a log again.
//!
//! Nothing in `decide` is random or timed, and input from outside is in the log. So every batch can
//! be decided again from the state before it, and must come out byte for byte the same. If it does
//! not, a rule of the engine has changed since, or another program wrote the log.

use std::sync::Arc;

use crate::batch::Record;
use crate::definition::Plan;
use crate::ids::Seq;
use crate::recompute::{self, AsRecorded, Recompute};
use crate::run::event::DivergenceKind;
use crate::run::{BadEvent, Command, Decided, Envelope, Event, Run, decide};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// The first place at which a log is decided differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The first sequence that differs.
    pub seq: Seq,
    /// How it differs.
    pub kind: DivergenceKind,
    /// The event in the log; `None` if the log ends before.
    pub expected: Option<Event>,
    /// The event decided now; `None` if there is none.
    pub actual: Option<Event>,
    /// The code of the rejection, if the command of the batch is rejected now.
    pub refused: Option<&'static str>,
}

impl Divergence {
    /// The type of the differing event: the log's, else the one decided now.
    pub fn point(&self) -> Option<String> {
        let event = self.expected.as_ref().or(self.actual.as_ref())?;
        let body = serde_json::to_value(&event.body).ok()?;
        body["type"].as_str().map(str::to_owned)
    }
}

/// Why a log cannot be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// It is decided differently now.
    #[error("event {} is not decided again as it was", .0.seq)]
    Diverged(Box<Divergence>),
    /// It does not fold.
    #[error(transparent)]
    Bad(#[from] BadEvent),
    /// It was changed after it was written.
    #[error("the hash chain breaks at event {0}")]
    Chain(Seq),
}

/// Decides a whole log again and compares each batch; returns the state at its end.
///
/// The recorded outcomes are used. A replay ([`crate::fork`]) checks whether nodes still compute
/// the same.
///
/// The prefix that a fork copied is only folded: it is verified with its source, and a branch has
/// another root and would derive other ids.
///
/// # Errors
/// The first divergence, or the first event that does not fold or verify.
pub fn verify(
    header: &Arc<StreamHeader>,
    plan: &Arc<Plan>,
    records: &[Record],
) -> Result<Run, ReplayError> {
    let copied = own_start(header).min(records.len() as u64) as usize;
    let mut run = fold(header, plan, &records[..copied])?;
    let mut next = copied;
    while next < records.len() {
        let batch = batch_at(records, next)?;
        let decided = match again(run, &batch, &AsRecorded) {
            Again::Same(decided) => decided,
            Again::Other(divergence) => return Err(ReplayError::Diverged(divergence)),
        };
        let mut links = decided.batch.records().iter().zip(&records[next..]);
        if let Some(broken) = links.position(|(found, expected)| found.chain != expected.chain) {
            return Err(ReplayError::Chain((next + broken) as u64));
        }
        next += batch.len();
        run = decided.run;
    }
    Ok(run)
}

/// The first sequence of a log that was not copied.
pub(crate) fn own_start(header: &StreamHeader) -> Seq {
    header.origin.as_ref().map_or(0, |origin| origin.seq)
}

/// Folds records from the beginning of a log and verifies their chain.
pub(crate) fn fold(
    header: &Arc<StreamHeader>,
    plan: &Arc<Plan>,
    records: &[Record],
) -> Result<Run, ReplayError> {
    let mut run = Run::unborn(header.clone(), plan.clone());
    for record in records {
        fold_record(&mut run, record)?;
    }
    Ok(run)
}

/// Folds one record and verifies its link of the chain.
pub(crate) fn fold_record(run: &mut Run, record: &Record) -> Result<Event, ReplayError> {
    let event = run.fold_content(&record.content)?;
    if run.head.chain != record.chain {
        return Err(ReplayError::Chain(event.seq));
    }
    Ok(event)
}

/// One batch of a log.
pub(crate) struct Recorded<'a> {
    records: &'a [Record],
    events: Vec<Event>,
}

impl Recorded<'_> {
    /// How many events it has.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Its command and the time of the decision.
    pub(crate) fn command(&self) -> Option<(Envelope, Timestamp)> {
        Command::from_log(&self.events)
    }

    /// The same, with the recomputed outcome of an attempt.
    pub(crate) fn command_on(
        &self,
        run: &Run,
        nodes: &dyn Recompute,
    ) -> Option<(Envelope, Timestamp)> {
        let (mut envelope, at) = self.command()?;
        if let Command::Finish { attempt, outcome } = &mut envelope.command
            && let Some(computed) = recompute::instead_of(run, attempt, outcome, nodes)
        {
            *outcome = computed;
        }
        Some((envelope, at))
    }

    /// Whether a client cancelled the run.
    pub(crate) fn is_cancelled_from_outside(&self) -> bool {
        let command = self.command().map(|(envelope, _)| envelope.command);
        matches!(command, Some(Command::Cancel { parent: None, .. }))
    }

    /// The divergence of a log that continues without this batch.
    pub(crate) fn left_out(&self) -> Divergence {
        self.missing(None)
    }

    fn missing(&self, refused: Option<&'static str>) -> Divergence {
        Divergence {
            seq: self.events[0].seq,
            kind: DivergenceKind::Missing,
            expected: Some(self.events[0].clone()),
            actual: None,
            refused,
        }
    }

    /// When it was decided.
    pub(crate) fn at(&self) -> Timestamp {
        self.events[0].at
    }
}

/// The batch that begins at a place of a log and ends before the next cause.
pub(crate) fn batch_at(records: &[Record], first: usize) -> Result<Recorded<'_>, BadEvent> {
    let mut events = Vec::new();
    for (seq, record) in records.iter().enumerate().skip(first) {
        let event = read(seq as u64, record)?;
        if !events.is_empty() && event.cause.is_some() {
            break;
        }
        events.push(event);
    }
    Ok(Recorded {
        records: &records[first..first + events.len()],
        events,
    })
}

/// Reads an event without folding it.
pub(crate) fn read(seq: Seq, record: &Record) -> Result<Event, BadEvent> {
    serde_json::from_slice(&record.content).map_err(|error| BadEvent {
        seq,
        what: format!("not an event of this format: {error}"),
    })
}

/// The result of deciding a batch again.
pub(crate) enum Again {
    /// The same bytes.
    Same(Decided),
    /// Other events, or none.
    Other(Box<Divergence>),
}

/// Decides a recorded batch again on the state before it, with recomputed outcomes where possible.
pub(crate) fn again(run: Run, batch: &Recorded<'_>, nodes: &dyn Recompute) -> Again {
    let first = batch.events[0].seq;
    let missing = |refused| Again::Other(Box::new(batch.missing(refused)));
    let Some((envelope, at)) = batch.command_on(&run, nodes) else {
        return missing(None);
    };
    let decided = match decide(run, &envelope, at) {
        Ok(decided) => decided,
        Err(refused) => return missing(Some(refused.rejection.code())),
    };
    let (found, expected) = (decided.batch.records(), batch.records);
    let differs = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found.content != expected.content);
    let place = match differs {
        Some(place) => place,
        None if found.len() == expected.len() => return Again::Same(decided),
        None => found.len().min(expected.len()),
    };
    let expected = batch.events.get(place).cloned();
    let actual = decided.events.get(place).cloned();
    let kind = match (&expected, &actual) {
        (Some(expected), Some(actual)) => {
            let same_type =
                std::mem::discriminant(&expected.body) == std::mem::discriminant(&actual.body);
            if same_type {
                DivergenceKind::Output
            } else {
                DivergenceKind::TypeMismatch
            }
        }
        (Some(_), None) => DivergenceKind::Missing,
        (None, _) => DivergenceKind::Extra,
    };
    Again::Other(Box::new(Divergence {
        seq: first + place as u64,
        kind,
        expected,
        actual,
        refused: None,
    }))
}
