//! Blobs: bytes under their digest, tenant first, counted.

use kernel::digest::Digest;
use kernel::time::Timestamp;
use rusqlite::{Connection, params};
use store::codec::{self, BlobBody};
use store::{BLOB_GRACE, StoreError};

use crate::sql::{Fault, Sql, corrupt};

/// The time of a blob that was never put, only came as the content of an event: it has no grace.
pub(crate) const NEVER_PUT: Timestamp = Timestamp(i64::MIN);

pub(crate) fn exists(conn: &Connection, tenant: &str, digest: &Digest) -> Result<bool, Fault> {
    conn.any(
        "SELECT 1 FROM blobs WHERE tenant = ?1 AND digest = ?2",
        params![tenant, digest.0],
    )
}

/// Keeps a blob, once; its grace begins anew each time it is put.
pub(crate) fn keep(
    conn: &Connection,
    tenant: &str,
    body: &BlobBody,
    put_at: Timestamp,
) -> Result<(), Fault> {
    let blob: Option<i64> = conn.one(
        "INSERT INTO blobs (tenant, digest, size, put_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET put_at = max(put_at, excluded.put_at) RETURNING id",
        params![tenant, body.digest.0, body.size, put_at.0],
        |row| Ok(row.get(0)?),
    )?;
    conn.run(
        "INSERT INTO blob_bytes (blob, stored) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![blob, body.stored],
    )?;
    Ok(())
}

/// Counts a reference of a stream to a blob that is there.
pub(crate) fn refer(
    conn: &Connection,
    stream: i64,
    tenant: &str,
    digest: &Digest,
) -> Result<(), Fault> {
    conn.run(
        "INSERT INTO blob_refs (stream, blob, refs)
         SELECT ?1, id, 1 FROM blobs WHERE tenant = ?2 AND digest = ?3
         ON CONFLICT DO UPDATE SET refs = refs + 1",
        params![stream, tenant, digest.0],
    )?;
    conn.run(
        "UPDATE blobs SET refs = refs + 1 WHERE tenant = ?1 AND digest = ?2",
        params![tenant, digest.0],
    )?;
    Ok(())
}

/// Takes back every reference of a stream and collects what is left without one.
pub(crate) fn forget(conn: &Connection, stream: i64, now: Timestamp) -> Result<(), Fault> {
    let gone = "DELETE FROM blob_refs WHERE stream = ?1 RETURNING blob, refs";
    let gone = conn.all(gone, [stream], |row| {
        Ok([row.get::<_, i64>(0)?, row.get(1)?])
    })?;
    for [blob, refs] in gone {
        conn.run(
            "UPDATE blobs SET refs = refs - ?2 WHERE id = ?1",
            [blob, refs],
        )?;
        conn.run(
            "DELETE FROM blobs WHERE id = ?1 AND refs = 0 AND put_at <= ?2",
            [blob, grace_over(now)],
        )?;
    }
    Ok(())
}

/// Collects some of the blobs that nothing refers to and whose grace is over.
pub(crate) fn collect(conn: &Connection, limit: usize, now: Timestamp) -> Result<usize, Fault> {
    conn.run(
        "DELETE FROM blobs WHERE id IN (
           SELECT id FROM blobs WHERE refs = 0 AND put_at <= ?1 LIMIT ?2)",
        params![grace_over(now), limit],
    )
}

/// Puts until then are past their grace.
fn grace_over(now: Timestamp) -> i64 {
    now.0
        .saturating_sub(i64::try_from(BLOB_GRACE.as_millis()).unwrap_or(i64::MAX))
}

/// The stored bytes of a blob.
pub(crate) fn stored(conn: &Connection, tenant: &str, digest: &Digest) -> Result<Vec<u8>, Fault> {
    let found = conn.one(
        "SELECT stored FROM blobs JOIN blob_bytes ON blob = id WHERE tenant = ?1 AND digest = ?2",
        params![tenant, digest.0],
        |row| Ok(row.get(0)?),
    )?;
    found.ok_or_else(|| StoreError::Missing.into())
}

/// The bytes of a blob, checked against its digest.
pub(crate) fn read(conn: &Connection, tenant: &str, digest: &Digest) -> Result<Vec<u8>, Fault> {
    let bytes = codec::unpack_blob(&stored(conn, tenant, digest)?)?;
    if Digest::of(&bytes) != *digest {
        return Err(corrupt(format!("the bytes of blob {digest} have another digest")).into());
    }
    Ok(bytes)
}
