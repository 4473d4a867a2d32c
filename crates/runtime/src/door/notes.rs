//! Notes through the door: the end of a run's notes is read, then a note is appended.

use kernel::batch::KeyClaim;
use kernel::ids::{Seq, StreamId};
use kernel::notes::{About, Annotate, Event, Notes, Rejection};
use kernel::stream::Owner;
use store::StoreError;

use super::Door;
use crate::logs;

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
        let (_, event) = self
            .transact_stream(|| async {
                let read = logs::end(&*self.store, &Notes::stream(run)).await;
                let notes = logs::or_new(read, || Notes::unborn(run, owner, self.store.now()))?;
                let claim = key(notes.next_seq());
                let (batch, event) = notes.annotate(said.clone(), claim, self.store.now())?;
                Ok::<_, NotesError>((Some(batch), event))
            })
            .await?;
        Ok(event)
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
        logs::events::<About>(&*self.store, &Notes::stream(run), from, limit).await
    }

    /// The number of a run's annotations.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn count_notes(&self, run: &StreamId) -> Result<Seq, StoreError> {
        let stream = Notes::stream(run);
        match self.store.load_head(&stream).await {
            Ok(head) => Ok(head.next_seq),
            Err(StoreError::Missing) => Ok(0),
            Err(error) => Err(error),
        }
    }
}
