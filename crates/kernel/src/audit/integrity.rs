//! Recomputes what a trail says of itself, entry by entry.
//!
//! An entry is the event as it is stored, and its hash the SHA-256 of those bytes, which are
//! canonical JSON (RFC 8785). Each entry has the hash of the one before it (`prevHash`); a
//! checkpoint has the signed Merkle root over the entries since the one before it. Nothing that is
//! stored is trusted: hashes and roots are computed anew, and signatures are for the caller to
//! check, who knows a key.

use super::event::{AuditEvent, Checkpoint, Event};
use super::merkle;
use crate::digest::Digest;
use crate::ids::Seq;

/// Something that is wrong with a trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The entry it was found at.
    pub at: Seq,
    /// What is wrong.
    pub kind: AnomalyKind,
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnomalyKind {
    /// The entry names another predecessor than the one that stands before it.
    ChainBreak {
        /// The hash of the entry before it; `None` before the first.
        expected: Option<Digest>,
        /// What the entry says.
        actual: Option<Digest>,
    },
    /// The entry is not the one that the store's own hash chain was made with.
    HashMismatch,
    /// There is no such entry, or none that can be read.
    Missing,
    /// The entries before a checkpoint are not those it was made of.
    MerkleMismatch {
        /// The checkpoint.
        checkpoint: String,
    },
    /// A checkpoint is not signed by the key.
    SignatureInvalid {
        /// The checkpoint.
        checkpoint: String,
    },
}

/// What was found within a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in the order of entries.
    pub anomalies: Vec<Anomaly>,
    /// The checkpoints that cover entries of the range up to theirs.
    pub checkpoints: Vec<Checkpoint>,
    /// How many entries were looked at.
    pub entries: u64,
}

/// Walks over the entries of a trail in their order.
pub struct Walk<F> {
    from: Seq,
    to: Seq,
    /// The place of the next entry.
    next: Seq,
    /// The hash of the entry before it, where one was seen.
    before: Option<Digest>,
    /// The link of the store's chain before it, where it is known.
    chain: Option<Digest>,
    /// Hashes of entries since the last checkpoint, and where they begin. `None` before a
    /// checkpoint was seen, where the walk began in the middle.
    leaves: Option<Vec<Digest>>,
    is_signed: F,
    report: Report,
}

impl<F: FnMut(&Checkpoint) -> bool> Walk<F> {
    /// A walk that begins at an entry and reports what lies from `from` to `to`. `chain` is the
    /// link of the store's chain before that entry, where it is known. `is_signed` says whether the
    /// signature of a checkpoint is good.
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

    /// The next entry, with its link of the store's chain where that is known.
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
        // On from what the store says, so that one change is one finding.
        self.chain = link.or(computed);
        let hash = Digest::of(content);
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

    /// The next entry is there, and nobody can read it.
    pub fn damaged(&mut self) {
        self.lost(AnomalyKind::HashMismatch);
    }

    /// The next entry is not there.
    pub fn missing(&mut self) {
        self.lost(AnomalyKind::Missing);
    }

    fn lost(&mut self, kind: AnomalyKind) {
        let seq = self.next;
        self.next += 1;
        self.find(seq, kind);
        (self.before, self.chain) = (None, None);
        if let Some(leaves) = &mut self.leaves {
            // No entry has this hash, so no root that was signed fits.
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
        // The next one covers this one's own entry, and what follows.
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

    /// What was found. `end` is how many entries the trail claims to have: those that were not
    /// there are missing.
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
    /// Whether nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.anomalies.is_empty()
    }

    /// Whether nothing is wrong with checkpoints.
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
