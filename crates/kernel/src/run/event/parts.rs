//! Types shared by several events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::ids::{NodeId, StreamId};
use crate::limits;

/// A file or byte string that a node produced, kept as blobs under the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Derived id, unique in the run.
    pub artifact_id: String,
    /// Its type (`process.stdout`, `http.body`, …).
    pub artifact_type: String,
    /// The media type of its bytes.
    pub media_type: String,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes.
    pub digest: Digest,
    /// The blobs of its bytes, in order.
    pub parts: Vec<Digest>,
}

/// The usage of a model or paid tool call, as the provider reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Usage {
    /// The provider's normalised name.
    pub provider: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Estimated cost in `currency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_estimate_usd: Option<f64>,
    /// The duration of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Tokens read from the provider's cache, counted as the provider does: included in the input
    /// tokens, or in addition to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache, counted likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// The same, with numbers that JSON represents exactly.
    pub(crate) fn countable(&self) -> Self {
        let count = |n: u64| n.min(limits::MAX_COUNT);
        Self {
            input_tokens: count(self.input_tokens),
            output_tokens: count(self.output_tokens),
            duration_ms: self.duration_ms.map(count),
            cache_read_tokens: self.cache_read_tokens.map(count),
            cache_write_tokens: self.cache_write_tokens.map(count),
            cost_estimate_usd: self.cost_estimate_usd.filter(|usd| usd.is_finite()),
            ..self.clone()
        }
    }
}

/// The output of an attempt that a chunk belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputChannel {
    /// A process's standard output.
    Stdout,
    /// A process's standard error.
    Stderr,
    /// A model's streamed text.
    Text,
}

/// A possible or given answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalAction {
    /// Continue.
    Accept,
    /// Do not continue.
    Reject,
    /// Do it again differently.
    Refine,
    /// Continue with the data in the answer.
    EditAccept,
    /// A question back; decides nothing.
    Ask,
    /// The time to answer has passed. Never an allowed answer.
    Timeout,
}

/// An answer that leaves its gate open. Empty if an `interrupt.resolved` contains it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_value: Option<Value>,
    /// The answering person, if known to the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
}

/// A decision below the floor of confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// The deciding agent.
    pub agent_id: String,
    /// The required confidence.
    pub threshold: f64,
    /// Its confidence.
    pub observed: f64,
}

crate::words! {
    /// How a child run ended.
    pub enum ChildStatus {
        /// It completed.
        Completed = "completed",
        /// It failed, or could not be started.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

/// How concurrent workers were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinOutcome {
    /// Enough of them completed, and none ended differently.
    Satisfied,
    /// Too few completed.
    Failed,
    /// Enough of them ended, some without completing.
    Partial,
}

/// A step of a dispatch node with one of its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainPhase {
    /// The worker is next.
    #[serde(rename = "dispatch.began")]
    DispatchBegan,
    /// Its run was created.
    #[serde(rename = "dispatch.succeeded")]
    DispatchSucceeded,
    /// Its run could not be created.
    #[serde(rename = "dispatch.failed")]
    DispatchFailed,
    /// Its run completed.
    #[serde(rename = "child.completed")]
    ChildCompleted,
    /// Its run failed.
    #[serde(rename = "child.failed")]
    ChildFailed,
    /// Its run was cancelled.
    #[serde(rename = "child.cancelled")]
    ChildCancelled,
    /// Its outputs were kept.
    #[serde(rename = "output.harvested")]
    OutputHarvested,
}

impl ChainPhase {
    /// The step for the end of a worker's run.
    pub(crate) fn of_end(status: ChildStatus) -> Self {
        match status {
            ChildStatus::Completed => Self::ChildCompleted,
            ChildStatus::Failed => Self::ChildFailed,
            ChildStatus::Cancelled => Self::ChildCancelled,
        }
    }
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    /// Node executions of the run.
    NodeExecutions,
    /// Wall time of the run.
    RunDuration,
    /// Rounds of a loop.
    LoopIterations,
    /// Number of requests to a model for an answer of a shape. The run may continue.
    Schema,
    /// Tokens of the run's budget. The run may continue, as for the following kinds.
    BudgetTokens,
    /// Millionths of a US dollar of the run's budget.
    BudgetCost,
    /// Tool calls of the run's budget.
    BudgetToolCalls,
    /// Attempts after a failed one, of the run's budget.
    BudgetRetries,
}

impl CapKind {
    /// Whether a run ends when it reaches this limit. The others end a node.
    pub fn ends_the_run(self) -> bool {
        matches!(
            self,
            Self::NodeExecutions | Self::RunDuration | Self::LoopIterations
        )
    }
}

crate::words! {
    /// The origin of a budget's limits.
    pub enum BudgetScope {
        /// The run, or the part that its parent gave it.
        Run = "run",
        /// The definition alone.
        Workflow = "workflow",
    }
}

crate::words! {
    /// The level of a log line.
    pub enum LogLevel {
        /// For finding mistakes.
        Debug = "debug",
        /// For information.
        Info = "info",
        /// Something may be wrong.
        Warn = "warn",
        /// Something is wrong.
        Error = "error",
    }
}

/// Why a node or a run failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeError {
    /// Stable, snake_case, for programs.
    pub code: String,
    /// For a person: the fault and its correction.
    pub message: String,
    /// Further data, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// `false` if a retry cannot help. Absent means that it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The host lacks something that the node needs (a provider, a secret). Another attempt can
    /// succeed after the operator has provided it, so the failure is never final by itself.
    #[serde(
        default,
        rename = "hostLacks",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub host_lacks: bool,
}

impl NodeError {
    /// An error by code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: None,
            retryable: None,
            host_lacks: false,
        }
    }

    /// The same error, marked as one that a retry cannot fix.
    pub fn fatal(mut self) -> Self {
        self.retryable = Some(false);
        self
    }

    /// The same error, marked as one that only the host's operator can fix.
    pub fn lacking(mut self) -> Self {
        self.host_lacks = true;
        self.fatal()
    }

    /// The same error with details.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// How a pause treats attempts in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// Abandon them; they start over as new attempts after the resume.
    Immediate,
    /// Let them finish and start nothing new.
    DrainCurrentNode,
}

/// How a run will end once nothing is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Ending {
    /// Failed.
    Failed {
        /// The error.
        error: NodeError,
        /// The node it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// Cancelled.
    Cancelled {
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The actor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The parent whose cancellation cascaded here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<StreamId>,
    },
}

/// Why a node did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its trigger rule can no longer be met.
    RuleNotMet,
    /// It is disabled in the definition.
    Disabled,
    /// It failed and the definition treats the failure as a skip.
    OnFailure,
}

/// How a replay differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// The event has the same type and other content.
    Output,
    /// The source has an event that the replay does not decide.
    Missing,
    /// The replay decides an event that the source does not have.
    Extra,
    /// The event has another type.
    TypeMismatch,
}
