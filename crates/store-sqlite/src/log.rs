//! Reading logs: whole streams, and all of them in commit order.

use kernel::batch::Record;
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamHeader;
use rusqlite::{Row, params};
use store::codec;
use store::pack::{self, PackCache};
use store::{Checkpoint, FeedEvent, Lease, Loaded, LogRange, Position, ReadFrom, StoreError};

use crate::blobs;
use crate::rows::{id, json};
use crate::sql::{Db, Fallible, clamp};

/// The columns of a stream that a read of its events needs.
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) tenant: String,
    pub(crate) packed_to: Seq,
    pub(crate) next_seq: Seq,
    pub(crate) chain: Digest,
    pub(crate) header: StreamHeader,
}

impl Head {
    /// The columns that [`Head::read`] reads, followed by `others`.
    pub(crate) fn select(others: &str) -> String {
        format!(
            "SELECT id, tenant, packed_to, next_seq, chain, header, {others}
             FROM streams LEFT JOIN headers ON stream = id"
        )
    }

    pub(crate) fn read(row: &Row<'_>) -> Fallible<Self> {
        Ok(Self {
            id: row.get(0)?,
            tenant: row.get(1)?,
            packed_to: row.get(2)?,
            next_seq: row.get(3)?,
            chain: Digest(row.get(4)?),
            header: json(row, 5)?,
        })
    }
}

pub(crate) fn load(db: &Db, stream: &StreamId, from: ReadFrom, limit: usize) -> Fallible<Loaded> {
    let sql = Head::select("index_row, epoch, holder, expires_at") + " WHERE name = ?1";
    let loaded = db.one(&sql, [stream.as_str()], |row| {
        let head = Head::read(row)?;
        let checkpoint = match from {
            ReadFrom::Seq(_) => None,
            ReadFrom::Checkpoint => checkpoint(db, head.id)?,
        };
        let first_seq = from.first_seq(checkpoint.as_ref());
        Ok(Loaded {
            records: records(db, &head, first_seq, limit)?,
            index: json(row, 6)?,
            lease: Lease::on_record(stream, row.get(7)?, row.get(8)?, row.get(9)?),
            next_seq: head.next_seq,
            header: head.header,
            checkpoint,
            first_seq,
        })
    })?;
    loaded.ok_or_else(|| StoreError::Missing.into())
}

fn checkpoint(db: &Db, stream: i64) -> Fallible<Option<Checkpoint>> {
    let sql = "SELECT next_seq, chain, state FROM checkpoints WHERE stream = ?1";
    db.one(sql, [stream], |row| {
        Ok(Checkpoint {
            next_seq: row.get(0)?,
            chain: Digest(row.get(1)?),
            state: codec::unpack_blob(row.get_ref(2)?.as_blob()?)?,
        })
    })
}

/// The events from a sequence on, from packs, then from rows.
pub(crate) fn records(db: &Db, head: &Head, from: Seq, limit: usize) -> Fallible<Vec<Record>> {
    let end = (head.next_seq, head.chain);
    let mut range = LogRange::new(head.header.genesis, from, end, limit);
    while range.missing() > 0 && range.next_seq() < head.packed_to {
        let seq = range.next_seq();
        let (first, packed) = unpack(db, head.id, &head.tenant, seq)?;
        let skip = usize::try_from(seq - first).unwrap_or(usize::MAX);
        range.extend(packed.into_iter().skip(skip));
        if range.next_seq() == seq {
            return Err(StoreError::gap().into());
        }
    }
    db.scan(
        "SELECT seq, chain, content FROM events WHERE stream = ?1 AND seq >= ?2
         ORDER BY seq LIMIT ?3",
        params![
            head.id,
            clamp(range.next_seq()),
            clamp(range.missing() as u64)
        ],
        |row| {
            let content = content(db, &head.tenant, row.get_ref(2)?.as_blob()?)?;
            range.push(row.get(0)?, content, Digest(row.get(1)?))?;
            Ok(true)
        },
    )?;
    Ok(range.finish()?)
}

/// The content of an event from its row.
pub(crate) fn content(db: &Db, tenant: &str, row: &[u8]) -> Result<Vec<u8>, StoreError> {
    codec::decode(row, |digest| Ok(blobs::stored(db, tenant, digest)?))
}

/// The pack that contains an event, and its first sequence.
fn unpack(db: &Db, stream: i64, tenant: &str, seq: Seq) -> Fallible<(Seq, Vec<Record>)> {
    let found = db.one(
        "SELECT first_seq, before, after, body FROM packs WHERE stream = ?1 AND first_seq <= ?2
         ORDER BY first_seq DESC LIMIT 1",
        params![stream, seq],
        |row| {
            let (before, after) = (Digest(row.get(1)?), Digest(row.get(2)?));
            let body = row.get_ref(3)?.as_blob()?;
            let records = pack::unpack(body, before, after, |row| content(db, tenant, row))?;
            Ok((row.get(0)?, records))
        },
    )?;
    found.ok_or_else(|| StoreError::gap().into())
}

/// Events after a position in commit order: the row (position, stream, tenant, sequence, chain,
/// content), and the record where it lies in a pack.
pub(crate) fn walk<T>(
    db: &Db,
    after: i64,
    limit: i64,
    mut each: impl FnMut(&Row<'_>, Fallible<Option<Record>>) -> Fallible<T>,
) -> Fallible<Vec<T>> {
    let mut packs = PackCache::default();
    db.all(include_str!("../schema/feed.sql"), [after, limit], |row| {
        let record = match row.get_ref(5)?.as_blob_or_null()? {
            Some(_) => Ok(None),
            None => {
                let (stream, seq): (i64, Seq) = (row.get(6)?, row.get(3)?);
                let unpack = || unpack(db, stream, row.get_ref(2)?.as_str()?, seq);
                packs.record(stream, seq, unpack).map(Some)
            }
        };
        each(row, record)
    })
}

pub(crate) fn feed(db: &Db, after: Position, limit: usize) -> Fallible<Vec<FeedEvent>> {
    walk(db, clamp(after.0), clamp(limit as u64), |row, packed| {
        let tenant: String = row.get(2)?;
        let content = match packed {
            Ok(Some(record)) => Ok(record.content),
            Ok(None) => content(db, &tenant, row.get_ref(5)?.as_blob()?),
            Err(error) => Err(StoreError::from(error)),
        };
        Ok(FeedEvent {
            position: Position(row.get(0)?),
            stream: id(row, 1)?,
            tenant: tenant.into(),
            seq: row.get(3)?,
            content: StoreError::unless_damaged(content)?,
        })
    })
}
