//! `runwright runs signal`.

use kernel::json::{self, Limits};
use kernel::run::{Command, Run};
use serde_json::Value;

use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::target::{Purpose, StoreTarget, Target as _};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs signal last approve '{\"approved\": true}'
  runwright runs signal 1f0c9a2b deploy-finished - < result.json
  runwright runs signal 1f0c9a2b payment '{\"amount\": 5}' --id payment-77

A signal is kept until a node waits for it. `runwright runs show` shows what a run waits for.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// The name the run waits for, or will wait for
    name: String,

    /// Its value as JSON; - reads it from standard input
    #[arg(value_name = "JSON", default_value = "null")]
    payload: String,

    /// Its id: the same name and id count once [default: a new one]
    #[arg(long)]
    id: Option<String>,
}

/// Sends a signal.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let payload = payload(&args.payload)?;
    let target = StoreTarget::new(session, session.write()?);
    let run = target.find(&args.run, Purpose::Use).await?;
    let id = args.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let command = Command::Signal {
        name: args.name.clone(),
        id,
        payload,
    };
    let name = text::one_line(&args.name, 80);
    let state = target.tell(&run, command).await?;
    talk::say(format!("run {} has the signal {name}", short(&run)));
    say_what_is_waited_for(&state, &args.name);
    target.say_who_acts(&run).await?;
    Ok(Exit::Done)
}

/// Warns about a signal that the run does not wait for, with the awaited names.
fn say_what_is_waited_for(run: &Run, sent: &str) {
    let Some(facts) = run.facts() else {
        return;
    };
    let is_kept = facts.inbox.waiting.contains_key(sent);
    let names: Vec<String> = facts
        .interrupts
        .iter()
        .map(|open| text::one_line(&open.key, 80))
        .collect();
    if is_kept && !names.is_empty() {
        talk::say(format!(
            "{} the run does not wait for {}, but for {}; the signal is kept until a node waits \
             for it",
            style::warn("note:"),
            text::one_line(sent, 80),
            names.join(", ")
        ));
    }
}

fn payload(typed: &str) -> Result<Value, Failure> {
    let bytes = match typed {
        "-" => Source::Stdin.read()?,
        text => text.as_bytes().to_vec(),
    };
    json::parse(&bytes, Limits::DEFINITION)
        .map_err(|problems| Failure::Problems {
            document: "the value of the signal".into(),
            problems,
        })
        .map_err(|failure| match failure {
            Failure::Problems { .. } if typed.starts_with(|c: char| c.is_alphabetic()) => {
                Failure::new("the value of a signal is JSON; a text needs double quotes")
                    .hint(format!("'\"{}\"'", text::one_line(typed, 40)))
            }
            failure => failure,
        })
}
