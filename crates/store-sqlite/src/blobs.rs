//! Blobs: bytes by tenant and digest, with a reference count.

use kernel::digest::Digest;
use kernel::time::Timestamp;
use rusqlite::params;
use store::codec::{self, BlobBody};
use store::{BLOB_GRACE, StoreError};

use crate::sql::{Db, Fallible};

/// The time of a blob that waits for no reference: it goes with its last one.
pub(crate) const NEVER_PUT: Timestamp = Timestamp(i64::MIN);

/// Keeps a blob once; each put restarts its grace.
pub(crate) fn keep(db: &Db, tenant: &str, body: &BlobBody, put_at: Timestamp) -> Fallible<()> {
    let blob: Option<i64> = db.value(
        include_str!("../schema/keep_blob.sql"),
        params![tenant, body.digest.0, body.size, put_at.0],
    )?;
    let sql = "INSERT INTO blob_bytes VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    db.run(sql, params![blob, body.stored]).map(drop)
}

/// Counts a reference of a stream to an existing blob.
pub(crate) fn refer(db: &Db, stream: i64, tenant: &str, digest: &Digest) -> Fallible<()> {
    let sql = "INSERT INTO blob_refs SELECT ?1, id FROM blobs WHERE tenant = ?2 AND digest = ?3";
    db.run(sql, params![stream, tenant, digest.0]).map(drop)
}

/// Collects up to `limit` unreferenced blobs whose grace is over.
pub(crate) fn collect(db: &Db, limit: i64, now: Timestamp) -> Fallible<usize> {
    let grace = i64::try_from(BLOB_GRACE.as_millis()).unwrap_or(i64::MAX);
    db.run(
        include_str!("../schema/collect.sql"),
        params![now.0.saturating_sub(grace), limit],
    )
}

pub(crate) fn stored(db: &Db, tenant: &str, digest: &Digest) -> Fallible<Vec<u8>> {
    let found = db.value(
        "SELECT stored FROM blobs JOIN blob_bytes ON blob = id WHERE tenant = ?1 AND digest = ?2",
        params![tenant, digest.0],
    )?;
    found.ok_or_else(|| StoreError::Missing.into())
}

/// The bytes of a blob, checked against its digest.
pub(crate) fn read(db: &Db, tenant: &str, digest: &Digest) -> Fallible<Vec<u8>> {
    Ok(codec::open_blob(&stored(db, tenant, digest)?, digest)?)
}
