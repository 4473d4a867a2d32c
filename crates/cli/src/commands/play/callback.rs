//! The outcome of work that a node had handed to an external agent.

use std::path::PathBuf;

use kernel::ids::StreamId;
use kernel::problem::{closest, quoted};
use kernel::run::{Command, Envelope, Rejection};
use runtime::DoorError;
use runtime::nodes::play_result::ProcessResult;
use serde_json::{Value, json};

use super::files;
use super::session_status::SessionStatus;
use super::sessions::{self, Kind, Known};
use crate::args::PortArgs;
use crate::compose;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Maximum bytes of an output for later nodes.
const MAX_OUTPUT: usize = 256 << 10;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  runwright play callback WFR-build-20260317-143022 --task gem-143514-x7k2 --output answer.md

The task is the WF_TASK_ID of the process; `--status SESSION --json` shows the awaited tasks. A
callback that arrives early is kept until its node waits for it.")]
pub(super) struct Args {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,

    /// The task that ended
    #[arg(long, value_name = "ID")]
    task: String,

    /// The exit code of the work; 0 is success
    #[arg(long, value_name = "CODE", default_value_t = 0)]
    exit: i32,

    /// The result: a text, or a JSON object with session_id, output_path, artifacts, output, cost
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Sends the outcome to a session.
pub(super) async fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    let may = |_: &Known| false;
    let known = sessions::find(session, door.as_ref(), Some(&args.session), may, "tell").await?;
    let Some(door) = door.filter(|_| known.kind == Kind::Open) else {
        return Err(Failure::new(format!(
            "session {} does not wait for a callback",
            known.id
        )));
    };
    let engine = compose::engine(session, &door, &PortArgs::default())?;
    let (run, project) = (StreamId::new(&known.id), &session.place.project);
    let files = files::bring_up_to_date(engine.door(), project, &run).await?;
    let tasks = files
        .as_ref()
        .map(|files| files.projection().tasks())
        .unwrap_or_default();
    if !tasks.contains(&args.task) {
        let failure = Failure::new(format!("session {run} has no task {}", quoted(&args.task)));
        return Err(
            match closest(&args.task, tasks.iter().map(String::as_str)) {
                Some(meant) => failure.hint(format!("did you mean {meant}?")),
                None if tasks.is_empty() => failure.hint("none of its nodes has started a task"),
                None => failure.hint(format!("there are {}", tasks.join(", "))),
            },
        );
    }
    let signal = Command::Signal {
        name: args.task.clone(),
        id: "callback".into(),
        payload: payload(args, session)?,
    };
    match engine.command(&run, Envelope::from(signal)).await {
        Ok(()) => {}
        Err(DoorError::Rejected(Rejection::Duplicate)) => {
            return Err(Failure::new(format!(
                "task {} had ended before",
                quoted(&args.task)
            )));
        }
        Err(error) => return Err(error.into()),
    }
    let files = files::bring_up_to_date(engine.door(), project, &run).await?;
    let standing = match &files {
        Some(files) => SessionStatus::load(engine.door(), files).await?,
        None => SessionStatus::Left,
    };
    talk::say(match standing {
        SessionStatus::Driven(who) | SessionStatus::Attended(who) => {
            format!("session {run} has the result; {who} continues it")
        }
        SessionStatus::Ended => format!("session {run} has the result; the session has ended"),
        _ => format!("session {run} has the result; `runwright play --resume {run}` continues it"),
    });
    Ok(Exit::Done)
}

fn payload(args: &Args, session: &Session) -> Result<Value, Failure> {
    let bytes = match &args.output {
        Some(path) => Source::File(path.clone()).read()?,
        None => Vec::new(),
    };
    if args.exit != 0 {
        let text = String::from_utf8_lossy(&bytes);
        let said = text.trim().lines().next_back().unwrap_or_default();
        let said: String = said.chars().take(500).collect();
        let message = format!("the task ended with code {}: {said}", args.exit);
        let message = message.trim_end_matches([' ', ':']);
        return Ok(json!({ "error": { "code": "task_failed", "message": message } }));
    }
    let is_object = bytes.trim_ascii().starts_with(b"{")
        && serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object());
    let text = String::from_utf8_lossy(&bytes);
    let is_cut = text.len() > MAX_OUTPUT;
    let end = text.floor_char_boundary(MAX_OUTPUT);
    let file = is_object.then_some(bytes.as_slice());
    let said = ProcessResult::read(file, &text[..end], &session.place.project)
        .map_err(|error| Failure::new(error.message))?;
    if let Some(error) = said.failure() {
        return Ok(json!({ "error": { "code": error.code, "message": error.message } }));
    }
    let own = args.output.as_ref().filter(|_| !is_object);
    let own = own.map(|path| path.display().to_string());
    let completion = said.completion(text[..end].to_owned(), is_cut, own);
    let mut outputs = completion.outputs;
    outputs.insert("exit_code".into(), json!(0));
    Ok(json!({ "outputs": outputs }))
}
