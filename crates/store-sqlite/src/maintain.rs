//! Replacing and removing rows: checkpoints, purges, and housekeeping in small steps.

use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::time::Timestamp;
use rusqlite::params;
use store::pack::Packer;
use store::{Checkpoint, Conflict, StoreError, Tombstone};

use crate::log::{self, Head};
use crate::sql::{Db, Fallible, corrupt};
use crate::{blobs, rows};

/// Rows that one step of housekeeping removes, so that appends never wait long.
const STEP_ROWS: i64 = 256;
/// Approximate bytes of content that one step packs.
const STEP_BYTES: usize = 1 << 20;

/// Keeps a checkpoint unless it is older than the existing one or ahead of the log.
pub(crate) fn put_checkpoint(db: &Db, stream: &StreamId, kept: &Checkpoint) -> Fallible<()> {
    if !db.any("SELECT 1 FROM streams WHERE name = ?1", [stream.as_str()])? {
        return Err(StoreError::Missing.into());
    }
    let sql = include_str!("../schema/keep_checkpoint.sql");
    let row = params![stream.as_str(), kept.next_seq, kept.chain.0, kept.state];
    db.run(sql, row).map(drop)
}

pub(crate) fn purge(db: &Db, stream: &StreamId, why: &str, now: Timestamp) -> Fallible<Tombstone> {
    if let Some(tombstone) = rows::tombstone(db, stream)? {
        return Ok(tombstone);
    }
    let found = db.one(
        "SELECT id, holder IS NOT NULL AND expires_at > ?2 FROM streams WHERE name = ?1",
        params![stream.as_str(), now.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)),
    )?;
    let id = match found {
        None => return Err(StoreError::Missing.into()),
        Some((_, true)) => return Err(StoreError::Conflict(Conflict::Held).into()),
        Some((id, false)) => id,
    };
    let sql = include_str!("../schema/bury.sql");
    db.run(sql, params![id, why, now.0])?;
    erase_events(db, id)?;
    db.run("UPDATE keys SET stream = NULL WHERE stream = ?1 AND digest IS NOT NULL AND expires_at IS NOT NULL", [id])?;
    // The other rows of the stream are deleted by their foreign key.
    db.run("DELETE FROM streams WHERE id = ?1", [id])?;
    rows::tombstone(db, stream)?.ok_or_else(|| StoreError::Missing.into())
}

/// Removes a stream's events. If the newest go, an empty row keeps the last position taken.
fn erase_events(db: &Db, stream: i64) -> Fallible<()> {
    let newest = || db.value::<i64>("SELECT max(position) FROM events", []);
    let taken = newest()?;
    db.run("DELETE FROM events WHERE stream = ?1", [stream])?;
    if newest()? != taken {
        db.run("DELETE FROM events WHERE stream IS NULL", [])?;
        db.run("INSERT INTO events (position) VALUES (?1)", [taken])?;
    }
    Ok(())
}

/// Removes some expired rows. Returns whether there may be more.
pub(crate) fn sweep(db: &Db, now: Timestamp) -> Fallible<bool> {
    let keys = include_str!("../schema/drop_keys.sql");
    let keys = db.run(keys, params![now.0, STEP_ROWS])?;
    let blobs = blobs::collect(db, STEP_ROWS, now)?;
    Ok(keys.max(blobs) as i64 == STEP_ROWS)
}

/// Packs some events of settled streams. Returns whether there were any.
pub(crate) fn pack_settled(db: &Db) -> Fallible<bool> {
    let sql = Head::select("NULL") + " WHERE settled AND packed_to < next_seq LIMIT ?1";
    let unpacked = db.all(&sql, [STEP_ROWS], Head::read)?;
    let mut bytes = 0;
    for head in &unpacked {
        if bytes < STEP_BYTES {
            bytes += pack(db, head)?;
        }
    }
    Ok(!unpacked.is_empty())
}

/// Packs the next events of a stream and returns their bytes. Empty rows keep the feed's order.
fn pack(db: &Db, head: &Head) -> Fallible<usize> {
    let (stream, first_seq) = (head.id, head.packed_to);
    let sql = "SELECT after FROM packs WHERE stream = ?1 AND next_seq = ?2";
    let before = match first_seq {
        0 => Some(head.header.genesis.0),
        _ => db.value(sql, params![stream, first_seq])?,
    };
    let before = before.ok_or_else(|| corrupt("a pack is missing"))?;
    let mut packer = Packer::new(Digest(before));
    let sql = "SELECT content, chain FROM events WHERE stream = ?1 AND seq >= ?2 ORDER BY seq";
    db.scan(sql, params![stream, first_seq], |row| {
        let stored = row.get_ref(0)?.as_blob()?;
        let content = log::content(db, &head.tenant, stored)?;
        packer.push(stored, &content, Digest(row.get(1)?))?;
        Ok(!packer.is_full())
    })?;
    let (next_seq, bytes) = (first_seq + packer.events(), packer.content_bytes());
    if next_seq == first_seq {
        return Err(StoreError::gap().into());
    }
    let (after, body) = packer.finish();
    let pack = params![stream, first_seq, next_seq, before, after.0, body];
    db.run("INSERT INTO packs VALUES (?1, ?2, ?3, ?4, ?5, ?6)", pack)?;
    let sql = include_str!("../schema/unpack.sql");
    db.run(sql, params![stream, first_seq, next_seq])?;
    let sql = "UPDATE streams SET packed_to = ?2 WHERE id = ?1";
    db.run(sql, params![stream, next_seq])?;
    Ok(bytes)
}
