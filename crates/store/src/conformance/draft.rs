//! Batches forged without a kernel.

use std::ops::{Deref, DerefMut};

use kernel::batch::forge::Forged;
use kernel::batch::{Batch, IndexRow, KeyClaim, Message, Record, TimerChange};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::{Owner, StreamHeader, StreamKind};
use kernel::time::Timestamp;

use super::world::START;

/// A writer's view of a log: its end and its index row.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) header: StreamHeader,
    pub(crate) index: IndexRow,
    pub(crate) next_seq: Seq,
    pub(crate) chain: Digest,
}

impl Log {
    /// A log of tenant `acme` that is not written yet.
    pub(crate) fn new(stream: &str) -> Self {
        Self::for_tenant("acme", stream)
    }

    pub(crate) fn for_tenant(tenant: &str, stream: &str) -> Self {
        let owner = Owner::tenant(tenant);
        let header = StreamHeader::new(stream.into(), StreamKind::Run, owner, START).seal_genesis();
        let index = IndexRow {
            kind: StreamKind::Run,
            workspace: None,
            subject: "workflow".into(),
            status: "running".into(),
            settled: false,
            runnable: false,
            queue: "default".into(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: START,
            updated_at: START,
            tags: Vec::new(),
            summary: serde_json::json!({}),
        };
        let chain = header.genesis;
        Self {
            header,
            index,
            next_seq: 0,
            chain,
        }
    }

    pub(crate) fn id(&self) -> &StreamId {
        &self.header.stream
    }

    /// A batch of these events at the end of the log, with the current index row.
    pub(crate) fn next<C: Into<Vec<u8>>>(&self, contents: impl IntoIterator<Item = C>) -> Draft {
        let mut chain = self.chain;
        let records = contents.into_iter().map(|content| {
            let content = content.into();
            chain = chain.chain(&content);
            Record { content, chain }
        });
        Draft(Forged {
            stream: self.id().clone(),
            tenant: self.header.tenant().clone(),
            header: (self.next_seq == 0).then(|| self.header.clone()),
            first_seq: self.next_seq,
            records: records.collect(),
            index: self.index.clone(),
            timers: Vec::new(),
            keys: Vec::new(),
            outbox: Vec::new(),
            blobs: Vec::new(),
        })
    }

    /// Records that a batch was accepted.
    pub(crate) fn went(&mut self, batch: &Batch) {
        self.next_seq += batch.records().len() as Seq;
        self.chain = batch.records().last().expect("a batch is not empty").chain;
        self.index = batch.index().clone();
    }
}

/// A batch under construction.
#[derive(Clone, Debug)]
pub(crate) struct Draft(pub(crate) Forged);

impl Deref for Draft {
    type Target = Forged;

    fn deref(&self) -> &Forged {
        &self.0
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut Forged {
        &mut self.0
    }
}

impl Draft {
    pub(crate) fn batch(self) -> Batch {
        self.0.into()
    }

    /// Changes the index row.
    pub(crate) fn index(mut self, change: impl FnOnce(&mut IndexRow)) -> Self {
        change(&mut self.index);
        self
    }

    pub(crate) fn runnable(self) -> Self {
        self.index(|row| row.runnable = true)
    }

    pub(crate) fn concurrency(self, key: &str) -> Self {
        self.index(|row| row.concurrency_key = Some(key.into()))
    }

    pub(crate) fn timer(mut self, name: &str, due: Timestamp) -> Self {
        self.timers.push(TimerChange::Set {
            name: name.into(),
            due,
        });
        self
    }

    pub(crate) fn cancel(mut self, name: &str) -> Self {
        self.timers.push(TimerChange::Cancel { name: name.into() });
        self
    }

    /// Claims a key of namespace `dedup`.
    pub(crate) fn key(self, key: &str, expires_at: Option<Timestamp>) -> Self {
        self.claim(KeyClaim {
            namespace: "dedup".into(),
            key: key.into(),
            digest: None,
            answer: None,
            expires_at,
        })
    }

    pub(crate) fn claim(mut self, claim: KeyClaim) -> Self {
        self.keys.push(claim);
        self
    }

    pub(crate) fn message(mut self, id: &str, target: &str) -> Self {
        self.outbox.push(Message {
            id: id.into(),
            target: target.into(),
            command: format!("{{\"to\":\"{target}\"}}").into_bytes(),
        });
        self
    }

    pub(crate) fn blob(mut self, digest: Digest) -> Self {
        self.blobs.push(digest);
        self
    }
}
