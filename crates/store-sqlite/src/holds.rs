//! Holds: who drives a stream, until when, under which fence.

use std::time::Duration;

use kernel::ids::{HolderId, StreamId};
use kernel::time::Timestamp;
use rusqlite::{Connection, params};
use store::{Conflict, Epoch, Hold, StoreError};

use crate::sql::{Fault, Sql};

/// Whether a live hold of the tenant has a concurrency key.
pub(crate) fn key_in_use(
    conn: &Connection,
    tenant: &str,
    key: &str,
    now: Timestamp,
) -> Result<bool, Fault> {
    conn.any(
        "SELECT 1 FROM streams INDEXED BY streams_exclusive WHERE holder IS NOT NULL
           AND tenant = ?1 AND concurrency_key = ?2 AND expires_at > ?3",
        params![tenant, key, now.0],
    )
}

/// `Missing` where there is no such stream, else what the caller makes of it.
fn refusal(
    conn: &Connection,
    stream: &StreamId,
    of_stream: StoreError,
) -> Result<StoreError, Fault> {
    let known = conn.any("SELECT 1 FROM streams WHERE name = ?1", [stream.as_str()])?;
    Ok(if known {
        of_stream
    } else {
        StoreError::Missing
    })
}

pub(crate) fn claim(
    conn: &Connection,
    stream: &StreamId,
    holder: &HolderId,
    ttl: Duration,
    now: Timestamp,
) -> Result<Hold, Fault> {
    let expires_at = now.plus(ttl);
    let claimed = conn.one(
        "UPDATE streams AS s SET epoch = epoch + 1, holder = ?2, expires_at = ?4
         WHERE name = ?1 AND (holder IS NULL OR holder = ?2 OR expires_at <= ?3)
           AND NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
             WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
               AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id)
         RETURNING epoch",
        params![stream.as_str(), holder.as_str(), now.0, expires_at.0],
        |row| Ok(Epoch(row.get(0)?)),
    )?;
    let (stream_of, holder) = (stream.clone(), holder.clone());
    match claimed {
        Some(epoch) => Ok(Hold {
            stream: stream_of,
            epoch,
            holder,
            expires_at,
        }),
        None => Err(refusal(conn, stream, StoreError::Conflict(Conflict::Held))?.into()),
    }
}

pub(crate) fn renew(
    conn: &Connection,
    hold: &Hold,
    ttl: Duration,
    now: Timestamp,
) -> Result<Result<Hold, StoreError>, Fault> {
    let expires_at = now.plus(ttl);
    let renewed = conn.run(
        "UPDATE streams AS s SET expires_at = ?4
         WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL AND (expires_at > ?3
           OR NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
             WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
               AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id))",
        params![hold.stream.as_str(), hold.epoch.0, now.0, expires_at.0],
    )?;
    Ok(match renewed {
        0 => Err(refusal(conn, &hold.stream, StoreError::Fenced)?),
        _ => Ok(Hold {
            expires_at,
            ..hold.clone()
        }),
    })
}

/// Takes the hold off a stream. Its epoch stays, so that the next one is greater.
pub(crate) fn release(conn: &Connection, stream: &StreamId, epoch: Epoch) -> Result<(), Fault> {
    conn.run(
        "UPDATE streams SET holder = NULL, expires_at = NULL
         WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL",
        params![stream.as_str(), epoch.0],
    )?;
    Ok(())
}
