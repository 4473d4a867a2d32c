//! Forks through the door: the source is read, then the fork's batches are appended in order.

use std::sync::Arc;
use std::time::Duration;

use kernel::audit::Actor;
use kernel::batch::KeyClaim;
use kernel::definition::Plan;
use kernel::fork::{Fork, ForkError, NewFork};
use kernel::ids::{HolderId, Seq, StreamId};
use kernel::replay::{self, Divergence, ReplayError};
use kernel::run::{FORKING, Overlay, Rejection, Run};
use kernel::stream::{DefinitionRef, ForkMode, Policy, StreamKind};
use kernel::trace::TraceContext;
use serde::{Deserialize, Serialize};
use store::{Conflict, Guard, Lease, LeaseChange, Loaded, ReadFrom, StoreError};

use super::{Door, DoorError};
use crate::created_record::CreatedRecord;
use crate::redact::Redactor;
use crate::trace_context::hand_on;

/// Why a run was not decided again.
#[derive(Debug, thiserror::Error)]
pub enum NotReplayed {
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log differs from its decisions, or is damaged.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// The reason in the tombstone of a fork that was cut off.
pub const CUT_OFF: &str = "the fork is incomplete";

/// A fork to make.
#[derive(Clone, Debug)]
pub struct ForkSpec {
    /// Replay or branch.
    pub mode: ForkMode,
    /// Events of the source before this sequence are copied. By default a branch continues from the
    /// end of the log, and a replay decides every event again.
    pub at: Option<Seq>,
    /// A branch's changes to its source.
    pub overlay: Overlay,
    /// Another definition of a branch: its document is stored.
    pub definition: Option<(DefinitionRef, Arc<Plan>)>,
    /// The policy of a branch, if it differs from its source's.
    pub policy: Option<Policy>,
    /// The span it continues in, if the request named one.
    pub trace: Option<TraceContext>,
    /// The actor of a branch, if it is not the owner of its source.
    pub by: Option<Actor>,
    /// Its id, if the caller must know it beforehand; otherwise a new one is made.
    pub id: Option<StreamId>,
    /// Needed with an id that is not random: see [`kernel::stream::StreamHeader::nonce`].
    pub nonce: Option<String>,
    /// Unique keys to claim with its last append. One without a value receives a [`ForkAnswer`].
    pub keys: Vec<KeyClaim>,
}

impl ForkSpec {
    /// A fork with defaults for everything else.
    pub fn new(mode: ForkMode, at: Option<Seq>) -> Self {
        Self {
            mode,
            at,
            overlay: Overlay::default(),
            definition: None,
            policy: None,
            trace: None,
            by: None,
            id: None,
            nonce: None,
            keys: Vec::new(),
        }
    }
}

/// A completed fork.
#[derive(Debug)]
pub struct Forked {
    /// Its state.
    pub run: Run,
    /// Where a replay diverged from its source, if it did.
    pub divergence: Option<Divergence>,
    /// The response to the request.
    pub answer: ForkAnswer,
}

/// Why forking failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForkFailed {
    /// The source cannot be forked there.
    #[error(transparent)]
    Refused(#[from] ForkError),
    /// The fork could not be written, or the source could not be read.
    #[error(transparent)]
    Door(#[from] DoorError),
}

/// The response to a fork request, stored under its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkAnswer {
    /// The sequence of the cut.
    pub cut: Seq,
    /// Its status when it was made.
    pub status: String,
    /// Where a replay diverged from its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged_at: Option<Seq>,
}

impl ForkAnswer {
    fn from_fork(fork: &Fork) -> Self {
        let run = fork.run();
        let origin = run.header.origin.as_ref();
        Self {
            cut: origin.map_or(0, |origin| origin.seq),
            status: run.status().to_string(),
            diverged_at: fork.divergence().map(|divergence| divergence.seq),
        }
    }

    fn to_text(&self) -> String {
        serde_json::to_string(self).expect("an answer is always JSON")
    }
}

/// The longest time between two appends of a fork in the making. One that takes longer is treated
/// as cut off.
const HOLD: Duration = Duration::from_secs(60);

fn take(holder: &HolderId) -> LeaseChange {
    LeaseChange::Take {
        holder: holder.clone(),
        ttl: HOLD,
    }
}

fn guard_of(lease: &Lease) -> Guard {
    Guard::Holder(lease.epoch)
}

impl From<StoreError> for ForkFailed {
    fn from(error: StoreError) -> Self {
        Self::Door(error.into())
    }
}

impl Door {
    /// Forks a run at its current log. A replay is complete when this returns; a branch waits in
    /// its queue.
    ///
    /// A fork of several appends is leased to `holder` until it is complete. One that is cut off by
    /// a crash has no effect, and its lease expires: [`erase`](crate::erase) removes it.
    ///
    /// # Errors
    /// `Refused` if the source cannot be forked there; the rejection `Existing` if the id is taken;
    /// `KeyTaken` if a key is.
    pub async fn fork(
        &self,
        source: &StreamId,
        new: ForkSpec,
        holder: &HolderId,
    ) -> Result<Forked, ForkFailed> {
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
        overlay.tags = overlay.tags.map(|tags| Redactor::default().texts(tags));
        let wanted = NewFork {
            stream: new.id.unwrap_or_else(new_run_id),
            nonce: new.nonce,
            mode: new.mode,
            at,
            overlay,
            definition: new.definition,
            policy: new.policy,
            trace: new.trace.map(hand_on),
            by: new.by,
        };
        let now = self.store.now();
        let mut fork = Fork::new(source.header, plan, source.records, wanted, now)?;
        let mut lease = None;
        if let Err(failed) = self.make(&mut fork, new.keys, holder, &mut lease).await {
            if let Some(lease) = &lease {
                self.give_up(lease).await;
            }
            return Err(failed);
        }
        self.hints.queue();
        Ok(Forked {
            run: fork.run().clone(),
            divergence: fork.divergence().cloned(),
            answer: ForkAnswer::from_fork(&fork),
        })
    }

    /// Appends a fork batch by batch.
    async fn make(
        &self,
        fork: &mut Fork,
        mut keys: Vec<KeyClaim>,
        holder: &HolderId,
        lease: &mut Option<Lease>,
    ) -> Result<(), ForkFailed> {
        while let Some(mut batch) = fork.next_batch(self.plans.nodes())? {
            let is_first = batch.first_seq() == 0;
            if fork.is_whole() {
                // A recorded key must name a fork that exists: it is claimed by the last append.
                let said = ForkAnswer::from_fork(fork).to_text();
                let made = CreatedRecord {
                    run: fork.run().header.stream.as_str().into(),
                    said: said.into(),
                };
                let answer = made.to_bytes();
                for claim in &mut keys {
                    claim.answer.get_or_insert_with(|| answer.clone());
                }
                batch = batch.claiming(std::mem::take(&mut keys));
            }
            let (guard, change) = match (&*lease, fork.is_whole()) {
                (None, true) => (Guard::Outside, LeaseChange::Keep),
                (None, false) => (Guard::Outside, take(holder)),
                (Some(lease), true) => (guard_of(lease), LeaseChange::Release),
                (Some(lease), false) => (guard_of(lease), LeaseChange::Keep),
            };
            let appended = self.store.append(batch, guard, change).await;
            let appended = appended.map_err(|error| match error {
                StoreError::Conflict(Conflict::Sequence) if is_first => {
                    DoorError::from(Rejection::Existing)
                }
                error => error.into(),
            })?;
            *lease = appended.lease.or(lease.take());
            if let Some(held) = lease.as_ref().filter(|_| !fork.is_whole()) {
                // A fork that was treated as cut off is not renewed: its next append is fenced.
                self.store.renew(std::slice::from_ref(held), HOLD).await?;
            }
            // Followers of a fork read the copied events from the store.
            self.hints.appended(fork.run(), &[], 0);
            if fork.is_whole() {
                self.hints.meters().forked(fork.run());
            }
        }
        Ok(())
    }

    /// Removes an unfinished fork. If removal fails it is cut off, and maintenance erases it.
    async fn give_up(&self, lease: &Lease) {
        let taken_away = async {
            let row = self.store.load_head(&lease.stream).await?;
            // The append without a response may have been the last one.
            if row.index.summary.get(FORKING).is_some() {
                self.store.release(lease).await?;
                self.store.purge(&lease.stream, CUT_OFF).await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = taken_away.await {
            tracing::warn!(run = %lease.stream, %error, "a failed fork was not removed");
        }
    }

    /// Decides a run's log again and returns its final state; see [`replay::verify`].
    ///
    /// # Errors
    /// `Missing` for an unknown run; the store's, or the verification's.
    pub async fn replay(&self, run: &StreamId) -> Result<Run, NotReplayed> {
        let (loaded, plan) = self.whole(run).await?;
        let header = Arc::new(loaded.header);
        Ok(replay::verify(&header, &plan, &loaded.records)?)
    }

    /// A run's whole log and its plan.
    async fn whole(&self, run: &StreamId) -> Result<(Loaded, Arc<Plan>), StoreError> {
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

/// A new random run id; later ids sort later.
pub fn new_run_id() -> StreamId {
    StreamId::new(format!("run-{}", uuid::Uuid::now_v7()))
}
