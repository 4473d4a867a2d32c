//! Append: every refusal first, then every change.

use kernel::batch::{Batch, KeyClaim, Record, TimerChange};
use kernel::digest::Digest;
use kernel::ids::{StreamId, TenantId};
use kernel::time::Timestamp;

use super::tables::{Blob, Row, Stream, Tables};
use crate::codec::{self, Encoded};
use crate::error::{Conflict, StoreError};
use crate::types::*;

impl Tables {
    pub(super) fn append(
        &mut self,
        batch: Batch,
        guard: Guard,
        lease: LeaseChange,
        now: Timestamp,
    ) -> Result<Appended, StoreError> {
        self.check(&batch, guard, &lease, now)?;
        let (id, tenant) = (batch.stream(), batch.tenant());

        let mut blobs = batch.blobs().to_vec();
        for digest in batch.blobs() {
            let blob = self.blobs.get_mut(&(tenant.clone(), *digest));
            blob.expect("it was just found").refer();
        }
        let mut rows = Vec::new();
        for record in batch.records() {
            let (row, blob) = self.store_content(tenant, record);
            rows.push(row);
            blobs.extend(blob);
        }
        for seq in batch.first_seq()..batch.first_seq() + rows.len() as u64 {
            self.last_position.0 += 1;
            self.feed.insert(self.last_position, (id.clone(), seq));
        }
        for claim in batch.keys() {
            self.keys.insert(place(tenant, claim), key_row(id, claim));
        }
        for message in batch.outbox() {
            self.last_place += 1;
            let outgoing = Outgoing {
                place: self.last_place,
                source: id.clone(),
                tenant: tenant.clone(),
                id: message.id.clone(),
                target: message.target.clone(),
                command: message.command.clone(),
            };
            self.outbox.insert(self.last_place, outgoing);
        }

        let stream = self.streams.entry(id.clone()).or_insert_with(|| Stream {
            header: batch
                .header()
                .expect("a first batch has the header")
                .clone(),
            index: batch.index().clone(),
            rows: Vec::new(),
            timers: Default::default(),
            checkpoint: None,
            epoch: Epoch::default(),
            lease: None,
            blobs: Vec::new(),
        });
        stream.index = batch.index().clone();
        stream.rows.extend(rows);
        stream.blobs.extend(blobs);
        for change in batch.timers() {
            match change {
                TimerChange::Set { name, due } => stream.timers.insert(name.clone(), *due),
                TimerChange::Cancel { name } => stream.timers.remove(name),
            };
        }
        let taken = match lease {
            LeaseChange::Keep => None,
            LeaseChange::Take { holder, ttl } => Some(stream.take(id, &holder, ttl, now)),
            LeaseChange::Release => {
                stream.lease = None;
                None
            }
        };
        Ok(Appended {
            position: self.last_position,
            lease: taken,
        })
    }

    fn check(
        &self,
        batch: &Batch,
        guard: Guard,
        lease: &LeaseChange,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (id, tenant) = (batch.stream(), batch.tenant());
        let found = self.streams.get(id);
        if let Guard::Holder(epoch) = guard
            && found
                .and_then(|found| found.lease.as_ref())
                .is_none_or(|lease| lease.epoch != epoch)
        {
            return Err(StoreError::Fenced);
        }
        let next_seq = found.map_or(0, Stream::next_seq);
        if next_seq != batch.first_seq() || self.tombstones.contains_key(id) {
            return Err(StoreError::Conflict(Conflict::Sequence));
        }
        if let LeaseChange::Take { .. } = lease
            && let Some(key) = &batch.index().concurrency_key
            && self.key_held_until(tenant, key, id, now).is_some()
        {
            return Err(StoreError::Conflict(Conflict::Held));
        }
        for (nth, claim) in batch.keys().iter().enumerate() {
            let lives = |at: Option<Timestamp>| at.is_none_or(|at| now < at);
            let same = |earlier: &KeyClaim| {
                (&earlier.namespace, &earlier.key) == (&claim.namespace, &claim.key)
            };
            if self
                .key(tenant, &claim.namespace, &claim.key, now)
                .is_some()
                || batch.keys()[..nth]
                    .iter()
                    .any(|one| same(one) && lives(one.expires_at))
            {
                return Err(StoreError::key_taken(claim));
            }
        }
        let is_there = |digest: &Digest| self.blobs.contains_key(&(tenant.clone(), *digest));
        if batch.blobs().iter().all(is_there) {
            Ok(())
        } else {
            Err(StoreError::Missing)
        }
    }

    /// The row of an event, and its blob if the content is external.
    fn store_content(&mut self, tenant: &TenantId, record: &Record) -> (Row, Option<Digest>) {
        let Encoded { row, blob } = codec::encode(&record.content);
        let digest = blob.map(|body| {
            let place = (tenant.clone(), body.digest);
            let blob = self.blobs.entry(place).or_insert(Blob {
                stored: body.stored,
                references: 0,
                put_at: None,
            });
            blob.refer();
            body.digest
        });
        (
            Row {
                bytes: row,
                chain: record.chain,
            },
            digest,
        )
    }
}

fn place(tenant: &TenantId, claim: &KeyClaim) -> (TenantId, String, String) {
    (tenant.clone(), claim.namespace.clone(), claim.key.clone())
}

fn key_row(stream: &StreamId, claim: &KeyClaim) -> KeyRow {
    KeyRow {
        stream: Some(stream.clone()),
        digest: claim.digest,
        answer: claim.answer.clone(),
        expires_at: claim.expires_at,
    }
}
