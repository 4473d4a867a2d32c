//! Reading logs: whole streams, and all of them in commit order.

use std::collections::HashMap;

use kernel::batch::Record;
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use rusqlite::{Row, params};
use store::{Checkpoint, Epoch, FeedEvent, Lease, Loaded, Position, ReadFrom, StoreError};
use store::{codec, pack};

use crate::blobs;
use crate::rows::{id, json};
use crate::sql::{Db, Fallible, clamp, corrupt};

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
        let (epoch, holder): (u64, Option<String>) = (row.get(7)?, row.get(8)?);
        let lease = |(holder, expires_at): (String, i64)| Lease {
            stream: stream.clone(),
            epoch: Epoch(epoch),
            holder: holder.into(),
            expires_at: Timestamp(expires_at),
        };
        let checkpoint = match from {
            ReadFrom::Seq(_) => None,
            ReadFrom::Checkpoint => checkpoint(db, head.id)?,
        };
        let first_seq = match from {
            ReadFrom::Seq(seq) => seq,
            ReadFrom::Checkpoint => checkpoint.as_ref().map_or(0, |kept| kept.next_seq),
        };
        Ok(Loaded {
            records: records(db, &head, first_seq, limit)?,
            index: json(row, 6)?,
            lease: holder.zip(row.get(9)?).map(lease),
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

/// The events from a sequence on, from packs, then from rows. Each is checked against its chain
/// link, except the first of a read from the middle.
pub(crate) fn records(db: &Db, head: &Head, from: Seq, limit: usize) -> Fallible<Vec<Record>> {
    let wanted = usize::try_from(head.next_seq.saturating_sub(from)).unwrap_or(usize::MAX);
    let wanted = wanted.min(limit);
    let mut records: Vec<Record> = Vec::with_capacity(wanted.min(4_096));
    while records.len() < wanted && from + (records.len() as Seq) < head.packed_to {
        let (had, seq) = (records.len(), from + records.len() as Seq);
        let (first, packed) = unpack(db, head.id, &head.tenant, seq)?;
        let skip = usize::try_from(seq - first).unwrap_or(usize::MAX);
        records.extend(packed.into_iter().skip(skip).take(wanted - had));
        if records.len() == had {
            return Err(gap().into());
        }
    }
    let next = clamp(from.saturating_add(records.len() as Seq));
    db.scan(
        "SELECT seq, chain, content FROM events WHERE stream = ?1 AND seq >= ?2
         ORDER BY seq LIMIT ?3",
        params![head.id, next, clamp((wanted - records.len()) as u64)],
        |row| {
            let chain = Digest(row.get(1)?);
            let content = content(db, &head.tenant, row.get_ref(2)?.as_blob()?)?;
            let before = match records.last() {
                Some(last) => Some(last.chain),
                None => (from == 0).then_some(head.header.genesis),
            };
            if row.get::<_, Seq>(0)? != from + records.len() as Seq {
                return Err(gap().into());
            }
            if before.is_some_and(|before| before.chain(&content) != chain) {
                return Err(corrupt("an event differs from its log's hash chain").into());
            }
            records.push(Record { content, chain });
            Ok(true)
        },
    )?;
    if records.len() != wanted {
        return Err(gap().into());
    }
    let whole = from.saturating_add(wanted as Seq) == head.next_seq;
    if whole && records.last().is_some_and(|last| last.chain != head.chain) {
        return Err(corrupt("the log of a stream does not end in the link on record").into());
    }
    Ok(records)
}

pub(crate) fn gap() -> StoreError {
    corrupt(store::GAP)
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
    found.ok_or_else(|| gap().into())
}

/// Maximum number of packs that a read of the feed keeps unpacked, one per stream.
const UNPACKED: usize = 32;

pub(crate) fn feed(db: &Db, after: Position, limit: usize) -> Fallible<Vec<FeedEvent>> {
    let mut packs: HashMap<i64, (Seq, Vec<Record>)> = HashMap::new();
    let mut packed = |stream: i64, tenant: &str, seq: Seq| {
        let nth = |(first, records): &(Seq, Vec<Record>)| {
            let nth = usize::try_from(seq.checked_sub(*first)?).ok()?;
            records.get(nth).map(|record| record.content.clone())
        };
        if let Some(content) = packs.get(&stream).and_then(nth) {
            return Ok(content);
        }
        if packs.len() >= UNPACKED {
            packs.clear();
        }
        let pack = unpack(db, stream, tenant, seq)?;
        let content = nth(&pack).ok_or_else(gap)?;
        packs.insert(stream, pack);
        Fallible::Ok(content)
    };
    db.all(
        "SELECT position, name, tenant, seq, content, id FROM events CROSS JOIN streams
         ON id = stream WHERE position > ?1 ORDER BY position LIMIT ?2",
        [clamp(after.0), clamp(limit as u64)],
        |row| {
            let (tenant, seq): (String, Seq) = (row.get(2)?, row.get(3)?);
            let content = match row.get_ref(4)?.as_blob_or_null()? {
                Some(stored) => content(db, &tenant, stored)?,
                None => packed(row.get(5)?, &tenant, seq)?,
            };
            Ok(FeedEvent {
                position: Position(row.get(0)?),
                stream: id(row, 1)?,
                tenant: tenant.into(),
                seq,
                content,
            })
        },
    )
}
