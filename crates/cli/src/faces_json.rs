//! The forms of runs for other programs: the OpenWOP face, and pictures.

use clap::ValueEnum;
use faces::Mask;
use faces::openwop::v1;
use kernel::definition::Plan;
use kernel::ids::Seq;
use kernel::run::{Event, Run};
use kernel::stream::StreamHeader;
use serde_json::Value;

/// An event, with its cause.
pub(crate) fn event(
    header: &StreamHeader,
    mask: Mask<'_>,
    event: &Event,
    cause: Option<Seq>,
) -> Value {
    v1::event_caused_by(header, mask, event, cause)
}

/// Every type of event.
pub(crate) fn event_types() -> &'static [&'static str] {
    v1::EVENT_TYPES
}

/// The state of a run.
pub(crate) fn snapshot(run: &Run) -> Value {
    v1::snapshot(run)
}

/// The format of a picture.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Picture {
    /// Text that Markdown viewers draw
    Mermaid,
    /// An SVG picture
    Svg,
}

impl Picture {
    /// A plan, or a run of it.
    pub(crate) fn draw(self, plan: &Plan, run: Option<&Run>) -> String {
        match self {
            Self::Mermaid => faces::graph::mermaid(plan, run),
            Self::Svg => faces::graph::svg(plan, run),
        }
    }
}

/// The nodes and edges of a plan, or of a run of it.
pub(crate) fn graph(plan: &Plan, run: Option<&Run>) -> Value {
    faces::graph::describe(plan, run)
}
