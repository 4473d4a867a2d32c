//! The door to a coordinator.

mod group;

use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, CoordinatorEvent, LeaseRule, PastDispatch, PastMail,
    Recall, Rejection, Remembered, memory_of_mail, memory_of_request,
};
use kernel::ids::{Seq, StreamId, TenantId};
use store::{Checkpoint, Conflict, Guard, KeyRow, LeaseChange, ReadFrom, StoreError};

use super::{Door, TRIES};

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
        let stream = named.stream();
        let loaded = match self.newest(&stream).await {
            Ok(loaded) => loaded,
            Err(StoreError::Missing) => {
                let now = self.store.now();
                let unborn = Coordinator::unborn(&named.tenant, &named.name, named.contract, now);
                return Ok((unborn, 0));
            }
            Err(error) => return Err(error),
        };
        let saved = match &loaded.checkpoint {
            None => Some(Coordinator::at_start(loaded.header.clone())),
            Some(Checkpoint {
                next_seq,
                chain,
                state,
            }) => Coordinator::from_checkpoint(loaded.header.clone(), *next_seq, *chain, state),
        };
        let (mut coordinator, records) = match saved {
            Some(coordinator) => (coordinator, loaded.records),
            // A checkpoint of another build: fold the whole log.
            None => {
                let whole = self
                    .store
                    .load(&stream, ReadFrom::Seq(0), usize::MAX)
                    .await?;
                (Coordinator::at_start(whole.header), whole.records)
            }
        };
        let folded = coordinator.next_seq();
        for record in &records {
            coordinator
                .fold_content(&record.content)
                .ok_or_else(|| StoreError::Corrupt(format!("the log of {stream} does not fold")))?;
        }
        Ok((coordinator, folded))
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
        let mut tries = 0;
        loop {
            let (coordinator, folded) = self.load_coordinator(named).await?;
            let recall = self.recall(&coordinator, command).await?;
            let decision = coordinator.decide(command, &recall, rule, self.store.now())?;
            let Some(batch) = decision.batch else {
                return Ok(CommandResult {
                    event: decision.event,
                    written: None,
                    after: decision.after,
                });
            };
            let seq = batch.first_seq();
            let has_messages = !batch.outbox().is_empty();
            let appended = self
                .store
                .append(batch, Guard::Outside, LeaseChange::Keep)
                .await;
            match appended {
                Ok(_) => {
                    let after = &decision.after;
                    self.hints.grown(&after.header().stream, after.next_seq());
                    if has_messages {
                        self.hints.outbox();
                    }
                    self.checkpoint_coordinator(&decision.after, folded).await;
                    return Ok(CommandResult {
                        event: decision.event,
                        written: Some(seq),
                        after: decision.after,
                    });
                }
                // A taken key: another command used the id after it was looked up.
                Err(StoreError::Conflict(Conflict::Sequence | Conflict::Key { .. }))
                    if tries < TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
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

    /// Writes a checkpoint if enough events follow the last one. A failure is harmless: the log is
    /// complete.
    async fn checkpoint_coordinator(&self, coordinator: &Coordinator, folded: Seq) {
        if coordinator.next_seq() - folded < CHECKPOINT_EVERY {
            return;
        }
        let checkpoint = Checkpoint {
            next_seq: coordinator.next_seq(),
            chain: coordinator.chain(),
            state: coordinator.checkpoint(),
        };
        let stream = &coordinator.header().stream;
        if let Err(error) = self.store.put_checkpoint(stream, checkpoint).await {
            tracing::debug!(%stream, %error, "a checkpoint was not kept");
        }
    }
}
