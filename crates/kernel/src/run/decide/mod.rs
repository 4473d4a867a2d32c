//! Decide: from a state and a command to a batch, or to a rejection that writes nothing.
//!
//! One command makes one batch: its own events first, then their consequences (edges decided, nodes
//! started or skipped, the run ended). Every event is folded into the working state as it is
//! emitted, so the returned state is the fold of the written events.

mod attempts;
mod audit;
mod budget;
mod children;
mod confidence;
mod create;
mod ending;
mod failures;
mod fan;
mod fork;
mod gates;
mod governance;
mod interrupts;
mod lifecycle;
mod orchestrate;
mod scheduling;
mod workers;

use crate::run::RunStatus;
use std::collections::BTreeMap;

use crate::batch::{Batch, Message, Record, TimerChange};
use crate::ids::{MessageId, StreamId};
use crate::json;
use crate::run::cause::{Cause, CausedBy, Driving};
use crate::run::command::{Command, Envelope};
use crate::run::event::{Event, RunEvent};
use crate::run::index::RunIndex;
use crate::run::message::RunMessage;
use crate::run::normalise_floats;
use crate::run::rejection::Rejection;
use crate::run::state::{Facts, Run, RunState};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// Maximum number of consequence events in one batch; the rest follows with `Advance`.
pub const MAX_BATCH_EVENTS: usize = 256;

/// The result of a command.
#[derive(Debug)]
pub struct Decided {
    /// It must be durable before it is acted on.
    pub batch: Batch,
    /// The events of the batch.
    pub events: Vec<Event>,
    /// The state after the batch.
    pub run: Run,
}

/// A rejected command, with the unchanged state.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub rejection: Rejection,
    /// The unchanged state.
    pub run: Run,
}

/// Decides a command. `now` should be the clock; it is never taken to be before the last event.
///
/// Takes the state by value and returns it changed, because a copy would cost time and memory in
/// proportion to the run's length.
///
/// # Errors
/// A rejection with the unchanged state.
pub fn decide(run: Run, envelope: &Envelope, now: Timestamp) -> Result<Decided, Box<Refused>> {
    let mut decision = Decision::new(run, envelope, now);
    match decision.dispatch(envelope) {
        Ok(()) if decision.events.is_empty() => Err(Box::new(Refused {
            rejection: Rejection::Idle,
            run: decision.run,
        })),
        Ok(()) => Ok(decision.seal()),
        Err(rejection) => {
            debug_assert!(decision.events.is_empty(), "a rejection writes nothing");
            Err(Box::new(Refused {
                rejection,
                run: decision.run,
            }))
        }
    }
}

/// A decision under construction.
struct Decision {
    run: Run,
    now: Timestamp,
    cause: Option<Cause>,
    driving: Driving,
    events: Vec<Event>,
    /// Number of leading events that are the command's own observation.
    observed: u32,
    timers_before: BTreeMap<String, Timestamp>,
    waited_in: Option<RunStatus>,
    first_of_stream: bool,
    /// Whether another stream sent the command, rather than a client.
    came_by_message: bool,
    outbox: Vec<Message>,
    /// Nodes to judge, in order.
    frontier: std::collections::VecDeque<crate::definition::NodeIx>,
}

impl Decision {
    fn new(run: Run, envelope: &Envelope, now: Timestamp) -> Self {
        let timers_before = owned_timers(&run);
        Self {
            now: now.max(run.head.at),
            cause: Some(Cause {
                command: envelope.command.cause(),
                message: envelope.message.clone(),
                driving: envelope.driving,
            }),
            driving: envelope.driving,
            events: Vec::new(),
            observed: 0,
            timers_before,
            waited_in: waits_in(&run),
            came_by_message: envelope.message.is_some(),
            first_of_stream: matches!(run.state, RunState::Unborn),
            outbox: Vec::new(),
            frontier: Default::default(),
            run,
        }
    }

    fn dispatch(&mut self, envelope: &Envelope) -> Result<(), Rejection> {
        if let Some(wrote) = self.run.newer_engine() {
            return Err(Rejection::NewerEngine { wrote });
        }
        if self.run.is_copying() && !matches!(envelope.command, Command::Fork { .. }) {
            return Err(Rejection::Unborn);
        }
        match (&self.run.state, &envelope.command) {
            (RunState::Unborn, Command::Create(create)) => {
                self.create(create)?;
                self.tell_of_creation(create.request_id.clone());
                return Ok(());
            }
            (RunState::Unborn, _) => return Err(Rejection::Unborn),
            (_, Command::Create(_)) => return Err(Rejection::Existing),
            (RunState::Settled { .. }, _) => {
                return Err(Rejection::Settled {
                    status: self.run.status(),
                });
            }
            (RunState::Active { facts, .. }, _) => {
                if envelope
                    .message
                    .as_ref()
                    .is_some_and(|id| facts.seen.contains(id))
                {
                    return Err(Rejection::Duplicate);
                }
            }
        }
        match &envelope.command {
            Command::Create(_) => Err(Rejection::Existing),
            Command::Advance => self.advance(),
            Command::TakeOver { unrepeatable } => self.take_over(unrepeatable),
            Command::Finish { attempt, outcome } => self.finish(attempt, outcome),
            Command::Output {
                attempt,
                channel,
                chunk,
                is_last,
                meta,
            } => self.output(attempt, *channel, chunk, *is_last, meta.as_ref()),
            Command::Log {
                attempt,
                level,
                message,
            } => self.log(attempt, *level, message),
            Command::Report { report } => self.report_of(report),
            Command::Reserve {
                attempt,
                amounts,
                least,
            } => self.reserve(attempt, amounts, least.as_ref()),
            Command::Fire { timer } => self.fire(timer),
            Command::Cancel { reason, by, parent } => {
                self.cancel(reason.clone(), by.clone(), parent.clone())
            }
            Command::Pause { reason, policy } => self.pause(reason.clone(), *policy),
            Command::Resume { reason } => self.resume(reason.clone()),
            Command::Resolve {
                interrupt,
                value,
                by,
                capacity,
            } => {
                self.resolve(interrupt, value, by.clone(), capacity)?;
                self.tell_of_answer(interrupt, by.as_deref());
                Ok(())
            }
            Command::Signal { name, id, payload } => self.signal(name, id, payload),
            Command::Dispatch { attempt, found } => self.dispatch_child(attempt, found),
            Command::ChildSettled { .. } => self.child_settled(&envelope.command),
            Command::ChildReported { child, status, seq } => {
                self.child_reported(child, status.as_deref(), *seq)
            }
            Command::Fork {
                source,
                at,
                overlay,
            } => self.fork(source, *at, overlay),
            Command::Diverge {
                source,
                at,
                kind,
                point,
            } => {
                self.emit(RunEvent::ReplayDiverged {
                    source_run_id: source.clone(),
                    at_sequence: *at,
                    divergence_kind: *kind,
                    divergence_point: point.clone(),
                });
                Ok(())
            }
            Command::FailReplay => self.fail_replay(),
        }
    }

    /// Adds an event and folds it into the working state.
    fn emit(&mut self, body: RunEvent) {
        let crossed = self.crossed_by(&body);
        if matches!(body, RunEvent::NodeRetried { .. }) {
            // It ends the observation of an outcome: nothing of it may follow.
            crossed.into_iter().for_each(|crossed| self.emit(crossed));
            return self.emit_one(body);
        }
        self.emit_one(body);
        crossed.into_iter().for_each(|crossed| self.emit(crossed));
    }

    fn emit_one(&mut self, mut body: RunEvent) {
        normalise_floats::as_read_back(&mut body);
        let event = Event {
            seq: self.run.head.next_seq,
            at: self.now,
            cause: self.cause.take(),
            body,
        };
        if let Err(bad) = self.run.fold(&event) {
            unreachable!("a decision emitted what the fold refuses: {bad}");
        }
        self.events.push(event);
    }

    /// Marks all events emitted so far as the command's own observation.
    fn end_observation(&mut self) {
        self.observed = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
    }

    /// The facts of a run that was checked to have some.
    fn facts(&self) -> &Facts {
        self.run
            .facts()
            .expect("a run beyond its first event has facts")
    }

    /// The id of the next message of this batch.
    fn next_message(&self) -> MessageId {
        // Named after the batch: a message may be sent before the batch's first event.
        let first_seq = self.run.head.next_seq - self.events.len() as u64;
        let (stream, place) = (&self.run.header.stream, self.outbox.len());
        MessageId::new(format!("{stream}.{first_seq}.{place}"))
    }

    fn send(&mut self, target: &StreamId, header: Option<StreamHeader>, command: Command) {
        let id = self.next_message();
        let message = RunMessage {
            header,
            envelope: Envelope {
                command,
                message: Some(id.clone()),
                driving: Driving::Here,
            },
        };
        let command = serde_json::to_vec(&message).expect("a message is always JSON");
        self.outbox.push(Message {
            id,
            target: target.clone(),
            command,
        });
    }

    /// Encodes the events, extends the hash chain and closes the batch.
    fn seal(mut self) -> Decided {
        self.report_to_parent();
        if let Some(Cause {
            command: CausedBy::Finish { observed, .. },
            ..
        }) = self
            .events
            .first_mut()
            .and_then(|event| event.cause.as_mut())
        {
            *observed = self.observed;
        }
        let mut blobs = Vec::new();
        let mut records = Vec::with_capacity(self.events.len());
        for event in &self.events {
            if let RunEvent::ArtifactCreated { artifact, .. } = &event.body {
                blobs.extend_from_slice(&artifact.parts);
            }
            let content = json::canonical(event);
            let chain = self.run.head.chain.chain(&content);
            self.run.head.chain = chain;
            records.push(Record { content, chain });
        }
        let header = self.first_of_stream.then(|| (*self.run.header).clone());
        if let Some(definition) = header
            .as_ref()
            .and_then(|header| header.definition.as_ref())
        {
            blobs.push(definition.digest);
        }
        let mut timers = timer_changes(&self.timers_before, &owned_timers(&self.run));
        if self.run.is_replay() {
            // A replay is neither woken nor reported to other streams.
            timers.clear();
            self.outbox.clear();
        }
        let batch = Batch {
            stream: self.run.header.stream.clone(),
            tenant: self.run.header.tenant().clone(),
            header,
            first_seq: self.run.head.next_seq - self.events.len() as u64,
            records,
            index: RunIndex::from_run(&self.run),
            timers,
            keys: Vec::new(),
            outbox: self.outbox,
            blobs,
        };
        Decided {
            batch,
            events: self.events,
            run: self.run,
        }
    }
}

/// The status of a run that waits for something outside.
fn waits_in(run: &Run) -> Option<RunStatus> {
    Some(run.status()).filter(|status| status.is_waiting())
}

fn owned_timers(run: &Run) -> BTreeMap<String, Timestamp> {
    run.timers()
        .map(|(name, due)| (name.to_owned(), due))
        .collect()
}

fn timer_changes(
    before: &BTreeMap<String, Timestamp>,
    after: &BTreeMap<String, Timestamp>,
) -> Vec<TimerChange> {
    let gone = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .map(|name| TimerChange::Cancel { name: name.clone() });
    let set = after
        .iter()
        .filter(|(name, due)| before.get(*name) != Some(due))
        .map(|(name, due)| TimerChange::Set {
            name: name.clone(),
            due: *due,
        });
    gone.chain(set).collect()
}
