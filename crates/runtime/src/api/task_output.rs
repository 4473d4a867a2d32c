//! Output of tasks as workers send it: in chunks. A secret may span two of them.
//!
//! The end of a chunk is held back as long as it may be the beginning of a secret. It is prepended
//! to the next chunk, or written to the log before the task ends. The part held back is stored for
//! every server of the store, because the next chunk or the end may arrive at another one. After a
//! missing chunk the beginning of the first word is unknown, and the word is left out.

use std::borrow::Cow;

use kernel::coordinator::{HandedOut, TaskTerms};
use kernel::ids::Seq;
use kernel::run::event::{OutputChannel, RunEvent};
use kernel::run::{Command, Envelope, Event};
use kernel::sealed::has_sealed;
use serde_json::{Value, json};
use store::{ReadFrom, StoreError};

use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::{CoordinatorName, DoorError};
use crate::output_progress::{self, Known, Place, Progress, Rest};
use crate::run_redactor::RunRedactor;
use crate::seal::Seal;
use crate::sinks::first_chunk;

/// The marker for an omitted beginning of a chunk.
const LEFT_OUT: &str = "[...]";
/// Events at the end of a log searched for a chunk that may already be there.
const LOOKED_THROUGH: u64 = 1_000;
/// Attempts to add a chunk while other servers add chunks of the same output.
const MAX_TRIES: usize = 8;

/// A chunk of a task's output.
#[derive(Clone, Debug)]
pub struct TaskOutput {
    /// The output stream.
    pub channel: OutputChannel,
    /// Its number, as the worker counts; the next one if `None`.
    pub seq: Option<u64>,
    /// The text.
    pub chunk: String,
}

/// The result of an attempt to add a chunk.
enum Taken {
    /// Added; whether a run wants it.
    Done(bool),
    /// Another server added one meanwhile.
    Raced,
}

impl Api {
    /// Writes a chunk of a task's output to the log of the waiting run. Returns whether a run wants
    /// it and it was not too late: not preceded by a later chunk.
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
        let place = Place {
            named,
            assignment,
            channel: output.channel,
        };
        let known = self.engine.inner.held_back.known(&place);
        // Chunks of one output are processed in turn.
        let mut known = known.lock().await;
        for _ in 0..MAX_TRIES {
            let taken = self.take_in(&place, &mut known, &output, (&task, &terms, fence));
            if let Taken::Done(is_wanted) = taken.await? {
                return Ok(is_wanted);
            }
        }
        Err(raced().into())
    }

    async fn take_in(
        &self,
        place: &Place,
        known: &mut Known,
        output: &TaskOutput,
        (task, terms, fence): (&Value, &TaskTerms, u32),
    ) -> Result<Taken, ApiError> {
        let store = &**self.door().store();
        let row = place.row(store).await?;
        let progress = output_progress::read(row.as_ref())?.unwrap_or_default();
        if progress.is_over {
            return Ok(Taken::Done(false));
        }
        // Another server may have added chunks that this one has not seen.
        let is_known = row.is_some() && known.row == row;
        let next = progress.next;
        let seq = output.seq.unwrap_or(next);
        // A repeated chunk. Only the server that added the last one knows whether it is in the log.
        if seq < next && (is_known || seq + 1 < next) {
            // Or a late chunk: later ones are already in the log, so it cannot be inserted.
            return Ok(Taken::Done(!progress.is_missing(seq)));
        }
        let mut missing = progress.missing;
        output_progress::note_missing(&mut missing, next, seq);
        let before = match seq {
            _ if seq == next => progress.rest,
            _ if seq + 1 == next => progress.before,
            _ => Rest::torn(),
        };
        let seal = self.seal_for(&place.named);
        let remembered = known.stream.take();
        let mut stream = match remembered.filter(|_| is_known && seq == next && !before.is_torn) {
            Some(stream) => stream,
            None => {
                let run_redactor = self.run_redactor(&place.named, task.clone())?;
                before.stream(&run_redactor.redactor(), &seal)?
            }
        };
        let piece = if before.is_torn {
            stream
                .resumed(&output.chunk)
                .map(|begin| Cow::Owned(format!("{LEFT_OUT}{begin}")))
        } else {
            Some(Cow::Borrowed(output.chunk.as_str()))
        };
        let (given, rest) = match piece {
            Some(piece) => (stream.push(&piece), Rest::new(&stream, &seal)?),
            // All of it may continue the unknown text.
            None => (String::new(), Rest::torn()),
        };
        let progress = Progress {
            next: seq + 1,
            rest,
            before,
            is_over: false,
            missing,
        };
        let Some(row) = place.put(store, row, &progress).await? else {
            return Ok(Taken::Raced);
        };
        // If writing to the log fails, the row still has the chunk's beginning.
        *known = Known::default();
        let given = if seq < next {
            self.unsaid((terms, fence), place.channel, seq, given)
                .await?
        } else {
            given
        };
        let is_wanted = self.keep(terms, fence, place.channel, seq, given).await?;
        *known = Known {
            row: Some(row),
            stream: Some(stream),
        };
        Ok(Taken::Done(is_wanted))
    }

    /// Writes the parts held back of an ending task to the log.
    pub(super) async fn keep_the_rest(
        &self,
        named: &CoordinatorName,
        handed: &HandedOut,
        (task, terms): (&Value, Option<&TaskTerms>),
    ) -> Result<(), ApiError> {
        let Some(terms) = terms else {
            return Ok(());
        };
        for place in Place::both(named, handed.assignment) {
            if place.row(&**self.door().store()).await?.is_some() {
                let known = self.engine.inner.held_back.known(&place);
                let mut known = known.lock().await;
                self.end(&place, &mut known, (task, terms, handed.fence))
                    .await?;
            }
        }
        Ok(())
    }

    /// Writes the part held back of an output to the log, and closes the output.
    async fn end(
        &self,
        place: &Place,
        known: &mut Known,
        (task, terms, fence): (&Value, &TaskTerms, u32),
    ) -> Result<(), ApiError> {
        let store = &**self.door().store();
        for _ in 0..MAX_TRIES {
            let row = place.row(store).await?;
            let Some(progress) = output_progress::read(row.as_ref())? else {
                return Ok(());
            };
            let Progress {
                next,
                is_over,
                missing,
                ..
            } = progress;
            let last = if is_over {
                progress.before
            } else {
                progress.rest
            };
            let is_told = is_over && known.row == row;
            if last.held.is_none() || is_told {
                return Ok(());
            }
            let is_unsure = is_over;
            let row = if is_over {
                row
            } else {
                let over = Progress {
                    next,
                    rest: Rest::default(),
                    before: last.clone(),
                    is_over: true,
                    missing,
                };
                let put = place.put(store, row, &over).await?;
                if put.is_none() {
                    continue;
                }
                put
            };
            let redactor = self.run_redactor(&place.named, task.clone())?.redactor();
            let mut stream = last.stream(&redactor, &self.seal_for(&place.named))?;
            // The text that followed may be lost.
            let given = if stream.is_partial() {
                LEFT_OUT.to_owned()
            } else {
                stream.finish()
            };
            let given = if is_unsure {
                self.unsaid((terms, fence), place.channel, next, given)
                    .await?
            } else {
                given
            };
            self.keep(terms, fence, place.channel, next, given).await?;
            known.row = row;
            return Ok(());
        }
        Err(raced().into())
    }

    /// Drops the cached outputs of a task.
    pub(super) fn forget_outputs(&self, named: &CoordinatorName, assignment: Seq) {
        for place in Place::both(named, assignment) {
            self.engine.inner.held_back.forget(&place);
        }
    }

    /// The part of a chunk that the log lacks; another server may have written some of it.
    async fn unsaid(
        &self,
        (terms, fence): (&TaskTerms, u32),
        of: OutputChannel,
        seq: u64,
        given: String,
    ) -> Result<String, ApiError> {
        let store = self.door().store();
        let end = match store.load_head(&terms.run).await {
            Ok(loaded) => loaded.next_seq,
            Err(StoreError::Missing) => return Ok(given),
            Err(error) => return Err(error.into()),
        };
        let from = ReadFrom::Seq(end.saturating_sub(LOOKED_THROUGH));
        let looked = store.load(&terms.run, from, usize::MAX).await?;
        let expected = meta(fence, seq);
        let mut said = String::new();
        for record in looked.records {
            let Ok(event) = serde_json::from_slice::<Event>(&record.content) else {
                continue;
            };
            if let RunEvent::OutputChunk {
                node_id,
                visit,
                attempt,
                channel,
                chunk,
                meta: Some(meta),
                ..
            } = event.body
                && (&node_id, visit, attempt)
                    == (
                        &terms.attempt.node,
                        terms.attempt.visit,
                        terms.attempt.attempt,
                    )
                && (channel, &meta) == (of, &expected)
            {
                said.push_str(&chunk);
            }
        }
        let unsaid = given.strip_prefix(&said).map(str::to_owned);
        Ok(unsaid.unwrap_or(given))
    }

    /// Writes text to the log of a run. Returns whether the run wants it.
    async fn keep(
        &self,
        terms: &TaskTerms,
        fence: u32,
        channel: OutputChannel,
        seq: u64,
        mut text: String,
    ) -> Result<bool, ApiError> {
        let meta = meta(fence, seq);
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

    fn seal_for(&self, named: &CoordinatorName) -> Seal {
        Seal::new(self.engine.keyring(), named.tenant.clone())
    }

    /// Redaction for a worker's output: the sensitive values it received, and anything shaped like
    /// a credential.
    pub(super) fn run_redactor(
        &self,
        named: &CoordinatorName,
        mut task: Value,
    ) -> Result<RunRedactor, ApiError> {
        let run_redactor = RunRedactor::default();
        if has_sealed(&task) {
            let seal = self.seal_for(named);
            seal.open_all(&mut task, &mut |clear| run_redactor.learn(clear))
                .map_err(StoreError::unavailable)?;
        }
        Ok(run_redactor)
    }
}

/// The metadata of a chunk in the log.
fn meta(fence: u32, seq: u64) -> Value {
    json!({ "fence": fence, "seq": seq })
}

fn raced() -> StoreError {
    StoreError::Unavailable("other servers are receiving pieces of the same output".to_owned())
}
