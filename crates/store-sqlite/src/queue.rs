//! The queue: holders of streams, streams that wait for a worker, when to look again.

use std::collections::HashSet;
use std::time::Duration;

use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;
use rusqlite::{Row, params};
use store::{Conflict, Due, DueAnswer, DueQuery, Epoch, Lease, StoreError};

use crate::rows::id;
use crate::sql::{Db, Fallible};

/// The next lower priority that any stream of the queue waits with.
const NEXT_PRIORITY: &str = include_str!("../schema/next_priority.sql");

/// Whether a live lease of the tenant has a concurrency key.
pub(crate) fn key_in_use(db: &Db, tenant: &str, key: &str, now: Timestamp) -> Fallible<bool> {
    db.any(
        include_str!("../schema/key_in_use.sql"),
        params![tenant, key, now.0],
    )
}

pub(crate) fn claim(
    db: &Db,
    stream: &StreamId,
    holder: &HolderId,
    ttl: Duration,
    now: Timestamp,
) -> Fallible<Lease> {
    let (name, expires_at) = (stream.as_str(), now.plus(ttl));
    let epoch = db.value(
        include_str!("../schema/claim.sql"),
        params![name, holder.as_str(), now.0, expires_at.0],
    )?;
    let Some(epoch) = epoch.map(Epoch) else {
        return Err(unless_missing(db, stream, StoreError::Conflict(Conflict::Held))?.into());
    };
    Ok(Lease {
        stream: stream.clone(),
        epoch,
        holder: holder.clone(),
        expires_at,
    })
}

pub(crate) fn renew(
    db: &Db,
    lease: &Lease,
    ttl: Duration,
    now: Timestamp,
) -> Fallible<Result<Lease, StoreError>> {
    let (name, expires_at) = (lease.stream.as_str(), now.plus(ttl));
    let renewed = db.run(
        include_str!("../schema/renew.sql"),
        params![name, lease.epoch.0, now.0, expires_at.0],
    )?;
    let mut lease = lease.clone();
    lease.expires_at = expires_at;
    Ok(match renewed {
        0 => Err(unless_missing(db, &lease.stream, StoreError::Fenced)?),
        _ => Ok(lease),
    })
}

/// Releases a lease. The epoch stays, so that the next one is greater.
pub(crate) fn release(db: &Db, stream: &StreamId, epoch: Epoch) -> Fallible<()> {
    let sql = "UPDATE streams SET holder = NULL, expires_at = NULL
        WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL";
    db.run(sql, params![stream.as_str(), epoch.0]).map(drop)
}

fn unless_missing(db: &Db, stream: &StreamId, refusal: StoreError) -> Fallible<StoreError> {
    let known = db.any("SELECT 1 FROM streams WHERE name = ?1", [stream.as_str()])?;
    Ok(if known { refusal } else { StoreError::Missing })
}

pub(crate) fn due(db: &Db, query: &DueQuery, now: Timestamp) -> Fallible<DueAnswer> {
    let (queue, mut below) = (query.queue.as_str(), i64::MAX);
    let (mut ready, mut keys_seen) = (Vec::new(), HashSet::new());
    let mut next_at = db.value(
        include_str!("../schema/next_expiry.sql"),
        params![queue, now.0],
    )?;
    while let Some(priority) = db.value::<i64>(NEXT_PRIORITY, params![queue, below])? {
        let at = params![queue, priority, now.0];
        let mut take = |row: &Row<'_>| {
            if ready.len() == query.limit {
                return Ok(false);
            }
            let (stream, tenant) = (id(row, 0)?, row.get::<_, String>(1)?);
            // A key is looked up once for all streams that share it.
            let free = match row.get::<_, Option<String>>(2)? {
                Some(key) if keys_seen.insert((tenant.clone(), key.clone())) => {
                    !key_in_use(db, &tenant, &key, now)?
                }
                key => key.is_none(),
            };
            let tenant = tenant.into();
            ready.extend(free.then_some(Due { stream, tenant }));
            Ok(true)
        };
        db.scan(include_str!("../schema/due.sql"), at, &mut take)?;
        let timer = db.value(include_str!("../schema/next_timer.sql"), at)?;
        next_at = next_at.into_iter().chain(timer).min();
        below = priority;
    }
    let next_at = next_at.map(Timestamp);
    Ok(DueAnswer { ready, next_at })
}
