//! The display of a session in progress: rows and lines for people, objects for programs.

use faces::player::projection::node_of;
use faces::player::state::NodeStatus;
use kernel::run::{Event, RunEvent};
use kernel::time::Timestamp;
use serde_json::{Value, json};

use super::Args;
use super::files::Files;
use crate::data::Data;
use crate::exit::Failure;
use crate::follow::{Follower, RunUpdate};
use crate::live::{Detail, Live};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// The view of a session.
pub(super) enum View {
    /// For people.
    People(Live),
    /// One JSON object per line; `None` once the reader is gone.
    Programs(Option<Data>),
}

impl View {
    pub(super) fn new(args: &Args, session: &Session) -> Self {
        match session.form {
            Form::Json => Self::Programs(Some(Data::new())),
            Form::Text => {
                let detail = match (args.quiet, args.watch) {
                    (true, _) => Detail::Quiet,
                    (false, true) => Detail::Output,
                    (false, false) => Detail::Nodes,
                };
                Self::People(Live::for_people(detail).without_questions())
            }
        }
    }

    /// Draws again below a question and its answer.
    pub(super) fn again(&mut self, args: &Args, session: &Session) {
        if let Self::People(_) = self {
            *self = Self::new(args, session);
        }
    }

    /// Writes an event that the files include for programs, and warns people about empty
    /// references.
    pub(super) fn note(&mut self, event: &Event, files: &Files) -> Result<(), Failure> {
        let data = match self {
            Self::Programs(data) => data,
            Self::People(live) if live.is_quiet() => return Ok(()),
            Self::People(_) => {
                warn_of_empty_references(event, files);
                return Ok(());
            }
        };
        let (Some(open), Some(line)) = (&mut *data, line(event, files)) else {
            return Ok(());
        };
        match open.json_line(&line).and_then(|()| open.flush()) {
            Err(Failure::Unread) => {
                *data = None;
                Ok(())
            }
            done => done,
        }
    }

    /// Shows new events to people.
    pub(super) fn show(
        &mut self,
        follower: &Follower,
        news: &[RunUpdate],
        now: Timestamp,
    ) -> Result<(), Failure> {
        match self {
            Self::People(live) => live.show(follower, news, now),
            Self::Programs(_) => Ok(()),
        }
    }

    /// Removes temporary rows.
    pub(super) fn end(&mut self) {
        match self {
            Self::People(live) => live.end(),
            // The caller writes the last line.
            Self::Programs(data) => *data = None,
        }
    }
}

fn warn_of_empty_references(event: &Event, files: &Files) {
    let Some((node, _)) = node_of(&event.body) else {
        return;
    };
    let node = text::one_line(node.as_str(), 60);
    for empty in files.projection().empty_references(&event.body) {
        let empty = text::one_line(&empty, 200);
        talk::say(format!("{} {node}: {empty}", style::warn("warning:")));
    }
}

/// The line for programs about an event.
fn line(event: &Event, files: &Files) -> Option<Value> {
    let at = event.at.to_string();
    let projection = files.projection();
    Some(match &event.body {
        RunEvent::RunStarted { .. } => {
            let state = files.state();
            json!({
                "type": "session", "session_id": state.session_id, "status": state.status, "at": at,
                "template_id": state.template_id, "execution_plan": state.execution_plan,
            })
        }
        RunEvent::OutputChunk {
            node_id,
            channel,
            chunk,
            ..
        } => {
            json!({ "type": "output", "node": node_id, "channel": channel, "text": chunk, "at": at })
        }
        RunEvent::RunCompleted { .. }
        | RunEvent::RunFailed { .. }
        | RunEvent::RunCancelled { .. }
        | RunEvent::RunPaused { .. }
        | RunEvent::RunResumed { .. } => {
            json!({ "type": "session", "session_id": projection.id(), "status": projection.status(), "at": at })
        }
        body => {
            let (id, _) = node_of(body)?;
            let state = projection.node(id.as_str())?;
            let mut line = json!({
                "type": "node", "node": id, "status": state.status(), "at": at,
                "event": match (what(body)?, state.status()) {
                    ("completed", NodeStatus::Failed) => "failed",
                    (what, _) => what,
                },
                "session_status": projection.status(),
            });
            if let Some(error) = state.error() {
                line["error"] = json!(error);
            }
            let empty = projection.empty_references(body);
            if !empty.is_empty() {
                line["warnings"] = json!(empty);
            }
            line
        }
    })
}

fn what(body: &RunEvent) -> Option<&'static str> {
    Some(match body {
        RunEvent::NodeStarted { .. } => "started",
        RunEvent::AttemptRestarted { .. } => "restarted",
        RunEvent::NodeCompleted { .. } => "completed",
        RunEvent::NodeFailed { .. } => "failed",
        RunEvent::NodeRetried { .. } => "retried",
        RunEvent::NodeSkipped { .. } => "skipped",
        RunEvent::NodeCancelled { .. } => "stopped",
        RunEvent::NodeSuspended { .. } => "waits",
        _ => return None,
    })
}
