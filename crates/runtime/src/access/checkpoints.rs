//! Checkpoints of audit trails: scheduling and verification.

use std::time::Duration;

use kernel::audit::{Anomaly, AnomalyKind, AuditTrail, Checkpoint, Report, Walk, merkle_root};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId, TenantId};
use kernel::registry::Registry;
use kernel::stream::StreamKind;
use store::{Guard, LeaseChange, ListCursor, ListQuery, ReadFrom, Store, StoreError};

use super::signing::{Signer, is_signed};
use super::trail;
use crate::engine::Engine;
use crate::keyring::Keyring;
use crate::logs;

/// Entries between two checkpoints at most, as advertised. `SOON` keeps well below it.
pub const INTERVAL_ENTRIES: u64 = 1_000;
/// The longest time an entry waits for a checkpoint while an engine runs.
pub const INTERVAL: Duration = Duration::from_secs(300);
/// Entries after which a checkpoint is made at once.
pub(crate) const SOON: u64 = 256;
/// How long an entry waits for further ones before a checkpoint is made.
const LINGER: Duration = Duration::from_secs(2);
/// How often trails are polled for entries without a hint: those of other processes, and uses and
/// rejections of keys, recorded at most once an hour and once a minute each.
const LOOK: Duration = Duration::from_secs(10);
/// Entries read at a time.
const PAGE: usize = 1_000;

/// Makes checkpoints while an engine runs: shortly after an entry, at once after many, and
/// periodically for entries of other processes.
pub fn keep(engine: &Engine) {
    let engine = engine.clone();
    engine.inner.tasks.clone().spawn(async move {
        let drain = engine.inner.shutdown.drain.clone();
        let hints = engine.door().hints().clone();
        loop {
            let keyring = &*engine.inner.ports.keyring;
            if let Err(error) = cover_all(&**engine.door().store(), keyring).await {
                tracing::warn!(%error, "no checkpoint of the audit trail was written; trying again");
            }
            if drain.is_cancelled() {
                return;
            }
            let is_many = tokio::select! {
                biased;
                () = drain.cancelled() => true,
                is_many = hints.wait_audit() => is_many,
                () = tokio::time::sleep(LOOK) => true,
            };
            let linger = async { while !hints.wait_audit().await {} };
            if !is_many {
                tokio::select! {
                    biased;
                    () = drain.cancelled() => {}
                    () = linger => {}
                    () = tokio::time::sleep(LINGER) => {}
                }
            }
        }
    });
}

/// Makes a checkpoint for every trail with uncovered entries.
async fn cover_all(store: &dyn Store, keyring: &dyn Keyring) -> Result<(), StoreError> {
    let mut query = ListQuery {
        kind: Some(StreamKind::Audit),
        limit: PAGE,
        ..ListQuery::default()
    };
    loop {
        let rows = store.list(query.clone()).await?;
        for row in &rows {
            if AuditTrail::uncovered_of(&row.index) > 0 {
                checkpoint(store, keyring, &row.tenant).await?;
            }
        }
        let Some(last) = rows.last().filter(|_| rows.len() == PAGE) else {
            return Ok(());
        };
        query.after = Some(ListCursor {
            created_at: last.index.created_at,
            stream: last.stream.clone(),
        });
    }
}

/// Signs the uncovered entries of a trail. Returns whether there were any.
///
/// # Errors
/// The store's; `Unavailable` without a key.
pub async fn checkpoint(
    store: &dyn Store,
    keyring: &dyn Keyring,
    tenant: &TenantId,
) -> Result<bool, StoreError> {
    let signer = Signer::from_keyring(keyring);
    let signer = signer.map_err(StoreError::unavailable)?;
    logs::until_first(|| async {
        let end = trail::end(store, tenant).await?;
        if end.uncovered() == 0 {
            return Ok(false);
        }
        let root = root(store, tenant, end.covered_to(), end.next_seq()).await?;
        let batch = end.checkpoint(root, signer.sign(&root), signer.key_id(), store.now());
        let appended = store.append(batch, Guard::Outside, LeaseChange::Keep);
        appended.await.map(|_| true)
    })
    .await
}

/// The Merkle root over a stretch of a trail.
async fn root(
    store: &dyn Store,
    tenant: &TenantId,
    from: Seq,
    to: Seq,
) -> Result<Digest, StoreError> {
    let stream = AuditTrail::stream(tenant);
    let mut leaves = Vec::new();
    let mut next = from;
    while next < to {
        let limit = usize::try_from(to - next).unwrap_or(PAGE).min(PAGE);
        let page = store.load(&stream, ReadFrom::Seq(next), limit).await?;
        if page.records.is_empty() {
            break;
        }
        next += page.records.len() as u64;
        leaves.extend(
            page.records
                .iter()
                .map(|record| Digest::compute(&record.content)),
        );
    }
    merkle_root(&leaves).ok_or_else(|| {
        StoreError::Corrupt(format!(
            "the audit trail of tenant {tenant} has lost entries"
        ))
    })
}

/// The keys that verify checkpoints.
pub enum Keys<'a> {
    /// The keyring of the instance, by the key ids in the checkpoints.
    Own(&'a dyn Keyring),
    /// A single public key.
    One(super::signing::PublicKey),
}

impl Keys<'_> {
    /// Whether one of the keys signed the checkpoint.
    pub fn have_signed(&self, checkpoint: &Checkpoint) -> bool {
        match self {
            Self::Own(keyring) => is_signed(*keyring, checkpoint),
            Self::One(key) => key.has_signed(checkpoint),
        }
    }
}

/// Recomputes a stretch of a trail from the stored entries. Also returns the trail's length.
///
/// # Errors
/// The store's.
pub async fn verify(
    store: &dyn Store,
    keys: &Keys<'_>,
    tenant: &TenantId,
    from: Seq,
    to: Seq,
) -> Result<(Report, Seq), StoreError> {
    let stream = AuditTrail::stream(tenant);
    let head = match store.load_head(&stream).await {
        Ok(head) => head,
        Err(StoreError::Missing) => {
            let mut report = Report::default();
            if ought_to_be_there(store, tenant).await? {
                let kind = AnomalyKind::Missing;
                report.anomalies.push(Anomaly { at: from, kind });
            }
            return Ok((report, 0));
        }
        Err(error) => return Err(error),
    };
    let end = head.next_seq;
    // Start far enough back to include the checkpoint before the range.
    let begin = from.saturating_sub(INTERVAL_ENTRIES + SOON).min(end);
    let chain = match begin.checked_sub(1) {
        None => Some(head.header.genesis),
        Some(before) => {
            let page = store.load(&stream, ReadFrom::Seq(before), 1).await?;
            page.records.first().map(|record| record.chain)
        }
    };
    let mut walk = Walk::new(begin, from, to, chain, |it| keys.have_signed(it));
    // One more entry: the checkpoint that covers the last entry follows it.
    let stop = to.saturating_add(2).min(end);
    let mut next = begin;
    while next < stop {
        let limit = usize::try_from(stop - next).unwrap_or(PAGE).min(PAGE);
        let page = match store.load(&stream, ReadFrom::Seq(next), limit).await {
            Ok(page) => page,
            // The page has a damaged entry: read the entries one by one to show the intact ones.
            Err(StoreError::Corrupt(_)) if limit > 1 => {
                walk_one_by_one(store, &stream, next, limit, &mut walk).await?;
                next += limit as u64;
                continue;
            }
            Err(error @ StoreError::Corrupt(_)) => {
                lose(&mut walk, &error);
                next += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        if page.records.is_empty() {
            break;
        }
        for record in &page.records {
            walk.entry(&record.content, Some(record.chain));
        }
        next += page.records.len() as u64;
    }
    Ok((walk.finish(stop), end))
}

async fn walk_one_by_one<F: FnMut(&Checkpoint) -> bool>(
    store: &dyn Store,
    stream: &StreamId,
    from: Seq,
    count: usize,
    walk: &mut Walk<F>,
) -> Result<(), StoreError> {
    for seq in from..from + count as u64 {
        match store.load(stream, ReadFrom::Seq(seq), 1).await {
            Ok(page) => match page.records.first() {
                Some(record) => walk.entry(&record.content, Some(record.chain)),
                None => walk.missing(),
            },
            Err(error @ StoreError::Corrupt(_)) => lose(walk, &error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Skips an entry that the store cannot return.
fn lose<F: FnMut(&Checkpoint) -> bool>(walk: &mut Walk<F>, error: &StoreError) {
    if error.is_gap() {
        walk.missing()
    } else {
        walk.damaged()
    }
}

/// Whether a tenant without a trail has auditable history. Its registry reports every change
/// through the outbox: once that is empty, a trail must exist.
async fn ought_to_be_there(store: &dyn Store, tenant: &TenantId) -> Result<bool, StoreError> {
    let registry = Registry::stream(tenant);
    match store.load_head(&registry).await {
        Ok(_) => Ok(trail::lag(store).await?.entries == 0),
        Err(StoreError::Missing) => Ok(false),
        Err(error) => Err(error),
    }
}
