//! What a span says.

use kernel::definition::Plan;
use kernel::time::Timestamp;
use kernel::trace::{SpanId, TraceContext, TraceId};

/// A span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// The trace it belongs to.
    pub trace: TraceId,
    /// Its id.
    pub id: SpanId,
    /// The span it lies in.
    pub parent: Option<SpanId>,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; it may go on.
    pub end: Option<Timestamp>,
    /// Whether it is of something asked of somebody else.
    pub is_call: bool,
    /// What is said of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// What happened in it.
    pub events: Vec<Moment>,
    /// The code of the error it ended in.
    pub error: Option<String>,
    /// A span elsewhere that it comes from: trace and id.
    pub link: Option<(TraceId, SpanId)>,
}

/// Something that happened in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// What.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// Its place in the log.
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

/// What lies around a run.
#[derive(Clone, Debug)]
pub struct Family {
    /// The run's own span.
    pub context: TraceContext,
    /// The workflow of the run that started this one.
    pub parent_workflow: Option<String>,
    /// The span of the run that a fork was made of.
    pub source: Option<TraceContext>,
    /// Whether its workflow calls something sensitive, where that is known.
    pub has_sensitive: Option<bool>,
    /// The class of compliance its workflow declares, where that is known.
    pub class: Option<String>,
}

impl Family {
    /// The same for a run whose workflow is at hand.
    pub fn of_workflow(self, plan: &Plan) -> Self {
        Self {
            has_sensitive: Some(plan.sensitivity.any),
            class: plan.sensitivity.class.clone(),
            ..self
        }
    }
}
