//! The door to a coordinator.

mod group;

use kernel::batch::Batch;
use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, CoordinatorEvent, LeaseRule, PastDispatch, PastMail,
    Recall, Rejection, Remembered, memory_of_mail, memory_of_request,
};
use kernel::ids::{Seq, StreamId, TenantId};
use store::{KeyRow, StoreError};

use super::Door;
use crate::logs;

pub use group::CoordinatorOrder;

/// Events after a checkpoint before the next one is written.
pub(super) const CHECKPOINT_EVERY: Seq = 64;

/// Why a command to a coordinator had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// A rejection by the rules; nothing was written.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The identity of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorName {
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// Its name within the tenant.
    pub name: String,
    /// The contract it keeps, if this command creates it.
    pub contract: Contract,
}

/// The result of a command to a coordinator.
#[derive(Clone, Debug)]
pub struct CommandResult {
    /// The event: new, or the earlier one of a repeated command.
    pub event: CoordinatorEvent,
    /// The sequence of the event, if it was written.
    pub written: Option<Seq>,
    /// The coordinator afterwards.
    pub after: Coordinator,
}

impl CoordinatorName {
    /// The stream of its log.
    pub fn stream(&self) -> StreamId {
        Coordinator::stream(&self.tenant, &self.name)
    }
}

impl Door {
    /// The current state of a coordinator. One without a log is empty.
    ///
    /// # Errors
    /// `Corrupt` if its log does not fold, or the store's.
    pub async fn coordinator(&self, named: &CoordinatorName) -> Result<Coordinator, StoreError> {
        let (coordinator, _) = self.load_coordinator(named).await?;
        Ok(coordinator)
    }

    /// Reads a coordinator, and how many of its events the checkpoint covers.
    pub(super) async fn load_coordinator(
        &self,
        named: &CoordinatorName,
    ) -> Result<(Coordinator, Seq), StoreError> {
        let read = logs::current(&*self.store, &named.stream()).await;
        logs::or_new(read, || {
            let now = self.store.now();
            let new = Coordinator::unborn(&named.tenant, &named.name, named.contract, now);
            (new, 0)
        })
    }

    /// Sends a command to a coordinator. After a lost race it is decided again on the new state.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn tell_coordinator(
        &self,
        named: &CoordinatorName,
        command: &CoordinatorCommand,
        rule: LeaseRule,
    ) -> Result<CommandResult, CoordinatorError> {
        let (appended, (told, folded)) = self
            .transact_stream(|| async {
                let (coordinator, folded) = self.load_coordinator(named).await?;
                let recall = self.recall(&coordinator, command).await?;
                let decision = coordinator.decide(command, &recall, rule, self.store.now())?;
                let told = CommandResult {
                    event: decision.event,
                    written: decision.batch.as_ref().map(Batch::first_seq),
                    after: decision.after,
                };
                Ok::<_, CoordinatorError>((decision.batch, (told, folded)))
            })
            .await?;
        if appended.is_some() {
            self.checkpoint_coordinator(&told.after, folded).await;
        }
        Ok(told)
    }

    /// Looks up the ids of a command in the unique keys.
    pub(super) async fn recall(
        &self,
        coordinator: &Coordinator,
        command: &CoordinatorCommand,
    ) -> Result<Recall, StoreError> {
        let mut recall = Recall::default();
        for request in command.requests() {
            if coordinator.is_open(request) || request.as_str().contains('\0') {
                continue;
            }
            let known = |what| {
                let stream = &coordinator.header().stream;
                self.memory(
                    coordinator,
                    memory_of_request(stream, what),
                    request.as_str(),
                )
            };
            if known(Remembered::Used).await?.is_none() {
                continue;
            }
            let past = match known(Remembered::Removed).await? {
                Some(_) => PastDispatch::Removed,
                None => {
                    let ended = known(Remembered::Ended).await?;
                    let answer = ended.and_then(|row| row.answer).unwrap_or_default();
                    PastDispatch::from_answer(&answer).ok_or_else(|| {
                        StoreError::Corrupt("a settled request has no end on record".into())
                    })?
                }
            };
            recall.requests.insert(request.clone(), past);
        }
        if let Some(message) = command.mail().filter(|message| !message.contains('\0')) {
            let known = |what| {
                let stream = &coordinator.header().stream;
                self.memory(coordinator, memory_of_mail(stream, what), message)
            };
            recall.mail = match known(Remembered::Used).await? {
                None => None,
                Some(_) => Some(match known(Remembered::Ended).await? {
                    Some(_) => PastMail::Delivered,
                    None => PastMail::Created,
                }),
            };
        }
        Ok(recall)
    }

    async fn memory(
        &self,
        coordinator: &Coordinator,
        namespace: String,
        key: &str,
    ) -> Result<Option<KeyRow>, StoreError> {
        let tenant = coordinator.header().tenant();
        self.store.key(tenant, &namespace, key).await
    }

    async fn checkpoint_coordinator(&self, coordinator: &Coordinator, folded: Seq) {
        self.keep_checkpoint(coordinator, folded, CHECKPOINT_EVERY)
            .await;
    }

    /// Stores a checkpoint once `every` events followed the last one. Returns how many events the
    /// newest checkpoint covers. After a failure the log makes up for it.
    pub(super) async fn keep_checkpoint(
        &self,
        coordinator: &Coordinator,
        folded: Seq,
        every: Seq,
    ) -> Seq {
        let next_seq = coordinator.next_seq();
        if next_seq < folded + every {
            return folded;
        }
        if let Err(error) = logs::checkpoint(&*self.store, coordinator).await {
            let stream = &coordinator.header().stream;
            tracing::debug!(%stream, %error, "a checkpoint was not saved");
        }
        next_seq
    }
}
