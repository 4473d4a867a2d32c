//! Types shared by several events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
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
pub struct Usage {
    /// The provider's normalised name.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
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

/// How a child run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildStatus {
    /// It completed.
    Completed,
    /// It failed, or could not be started.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl ChildStatus {
    /// The end with the name of a run's status.
    pub fn parse(status: &str) -> Option<Self> {
        let all = [Self::Completed, Self::Failed, Self::Cancelled];
        all.into_iter().find(|end| end.as_str() == status)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
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
