//! Single rows: lists, keys, messages, checkpoints, blobs, tombstones.

use std::collections::BTreeMap;

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::{StreamId, TenantId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::codec::{self, BlobBody};
use store::{
    BLOB_GRACE, Checkpoint, Conflict, KeyRow, ListQuery, Listed, Outgoing, StoreError, Tombstone,
};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::clock::Clock;
use crate::db::{Db, clamp, column, count, digest, json, millis, number, params};
use crate::group::comparable;

/// Rows that one step of housekeeping removes, so that appends never wait long.
const STEP_ROWS: i64 = 256;

const KEY: &str = "SELECT s.name, k.digest, k.answer, k.expires_at
  FROM runwright.keys AS k LEFT JOIN runwright.streams AS s ON s.id = k.stream
  WHERE k.tenant = $1 AND k.namespace = $2 AND k.key = $3
    AND (k.expires_at IS NULL OR k.expires_at > runwright.clock($4))";
const KEEP_CHECKPOINT: &str = "WITH s AS MATERIALIZED (
    SELECT id, next_seq, set_config('synchronous_commit', 'off', true)
    FROM runwright.streams WHERE name = $1),
  kept AS (INSERT INTO runwright.checkpoints AS c
    SELECT id, $2, $3, $4 FROM s WHERE next_seq >= $2
    ON CONFLICT (stream) DO UPDATE
      SET next_seq = excluded.next_seq, chain = excluded.chain, state = excluded.state
      WHERE excluded.next_seq >= c.next_seq)
  SELECT id FROM s";
const KEEP_BLOB: &str = "INSERT INTO runwright.blobs AS b (tenant, digest, size, put_at, stored)
  VALUES ($1, $2, $3, runwright.clock($5), $4)
  ON CONFLICT (tenant, digest) DO UPDATE SET put_at = greatest(b.put_at, excluded.put_at)";
const OUTBOX: &str = "SELECT o.place, s.name, s.tenant, o.message, o.target, o.command
  FROM runwright.outbox AS o JOIN runwright.streams AS s ON s.id = o.source
  ORDER BY o.place LIMIT $1";
const DELIVERED: &str = "DELETE FROM runwright.outbox WHERE place IN (
  SELECT place FROM runwright.outbox WHERE place = ANY ($1) ORDER BY place FOR UPDATE)";
const SWEEP: &str = "WITH keys AS (DELETE FROM runwright.keys WHERE (tenant, namespace, key) IN (
    SELECT tenant, namespace, key FROM runwright.keys WHERE expires_at <= runwright.clock($1)
    LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1)
  SELECT greatest((SELECT count(*) FROM keys), runwright.collect($1, $3, $2)) AS removed";

/// Lists rows, newest first.
pub(crate) async fn list(db: &Db, query: &ListQuery) -> Result<Vec<Listed>, StoreError> {
    let columns = "name, tenant, next_seq, index_row";
    let rows = select(db, columns, query, "ORDER BY created_at DESC, name DESC").await?;
    let each = |row: &Row| {
        Ok(Listed {
            stream: column::<String>(row, "name")?.into(),
            tenant: column::<String>(row, "tenant")?.into(),
            next_seq: number(row, "next_seq")?,
            index: json(row, "index_row")?,
        })
    };
    rows.iter().map(each).collect()
}

/// Counts rows by status.
pub(crate) async fn tally(
    db: &Db,
    mut query: ListQuery,
) -> Result<BTreeMap<String, u64>, StoreError> {
    query.limit = usize::MAX;
    let rows = select(db, "status, count(*)", &query, "GROUP BY status").await?;
    let each = |row: &Row| Ok((column(row, "status")?, number(row, "count")?));
    rows.iter().map(each).collect()
}

/// The rows of a query.
async fn select(
    db: &Db,
    columns: &str,
    query: &ListQuery,
    end: &str,
) -> Result<Vec<Row>, StoreError> {
    let sql = sql(columns, query, end);
    let parent = query.parent.as_ref().map(|id| id.as_str());
    let tenant = query.tenant.as_ref().map(|id| id.as_str());
    let workspace = query.workspace.as_deref().map(comparable);
    let kind = query.kind.map(StreamKind::as_str);
    let subject = query.subject.as_deref().map(comparable);
    let tag = query.tag.as_deref().map(comparable);
    let statuses: Vec<_> = query.statuses.iter().map(|text| comparable(text)).collect();
    let (at, name) = match &query.after {
        Some(after) => (after.created_at.0, after.stream.as_str()),
        // After every row: this is the greatest time.
        None => (i64::MAX, "\u{10ffff}"),
    };
    let (limit, since) = (count(query.limit), query.since.map_or(i64::MIN, |at| at.0));
    let params = params![
        parent => TEXT, tenant => TEXT, workspace => TEXT, kind => TEXT, subject => TEXT,
        tag => TEXT, statuses => TEXT_ARRAY, at => INT8, name => TEXT, limit => INT8,
        since => INT8
    ];
    // Tenants have a few runs or millions: no plan is right for all of them.
    let db = match &query.tenant {
        Some(tenant) => db.of_tenant(tenant).planned_anew(),
        None => db.clone().planned_anew(),
    };
    Ok(db.look_up(&sql, &params).await?)
}

/// A condition on a column is there only if it is requested: an index is then known to fit it.
fn sql(columns: &str, query: &ListQuery, end: &str) -> String {
    let owner = match (&query.parent, &query.tenant) {
        // A parent has few children, a tenant any number: the empty text keeps its index out.
        (Some(_), _) => "parent = $1 AND ($2::text IS NULL OR tenant || '' = $2)",
        (None, Some(_)) => "$1::text IS NULL AND tenant = $2",
        (None, None) => "$1::text IS NULL AND $2::text IS NULL",
    };
    let is = |column: &str, place: &str, is_given: bool| {
        if is_given {
            format!("{column} = {place}")
        } else {
            format!("{place}::text IS NULL")
        }
    };
    let workspace = is("workspace", "$3", query.workspace.is_some());
    let kind = is("kind", "$4", query.kind.is_some());
    let subject = is("subject", "$5", query.subject.is_some());
    let status = match query.statuses.as_slice() {
        [] => "cardinality($7::text[]) = 0",
        [_] => "status = ($7::text[])[1]",
        _ => "status = ANY ($7)",
    };
    format!(
        "SELECT {columns} FROM runwright.streams WHERE {owner} AND {workspace} AND {kind}
           AND {subject} AND {status} AND ($6::text IS NULL OR $6 = ANY (tags))
           AND created_at >= $11 AND (created_at, name) < ($8, $9)
         {end} LIMIT $10"
    )
}

/// A unique key that has not expired.
pub(crate) async fn key(
    db: &Db,
    clock: &Clock,
    [tenant, namespace, key]: [&str; 3],
) -> Result<Option<KeyRow>, StoreError> {
    let at = clock.at();
    let params = params![tenant => TEXT, namespace => TEXT, key => TEXT, at => INT8];
    let rows = db.look_up(KEY, &params).await?;
    let each = |row: &Row| {
        let found: Option<&[u8]> = column(row, "digest")?;
        Ok(KeyRow {
            stream: column::<Option<String>>(row, "name")?.map(StreamId::new),
            digest: found.map(|_| digest(row, "digest")).transpose()?,
            answer: column(row, "answer")?,
            expires_at: column::<Option<i64>>(row, "expires_at")?.map(Timestamp),
        })
    };
    rows.first().map(each).transpose()
}

/// Replaces the key that the caller saw.
pub(crate) async fn put_key(
    db: &Db,
    clock: &Clock,
    tenant: &TenantId,
    claim: &KeyClaim,
    seen: Option<&KeyRow>,
) -> Result<(), StoreError> {
    let (at, tenant, was_seen) = (clock.at(), tenant.as_str(), seen.is_some());
    let bytes = |digest: &Option<Digest>| digest.map(|digest| digest.0.to_vec());
    let (digest, expires_at) = (bytes(&claim.digest), claim.expires_at.map(|at| at.0));
    let seen_stream = seen
        .and_then(|row| row.stream.as_ref())
        .map(|id| id.as_str());
    let seen_digest = seen.and_then(|row| bytes(&row.digest));
    let seen_answer = seen.and_then(|row| row.answer.as_deref());
    let seen_expires_at = seen.and_then(|row| row.expires_at).map(|at| at.0);
    let params = params![
        at => INT8, tenant => TEXT, claim.namespace => TEXT, claim.key => TEXT, digest => BYTEA,
        claim.answer => BYTEA, expires_at => INT8, was_seen => BOOL, seen_stream => TEXT,
        seen_digest => BYTEA, seen_answer => BYTEA, seen_expires_at => INT8
    ];
    let sql = "SELECT runwright.put_key($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS put";
    let row = db.row(sql, &params).await?;
    match column(&row, "put")? {
        true => Ok(()),
        false => Err(StoreError::key_taken(claim)),
    }
}

/// Keeps a checkpoint unless it is older than the existing one or ahead of the log.
pub(crate) async fn put_checkpoint(
    db: &Db,
    stream: &StreamId,
    checkpoint: &Checkpoint,
) -> Result<(), StoreError> {
    let (name, next_seq) = (stream.as_str(), clamp(checkpoint.next_seq));
    let (chain, state) = (&checkpoint.chain.0[..], codec::pack_blob(&checkpoint.state));
    let params = params![name => TEXT, next_seq => INT8, chain => BYTEA, state => BYTEA];
    match db.rows(KEEP_CHECKPOINT, &params).await {
        Ok(rows) if rows.is_empty() => Err(StoreError::Missing),
        // It was purged meanwhile.
        Err(fault) if fault.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) => {
            Err(StoreError::Missing)
        }
        answer => Ok(answer.map(drop)?),
    }
}

pub(crate) async fn put_blob(
    db: &Db,
    clock: &Clock,
    tenant: &TenantId,
    body: &BlobBody,
) -> Result<(), StoreError> {
    let (tenant, digest, size) = (tenant.as_str(), &body.digest.0[..], clamp(body.size));
    let at = clock.at();
    let params =
        params![tenant => TEXT, digest => BYTEA, size => INT8, body.stored => BYTEA, at => INT8];
    Ok(db.rows(KEEP_BLOB, &params).await.map(drop)?)
}

/// The bytes of a blob, checked against its digest.
pub(crate) async fn blob(
    db: &Db,
    tenant: &TenantId,
    digest: &Digest,
) -> Result<Vec<u8>, StoreError> {
    let (tenant, wanted) = (tenant.as_str(), &digest.0[..]);
    let sql = "SELECT stored FROM runwright.blobs WHERE tenant = $1 AND digest = $2";
    let params = params![tenant => TEXT, wanted => BYTEA];
    let rows = db.look_up(sql, &params).await?;
    let row = rows.first().ok_or(StoreError::Missing)?;
    codec::open_blob(column(row, "stored")?, digest)
}

/// The oldest messages.
pub(crate) async fn outbox(db: &Db, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
    let limit = count(limit);
    let rows = db.look_up(OUTBOX, &params![limit => INT8]).await?;
    let each = |row: &Row| {
        Ok(Outgoing {
            place: number(row, "place")?,
            source: column::<String>(row, "name")?.into(),
            tenant: column::<String>(row, "tenant")?.into(),
            id: column::<String>(row, "message")?.into(),
            target: column::<String>(row, "target")?.into(),
            command: column(row, "command")?,
        })
    };
    rows.iter().map(each).collect()
}

pub(crate) async fn delivered(db: &Db, places: &[u64]) -> Result<(), StoreError> {
    let places: Vec<_> = places.iter().map(|place| clamp(*place)).collect();
    Ok(db
        .rows(DELIVERED, &params![places => INT8_ARRAY])
        .await
        .map(drop)?)
}

pub(crate) async fn purge(
    db: &Db,
    clock: &Clock,
    stream: &StreamId,
    reason: &str,
) -> Result<Tombstone, StoreError> {
    let (at, name) = (clock.at(), stream.as_str());
    let params = params![at => INT8, name => TEXT, reason => TEXT];
    let sql = "SELECT runwright.purge($1, $2, $3) AS verdict";
    let row = db.row(sql, &params).await?;
    match column::<&str>(&row, "verdict")? {
        "held" => Err(StoreError::Conflict(Conflict::Held)),
        "missing" => Err(StoreError::Missing),
        _ => tombstone(db, stream).await?.ok_or(StoreError::Missing),
    }
}

/// The record of a purged stream.
pub(crate) async fn tombstone(db: &Db, stream: &StreamId) -> Result<Option<Tombstone>, StoreError> {
    let name = stream.as_str();
    let sql = "SELECT tenant, next_seq, chain, reason, purged_at
        FROM runwright.tombstones WHERE name = $1";
    let rows = db.look_up(sql, &params![name => TEXT]).await?;
    let each = |row: &Row| {
        Ok(Tombstone {
            stream: stream.clone(),
            tenant: column::<String>(row, "tenant")?.into(),
            next_seq: number(row, "next_seq")?,
            chain: digest(row, "chain")?,
            reason: column(row, "reason")?,
            purged_at: Timestamp(column(row, "purged_at")?),
        })
    };
    rows.first().map(each).transpose()
}

/// Removes some expired rows. Returns whether there may be more.
pub(crate) async fn sweep(db: &Db, clock: &Clock) -> Result<bool, StoreError> {
    let (at, grace) = (clock.at(), millis(BLOB_GRACE));
    let params = params![at => INT8, STEP_ROWS => INT8, grace => INT8];
    let row = db.row(SWEEP, &params).await?;
    Ok(column::<i64>(&row, "removed")? >= STEP_ROWS)
}
