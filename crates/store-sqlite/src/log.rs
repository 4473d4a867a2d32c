//! Reading logs: whole streams, and all of them in commit order.

use std::collections::HashMap;

use kernel::batch::Record;
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use rusqlite::{Connection, Row, params};
use store::{Checkpoint, Epoch, FeedEvent, Hold, Loaded, Position, ReadFrom, StoreError};
use store::{codec, pack};

use crate::sql::{Fault, Sql, clamp, corrupt};
use crate::{blobs, rows};

/// What a read needs to know of a stream before its events.
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) tenant: String,
    pub(crate) packed_to: Seq,
    pub(crate) next_seq: Seq,
    pub(crate) chain: Digest,
    pub(crate) header: StreamHeader,
}

impl Head {
    /// The columns that [`Head::read`] expects, before any others.
    pub(crate) const COLUMNS: &str = "id, tenant, packed_to, next_seq, chain, header";

    pub(crate) fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let header = row.get_ref(5)?.as_str_or_null()?;
        Ok(Self {
            id: row.get(0)?,
            tenant: row.get(1)?,
            packed_to: row.get(2)?,
            next_seq: row.get(3)?,
            chain: Digest(row.get(4)?),
            header: header
                .and_then(|json| serde_json::from_str(json).ok())
                .ok_or_else(|| corrupt("the header of a stream is not what was written"))?,
        })
    }
}

pub(crate) fn load(
    conn: &Connection,
    stream: &StreamId,
    from: ReadFrom,
    limit: usize,
) -> Result<Loaded, Fault> {
    let sql = format!(
        "SELECT {}, index_row, epoch, holder, expires_at
         FROM streams LEFT JOIN headers ON stream = id WHERE name = ?1",
        Head::COLUMNS
    );
    let loaded = conn.one(&sql, [stream.as_str()], |row| {
        load_row(conn, stream, row, from, limit)
    })?;
    loaded.ok_or_else(|| StoreError::Missing.into())
}

fn load_row(
    conn: &Connection,
    stream: &StreamId,
    row: &Row<'_>,
    from: ReadFrom,
    limit: usize,
) -> Result<Loaded, Fault> {
    let head = Head::read(row)?;
    let hold = match row.get::<_, Option<String>>(8)? {
        Some(holder) => Some(Hold {
            stream: stream.clone(),
            epoch: Epoch(row.get(7)?),
            holder: holder.into(),
            expires_at: Timestamp(row.get(9)?),
        }),
        None => None,
    };
    let (checkpoint, first_seq) = match from {
        ReadFrom::Seq(seq) => (None, seq),
        ReadFrom::Checkpoint => {
            let kept = checkpoint(conn, head.id)?;
            let first_seq = kept.as_ref().map_or(0, |kept| kept.next_seq);
            (kept, first_seq)
        }
    };
    Ok(Loaded {
        records: records(conn, &head, first_seq, limit)?,
        index: rows::index(row.get_ref(6)?.as_str()?)?,
        next_seq: head.next_seq,
        header: head.header,
        checkpoint,
        first_seq,
        hold,
    })
}

fn checkpoint(conn: &Connection, stream: i64) -> Result<Option<Checkpoint>, Fault> {
    conn.one(
        "SELECT next_seq, chain, state FROM checkpoints WHERE stream = ?1",
        [stream],
        |row| {
            Ok(Checkpoint {
                next_seq: row.get(0)?,
                chain: Digest(row.get(1)?),
                state: codec::unpack_blob(row.get_ref(2)?.as_blob()?)?,
            })
        },
    )
}

/// The events of a stream from a sequence on: first from its packs, then from rows. Each is
/// checked against its link of the hash chain, except the first of a read from the middle.
pub(crate) fn records(
    conn: &Connection,
    head: &Head,
    from: Seq,
    limit: usize,
) -> Result<Vec<Record>, Fault> {
    let wanted = usize::try_from(head.next_seq.saturating_sub(from)).unwrap_or(usize::MAX);
    let wanted = wanted.min(limit);
    let mut records: Vec<Record> = Vec::with_capacity(wanted.min(4_096));
    while records.len() < wanted && from + (records.len() as Seq) < head.packed_to {
        let seq = from + records.len() as Seq;
        let (first, packed) = unpack(conn, head.id, &head.tenant, seq)?;
        let (had, skip) = (
            records.len(),
            usize::try_from(seq - first).unwrap_or(usize::MAX),
        );
        records.extend(packed.into_iter().skip(skip).take(wanted - had));
        if records.len() == had {
            return Err(gap().into());
        }
    }
    let rest = clamp((wanted - records.len()) as u64);
    let next = from.saturating_add(records.len() as Seq);
    conn.scan(
        "SELECT seq, chain, content FROM events WHERE stream = ?1 AND seq >= ?2
         ORDER BY seq LIMIT ?3",
        params![head.id, clamp(next), rest],
        |row| {
            let content = content(conn, &head.tenant, row.get_ref(2)?.as_blob()?)?;
            let chain = Digest(row.get(1)?);
            let before = match records.last() {
                Some(last) => Some(last.chain),
                None => (from == 0).then_some(head.header.genesis),
            };
            if row.get::<_, Seq>(0)? != from + records.len() as Seq {
                return Err(gap().into());
            }
            if before.is_some_and(|before| before.chain(&content) != chain) {
                return Err(corrupt("an event does not match its link of the hash chain").into());
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

fn gap() -> StoreError {
    corrupt("the log of a stream has a gap")
}

pub(crate) fn content(conn: &Connection, tenant: &str, row: &[u8]) -> Result<Vec<u8>, StoreError> {
    codec::decode(row, |digest| Ok(blobs::stored(conn, tenant, digest)?))
}

/// The pack that holds an event, and the sequence it begins at.
fn unpack(
    conn: &Connection,
    stream: i64,
    tenant: &str,
    seq: Seq,
) -> Result<(Seq, Vec<Record>), Fault> {
    let resolve = |row: &[u8]| content(conn, tenant, row);
    let found = conn.one(
        "SELECT first_seq, before, after, body FROM packs WHERE stream = ?1 AND first_seq <= ?2
         ORDER BY first_seq DESC LIMIT 1",
        params![stream, seq],
        |row| {
            let (before, after) = (Digest(row.get(1)?), Digest(row.get(2)?));
            let body = row.get_ref(3)?.as_blob()?;
            Ok((row.get(0)?, pack::unpack(body, before, after, resolve)?))
        },
    )?;
    found.ok_or_else(|| gap().into())
}

pub(crate) fn feed(
    conn: &Connection,
    after: Position,
    limit: usize,
) -> Result<Vec<FeedEvent>, Fault> {
    let mut packs = Unpacked::default();
    let mut feed = Vec::new();
    conn.scan(
        "SELECT position, name, tenant, seq, content, id FROM events CROSS JOIN streams
         ON id = stream WHERE position > ?1 ORDER BY position LIMIT ?2",
        [clamp(after.0), clamp(limit as u64)],
        |row| {
            let (tenant, seq): (String, Seq) = (row.get(2)?, row.get(3)?);
            feed.push(FeedEvent {
                position: Position(row.get(0)?),
                stream: row.get::<_, String>(1)?.into(),
                seq,
                content: match row.get_ref(4)?.as_blob_or_null()? {
                    Some(stored) => content(conn, &tenant, stored)?,
                    None => packs.content(conn, row.get(5)?, &tenant, seq)?,
                },
                tenant: tenant.into(),
            });
            Ok(true)
        },
    )?;
    Ok(feed)
}

/// What a read of the feed keeps unpacked at a time, in bytes of content.
const UNPACKED_BYTES: usize = 16 << 20;

/// The last pack unpacked of each stream: neighbours in the feed mostly share one.
#[derive(Default)]
struct Unpacked {
    packs: HashMap<i64, (Seq, Vec<Record>)>,
    bytes: usize,
}

impl Unpacked {
    fn content(
        &mut self,
        conn: &Connection,
        stream: i64,
        tenant: &str,
        seq: Seq,
    ) -> Result<Vec<u8>, Fault> {
        let nth = |(first, records): &(Seq, Vec<Record>)| {
            let nth = usize::try_from(seq.checked_sub(*first)?).ok()?;
            records.get(nth).map(|record| record.content.clone())
        };
        if let Some(content) = self.packs.get(&stream).and_then(nth) {
            return Ok(content);
        }
        let pack = unpack(conn, stream, tenant, seq)?;
        let content = nth(&pack).ok_or_else(gap)?;
        let bytes = pack
            .1
            .iter()
            .map(|record| record.content.len())
            .sum::<usize>();
        if self.bytes + bytes > UNPACKED_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.packs.insert(stream, pack);
        Ok(content)
    }
}
