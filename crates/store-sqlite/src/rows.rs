//! Reading single rows: lists, keys, messages, tombstones.

use std::collections::BTreeMap;

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};
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

/// Lists rows, newest first.
pub(crate) fn list(db: &Db, query: &ListQuery) -> Fallible<Vec<Listed>> {
    let (sql, params) = list_sql(query);
    db.all(&sql, params_from_iter(params), |row| {
        Ok(Listed {
            stream: id(row, 0)?,
            tenant: id(row, 1)?,
            next_seq: row.get(2)?,
            index: json(row, 3)?,
        })
    })
}

fn list_sql(query: &ListQuery) -> (String, Vec<Value>) {
    let (from, of) = match (&query.tenant, &query.parent) {
        (Some(_), None) => ("listed CROSS JOIN streams ON id = stream", "listed."),
        _ => ("streams CROSS JOIN listed ON stream = id", "streams."),
    };
    let (wanted, mut params) = conditions(query, of);
    params.push(clamp(query.limit as u64).into());
    let sql = "SELECT streams.name, streams.tenant, next_seq, index_row FROM ".to_owned() + from;
    let order = format!("ORDER BY {of}created_at DESC, {of}name DESC LIMIT ?");
    (format!("{sql} WHERE {wanted} {order}"), params)
}

/// Counts rows by status, by an index alone where that is possible.
pub(crate) fn count(db: &Db, query: &ListQuery) -> Fallible<BTreeMap<String, u64>> {
    let (sql, params) = count_sql(query);
    let counts = db.all(&sql, params_from_iter(params), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(counts.into_iter().collect())
}

/// Counts rows by status. The plus: an index that finds few rows beats one in the order of statuses.
fn count_sql(query: &ListQuery) -> (String, Vec<Value>) {
    let is_whole = query.tag.is_none() && query.parent.is_none();
    let join = ["CROSS JOIN streams ON id = stream", ""][usize::from(is_whole)];
    let (wanted, params) = conditions(query, "listed.");
    let sql = format!("SELECT status, count(*) FROM listed {join} WHERE {wanted} GROUP BY +status");
    (sql, params)
}

/// The conditions of a query, and their parameters. A parent has few children, a tenant any number:
/// the plus keeps its index out.
fn conditions(query: &ListQuery, of: &str) -> (String, Vec<Value>) {
    let (mut sql, mut params) = ("TRUE".to_owned(), vec![]);
    if let Some(since) = query.since {
        sql += &format!(" AND {of}created_at >= ?");
        params.push(since.0.into());
    }
    if let Some(after) = &query.after {
        sql += &format!(" AND ({of}created_at, {of}name) < (?, ?)");
        let name = after.stream.as_str().to_owned();
        params.extend([Value::from(after.created_at.0), name.into()]);
    }
    let tenant = ["", "+"][usize::from(query.parent.is_some())].to_owned() + of + "tenant = ?";
    let statuses = (query.statuses.len() > 1).then(|| json!(query.statuses).to_string());
    let status = query.statuses.first().filter(|_| statuses.is_none());
    #[rustfmt::skip]
    let conditions = [
        ("parent = ?", query.parent.as_ref().map(|id| id.as_str())),
        (tenant.as_str(), query.tenant.as_ref().map(|id| id.as_str())),
        ("kind = ?", query.kind.map(StreamKind::as_str)),
        ("subject = ?", query.subject.as_deref()),
        ("status = ?", status.map(String::as_str)),
        ("status IN (SELECT value FROM json_each(?))", statuses.as_deref()),
        ("workspace = ?", query.workspace.as_deref()),
        ("? IN (SELECT value FROM json_each(index_row, '$.tags'))", query.tag.as_deref()),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql = sql + " AND " + condition;
            params.push(value.to_owned().into());
        }
    }
    (sql, params)
}

/// A unique key that is not expired at `now`.
pub(crate) fn key(db: &Db, place: [&str; 3], now: Timestamp) -> Fallible<Option<KeyRow>> {
    let [tenant, namespace, key] = place;
    db.one(
        include_str!("../schema/key.sql"),
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
        include_str!("../schema/outbox.sql"),
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

#[cfg(test)]
#[path = "../tests/unit/rows.rs"]
mod tests;
