//! An append prepared on its caller's thread, so that a store of rows only writes.

use kernel::batch::{Batch, KeyClaim};
use kernel::digest::Digest;
use kernel::ids::Seq;
use kernel::time::Timestamp;

use crate::codec::{self, Encoded};
use crate::{Epoch, Guard, Lease, LeaseChange, StoreError, assert_appendable};

/// An append, with everything encoded that is stored as text or bytes.
#[derive(Debug)]
pub struct Prepared {
    /// The batch to append.
    pub batch: Batch,
    /// The right to append.
    pub guard: Guard,
    /// The change of the lease.
    pub lease: LeaseChange,
    /// The row of each record.
    pub rows: Vec<Encoded>,
    /// The header as JSON, where the batch has one.
    pub header: Option<String>,
    /// The index row as JSON.
    pub index: String,
}

impl Prepared {
    /// Prepares an append.
    ///
    /// # Panics
    /// As documented at [`Store::append`](crate::Store::append).
    pub fn new(batch: Batch, guard: Guard, lease: LeaseChange) -> Self {
        assert_appendable(&batch, guard, &lease);
        let json = "rows of the kernel are always JSON";
        let header = batch.header().map(serde_json::to_string);
        let rows = batch.records().iter();
        Self {
            rows: rows.map(|record| codec::encode(&record.content)).collect(),
            header: header.transpose().expect(json),
            index: serde_json::to_string(batch.index()).expect(json),
            batch,
            guard,
            lease,
        }
    }

    /// The approximate memory used while it waits, in bytes.
    pub fn bytes(&self) -> usize {
        let contents = self.batch.records().iter();
        // Once in the batch and once in its row.
        2 * contents.map(|record| record.content.len()).sum::<usize>() + self.index.len()
    }

    /// How many events the log holds afterwards.
    pub fn next_seq(&self) -> Seq {
        self.batch.first_seq() + self.batch.records().len() as Seq
    }

    /// The link of the hash chain after the last event.
    pub fn chain(&self) -> Digest {
        let last = self.batch.records().last();
        last.expect("a batch has at least one event").chain
    }

    /// The lease it takes.
    pub fn taken(&self, now: Timestamp) -> Option<Lease> {
        match &self.lease {
            LeaseChange::Take { holder, ttl } => Some(Lease {
                stream: self.batch.stream().clone(),
                epoch: Epoch(1),
                holder: holder.clone(),
                expires_at: now.plus(*ttl),
            }),
            LeaseChange::Keep | LeaseChange::Release => None,
        }
    }

    /// Refuses the first key of the batch that is taken, either by an earlier claim of the batch or
    /// according to `taken`.
    pub fn check_keys<E: From<StoreError>>(
        &self,
        now: Timestamp,
        mut taken: impl FnMut(&KeyClaim) -> Result<bool, E>,
    ) -> Result<(), E> {
        let keys = self.batch.keys();
        for (nth, claim) in keys.iter().enumerate() {
            let twice = keys[..nth].iter().any(|earlier| {
                (&earlier.namespace, &earlier.key) == (&claim.namespace, &claim.key)
                    && earlier.expires_at.is_none_or(|at| now < at)
            });
            if twice || taken(claim)? {
                return Err(StoreError::key_taken(claim).into());
            }
        }
        Ok(())
    }
}
