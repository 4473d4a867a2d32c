//! Output of tasks, as workers send it: in pieces, of which two may hold a secret together.
//!
//! The end of a piece is held back, in this process, as long as it may be the beginning of a
//! secret; it goes on top of the next piece, or into the log before the task ends. Where a piece
//! is not the next one of those that came here, because one was lost or another process took it,
//! nobody knows how its first word began: it is left out.

use std::collections::BTreeMap;

use kernel::coordinator::{HandedOut, TaskTerms};
use kernel::ids::{Seq, StreamId};
use kernel::run::event::OutputChannel;
use kernel::run::{Command, Envelope};
use kernel::sealed::has_sealed;
use parking_lot::Mutex;
use serde_json::{Value, json};
use store::StoreError;

use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::{CoordinatorName, DoorError};
use crate::kept_out::KeptOut;
use crate::redact::RedactedStream;
use crate::seal::Seal;
use crate::sinks::first_chunk;

/// Outputs whose end is held back at a time.
const MAX_HELD: usize = 256;
/// What stands for the beginning of a piece that was left out.
const LEFT_OUT: &str = "[...]";

/// A piece of output of a task.
#[derive(Clone, Debug)]
pub struct TaskOutput {
    /// Which output.
    pub channel: OutputChannel,
    /// Its place in the output, as its worker counts; the next one where it does not.
    pub seq: Option<u64>,
    /// The text.
    pub chunk: String,
}

/// Which output of which assignment of which queue.
type Place = (StreamId, Seq, OutputChannel);

/// What is held back of outputs.
#[derive(Default)]
pub(crate) struct HeldBack {
    // Held for a look-up, never across an await.
    outputs: Mutex<BTreeMap<Place, Held>>,
}

/// An output as far as it came here.
struct Held {
    stream: RedactedStream,
    /// The place of the next piece.
    next: u64,
}

impl HeldBack {
    fn take(&self, place: &Place) -> Option<Held> {
        self.outputs.lock().remove(place)
    }

    fn put(&self, place: Place, held: Held) {
        let mut outputs = self.outputs.lock();
        if outputs.len() >= MAX_HELD {
            // Most likely of a task that was lost: its worker does not end it.
            outputs.pop_first();
        }
        outputs.insert(place, held);
    }

    /// What is held back of an assignment.
    fn take_all(&self, stream: &StreamId, assignment: Seq) -> Vec<(OutputChannel, Held)> {
        let channels = [OutputChannel::Stdout, OutputChannel::Stderr];
        let held = channels.map(|channel| {
            let held = self.take(&(stream.clone(), assignment, channel))?;
            Some((channel, held))
        });
        held.into_iter().flatten().collect()
    }
}

impl Api {
    /// Puts a piece of a task's output into the log of the run that waits. Answers whether there
    /// is one that wants it.
    ///
    /// # Errors
    /// As [`Api::heartbeat`].
    pub async fn task_output(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
        output: TaskOutput,
    ) -> Result<bool, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let handed = self.current(&named, assignment, fence).await?;
        let (task, terms) = self.task(&named, &handed).await?;
        let Some(terms) = terms else {
            return Ok(false);
        };
        let held_back = &self.engine.inner.held_back;
        let place = (named.stream(), assignment, output.channel);
        let held = held_back.take(&place);
        let (mut stream, seq, chunk) = match held {
            Some(held) if output.seq.is_some_and(|seq| seq < held.next) => {
                // It was sent again: it is kept, or held back.
                held_back.put(place, held);
                return Ok(true);
            }
            Some(held) if output.seq.is_none_or(|seq| seq == held.next) => {
                (held.stream, held.next, output.chunk)
            }
            _ => {
                let redactor = self.kept_out(&named, task)?.redactor();
                let seq = output.seq.unwrap_or(0);
                let chunk = match seq {
                    0 => output.chunk,
                    _ => match redactor.resumed(&output.chunk) {
                        Some(rest) => format!("{LEFT_OUT}{rest}"),
                        // All of it may go on with what is not known.
                        None => return Ok(true),
                    },
                };
                (redactor.stream(), seq, chunk)
            }
        };
        let given = stream.push(&chunk);
        let is_wanted = self.keep(&terms, fence, output.channel, seq, given).await?;
        let next = seq + 1;
        held_back.put(place, Held { stream, next });
        Ok(is_wanted)
    }

    /// What was held back of a task that ends goes into the log.
    pub(super) async fn keep_the_rest(
        &self,
        named: &CoordinatorName,
        handed: &HandedOut,
        terms: Option<&TaskTerms>,
    ) -> Result<(), ApiError> {
        let held_back = &self.engine.inner.held_back;
        for (channel, mut held) in held_back.take_all(&named.stream(), handed.assignment) {
            let given = held.stream.finish();
            if let Some(terms) = terms.filter(|_| !given.is_empty()) {
                self.keep(terms, handed.fence, channel, held.next, given)
                    .await?;
            }
        }
        Ok(())
    }

    /// Nothing more is said of what was held back.
    pub(super) fn forget_the_rest(&self, named: &CoordinatorName, assignment: Seq) {
        let held_back = &self.engine.inner.held_back;
        drop(held_back.take_all(&named.stream(), assignment));
    }

    /// Puts text into the log of a run. Answers whether it wants it.
    async fn keep(
        &self,
        terms: &TaskTerms,
        fence: u32,
        channel: OutputChannel,
        seq: u64,
        mut text: String,
    ) -> Result<bool, ApiError> {
        let meta = json!({ "fence": fence, "seq": seq });
        while let Some(chunk) = first_chunk(&mut text) {
            let command = Command::Output {
                attempt: terms.attempt.clone(),
                channel,
                chunk,
                is_last: false,
                meta: Some(meta.clone()),
            };
            let told = self.engine.command(&terms.run, Envelope::from(command));
            match told.await {
                Ok(()) => {}
                Err(DoorError::Rejected(_) | DoorError::Store(StoreError::Missing)) => {
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// What must not reach a log of what a worker says: the sensitive values it was given, and
    /// what has the shape of a credential.
    pub(super) fn kept_out(
        &self,
        named: &CoordinatorName,
        mut task: Value,
    ) -> Result<KeptOut, ApiError> {
        let kept_out = KeptOut::default();
        if has_sealed(&task) {
            let seal = Seal::new(self.engine.keyring(), named.tenant.clone());
            seal.open_all(&mut task, &mut |clear| kept_out.learn(clear))
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        }
        Ok(kept_out)
    }
}
