//! The audit trail of a tenant: relevant actions and their actors.
//!
//! Each tenant has a stream of its own. Entries come from batches of other streams, whose outbox
//! carries them; so every action is recorded, and only actions that were done. A repeated entry is
//! kept once: its batch claims the message id as a unique key.
//!
//! A trail only grows, so no state is folded from the whole trail: the next entry needs the last
//! record and the index row. Each entry contains the hash of the one before it, and from time to
//! time a checkpoint signs the entries since the last one (OpenWOP v1 `auth-profiles.md`,
//! *openwop-audit-log-integrity*); `integrity` recomputes all of it.

mod event;
mod integrity;
mod merkle;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::{Batch, IndexRow, KeyClaim, Message};
use crate::digest::Digest;
use crate::ids::{Seq, StreamId, TenantId};
use crate::log::{Aggregate, Draft, Log, Resumable};
use crate::stream::{Owner, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use event::{Actor, AuditAction, AuditEvent, Checkpoint, Entry, Event, Outcome, Subject};
pub use integrity::{Anomaly, AnomalyKind, Report, Walk};
pub use merkle::root as merkle_root;

/// The namespace of unique keys in which a trail claims the received messages.
pub const KEY_NAMESPACE: &str = "audit";

/// Fields of a trail's index row.
const ENTRIES: &str = "entries";
const COVERED: &str = "covered";

/// A message to an audit stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditMessage {
    /// The entry to record.
    pub audit: Entry,
}

/// The message that carries an entry to its tenant's audit stream.
pub fn message(tenant: &TenantId, entry: Entry) -> Message {
    Message {
        id: entry.message.clone(),
        target: AuditTrail::stream(tenant),
        command: command(entry),
    }
}

/// The bytes of an [`AuditMessage`].
pub(crate) fn command(entry: Entry) -> Vec<u8> {
    serde_json::to_vec(&AuditMessage { audit: entry }).expect("a message is always JSON")
}

impl<S: Aggregate> Draft<S> {
    /// Sends an entry to the tenant's audit trail.
    pub(crate) fn audit(&mut self, action: AuditAction, on: Subject, by: &Actor) {
        let (decided_at, by) = (self.now, by.clone());
        let trail = AuditTrail::stream(self.log.header().tenant());
        self.send(trail, |message| {
            command(Entry {
                message,
                decided_at,
                action,
                by,
                on,
                outcome: Outcome::Done,
            })
        });
    }
}

impl Actor {
    /// An actor with this principal.
    pub fn new(principal: impl Into<String>) -> Self {
        Self {
            principal: principal.into(),
            issuer: None,
            request_id: None,
        }
    }

    /// The operator, who may write to the store's own files through the command line.
    pub fn operator() -> Self {
        Self::new("cli")
    }
}

impl Subject {
    /// A subject of a kind.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            id: Some(id.into()),
            workspace: None,
        }
    }
}

/// The end of an audit stream.
pub type AuditTrail = Log<Trail>;

/// The state of an audit trail.
#[derive(Clone, Debug)]
pub struct Trail {
    /// The hash of the last entry.
    last: Option<Digest>,
    /// The last entry that a checkpoint covers.
    covered: Option<Seq>,
}

impl Aggregate for Trail {
    type Event = Event;
    type Body = AuditEvent;

    fn at_start() -> Self {
        Self {
            last: None,
            covered: None,
        }
    }

    fn event(log: &AuditTrail, at: Timestamp, body: AuditEvent) -> Event {
        Event {
            seq: log.next_seq,
            at,
            prev_hash: log.state.last,
            body,
        }
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(log: &AuditTrail, event: &Event) -> bool {
        event.prev_hash == log.state.last
    }

    fn fold(&mut self, _: &StreamHeader, event: &Event, content: &[u8]) {
        self.last = Some(Digest::compute(content));
        if let AuditEvent::Checkpointed(checkpoint) = &event.body {
            self.covered = Some(checkpoint.at_sequence);
        }
    }

    fn index(log: &AuditTrail) -> IndexRow {
        let mut summary = json!({ ENTRIES: log.next_seq });
        if let Some(covered) = log.state.covered {
            summary[COVERED] = covered.into();
        }
        IndexRow::new(&log.header, log.at, ("audit", "open"), summary)
    }
}

impl Resumable for Trail {
    fn after(_: Event, content: &[u8], index: &IndexRow) -> Self {
        Self {
            last: Some(Digest::compute(content)),
            covered: index.summary[COVERED].as_u64(),
        }
    }
}

impl AuditTrail {
    /// The stream of a tenant's audit trail. Derived, because there is one per tenant.
    pub fn stream(tenant: &TenantId) -> StreamId {
        StreamId::derived("audit", &[tenant.as_str()])
    }

    /// A trail without entries.
    pub fn unborn(tenant: &TenantId, now: Timestamp) -> Self {
        let owner = Owner::tenant(tenant.clone());
        let header = StreamHeader::new(Self::stream(tenant), StreamKind::Audit, owner, now);
        Self::at_start(header.seal_genesis())
    }

    /// The sequence of the first entry without a checkpoint, or of the next one.
    pub fn covered_to(&self) -> Seq {
        self.state.covered.map_or(0, |covered| covered + 1)
    }

    /// Number of entries after the last checkpoint, without the checkpoint's own entry.
    pub fn uncovered(&self) -> u64 {
        let own = u64::from(self.state.covered.is_some());
        (self.next_seq - self.covered_to()).saturating_sub(own)
    }

    /// The same, from an index row of a trail.
    pub fn uncovered_of(index: &IndexRow) -> u64 {
        let covered = index.summary[COVERED].as_u64();
        let entries = index.summary[ENTRIES].as_u64().unwrap_or(0);
        let (to, own) = covered.map_or((0, 0), |covered| (covered + 1, 1));
        entries.saturating_sub(to + own)
    }

    /// Decides to record the signed root over the uncovered entries.
    pub fn checkpoint(self, root: Digest, signature: String, key: &str, now: Timestamp) -> Batch {
        let at_sequence = self.next_seq.saturating_sub(1);
        let checkpoint = Checkpoint {
            checkpoint: format!("{}.{at_sequence}", self.header.stream),
            at_sequence,
            merkle_root: root,
            signature,
            key: key.to_owned(),
        };
        let mut draft = Draft::new(self, now);
        draft.emit(AuditEvent::Checkpointed(checkpoint));
        draft.seal().0
    }

    /// Decides to record an entry. The batch claims its message id, so that the store rejects a
    /// repetition.
    pub fn record(self, entry: Entry, now: Timestamp) -> Batch {
        self.record_all(vec![entry], now)
    }

    /// Decides to record several entries at once; all of them are rejected if one was recorded
    /// before.
    pub fn record_all(self, entries: Vec<Entry>, now: Timestamp) -> Batch {
        let mut draft = Draft::new(self, now);
        let claim = |entry: &Entry| KeyClaim::permanent(KEY_NAMESPACE, entry.message.as_str());
        draft.keys = entries.iter().map(claim).collect();
        for entry in entries {
            draft.emit(AuditEvent::Recorded(entry));
        }
        draft.seal().0
    }
}
