//! Delivery of the outbox: at least once, through the same door.

use std::time::Duration;

use kernel::audit::AuditMessage;
use kernel::run::{Command, Rejection, RunMessage};
use serde::Deserialize;
use store::{HoldChange, Outgoing, StoreError};

use crate::access::trail;
use crate::door::DoorError;
use crate::engine::Engine;

/// What a message says, by whom it is for.
#[derive(Deserialize)]
#[serde(untagged)]
enum Post {
    Audit(AuditMessage),
    Run(Box<RunMessage>),
}

/// Messages read at a time.
const BATCH: usize = 256;

/// Delivers messages for as long as the engine runs.
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

async fn deliver_some(engine: &Engine) -> Result<usize, StoreError> {
    let store = engine.inner.door.store();
    let waiting = store.outbox(BATCH).await?;
    let mut delivered = Vec::with_capacity(waiting.len());
    for message in &waiting {
        deliver_one(engine, message).await?;
        delivered.push(message.place);
    }
    if !delivered.is_empty() {
        store.delivered(&delivered).await?;
    }
    Ok(delivered.len())
}

/// Delivers one message. An error means that it must be tried again; a message its target
/// refuses for good is delivered all the same.
async fn deliver_one(engine: &Engine, message: &Outgoing) -> Result<(), StoreError> {
    let RunMessage { header, envelope } = match serde_json::from_slice(&message.command) {
        Ok(Post::Run(message)) => *message,
        Ok(Post::Audit(AuditMessage { audit })) => {
            let store = engine.inner.door.store();
            return trail::record(&**store, &message.tenant, audit).await;
        }
        Err(error) => {
            tracing::error!(id = %message.id, %error, "a message of another format was dropped");
            return Ok(());
        }
    };
    let result = match (header, &envelope.command) {
        (Some(header), Command::Create(_)) => {
            engine.adopt(&header.stream);
            let door = &engine.inner.door;
            door.create(header, &envelope, Vec::new(), HoldChange::Keep)
                .await
                .map(drop)
        }
        _ => engine.command(&message.target, envelope).await,
    };
    match result {
        Ok(()) | Err(DoorError::Rejected(Rejection::Duplicate | Rejection::Existing)) => Ok(()),
        // A settled run takes nothing more; a purged one is not there.
        Err(DoorError::Rejected(rejection)) => {
            tracing::debug!(id = %message.id, %rejection, "a message was refused");
            Ok(())
        }
        Err(DoorError::Store(StoreError::Missing)) => Ok(()),
        Err(DoorError::KeyTaken { .. }) => Ok(()),
        Err(DoorError::Store(error)) => Err(error),
    }
}
