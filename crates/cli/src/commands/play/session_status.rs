//! Determines what drives a session, and its owner's next step.

use std::path::Path;

use faces::player::state::{SessionState, Status};
use kernel::ids::StreamId;
use runtime::door::Door;

use super::files::Files;
use super::{presence, sessions};
use crate::exit::Failure;
use crate::target::holder_name;
use crate::text;

/// The driver of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionStatus {
    /// It has ended.
    Ended,
    /// A process drives it.
    Driven(String),
    /// Its player waits for an answer or a callback.
    Attended(String),
    /// A node waits for its retry.
    Delayed,
    /// It waits for an answer, without a player.
    Waits,
    /// It has work to do, but its player is gone.
    Left,
}

impl SessionStatus {
    /// The state of a session.
    pub(super) async fn load(door: &Door, files: &Files) -> Result<Self, Failure> {
        let state = files.state();
        if state.completed_at.is_some() {
            return Ok(Self::Ended);
        }
        let run = StreamId::new(&state.session_id);
        if let Some(who) = sessions::driven_by(door, &run).await? {
            return Ok(Self::Driven(who));
        }
        if let Some(who) = attended_by(&files.folder()) {
            return Ok(Self::Attended(who));
        }
        if state.status != Status::Running || !state.x_play.callbacks.is_empty() {
            return Ok(Self::Waits);
        }
        let now = door.store().now();
        let run = door.load(&run).await?;
        Ok(match run.next_timer() {
            // It ended after the files were written.
            _ if run.is_settled() => Self::Ended,
            Some((_, due)) if due > now => Self::Delayed,
            _ => Self::Left,
        })
    }

    /// Whether it waits for an action from outside.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Waits | Self::Left)
    }

    /// The current progress, or the step that would continue it: a line for each.
    pub(super) fn lines(&self, state: &SessionState) -> Vec<String> {
        let id = &state.session_id;
        match self {
            Self::Ended => Vec::new(),
            Self::Driven(who) => vec![format!("driven by {who}")],
            Self::Attended(who) => vec![format!("{} at {who}", waits_for(state))],
            Self::Delayed => vec!["a node will be retried soon".to_owned()],
            Self::Waits => next_steps(state),
            Self::Left => vec![format!(
                "no process drives it; `runwright play --resume {id}` continues it"
            )],
        }
    }
}

/// The player that attends a session without driving it.
pub(super) fn attended_by(folder: &Path) -> Option<String> {
    presence::player(folder).map(|name| holder_name(&name))
}

/// The possible answers to a waiting session.
pub(super) fn next_steps(state: &SessionState) -> Vec<String> {
    let id = &state.session_id;
    let more = &state.x_play;
    if !more.undecided.is_empty() {
        let decide = |node: &String| {
            let node = quoted(node);
            format!(
                "`runwright play --resume {id} --retry {node}`, or --skip {node}; \
                 `runwright play --abort {id}` ends it"
            )
        };
        let mut steps: Vec<String> = more.undecided.iter().map(decide).collect();
        if let Some(node) = more.undecided.first()
            && more.budget.is_used_up(&more.used)
        {
            let option = match more.budget.usd {
                Some(_) => "--budget-usd AMOUNT",
                None => "--budget-tokens N",
            };
            // First: without a larger budget the node fails again.
            steps.insert(
                0,
                format!(
                    "its budget is used up; `runwright play --resume {id} --retry {} {option}` \
                     allows more",
                    quoted(node)
                ),
            );
        }
        return steps;
    }
    if let Some((node, task)) = more.callbacks.iter().next() {
        let task = quoted(task.as_str().unwrap_or_default());
        let node = text::one_line(node, 40);
        return vec![format!(
            "{node} waits for `runwright play callback {id} --task {task}`; `runwright play \
             --resume {id}` continues it"
        )];
    }
    let at = match &more.waits_at {
        Some(node) => format!("it waits at {}; ", text::one_line(node, 40)),
        None => String::new(),
    };
    vec![format!(
        "{at}`runwright play --resume {id}` continues it, `runwright play --abort {id}` ends it"
    )]
}

/// A short description.
fn waits_for(state: &SessionState) -> String {
    let more = &state.x_play;
    if let Some(node) = more.undecided.first() {
        let node = text::one_line(node, 40);
        return format!("waits for a decision about {node}");
    }
    if let Some(node) = &more.waits_at {
        let node = text::one_line(node, 40);
        return format!("waits for an answer to {node}");
    }
    match more.callbacks.iter().next() {
        Some((node, _)) => format!("waits for the callback of {}", text::one_line(node, 40)),
        None => "waits".to_owned(),
    }
}

/// A word, quoted for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", text::one_line(word, 80).replace('\'', r"'\''"))
    }
}
