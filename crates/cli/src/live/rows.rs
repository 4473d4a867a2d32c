//! The redrawn part of the view: a row per run and per active node.

use std::time::Duration;

use faces::player::names::is_session_id;
use kernel::time::Timestamp;

use super::output::Outputs;
use super::runs_view::{Activity, Going, OpenNode, OpenRun, RunsView, name};
use crate::lookup::short;
use crate::{style, talk, text};

/// Maximum rows of nodes; further ones are counted.
const MOST_NODES: usize = 10;
/// Maximum rows of runs; further ones are counted.
const MOST_RUNS: usize = 6;
/// Maximum length of a node's name.
const WIDEST_NAME: usize = 40;
/// Cells of a run's bar.
const CELLS: usize = 24;

/// The current rows. `frame` turns the wheel.
pub(crate) fn rows(
    runs_view: &dyn RunsView,
    outputs: &Outputs,
    now: Timestamp,
    frame: usize,
) -> Vec<String> {
    let nodes = runs_view.open_nodes();
    let hidden = nodes.len().saturating_sub(MOST_NODES);
    let named = nodes.iter().take(MOST_NODES).map(|node| {
        let name = text::cut(&name(runs_view, node.of, node.id.as_str()), WIDEST_NAME);
        (name, node)
    });
    let named: Vec<(String, &OpenNode)> = named.collect();
    let wide = named.iter().map(|(name, _)| name.chars().count()).max();
    let wide = wide.unwrap_or(0);
    let row = |(name, node): (String, &OpenNode)| {
        let last = outputs.last(node.of, node.id);
        node_row(&format!("{name:wide$}"), node, last, now, frame)
    };
    let mut rows: Vec<String> = named.into_iter().map(row).collect();
    if hidden > 0 {
        rows.push(style::dim(format!(
            "  and {} more",
            text::count(hidden, "node")
        )));
    }
    let open = runs_view.open_runs();
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

fn node_row(
    name: &str,
    node: &OpenNode,
    last: Option<&str>,
    now: Timestamp,
    frame: usize,
) -> String {
    let since = node.since.map_or(0, |at| now.ms_since(at));
    let (mark, what) = match node.activity {
        Activity::InFlight => (wheel(frame), last.unwrap_or_default()),
        Activity::Delayed => (waits(), "waits until it is due"),
        Activity::Suspended => (waits(), "waits for an answer"),
        Activity::WithWorker => (waits(), "waits for a worker"),
        Activity::Backoff => (waits(), "waits for its retry"),
        Activity::Next => (waits(), "is next"),
    };
    let time = text::clock(Duration::from_millis(since));
    let what = style::dim(text::one_line(what, 200));
    format!("  {mark} {}  {time}  {what}", style::strong(name))
}

fn run_row(run: &OpenRun, now: Timestamp, frame: usize) -> String {
    let time = text::clock(Duration::from_millis(now.ms_since(run.began)));
    let (mark, state) = match run.going {
        Going::On => (wheel(frame), ""),
        Going::Waiting => (waits(), "  waiting"),
        Going::Paused => (waits(), "  paused"),
        Going::Pausing => (wheel(frame), "  pausing"),
        Going::Stopping => (wheel(frame), "  stopping"),
    };
    // The name of a session contains its template, and leaves no space for another.
    let name = if is_session_id(run.id.as_str()) {
        style::strong(text::one_line(run.id.as_str(), 40))
    } else {
        format!(
            "{} {}",
            style::strong(text::one_line(run.workflow, 40)),
            style::dim(short(run.id))
        )
    };
    format!(
        "{mark} {name}  {} {}/{}  {time}{}",
        bar(run.settled, run.total),
        run.settled,
        run.total,
        style::warn(state),
    )
}

fn bar(settled: usize, total: usize) -> String {
    let full = (settled * CELLS).checked_div(total).unwrap_or(0).min(CELLS);
    if talk::has_symbols() {
        let (done, open) = ("━".repeat(full), "━".repeat(CELLS - full));
        format!("{}{}", style::good(done), style::dim(open))
    } else {
        format!("[{}{}]", "#".repeat(full), ".".repeat(CELLS - full))
    }
}

fn wheel(frame: usize) -> String {
    const SYMBOLS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const WORDS: [&str; 4] = ["|", "/", "-", "\\"];
    style::busy(if talk::has_symbols() {
        SYMBOLS[frame % SYMBOLS.len()]
    } else {
        WORDS[frame % WORDS.len()]
    })
}

fn waits() -> String {
    style::warn(if talk::has_symbols() { "⏸" } else { "=" })
}
