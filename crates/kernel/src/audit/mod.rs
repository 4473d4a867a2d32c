//! The audit trail of a tenant: what was done that matters, and by whom.
//!
//! A stream of its own per tenant. What is told here was done by a batch of another stream, whose
//! outbox carries the entry; so nothing is done untold, and nothing told that was not done. An
//! entry that comes twice is kept once: its batch claims the message id as a unique key.
//!
//! A trail only grows, so no state is folded from all of it: the next entry needs the last link
//! of the chain, which stands with the last record.

mod event;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::{Batch, IndexRow, KeyClaim, Message, Record};
use crate::digest::Digest;
use crate::ids::{Seq, StreamId, TenantId};
use crate::json;
use crate::stream::{FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use event::{Actor, AuditAction, AuditEvent, Entry, Event, Outcome, Subject};

/// The namespace of unique keys in which a trail claims the messages it has kept.
pub const KEY_NAMESPACE: &str = "audit";

/// A message to an audit stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditMessage {
    /// What to keep.
    pub audit: Entry,
}

/// The message that carries an entry to its tenant's audit stream.
pub fn message(tenant: &TenantId, entry: Entry) -> Message {
    let id = entry.message.clone();
    let message = AuditMessage { audit: entry };
    Message {
        id,
        target: AuditTrail::stream(tenant),
        command: serde_json::to_vec(&message).expect("a message is always JSON"),
    }
}

impl Actor {
    /// Somebody, by a name that stands for them.
    pub fn new(principal: impl Into<String>) -> Self {
        Self {
            principal: principal.into(),
            issuer: None,
            request_id: None,
        }
    }

    /// Whoever may write to the store's own files, by way of the command line.
    pub fn operator() -> Self {
        Self::new("cli")
    }
}

impl Subject {
    /// A thing of a kind.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            id: Some(id.into()),
            workspace: None,
        }
    }
}

/// The end of an audit stream.
#[derive(Clone, Debug)]
pub struct AuditTrail {
    header: StreamHeader,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
}

impl AuditTrail {
    /// The stream of a tenant's audit trail. Derived, because there is one per tenant.
    pub fn stream(tenant: &TenantId) -> StreamId {
        let hex = Digest::of(format!("audit\0{tenant}").as_bytes()).to_string();
        StreamId::new(format!("audit-{}", &hex[..32]))
    }

    /// A trail nothing is on yet.
    pub fn unborn(tenant: &TenantId, now: Timestamp) -> Self {
        Self::at_start(
            StreamHeader {
                stream: Self::stream(tenant),
                kind: StreamKind::Audit,
                owner: Owner::tenant(tenant.clone()),
                format: FORMAT_VERSION,
                engine_version: None,
                created_at: now,
                definition: None,
                origin: None,
                parent: None,
                policy: Policy::default(),
                genesis: Digest([0; 32]),
                predecessor: None,
            }
            .seal_genesis(),
        )
    }

    /// The fold of no event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            header,
        }
    }

    /// The fold of a trail, from its last record alone. `None` where that is no event of a trail.
    pub fn at_end(header: StreamHeader, last: &Record) -> Option<Self> {
        let event: Event = serde_json::from_slice(&last.content).ok()?;
        Some(Self {
            next_seq: event.seq + 1,
            chain: last.chain,
            at: event.at,
            header,
        })
    }

    /// Folds a stored event and gives it back. `None` when it is not an event of this stream's
    /// format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<Event> {
        let event: Event = serde_json::from_slice(content).ok()?;
        (event.seq == self.next_seq && event.at >= self.at).then_some(())?;
        self.fold(&event);
        self.chain = self.chain.chain(content);
        Some(event)
    }

    fn fold(&mut self, event: &Event) {
        self.next_seq += 1;
        self.at = event.at;
    }

    /// Decides to keep an entry. The batch claims its message id, so that the store refuses to
    /// keep it twice.
    pub fn record(mut self, entry: Entry, now: Timestamp) -> Batch {
        let header = (self.next_seq == 0).then(|| self.header.clone());
        let claim = KeyClaim {
            namespace: KEY_NAMESPACE.to_owned(),
            key: entry.message.to_string(),
            digest: None,
            answer: None,
            expires_at: None,
        };
        let event = Event {
            seq: self.next_seq,
            at: now.max(self.at),
            body: AuditEvent::Recorded(entry),
        };
        self.fold(&event);
        let content = json::canonical(&event);
        let chain = self.chain.chain(&content);
        Batch {
            stream: self.header.stream.clone(),
            tenant: self.header.tenant().clone(),
            header,
            first_seq: event.seq,
            records: vec![Record { content, chain }],
            index: self.index(),
            timers: Vec::new(),
            keys: vec![claim],
            outbox: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        IndexRow {
            kind: StreamKind::Audit,
            workspace: None,
            subject: "audit".into(),
            status: "open".into(),
            settled: false,
            runnable: false,
            queue: self.header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: self.header.created_at,
            updated_at: self.at,
            tags: Vec::new(),
            summary: json!({ "entries": self.next_seq }),
        }
    }
}
