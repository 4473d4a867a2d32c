//! Replays: the source's log, decided again.
//!
//! While every batch equals the recorded one, the replay's log is its source's, byte for byte. At
//! the first different batch, `ReplayDiverged` is written, followed by the new decision. After it,
//! the rest of the source is only a list of observations: those that still apply are decided, the
//! others are left out.
//!
//! A cancellation from outside is repeated, unless the run alone would have reached an effect that
//! its source never had: the replay must show whether that effect is allowed. Then the replay
//! diverges before the cancellation, pauses, delays and waits between attempts end at once, and the
//! effect fails. An answer from outside is never made up: at a wait for one that an effect may
//! follow, the replay fails.
//!
//! A replay never calls anything outside. When the source is exhausted and the replay has not
//! ended, computable attempts are computed and all other attempts in flight fail with
//! `replay_source_missing`. Remaining waits are cancelled for the same reason, with their children:
//! those run for the source and never report to the replay.

use std::collections::BTreeSet;

use serde_json::Map;

use crate::batch::Record;
use crate::definition::NodeIx;
use crate::ids::AttemptId;
use crate::recompute::{self, Recompute};
use crate::replay::{self, Again, Divergence, Recorded, ReplayError};
use crate::run::cause::{SOURCE_MISSING, Start};
use crate::run::event::ChildStatus;
use crate::run::state::{NodeStatus, Phase, timer};
use crate::run::{Command, Envelope, NodeError, Outcome, Run, RunState, decide};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

use super::chunk::Chunk;

/// The source of a replay, and the recomputation of its nodes.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) header: &'a StreamHeader,
    pub(super) records: &'a [Record],
    pub(super) nodes: &'a dyn Recompute,
}

/// The progress of a replay.
#[derive(Debug, Default)]
pub(super) struct Repeat {
    divergence: Option<Box<Divergence>>,
    /// The source's cancellation and everything after it are left out.
    is_cut: bool,
}

impl Repeat {
    pub(super) fn divergence(&self) -> Option<&Divergence> {
        self.divergence.as_deref()
    }

    /// Decides further batches of the source again until the chunk is full or the replay ends.
    pub(super) fn fill(
        &mut self,
        mut run: Run,
        source: Source<'_>,
        next: &mut usize,
        chunk: &mut Chunk,
    ) -> Result<Run, ReplayError> {
        let Source { records, nodes, .. } = source;
        while !run.is_settled() {
            if chunk.is_full() {
                return Ok(run);
            }
            if *next == records.len() {
                let step = if self.is_cut {
                    alone(&run, nodes)
                } else {
                    computed(&run, nodes)
                };
                let at = run.head.at;
                let ends = match step {
                    None => run,
                    Some(command) => match decide(run, &command.into(), at) {
                        Ok(decided) => {
                            run = chunk.take(decided);
                            continue;
                        }
                        Err(refused) => refused.run,
                    },
                };
                let fails = self.is_cut && waits_before_effect(&ends, nodes);
                return Ok(end(ends, fails, chunk));
            }
            let batch = replay::batch_at(records, *next)?;
            if batch.is_cancelled_from_outside() && reaches_effect(&run, nodes) {
                run = self.leave(run, &batch, source, chunk);
                self.is_cut = true;
                *next = records.len();
                continue;
            }
            run = match self.divergence {
                Some(_) => observe(run, &batch, nodes, chunk),
                None => self.again(run, &batch, source, *next, chunk)?,
            };
            *next += batch.len();
        }
        Ok(run)
    }

    /// Leaves the source before a batch that is not decided again.
    fn leave(
        &mut self,
        run: Run,
        batch: &Recorded<'_>,
        source: Source<'_>,
        chunk: &mut Chunk,
    ) -> Run {
        if self.divergence.is_some() {
            return run;
        }
        let divergence = Box::new(batch.left_out());
        let command = Command::Diverge {
            source: source.header.stream.clone(),
            at: divergence.seq,
            kind: divergence.kind,
            point: divergence.point(),
        };
        self.divergence = Some(divergence);
        apply(run, command.into(), batch.at(), chunk)
    }

    /// Decides a batch of the source again, and leaves the source if the result differs.
    fn again(
        &mut self,
        run: Run,
        batch: &Recorded<'_>,
        source: Source<'_>,
        next: usize,
        chunk: &mut Chunk,
    ) -> Result<Run, ReplayError> {
        let (header, plan) = (run.header.clone(), run.plan.clone());
        let divergence = match replay::again(run, batch, source.nodes) {
            Again::Same(decided) => return Ok(chunk.take(decided)),
            Again::Other(divergence) => divergence,
        };
        // The decision consumed the state. It was the fold of the source's log.
        let before = replay::fold(&header, &plan, &source.records[..next])?;
        let command = Command::Diverge {
            source: source.header.stream.clone(),
            at: divergence.seq,
            kind: divergence.kind,
            point: divergence.point(),
        };
        let parted = match before.state {
            RunState::Unborn => begin(before, batch, command, chunk)
                .ok_or_else(|| ReplayError::Diverged(divergence.clone()))?,
            _ => {
                let parted = apply(before, command.into(), batch.at(), chunk);
                observe(parted, batch, source.nodes, chunk)
            }
        };
        self.divergence = Some(divergence);
        Ok(parted)
    }
}

/// The next step of a replay without outside input: computed outcomes, the end of a pause, then
/// delays and waits between attempts in the order of their ends.
fn alone(run: &Run, nodes: &dyn Recompute) -> Option<Command> {
    if let Some(finish) = computed(run, nodes) {
        return Some(finish);
    }
    if let Some(Phase::Paused { .. } | Phase::Draining { .. }) = run.phase() {
        return Some(Command::Resume { reason: None });
    }
    let delays = run
        .timers()
        .filter(|(name, _)| timer::is_delay(name) || timer::is_retry(name));
    let (name, _) = delays.min_by_key(|(_, due)| *due)?;
    let timer = name.to_owned();
    Some(Command::Fire { timer })
}

/// Maximum steps decided ahead to find an effect. A run that computes for longer counts as reaching
/// none.
const MAX_STEPS_AHEAD: usize = 1_000;

/// Whether a run alone would reach an attempt that cannot be computed and has not begun.
fn reaches_effect(run: &Run, nodes: &dyn Recompute) -> bool {
    let live = |run: &Run| -> BTreeSet<AttemptId> {
        let live = run.live_attempts().chain(run.undispatched());
        live.map(|live| live.id).collect()
    };
    let begun = live(run);
    let mut ahead = run.clone();
    for _ in 0..MAX_STEPS_AHEAD {
        let Some(command) = alone(&ahead, nodes) else {
            let is_new = live(&ahead).difference(&begun).next().is_some();
            return is_new || waits_before_effect(&ahead, nodes);
        };
        let at = ahead.head.at;
        match decide(ahead, &command.into(), at) {
            Ok(decided) => ahead = decided.run,
            Err(_) => return false,
        }
    }
    false
}

/// Whether a node waits for an answer from outside that an effect may follow which its source never
/// had.
fn waits_before_effect(run: &Run, nodes: &dyn Recompute) -> bool {
    let plan = &run.plan;
    let Some(facts) = run.facts() else {
        return false;
    };
    let status = |ix: NodeIx| &facts.nodes[ix.index()].status;
    let waits = |ix: &NodeIx| matches!(status(*ix), NodeStatus::Suspended { .. });
    let mut open: Vec<NodeIx> = plan.node_ixs().filter(waits).collect();
    let mut seen: BTreeSet<NodeIx> = open.iter().copied().collect();
    while let Some(ix) = open.pop() {
        let targets = plan.node(ix).outgoing.iter();
        for target in targets.map(|edge| plan.edge(*edge).target) {
            if !seen.insert(target) {
                continue;
            }
            let is_begun = !matches!(status(target), NodeStatus::Idle);
            if !is_begun && recompute::has_effect(run, target, nodes) {
                return true;
            }
            open.push(target);
        }
    }
    false
}

/// The outcome of the first attempt in flight that can be computed.
fn computed(run: &Run, nodes: &dyn Recompute) -> Option<Command> {
    run.live_attempts().find_map(|live| {
        let outcome = recompute::outcome(run, &live.id, nodes)?;
        let attempt = live.id;
        Some(Command::Finish { attempt, outcome })
    })
}

/// Decides the source's observation, if it still applies.
fn observe(run: Run, batch: &Recorded<'_>, nodes: &dyn Recompute, chunk: &mut Chunk) -> Run {
    match batch.command_on(&run, nodes) {
        Some((envelope, at)) => apply(run, envelope, at, chunk),
        None => run,
    }
}

/// Begins a replay that differs from its source in the first batch: the run must exist before its
/// divergence is recorded. `None` if the rules now reject the run itself.
fn begin(unborn: Run, batch: &Recorded<'_>, diverge: Command, chunk: &mut Chunk) -> Option<Run> {
    let (mut envelope, at) = batch.command()?;
    let Command::Create(create) = &mut envelope.command else {
        return None;
    };
    let start = std::mem::replace(&mut create.start, Start::WhenClaimed);
    let created = decide(unborn, &envelope, at).ok()?;
    let parted = apply(chunk.take(created), diverge.into(), at, chunk);
    Some(match start {
        Start::Now => apply(parted, Command::Advance.into(), at, chunk),
        Start::WhenClaimed => parted,
    })
}

/// Ends a replay whose source is exhausted. Remaining waits are cancelled, or the run `fails`.
fn end(mut run: Run, fails: bool, chunk: &mut Chunk) -> Run {
    let at = run.head.at;
    let live = |run: &Run| run.live_attempts().map(|live| live.id).collect::<Vec<_>>();
    for attempt in live(&run) {
        let error = NodeError::new(
            SOURCE_MISSING,
            "the source of this replay has no outcome of the attempt",
        );
        let outcome = Outcome::failed(error.fatal());
        run = apply(run, Command::Finish { attempt, outcome }.into(), at, chunk);
    }
    if !run.is_settled() {
        let last = if fails {
            Command::FailReplay
        } else {
            Command::Cancel {
                reason: Some(SOURCE_MISSING.to_owned()),
                by: None,
                parent: None,
            }
        };
        run = apply(run, last.into(), at, chunk);
    }
    for attempt in live(&run) {
        let outcome = Outcome::Stopped;
        run = apply(run, Command::Finish { attempt, outcome }.into(), at, chunk);
    }
    for child in run.children_to_stop() {
        let settled = Command::ChildSettled {
            child,
            status: ChildStatus::Cancelled,
            variables: Map::new(),
            outputs: Map::new(),
            error: None,
            spent: Default::default(),
        };
        run = apply(run, settled.into(), at, chunk);
    }
    debug_assert!(run.is_settled(), "a replay ends with its source");
    run
}

fn apply(run: Run, envelope: Envelope, at: Timestamp, chunk: &mut Chunk) -> Run {
    match decide(run, &envelope, at) {
        Ok(decided) => chunk.take(decided),
        Err(refused) => refused.run,
    }
}
