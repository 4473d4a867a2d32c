//! The audit trail of a tenant: what was done that matters, and by whom.
//!
//! A stream of its own per tenant. What is told here was done by a batch of another stream, whose
//! outbox carries the entry; so nothing is done untold, and nothing told that was not done. An
//! entry that comes twice is kept once: its batch claims the message id as a unique key.
//!
//! A trail only grows, so no state is folded from all of it: the next entry needs the last record
//! and the index row. Each entry names the hash of the one before it, and from time to time a
//! checkpoint signs what came since the last one (OpenWOP v1 `auth-profiles.md`,
//! *openwop-audit-log-integrity*); `integrity` recomputes all of it.

mod event;
mod integrity;
mod merkle;
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

pub use event::{Actor, AuditAction, AuditEvent, Checkpoint, Entry, Event, Outcome, Subject};
pub use integrity::{Anomaly, AnomalyKind, Report, Walk};
pub use merkle::root as merkle_root;

/// The namespace of unique keys in which a trail claims the messages it has kept.
pub const KEY_NAMESPACE: &str = "audit";

/// Fields of a trail's index row.
const ENTRIES: &str = "entries";
const COVERED: &str = "covered";

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
    /// The hash of the last entry.
    last: Option<Digest>,
    /// The last entry that a checkpoint covers.
    covered: Option<Seq>,
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
                trace: None,
                policy: Policy::default(),
                genesis: Digest([0; 32]),
                predecessor: None,
                nonce: None,
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
            last: None,
            covered: None,
            header,
        }
    }

    /// The fold of a trail, from its last record and its index row alone. `None` where that is no
    /// event of a trail.
    pub fn at_end(header: StreamHeader, last: &Record, index: &IndexRow) -> Option<Self> {
        let event: Event = serde_json::from_slice(&last.content).ok()?;
        Some(Self {
            next_seq: event.seq + 1,
            chain: last.chain,
            at: event.at,
            last: Some(Digest::of(&last.content)),
            covered: index.summary[COVERED].as_u64(),
            header,
        })
    }

    /// Folds a stored event and gives it back. `None` when it is not an event of this stream's
    /// format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<Event> {
        let event: Event = serde_json::from_slice(content).ok()?;
        (event.seq == self.next_seq && event.at >= self.at).then_some(())?;
        (event.prev_hash == self.last).then_some(())?;
        self.fold(&event, content);
        Some(event)
    }

    fn fold(&mut self, event: &Event, content: &[u8]) {
        self.next_seq += 1;
        self.at = event.at;
        self.last = Some(Digest::of(content));
        self.chain = self.chain.chain(content);
        if let AuditEvent::Checkpointed(checkpoint) = &event.body {
            self.covered = Some(checkpoint.at_sequence);
        }
    }

    /// How many entries there are.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The first entry that no checkpoint covers, or that will be.
    pub fn covered_to(&self) -> Seq {
        self.covered.map_or(0, |covered| covered + 1)
    }

    /// How many entries no checkpoint covers, but for that of the last checkpoint itself.
    pub fn uncovered(&self) -> u64 {
        let own = u64::from(self.covered.is_some());
        (self.next_seq - self.covered_to()).saturating_sub(own)
    }

    /// The same, as an index row of a trail says it.
    pub fn uncovered_of(index: &IndexRow) -> u64 {
        let covered = index.summary[COVERED].as_u64();
        let entries = index.summary[ENTRIES].as_u64().unwrap_or(0);
        let (to, own) = covered.map_or((0, 0), |covered| (covered + 1, 1));
        entries.saturating_sub(to + own)
    }

    /// Decides to keep the signed root over what no checkpoint covers.
    pub fn checkpoint(self, root: Digest, signature: String, key: &str, now: Timestamp) -> Batch {
        let at_sequence = self.next_seq.saturating_sub(1);
        let checkpoint = Checkpoint {
            checkpoint: format!("{}.{at_sequence}", self.header.stream),
            at_sequence,
            merkle_root: root,
            signature,
            key: key.to_owned(),
        };
        self.append(vec![AuditEvent::Checkpointed(checkpoint)], Vec::new(), now)
    }

    /// Decides to keep an entry. The batch claims its message id, so that the store refuses to
    /// keep it twice.
    pub fn record(self, entry: Entry, now: Timestamp) -> Batch {
        self.record_all(vec![entry], now)
    }

    /// Decides to keep several entries at once, none of which is kept where one is there already.
    pub fn record_all(self, entries: Vec<Entry>, now: Timestamp) -> Batch {
        let claim = |entry: &Entry| KeyClaim {
            namespace: KEY_NAMESPACE.to_owned(),
            key: entry.message.to_string(),
            digest: None,
            answer: None,
            expires_at: None,
        };
        let claims = entries.iter().map(claim).collect();
        let bodies = entries.into_iter().map(AuditEvent::Recorded).collect();
        self.append(bodies, claims, now)
    }

    fn append(mut self, bodies: Vec<AuditEvent>, keys: Vec<KeyClaim>, now: Timestamp) -> Batch {
        let header = (self.next_seq == 0).then(|| self.header.clone());
        let first_seq = self.next_seq;
        let mut records = Vec::with_capacity(bodies.len());
        for body in bodies {
            let event = Event {
                seq: self.next_seq,
                at: now.max(self.at),
                prev_hash: self.last,
                body,
            };
            let content = json::canonical(&event);
            self.fold(&event, &content);
            let chain = self.chain;
            records.push(Record { content, chain });
        }
        Batch {
            stream: self.header.stream.clone(),
            tenant: self.header.tenant().clone(),
            header,
            first_seq,
            records,
            index: self.index(),
            timers: Vec::new(),
            keys,
            outbox: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        let mut summary = json!({ ENTRIES: self.next_seq });
        // Left out where there is none, as in rows written before there were checkpoints.
        if let Some(covered) = self.covered {
            summary[COVERED] = covered.into();
        }
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
            summary,
        }
    }
}
