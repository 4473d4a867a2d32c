//! The queue: which streams wait for a worker, and when to look again.

use std::collections::HashSet;

use kernel::time::Timestamp;
use rusqlite::{Connection, params};
use store::{Due, DueAnswer, DueQuery};

use crate::holds;
use crate::sql::{Fault, Sql};

pub(crate) fn due(conn: &Connection, query: &DueQuery, now: Timestamp) -> Result<DueAnswer, Fault> {
    let mut ready = Vec::new();
    let mut keys_seen = HashSet::new();
    let mut next_at = next_expiry(conn, &query.queue, now)?;
    let mut below = i64::MAX;
    while let Some(priority) = next_priority(conn, &query.queue, below)? {
        fill(conn, query, priority, now, &mut keys_seen, &mut ready)?;
        let timer = conn.one(
            "SELECT wake FROM streams INDEXED BY streams_waiting
             WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
               AND runnable = 0 AND wake > ?3
             ORDER BY wake LIMIT 1",
            params![query.queue, priority, now.0],
            |row| Ok(row.get(0)?),
        )?;
        next_at = next_at.into_iter().chain(timer).min();
        below = priority;
    }
    Ok(DueAnswer {
        ready,
        next_at: next_at.map(Timestamp),
    })
}

/// The greatest priority below another that any stream of the queue waits with.
fn next_priority(conn: &Connection, queue: &str, below: i64) -> Result<Option<i64>, Fault> {
    let found = conn.one(
        "SELECT max(priority) FROM (
           SELECT * FROM (
             SELECT priority FROM streams INDEXED BY streams_waiting
             WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2
             ORDER BY priority DESC LIMIT 1)
           UNION ALL
           SELECT max(priority) FROM streams INDEXED BY streams_held
           WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2)",
        params![queue, below],
        |row| Ok(row.get(0)?),
    )?;
    Ok(found.flatten())
}

/// Adds what is due at one priority, the longest waiting first. Three ordered ranges are merged
/// row by row, so that a full answer ends the scan.
fn fill(
    conn: &Connection,
    query: &DueQuery,
    priority: i64,
    now: Timestamp,
    keys_seen: &mut HashSet<(String, String)>,
    ready: &mut Vec<Due>,
) -> Result<(), Fault> {
    if ready.len() >= query.limit {
        return Ok(());
    }
    conn.scan(
        "SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_waiting
         WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
           AND runnable = 1
         UNION ALL
         SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_waiting
         WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
           AND runnable = 0 AND wake <= ?3
         UNION ALL
         SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_held
         WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
           AND expires_at <= ?3 AND (runnable OR wake <= ?3)
         ORDER BY wake, name",
        params![query.queue, priority, now.0],
        |row| {
            let (stream, tenant): (String, String) = (row.get(0)?, row.get(1)?);
            if let Some(key) = row.get::<_, Option<String>>(2)? {
                // Looked up once for all streams that share the key.
                if !keys_seen.insert((tenant.clone(), key.clone()))
                    || holds::key_in_use(conn, &tenant, &key, now)?
                {
                    return Ok(true);
                }
            }
            ready.push(Due {
                stream: stream.into(),
                tenant: tenant.into(),
            });
            Ok(ready.len() < query.limit)
        },
    )
}

/// When the next held stream of the queue may become free, or the next concurrency key, which
/// may be held from another queue.
fn next_expiry(conn: &Connection, queue: &str, now: Timestamp) -> Result<Option<i64>, Fault> {
    let found = conn.one(
        "SELECT min(at) FROM (
           SELECT CASE WHEN expires_at > ?2 THEN expires_at ELSE wake END AS at
           FROM streams INDEXED BY streams_held
           WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1
             AND (expires_at > ?2 OR NOT runnable AND wake > ?2)
           UNION ALL
           SELECT expires_at FROM streams INDEXED BY streams_exclusive
           WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL AND expires_at > ?2)",
        params![queue, now.0],
        |row| Ok(row.get(0)?),
    )?;
    Ok(found.flatten())
}
