//! Following what is said about a run, while it is said.

use std::time::Duration;

use kernel::ids::{Seq, StreamId};
use kernel::notes::{Event, Notes};
use store::StoreError;
use tokio::time::Instant;

use super::Api;
use crate::door::Door;
use crate::hints::Watch;

/// How often notes are looked at without a hint: other processes' hints do not reach us, and
/// hardly any run has notes.
const LOOK: Duration = Duration::from_secs(5);
/// Notes read at a time.
const PAGE: usize = 64;

/// Reads what is said about a run from now on, in order, each once.
pub struct NotesTail {
    door: Door,
    run: StreamId,
    next: Seq,
    hint: Watch,
    /// When to look without a hint.
    due: Instant,
}

impl Api {
    /// Follows what is said about a run from now on. Whether the caller may is for whoever
    /// follows the run itself.
    ///
    /// # Errors
    /// The store's.
    pub async fn follow_notes(&self, run: &StreamId) -> Result<NotesTail, StoreError> {
        let door = self.door().clone();
        // What is said from here on is a change: the hint is there before the store is asked.
        let hint = door.hints().watch(&Notes::stream(run));
        let next = door.count_notes(run).await?;
        Ok(NotesTail {
            door,
            run: run.clone(),
            next,
            hint,
            due: Instant::now() + LOOK,
        })
    }
}

impl NotesTail {
    /// What was said since the last call, as far as it is to be looked for now.
    ///
    /// # Errors
    /// The store's.
    pub async fn said(&mut self) -> Result<Vec<Event>, StoreError> {
        let known = self.hint.look().next_seq;
        if known <= self.next && Instant::now() < self.due {
            return Ok(Vec::new());
        }
        self.due = Instant::now() + LOOK;
        let said = self.door.notes_from(&self.run, self.next, PAGE).await?;
        if let Some(last) = said.last() {
            self.next = last.seq + 1;
        }
        Ok(said)
    }

    /// Waits until this process knows that something was said, or it is time to look.
    pub async fn changed(&mut self) {
        if self.hint.look().next_seq > self.next {
            return;
        }
        tokio::select! {
            _ = self.hint.changed() => {}
            () = tokio::time::sleep_until(self.due) => {}
        }
    }
}
