//! Reading logs: whole streams, and all of them in commit order.

use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::stream::StreamHeader;
use store::{
    Checkpoint, FeedEvent, Lease, Loaded, LogRange, Position, ReadFrom, StoreError, codec,
};
use tokio_postgres::Row;

use crate::db::{Db, clamp, column, corrupt, count, digest, json, number, params};

const HEAD: &str = "SELECT s.next_seq, s.chain, s.index_row, s.epoch, s.holder, s.expires_at,
    h.header, c.next_seq AS folded, c.chain AS folded_chain, c.state
  FROM runwright.streams AS s LEFT JOIN runwright.headers AS h ON h.stream = s.id
  LEFT JOIN runwright.checkpoints AS c ON c.stream = s.id AND $2
  WHERE s.name = $1";
const EVENTS: &str = "SELECT e.seq, e.chain, e.content, b.stored
  FROM runwright.events AS e LEFT JOIN runwright.blobs AS b ON b.id = e.blob
  WHERE e.stream = (SELECT id FROM runwright.streams WHERE name = $1) AND e.seq >= $2
  ORDER BY e.seq LIMIT $3";
/// A policy keeps `coalesce` out of a condition of an index; the value of a subquery is allowed there.
const EVENTS_AFTER_CHECKPOINT: &str = "SELECT e.seq, e.chain, e.content, b.stored
  FROM runwright.events AS e LEFT JOIN runwright.blobs AS b ON b.id = e.blob
  WHERE e.stream = (SELECT id FROM runwright.streams WHERE name = $1)
    AND e.seq >= (SELECT coalesce((SELECT c.next_seq FROM runwright.checkpoints AS c
      JOIN runwright.streams AS s ON s.id = c.stream WHERE s.name = $1), $2))
  ORDER BY e.seq LIMIT $3";
const FEED: &str = "SELECT e.position, s.name, s.tenant, e.seq, e.content, b.stored
  FROM runwright.events AS e JOIN runwright.streams AS s ON s.id = e.stream
  LEFT JOIN runwright.blobs AS b ON b.id = e.blob
  WHERE e.position > $1 ORDER BY e.position LIMIT $2";

/// How often a load is repeated that a purge or a new checkpoint came between.
const REPEATS: usize = 3;

/// Reads a stream as it is when its row is read. The events are read after that. A log only grows,
/// so later events are cut off.
pub(crate) async fn load(
    db: &Db,
    stream: &StreamId,
    from: ReadFrom,
    limit: usize,
) -> Result<Loaded, StoreError> {
    let mut answer = Err(StoreError::Missing);
    for _ in 0..REPEATS {
        answer = try_load(db, stream, from, limit).await;
        if !answer.as_ref().is_err_and(StoreError::is_gap) {
            break;
        }
    }
    answer
}

async fn try_load(
    db: &Db,
    stream: &StreamId,
    from: ReadFrom,
    limit: usize,
) -> Result<Loaded, StoreError> {
    let (name, limited) = (stream.as_str(), count(limit));
    let (events, first, folded) = match from {
        ReadFrom::Seq(seq) => (EVENTS, clamp(seq), false),
        ReadFrom::Checkpoint => (EVENTS_AFTER_CHECKPOINT, 0, true),
    };
    let queries: [crate::db::Query<'_>; 2] = [
        (HEAD, &params![name => TEXT, folded => BOOL]),
        (
            events,
            &params![name => TEXT, first => INT8, limited => INT8],
        ),
    ];
    let answers = db.look(&queries).await?;
    let [heads, rows] =
        <[Vec<Row>; 2]>::try_from(answers).map_err(|_| corrupt("a load has no answer"))?;
    let head = heads.first().ok_or(StoreError::Missing)?;
    let checkpoint = checkpoint(head)?;
    let first_seq = from.first_seq(checkpoint.as_ref());
    let header: StreamHeader = json(head, "header")?;
    let next_seq = number(head, "next_seq")?;
    let end = (next_seq, digest(head, "chain")?);
    let mut range = LogRange::new(header.genesis, first_seq, end, limit);
    // The log may have grown since its head was read.
    for row in rows.iter().take(range.missing()) {
        range.push(number(row, "seq")?, content(row)?, digest(row, "chain")?)?;
    }
    let (holder, expires_at) = (column(head, "holder")?, column(head, "expires_at")?);
    Ok(Loaded {
        records: range.finish()?,
        index: json(head, "index_row")?,
        header,
        checkpoint,
        first_seq,
        next_seq,
        lease: Lease::on_record(stream, number(head, "epoch")?, holder, expires_at),
    })
}

fn checkpoint(head: &Row) -> Result<Option<Checkpoint>, StoreError> {
    let Some(state) = column::<Option<&[u8]>>(head, "state")? else {
        return Ok(None);
    };
    Ok(Some(Checkpoint {
        next_seq: number(head, "folded")?,
        chain: digest(head, "folded_chain")?,
        state: codec::unpack_blob(state)?,
    }))
}

/// The content of an event from its row.
fn content(row: &Row) -> Result<Vec<u8>, StoreError> {
    let stored: Option<&[u8]> = column(row, "stored")?;
    let fetch = |_: &Digest| stored.map(<[u8]>::to_vec).ok_or(StoreError::Missing);
    codec::decode(column(row, "content")?, fetch)
}

pub(crate) async fn feed(
    db: &Db,
    after: Position,
    limit: usize,
) -> Result<Vec<FeedEvent>, StoreError> {
    let (after, limit) = (clamp(after.0), count(limit));
    let rows = db
        .look_up(FEED, &params![after => INT8, limit => INT8])
        .await?;
    let event = |row: &Row| {
        Ok(FeedEvent {
            position: Position(number(row, "position")?),
            stream: column::<String>(row, "name")?.into(),
            tenant: column::<String>(row, "tenant")?.into(),
            seq: number(row, "seq")?,
            content: StoreError::unless_damaged(content(row))?,
        })
    };
    rows.iter().map(event).collect()
}

pub(crate) async fn feed_end(db: &Db) -> Result<Position, StoreError> {
    let sql = "SELECT coalesce(max(position), 0) AS position FROM runwright.events";
    let rows = db.look_up(sql, &[]).await?;
    let end = rows
        .first()
        .map(|row| number(row, "position"))
        .transpose()?;
    Ok(Position(end.unwrap_or_default()))
}
