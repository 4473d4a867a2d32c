//! What replaces or takes away rows: checkpoints, purges, and housekeeping in small steps.

use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::time::Timestamp;
use rusqlite::{Connection, params};
use store::pack::Packer;
use store::{Checkpoint, Conflict, StoreError, Tombstone};

use crate::log::{self, Head};
use crate::sql::{Fault, Sql, corrupt};
use crate::{blobs, rows};

/// Rows that one step of housekeeping removes, so that appends never wait long for it.
const STEP_ROWS: usize = 256;
/// Bytes of content that one step packs, about.
const STEP_BYTES: usize = 1 << 20;

/// Keeps a checkpoint unless it is older than the one kept or ahead of the log.
pub(crate) fn put_checkpoint(
    conn: &Connection,
    stream: &StreamId,
    checkpoint: &Checkpoint,
) -> Result<(), Fault> {
    let (name, next_seq) = (stream.as_str(), checkpoint.next_seq);
    if !conn.any("SELECT 1 FROM streams WHERE name = ?1", [name])? {
        return Err(StoreError::Missing.into());
    }
    conn.run(
        "INSERT INTO checkpoints (stream, next_seq, chain, state)
         SELECT id, ?2, ?3, ?4 FROM streams WHERE name = ?1 AND next_seq >= ?2
         ON CONFLICT DO UPDATE
         SET next_seq = excluded.next_seq, chain = excluded.chain, state = excluded.state
         WHERE excluded.next_seq >= next_seq",
        params![name, next_seq, checkpoint.chain.0, checkpoint.state],
    )?;
    Ok(())
}

pub(crate) fn purge(
    conn: &Connection,
    stream: &StreamId,
    reason: &str,
    now: Timestamp,
) -> Result<Tombstone, Fault> {
    if let Some(tombstone) = rows::tombstone(conn, stream)? {
        return Ok(tombstone);
    }
    let found = conn.one(
        "SELECT id, holder IS NOT NULL AND expires_at > ?2 FROM streams WHERE name = ?1",
        params![stream.as_str(), now.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)),
    )?;
    let id = match found {
        None => return Err(StoreError::Missing.into()),
        Some((_, true)) => return Err(StoreError::Conflict(Conflict::Held).into()),
        Some((id, false)) => id,
    };
    conn.run(
        "INSERT INTO tombstones SELECT name, tenant, next_seq, chain, ?2, ?3
         FROM streams WHERE id = ?1",
        params![id, reason, now.0],
    )?;
    erase_events(conn, id)?;
    blobs::forget(conn, id, now)?;
    // What else belongs to the stream goes by its foreign key.
    conn.run("DELETE FROM streams WHERE id = ?1", [id])?;
    Ok(rows::tombstone(conn, stream)?.ok_or(StoreError::Missing)?)
}

/// Removes the events of a stream. SQLite gives the next row the greatest row id plus one, so
/// where the newest events go a row without a stream keeps their last position taken.
fn erase_events(conn: &Connection, stream: i64) -> Result<(), Fault> {
    let newest = "SELECT max(position) FROM events";
    let newest = || conn.one(newest, [], |row| Ok(row.get::<_, Option<i64>>(0)?));
    let taken = newest()?.flatten();
    conn.run("DELETE FROM events WHERE stream = ?1", [stream])?;
    if newest()?.flatten() != taken {
        conn.run("DELETE FROM events WHERE stream IS NULL", [])?;
        conn.run("INSERT INTO events (position) VALUES (?1)", [taken])?;
    }
    Ok(())
}

/// Removes some of what has expired. Answers whether there may be more.
pub(crate) fn sweep(conn: &Connection, now: Timestamp) -> Result<bool, Fault> {
    let keys = conn.run(
        "DELETE FROM keys WHERE rowid IN (
           SELECT rowid FROM keys WHERE expires_at <= ?1 LIMIT ?2)",
        params![now.0, STEP_ROWS],
    )?;
    let blobs = blobs::collect(conn, STEP_ROWS, now)?;
    Ok(keys == STEP_ROWS || blobs == STEP_ROWS)
}

/// A pack that is ready to be written.
pub(crate) struct Ready {
    stream: i64,
    name: String,
    first_seq: Seq,
    next_seq: Seq,
    before: Digest,
    after: Digest,
    body: Vec<u8>,
}

/// Packs the next events of some settled streams. Only reads, so that the compression keeps no
/// writer waiting.
pub(crate) fn pack_settled(conn: &Connection) -> Result<Vec<Ready>, Fault> {
    let sql = format!(
        "SELECT {}, name FROM streams INDEXED BY streams_unpacked LEFT JOIN headers ON stream = id
         WHERE settled AND packed_to < next_seq LIMIT ?1",
        Head::COLUMNS
    );
    let (mut ready, mut bytes) = (Vec::new(), 0);
    conn.scan(&sql, [STEP_ROWS], |row| {
        let (pack, packed) = pack_stream(conn, &Head::read(row)?, row.get(6)?)?;
        ready.push(pack);
        bytes += packed;
        Ok(bytes < STEP_BYTES)
    })?;
    Ok(ready)
}

fn pack_stream(conn: &Connection, head: &Head, name: String) -> Result<(Ready, usize), Fault> {
    let (stream, first_seq) = (head.id, head.packed_to);
    let before = match first_seq {
        0 => head.header.genesis,
        _ => {
            let sql = "SELECT after FROM packs WHERE stream = ?1 AND next_seq = ?2";
            let link = conn.one(sql, params![stream, first_seq], |row| {
                Ok(Digest(row.get(0)?))
            })?;
            link.ok_or_else(|| corrupt("a pack is missing"))?
        }
    };
    let mut packer = Packer::new(before);
    conn.scan(
        "SELECT content, chain FROM events WHERE stream = ?1 AND seq >= ?2 ORDER BY seq",
        params![stream, first_seq],
        |row| {
            let stored = row.get_ref(0)?.as_blob()?;
            let content = log::content(conn, &head.tenant, stored)?;
            packer.push(stored, &content, Digest(row.get(1)?))?;
            Ok(!packer.is_full())
        },
    )?;
    let (next_seq, bytes) = (first_seq + packer.events(), packer.content_bytes());
    if next_seq == first_seq {
        return Err(corrupt("the log of a stream has a gap").into());
    }
    let (after, body) = packer.finish();
    Ok((
        Ready {
            stream,
            name,
            first_seq,
            next_seq,
            before,
            after,
            body,
        },
        bytes,
    ))
}

/// Puts packs in the place of their events, unless the stream was packed or purged meanwhile.
/// The rows of the events stay, empty, to keep the order of the feed.
pub(crate) fn write_packs(conn: &Connection, packs: &[Ready]) -> Result<(), Fault> {
    for pack in packs {
        let moved = conn.run(
            "UPDATE streams SET packed_to = ?4 WHERE id = ?1 AND name = ?2 AND packed_to = ?3",
            params![pack.stream, pack.name, pack.first_seq, pack.next_seq],
        )?;
        if moved == 0 {
            continue;
        }
        let (before, after) = (pack.before.0, pack.after.0);
        conn.run(
            "INSERT INTO packs VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                pack.stream,
                pack.first_seq,
                pack.next_seq,
                before,
                after,
                pack.body
            ],
        )?;
        conn.run(
            "UPDATE events SET chain = NULL, content = NULL
             WHERE stream = ?1 AND seq >= ?2 AND seq < ?3",
            params![pack.stream, pack.first_seq, pack.next_seq],
        )?;
    }
    Ok(())
}
