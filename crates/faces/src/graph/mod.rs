//! Pictures of a workflow, and of a run of it.
//!
//! - [`mermaid()`]: text that Mermaid turns into a flowchart, for Markdown pages.
//! - [`svg()`]: a self-contained picture, laid out here.
//! - [`describe()`]: nodes and edges as JSON, for programs that draw by themselves.
//! - [`draw()`]: the same with the positions of our layout, for pages that only paint.
//!
//! Both pictures are made from one `Picture`, which describes content without layout. The layout
//! knows boxes and lines only, so it can be tested without a workflow.

use kernel::definition::Plan;
use kernel::run::Run;
use serde_json::Value;

mod description;
mod drawing;
mod layout;
mod mermaid;
mod picture;
mod svg;

use picture::Picture;

/// A workflow as a Mermaid flowchart; with a run, each node is marked by its state.
///
/// The run must belong to this plan. By default Mermaid refuses charts of more than 500 edges;
/// [`svg()`] draws those.
pub fn mermaid(plan: &Plan, run: Option<&Run>) -> String {
    mermaid::render(&Picture::new(plan, run))
}

/// A workflow as an SVG document; with a run, each node is marked by its state.
///
/// The document is self-contained, without scripts, and follows the reader's light or dark colour
/// scheme. The run must belong to this plan.
pub fn svg(plan: &Plan, run: Option<&Run>) -> String {
    svg::render(&Picture::new(plan, run))
}

/// The nodes and edges of a workflow as JSON; with a run, each node has its state.
///
/// The run must belong to this plan.
pub fn describe(plan: &Plan, run: Option<&Run>) -> Value {
    description::describe(plan, run)
}

/// The boxes, lines and frames of a workflow as JSON, laid out as in [`svg()`].
///
/// It depends on the plan alone. A page adds the states of a run.
pub fn draw(plan: &Plan) -> Value {
    drawing::draw(plan, &Picture::new(plan, None))
}
