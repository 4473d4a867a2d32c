//! A batch under construction: its events, the ids that its keys remember, and its messages.

use std::ops::{Deref, DerefMut};

use crate::batch::{Batch, KeyClaim, Record};
use crate::coordinator::command::{Recall, Rejection};
use crate::coordinator::contract::{Contract, LeaseRule};
use crate::coordinator::{Coordinator, State};
use crate::ids::{RequestId, StreamId};
use crate::limits;
use crate::log;
use crate::time::Timestamp;

/// A fact that a coordinator's unique keys remember of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was used.
    Used,
    /// It ended.
    Ended,
    /// It was removed.
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

/// A batch under construction, with the rules of its decision.
#[derive(Debug)]
pub(super) struct Draft {
    batch: log::Draft<State>,
    pub(super) recall: Recall,
    pub(super) rule: LeaseRule,
    /// The rules of the log, except for events that are imported.
    pub(super) rules: Contract,
}

impl Deref for Draft {
    type Target = log::Draft<State>;

    fn deref(&self) -> &Self::Target {
        &self.batch
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.batch
    }
}

impl Draft {
    pub(super) fn new(
        coordinator: Coordinator,
        recall: Recall,
        rule: LeaseRule,
        now: Timestamp,
    ) -> Self {
        Self {
            rules: coordinator.contract(),
            batch: log::Draft::new(coordinator, now),
            recall,
            rule,
        }
    }

    pub(super) fn remember_request(
        &mut self,
        request: &RequestId,
        what: Remembered,
        answer: Option<Vec<u8>>,
    ) {
        let namespace = memory_of_request(&self.log.header.stream, what);
        self.keys.push(KeyClaim {
            answer,
            ..KeyClaim::permanent(namespace, request.as_str())
        });
    }

    pub(super) fn remember_mail(&mut self, message: &str, what: Remembered) {
        let namespace = memory_of_mail(&self.log.header.stream, what);
        self.keys.push(KeyClaim::permanent(namespace, message));
    }

    /// The claim of this batch on a key.
    pub(super) fn claimed(&self, namespace: &str, key: &str) -> Option<&KeyClaim> {
        let mut keys = self.keys.iter();
        keys.find(|claim| claim.namespace == namespace && claim.key == key)
    }

    /// The batch to make durable, if there is anything, and the coordinator after it.
    pub(super) fn parts(self) -> Result<(Option<Batch>, Coordinator), Rejection> {
        let too_large = |record: &Record| record.content.len() > limits::MAX_EVENT_BYTES;
        if self.records.iter().any(too_large) {
            return Err(Rejection::TooLarge);
        }
        if self.records.is_empty() {
            return Ok((None, self.batch.log));
        }
        let (batch, coordinator) = self.batch.seal();
        Ok((Some(batch), coordinator))
    }

    pub(super) fn seal(self) -> Batch {
        self.batch.seal().0
    }
}
