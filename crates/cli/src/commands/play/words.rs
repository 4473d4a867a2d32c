//! The words around a session: before it begins and after it has ended.

use faces::player::state::{NodeState, NodeStatus, Status};
use faces::player::template::{Kind, Template};
use kernel::ids::StreamId;

use super::context::Context;
use super::files::Files;
use super::{Args, drive};
use crate::data::Data;
use crate::exit::Failure;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// The longest value of a variable shown.
const WIDEST_VALUE: usize = 60;
/// Artifacts named at the end.
const MOST_ARTIFACTS: usize = 10;
/// Nodes named at the end.
const MOST_NODES: usize = 40;

fn rule() -> String {
    style::dim("=".repeat(44))
}

/// Says what begins.
pub(super) fn banner(args: &Args, run: &StreamId, template: &Template, context: &Context) {
    if args.quiet {
        return;
    }
    let (work, checkpoints) = template.counts();
    talk::say(rule());
    talk::say(format!(
        "Starting: {}",
        style::strong(text::one_line(&template.name, 80))
    ));
    talk::say(format!("Session:  {run}"));
    let values = context.iter().map(|(name, value)| {
        let value = text::one_line(value, WIDEST_VALUE);
        format!("{}=\"{value}\"", text::one_line(name, WIDEST_VALUE))
    });
    let values: Vec<String> = values.collect();
    if !values.is_empty() {
        talk::say(format!("Context:  {}", values.join(" ")));
    }
    talk::say(format!(
        "Plan:     {}, {}",
        text::count(work, "node"),
        text::count(checkpoints, "checkpoint")
    ));
    talk::say(rule());
}

/// One line of a plan: the place, the node, its type, and what it calls.
pub(super) fn planned(number: usize, template: &Template, at: usize) -> String {
    let node = &template.nodes[at];
    let (kind, calls, args) = match &node.kind {
        Kind::Work(work) => (work.call.as_str(), &*work.executor, &*work.args_template),
        Kind::Checkpoint { auto_continue, .. } => (
            "checkpoint",
            match auto_continue {
                true => "goes on",
                false => "asks",
            },
            "",
        ),
    };
    let line = format!(
        "[{number}] {:8} {:13} {:24} {}",
        text::one_line(&node.id, 40),
        format!("[{kind}]"),
        text::one_line(calls, 60),
        text::one_line(args, 100)
    );
    line.trim_end().to_owned()
}

/// Says that a session was left while it was going on.
pub(super) fn left(files: &Files) {
    let id = files.projection().id();
    talk::say(format!(
        "{} session {id} stands where its log ends; its state is saved",
        style::warn("left:")
    ));
    next(&format!("`runwright play --resume {id}` goes on with it"));
}

/// Says how a session stands now that nothing more happens by itself.
pub(super) fn summary(args: &Args, files: &Files) {
    let state = files.state();
    let id = &state.session_id;
    let (over, all) = drive::over(files);
    if !args.quiet {
        talk::say(rule());
    }
    let name = text::one_line(&state.template_name, 80);
    match state.status {
        Status::Completed | Status::Archived => {
            talk::say(format!("{} {name}", style::good("COMPLETE:")));
        }
        Status::Paused | Status::Running => talk::say(format!("{} {name}", style::warn("PAUSED:"))),
        Status::Failed => talk::say(format!("{} {name}", style::bad("FAILED:"))),
        Status::Aborted => talk::say(format!("{} {name}", style::bad("ABORTED:"))),
    }
    if !args.quiet {
        for (node, state) in state.node_states.0.iter().take(MOST_NODES) {
            talk::say(format!("  {}", ended(node, state)));
        }
        if state.node_states.0.len() > MOST_NODES {
            let more = state.node_states.0.len() - MOST_NODES;
            talk::say(style::dim(format!(
                "  and {}",
                text::count(more, "more node")
            )));
        }
    }
    talk::say(format!("Nodes:     {over}/{all} completed"));
    let artifacts: Vec<&String> = state
        .node_states
        .0
        .iter()
        .filter_map(|(_, state)| match state {
            NodeState::Work(state) => Some(&state.artifacts),
            NodeState::Checkpoint(_) => None,
        })
        .flatten()
        .collect();
    for artifact in artifacts.iter().take(MOST_ARTIFACTS) {
        talk::say(format!("Artifact:  {}", text::one_line(artifact, 200)));
    }
    if artifacts.len() > MOST_ARTIFACTS {
        let more = text::count(artifacts.len() - MOST_ARTIFACTS, "more artifact");
        talk::say(style::dim(format!("           and {more}")));
    }
    let used = state.x_play.used;
    if !used.is_nothing() {
        let usd = used
            .usd
            .map_or_else(String::new, |usd| format!("{usd:.4} USD, "));
        talk::say(format!(
            "Used:      {usd}{} tokens in, {} out",
            used.input_tokens, used.output_tokens
        ));
    }
    talk::say(format!("Directory: {}", files.projection().folder()));
    match state.status {
        Status::Paused | Status::Running => {
            next(&format!("`runwright play --resume {id}` goes on"));
        }
        Status::Failed if state.completed_at.is_none() => {
            for node in &state.x_play.undecided {
                next(&format!(
                    "`runwright play --resume {id} --retry {node}`, or --skip {node}; `--abort {id}` ends it"
                ));
            }
        }
        Status::Failed | Status::Aborted => next(&format!(
            "`runwright play --resume {id} --from NODE` begins a new session as it was before a node"
        )),
        Status::Completed | Status::Archived => {}
    }
}

fn ended(node: &str, state: &NodeState) -> String {
    let mark = match state.status() {
        NodeStatus::Completed => style::good(if talk::has_symbols() { "✓" } else { "+" }),
        NodeStatus::Failed => style::bad(if talk::has_symbols() { "✗" } else { "x" }),
        NodeStatus::Running => style::busy(if talk::has_symbols() { "▶" } else { ">" }),
        NodeStatus::Skipped | NodeStatus::Pending => {
            style::dim(if talk::has_symbols() { "○" } else { "-" })
        }
    };
    let more = match state {
        NodeState::Work(state) => match (&state.error, &state.session_id) {
            (Some(error), _) => text::one_line(error, 120),
            (None, Some(session)) => text::one_line(session, 80),
            (None, None) => String::new(),
        },
        NodeState::Checkpoint(_) => "checkpoint".to_owned(),
    };
    let word = state.status().as_str();
    let line = format!(
        "{mark} {:12} {word:9} {}",
        text::one_line(node, 40),
        style::dim(more)
    );
    line.trim_end().to_owned()
}

/// The last thing that programs are told: the state; people get the session and its status.
pub(super) fn last(session: &Session, files: &Files) -> Result<(), Failure> {
    let mut data = Data::new();
    let state = files.state();
    match session.form {
        Form::Json => data.json_line(&state)?,
        Form::Text => data.line(format!("{} {}", state.session_id, state.status.as_str()))?,
    }
    match data.done() {
        Ok(()) | Err(Failure::Unread) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn next(text: &str) {
    talk::say(format!("  {} {text}", style::dim("next:")));
}
