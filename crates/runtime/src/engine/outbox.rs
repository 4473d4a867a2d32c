//! Delivery of the outbox: at least once, through the same door.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::audit::{AuditMessage, Entry};
use kernel::coordinator::TaskMessage;
use kernel::ids::{StreamId, TenantId};
use kernel::run::event::ChildStatus;
use kernel::run::{Command, NodeError, Rejection, RunMessage};
use kernel::stream::StreamHeader;
use serde::Deserialize;
use serde_json::Map;
use store::{LeaseChange, Outgoing, StoreError};

use crate::access::{checkpoints, trail};
use crate::authority;
use crate::door::DoorError;
use crate::engine::Engine;
use crate::seal::Seal;

/// The payload of a message, by its kind of target.
#[derive(Deserialize)]
#[serde(untagged)]
enum Post {
    Audit(AuditMessage),
    Tasks(Box<TaskMessage>),
    Run(Box<RunMessage>),
}

/// Messages read at a time.
const BATCH: usize = 256;

/// Delivers messages while the engine runs.
pub(crate) async fn deliver(engine: Engine) {
    let drain = engine.inner.shutdown.drain.clone();
    loop {
        let wait = match deliver_some(&engine).await {
            Ok(0) if drain.is_cancelled() => return,
            Ok(BATCH) => Duration::ZERO,
            Ok(_) => engine.inner.options.poll,
            Err(error) => {
                tracing::warn!(%error, "messages could not be delivered; trying again");
                if drain.is_cancelled() {
                    return;
                }
                engine.inner.options.poll
            }
        };
        tokio::select! {
            biased;
            () = drain.cancelled(), if !drain.is_cancelled() => {}
            () = engine.inner.door.hints().wait_outbox() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Why a child will never exist; `None` if it does, or if delivery is retried.
fn unborn(created: &Result<(), DoorError>) -> Option<NodeError> {
    match created {
        Ok(()) | Err(DoorError::Rejected(Rejection::Duplicate | Rejection::Existing)) => None,
        Err(DoorError::Rejected(rejection)) => {
            Some(NodeError::new(rejection.code(), rejection.to_string()))
        }
        Err(DoorError::Store(StoreError::Missing)) => Some(NodeError::new(
            "workflow_not_found",
            "the definition of the child is no longer in the store; register the workflow again",
        )),
        Err(DoorError::Store(_) | DoorError::KeyTaken { .. }) => None,
    }
}

/// Reports a failed creation to the parent: a child that does not exist sends no message.
async fn tell_of_unborn(
    engine: &Engine,
    parent: StreamId,
    child: StreamId,
    error: NodeError,
) -> Result<(), StoreError> {
    let settled = Command::ChildSettled {
        child,
        status: ChildStatus::Failed,
        variables: Map::new(),
        outputs: Map::new(),
        error: Some(error),
        spent: BTreeMap::new(),
    };
    match engine.command(&parent, settled.into()).await {
        Err(DoorError::Store(StoreError::Missing)) => Ok(()),
        Err(DoorError::Store(error)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn deliver_some(engine: &Engine) -> Result<usize, StoreError> {
    let store = engine.inner.door.store();
    let waiting = store.outbox(BATCH).await?;
    let mut delivered = Vec::with_capacity(waiting.len());
    let mut entries: BTreeMap<TenantId, Vec<Entry>> = BTreeMap::new();
    let mut tasks: BTreeMap<(TenantId, String), (Vec<u64>, Vec<TaskMessage>)> = BTreeMap::new();
    for message in &waiting {
        match serde_json::from_slice(&message.command) {
            Ok(Post::Audit(AuditMessage { audit })) => {
                entries
                    .entry(message.tenant.clone())
                    .or_default()
                    .push(audit);
            }
            Ok(Post::Run(run)) => deliver_one(engine, message, *run).await?,
            Ok(Post::Tasks(said)) => {
                let queue = (message.tenant.clone(), said.queue.clone());
                let (places, told) = tasks.entry(queue).or_default();
                places.push(message.place);
                told.push(*said);
                continue;
            }
            Err(error) => {
                tracing::error!(id = %message.id, %error, "a message of another format was dropped");
            }
        }
        delivered.push(message.place);
    }
    // Entries are collected per trail: one append covers many.
    for (tenant, entries) in entries {
        let keyring = &*engine.inner.ports.keyring;
        let uncovered = trail::record_all(&**store, &tenant, entries, Some(keyring)).await?;
        engine.door().hints().audit(uncovered >= checkpoints::SOON);
    }
    // The same for queues.
    let mut failed = Ok(());
    for ((tenant, queue), (places, told)) in tasks {
        let named = authority::named(&tenant, &queue);
        let (done, how) = authority::deliver(engine, &named, &told).await;
        delivered.extend(&places[..done]);
        failed = failed.and(how);
    }
    if !delivered.is_empty() {
        store.delivered(&delivered).await?;
    }
    failed.map(|()| delivered.len())
}

/// Seals a child's outputs before they enter the parent's log: those the parent keeps in sensitive
/// variables, and those the child itself hides, as readers of the parent cannot know which. A
/// parent that hides everything needs no sealing here.
async fn seal_for_parent(
    engine: &Engine,
    parent: &StreamId,
    settled: &mut Command,
) -> Result<(), StoreError> {
    let Command::ChildSettled {
        child,
        variables,
        outputs,
        error,
        ..
    } = settled
    else {
        return Ok(());
    };
    let header = match header_of(engine, parent).await? {
        Some(header) => header,
        // The command itself reports this.
        None => return Ok(()),
    };
    let door = &engine.inner.door;
    let plan = door.plan_of(&header).await?;
    let of_child = match header_of(engine, child).await? {
        Some(header) if !plan.hides_all() => Some(door.plan_of(&header).await?),
        _ => None,
    };
    let of_child = of_child.filter(|child| child.sensitivity.any);
    if !plan.sensitivity.any && of_child.is_none() {
        return Ok(());
    }
    let keyring = engine.inner.ports.keyring.clone();
    let seal = Seal::new(keyring, header.tenant().clone());
    let sealed = seal.of_child(&plan, variables).and_then(|()| {
        let Some(child) = of_child else { return Ok(()) };
        seal.hidden_by(&child, variables, outputs)?;
        match error {
            Some(error) if child.hides_all() => seal.failure(error),
            _ => Ok(()),
        }
    });
    sealed.map_err(StoreError::unavailable)
}

/// The header of a run, if it exists.
async fn header_of(engine: &Engine, run: &StreamId) -> Result<Option<StreamHeader>, StoreError> {
    let store = engine.inner.door.store();
    match store.load_head(run).await {
        Ok(loaded) => Ok(Some(loaded.header)),
        Err(StoreError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Delivers one message. An error means that it must be retried; a message that its target rejects
/// for good counts as delivered.
async fn deliver_one(
    engine: &Engine,
    message: &Outgoing,
    run: RunMessage,
) -> Result<(), StoreError> {
    let RunMessage {
        header,
        mut envelope,
    } = run;
    seal_for_parent(engine, &message.target, &mut envelope.command).await?;
    let result = match (header, &envelope.command) {
        (Some(header), Command::Create(_)) => {
            engine.adopt(&header.stream);
            let door = &engine.inner.door;
            let parent = header.parent.clone().map(|parent| parent.run);
            let child = header.stream.clone();
            let created = door
                .create(header, &envelope, Vec::new(), LeaseChange::Keep)
                .await
                .map(drop);
            if let (Some(parent), Some(error)) = (parent, unborn(&created)) {
                return tell_of_unborn(engine, parent, child, error).await;
            }
            created
        }
        _ => engine.command(&message.target, envelope).await,
    };
    match result {
        Ok(()) | Err(DoorError::Rejected(Rejection::Duplicate | Rejection::Existing)) => Ok(()),
        // A settled run accepts nothing; a purged one does not exist.
        Err(DoorError::Rejected(rejection)) => {
            tracing::debug!(id = %message.id, %rejection, "a message was refused");
            Ok(())
        }
        Err(DoorError::Store(StoreError::Missing)) => Ok(()),
        Err(DoorError::KeyTaken { .. }) => Ok(()),
        Err(DoorError::Store(error)) => Err(error),
    }
}
