//! How sessions stand. What is shown is made of the logs, and so are the files, which are written
//! again where they are missing or behind.

use std::time::Duration;

use faces::player::names;
use faces::player::state::NodeState;
use kernel::ids::StreamId;
use runtime::door::Door;
use serde_json::Value;

use super::files::{self, Files};
use super::sessions::{self, Kind, Known};
use super::{Args, drive};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

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
        _ => foreign(session, &known.id),
    }
}

async fn list(session: &Session, door: Option<&Door>) -> Result<Exit, Failure> {
    let mut data = Data::new();
    let mut table = Table::new(["session", "status", "at", "nodes", "template"]);
    let project = &session.place.project;
    let known = sessions::all(session, door).await?;
    if known.is_empty() && session.form == Form::Text {
        crate::talk::say("there is no session yet; `runwright play TEMPLATE` begins one");
    }
    for known in &known {
        let run = StreamId::new(&known.id);
        let files = match (door, known.kind) {
            (Some(door), Kind::Open | Kind::Settled) => {
                files::bring_up_to_date(door, project, &run).await?
            }
            _ => None,
        };
        match (files, session.form) {
            (Some(files), Form::Json) => data.json_line(&files.state())?,
            (Some(files), Form::Text) => {
                let state = files.state();
                let (over, all) = drive::over(&files);
                table.row([
                    state.session_id.clone(),
                    style::status(state.status.as_str()),
                    text::one_line(&state.current_node, 30),
                    format!("{over}/{all}"),
                    text::one_line(&state.template_name, 40),
                ]);
            }
            (None, Form::Json) => data.json_line(&read_foreign(session, &known.id)?)?,
            (None, Form::Text) => {
                let state = read_foreign(session, &known.id)?;
                let text = |key: &str| text::one_line(state[key].as_str().unwrap_or("?"), 40);
                table.row([
                    known.id.clone(),
                    style::status(&text("status")),
                    text("current_node"),
                    "?".into(),
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
    Ok(Exit::Done)
}

fn read_foreign(session: &Session, id: &str) -> Result<Value, Failure> {
    let path = sessions::folder(session, id).join(names::STATE);
    let bytes = std::fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn foreign(session: &Session, id: &str) -> Result<Exit, Failure> {
    let state = read_foreign(session, id)?;
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json_line(&state)?,
        Form::Text => data.json(&state)?,
    }
    data.done()?;
    Ok(Exit::Done)
}

async fn show(
    session: &Session,
    door: &Door,
    run: &StreamId,
    is_watched: bool,
) -> Result<Exit, Failure> {
    const POLL: Duration = Duration::from_millis(500);
    let project = &session.place.project;
    let mut before = None;
    loop {
        let Some(files) = files::bring_up_to_date(door, project, run).await? else {
            return Err(Failure::new(format!(
                "run {run} is no session of a template"
            )));
        };
        let state = files.state();
        if before.as_ref() != Some(&state) {
            print(session, &files)?;
        }
        if !is_watched || state.completed_at.is_some() {
            return Ok(Exit::Done);
        }
        before = Some(state);
        tokio::time::sleep(POLL).await;
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
            let number = match batch.parallel {
                true => format!("{} ║", batch.batch),
                false => batch.batch.to_string(),
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
                style::status(node.status().as_str()),
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
