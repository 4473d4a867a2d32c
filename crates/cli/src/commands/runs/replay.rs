//! `runwright runs replay`: decides a log again and compares the events.

use kernel::replay::{Divergence, ReplayError};
use kernel::run::Event;
use runtime::door::NotReplayed;
use serde_json::json;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Characters of an event shown.
const SHOWN: usize = 400;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs replay last
  runwright runs replay 1f0c9a2b --json | jq .divergence

Every batch of the log is decided again from the state before it and the recorded outcomes, answers
and times. The result must be the same, byte for byte. Nothing runs and nothing is written.

Exits with 0 if the result is the same, with 1 if it differs; the first difference is shown.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,
}

/// Decides a run again.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let id = lookup::find(&door, &args.run).await?;
    let verified = door.replay(&id).await;
    let divergence = match &verified {
        Ok(_) => None,
        Err(NotReplayed::Replay(ReplayError::Diverged(divergence))) => Some(divergence),
        Err(NotReplayed::Store(error)) => return Err(error.clone().into()),
        Err(NotReplayed::Replay(damaged)) => {
            let failure = Failure::new(format!("run {}: {damaged}", short(&id)));
            return Err(failure.hint("`runwright verify` lists every fault"));
        }
    };
    let events = verified.as_ref().ok().map(|run| run.head.next_seq);
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => data.json(&json!({
            "runId": id,
            "events": events,
            "divergence": divergence.map(|divergence| json!({
                "sequence": divergence.seq,
                "kind": divergence.kind,
                "recorded": divergence.expected,
                "decided": divergence.actual,
                "refused": divergence.refused,
            })),
        }))?,
        Form::Text => {
            if let Some(events) = events {
                let verdict = style::good("no difference");
                data.line(format!("run {}: {events} events, {verdict}", short(&id)))?;
            }
        }
    }
    data.done()?;
    let Some(divergence) = divergence else {
        return Ok(Exit::Done);
    };
    say(divergence);
    Ok(Exit::Found)
}

/// Reports a difference between a log and its replay.
pub(super) fn say(divergence: &Divergence) {
    talk::say(format!(
        "{} at event {}",
        style::bad("decided differently"),
        divergence.seq
    ));
    let shown = |event: &Option<Event>| match event {
        Some(event) => text::one_line(&json!(event).to_string(), SHOWN),
        None => "nothing".to_owned(),
    };
    talk::say(format!("  recorded: {}", shown(&divergence.expected)));
    match divergence.refused {
        Some(code) => talk::say(format!("  now:      refused [{code}]")),
        None => talk::say(format!("  now:      {}", shown(&divergence.actual))),
    }
}
