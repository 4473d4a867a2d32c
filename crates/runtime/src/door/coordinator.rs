//! The door to a coordinator.

mod group;

use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, CoordinatorEvent, LeaseRule, PastDispatch, PastMail,
    Recall, Rejection, Remembered, memory_of_mail, memory_of_request,
};
use kernel::ids::{Seq, StreamId, TenantId};
use store::{Checkpoint, Conflict, Guard, HoldChange, KeyRow, ReadFrom, StoreError};

use super::{Door, TRIES};

pub use group::CoordinatorOrder;

/// How many events are folded again at most before the state is kept beside the log.
pub(super) const CHECKPOINT_EVERY: Seq = 64;

/// Why a command to a coordinator had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The rules refuse it; nothing was written.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which coordinator is meant.
#[derive(Clone, Debug)]
pub struct CoordinatorName {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name within the tenant.
    pub name: String,
    /// The rules it keeps if this is the first it hears.
    pub contract: Contract,
}

/// What a command to a coordinator came to.
#[derive(Clone, Debug)]
pub struct Told {
    /// The answer: what happened, or what had happened already.
    pub event: CoordinatorEvent,
    /// The place of the event, where it was written.
    pub written: Option<Seq>,
    /// The coordinator after it.
    pub after: Coordinator,
}

impl CoordinatorName {
    /// The stream of its log.
    pub fn stream(&self) -> StreamId {
        Coordinator::stream(&self.tenant, &self.name)
    }
}

impl Door {
    /// Reads a coordinator as it stands. One that was never told anything stands empty.
    ///
    /// # Errors
    /// `Corrupt` when its log does not fold, or the store's.
    pub async fn coordinator(&self, named: &CoordinatorName) -> Result<Coordinator, StoreError> {
        let (coordinator, _) = self.load_coordinator(named).await?;
        Ok(coordinator)
    }

    /// Reads a coordinator, and says how much of its log is folded in the checkpoint beside it.
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
            // A checkpoint of another build: the log says it all.
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

    /// Tells a coordinator something. A lost race is decided again on what won.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn tell_coordinator(
        &self,
        named: &CoordinatorName,
        command: &CoordinatorCommand,
        rule: LeaseRule,
    ) -> Result<Told, CoordinatorError> {
        let mut tries = 0;
        loop {
            let (coordinator, folded) = self.load_coordinator(named).await?;
            let recall = self.recall(&coordinator, command).await?;
            let decision = coordinator.decide(command, &recall, rule, self.store.now())?;
            let Some(batch) = decision.batch else {
                return Ok(Told {
                    event: decision.event,
                    written: None,
                    after: decision.after,
                });
            };
            let seq = batch.first_seq();
            let has_messages = !batch.outbox().is_empty();
            let appended = self
                .store
                .append(batch, Guard::Outside, HoldChange::Keep)
                .await;
            match appended {
                Ok(_) => {
                    let after = &decision.after;
                    self.hints.grown(&after.header().stream, after.next_seq());
                    if has_messages {
                        self.hints.outbox();
                    }
                    self.checkpoint_coordinator(&decision.after, folded).await;
                    return Ok(Told {
                        event: decision.event,
                        written: Some(seq),
                        after: decision.after,
                    });
                }
                // A taken key means that another has used the id since it was looked up.
                Err(StoreError::Conflict(Conflict::Sequence | Conflict::Key { .. }))
                    if tries < TRIES =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What the unique keys say of the ids a command names.
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

    /// Keeps the state beside the log, once enough lies behind the last time. One that could not
    /// be kept is made up for by the log.
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
