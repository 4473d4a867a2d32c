//! `runwright runs diff`: the differences of two runs.

use kernel::ids::StreamId;
use serde_json::Value;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::{Form, Session};
use crate::target::{self, Intent, Purpose};
use crate::{style, talk, text};

/// Maximum differing events shown to people.
const SHOWN: usize = 20;
/// Characters of an event shown.
const WIDTH: usize = 160;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs diff 1f0c9a2b 77aa01c3
  runwright runs diff 1f0c9a2b last --json | jq .divergedAtSeq

Compares the events one by one: type, node and payload, not ids and times. Exits with 0 if they are
the same, 1 if not.")]
pub(crate) struct Args {
    /// A run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// The other run
    #[arg(value_name = "OTHER")]
    other: RunName,
}

/// Compares two runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let other = target.find(&args.other, Purpose::Use).await?;
    print(session, &target.diff(&run, &other).await?)
}

/// Shows a comparison in the protocol's form.
fn print(session: &Session, diff: &Value) -> Result<Exit, Failure> {
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => data.json(diff)?,
        Form::Text => lines(&mut data, diff)?,
    }
    data.done()?;
    if diff["truncated"] == Value::Bool(true) {
        talk::say("incomplete: there are more differences, or a run has not ended");
    }
    let is_same = diff["divergedAtSeq"].is_null() && diff["stateDiff"] == serde_json::json!({});
    Ok(if is_same { Exit::Done } else { Exit::Found })
}

fn lines(data: &mut Data, diff: &Value) -> Result<(), Failure> {
    let name = |side: &str| {
        let id = StreamId::new(diff[side].as_str().unwrap_or_default());
        short(&id).to_owned()
    };
    let (a, b) = (name("a"), name("b"));
    let Some(first) = diff["divergedAtSeq"].as_u64() else {
        data.line(format!("{a} and {b}: {}", style::good("the same events")))?;
        return state(data, &diff["stateDiff"]);
    };
    let what = style::bad(format!("different from event {first} on"));
    data.line(format!("{a} and {b}: {what}"))?;
    let diffs = diff["eventDiffs"].as_array().map_or(&[][..], Vec::as_slice);
    for diff in diffs.iter().take(SHOWN) {
        let seq = diff["seq"].as_u64().unwrap_or_default();
        for (side, sign) in [("aEvent", "-"), ("bEvent", "+")] {
            let Some(event) = diff.get(side) else {
                continue;
            };
            let line = format!("{sign} {seq:>5}  {}", shown(event));
            data.line(match side {
                "aEvent" => style::bad(line),
                _ => style::good(line),
            })?;
        }
    }
    if diffs.len() > SHOWN {
        let more = text::count(diffs.len() - SHOWN, "more difference");
        data.line(style::dim(format!("  and {more}; --json lists all")))?;
    }
    state(data, &diff["stateDiff"])
}

fn shown(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or_default();
    let node = event["nodeId"].as_str().unwrap_or_default();
    text::one_line(&format!("{kind} {node} {}", event["payload"]), WIDTH)
}

/// The final states of the runs, field by field.
fn state(data: &mut Data, diff: &Value) -> Result<(), Failure> {
    let fields = diff.as_object().into_iter().flatten();
    for (name, sides) in fields {
        let is_map = sides.get("a").or(sides.get("b")).is_none();
        let parts: Vec<(String, &Value)> = match (is_map, sides.as_object()) {
            (true, Some(map)) => map
                .iter()
                .map(|(key, sides)| (format!("{name}.{key}"), sides))
                .collect(),
            _ => vec![(name.clone(), sides)],
        };
        for (name, sides) in parts {
            let side = |side: &str| match sides.get(side) {
                Some(value) => text::one_line(&value.to_string(), WIDTH / 2),
                None => "nothing".to_owned(),
            };
            let name = style::strong(text::one_line(&name, 60));
            data.line(format!("{name}: {} -> {}", side("a"), side("b")))?;
        }
    }
    Ok(())
}
