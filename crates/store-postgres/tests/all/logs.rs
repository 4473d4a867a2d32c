//! The batches that the tests append.

use kernel::batch::forge::Forged;
use kernel::batch::{IndexRow, Record};
use kernel::digest::Digest;
use kernel::ids::Seq;
use kernel::stream::{Owner, StreamHeader, StreamKind};
use kernel::time::Timestamp;
use store::{Guard, LeaseChange, Store, StoreError};

/// A log as known to its only writer.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) id: String,
    pub(crate) next_seq: Seq,
    pub(crate) chain: Digest,
}

impl Log {
    pub(crate) fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            next_seq: 0,
            chain: Digest([1; 32]),
        }
    }

    /// A batch of one event at the end of the log.
    pub(crate) fn next(&self, content: &str) -> Forged {
        let content = content.as_bytes().to_vec();
        let chain = self.chain.chain(&content);
        let stream = self.id.clone().into();
        let header = || StreamHeader {
            genesis: self.chain,
            ..StreamHeader::new(
                self.id.clone().into(),
                StreamKind::Run,
                Owner::tenant("local"),
                Timestamp(1),
            )
        };
        Forged {
            stream,
            tenant: "local".into(),
            header: (self.next_seq == 0).then(header),
            first_seq: self.next_seq,
            records: vec![Record { content, chain }],
            index: IndexRow {
                kind: StreamKind::Run,
                workspace: None,
                subject: "order".into(),
                status: "running".into(),
                settled: false,
                runnable: true,
                queue: "default".into(),
                priority: 0,
                concurrency_key: None,
                parent: None,
                created_at: Timestamp(1),
                updated_at: Timestamp(2),
                tags: Vec::new(),
                summary: serde_json::Value::Null,
            },
            timers: Vec::new(),
            keys: Vec::new(),
            outbox: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Records that a batch of one event was accepted.
    pub(crate) fn went(&mut self, chain: Digest) {
        self.next_seq += 1;
        self.chain = chain;
    }

    /// Appends from outside; the log advances only if that was accepted.
    pub(crate) async fn append(
        &mut self,
        store: &dyn Store,
        content: &str,
    ) -> Result<(), StoreError> {
        let batch = self.next(content);
        let chain = batch.records[0].chain;
        store
            .append(batch.into(), Guard::Outside, LeaseChange::Keep)
            .await?;
        self.went(chain);
        Ok(())
    }
}
