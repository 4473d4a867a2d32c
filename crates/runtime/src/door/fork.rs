//! Forks through the door: the source is read, the fork's batches are appended one after the
//! other.

use std::sync::Arc;

use kernel::batch::KeyClaim;
use kernel::fork::{Fork, ForkError, NewFork};
use kernel::ids::{Seq, StreamId};
use kernel::replay::{self, Divergence, ReplayError};
use kernel::run::{Overlay, Rejection, Run};
use kernel::stream::{ForkMode, StreamKind};
use store::{Conflict, Guard, HoldChange, Loaded, ReadFrom, StoreError};

use super::{Door, DoorError};
use crate::engine::new_run_id;
use crate::redact::Redactor;

/// A fork to make.
#[derive(Clone, Debug)]
pub struct ForkOrder {
    /// Replay or branch.
    pub mode: ForkMode,
    /// Events of the source below this sequence are copied. Where it is not said, a branch goes
    /// on from the end of the log and a replay decides everything again.
    pub at: Option<Seq>,
    /// What a branch has other than its source.
    pub overlay: Overlay,
    /// Its id, where the caller must know it beforehand; else a new one is made.
    pub id: Option<StreamId>,
    /// Unique keys to claim with it.
    pub keys: Vec<KeyClaim>,
}

impl ForkOrder {
    /// A fork of which nothing more is said.
    pub fn new(mode: ForkMode, at: Option<Seq>) -> Self {
        Self {
            mode,
            at,
            overlay: Overlay::default(),
            id: None,
            keys: Vec::new(),
        }
    }
}

/// A fork that was made.
#[derive(Debug)]
pub struct Forked {
    /// Its state.
    pub run: Run,
    /// Where a replay left its source, if it did.
    pub divergence: Option<Divergence>,
}

/// Why there is no fork.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForkFailed {
    /// It cannot be made of this source.
    #[error(transparent)]
    Refused(#[from] ForkError),
    /// It could not be written, or the source not be read.
    #[error(transparent)]
    Door(#[from] DoorError),
}

impl From<StoreError> for ForkFailed {
    fn from(error: StoreError) -> Self {
        Self::Door(error.into())
    }
}

impl Door {
    /// Forks a run as its log stands. A replay is whole when this returns; a branch waits in its
    /// queue for whoever drives it.
    ///
    /// A fork of several appends that is cut off by a crash stays behind: a branch that is not
    /// runnable, or a replay that has not ended. Neither has any effect; both can be purged.
    ///
    /// # Errors
    /// `Refused` where there is nothing to fork at the place asked for; the rejection `Existing`
    /// when the id is taken; `KeyTaken` when a key is.
    pub async fn fork(&self, source: &StreamId, new: ForkOrder) -> Result<Forked, ForkFailed> {
        let (source, plan) = self.whole(source).await?;
        let at = new.at.unwrap_or(match new.mode {
            ForkMode::Branch => source.next_seq,
            ForkMode::Replay => 0,
        });
        let mut overlay = new.overlay;
        let said = [&mut overlay.metadata, &mut overlay.configurable];
        for fields in said.into_iter().flatten() {
            Redactor::default().object(fields);
        }
        let wanted = NewFork {
            stream: new.id.unwrap_or_else(new_run_id),
            mode: new.mode,
            at,
            overlay,
        };
        let now = self.store.now();
        let mut fork = Fork::new(source.header, plan, source.records, wanted, now)?;
        let mut keys = new.keys;
        while let Some(batch) = fork.next_batch()? {
            let is_first = batch.first_seq() == 0;
            let batch = batch.claiming(std::mem::take(&mut keys));
            let appended = self
                .store
                .append(batch, Guard::Outside, HoldChange::Keep)
                .await;
            appended.map_err(|error| match error {
                StoreError::Conflict(Conflict::Sequence) if is_first => {
                    DoorError::from(Rejection::Existing)
                }
                error => error.into(),
            })?;
            // Followers of a fork read what it copied from the store.
            self.hints.appended(fork.run(), &[], 0);
        }
        self.hints.queue();
        Ok(Forked {
            run: fork.run().clone(),
            divergence: fork.divergence().cloned(),
        })
    }

    /// Decides a run's log again and gives the state at its end; see [`replay::verify`].
    ///
    /// # Errors
    /// `Missing` for an unknown run; the outer error is the store's, the inner one what was found.
    pub async fn replay(&self, run: &StreamId) -> Result<Result<Run, ReplayError>, StoreError> {
        let (loaded, plan) = self.whole(run).await?;
        let header = Arc::new(loaded.header);
        Ok(replay::verify(&header, &plan, &loaded.records))
    }

    /// A run's whole log and its plan.
    async fn whole(
        &self,
        run: &StreamId,
    ) -> Result<(Loaded, Arc<kernel::definition::Plan>), StoreError> {
        let loaded = self.store.load(run, ReadFrom::Seq(0), usize::MAX).await?;
        let header = &loaded.header;
        let definition = match (header.kind, &header.definition) {
            (StreamKind::Run, Some(definition)) => definition,
            _ => return Err(StoreError::Missing),
        };
        let plans = self.plans.load(&*self.store, header.tenant(), definition);
        let plan = plans.await?;
        Ok((loaded, plan))
    }
}
