//! Reading everything that is a row: lists, keys, messages, tombstones.

use kernel::batch::IndexRow;
use kernel::digest::Digest;
use kernel::ids::{StreamId, TenantId};
use kernel::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use store::{KeyRow, ListQuery, Listed, Outgoing, StoreError, Tombstone};

use crate::sql::{Fault, Sql, clamp, corrupt};

pub(crate) fn index(json: &str) -> Result<IndexRow, StoreError> {
    serde_json::from_str(json).map_err(|_| corrupt("an index row is not what was written"))
}

/// Lists rows along the index of the narrowest owner asked for; the rest filters.
pub(crate) fn list(conn: &Connection, query: &ListQuery) -> Result<Vec<Listed>, Fault> {
    let mut sql = "SELECT name, tenant, next_seq, index_row FROM streams WHERE true".to_owned();
    let mut values: Vec<Value> = Vec::new();
    let mut only = |condition: &str, asked: Option<&str>| {
        if let Some(asked) = asked {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(Value::Text(asked.into()));
        }
    };
    only("parent = ?", query.parent.as_ref().map(AsRef::as_ref));
    // A parent has few children, a tenant any number: the plus keeps its index out.
    let of_tenant = if query.parent.is_some() {
        "+tenant = ?"
    } else {
        "tenant = ?"
    };
    only(of_tenant, query.tenant.as_ref().map(AsRef::as_ref));
    only("index_row ->> 'workspace' = ?", query.workspace.as_deref());
    only(
        "index_row ->> 'kind' = ?",
        query.kind.map(|kind| kind.as_str()),
    );
    only("index_row ->> 'subject' = ?", query.subject.as_deref());
    only(
        "? IN (SELECT value FROM json_each(index_row, '$.tags'))",
        query.tag.as_deref(),
    );
    let statuses = serde_json::json!(query.statuses).to_string();
    let statuses = (!query.statuses.is_empty()).then_some(statuses.as_str());
    only(
        "index_row ->> 'status' IN (SELECT value FROM json_each(?))",
        statuses,
    );
    if let Some(after) = &query.after {
        sql.push_str(" AND (created_at, name) < (?, ?)");
        values.push(Value::Integer(after.created_at.0));
        values.push(Value::Text(after.stream.to_string()));
    }
    sql.push_str(" ORDER BY created_at DESC, name DESC LIMIT ?");
    values.push(Value::Integer(clamp(query.limit as u64)));
    conn.all(&sql, params_from_iter(values), |row| {
        Ok(Listed {
            stream: row.get::<_, String>(0)?.into(),
            tenant: row.get::<_, String>(1)?.into(),
            next_seq: row.get(2)?,
            index: index(row.get_ref(3)?.as_str()?)?,
        })
    })
}

/// A unique key that is taken at a time.
pub(crate) fn key(
    conn: &Connection,
    tenant: &TenantId,
    namespace: &str,
    key: &str,
    now: Timestamp,
) -> Result<Option<KeyRow>, Fault> {
    conn.one(
        "SELECT name, digest, answer, keys.expires_at FROM keys JOIN streams ON id = stream
         WHERE keys.tenant = ?1 AND namespace = ?2 AND key = ?3
           AND (keys.expires_at IS NULL OR keys.expires_at > ?4)",
        params![tenant.as_str(), namespace, key, now.0],
        |row| {
            Ok(KeyRow {
                stream: row.get::<_, String>(0)?.into(),
                digest: row.get::<_, Option<_>>(1)?.map(Digest),
                answer: row.get(2)?,
                expires_at: row.get::<_, Option<_>>(3)?.map(Timestamp),
            })
        },
    )
}

/// The oldest messages.
pub(crate) fn outbox(conn: &Connection, limit: usize) -> Result<Vec<Outgoing>, Fault> {
    conn.all(
        "SELECT place, name, tenant, message, target, command
         FROM outbox JOIN streams ON id = source ORDER BY place LIMIT ?1",
        [clamp(limit as u64)],
        |row| {
            Ok(Outgoing {
                place: row.get(0)?,
                source: row.get::<_, String>(1)?.into(),
                tenant: row.get::<_, String>(2)?.into(),
                id: row.get::<_, String>(3)?.into(),
                target: row.get::<_, String>(4)?.into(),
                command: row.get(5)?,
            })
        },
    )
}

/// What is left of a purged stream.
pub(crate) fn tombstone(conn: &Connection, stream: &StreamId) -> Result<Option<Tombstone>, Fault> {
    conn.one(
        "SELECT tenant, next_seq, chain, reason, purged_at FROM tombstones WHERE name = ?1",
        [stream.as_str()],
        |row| {
            Ok(Tombstone {
                stream: stream.clone(),
                tenant: row.get::<_, String>(0)?.into(),
                next_seq: row.get(1)?,
                chain: Digest(row.get(2)?),
                reason: row.get(3)?,
                purged_at: Timestamp(row.get(4)?),
            })
        },
    )
}
