//! `runwright snapshot replay`: an execution once more, from its recording or for real.

use serde_json::{Value, json};

use super::again::{Again, Replayed};
use super::kind::{Kind, NotReplayed, Typed};
use super::list::matched;
use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};
use faces::provenance::calls::Attempt;
use faces::provenance::ladder::Strategy;
use kernel::time::Timestamp;
use provenance::Strictness;

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The kinds say what answers: verify takes models and tools from the recording, env runs \
the tools, model asks the models, rerun does both for real. The command works in a copy of the folder as \
it was before the recording. A replay of a run is a fork of it that decides everything again (verify).

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

    /// What passes [default: exact for verify and in strict mode, else structural or semantic by
    /// the response]
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    strategy: Option<Strategy>,

    #[command(flatten)]
    rooted: Rooted,
}

fn strategy(typed: &str) -> Result<Strategy, &'static str> {
    serde_json::from_value(typed.into()).map_err(|_| "write exact, semantic or structural")
}

/// Replays.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let kept = find(&folder, &args.snapshot)?;
    let verified = folder.verify(&kept, Strictness::Lenient).map_err(failed)?;
    if !verified.is_valid {
        talk::say("the snapshot is not what was written; `runwright snapshot verify` says why");
        return Ok(Exit::Damaged);
    }
    let kind = args.again.kind;
    let again = Again::new(
        args.again,
        kept.clone(),
        folder.clone(),
        args.rooted.root(session),
    )?;
    let replayed = match again.once(args.strategy, session).await? {
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
                divergence: None,
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
        scores: None,
        divergence: replayed
            .divergence
            .as_ref()
            .map(|divergence| json!(divergence)),
        snapshot_id: None,
        other: serde_json::Map::new(),
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

fn say_not_replayed(
    id: &str,
    kind: Kind,
    not: &NotReplayed,
    session: &Session,
) -> Result<Exit, Failure> {
    if session.form == Form::Json {
        let mut data = Data::new();
        data.json(&json!({
            "snapshot_id": id, "kind": kind.as_str(), "match_status": Value::Null, "pass": false,
            "first_divergence": Value::Null,
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
    if let Some(divergence) = &replayed.divergence {
        data.line(format!(
            "{} {}",
            style::warn("first divergence:"),
            text::one_line(&divergence.message, 400)
        ))?;
        for (name, side) in [
            ("recorded", &divergence.expected),
            ("replayed", &divergence.actual),
        ] {
            if let Some(side) = side {
                let input = text::one_line(&side.input.to_string(), 600);
                data.line(format!(
                    "  {name}  {} {}  {input}",
                    side.kind,
                    text::one_line(&side.name, 80)
                ))?;
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
