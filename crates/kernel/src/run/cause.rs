//! The cause of a batch: the part of its command that its events do not contain.
//!
//! It makes a log re-decidable: [`Command::from_log`](super::command::Command::from_log) rebuilds
//! the command of every batch from its cause and events, and `decide` must return the same events
//! for it.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, MessageId, StreamId};
use crate::run::capacity::Capacity;
use crate::run::event::{DrainPolicy, NodeError};
use crate::stream::DefinitionRef;

/// The error of an attempt in a replay whose source has no outcome of it, and the reason for
/// cancelling the waits of such a replay.
pub(crate) const SOURCE_MISSING: &str = "replay_source_missing";

/// The command of a batch. It is kept on the first event and so marks where a batch begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The command, without the parts in the events.
    #[serde(flatten)]
    pub command: CausedBy,
    /// The outbox message that delivered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Whether the sender drives the run.
    #[serde(default, skip_serializing_if = "Driving::is_here")]
    pub driving: Driving,
}

/// Whether the sender of a command drives the run, and so can execute the nodes that its decision
/// starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driving {
    /// Yes. Work nodes start at once.
    #[default]
    Here,
    /// No. Startable work nodes are left to the next holder: a start in the log means that work may
    /// have begun.
    Elsewhere,
}

impl Driving {
    pub(crate) fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

/// The command of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum CausedBy {
    /// The run was created; the rest is in `run.started` and the header.
    Create {
        /// Whether its creator drives it at once.
        start: Start,
        /// The id of the creating request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// A holder starts or continues ready nodes.
    Advance,
    /// A new holder took over.
    TakeOver {
        /// Attempts in flight that must not be repeated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unrepeatable: Vec<AttemptId>,
    },
    /// An attempt ended. The leading `observed` events of the batch contain the outcome.
    Finish {
        /// The attempt.
        attempt: AttemptId,
        /// Number of leading events that were observed; the others are consequences.
        observed: u32,
    },
    /// An attempt wrote output.
    Output,
    /// An attempt logged a line.
    Log,
    /// An attempt reported something.
    Report,
    /// A named timer was due.
    Fire {
        /// Its name.
        timer: String,
    },
    /// An attempt reserved a part of the budget.
    Reserve,
    /// The run is cancelled.
    Cancel {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<String>,
        /// The issuer of their credential.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issuer: Option<String>,
        /// The id of the cancelling request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The parent whose cancellation cascaded here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<StreamId>,
    },
    /// The run is paused.
    Pause {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How attempts in flight are treated.
        policy: DrainPolicy,
    },
    /// The run is resumed after a pause.
    Resume {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An interrupt was answered.
    Resolve {
        /// The capacity of the answering person.
        #[serde(default, skip_serializing_if = "Capacity::is_plain")]
        capacity: Capacity,
    },
    /// A signal arrived.
    Signal,
    /// A child's workflow was (or was not) resolved to a definition.
    Dispatch {
        /// The attempt that starts it.
        attempt: AttemptId,
        /// The definition, or the reason why there is none.
        found: Found,
    },
    /// A child run ended.
    ChildSettled,
    /// A child run started or stopped waiting.
    ChildReported,
    /// The run is a branch of another.
    Fork,
    /// A replay differs from its source.
    Diverge,
    /// A replay reaches a wait before an effect that its source never had.
    FailReplay,
}

/// Whether the creator of a run drives it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The creator takes the lease in the same transaction; entry nodes start in the first batch.
    Now,
    /// The run waits in its queue as `pending`.
    WhenClaimed,
}

/// The result of looking up a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// The definition to run.
    Definition(DefinitionRef),
    /// There is none.
    Not(NodeError),
}
