//! Recomputes the hashes and signatures of a trail, entry by entry.
//!
//! An entry is the stored event, and its hash is the SHA-256 of those bytes, which are canonical
//! JSON (RFC 8785). Each entry contains the hash of the entry before it (`prevHash`). A checkpoint
//! contains the signed Merkle root over the entries since the checkpoint before it. No stored value
//! is trusted: hashes and roots are recomputed. The caller, who has the key, checks signatures.

use super::event::{AuditEvent, Checkpoint, Event};
use super::merkle;
use crate::digest::Digest;
use crate::ids::Seq;

/// A fault of a trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The affected entry.
    pub at: Seq,
    /// The fault.
    pub kind: AnomalyKind,
}

/// A fault of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnomalyKind {
    /// The entry names another predecessor than the entry before it.
    ChainBreak {
        /// The hash of the entry before it; `None` before the first.
        expected: Option<Digest>,
        /// The hash in the entry.
        actual: Option<Digest>,
    },
    /// The entry differs from the one in the store's hash chain.
    HashMismatch,
    /// The entry is missing or unreadable.
    Missing,
    /// The entries before a checkpoint differ from those it was made from.
    MerkleMismatch {
        /// The checkpoint.
        checkpoint: String,
    },
    /// The key did not sign a checkpoint.
    SignatureInvalid {
        /// The checkpoint.
        checkpoint: String,
    },
}

/// The findings within a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The faults, in the order of entries.
    pub anomalies: Vec<Anomaly>,
    /// The checkpoints that cover entries of the range up to theirs.
    pub checkpoints: Vec<Checkpoint>,
    /// Number of checked entries.
    pub entries: u64,
}

/// Visits the entries of a trail in order.
pub struct Walk<F> {
    from: Seq,
    to: Seq,
    /// The place of the next entry.
    next: Seq,
    /// The hash of the entry before it, if one was visited.
    before: Option<Digest>,
    /// The link of the store's chain before it, if known.
    chain: Option<Digest>,
    /// Hashes of entries since the last checkpoint, and their first sequence. `None` until the
    /// first checkpoint, if the walk began in the middle.
    leaves: Option<Vec<Digest>>,
    is_signed: F,
    report: Report,
}

impl<F: FnMut(&Checkpoint) -> bool> Walk<F> {
    /// A walk that begins at an entry and reports on the range `from` to `to`. `chain` is the link
    /// of the store's chain before that entry, if known. `is_signed` verifies the signature of a
    /// checkpoint.
    pub fn new(begin: Seq, from: Seq, to: Seq, chain: Option<Digest>, is_signed: F) -> Self {
        Self {
            from,
            to,
            next: begin,
            before: None,
            chain,
            leaves: (begin == 0).then(Vec::new),
            is_signed,
            report: Report::default(),
        }
    }

    /// Visits the next entry, with its link of the store's chain if known.
    pub fn entry(&mut self, content: &[u8], link: Option<Digest>) {
        let seq = self.next;
        self.next += 1;
        if (self.from..=self.to).contains(&seq) {
            self.report.entries += 1;
        }
        let computed = self.chain.map(|chain| chain.chain(content));
        if let (Some(computed), Some(link)) = (computed, link)
            && computed != link
        {
            self.find(seq, AnomalyKind::HashMismatch);
        }
        // Continues from the stored link, so that one change is one finding.
        self.chain = link.or(computed);
        let hash = Digest::compute(content);
        let event = serde_json::from_slice(content).ok();
        match event.filter(|event: &Event| event.seq == seq) {
            Some(event) => self.read(&event),
            None => self.find(seq, AnomalyKind::Missing),
        }
        if let Some(leaves) = &mut self.leaves {
            leaves.push(hash);
        }
        self.before = Some(hash);
    }

    /// The next entry exists but is unreadable.
    pub fn damaged(&mut self) {
        self.lost(AnomalyKind::HashMismatch);
    }

    /// The next entry is missing.
    pub fn missing(&mut self) {
        self.lost(AnomalyKind::Missing);
    }

    fn lost(&mut self, kind: AnomalyKind) {
        let seq = self.next;
        self.next += 1;
        self.find(seq, kind);
        (self.before, self.chain) = (None, None);
        if let Some(leaves) = &mut self.leaves {
            // Matches no entry's hash, so no signed root fits.
            leaves.push(Digest([0; 32]));
        }
    }

    fn read(&mut self, event: &Event) {
        let is_known = self.before.is_some() || event.seq == 0;
        if is_known && event.prev_hash != self.before {
            let (expected, actual) = (self.before, event.prev_hash);
            self.find(event.seq, AnomalyKind::ChainBreak { expected, actual });
        }
        if let AuditEvent::Checkpointed(checkpoint) = &event.body {
            self.checkpoint(event.seq, checkpoint);
        }
    }

    fn checkpoint(&mut self, seq: Seq, checkpoint: &Checkpoint) {
        let at = checkpoint.at_sequence;
        // The next checkpoint covers this one's own entry and the following ones.
        let leaves = self.leaves.replace(Vec::new());
        if !(self.from..=self.to).contains(&at) {
            return;
        }
        let id = checkpoint.checkpoint.clone();
        if let Some(leaves) = leaves {
            let is_whole = seq.checked_sub(1) == Some(at);
            if !is_whole || merkle::root(&leaves) != Some(checkpoint.merkle_root) {
                let checkpoint = id.clone();
                self.note(at, AnomalyKind::MerkleMismatch { checkpoint });
            }
        }
        if !(self.is_signed)(checkpoint) {
            self.note(at, AnomalyKind::SignatureInvalid { checkpoint: id });
        }
        self.report.checkpoints.push(checkpoint.clone());
    }

    fn find(&mut self, at: Seq, kind: AnomalyKind) {
        if (self.from..=self.to).contains(&at) {
            self.note(at, kind);
        }
    }

    fn note(&mut self, at: Seq, kind: AnomalyKind) {
        self.report.anomalies.push(Anomaly { at, kind });
    }

    /// The findings. `end` is the trail's claimed number of entries: those beyond the last visited
    /// one are missing.
    pub fn finish(mut self, end: Seq) -> Report {
        if self.next < end {
            let at = self.next;
            self.find(at, AnomalyKind::Missing);
        }
        self.report.anomalies.sort_by_key(|anomaly| anomaly.at);
        self.report
    }
}

impl Report {
    /// Whether the trail is free of faults.
    pub fn is_valid(&self) -> bool {
        self.anomalies.is_empty()
    }

    /// Whether the checkpoints have no faults.
    pub fn are_checkpoints_valid(&self) -> bool {
        let of_checkpoint = |anomaly: &Anomaly| {
            matches!(
                anomaly.kind,
                AnomalyKind::MerkleMismatch { .. } | AnomalyKind::SignatureInvalid { .. }
            )
        };
        !self.anomalies.iter().any(of_checkpoint)
    }
}
