//! Heartbeats of workers: rows next to the log, which they never touch.

use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::coordinator::assignment_name;
use kernel::ids::{Seq, WorkerId};
use kernel::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{Conflict, KeyRow, Store, StoreError};

use crate::door::{CoordinatorName, Door};

/// How long the time of a worker's last contact is kept.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How often that time is written at most.
const SEEN_EVERY: Duration = Duration::from_secs(2);

/// The last heartbeat of an assignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) at: Timestamp,
    /// Whom its worker waits for, and why.
    pub(crate) blocked: Option<(BlockedOn, String)>,
}

/// Whom a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockedOn {
    /// A person.
    User,
    /// Tooling or repair.
    System,
}

fn of_assignments(named: &CoordinatorName) -> String {
    format!("{}/beat", named.stream())
}

fn of_workers(named: &CoordinatorName) -> String {
    format!("{}/worker", named.stream())
}

/// The last heartbeat of an assignment, if it is still valid.
pub(crate) async fn last(
    store: &dyn Store,
    named: &CoordinatorName,
    assignment: Seq,
) -> Result<Option<Beat>, StoreError> {
    let name = assignment_name(assignment);
    let row = store
        .key(&named.tenant, &of_assignments(named), &name)
        .await?;
    Ok(read(row.as_ref()))
}

/// How much older the written heartbeat may be than the last one received: of several heartbeats
/// within this time only the first is written.
pub(crate) fn unwritten(timeout: Duration) -> Duration {
    if timeout >= SEEN_EVERY * 5 {
        SEEN_EVERY
    } else {
        Duration::ZERO
    }
}

/// Writes a heartbeat, unless an equal one was written a moment ago; returns the previous one.
pub(crate) async fn heartbeat(
    store: &dyn Store,
    named: &CoordinatorName,
    assignment: Seq,
    timeout: Duration,
    blocked: Option<(BlockedOn, String)>,
) -> Result<Option<Beat>, StoreError> {
    let heartbeat = Beat {
        at: store.now(),
        blocked,
    };
    let row = Row {
        namespace: of_assignments(named),
        key: assignment_name(assignment),
        ttl: timeout * 2,
    };
    let before = store.key(&named.tenant, &row.namespace, &row.key).await?;
    let last: Option<Beat> = read(before.as_ref());
    let is_told = |last: &Beat| {
        last.blocked == heartbeat.blocked && last.at.plus(unwritten(timeout)) > heartbeat.at
    };
    if last.as_ref().is_some_and(is_told) {
        return Ok(last);
    }
    row.put(store, named, before, &heartbeat).await
}

impl Door {
    /// The time of a worker's last contact, if it is still remembered.
    ///
    /// # Errors
    /// The store's.
    pub async fn worker_seen(
        &self,
        named: &CoordinatorName,
        worker: &WorkerId,
    ) -> Result<Option<Timestamp>, StoreError> {
        last_seen(&**self.store(), named, worker).await
    }
}

/// The time of a worker's last contact.
pub(crate) async fn last_seen(
    store: &dyn Store,
    named: &CoordinatorName,
    worker: &WorkerId,
) -> Result<Option<Timestamp>, StoreError> {
    let row = store
        .key(&named.tenant, &of_workers(named), worker.as_str())
        .await?;
    Ok(read(row.as_ref()))
}

/// Records a contact of a worker, unless one was recorded a moment ago.
pub(crate) async fn seen(
    store: &dyn Store,
    named: &CoordinatorName,
    worker: &WorkerId,
) -> Result<(), StoreError> {
    let now = store.now();
    let row = Row {
        namespace: of_workers(named),
        key: worker.to_string(),
        ttl: REMEMBERED,
    };
    let before = store.key(&named.tenant, &row.namespace, &row.key).await?;
    match read::<Timestamp>(before.as_ref()) {
        Some(at) if at.plus(SEEN_EVERY) > now => Ok(()),
        _ => row.put(store, named, before, &now).await.map(drop),
    }
}

fn read<T: DeserializeOwned>(row: Option<&KeyRow>) -> Option<T> {
    serde_json::from_slice(row?.answer.as_ref()?).ok()
}

/// A key row for the last contact.
struct Row {
    namespace: String,
    key: String,
    ttl: Duration,
}

impl Row {
    async fn put<T: Serialize + DeserializeOwned>(
        &self,
        store: &dyn Store,
        named: &CoordinatorName,
        before: Option<KeyRow>,
        what: &T,
    ) -> Result<Option<T>, StoreError> {
        let answer = read(before.as_ref());
        let claim = KeyClaim {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            digest: None,
            answer: Some(serde_json::to_vec(what).expect("a heartbeat is always JSON")),
            expires_at: Some(store.now().plus(self.ttl)),
        };
        match store.put_key(&named.tenant, claim, before).await {
            // Another heartbeat of the same moment won, and is equal.
            Ok(()) | Err(StoreError::Conflict(Conflict::Key { .. })) => Ok(answer),
            Err(error) => Err(error),
        }
    }
}
