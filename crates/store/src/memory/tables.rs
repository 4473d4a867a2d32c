//! The store's data, and every method that only reads or deletes.

use std::collections::BTreeMap;
use std::ops::Bound;

use kernel::batch::{IndexRow, KeyClaim, Record};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId, TenantId};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;

use crate::api::BLOB_GRACE;
use crate::codec;
use crate::error::{Conflict, StoreError};
use crate::types::*;
use crate::whole::Mark;

#[derive(Default)]
pub(super) struct Tables {
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) tombstones: BTreeMap<StreamId, Tombstone>,
    pub(super) keys: BTreeMap<(TenantId, String, String), KeyRow>,
    pub(super) feed: BTreeMap<Position, (StreamId, Seq)>,
    pub(super) outbox: BTreeMap<u64, Outgoing>,
    pub(super) blobs: BTreeMap<(TenantId, Digest), Blob>,
    /// The greatest position ever assigned, so that a purged one is not assigned again.
    pub(super) last_position: Position,
    pub(super) last_place: u64,
    /// How far an unfinished import is.
    pub(super) import: Option<Mark>,
}

pub(super) struct Stream {
    pub(super) header: StreamHeader,
    pub(super) index: IndexRow,
    pub(super) rows: Vec<Row>,
    pub(super) timers: BTreeMap<String, Timestamp>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Outlives the lease: the next claim gets one more.
    pub(super) epoch: Epoch,
    pub(super) lease: Option<Lease>,
    /// One entry for each reference.
    pub(super) blobs: Vec<Digest>,
}

pub(super) struct Row {
    pub(super) bytes: Vec<u8>,
    pub(super) chain: Digest,
}

pub(super) struct Blob {
    pub(super) stored: Vec<u8>,
    pub(super) references: usize,
    /// The last put that no reference followed.
    pub(super) put_at: Option<Timestamp>,
}

impl Blob {
    pub(super) fn refer(&mut self) {
        self.references += 1;
        self.put_at = None;
    }

    fn collectable(&self, now: Timestamp) -> bool {
        self.references == 0 && self.put_at.is_none_or(|at| at.plus(BLOB_GRACE) <= now)
    }
}

impl Stream {
    pub(super) fn tenant(&self) -> &TenantId {
        self.header.tenant()
    }

    pub(super) fn next_seq(&self) -> Seq {
        self.rows.len() as Seq
    }

    pub(super) fn live_lease(&self, now: Timestamp) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| now < lease.expires_at)
    }
}

impl Tables {
    pub(super) fn stream(&self, stream: &StreamId) -> Result<&Stream, StoreError> {
        self.streams.get(stream).ok_or(StoreError::Missing)
    }

    pub(super) fn load(
        &self,
        stream: &StreamId,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Loaded, StoreError> {
        let found = self.stream(stream)?;
        let checkpoint = match from {
            ReadFrom::Seq(_) => None,
            ReadFrom::Checkpoint => found.checkpoint.clone(),
        };
        let first_seq = from.first_seq(checkpoint.as_ref());
        let skip = usize::try_from(first_seq).unwrap_or(usize::MAX);
        let records = found.rows.iter().skip(skip).take(limit);
        let records = records
            .map(|row| {
                let content = self.content(found.tenant(), &row.bytes)?;
                Ok(Record {
                    content,
                    chain: row.chain,
                })
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(Loaded {
            header: found.header.clone(),
            checkpoint,
            records,
            first_seq,
            next_seq: found.next_seq(),
            index: found.index.clone(),
            lease: found.lease.clone(),
        })
    }

    fn content(&self, tenant: &TenantId, row: &[u8]) -> Result<Vec<u8>, StoreError> {
        codec::decode(row, |digest| {
            let blob = self.blobs.get(&(tenant.clone(), *digest));
            blob.map(|blob| blob.stored.clone())
                .ok_or(StoreError::Missing)
        })
    }

    pub(super) fn key(
        &self,
        tenant: &TenantId,
        namespace: &str,
        key: &str,
        now: Timestamp,
    ) -> Option<&KeyRow> {
        self.keys
            .get(&(tenant.clone(), namespace.into(), key.into()))
            .filter(|row| row.expires_at.is_none_or(|at| now < at))
    }

    pub(super) fn put_key(
        &mut self,
        tenant: &TenantId,
        claim: KeyClaim,
        seen: Option<KeyRow>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let found = self.key(tenant, &claim.namespace, &claim.key, now);
        if found != seen.as_ref() {
            return Err(StoreError::key_taken(&claim));
        }
        let row = KeyRow {
            stream: None,
            digest: claim.digest,
            answer: claim.answer,
            expires_at: claim.expires_at,
        };
        let place = (tenant.clone(), claim.namespace, claim.key);
        self.keys.insert(place, row);
        Ok(())
    }

    pub(super) fn put_checkpoint(
        &mut self,
        stream: &StreamId,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        let found = self.streams.get_mut(stream).ok_or(StoreError::Missing)?;
        let kept = found.checkpoint.as_ref().map_or(0, |kept| kept.next_seq);
        if (kept..=found.next_seq()).contains(&checkpoint.next_seq) {
            found.checkpoint = Some(checkpoint);
        }
        Ok(())
    }

    pub(super) fn put_blob(&mut self, tenant: &TenantId, bytes: &[u8], now: Timestamp) -> Digest {
        let digest = Digest::compute(bytes);
        let blob = self
            .blobs
            .entry((tenant.clone(), digest))
            .or_insert_with(|| Blob {
                stored: codec::pack_blob(bytes),
                references: 0,
                put_at: None,
            });
        blob.put_at = blob.put_at.max(Some(now));
        digest
    }

    pub(super) fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let blob = self
            .blobs
            .get(&(tenant.clone(), *digest))
            .ok_or(StoreError::Missing)?;
        codec::open_blob(&blob.stored, digest)
    }

    pub(super) fn list(&self, query: &ListQuery) -> Vec<Listed> {
        fn is<T: PartialEq>(asked: &Option<T>, found: &T) -> bool {
            asked.as_ref().is_none_or(|asked| asked == found)
        }
        let mut rows: Vec<_> = (self.streams.iter())
            .filter(|(stream, found)| {
                let index = &found.index;
                is(&query.tenant, found.tenant())
                    && (query.workspace.is_none() || query.workspace == index.workspace)
                    && is(&query.kind, &index.kind)
                    && is(&query.subject, &index.subject)
                    && (query.statuses.is_empty() || query.statuses.contains(&index.status))
                    && query
                        .tag
                        .as_ref()
                        .is_none_or(|tag| index.tags.contains(tag))
                    && (query.parent.is_none() || query.parent == index.parent)
                    && query.since.is_none_or(|since| index.created_at >= since)
                    && query.after.as_ref().is_none_or(|after| {
                        (index.created_at, *stream) < (after.created_at, &after.stream)
                    })
            })
            .collect();
        rows.sort_by(|(a_id, a), (b_id, b)| {
            (b.index.created_at, b_id).cmp(&(a.index.created_at, a_id))
        });
        let page = rows.into_iter().take(query.limit);
        page.map(|(stream, found)| Listed {
            stream: stream.clone(),
            tenant: found.tenant().clone(),
            next_seq: found.next_seq(),
            index: found.index.clone(),
        })
        .collect()
    }

    pub(super) fn feed(&self, after: Position, limit: usize) -> Result<Vec<FeedEvent>, StoreError> {
        let behind = self.feed.range((Bound::Excluded(after), Bound::Unbounded));
        behind
            .take(limit)
            .map(|(position, (stream, seq))| {
                let found = &self.streams[stream];
                let row = &found.rows[*seq as usize];
                Ok(FeedEvent {
                    position: *position,
                    stream: stream.clone(),
                    tenant: found.tenant().clone(),
                    seq: *seq,
                    content: StoreError::unless_damaged(self.content(found.tenant(), &row.bytes))?,
                })
            })
            .collect()
    }

    pub(super) fn outbox(&self, limit: usize) -> Vec<Outgoing> {
        self.outbox.values().take(limit).cloned().collect()
    }

    pub(super) fn delivered(&mut self, places: &[u64]) {
        for place in places {
            self.outbox.remove(place);
        }
    }

    pub(super) fn purge(
        &mut self,
        stream: &StreamId,
        reason: &str,
        now: Timestamp,
    ) -> Result<Tombstone, StoreError> {
        if let Some(tombstone) = self.tombstones.get(stream) {
            return Ok(tombstone.clone());
        }
        if self.stream(stream)?.live_lease(now).is_some() {
            return Err(StoreError::Conflict(Conflict::Held));
        }
        let erased = self.streams.remove(stream).expect("it was just found");
        let tenant = erased.tenant();
        self.keys.retain(|_, row| {
            if row.stream.as_ref() != Some(stream) {
                return true;
            }
            row.stream = None;
            row.digest.is_some() && row.expires_at.is_some()
        });
        self.feed.retain(|_, (of, _)| of != stream);
        self.outbox.retain(|_, message| message.source != *stream);
        for digest in &erased.blobs {
            let place = (tenant.clone(), *digest);
            let blob = self
                .blobs
                .get_mut(&place)
                .expect("a blob stays while it is referred to");
            blob.references -= 1;
            if blob.references == 0 && blob.put_at.is_none() {
                self.blobs.remove(&place);
            }
        }
        let tombstone = Tombstone {
            stream: stream.clone(),
            tenant: tenant.clone(),
            next_seq: erased.next_seq(),
            chain: erased.rows.last().expect("no stream is empty").chain,
            reason: reason.into(),
            purged_at: now,
        };
        self.tombstones.insert(stream.clone(), tombstone.clone());
        Ok(tombstone)
    }

    pub(super) fn tombstone(&self, stream: &StreamId) -> Option<&Tombstone> {
        self.tombstones.get(stream)
    }

    pub(super) fn maintain(&mut self, now: Timestamp) {
        self.keys
            .retain(|_, row| row.expires_at.is_none_or(|at| now < at));
        self.blobs.retain(|_, blob| !blob.collectable(now));
    }

    pub(super) fn inspect(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |stream: Option<&StreamId>, what: &str| {
            findings.push(Finding {
                stream: stream.cloned(),
                what: what.into(),
            });
        };
        let mut references = BTreeMap::<_, usize>::new();
        for (stream, found) in &self.streams {
            if found.rows.is_empty() {
                find(Some(stream), "the log is empty");
            }
            if self.tombstones.contains_key(stream) {
                find(Some(stream), "the stream is purged and still there");
            }
            if found
                .rows
                .iter()
                .any(|row| self.content(found.tenant(), &row.bytes).is_err())
            {
                find(Some(stream), "an event cannot be read");
            }
            for digest in &found.blobs {
                *references
                    .entry((found.tenant().clone(), *digest))
                    .or_default() += 1;
            }
        }
        for (place, blob) in &self.blobs {
            if self.blob(&place.0, &place.1).is_err() {
                find(None, "a blob cannot be read");
            }
            if references.remove(place).unwrap_or(0) != blob.references {
                find(
                    None,
                    "a blob is referred to more or less often than it counts",
                );
            }
        }
        if !references.is_empty() {
            find(None, "a blob that a stream refers to does not exist");
        }
        let events: usize = self.streams.values().map(|found| found.rows.len()).sum();
        if self.feed.len() != events {
            find(
                None,
                "the feed and the logs hold different numbers of events",
            );
        }
        findings
    }
}
