//! The texts before a session and after it.

use faces::player::state::{NodeState, NodeStatus, SessionState, Status};
use faces::player::template::{Kind, Template};
use kernel::ids::StreamId;

use super::Args;
use super::context::Context;
use super::files::Files;
use super::session_status::{SessionStatus, next_steps, quoted};
use crate::data::Data;
use crate::driving::few;
use crate::exit::Failure;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Maximum length of a displayed value.
const WIDEST_VALUE: usize = 60;
/// Artifacts named at the end.
const MOST_ARTIFACTS: usize = 10;
/// Nodes named at the end.
const MOST_NODES: usize = 40;
/// The longest error shown at the end. A process prints its error last.
const WIDEST_ERROR: usize = 300;
/// The word for a checkpoint that still asks.
const WAITS: &str = "waits";
/// The word for a checkpoint at which the session was aborted.
const ABORTED: &str = "aborted";

fn rule() -> String {
    style::dim("=".repeat(44))
}

/// Prints the header of a session.
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

/// One line of a plan: the place, the node, its type, and its command.
pub(super) fn planned(number: usize, template: &Template, at: usize) -> String {
    let node = &template.nodes[at];
    let (kind, calls, args) = match &node.kind {
        Kind::Work(work) => (work.call.as_str(), &*work.executor, &*work.args_template),
        Kind::Checkpoint { auto_continue, .. } => (
            "checkpoint",
            if *auto_continue { "continues" } else { "asks" },
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

/// The running nodes, in a few words.
pub(super) fn running(files: &Files) -> String {
    let nodes = files.state().node_states.0.into_iter();
    let running = nodes.filter(|(_, node)| node.status() == NodeStatus::Running);
    few(running.map(|(id, _)| id))
}

/// Reports that a session was left unfinished.
pub(super) fn left(files: &Files) {
    let id = files.projection().id();
    talk::say(format!(
        "{} session {id} is unfinished; its state is saved",
        style::warn("left:")
    ));
    next(&format!("`runwright play --resume {id}` continues it"));
}

/// Reports the state of a session once it does not progress by itself.
pub(super) fn summary(args: &Args, files: &Files) {
    let state = files.state();
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
    nodes(args, &state);
    talk::say(format!("Nodes:     {}", Tally::from_state(&state)));
    artifacts(&state);
    if let Some(used) = used(&state) {
        talk::say(format!("Used:      {used}"));
    }
    talk::say(format!("Directory: {}", files.projection().folder()));
    let id = &state.session_id;
    match state.status {
        Status::Completed | Status::Archived => {}
        _ if state.completed_at.is_none() => next_steps(&state).iter().for_each(|step| next(step)),
        _ => next(&match &state.x_play.aborted_at {
            Some(at) => {
                let at = quoted(at);
                format!(
                    "`runwright play --resume {id} --from {at}` asks again there, in a new session"
                )
            }
            None => format!(
                "`runwright play --resume {id} --from NODE` starts a new session from before a node"
            ),
        }),
    }
}

/// The usage of a session, as far as executors reported it.
pub(super) fn used(state: &SessionState) -> Option<String> {
    let used = state.x_play.used;
    let usd = used
        .usd
        .map_or_else(String::new, |usd| format!("{usd:.4} USD, "));
    (!used.is_nothing()).then(|| {
        format!(
            "{usd}{} tokens in, {} out",
            used.input_tokens, used.output_tokens
        )
    })
}

/// A line for each node; in quiet mode, for failed ones only.
fn nodes(args: &Args, state: &SessionState) {
    let is_shown = |state: &NodeState| !args.quiet || state.status() == NodeStatus::Failed;
    let shown = || (state.node_states.0.iter()).filter(|(_, state)| is_shown(state));
    for (node, of) in shown().take(MOST_NODES) {
        talk::say(format!("  {}", line(state, node, of)));
    }
    let more = shown().count().saturating_sub(MOST_NODES);
    if more > 0 {
        let more = text::count(more, "more node");
        talk::say(style::dim(format!("  and {more}")));
    }
}

fn artifacts(state: &SessionState) {
    let of = |state: &'_ NodeState| match state {
        NodeState::Work(state) => state.artifacts.clone(),
        NodeState::Checkpoint(_) => Vec::new(),
    };
    let artifacts: Vec<String> = (state.node_states.0.iter())
        .flat_map(|(_, state)| of(state))
        .collect();
    for artifact in artifacts.iter().take(MOST_ARTIFACTS) {
        talk::say(format!("Artifact:  {}", text::one_line(artifact, 200)));
    }
    if artifacts.len() > MOST_ARTIFACTS {
        let more = text::count(artifacts.len() - MOST_ARTIFACTS, "more artifact");
        talk::say(style::dim(format!("           and {more}")));
    }
}

/// The number of finished nodes of a session. A checkpoint that still asks does not count, although
/// its file is written and its state shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    completed: usize,
    skipped: usize,
    /// Failed rounds of loops that others followed.
    failed: usize,
    all: usize,
}

impl Tally {
    /// Counts.
    pub(super) fn from_state(state: &SessionState) -> Self {
        let nodes = &state.node_states.0;
        let count = |status: &str| {
            let is_it = |(id, of): &&(String, NodeState)| standing(state, id, of) == status;
            nodes.iter().filter(is_it).count()
        };
        Self {
            completed: count(NodeStatus::Completed.as_str()),
            skipped: count(NodeStatus::Skipped.as_str()),
            failed: state.x_play.failed_rounds.len(),
            all: nodes.len(),
        }
    }

    /// The number of finished nodes, and of all.
    pub(super) fn over(self) -> String {
        let over = self.completed + self.skipped + self.failed;
        format!("{over}/{}", self.all)
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} completed", self.completed, self.all)?;
        match self.failed {
            0 => {}
            1 => write!(f, ", 1 round failed")?,
            failed => write!(f, ", {failed} rounds failed")?,
        }
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

/// The word for the state of a node: a checkpoint that still asks is waiting, and one that asked
/// when the session was aborted was not passed.
pub(super) fn standing(state: &SessionState, id: &str, node: &NodeState) -> &'static str {
    let is = |at: &Option<String>| at.as_deref() == Some(id);
    match &state.x_play {
        more if is(&more.waits_at) => WAITS,
        more if is(&more.aborted_at) => ABORTED,
        _ => node.status().as_str(),
    }
}

fn line(state: &SessionState, id: &str, node: &NodeState) -> String {
    let word = standing(state, id, node);
    let pick =
        |sign: &'static str, ascii: &'static str| if talk::has_symbols() { sign } else { ascii };
    let mark = match node.status() {
        _ if word == WAITS => style::warn("?"),
        _ if word == ABORTED => style::bad(pick("✗", "x")),
        NodeStatus::Completed => style::good(pick("✓", "+")),
        NodeStatus::Failed => style::bad(pick("✗", "x")),
        NodeStatus::Running => style::busy(pick("▶", ">")),
        NodeStatus::Skipped | NodeStatus::Pending => style::dim(pick("○", "-")),
    };
    let more = match node {
        NodeState::Work(state) => match (&state.error, &state.session_id) {
            (Some(error), _) => text::one_line(error, WIDEST_ERROR),
            (None, Some(session)) => text::one_line(session, 80),
            (None, None) => String::new(),
        },
        NodeState::Checkpoint(_) => "checkpoint".to_owned(),
    };
    let id = text::one_line(id, 40);
    match more.as_str() {
        "" => format!("{mark} {id:12} {word}"),
        more => format!("{mark} {id:12} {word:9} {}", style::dim(more)),
    }
}

/// The final output: the state for programs; the session and its status for people.
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

/// Reports the driver of a session, or the step that would continue it.
pub(super) fn stands(standing: &SessionStatus, state: &SessionState) {
    for line in standing.lines(state) {
        if standing.is_idle() {
            next(&line)
        } else {
            talk::say(format!("  {} {line}", style::dim("now:")))
        }
    }
}

/// Prints the next step.
pub(super) fn next(text: &str) {
    talk::say(format!("  {} {text}", style::dim("next:")));
}
