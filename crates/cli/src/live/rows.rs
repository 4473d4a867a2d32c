//! The moving part of the view: a row per run and per node that something is going on at.

use std::time::Duration;

use kernel::run::Run;
use kernel::run::state::{NodeRun, NodeStatus, Phase};
use kernel::time::Timestamp;

use super::news::name;
use super::output::Outputs;
use crate::follow::Follower;
use crate::lookup::short;
use crate::{style, talk, text};

/// Rows of nodes shown at a time; the rest is counted.
const MOST_NODES: usize = 10;
/// Rows of runs shown at a time; the rest is counted.
const MOST_RUNS: usize = 6;
/// The longest name of a node shown.
const WIDEST_NAME: usize = 40;
/// Cells of the bar of a run.
const CELLS: usize = 24;

/// The rows as they are now. `frame` turns the wheel.
pub(crate) fn rows(
    follower: &Follower,
    outputs: &Outputs,
    now: Timestamp,
    frame: usize,
) -> Vec<String> {
    let mut nodes = Vec::new();
    let mut hidden = 0;
    for (of, followed) in follower.runs().iter().enumerate() {
        let Some(facts) = followed.run.facts() else {
            continue;
        };
        for &ix in &facts.active {
            let node = &facts.nodes[ix as usize];
            if !is_shown(node) {
                continue;
            }
            if nodes.len() == MOST_NODES {
                hidden += 1;
                continue;
            }
            let id = &followed.run.plan.nodes[ix as usize].id;
            let name = text::cut(&name(follower, of, id.as_str()), WIDEST_NAME);
            nodes.push((name, node, outputs.last(of, id)));
        }
    }
    let wide = nodes
        .iter()
        .map(|(name, ..)| name.chars().count())
        .max()
        .unwrap_or(0);
    let row = |(name, node, last)| node_row(&format!("{name:wide$}"), node, last, now, frame);
    let mut rows: Vec<String> = nodes.into_iter().map(row).collect();
    if hidden > 0 {
        rows.push(style::dim(format!(
            "  and {} more",
            text::count(hidden, "node")
        )));
    }
    let open: Vec<&Run> = follower.roots().filter(|run| !run.is_settled()).collect();
    rows.extend(
        open.iter()
            .take(MOST_RUNS)
            .map(|run| run_row(run, now, frame)),
    );
    if open.len() > MOST_RUNS {
        let more = text::count(open.len() - MOST_RUNS, "run");
        rows.push(style::dim(format!("and {more} more")));
    }
    rows
}

fn is_shown(node: &NodeRun) -> bool {
    !matches!(
        node.status,
        NodeStatus::Idle | NodeStatus::Dispatched { .. }
    ) && !node.status.is_settled()
}

fn node_row(
    name: &str,
    node: &NodeRun,
    last: Option<&str>,
    now: Timestamp,
    frame: usize,
) -> String {
    let since = node.started_at.map_or(0, |at| now.ms_since(at));
    let (mark, what) = match &node.status {
        NodeStatus::InFlight { .. } => (wheel(frame), last.unwrap_or_default().to_owned()),
        NodeStatus::Delayed { .. } => (waits(), "waits for its time".to_owned()),
        NodeStatus::Suspended { .. } => (waits(), "waits for an answer".to_owned()),
        NodeStatus::Backoff { .. } => (waits(), "waits before it is tried again".to_owned()),
        _ => (waits(), "is next".to_owned()),
    };
    let time = text::clock(Duration::from_millis(since));
    let what = style::dim(text::one_line(&what, 200));
    format!("  {mark} {}  {time}  {what}", style::strong(name))
}

fn run_row(run: &Run, now: Timestamp, frame: usize) -> String {
    let facts = run.facts();
    let total = run.plan.nodes.len();
    let settled = facts.map_or(0, |facts| {
        facts
            .nodes
            .iter()
            .filter(|node| node.status.is_settled())
            .count()
    });
    let began = facts.map_or(run.header.created_at, |facts| facts.started_at);
    let time = text::clock(Duration::from_millis(now.ms_since(began)));
    let (mark, state) = match run.phase() {
        Some(Phase::Paused { .. }) => (waits(), "  paused"),
        Some(Phase::Stopping { .. }) => (wheel(frame), "  stopping"),
        Some(Phase::Draining { .. }) => (wheel(frame), "  pausing"),
        _ if run.has_live_work() || run.status() == "running" => (wheel(frame), ""),
        _ => (waits(), "  waiting"),
    };
    let name = text::one_line(run.plan.workflow.as_str(), 40);
    format!(
        "{mark} {} {}  {} {settled}/{total}  {time}{}",
        style::strong(name),
        style::dim(short(&run.header.stream)),
        bar(settled, total),
        style::warn(state),
    )
}

fn bar(settled: usize, total: usize) -> String {
    let full = (settled * CELLS).checked_div(total).unwrap_or(0);
    match talk::has_symbols() {
        true => {
            let (done, open) = ("━".repeat(full), "━".repeat(CELLS - full));
            format!("{}{}", style::good(done), style::dim(open))
        }
        false => format!("[{}{}]", "#".repeat(full), ".".repeat(CELLS - full)),
    }
}

fn wheel(frame: usize) -> String {
    const SYMBOLS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const WORDS: [&str; 4] = ["|", "/", "-", "\\"];
    style::busy(match talk::has_symbols() {
        true => SYMBOLS[frame % SYMBOLS.len()],
        false => WORDS[frame % WORDS.len()],
    })
}

fn waits() -> String {
    style::warn(if talk::has_symbols() { "⏸" } else { "=" })
}
