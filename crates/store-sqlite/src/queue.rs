//! The queue: holders of streams, streams that wait for a worker, when to look again.

use std::collections::HashSet;
use std::time::Duration;

use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;
use rusqlite::{Row, params};
use store::{Conflict, Due, DueAnswer, DueQuery, Epoch, Lease, StoreError};

use crate::rows::id;
use crate::sql::{Db, Fallible};

/// Whether a live lease of the tenant has a concurrency key.
pub(crate) fn key_in_use(db: &Db, tenant: &str, key: &str, now: Timestamp) -> Fallible<bool> {
    db.any(
        "SELECT 1 FROM streams INDEXED BY streams_exclusive WHERE holder IS NOT NULL
           AND tenant = ?1 AND concurrency_key = ?2 AND expires_at > ?3",
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
        "UPDATE streams AS s SET epoch = epoch + 1, holder = ?2, expires_at = ?4
         WHERE name = ?1 AND (holder IS NULL OR holder = ?2 OR expires_at <= ?3)
           AND NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
             WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
               AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id)
         RETURNING epoch",
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
        "UPDATE streams AS s SET expires_at = ?4
         WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL AND (expires_at > ?3
           OR NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
             WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
               AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id))",
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
    let mut next_at = next_expiry(db, queue, now)?;
    while let Some(priority) = next_priority(db, queue, below)? {
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
        db.scan(DUE, at, &mut take)?;
        let timer = db.value(
            "SELECT wake FROM streams INDEXED BY streams_waiting
             WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
               AND runnable = 0 AND wake > ?3 ORDER BY wake LIMIT 1",
            at,
        )?;
        next_at = next_at.into_iter().chain(timer).min();
        below = priority;
    }
    let next_at = next_at.map(Timestamp);
    Ok(DueAnswer { ready, next_at })
}

/// The due streams of one priority, the longest waiting first. Three ordered ranges are merged row
/// by row, so that a full answer ends the scan.
const DUE: &str = include_str!("../schema/due.sql");

/// The next lower priority that any stream of the queue waits with.
fn next_priority(db: &Db, queue: &str, below: i64) -> Fallible<Option<i64>> {
    db.value(
        "SELECT max(priority) FROM (
           SELECT * FROM (SELECT priority FROM streams INDEXED BY streams_waiting
             WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2
             ORDER BY priority DESC LIMIT 1)
           UNION ALL SELECT max(priority) FROM streams INDEXED BY streams_held
             WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2)",
        params![queue, below],
    )
}

/// The earliest time at which a held stream of the queue, or a concurrency key, may become free.
fn next_expiry(db: &Db, queue: &str, now: Timestamp) -> Fallible<Option<i64>> {
    db.value(
        "SELECT min(at) FROM (
           SELECT CASE WHEN expires_at > ?2 THEN expires_at ELSE wake END AS at
           FROM streams INDEXED BY streams_held
           WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1
             AND (expires_at > ?2 OR NOT runnable AND wake > ?2)
           UNION ALL SELECT expires_at FROM streams INDEXED BY streams_exclusive
           WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL AND expires_at > ?2)",
        params![queue, now.0],
    )
}
