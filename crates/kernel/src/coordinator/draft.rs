//! A batch in the making: its events, the ids that its keys remember, and what it sends.

use crate::batch::{Batch, KeyClaim, Message, Record};
use crate::coordinator::Coordinator;
use crate::coordinator::command::{Recall, Rejection};
use crate::coordinator::contract::{Contract, LeaseRule};
use crate::coordinator::event::{CoordinatorEvent, Event};
use crate::ids::{MessageId, RequestId, Seq, StreamId};
use crate::json;
use crate::limits;
use crate::time::Timestamp;

/// What the unique keys of a coordinator remember of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// That it was used.
    Used,
    /// How it ended.
    Ended,
    /// That it was taken out.
    Removed,
}

/// The namespace of unique keys in which a coordinator remembers requests.
pub fn memory_of_request(stream: &StreamId, what: Remembered) -> String {
    namespace(stream, "request", what)
}

/// The namespace of unique keys in which a coordinator remembers messages.
pub fn memory_of_mail(stream: &StreamId, what: Remembered) -> String {
    namespace(stream, "mail", what)
}

fn namespace(stream: &StreamId, thing: &str, what: Remembered) -> String {
    let what = match what {
        Remembered::Used => "used",
        Remembered::Ended => "ended",
        Remembered::Removed => "removed",
    };
    format!("{stream}/{thing}/{what}")
}

/// A batch in the making.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) coordinator: Coordinator,
    pub(super) recall: Recall,
    pub(super) rule: LeaseRule,
    /// The rules that are decided by. Those of the log, but for what another program did.
    pub(super) rules: Contract,
    pub(super) now: Timestamp,
    first_seq: Seq,
    pub(super) records: Vec<Record>,
    keys: Vec<KeyClaim>,
    outbox: Vec<Message>,
}

impl Draft {
    pub(super) fn new(
        coordinator: Coordinator,
        recall: Recall,
        rule: LeaseRule,
        now: Timestamp,
    ) -> Self {
        Self {
            first_seq: coordinator.next_seq,
            rules: coordinator.contract(),
            coordinator,
            recall,
            rule,
            now,
            records: Vec::new(),
            keys: Vec::new(),
            outbox: Vec::new(),
        }
    }

    pub(super) fn remember_request(
        &mut self,
        request: &RequestId,
        what: Remembered,
        answer: Option<Vec<u8>>,
    ) {
        let namespace = memory_of_request(&self.coordinator.header.stream, what);
        self.remember(namespace, request.as_str(), answer);
    }

    pub(super) fn remember_mail(&mut self, message: &str, what: Remembered) {
        let namespace = memory_of_mail(&self.coordinator.header.stream, what);
        self.remember(namespace, message, None);
    }

    fn remember(&mut self, namespace: String, key: &str, answer: Option<Vec<u8>>) {
        self.claim(KeyClaim {
            namespace,
            key: key.to_owned(),
            digest: None,
            answer,
            expires_at: None,
        });
    }

    pub(super) fn claim(&mut self, key: KeyClaim) {
        self.keys.push(key);
    }

    /// What this batch remembers under a key.
    pub(super) fn claimed(&self, namespace: &str, key: &str) -> Option<&KeyClaim> {
        let mut keys = self.keys.iter();
        keys.find(|claim| claim.namespace == namespace && claim.key == key)
    }

    /// Sends a message whose command is made with its id.
    pub(super) fn send(&mut self, target: &StreamId, command: impl FnOnce(MessageId) -> Vec<u8>) {
        let (stream, place) = (&self.coordinator.header.stream, self.outbox.len());
        let id = MessageId::new(format!("{stream}.{}.{place}", self.first_seq));
        self.outbox.push(Message {
            command: command(id.clone()),
            target: target.clone(),
            id,
        });
    }

    pub(super) fn emit(&mut self, body: CoordinatorEvent) {
        let coordinator = &mut self.coordinator;
        let event = Event {
            seq: coordinator.next_seq,
            at: self.now,
            n: coordinator.state.replayable + u64::from(body.is_replayable()),
            body,
        };
        coordinator.fold(&event);
        let content = json::canonical(&event);
        coordinator.chain = coordinator.chain.chain(&content);
        self.records.push(Record {
            content,
            chain: coordinator.chain,
        });
    }

    /// What to make durable, if anything, and the coordinator after it.
    pub(super) fn parts(self) -> Result<(Option<Batch>, Coordinator), Rejection> {
        let too_large = |record: &Record| record.content.len() > limits::MAX_EVENT_BYTES;
        if self.records.iter().any(too_large) {
            return Err(Rejection::TooLarge);
        }
        if self.records.is_empty() {
            return Ok((None, self.coordinator));
        }
        let (batch, coordinator) = self.close();
        Ok((Some(batch), coordinator))
    }

    pub(super) fn seal(self) -> Batch {
        self.close().0
    }

    fn close(self) -> (Batch, Coordinator) {
        let header = &self.coordinator.header;
        let batch = Batch {
            stream: header.stream.clone(),
            tenant: header.tenant().clone(),
            header: (self.first_seq == 0).then(|| header.clone()),
            first_seq: self.first_seq,
            records: self.records,
            index: self.coordinator.index(),
            timers: Vec::new(),
            keys: self.keys,
            outbox: self.outbox,
            blobs: Vec::new(),
        };
        (batch, self.coordinator)
    }
}
