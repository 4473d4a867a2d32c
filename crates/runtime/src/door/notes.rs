//! Notes through the door: the end of a run's notes is read, then a note is appended.

use kernel::batch::KeyClaim;
use kernel::ids::{Seq, StreamId};
use kernel::notes::{Annotate, Event, Notes, Rejection};
use kernel::stream::Owner;
use store::{Guard, LeaseChange, ReadFrom, StoreError};

use super::{Door, TRIES};

/// Why an annotation failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotesError {
    /// A rejection by the rules.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Door {
    /// Annotates a run of this owner, under a key if it must be found again. The key's value is the
    /// note's sequence. After a lost race it is decided again on the new state.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn annotate(
        &self,
        run: &StreamId,
        owner: &Owner,
        said: Annotate,
        key: impl Fn(Seq) -> Option<KeyClaim>,
    ) -> Result<Event, NotesError> {
        let mut tries = 0;
        loop {
            let notes = self.end_of_notes(run, owner).await?;
            let claim = key(notes.next_seq());
            let (batch, event) = notes.annotate(said.clone(), claim, self.store.now())?;
            let appended = self
                .store
                .append(batch, Guard::Outside, LeaseChange::Keep)
                .await;
            match appended {
                Ok(_) => {
                    self.hints.outbox();
                    self.hints.grown(&Notes::stream(run), event.seq + 1);
                    return Ok(event);
                }
                Err(StoreError::Conflict(_)) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The annotations of a run, oldest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn notes(&self, run: &StreamId) -> Result<Vec<Event>, StoreError> {
        self.notes_from(run, 0, usize::MAX).await
    }

    /// At most `limit` annotations of a run, from a sequence of its notes.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn notes_from(
        &self,
        run: &StreamId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let stream = Notes::stream(run);
        let loaded = match self.store.load(&stream, ReadFrom::Seq(from), limit).await {
            Ok(loaded) => loaded,
            Err(StoreError::Missing) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let read = |record: &kernel::batch::Record| {
            serde_json::from_slice(&record.content).map_err(|_| damaged(run))
        };
        loaded.records.iter().map(read).collect()
    }

    /// The number of a run's annotations.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn count_notes(&self, run: &StreamId) -> Result<Seq, StoreError> {
        let stream = Notes::stream(run);
        match self.store.load(&stream, ReadFrom::Seq(Seq::MAX), 0).await {
            Ok(head) => Ok(head.next_seq),
            Err(StoreError::Missing) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The end of a run's notes.
    async fn end_of_notes(&self, run: &StreamId, owner: &Owner) -> Result<Notes, StoreError> {
        let stream = Notes::stream(run);
        let head = match self.store.load(&stream, ReadFrom::Seq(Seq::MAX), 0).await {
            Ok(head) => head,
            Err(StoreError::Missing) => return Ok(Notes::unborn(run, owner, self.store.now())),
            Err(error) => return Err(error),
        };
        let last = ReadFrom::Seq(head.next_seq.saturating_sub(1));
        let loaded = self.store.load(&stream, last, usize::MAX).await?;
        let last = loaded.records.last();
        last.and_then(|record| Notes::at_end(loaded.header, record))
            .ok_or_else(|| damaged(run))
    }
}

fn damaged(run: &StreamId) -> StoreError {
    StoreError::Corrupt(format!("the notes about run {run} cannot be read"))
}
