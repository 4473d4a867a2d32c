//! Identifiers. Each kind of thing has its own type, so that a run id cannot be used as a node id.
//!
//! Only stream ids are random (they are made outside the kernel). Every other id is *derived*:
//! event ids from (stream, sequence); attempt, interrupt, child and effect ids from (origin run,
//! node, visit, ordinal), so that a replay of a run names the same things by the same names.

mod outside;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::limits;

pub use outside::{file_name, task_id};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as this kind of id without a check. Ids from outside are checked on
            /// input.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id_type!(
    /// Names one log. A run's begins with `run-` and is also the run id on every wire.
    StreamId
);
id_type!(
    /// The outermost boundary: data never crosses it.
    TenantId
);
id_type!(
    /// A node of a workflow definition.
    NodeId
);
id_type!(
    /// A workflow, by the name in its definition.
    WorkflowId
);
id_type!(
    /// A message of the outbox; its target drops an id that it has seen.
    MessageId
);
id_type!(
    /// A process that drives runs: the holder of a lease.
    HolderId
);
id_type!(
    /// An API key: its public part.
    KeyId
);
id_type!(
    /// A webhook: a subscription to the events of a tenant's runs.
    WebhookId
);
id_type!(
    /// A request in a coordinator's backlog, named by its sender.
    RequestId
);
id_type!(
    /// A process that takes tasks of a coordinator.
    WorkerId
);
id_type!(
    /// An event, derived from its stream and sequence.
    EventId
);
id_type!(
    /// An interrupt, derived; the same in a replay of the run.
    InterruptId
);
id_type!(
    /// An attempt, derived; passed to processes as `WF_ATTEMPT_KEY` so that they can recognise an
    /// effect repeated after a crash.
    AttemptKey
);
id_type!(
    /// An effect outside, derived; the same in every attempt of a visit. Passed to programs as
    /// `WF_EFFECT_KEY` so that they can recognise an effect repeated by a retry.
    EffectKey
);

impl TenantId {
    /// Reads a tenant's name from a credential or a person. `None` unless it has 1 to 256 bytes,
    /// and for names with an asterisk: those are the host's own, and no credential may access them.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=limits::MAX_NAME_BYTES).contains(&text.len())
            && !text.chars().any(|c| c.is_control() || c == '*');
        fits.then(|| Self::new(text))
    }
}

/// The position of an event in its log, from 0, without gaps.
pub type Seq = u64;

impl StreamId {
    /// The id of a stream of which there is one per subject, derived from the subject.
    pub fn derived(prefix: &str, subject: &[&str]) -> Self {
        let text = [&[prefix], subject].concat().join("\0");
        let hex = Digest::compute(text.as_bytes()).to_string();
        Self::new(format!("{prefix}-{}", &hex[..32]))
    }

    /// The id of the event at `seq` of this stream.
    pub fn event(&self, seq: Seq) -> EventId {
        EventId::new(format!("{self}.{seq}"))
    }
}

/// The identity of an attempt: its node, earlier visits, earlier attempts of the visit. Both
/// numbers count from 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The node.
    pub node: NodeId,
    /// How many times the node was entered before (loops).
    pub visit: u32,
    /// How many attempts of this visit failed before (retries). A restart after a crash is the
    /// same attempt.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.visit, self.attempt)
    }
}

impl AttemptId {
    /// The key of this attempt in a run whose header has this `key_origin` (a replay uses its
    /// source's).
    pub fn key(&self, origin: &StreamId) -> AttemptKey {
        AttemptKey::new(derive(
            "attempt",
            origin,
            &self.node,
            self.visit,
            self.attempt,
        ))
    }

    /// The key of the effect of this attempt's visit: the same for each of its attempts.
    pub fn effect_key(&self, origin: &StreamId) -> EffectKey {
        EffectKey::new(derive("effect", origin, &self.node, self.visit, 0))
    }
}

impl EffectKey {
    /// The key of a call that is part of this effect: the `nth` one (from 0) of the same thing with
    /// the same arguments in an attempt. Another attempt that makes the same call uses the same
    /// key.
    pub fn of_call(&self, callee: &str, arguments: &str, nth: u32) -> Self {
        Self::from_parts(&["call", self.as_str(), callee, arguments, &nth.to_string()])
    }

    /// The key of an operation with a name that the workflow gives, in any run of a tenant.
    pub fn named(tenant: &TenantId, operation: &str, name: &str) -> Self {
        Self::from_parts(&["named", tenant.as_str(), operation, name])
    }

    fn from_parts(parts: &[&str]) -> Self {
        let hex = Digest::compute(parts.join("\0").as_bytes()).to_string();
        Self::new(format!("effect-{}", &hex[..32]))
    }
}

/// The id of the `ordinal`-th thing of a kind that a visit of a node made.
pub fn derive(kind: &str, origin: &StreamId, node: &NodeId, visit: u32, ordinal: u32) -> String {
    let text = format!("{kind}\0{origin}\0{node}\0{visit}\0{ordinal}");
    let hex = Digest::compute(text.as_bytes()).to_string();
    format!("{kind}-{}", &hex[..32])
}

/// The stream of the `ordinal`-th child run of a visit of a node.
pub fn child_stream(origin: &StreamId, node: &NodeId, visit: u32, ordinal: u32) -> StreamId {
    let id = derive("child", origin, node, visit, ordinal);
    StreamId::new(format!("run-{}", id.trim_start_matches("child-")))
}

/// The stream of a worker's run: several may belong to one attempt of a dispatch node.
pub fn worker_stream(
    origin: &StreamId,
    node: &NodeId,
    visit: u32,
    attempt: u32,
    worker: u32,
) -> StreamId {
    let text = format!("worker\0{origin}\0{node}\0{visit}\0{attempt}\0{worker}");
    let hex = Digest::compute(text.as_bytes()).to_string();
    StreamId::new(format!("run-{}", &hex[..32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_names_a_tenant_of_the_host() {
        assert_eq!(TenantId::parse("acme"), Some("acme".into()));
        for bad in ["", "*", "a*", "a\n", &"x".repeat(257)] {
            assert_eq!(TenantId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn derived_ids_depend_on_every_part() {
        let run = StreamId::new("run-1");
        let id = |node: &str, visit, attempt| {
            AttemptId {
                node: node.into(),
                visit,
                attempt,
            }
            .key(&run)
        };
        assert_eq!(id("a", 0, 0), id("a", 0, 0));
        assert_ne!(id("a", 0, 0), id("b", 0, 0));
        assert_ne!(id("a", 0, 0), id("a", 1, 0));
        assert_ne!(id("a", 0, 0), id("a", 0, 1));
        assert_ne!(
            id("a", 0, 0),
            AttemptId {
                node: "a".into(),
                visit: 0,
                attempt: 0
            }
            .key(&"run-2".into())
        );
    }

    #[test]
    fn retries_of_a_visit_have_one_effect() {
        let run = StreamId::new("run-1");
        let effect = |node: &str, visit, attempt| {
            let attempt = AttemptId {
                node: node.into(),
                visit,
                attempt,
            };
            attempt.effect_key(&run)
        };
        let first = effect("a", 0, 0);
        assert_eq!(first, effect("a", 0, 1));
        assert_ne!(first, effect("a", 1, 0));
        assert_ne!(first, effect("b", 0, 0));
        let call = first.of_call("mail.send", "4f2a", 0);
        assert_eq!(call, effect("a", 0, 1).of_call("mail.send", "4f2a", 0));
        assert_ne!(call, first.of_call("mail.send", "4f2a", 1));
        assert_ne!(call, first.of_call("mail.send", "77aa", 0));
        assert_ne!(
            EffectKey::named(&"acme".into(), "POST /pay", "order-7"),
            EffectKey::named(&"umbrella".into(), "POST /pay", "order-7")
        );
    }
}
