//! What several events are made of.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::limits;

/// A file or byte string a node produced, kept as blobs under the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Derived id, unique in the run.
    pub artifact_id: String,
    /// What it is (`process.stdout`, `http.body`, …).
    pub artifact_type: String,
    /// The media type of its bytes.
    pub media_type: String,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes.
    pub digest: Digest,
    /// The blobs it consists of, in order.
    pub parts: Vec<Digest>,
}

/// What a model or paid tool call used, as the provider reported it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The provider's normalised name.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// Estimated cost in `currency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_estimate_usd: Option<f64>,
    /// How long the call took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Tokens read from the provider's cache, counted as the provider does: among the tokens in,
    /// or beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache, counted likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// The same in numbers that JSON holds exactly.
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

/// Which output of an attempt a chunk belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputChannel {
    /// A process's standard output.
    Stdout,
    /// A process's standard error.
    Stderr,
    /// Text a model streams.
    Text,
}

/// How a gate may be, or was, answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalAction {
    /// Go on.
    Accept,
    /// Do not go on.
    Reject,
    /// Do it again, differently.
    Refine,
    /// Go on with what the answer says instead.
    EditAccept,
    /// A question back; decides nothing.
    Ask,
    /// Nobody answered in time. Never asked for.
    Timeout,
}

/// An answer that leaves its gate open, as it was given. Empty where an `interrupt.resolved`
/// says it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_value: Option<Value>,
    /// Who answered, as far as the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
}

/// A decision that is not sure enough to be carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// Whose decision.
    pub agent_id: String,
    /// How sure it must be.
    pub threshold: f64,
    /// How sure it is.
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
    /// The end that a run's status tells of.
    pub fn of(status: &str) -> Option<Self> {
        let all = [Self::Completed, Self::Failed, Self::Cancelled];
        all.into_iter().find(|end| end.as_str() == status)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How workers that ran at the same time were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinOutcome {
    /// Enough of them completed, and none ended otherwise.
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
    /// What it gave back was kept.
    #[serde(rename = "output.harvested")]
    OutputHarvested,
}

impl ChainPhase {
    /// The step that tells of the end of a worker's run.
    pub(crate) fn of_end(status: ChildStatus) -> Self {
        match status {
            ChildStatus::Completed => Self::ChildCompleted,
            ChildStatus::Failed => Self::ChildFailed,
            ChildStatus::Cancelled => Self::ChildCancelled,
        }
    }
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    /// Node executions of the run.
    NodeExecutions,
    /// Wall time of the run.
    RunDuration,
    /// Rounds of a loop.
    LoopIterations,
    /// How often a model is asked for an answer of a shape. The run may go on.
    Schema,
    /// Tokens of the run's budget. The run may go on, as in the kinds below.
    BudgetTokens,
    /// Millionths of a US dollar of the run's budget.
    BudgetCost,
    /// Tool calls of the run's budget.
    BudgetToolCalls,
    /// Attempts after a failed one, of the run's budget.
    BudgetRetries,
}

impl CapKind {
    /// Whether a run ends that has reached it. The others end a node.
    pub fn ends_the_run(self) -> bool {
        matches!(
            self,
            Self::NodeExecutions | Self::RunDuration | Self::LoopIterations
        )
    }
}
