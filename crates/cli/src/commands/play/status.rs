//! The state of sessions. It is folded from the logs. So are the files, which are rewritten if they
//! are missing or outdated.

use std::time::Duration;

use faces::player::names;
use faces::player::state::{NodeState, SessionState};
use kernel::ids::StreamId;
use runtime::door::Door;
use runtime::named_file;
use serde_json::{Value, json};

use super::files::{self, Files};
use super::session_status::SessionStatus;
use super::sessions::{self, Kind, Known, Left, MAX_STATE_BYTES};
use super::words::{self, Tally};
use super::{Args, drive};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// Maximum listed sessions with a next step.
const MOST_STEPS: usize = 10;

/// Shows the sessions, or one of them.
pub(super) async fn run(
    name: Option<&str>,
    args: &Args,
    session: &Session,
) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    if name.is_none() && !args.watch {
        return list(session, door.as_ref()).await;
    }
    let may = |known: &Known| known.kind == Kind::Open;
    let known = sessions::find(session, door.as_ref(), name, may, "show").await?;
    match (door, known.kind) {
        (Some(door), Kind::Open | Kind::Settled) => {
            show(session, &door, &StreamId::new(&known.id), args.watch).await
        }
        (_, kind) => {
            foreign(session, &known.id)?;
            if let (Kind::Foreign(left), Form::Text) = (kind, session.form) {
                let step = foreign_step(session, &known.id, left);
                step.iter().for_each(|step| words::next(step));
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(session: &Session, door: Option<&Door>) -> Result<Exit, Failure> {
    let mut data = Data::new();
    let mut table = Table::new(["session", "status", "at", "nodes", "template"]);
    let project = &session.place.project;
    let known = sessions::all(session, door).await?;
    let mut next = Vec::new();
    if known.is_empty() && session.form == Form::Text {
        crate::talk::say("no session yet; start one with `runwright play TEMPLATE`");
    }
    for known in &known {
        let run = StreamId::new(&known.id);
        let files = match (door, known.kind) {
            (Some(door), Kind::Open | Kind::Settled) => {
                files::bring_up_to_date(door, project, &run).await?
            }
            _ => None,
        };
        match (door, &files, known.kind) {
            (Some(door), Some(files), _) => {
                let standing = SessionStatus::load(door, files).await?;
                match standing {
                    SessionStatus::Left => next.push(format!(
                        "no process drives {id}; `runwright play --resume {id}` continues it",
                        id = known.id
                    )),
                    _ if standing.is_idle() => next.extend(standing.lines(&files.state())),
                    _ => {}
                }
            }
            (_, _, Kind::Foreign(left)) => next.extend(foreign_step(session, &known.id, left)),
            _ => {}
        }
        match (files, session.form) {
            (Some(files), Form::Json) => data.json_line(&files.state())?,
            (Some(files), Form::Text) => {
                let state = files.state();
                table.row([
                    state.session_id.clone(),
                    style::status(state.status.as_str()),
                    text::one_line(&state.current_node, 30),
                    Tally::from_state(&state).over(),
                    text::one_line(&state.template_name, 40),
                ]);
            }
            (None, Form::Json) => {
                let state = read_foreign(session, &known.id).unwrap_or_else(|failure| {
                    json!({
                        "session_id": known.id, "status": "unreadable",
                        "error": failure.to_string(),
                    })
                });
                data.json_line(&state)?;
            }
            (None, Form::Text) => {
                let state = read_foreign(session, &known.id).unwrap_or_default();
                let text = |key: &str| text::one_line(state[key].as_str().unwrap_or("?"), 40);
                table.row([
                    known.id.clone(),
                    match known.kind {
                        Kind::Foreign(Left::Unreadable) => style::status("unreadable"),
                        _ => style::status(&text("status")),
                    },
                    text("current_node"),
                    foreign_tally(&state),
                    format!("{} (another player's)", text("template_name")),
                ]);
            }
        }
    }
    if session.form == Form::Text && !known.is_empty() {
        for line in table.lines() {
            data.line(line)?;
        }
    }
    data.done()?;
    if session.form == Form::Text {
        next.iter()
            .take(MOST_STEPS)
            .for_each(|step| words::next(step));
        let more = next.len().saturating_sub(MOST_STEPS);
        if more > 0 {
            let more = text::count(more, "more session");
            words::next(&format!(
                "{more} waiting for a decision: `runwright play --status SESSION`"
            ));
        }
    }
    Ok(Exit::Done)
}

/// The next step for a session that another player left.
fn foreign_step(session: &Session, id: &str, left: Left) -> Option<String> {
    match left {
        Left::Open => Some(format!(
            "`runwright play --resume {id}` continues a session of another player"
        )),
        Left::Aborted => None,
        Left::Completed => Some(format!("`runwright play --archive {id}` archives it")),
        Left::Unreadable => Some(sessions::unreadable(session, id).to_string()),
    }
}

/// The number of finished nodes of another player's session, and of all.
fn foreign_tally(state: &Value) -> String {
    let Some(nodes) = state["node_states"].as_object() else {
        return "?".to_owned();
    };
    let is_over = |node: &&Value| matches!(node["status"].as_str(), Some("completed" | "skipped"));
    format!("{}/{}", nodes.values().filter(is_over).count(), nodes.len())
}

fn read_foreign(session: &Session, id: &str) -> Result<Value, Failure> {
    let path = sessions::folder(session, id).join(names::STATE);
    let bytes =
        named_file::read(&path, MAX_STATE_BYTES).map_err(|error| Failure::file(&path, &error))?;
    serde_json::from_slice(&bytes).map_err(|_| sessions::unreadable(session, id))
}

fn foreign(session: &Session, id: &str) -> Result<(), Failure> {
    let state = read_foreign(session, id)?;
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json_line(&state)?,
        Form::Text => data.json(&state)?,
    }
    data.done()
}

/// Shows a session; while it is watched, repeatedly until it ends or waits for an action from
/// outside. The exit code of a watch is that of playing.
async fn show(
    session: &Session,
    door: &Door,
    run: &StreamId,
    is_watched: bool,
) -> Result<Exit, Failure> {
    const POLL: Duration = Duration::from_millis(500);
    let project = &session.place.project;
    let mut shown: Option<SessionState> = None;
    let mut said: Option<SessionStatus> = None;
    let mut idle = 0;
    loop {
        let Some(files) = files::bring_up_to_date(door, project, run).await? else {
            return Err(Failure::new(format!(
                "run {run} is not a session of a template"
            )));
        };
        let standing = SessionStatus::load(door, &files).await?;
        let state = files.state();
        let is_new = shown.as_ref() != Some(&state);
        if is_new {
            print(session, &files)?;
        }
        idle = if standing.is_idle() { idle + 1 } else { 0 };
        let is_idle = idle >= patience(&standing);
        let is_sure = !is_watched || is_idle || !standing.is_idle();
        let is_news = is_new || said.as_ref() != Some(&standing);
        if is_sure && is_news && session.form == Form::Text {
            words::stands(&standing, &state);
            said = Some(standing.clone());
        }
        if !is_watched {
            return Ok(Exit::Done);
        }
        if is_idle || state.completed_at.is_some() {
            return Ok(drive::exit(state.status));
        }
        shown = Some(state);
        tokio::time::sleep(POLL).await;
    }
}

/// The number of consecutive polls without a driver before a watch believes it: there may be a gap
/// between two drivers, and before a server takes the session up.
fn patience(standing: &SessionStatus) -> u32 {
    match standing {
        SessionStatus::Left => 6,
        _ => 1,
    }
}

fn print(session: &Session, files: &Files) -> Result<(), Failure> {
    let state = files.state();
    let mut data = Data::new();
    if session.form == Form::Json {
        data.json_line(&state)?;
        return data.done();
    }
    data.line(format!(
        "{} {}  {}",
        state.session_id,
        style::status(state.status.as_str()),
        text::one_line(&state.template_name, 60)
    ))?;
    let mut table = Table::new(["batch", "node", "status", "began", "ended", "result"]);
    for batch in &state.execution_plan {
        for id in &batch.nodes {
            let node = state.node_states.0.iter().find(|(known, _)| known == id);
            let Some((_, node)) = node else { continue };
            let number = if batch.parallel {
                format!("{} ║", batch.batch)
            } else {
                batch.batch.to_string()
            };
            let (began, ended, result) = match node {
                NodeState::Work(node) => (
                    node.started_at.clone(),
                    node.completed_at.clone(),
                    node.error
                        .clone()
                        .or(node.output_path.clone())
                        .or(node.session_id.clone()),
                ),
                NodeState::Checkpoint(node) => {
                    (None, node.saved_at.clone(), node.snapshot_path.clone())
                }
            };
            let time = |at: Option<String>| at.unwrap_or_default();
            table.row([
                number,
                text::one_line(id, 40),
                style::status(words::standing(&state, id, node)),
                time(began),
                time(ended),
                text::one_line(&result.unwrap_or_default(), 100),
            ]);
        }
    }
    for line in table.lines() {
        data.line(line)?;
    }
    data.done()
}
