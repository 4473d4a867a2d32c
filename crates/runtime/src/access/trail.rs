//! The audit trail: auditable actions and their actors.
//!
//! A batch reports its action through its outbox, and the engine delivers it. A denied action has
//! no batch and is written here.

use std::collections::BTreeMap;

use kernel::audit::{
    self, Actor, AuditAction, AuditMessage, AuditTrail, Entry, Event, Outcome, Subject, Trail,
};
use kernel::digest::Digest;
use kernel::ids::{MessageId, Seq, StreamId, TenantId};
use kernel::stream::{Owner, StreamHeader};
use store::{Conflict, Guard, LeaseChange, Store, StoreError};

use super::authorise::{Action, Denied, Resource};
use super::checkpoints::{INTERVAL_ENTRIES, checkpoint};
use super::principal::Principal;
use crate::keyring::Keyring;
use crate::logs;

/// Outbox messages scanned for entries of trails.
const OUTBOX: usize = 1024;
/// The same denial is recorded once per this many milliseconds, so that repeated attempts do not
/// fill the disk.
const DENIAL_MS: i64 = 60_000;

/// Records an entry on a tenant's trail, once. Returns how many entries of the trail no checkpoint
/// covers.
///
/// # Errors
/// The store's.
pub async fn record(store: &dyn Store, tenant: &TenantId, entry: Entry) -> Result<u64, StoreError> {
    logs::until_first(|| async {
        let trail = end(store, tenant).await?;
        let uncovered = trail.uncovered();
        let batch = trail.record(entry.clone(), store.now());
        match store.append(batch, Guard::Outside, LeaseChange::Keep).await {
            Ok(_) => Ok(uncovered + 1),
            Err(StoreError::Conflict(Conflict::Key { namespace, .. }))
                if namespace == audit::KEY_NAMESPACE =>
            {
                Ok(uncovered)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

/// Records entries on a tenant's trail in as few appends as possible, each once. Returns how many
/// entries of the trail no checkpoint covers.
///
/// With a key a checkpoint is made first if the uncovered entries would exceed the advertised
/// interval. If the key cannot be read the entries are recorded anyway.
///
/// # Errors
/// The store's.
pub async fn record_all(
    store: &dyn Store,
    tenant: &TenantId,
    entries: Vec<Entry>,
    signs: Option<&dyn Keyring>,
) -> Result<u64, StoreError> {
    let mut uncovered = 0;
    if let Some(keyring) = signs {
        // The entry of the last checkpoint counts towards the next.
        let more = entries.len() as u64 + 1;
        if end(store, tenant).await?.uncovered() + more > INTERVAL_ENTRIES
            && let Err(error) = checkpoint(store, keyring, tenant).await
        {
            tracing::warn!(%error, "entries of the audit trail have no checkpoint yet");
        }
    }
    if entries.len() > 1 {
        let trail = end(store, tenant).await?;
        uncovered = trail.uncovered() + entries.len() as u64;
        let batch = trail.record_all(entries.clone(), store.now());
        match store.append(batch, Guard::Outside, LeaseChange::Keep).await {
            Ok(_) => return Ok(uncovered),
            // An entry exists already or another append won: append the entries one by one.
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for entry in entries {
        uncovered = record(store, tenant, entry).await?;
    }
    Ok(uncovered)
}

/// The end of a trail, where the next entry goes.
pub(super) async fn end(store: &dyn Store, tenant: &TenantId) -> Result<AuditTrail, StoreError> {
    let read = logs::end(store, &AuditTrail::stream(tenant)).await;
    logs::or_new(read, || AuditTrail::unborn(tenant, store.now()))
}

/// Delivers the outbox messages for trails: for commands that act without an engine. Concurrent
/// delivery by an engine is harmless.
///
/// # Errors
/// The store's. Undelivered messages wait for the next engine.
pub async fn deliver(store: &dyn Store) -> Result<(), StoreError> {
    let mut waiting: BTreeMap<TenantId, (Vec<Entry>, Vec<u64>)> = BTreeMap::new();
    for message in store.outbox(OUTBOX).await? {
        if let Ok(AuditMessage { audit }) = serde_json::from_slice(&message.command) {
            let (entries, places) = waiting.entry(message.tenant).or_default();
            entries.push(audit);
            places.push(message.place);
        }
    }
    for (tenant, (entries, places)) in waiting {
        record_all(store, &tenant, entries, None).await?;
        store.delivered(&places).await?;
    }
    Ok(())
}

/// Records an action of the principal, if the action left no batch to report it. Recorded once per
/// message id.
///
/// # Errors
/// The store's.
pub async fn record_done(
    store: &dyn Store,
    principal: &Principal,
    (action, on): (AuditAction, Subject),
    message: MessageId,
    request_id: Option<&str>,
) -> Result<(), StoreError> {
    let entry = Entry {
        message,
        decided_at: store.now(),
        action,
        by: principal.actor(request_id),
        on,
        outcome: Outcome::Done,
    };
    record(store, &principal.tenant, entry).await.map(drop)
}

/// A run as the subject of an entry.
pub fn subject(run: &StreamId, owner: &Owner) -> Subject {
    Subject {
        workspace: owner.workspace.clone(),
        ..Subject::new("run", run.as_str())
    }
}

/// Records for the principal's tenant that an action was denied for a missing scope. The same
/// attempt is recorded once a minute, and attempts are named by scope, so that a flood of them does
/// not fill the store. Attempts on other tenants are not recorded here: logs and metrics count
/// them.
///
/// # Errors
/// The store's.
pub async fn record_denial(
    store: &dyn Store,
    principal: &Principal,
    action: Action,
    resource: &Resource,
    denied: Denied,
    request_id: Option<&str>,
) -> Result<(), StoreError> {
    let Denied::Scope { needs } = denied else {
        return Ok(());
    };
    let word = attempt(action);
    let now = store.now();
    let (kind, id) = resource.what.named();
    let minute = now.0.div_euclid(DENIAL_MS);
    let who = (&principal.id, &principal.issuer, &principal.workspace);
    let what = (word, kind, id, &resource.workspace);
    let same = Digest::compute(format!("{who:?}\0{what:?}\0{minute}").as_bytes());
    let entry = Entry {
        message: MessageId::new(format!("denied.{same}")),
        decided_at: now,
        action: word,
        by: principal.actor(request_id),
        on: Subject {
            kind: kind.to_owned(),
            id: id.map(str::to_owned),
            workspace: resource.workspace.clone(),
        },
        outcome: Outcome::Denied {
            needs: needs.to_string(),
        },
    };
    record(store, &principal.tenant, entry).await.map(drop)
}

/// Records the purge of a run for its tenant. Recorded before the purge: if this fails, the run is
/// kept. Recorded once.
///
/// # Errors
/// The store's.
pub async fn record_purge(
    store: &dyn Store,
    run: &StreamHeader,
    by: Actor,
) -> Result<(), StoreError> {
    let entry = Entry {
        message: MessageId::new(format!("purged.{}", run.stream)),
        decided_at: store.now(),
        action: AuditAction::RunPurged,
        by,
        on: subject(&run.stream, &run.owner),
        outcome: Outcome::Done,
    };
    record(store, run.tenant(), entry).await.map(drop)
}

/// Records for a run's tenant that a caller without the right tried to decide one of its gates. The
/// same attempt is recorded at most once per `DENIAL_MS`.
///
/// # Errors
/// The store's.
pub async fn record_not_an_approver(
    store: &dyn Store,
    run: &StreamHeader,
    who: &str,
    needs: &str,
) -> Result<(), StoreError> {
    let now = store.now();
    let minute = now.0.div_euclid(DENIAL_MS);
    let same = format!("{who:?}\0{}\0{needs:?}\0{minute}", run.stream);
    let entry = Entry {
        message: MessageId::new(format!("denied.{}", Digest::compute(same.as_bytes()))),
        decided_at: now,
        action: AuditAction::ApprovalsRespond,
        by: Actor::new(who),
        on: subject(&run.stream, &run.owner),
        outcome: Outcome::Denied {
            needs: needs.to_owned(),
        },
    };
    record(store, run.tenant(), entry).await.map(drop)
}

/// Outbox messages for trails that are not delivered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Waiting entries, as far as they were counted.
    pub entries: usize,
    /// The age of the oldest in milliseconds.
    pub oldest_ms: u64,
}

/// How far trails lag.
///
/// # Errors
/// The store's.
pub async fn lag(store: &dyn Store) -> Result<Lag, StoreError> {
    let mut lag = Lag::default();
    for message in store.outbox(OUTBOX).await? {
        if let Ok(AuditMessage { audit }) = serde_json::from_slice(&message.command) {
            lag.entries += 1;
            lag.oldest_ms = lag.oldest_ms.max(store.now().ms_since(audit.decided_at));
        }
    }
    Ok(lag)
}

/// The trail's name for a denied action: the scope it lacks.
fn attempt(action: Action) -> AuditAction {
    match action {
        Action::ReadWorkflows => AuditAction::WorkflowsRead,
        Action::WriteWorkflows => AuditAction::WorkflowsWrite,
        Action::CreateRun | Action::SaveDocument => AuditAction::RunsCreate,
        Action::ReadRun => AuditAction::RunsRead,
        Action::CancelRun | Action::ControlRun => AuditAction::RunsCancel,
        Action::AnswerRun | Action::AnnotateRun => AuditAction::ApprovalsRespond,
        Action::AnswerForOthers => AuditAction::ApprovalsDelegate,
        Action::ReadArtifact => AuditAction::ArtifactsRead,
        Action::ReadAudit => AuditAction::AuditRead,
        Action::ManageKeys => AuditAction::KeysManage,
        Action::ManageWebhooks => AuditAction::WebhooksManage,
        Action::WorkTasks => AuditAction::WorkersTake,
        Action::ReadQueue => AuditAction::CoordinatorRead,
        Action::CommandQueue => AuditAction::CoordinatorWrite,
    }
}

/// Reads a trail from `from`, oldest first. Empty if the tenant has no trail.
///
/// # Errors
/// The store's; `Corrupt` if an entry cannot be read.
pub async fn read(
    store: &dyn Store,
    tenant: &TenantId,
    from: Seq,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    logs::events::<Trail>(store, &AuditTrail::stream(tenant), from, limit).await
}
