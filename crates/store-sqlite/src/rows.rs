//! Reading single rows: lists, keys, messages, tombstones.

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use rusqlite::{Row, params};
use serde_json::json;
use store::{KeyRow, ListQuery, Listed, Outgoing, StoreError, Tombstone};

use crate::sql::{Db, Fallible, clamp, corrupt};

/// A column that holds an id.
pub(crate) fn id<T: From<String>>(row: &Row<'_>, column: usize) -> Fallible<T> {
    Ok(row.get::<_, String>(column)?.into())
}

/// A column that holds JSON.
pub(crate) fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Fallible<T> {
    let read = row.get_ref(column)?.as_str().ok();
    let read = read.and_then(|text| serde_json::from_str(text).ok());
    read.ok_or_else(|| corrupt("a header or an index row was changed after it was written").into())
}

/// Lists rows by the index of the narrowest requested owner; the other conditions filter.
pub(crate) fn list(db: &Db, query: &ListQuery) -> Fallible<Vec<Listed>> {
    let owner = match (&query.parent, &query.tenant) {
        // A parent has few children, a tenant any number: the plus keeps its index out.
        (Some(_), _) => "parent = ?1 AND (?2 IS NULL OR +tenant = ?2)",
        (None, Some(_)) => "?1 IS NULL AND tenant = ?2",
        (None, None) => "?1 IS NULL AND ?2 IS NULL",
    };
    let sql = format!(include_str!("../schema/list.sql"), owner = owner);
    let (parent, tenant) = (query.parent.as_ref(), query.tenant.as_ref());
    let (parent, tenant) = (parent.map(|id| id.as_str()), tenant.map(|id| id.as_str()));
    let (kind, statuses) = (query.kind.map(StreamKind::as_str), json!(query.statuses));
    let (at, name) = match &query.after {
        Some(after) => (after.created_at.0, after.stream.as_str()),
        // After every row: this is the greatest time.
        None => (i64::MAX, "\u{10ffff}"),
    };
    #[rustfmt::skip]
    let params = params![
        parent, tenant, query.workspace, kind, query.subject, query.tag, statuses.to_string(), at,
        name, clamp(query.limit as u64),
    ];
    db.all(&sql, params, |row| {
        Ok(Listed {
            stream: id(row, 0)?,
            tenant: id(row, 1)?,
            next_seq: row.get(2)?,
            index: json(row, 3)?,
        })
    })
}

/// A unique key that is not expired at `now`.
pub(crate) fn key(db: &Db, place: [&str; 3], now: Timestamp) -> Fallible<Option<KeyRow>> {
    let [tenant, namespace, key] = place;
    db.one(
        "SELECT name, digest, answer, keys.expires_at FROM keys LEFT JOIN streams ON id = stream
         WHERE keys.tenant = ?1 AND namespace = ?2 AND key = ?3
           AND (keys.expires_at IS NULL OR keys.expires_at > ?4)",
        params![tenant, namespace, key, now.0],
        |row| {
            Ok(KeyRow {
                stream: row.get::<_, Option<String>>(0)?.map(StreamId::new),
                digest: row.get::<_, Option<_>>(1)?.map(Digest),
                answer: row.get(2)?,
                expires_at: row.get::<_, Option<_>>(3)?.map(Timestamp),
            })
        },
    )
}

/// Replaces the key that the caller saw.
pub(crate) fn put_key(
    db: &Db,
    tenant: &str,
    claim: &KeyClaim,
    seen: Option<&KeyRow>,
    now: Timestamp,
) -> Fallible<()> {
    if key(db, [tenant, &claim.namespace, &claim.key], now)?.as_ref() != seen {
        return Err(StoreError::key_taken(claim).into());
    }
    write_key(db, tenant, claim, None)
}

/// Writes a key, replacing the row of that name if there is one.
pub(crate) fn write_key(db: &Db, of: &str, claim: &KeyClaim, stream: Option<i64>) -> Fallible<()> {
    let (name, key, answer) = (&claim.namespace, &claim.key, &claim.answer);
    let (digest, at) = (claim.digest.map(|d| d.0), claim.expires_at.map(|at| at.0));
    let sql = "INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![of, name, key, stream, digest, answer, at];
    db.run(sql, row).map(drop)
}

/// The oldest messages.
pub(crate) fn outbox(db: &Db, limit: usize) -> Fallible<Vec<Outgoing>> {
    db.all(
        "SELECT place, name, tenant, message, target, command
         FROM outbox JOIN streams ON id = source ORDER BY place LIMIT ?1",
        [clamp(limit as u64)],
        |row| {
            Ok(Outgoing {
                place: row.get(0)?,
                source: id(row, 1)?,
                tenant: id(row, 2)?,
                id: id(row, 3)?,
                target: id(row, 4)?,
                command: row.get(5)?,
            })
        },
    )
}

/// The record of a purged stream.
pub(crate) fn tombstone(db: &Db, stream: &StreamId) -> Fallible<Option<Tombstone>> {
    db.one(
        "SELECT tenant, next_seq, chain, reason, purged_at FROM tombstones WHERE name = ?1",
        [stream.as_str()],
        |row| {
            Ok(Tombstone {
                stream: stream.clone(),
                tenant: id(row, 0)?,
                next_seq: row.get(1)?,
                chain: Digest(row.get(2)?),
                reason: row.get(3)?,
                purged_at: Timestamp(row.get(4)?),
            })
        },
    )
}
