//! The summary at a checkpoint: the nodes since the previous one, the files they wrote, their
//! usage, and their duration.

use faces::player::state::{NodeState, SessionState, WorkState};
use kernel::time::Timestamp;

use super::words;
use crate::{style, text};

/// Maximum files listed per node.
const MOST_FILES: usize = 5;

/// The lines, each with its line break. `begun` is the start of the session.
pub(super) fn lines(
    state: &SessionState,
    checkpoint: &str,
    begun: Option<Timestamp>,
    now: Timestamp,
) -> String {
    let nodes = &state.node_states.0;
    let end = nodes.iter().position(|(id, _)| id == checkpoint);
    let before = &nodes[..end.unwrap_or(nodes.len())];
    let is_checkpoint = |node: &(String, NodeState)| matches!(node.1, NodeState::Checkpoint(_));
    let from = before
        .iter()
        .rposition(is_checkpoint)
        .map_or(0, |at| at + 1);
    let mut lines = String::new();
    for (id, node) in &before[from..] {
        if let NodeState::Work(work) = node {
            lines.push_str(&format!("  {}\n", line(id, work)));
        }
    }
    let took = begun.map(|begun| text::ms(now.ms_since(begun)));
    let used = words::used(state);
    let so_far: Vec<String> = took.into_iter().chain(used).collect();
    if !so_far.is_empty() {
        lines.push_str(&format!(
            "  {} {}\n",
            style::dim("so far:"),
            so_far.join(", ")
        ));
    }
    lines
}

fn line(id: &str, work: &WorkState) -> String {
    let at = |text: &Option<String>| Timestamp::parse(text.as_deref()?);
    let took = match (at(&work.started_at), at(&work.completed_at)) {
        (Some(from), Some(to)) => format!(" in {}", text::ms(to.ms_since(from))),
        _ => String::new(),
    };
    let mut files: Vec<&str> = work.output_path.iter().map(String::as_str).collect();
    for file in &work.artifacts {
        if !files.contains(&file.as_str()) {
            files.push(file);
        }
    }
    let more = files.len().saturating_sub(MOST_FILES);
    let named = files.iter().take(MOST_FILES);
    let mut named: Vec<String> = named.map(|file| text::one_line(file, 100)).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    let id = text::one_line(id, 40);
    if named.is_empty() {
        format!("{id} {}{took}", work.status.as_str())
    } else {
        format!("{id} {}{took}: {}", work.status.as_str(), named.join(", "))
    }
}
