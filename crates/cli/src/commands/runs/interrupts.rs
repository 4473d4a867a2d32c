//! `runwright runs interrupts`.

use faces::openwop::v1;
use kernel::time::Timestamp;
use serde_json::Value;
use store::{StoreClock, SystemClock};

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::{Form, Session};
use crate::target::{self, Intent, Purpose};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs interrupts
  runwright runs interrupts last --json

`runwright runs resolve RUN NODE` answers.")]
pub(crate) struct Args {
    /// Only questions of this run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: Option<RunName>,
}

/// Lists the questions of runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let run = match &args.run {
        Some(name) => Some(target.find(name, Purpose::Use).await?),
        None => None,
    };
    let open = target.questions(run.as_ref()).await?;
    let mut data = Data::new();
    if session.form == Form::Json {
        open.iter()
            .try_for_each(|question| data.json_line(question))?;
        data.done()?;
        return Ok(Exit::Done);
    }
    if open.is_empty() {
        talk::say("no run waits for an answer");
        return Ok(Exit::Done);
    }
    let now = SystemClock.now();
    let mut table = Table::new(["RUN", "NODE", "KIND", "ASKED", "EXPIRES", "QUESTION"]);
    for question in &open {
        let word = |name: &str| question[name].as_str().unwrap_or_default();
        let time = |name: &str| Timestamp::parse(word(name));
        let data = &question["payload"]["data"];
        let kind = match v1::queue_of_question(data) {
            Some(_) => "worker",
            None => word("kind"),
        };
        let expires = time("expiresAt").map(|at| format!("in {}", text::ms(at.ms_since(now))));
        table.row([
            style::strong(short(&word("runId").into())),
            text::one_line(word("nodeId"), 40),
            text::one_line(kind, 30),
            time("requestedAt").map_or_else(String::new, |at| text::ago(at, now)),
            expires.unwrap_or_default(),
            text::one_line(&asked(data), 80),
        ]);
    }
    table.lines().try_for_each(|line| data.line(line))?;
    data.done()?;
    Ok(Exit::Done)
}

/// The question, in a line.
fn asked(data: &Value) -> String {
    if let Some(queue) = v1::queue_of_question(data) {
        return format!("waits for a worker of the queue {queue}");
    }
    if let Some(failure) = v1::failure_of_question(data)
        && let Some(error) = failure["error"]["message"].as_str()
    {
        return format!("failed: {error}; retry, skip or abort?");
    }
    if let Some(title) = data["title"].as_str() {
        let actions = data["actions"].as_array().into_iter().flatten();
        let actions: Vec<&str> = actions.filter_map(Value::as_str).collect();
        return format!("{title} ({})", actions.join(", "));
    }
    if let Some(questions) = data["questions"].as_array() {
        let texts = questions.iter().filter_map(|of| of["question"].as_str());
        return texts.collect::<Vec<_>>().join(" ");
    }
    match data.as_object() {
        Some(fields) if !fields.is_empty() => data.to_string(),
        _ => String::new(),
    }
}
