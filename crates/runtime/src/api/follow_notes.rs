//! Following the annotations of a run.

use std::time::Duration;

use kernel::ids::{Seq, StreamId};
use kernel::notes::{Event, Notes};
use store::StoreError;
use tokio::time::Instant;

use super::Api;
use crate::door::Door;
use crate::hints::Watch;

/// How often notes are polled: hints do not cross processes, and few runs have notes.
const LOOK: Duration = Duration::from_secs(5);
/// Notes read at a time.
const PAGE: usize = 64;

/// Reads the annotations made from now on, in order, each once.
pub struct NotesTail {
    door: Door,
    run: StreamId,
    next: Seq,
    hint: Watch,
    /// The time of the next poll.
    due: Instant,
}

impl Api {
    /// Follows the annotations of a run from now on. The caller was authorised when it followed the
    /// run itself.
    ///
    /// # Errors
    /// The store's.
    pub async fn follow_notes(&self, run: &StreamId) -> Result<NotesTail, StoreError> {
        let door = self.door().clone();
        // The hint is registered before the store is read: a later note counts as a change.
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
    /// The annotations since the last call, unless it is too early to poll.
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

    /// Waits for a hint of this process or the next poll.
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
