//! Messages about the end of runs, with next steps.

use faces::Mask;
use kernel::coordinator::awaited_queue;
use kernel::definition::{NodeIx, Plan};
use kernel::ids::{NodeId, StreamId};
use kernel::run::state::OpenInterrupt;
use kernel::run::state::{End, Facts, NodeStatus, Phase};
use kernel::run::{NodeError, Run};
use serde_json::{Map, Value};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::short;
use crate::questions;
use crate::questions::awaited::AllAwaited;
use crate::{style, talk, text};

/// Maximum lines of an output; the rest is in the store.
const OUTPUT_LINES: usize = 40;
/// The type of nodes whose outputs are those of a process.
const PROCESS: &str = "runwright.process";

/// The displayed end of a run.
pub(crate) struct RunSummary<'a> {
    /// The run.
    pub id: &'a StreamId,
    /// Its workflow.
    pub workflow: &'a str,
    /// The end.
    pub end: &'a End,
    /// From its creation on.
    pub took_ms: u64,
    /// The number of nodes in each state.
    pub counts: String,
    /// The message about a dead-lettered run, if it is one.
    pub dead_letter: Option<String>,
}

/// Prints how a run ended, or why it has not.
pub(crate) fn say(run: &Run) {
    let counts = run.facts().map(counts).unwrap_or_default();
    match run.end() {
        Some(end) => say_end(&RunSummary {
            id: &run.header.stream,
            workflow: run.plan.workflow.as_str(),
            end: &shown_end(run, end),
            took_ms: run.head.at.ms_since(run.header.created_at),
            counts,
            dead_letter: dead_lettered(run),
        }),
        None => {
            let workflow = text::one_line(run.plan.workflow.as_str(), 60);
            say_open(run, &workflow, short(&run.header.stream), &counts);
        }
    }
}

/// The end of a run with its outputs and its error masked by the workflow.
pub(crate) fn shown_end(run: &Run, end: &End) -> End {
    let mask = Mask::from_plan(&run.plan);
    match end {
        End::Completed { outputs } => End::Completed {
            outputs: mask.run_outputs(outputs),
        },
        End::Failed { error, node } => End::Failed {
            error: mask.error(node.as_ref(), error).into_owned(),
            node: node.clone(),
        },
        End::Cancelled { .. } => end.clone(),
    }
}

/// Prints how a run ended.
pub(crate) fn say_end(told: &RunSummary) {
    let id = short(told.id);
    let symbols = talk::has_symbols();
    let sign = |symbol: &'static str, word: &'static str| if symbols { symbol } else { word };
    let workflow = text::one_line(told.workflow, 60);
    let nodes = &told.counts;
    let took = text::ms(told.took_ms);
    match told.end {
        End::Completed { .. } => {
            let sign = style::good(sign("✓", "+"));
            talk::say(format!(
                "{sign} {workflow} {id} {} in {took}: {nodes}",
                style::good("completed")
            ));
        }
        End::Failed { error, node } => {
            let sign = style::bad(sign("✗", "x"));
            talk::say(format!(
                "{sign} {workflow} {id} {} after {took}: {nodes}",
                style::bad("failed")
            ));
            if let Some(given_up) = &told.dead_letter {
                talk::say(format!("  {}", style::bad(given_up)));
            }
            let at = match node {
                Some(node) => format!(
                    "node {}: ",
                    style::strong(text::one_line(node.as_str(), 60))
                ),
                None => String::new(),
            };
            let code = style::dim(format!("[{}]", text::one_line(&error.code, 60)));
            talk::say(indented(&format!(
                "{at}{} {code}",
                text::plain(&error.message)
            )));
            if error.code == "run_timeout" {
                next(
                    "the limit is `settings.timeout` or `settings.workTimeout` of the workflow, \
                     or `configurable.runTimeoutMs` of the request that created the run",
                );
            }
            next(&format!(
                "`runwright events {id}` shows what happened; correct the cause and run it again"
            ));
        }
        End::Cancelled { reason } => {
            let why = reason
                .as_deref()
                .map(|reason| format!(" ({})", text::one_line(reason, 120)));
            talk::say(format!(
                "{} {workflow} {id} cancelled after {took}{}: {nodes}",
                style::dim(sign("○", "-")),
                why.unwrap_or_default()
            ));
        }
    }
}

/// The message about a dead-lettered run, if it is one.
pub(crate) fn dead_lettered(run: &Run) -> Option<String> {
    let Some(End::Failed {
        error,
        node: Some(id),
    }) = run.end()
    else {
        return None;
    };
    let node = &run.facts()?.nodes[run.plan.node_ix(id.as_str())?.index()];
    let is_given_up = matches!(&node.status, NodeStatus::Failed { error: of, .. } if of == error);
    (is_given_up && node.retries > 0).then(|| dead_letter(id.as_str(), node.attempts))
}

/// The message about a node that was given up after `attempts` attempts, with its run
/// dead-lettered.
pub(crate) fn dead_letter(node: &str, attempts: u32) -> String {
    format!(
        "dead-lettered after {} of {}",
        text::count(attempts as usize, "attempt"),
        text::one_line(node, 60)
    )
}

fn say_open(run: &Run, workflow: &str, id: &str, nodes: &str) {
    let status = style::status(run.status().as_str());
    talk::say(format!(
        "{} {workflow} {id} is {status}: {nodes}",
        style::warn("!")
    ));
    for open in run.facts().into_iter().flat_map(|facts| &facts.interrupts) {
        let node = run.plan.node(NodeIx(open.node)).id.as_str();
        if let Some(queue) = awaited_queue(&open.data) {
            let node = text::one_line(node, 60);
            next(&format!("{node} waits for {}", questions::worker_of(queue)));
            continue;
        }
        let how = questions::how(id, node, open.kind.as_str(), &open.data);
        next(&format!("answer with {how}"));
    }
    match run.phase() {
        Some(Phase::Paused { .. }) => next(&format!(
            "`runwright runs unpause {id}`, then `runwright resume {id}`"
        )),
        _ => next(&format!("`runwright resume {id}` continues it")),
    }
}

fn next(text: &str) {
    talk::say(format!("  {} {text}", style::dim("next:")));
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The number of nodes in each state: `5 nodes completed, 1 failed`.
pub(crate) fn counts(facts: &Facts) -> String {
    let statuses = facts.nodes.iter().map(|node| node.status.as_str());
    counted(statuses, facts.takeovers)
}

/// The same for the names of statuses.
pub(crate) fn counted<'a>(
    statuses: impl Iterator<Item = &'a str> + Clone,
    takeovers: u32,
) -> String {
    let words = [
        "completed",
        "failed",
        "running",
        "suspended",
        "retrying",
        "skipped",
        "cancelled",
        "pending",
    ];
    let mut parts = Vec::new();
    for word in words {
        match statuses.clone().filter(|status| *status == word).count() {
            0 => {}
            n if parts.is_empty() => parts.push(format!("{} {word}", text::count(n, "node"))),
            n => parts.push(format!("{n} {word}")),
        }
    }
    if takeovers > 0 {
        parts.push(format!("taken over {}", times(takeovers)));
    }
    parts.join(", ")
}

fn times(n: u32) -> String {
    match n {
        1 => "once".into(),
        2 => "twice".into(),
        n => format!("{n} times"),
    }
}

/// Prints the outputs of a completed run for people: text as text, the rest as JSON.
pub(crate) fn print_outputs(data: &mut Data, run: &Run) -> Result<(), Failure> {
    match run.end().map(|end| shown_end(run, end)) {
        Some(End::Completed { outputs }) => {
            print_outputs_of(data, short(&run.header.stream), &outputs, Some(&run.plan))
        }
        _ => Ok(()),
    }
}

/// The same for outputs from another source. `run` is the name of the run in a command; of the
/// process nodes of the plan only the output is shown.
pub(crate) fn print_outputs_of(
    data: &mut Data,
    run: &str,
    outputs: &Map<String, Value>,
    plan: Option<&Plan>,
) -> Result<(), Failure> {
    let is_process = |node: &str| {
        plan.and_then(|plan| Some(plan.node(plan.node_ix(node)?)))
            .is_some_and(|node| node.type_id == PROCESS)
    };
    for (name, value) in shown_outputs(outputs, is_process) {
        let name = style::strong(text::one_line(name, 60));
        let shown = match value {
            Shown::Text(text) => text::plain(text.trim_end()),
            Shown::Json(value) => {
                text::plain(&serde_json::to_string_pretty(value).unwrap_or_default())
            }
        };
        let mut lines = shown.lines();
        match (lines.next(), lines.next()) {
            (None, _) => {}
            (Some(only), None) => data.line(format!("{name}: {only}"))?,
            (Some(first), Some(second)) => {
                data.line(format!("{name}:"))?;
                let all = [first, second].into_iter().chain(lines);
                for line in all.clone().take(OUTPUT_LINES) {
                    data.line(format!("  {line}"))?;
                }
                let more = all.count().saturating_sub(OUTPUT_LINES);
                if more > 0 {
                    data.line(style::dim(format!(
                        "  … {} more: runwright runs show {run} --json",
                        text::count(more, "line")
                    )))?;
                }
            }
        }
    }
    Ok(())
}

/// Prints the error of a run.
pub(crate) fn print_error(data: &mut Data, error: &NodeError) -> Result<(), Failure> {
    let code = style::dim(format!("[{}]", text::one_line(&error.code, 60)));
    data.line("")?;
    data.line(format!("{} {code}", style::bad("error")))?;
    for line in text::plain(&error.message).lines() {
        data.line(format!("  {line}"))?;
    }
    Ok(())
}

enum Shown<'a> {
    Text(&'a str),
    Json(&'a Value),
}

/// The part of each output to show: for a process its output, if that is text.
fn shown_outputs<'a>(
    outputs: &'a Map<String, Value>,
    is_process: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a str, Shown<'a>)> {
    outputs.iter().filter_map(move |(name, value)| {
        let is_process = is_process(name);
        let shown = match value {
            Value::Object(ports) if ports.is_empty() => return None,
            Value::Object(ports) if is_process => match (ports.get("json"), ports.get("stdout")) {
                (Some(json), _) => Shown::Json(json),
                (None, Some(Value::String(text))) => Shown::Text(text),
                _ => Shown::Json(value),
            },
            Value::String(text) => Shown::Text(text),
            value => Shown::Json(value),
        };
        Some((name.as_str(), shown))
    })
}

/// The exit code for runs that were driven.
pub(crate) fn exit<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Exit {
    let codes = runs.into_iter().map(|run| match run.end() {
        Some(End::Failed { .. } | End::Cancelled { .. }) => Exit::Found,
        None if lacks_something(run) => Exit::Paused,
        Some(End::Completed { .. }) | None => Exit::Done,
    });
    codes.max().unwrap_or(Exit::Done)
}

/// Whether a run waits for something that only the operator can provide.
fn lacks_something(run: &Run) -> bool {
    let facts = run.facts();
    facts.is_some_and(|facts| facts.interrupts.iter().any(OpenInterrupt::is_for_want))
}

/// The state of a node, in a few words.
pub(crate) fn standing(
    awaited: &AllAwaited,
    run: &Run,
    node: &NodeId,
    status: &NodeStatus,
) -> String {
    let line = |error: &NodeError| {
        let shown = Mask::from_plan(&run.plan).error(Some(node), error);
        text::one_line(&shown.message, 100)
    };
    match status {
        NodeStatus::InFlight { restarts: 0, .. } => String::new(),
        NodeStatus::InFlight { restarts, .. } => format!("restarted {}", times(*restarts)),
        NodeStatus::Delayed { .. } => "waits until it is due".into(),
        NodeStatus::Dispatched { child, .. } => format!("as run {}", short(child)),
        NodeStatus::FannedOut { fan, .. } => {
            format!("{} of {} runs have ended", fan.ended.len(), fan.total)
        }
        NodeStatus::Suspended { interrupt, .. } => match awaited.get(interrupt) {
            Some(awaited) => format!("waits for {}", awaited.in_short()),
            None => "waits for an answer".into(),
        },
        NodeStatus::Backoff { last_error, .. } => line(last_error),
        NodeStatus::Failed { error, .. } => line(error),
        NodeStatus::Completed {
            port: Some(port), ..
        } => format!("port {}", text::one_line(port, 40)),
        NodeStatus::Skipped { .. }
        | NodeStatus::Idle
        | NodeStatus::Ready { .. }
        | NodeStatus::Completed { port: None, .. }
        | NodeStatus::Cancelled => String::new(),
    }
}
