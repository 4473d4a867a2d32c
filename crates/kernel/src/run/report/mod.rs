//! Reports of an attempt while it works, in addition to its output.

pub mod event;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use event::*;

use crate::ids::AttemptId;
use crate::limits::MAX_COUNT;
use crate::run::event::{Event, RunEvent};
use crate::run::size::size;

/// A report of an attempt. It becomes the event of the same name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Report {
    /// A tool is about to be called.
    ToolCalled(ToolCalled),
    /// A tool call is over.
    ToolReturned(ToolReturned),
    /// A model refused to answer.
    EnvelopeRefused(EnvelopeRefused),
    /// An answer was cut off.
    EnvelopeTruncated(EnvelopeTruncated),
    /// A model is asked once more.
    EnvelopeRetried(EnvelopeRetried),
    /// No answer had the right shape.
    EnvelopesExhausted(EnvelopesExhausted),
    /// An answer had its shape after surrounding text was removed.
    EnvelopeRecovered(EnvelopeRecovered),
    /// A model is asked to put its words into the shape.
    EnvelopeCoerced(EnvelopeCoerced),
    /// A named prompt was filled in.
    PromptComposed(PromptComposed),
    /// A provider was called, and more follows.
    Used(Used),
}

/// Runs the same code for each variant.
macro_rules! each {
    ($self:expr, $of:ident => $code:expr) => {
        match $self {
            Self::ToolCalled($of) => $code,
            Self::ToolReturned($of) => $code,
            Self::EnvelopeRefused($of) => $code,
            Self::EnvelopeTruncated($of) => $code,
            Self::EnvelopeRetried($of) => $code,
            Self::EnvelopesExhausted($of) => $code,
            Self::EnvelopeRecovered($of) => $code,
            Self::EnvelopeCoerced($of) => $code,
            Self::PromptComposed($of) => $code,
            Self::Used($of) => $code,
        }
    };
}

impl Report {
    /// The reporting attempt.
    pub fn attempt(&self) -> AttemptId {
        each!(self, of => AttemptId {
            node: of.node_id.clone(),
            visit: of.visit,
            attempt: of.attempt,
        })
    }

    /// Bytes of its values.
    pub(super) fn size(&self) -> usize {
        let sized = |value: &Option<Value>| value.as_ref().map_or(0, size);
        match self {
            Self::ToolCalled(call) => sized(&call.inputs),
            Self::ToolReturned(call) => sized(&call.outcome),
            _ => 0,
        }
    }

    /// Its event.
    pub(super) fn event(self, agent: String) -> RunEvent {
        match self {
            Self::ToolCalled(call) => RunEvent::ToolCalled(ToolCalled {
                agent_id: agent,
                ..call
            }),
            Self::ToolReturned(call) => RunEvent::ToolReturned(ToolReturned {
                agent_id: agent,
                duration_ms: call.duration_ms.map(|ms| ms.min(MAX_COUNT)),
                ..call
            }),
            Self::EnvelopeRefused(of) => RunEvent::EnvelopeRefused(of),
            Self::EnvelopeTruncated(of) => RunEvent::EnvelopeTruncated(EnvelopeTruncated {
                output_token_count: of.output_token_count.map(|n| n.min(MAX_COUNT)),
                ..of
            }),
            Self::EnvelopeRetried(of) => RunEvent::EnvelopeRetried(of),
            Self::EnvelopesExhausted(of) => RunEvent::EnvelopesExhausted(of),
            Self::EnvelopeRecovered(of) => RunEvent::EnvelopeRecovered(of),
            Self::EnvelopeCoerced(of) => RunEvent::EnvelopeCoerced(of),
            Self::PromptComposed(of) => RunEvent::PromptComposed(of),
            Self::Used(of) => RunEvent::ProviderUsage {
                attempt: Some(AttemptId {
                    node: of.node_id.clone(),
                    visit: of.visit,
                    attempt: of.attempt,
                }),
                usage: of.usage.countable(),
                node_id: of.node_id,
            },
        }
    }

    /// The report that a batch was made from.
    pub(super) fn of_batch(batch: &[Event]) -> Option<Self> {
        let (first, rest) = batch.split_first()?;
        let mut report = Self::from_event(&first.body)?;
        if let (Self::Used(used), Some(next)) = (&mut report, rest.first())
            && let RunEvent::BudgetSettled { spent, .. } = &next.body
        {
            used.spent = Some(spent.clone());
        }
        Some(report)
    }

    /// The report that an event was made from. `None` for an event that no report makes.
    pub fn from_event(event: &RunEvent) -> Option<Self> {
        Some(match event.clone() {
            RunEvent::ToolCalled(of) => Self::ToolCalled(of),
            RunEvent::ToolReturned(of) => Self::ToolReturned(of),
            RunEvent::EnvelopeRefused(of) => Self::EnvelopeRefused(of),
            RunEvent::EnvelopeTruncated(of) => Self::EnvelopeTruncated(of),
            RunEvent::EnvelopeRetried(of) => Self::EnvelopeRetried(of),
            RunEvent::EnvelopesExhausted(of) => Self::EnvelopesExhausted(of),
            RunEvent::EnvelopeRecovered(of) => Self::EnvelopeRecovered(of),
            RunEvent::EnvelopeCoerced(of) => Self::EnvelopeCoerced(of),
            RunEvent::PromptComposed(of) => Self::PromptComposed(of),
            RunEvent::ProviderUsage {
                usage,
                attempt: Some(of),
                ..
            } => Self::Used(Used {
                node_id: of.node,
                visit: of.visit,
                attempt: of.attempt,
                usage,
                spent: None,
            }),
            _ => return None,
        })
    }
}
