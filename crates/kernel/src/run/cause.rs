//! The cause of a batch: the part of its command that its events do not already say.
//!
//! With it a log can be re-decided: [`Command::from_log`](super::command::Command::from_log)
//! rebuilds the command of every batch from its cause and events, and `decide` must make the
//! same events of it again.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, MessageId, StreamId};
use crate::run::capacity::Capacity;
use crate::run::event::{DrainPolicy, NodeError};
use crate::stream::DefinitionRef;

/// Why an attempt of a replay fails for which its source has no outcome, and what waits in it is
/// cancelled together with it.
pub(crate) const SOURCE_MISSING: &str = "replay_source_missing";

/// Which command a batch comes from. It stands on the first event of the batch and so marks
/// where a batch begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The command, without what the events say.
    #[serde(flatten)]
    pub command: CausedBy,
    /// The outbox message it came by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Whether whoever asked drives the run.
    #[serde(default, skip_serializing_if = "Driving::is_here")]
    pub driving: Driving,
}

/// Whether whoever asks for something drives the run, and so can run what its decision starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driving {
    /// Yes. Work nodes start at once.
    #[default]
    Here,
    /// No. Work nodes that may start are left to whoever drives the run next: a start in the log
    /// means that somebody may have begun to work.
    Elsewhere,
}

impl Driving {
    pub(crate) fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

/// The command behind a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum CausedBy {
    /// The run was asked for; the rest is in `run.started` and the header.
    Create {
        /// Whether its creator drives it at once.
        start: Start,
        /// The request it was asked for with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// A holder starts or goes on with what is ready.
    Advance,
    /// A new holder took over.
    TakeOver {
        /// Attempts in flight that must not be repeated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unrepeatable: Vec<AttemptId>,
    },
    /// An attempt ended. The leading `observed` events of the batch say how.
    Finish {
        /// The attempt.
        attempt: AttemptId,
        /// How many leading events are what was observed; the rest are consequences.
        observed: u32,
    },
    /// An attempt gave output.
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
    /// An attempt asked for a part of the budget.
    Reserve,
    /// The run is to be cancelled.
    Cancel {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<String>,
        /// Who vouches for them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issuer: Option<String>,
        /// The request it was asked for with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The parent whose cancellation cascaded here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<StreamId>,
    },
    /// The run is to pause.
    Pause {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What becomes of what is in flight.
        policy: DrainPolicy,
    },
    /// The run is to go on after a pause.
    Resume {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An interrupt was answered.
    Resolve {
        /// As what whoever answered did.
        #[serde(default, skip_serializing_if = "Capacity::is_plain")]
        capacity: Capacity,
    },
    /// A signal arrived.
    Signal,
    /// A child run could (or could not) be resolved to a definition.
    Dispatch {
        /// The attempt that starts it.
        attempt: AttemptId,
        /// The definition found, or why there is none.
        found: Found,
    },
    /// A child run ended.
    ChildSettled,
    /// A child run waits, or goes on.
    ChildReported,
    /// The run is a branch of another.
    Fork,
    /// A replay found that its source decided otherwise.
    Diverge,
}

/// Whether the creator of a run drives it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The creator takes the hold in the same transaction; entry nodes start in the first batch.
    Now,
    /// The run waits in its queue as `pending`.
    WhenClaimed,
}

/// The outcome of looking a workflow up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// This definition is to run.
    Definition(DefinitionRef),
    /// There is none.
    Not(NodeError),
}
