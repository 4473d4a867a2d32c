//! The data of a span.

use kernel::definition::Plan;
use kernel::time::Timestamp;
use kernel::trace::{SpanId, TraceContext, TraceId};

/// A span.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct Span {
    pub name: String,
    /// The trace it belongs to.
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; `None` if it is unfinished.
    pub end: Option<Timestamp>,
    /// Whether it is an external call.
    pub is_call: bool,
    pub attributes: Vec<(&'static str, Attribute)>,
    pub events: Vec<Moment>,
    /// The code of its error.
    pub error: Option<String>,
    /// The related span in another trace: trace and id.
    pub link: Option<(TraceId, SpanId)>,
}

/// An event in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// The event's name.
    pub name: String,
    /// Its time.
    pub at: Timestamp,
    /// Its sequence in the log.
    pub seq: u64,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Several texts.
    Texts(Vec<String>),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// The trace contexts related to a run.
#[derive(Clone, Debug)]
pub struct Family {
    /// The run's own span.
    pub context: TraceContext,
    /// The workflow of the parent run.
    pub parent_workflow: Option<String>,
    /// The span of a fork's source.
    pub source: Option<TraceContext>,
    /// Whether its workflow declares anything sensitive, if known.
    pub has_sensitive: Option<bool>,
    /// The compliance class its workflow declares, if known.
    pub class: Option<String>,
}

impl Family {
    /// The same with the facts of a loaded workflow.
    pub fn of_workflow(self, plan: &Plan) -> Self {
        Self {
            has_sensitive: Some(plan.sensitivity.any),
            class: plan.sensitivity.class.clone(),
            ..self
        }
    }
}
