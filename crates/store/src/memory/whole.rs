//! The whole store as rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::time::Timestamp;

use super::MemoryStore;
use super::tables::{Blob, Row as EventRow, Stream, Tables};
use crate::codec;
use crate::error::StoreError;
use crate::types::*;
use crate::whole::*;
use crate::{Store as _, StoreClock};

impl MemoryStore {
    /// Another handle on the same data, as a whole.
    ///
    /// # Errors
    /// `Unavailable` for an unfinished destination as a source, and for data in a destination.
    pub fn share_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Self, StoreError> {
        let mut tables = self.tables.lock();
        match (how, &tables.import) {
            (Opening::Source, Some(_)) => return Err(StoreError::Unavailable(UNFINISHED.into())),
            (Opening::Source, None) | (Opening::Destination, Some(_)) => {}
            (Opening::Destination, None) => {
                if Part::ALL.iter().any(|part| !tables.rows(*part).is_empty()) {
                    return Err(StoreError::Unavailable(NOT_EMPTY.into()));
                }
                tables.import = Some(Mark::default());
            }
        }
        drop(tables);
        Ok(self.share(clock))
    }
}

fn text(text: impl ToString) -> Cell {
    Cell::Text(text.to_string())
}

fn number(number: u64) -> Cell {
    Cell::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

fn bytes(bytes: &[u8]) -> Cell {
    Cell::Bytes(bytes.to_vec())
}

fn or_null<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
    value.map_or(Cell::Null, cell)
}

fn json(value: &impl serde::Serialize) -> Cell {
    text(serde_json::to_string(value).expect("rows of the kernel are always JSON"))
}

/// A damaged row of an import.
fn damaged() -> StoreError {
    StoreError::Corrupt("a row to import has another form".into())
}

fn digest(bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|_| damaged())
}

impl Tables {
    /// All rows of a part, in the order of their keys.
    fn rows(&self, part: Part) -> Vec<Row> {
        let streams = self.streams.iter();
        match part {
            Part::Blobs => (self.blobs.iter())
                .map(|((tenant, digest), blob)| {
                    let size = codec::unpack_blob(&blob.stored).unwrap_or_default().len();
                    let put_at = blob.put_at.map_or(i64::MIN, |at| at.0);
                    vec![
                        text(tenant),
                        bytes(&digest.0),
                        number(size as u64),
                        Cell::Number(put_at),
                        bytes(&blob.stored),
                    ]
                })
                .collect(),
            Part::Streams => streams
                .map(|(name, stream)| {
                    let lease = stream.lease.as_ref();
                    vec![
                        text(name),
                        text(stream.tenant()),
                        number(stream.next_seq()),
                        or_null(stream.rows.last(), |last| bytes(&last.chain.0)),
                        number(stream.epoch.0),
                        or_null(lease, |lease| text(&lease.holder)),
                        or_null(lease, |lease| Cell::Number(lease.expires_at.0)),
                        json(&stream.header),
                        json(&stream.index),
                    ]
                })
                .collect(),
            Part::References => streams
                .filter(|(_, stream)| !stream.blobs.is_empty())
                .map(|(name, stream)| {
                    let mut digests: Vec<_> = stream.blobs.iter().map(Digest::to_string).collect();
                    digests.sort_unstable();
                    vec![text(name), text(digests.join(","))]
                })
                .collect(),
            Part::Checkpoints => streams
                .filter_map(|(name, stream)| {
                    let kept = stream.checkpoint.as_ref()?;
                    let state = codec::pack_blob(&kept.state);
                    Some(vec![
                        text(name),
                        number(kept.next_seq),
                        bytes(&kept.chain.0),
                        Cell::Bytes(state),
                    ])
                })
                .collect(),
            Part::Timers => streams
                .flat_map(|(name, stream)| {
                    let timers = stream.timers.iter();
                    timers
                        .map(move |(timer, due)| vec![text(name), text(timer), Cell::Number(due.0)])
                })
                .collect(),
            Part::Events => (self.feed.iter())
                .map(|(position, (name, seq))| {
                    let row = &self.streams[name].rows[*seq as usize];
                    vec![
                        number(position.0),
                        text(name),
                        number(*seq),
                        bytes(&row.chain.0),
                        bytes(&row.bytes),
                    ]
                })
                .collect(),
            Part::Keys => (self.keys.iter())
                .map(|((tenant, namespace, key), row)| {
                    vec![
                        text(tenant),
                        text(namespace),
                        text(key),
                        or_null(row.stream.as_ref(), text),
                        or_null(row.digest, |digest| bytes(&digest.0)),
                        or_null(row.answer.as_deref(), bytes),
                        or_null(row.expires_at, |at| Cell::Number(at.0)),
                    ]
                })
                .collect(),
            Part::Outbox => (self.outbox.values())
                .map(|message| {
                    vec![
                        number(message.place),
                        text(&message.source),
                        text(&message.id),
                        text(&message.target),
                        bytes(&message.command),
                    ]
                })
                .collect(),
            Part::Tombstones => (self.tombstones.values())
                .map(|tombstone| {
                    vec![
                        text(&tombstone.stream),
                        text(&tombstone.tenant),
                        number(tombstone.next_seq),
                        bytes(&tombstone.chain.0),
                        text(&tombstone.reason),
                        Cell::Number(tombstone.purged_at.0),
                    ]
                })
                .collect(),
            Part::Counters => [
                ("place", self.last_place),
                ("position", self.last_position.0),
            ]
            .into_iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| vec![text(name), number(value)])
            .collect(),
        }
    }

    fn stream_to_fill(&mut self, name: &str) -> Result<&mut Stream, StoreError> {
        self.streams
            .get_mut(&StreamId::new(name))
            .ok_or_else(damaged)
    }

    fn import_row(&mut self, part: Part, row: &[Cell]) -> Result<(), StoreError> {
        use Cell::{Bytes as B, Number as N, Text as T};
        match (part, row) {
            (Part::Blobs, [T(tenant), B(of), _, N(put_at), B(stored)]) => {
                let blob = Blob {
                    stored: stored.clone(),
                    references: 0,
                    put_at: (*put_at != i64::MIN).then_some(Timestamp(*put_at)),
                };
                self.blobs
                    .insert((tenant.as_str().into(), digest(of)?), blob);
            }
            (Part::Streams, [T(name), _, _, _, N(epoch), holder, at, T(header), T(index)]) => {
                let epoch = Epoch(epoch.unsigned_abs());
                let lease = match (holder, at) {
                    (T(holder), N(at)) => Some(Lease {
                        stream: name.as_str().into(),
                        epoch,
                        holder: holder.as_str().into(),
                        expires_at: Timestamp(*at),
                    }),
                    _ => None,
                };
                let stream = Stream {
                    header: serde_json::from_str(header).map_err(|_| damaged())?,
                    index: serde_json::from_str(index).map_err(|_| damaged())?,
                    rows: Vec::new(),
                    timers: BTreeMap::new(),
                    checkpoint: None,
                    epoch,
                    lease,
                    blobs: Vec::new(),
                };
                self.streams.insert(name.as_str().into(), stream);
            }
            (Part::References, [T(name), T(digests)]) => {
                for text in digests.split(',') {
                    let digest: Digest = text.parse().map_err(|_| damaged())?;
                    let stream = self.stream_to_fill(name)?;
                    stream.blobs.push(digest);
                    let place = (stream.tenant().clone(), digest);
                    self.blobs.get_mut(&place).ok_or_else(damaged)?.references += 1;
                }
            }
            (Part::Checkpoints, [T(name), N(next_seq), B(chain), B(state)]) => {
                self.stream_to_fill(name)?.checkpoint = Some(Checkpoint {
                    next_seq: next_seq.unsigned_abs(),
                    chain: digest(chain)?,
                    state: codec::unpack_blob(state)?,
                });
            }
            (Part::Timers, [T(name), T(timer), N(due)]) => {
                let stream = self.stream_to_fill(name)?;
                stream.timers.insert(timer.clone(), Timestamp(*due));
            }
            (Part::Events, [N(position), T(name), N(seq), B(chain), B(content)]) => {
                let row = EventRow {
                    bytes: content.clone(),
                    chain: digest(chain)?,
                };
                self.stream_to_fill(name)?.rows.push(row);
                let place = (name.as_str().into(), seq.unsigned_abs());
                self.feed.insert(Position(position.unsigned_abs()), place);
            }
            (Part::Keys, [T(tenant), T(namespace), T(key), stream, of, answer, at]) => {
                let row = KeyRow {
                    stream: match stream {
                        T(stream) => Some(stream.as_str().into()),
                        _ => None,
                    },
                    digest: match of {
                        B(bytes) => Some(digest(bytes)?),
                        _ => None,
                    },
                    answer: match answer {
                        B(answer) => Some(answer.clone()),
                        _ => None,
                    },
                    expires_at: match at {
                        N(at) => Some(Timestamp(*at)),
                        _ => None,
                    },
                };
                let place = (tenant.as_str().into(), namespace.clone(), key.clone());
                self.keys.insert(place, row);
            }
            (Part::Outbox, [N(place), T(source), T(id), T(target), B(command)]) => {
                let place = place.unsigned_abs();
                let message = Outgoing {
                    place,
                    source: source.as_str().into(),
                    tenant: self.stream_to_fill(source)?.tenant().clone(),
                    id: id.as_str().into(),
                    target: target.as_str().into(),
                    command: command.clone(),
                };
                self.outbox.insert(place, message);
            }
            (Part::Tombstones, [T(name), T(tenant), N(next_seq), B(chain), T(reason), N(at)]) => {
                let tombstone = Tombstone {
                    stream: name.as_str().into(),
                    tenant: tenant.as_str().into(),
                    next_seq: next_seq.unsigned_abs(),
                    chain: digest(chain)?,
                    reason: reason.clone(),
                    purged_at: Timestamp(*at),
                };
                self.tombstones.insert(name.as_str().into(), tombstone);
            }
            (Part::Counters, [T(name), N(value)]) => match name.as_str() {
                "place" => self.last_place = value.unsigned_abs(),
                _ => self.last_position = Position(value.unsigned_abs()),
            },
            _ => return Err(damaged()),
        }
        Ok(())
    }
}

#[async_trait]
impl WholeStore for MemoryStore {
    async fn export(
        &self,
        part: Part,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.tables.lock().rows(part);
        rows.retain(|row| part.key(row) > after);
        rows.truncate(limit);
        Ok(rows)
    }

    async fn mark(&self) -> Result<Option<Mark>, StoreError> {
        Ok(self.tables.lock().import.clone())
    }

    async fn import(&self, part: Part, rows: Vec<Row>, mark: Mark) -> Result<(), StoreError> {
        let mut tables = self.tables.lock();
        if tables
            .import
            .as_ref()
            .is_none_or(|last| mark.step <= last.step)
        {
            return Err(StoreError::Unavailable(
                "another import has made this step".into(),
            ));
        }
        for row in &rows {
            tables.import_row(part, row)?;
        }
        tables.import = Some(mark);
        Ok(())
    }

    async fn finish_import(&self) -> Result<(), StoreError> {
        self.tables.lock().import = None;
        Ok(())
    }

    async fn status(&self) -> Result<Status, StoreError> {
        let (tables, now) = (self.tables.lock(), self.now());
        let fact = |name: &str, count, at: Option<Timestamp>| {
            let at = or_null(at, |at| Cell::Number(at.0));
            vec![text(name), Cell::Null, number(count), at, Cell::Null]
        };
        let oldest = tables.outbox.values().next();
        let oldest = oldest.map(|message| tables.streams[&message.source].index.updated_at);
        let mut facts = vec![
            fact("streams", tables.streams.len() as u64, None),
            fact("events", tables.feed.len() as u64, None),
            fact("feed_end", tables.last_position.0, None),
            fact("outbox", tables.outbox.len() as u64, oldest),
        ];
        let mut holders = BTreeMap::<_, (u64, Timestamp)>::new();
        for lease in tables
            .streams
            .values()
            .filter_map(|stream| stream.live_lease(now))
        {
            let held = holders.entry(&lease.holder).or_default();
            *held = (held.0 + 1, held.1.max(lease.expires_at));
        }
        for (holder, (leases, at)) in holders {
            let at = Cell::Number(at.0);
            facts.push(vec![
                text("holder"),
                text(holder),
                number(leases),
                at,
                Cell::Null,
            ]);
        }
        for ((_, namespace, key), row) in &tables.keys {
            if (namespace.as_str(), key.as_str()) == (SERVERS_NAMESPACE, SERVERS_KEY) {
                let list = or_null(row.answer.as_deref(), bytes);
                facts.push(vec![
                    text("servers"),
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                    list,
                ]);
            }
        }
        Ok(Status::from_facts(now, facts))
    }
}
