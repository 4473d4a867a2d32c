//! The part of a log that a read returns, checked event by event.

use kernel::batch::Record;
use kernel::digest::Digest;
use kernel::ids::Seq;

use crate::StoreError;

/// The events of a read. Each is checked against its chain link, except the first of a read from
/// the middle.
#[derive(Debug)]
pub struct LogRange {
    genesis: Digest,
    first_seq: Seq,
    /// The number of events in the whole log, and its last link.
    end: (Seq, Digest),
    wanted: usize,
    records: Vec<Record>,
}

impl LogRange {
    /// At most `limit` events from `first_seq` on, of a log with this beginning and end.
    pub fn new(genesis: Digest, first_seq: Seq, end: (Seq, Digest), limit: usize) -> Self {
        let wanted = usize::try_from(end.0.saturating_sub(first_seq)).unwrap_or(usize::MAX);
        let wanted = wanted.min(limit);
        Self {
            genesis,
            first_seq,
            end,
            wanted,
            records: Vec::with_capacity(wanted.min(4_096)),
        }
    }

    /// How many events are still to come.
    pub fn missing(&self) -> usize {
        self.wanted - self.records.len()
    }

    /// The sequence of the next event.
    pub fn next_seq(&self) -> Seq {
        self.first_seq.saturating_add(self.records.len() as Seq)
    }

    /// Adds events that were checked against their links already.
    pub fn extend(&mut self, records: impl Iterator<Item = Record>) {
        let missing = self.missing();
        self.records.extend(records.take(missing));
    }

    /// Adds the event of a row.
    ///
    /// # Errors
    /// `Corrupt` where it is not the next event of the log.
    pub fn push(&mut self, seq: Seq, content: Vec<u8>, chain: Digest) -> Result<(), StoreError> {
        let before = match self.records.last() {
            Some(last) => Some(last.chain),
            None => (self.first_seq == 0).then_some(self.genesis),
        };
        if seq != self.next_seq() {
            return Err(StoreError::gap());
        }
        if before.is_some_and(|before| before.chain(&content) != chain) {
            let what = "an event differs from its log's hash chain";
            return Err(StoreError::Corrupt(what.into()));
        }
        self.records.push(Record { content, chain });
        Ok(())
    }

    /// All events.
    ///
    /// # Errors
    /// `Corrupt` where some are missing, or the log does not end in its last link.
    pub fn finish(self) -> Result<Vec<Record>, StoreError> {
        if self.missing() > 0 {
            return Err(StoreError::gap());
        }
        let is_whole = self.next_seq() == self.end.0;
        if is_whole
            && self
                .records
                .last()
                .is_some_and(|last| last.chain != self.end.1)
        {
            let what = "the log of a stream does not end in the link on record";
            return Err(StoreError::Corrupt(what.into()));
        }
        Ok(self.records)
    }
}
