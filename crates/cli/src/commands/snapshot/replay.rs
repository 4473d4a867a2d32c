//! `runwright snapshot replay`: an execution once more, from its recording or for real.

use serde_json::{Value, json};

use super::again::{Again, Replayed};
use super::how::{How, Judge, scores};
use super::kind::{Kind, NotReplayed, Typed};
use super::list::matched;
use super::{Rooted, failed, find_whole};
use crate::commands::PortArgs;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};
use faces::provenance::calls::Attempt;
use kernel::time::Timestamp;

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The kinds say what answers: verify takes models and tools from the recording, env runs \
the tools, model asks the models, rerun does both for real. The command works in a copy of the folder as \
it was before the recording. A replay of a run is a fork of it: verify decides its log again, the others
are branches from its beginning, in which nodes are answered from the log or do their work. What is
served must come to the same bytes: verify asks for the strategy exact unless another one is typed.

  runwright snapshot replay latest
  runwright snapshot replay latest --kind rerun --json
  runwright snapshot replay 0199 -- ./agent.py --new-code

Exits with 0 if it passes, 1 if not, 2 for wrong usage, 3 if it left the recording or cannot be compared, \
4 if the snapshot is not what was written."
)]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    #[command(flatten)]
    again: Typed,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    ports: PortArgs,

    #[command(flatten)]
    rooted: Rooted,
}

/// Replays.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let kept = find_whole(&folder, &args.snapshot)?;
    let (folder, root) = args.rooted.of(&kept, session);
    let again = Again::new(args.again, kept.clone(), folder.clone(), &root)?;
    let again = again.with_ports(args.ports);
    let kind = again.kind();
    let mode = kept.document.snapshot.config.execution_mode;
    let judge = Judge::of_replays(args.how, mode)?;
    let replayed = match again.once(&judge, session).await? {
        Ok(replayed) => replayed,
        Err(not) => {
            let attempt = Attempt {
                attempt: 0,
                at: now().to_string(),
                kind: kind.as_str().to_owned(),
                strategy: None,
                status: None,
                pass: false,
                scores: None,
                divergence: not.divergence().map(|found| json!(found)),
                snapshot_id: None,
                other: serde_json::Map::from_iter([("error".to_owned(), json!(not.code()))]),
            };
            folder.record_replay(&kept.path, attempt).map_err(failed)?;
            return say_not_replayed(&kept.document.snapshot.snapshot_id, kind, &not, session);
        }
    };
    let attempt = Attempt {
        attempt: 0,
        at: now().to_string(),
        kind: kind.as_str().to_owned(),
        strategy: Some(replayed.strategy.as_str().to_owned()),
        status: replayed.status,
        pass: replayed.pass,
        scores: Some(scores(&replayed.judgement)),
        divergence: replayed
            .divergence
            .as_ref()
            .map(|divergence| json!(divergence)),
        snapshot_id: None,
        // What was done in the same steps is no divergence: it tells why the status is none better.
        other: replayed
            .difference()
            .filter(|_| replayed.divergence.is_none())
            .map(|found| ("difference".to_owned(), found))
            .into_iter()
            .collect(),
    };
    let status = folder.record_replay(&kept.path, attempt).map_err(failed)?;
    let mut report = replayed.report();
    report["snapshot_id"] = json!(kept.document.snapshot.snapshot_id);
    report["kind"] = json!(kind.as_str());
    report["replay_status"] = json!(status);
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&report)?,
        Form::Text => tell(&mut data, &replayed, kind)?,
    }
    data.done()?;
    Ok(replayed.exit())
}

pub(super) fn say_not_replayed(
    id: &str,
    kind: Kind,
    not: &NotReplayed,
    session: &Session,
) -> Result<Exit, Failure> {
    if session.form == Form::Json {
        let mut data = Data::new();
        data.json(&json!({
            "snapshot_id": id, "kind": kind.as_str(), "match_status": Value::Null, "pass": false,
            "first_divergence": not.divergence(),
            "error": { "code": not.code(), "message": not.to_string() },
        }))?;
        data.done()?;
    }
    talk::say(format!("{} {not}", style::bad(not.code())));
    Ok(match not {
        NotReplayed::Cancelled => Exit::Interrupted,
        _ => Exit::Incomparable,
    })
}

/// What it came to, for people.
fn tell(data: &mut Data, replayed: &Replayed, kind: Kind) -> Result<(), Failure> {
    let verdict = match replayed.pass {
        true => style::good("pass"),
        false => style::bad("fail"),
    };
    let word = replayed.status.map(matched).unwrap_or_default();
    let strategy = replayed.strategy.as_str();
    data.line(format!("{word}  {} {verdict} ({strategy})", kind.as_str()))?;
    if let Some(found) = &replayed.first_divergence() {
        let message = found["message"].as_str().unwrap_or_default();
        data.line(format!(
            "{} {}",
            style::warn("first divergence:"),
            text::one_line(message, 400)
        ))?;
        for (name, side) in [("recorded", "expected"), ("replayed", "actual")] {
            let side = &found[side];
            if let Some(kind) = side["kind"].as_str() {
                let input = text::one_line(&side["input"].to_string(), 600);
                let named = text::one_line(side["name"].as_str().unwrap_or_default(), 80);
                data.line(format!("  {name}  {kind} {named}  {input}"))?;
            }
        }
    }
    for (field, level) in replayed.levels() {
        data.line(format!("  {field:<25} {level}"))?;
    }
    Ok(())
}

/// The time now.
pub(super) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
