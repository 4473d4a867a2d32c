//! The summary at a checkpoint: the nodes since the previous one, the files they wrote, their
//! usage, and their duration.

use faces::player::names;
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
    ran: impl Fn(&str) -> Option<Ran>,
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
            lines.push_str(&format!("  {}\n", line(id, work, ran(id))));
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

/// The start and the end of a node in the log. The state has them in whole seconds.
pub(super) type Ran = (Timestamp, Timestamp);

fn line(id: &str, work: &WorkState, ran: Option<Ran>) -> String {
    let at = |text: &Option<String>| Timestamp::parse(text.as_deref()?);
    // The log of an adopted session has no times of nodes that another player ran.
    let is_here = |ran: &Ran| work.started_at.as_ref() == Some(&names::time(ran.0));
    let stated = || Some((at(&work.started_at)?, at(&work.completed_at)?));
    let took = match ran.filter(is_here).or_else(stated) {
        Some((from, to)) => format!(" in {}", text::ms(to.ms_since(from))),
        None => String::new(),
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

#[cfg(test)]
mod tests {
    use faces::player::state::NodeStatus;

    use super::*;

    #[test]
    fn durations_are_those_of_the_log() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let work = WorkState {
            status: NodeStatus::Completed,
            started_at: Some("2026-03-17T14:30:22Z".into()),
            completed_at: Some("2026-03-17T14:30:22Z".into()),
            ..WorkState::default()
        };
        let ran = (
            at("2026-03-17T14:30:22.100Z"),
            at("2026-03-17T14:30:22.890Z"),
        );
        assert_eq!(line("a", &work, Some(ran)), "a completed in 790 ms");
        // Another player ran it.
        let here = (
            at("2026-03-18T00:00:00.000Z"),
            at("2026-03-18T00:00:00.001Z"),
        );
        assert_eq!(line("a", &work, Some(here)), line("a", &work, None));
    }
}
