//! The unit in which a fork appends.

use crate::batch::{Batch, Message, Record, TimerChange};
use crate::digest::Digest;
use crate::ids::Seq;
use crate::limits::{MAX_COPY_BYTES, MAX_COPY_EVENTS};
use crate::run::{Decided, Event, Run, RunEvent, RunIndex};

/// Records copied from a source, followed by newly decided batches, as one append.
#[derive(Debug)]
pub(super) struct Chunk {
    first_seq: Seq,
    bytes: usize,
    records: Vec<Record>,
    timers: Vec<TimerChange>,
    outbox: Vec<Message>,
    blobs: Vec<Digest>,
}

impl Chunk {
    /// An empty chunk at the end of a run's log.
    pub(super) fn at(run: &Run) -> Self {
        let definition = run.header.definition.as_ref();
        let first_seq = run.head.next_seq;
        Self {
            first_seq,
            bytes: 0,
            records: Vec::new(),
            timers: Vec::new(),
            outbox: Vec::new(),
            blobs: match first_seq {
                0 => definition
                    .map(|definition| definition.digest)
                    .into_iter()
                    .collect(),
                _ => Vec::new(),
            },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= MAX_COPY_EVENTS || self.bytes >= MAX_COPY_BYTES
    }

    /// Adds a record of the source with its references.
    pub(super) fn copy(&mut self, record: &Record, event: &Event) {
        if let RunEvent::ArtifactCreated { artifact, .. } = &event.body {
            self.blobs.extend_from_slice(&artifact.parts);
        }
        self.bytes += record.content.len();
        self.records.push(record.clone());
    }

    /// Adds a decision on the state after the chunk.
    pub(super) fn take(&mut self, decided: Decided) -> Run {
        for (record, event) in decided.batch.records.iter().zip(&decided.events) {
            self.copy(record, event);
        }
        self.timers.extend(decided.batch.timers);
        self.outbox.extend(decided.batch.outbox);
        decided.run
    }

    /// The batch; `run` is the state after it.
    pub(super) fn seal(self, run: &Run) -> Batch {
        Batch {
            stream: run.header.stream.clone(),
            tenant: run.header.tenant().clone(),
            header: (self.first_seq == 0).then(|| (*run.header).clone()),
            first_seq: self.first_seq,
            records: self.records,
            index: RunIndex::from_run(run),
            timers: self.timers,
            keys: Vec::new(),
            outbox: self.outbox,
            blobs: self.blobs,
        }
    }
}
