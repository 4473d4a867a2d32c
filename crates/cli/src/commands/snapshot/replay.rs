//! `runwright snapshot replay`: repeats an execution, from its recording or live.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provenance::{Folder, Kept};
use serde_json::{Value, json};

use super::again::{Again, Replayed};
use super::how::{How, Judge, scores};
use super::junit::{self, Case, End};
use super::kind::{Kind, NotReplayed, ReplayError, Typed};
use super::list::matched;
use super::{Rooted, failed, find_whole, key};
use crate::args::PortArgs;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};
use faces::provenance::calls::Attempt;
use kernel::time::Timestamp;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The kind decides what answers: verify takes models and tools from the recording, env runs the
tools, model calls the models, rerun does both. The command works in a copy of the folder as it
was before the recording. A replay of a run is a fork of it: verify repeats the decisions of its
log, the other kinds are branches from its start whose nodes take results from the log or run
again. verify compares with the strategy exact unless another one is given.

  runwright snapshot replay latest
  runwright snapshot replay latest --kind rerun --json
  runwright snapshot replay --all --junit report.xml
  runwright snapshot replay 0199 -- ./agent.py --new-code

Exits with 0 if it passes, 1 if not, 2 for wrong usage, 3 if it left the recording or cannot be
compared, 4 if the snapshot was changed after it was written."
)]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT", required_unless_present = "all")]
    snapshot: Option<String>,

    /// Replay every snapshot, one after the other, even after a failure
    #[arg(long, conflicts_with_all = ["snapshot", "in_place", "argv"])]
    all: bool,

    /// Write a JUnit report for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

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
    let folder = args.rooted.folder(session)?;
    if args.all {
        return all(&args, &folder, session).await;
    }
    let typed = args.snapshot.as_deref().unwrap_or_default();
    let one = one(&args, find_whole(&folder, typed)?, session).await?;
    if let Some(path) = &args.junit {
        write_report(path, &[one.case()])?;
    }
    let kind = one.kind;
    let (replayed, report) = match &one.end {
        Ok(replayed) => replayed,
        Err(not) => return say_not_replayed(&one.id, kind, not, session),
    };
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => data.json(report)?,
        Form::Text => {
            tell(&mut data, replayed, kind)?;
            if one.calls == 0 {
                data.line("  no recorded calls: only the outcome was compared with the recording")?;
            }
        }
    }
    data.done()?;
    Ok(replayed.exit())
}

/// A replay that was recorded.
struct One {
    id: String,
    workflow: String,
    kind: Kind,
    /// The number of recorded calls.
    calls: usize,
    took: Duration,
    /// Its result, and its report.
    end: Result<(Replayed, Value), NotReplayed>,
}

impl One {
    fn case(&self) -> Case {
        let end = match &self.end {
            Ok((replayed, _)) if replayed.pass => End::Passed,
            Ok((replayed, _)) => {
                let found = replayed.first_divergence().unwrap_or_default();
                let word = replayed
                    .status
                    .map_or("no status", |status| status.as_str());
                let message = found["message"].as_str().unwrap_or_default();
                End::Failed(format!("{word}: {message}"))
            }
            Err(not) => End::Error(format!("{}: {not}", not.code())),
        };
        Case {
            workflow: self.workflow.clone(),
            id: self.id.clone(),
            took: self.took,
            end,
        }
    }
}

/// Replays one snapshot and records the outcome.
async fn one(args: &Args, kept: Kept, session: &Session) -> Result<One, Failure> {
    let (folder, root) = args.rooted.of(&kept, session);
    let again = Again::new(args.again.clone(), kept.clone(), folder.clone(), &root)?;
    let again = again.with_ports(args.ports.clone());
    let kind = again.kind();
    let snapshot = &kept.document.snapshot;
    let judge = Judge::of_replays(args.how.clone(), snapshot.config.execution_mode)?;
    let began = Instant::now();
    let end = match again.once(&judge, session).await {
        Ok(replayed) => Ok(replayed),
        Err(ReplayError::NotReplayed(why)) => Err(why),
        Err(ReplayError::Failed(failure)) => return Err(failure),
    };
    let took = began.elapsed();
    let mut other = serde_json::Map::new();
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    other.insert("duration_ms".to_owned(), json!(millis));
    let attempt = match &end {
        Err(not) => {
            other.insert("error".to_owned(), json!(not.code()));
            Attempt {
                attempt: 0,
                at: now().to_string(),
                kind: kind.as_str().to_owned(),
                strategy: None,
                status: None,
                pass: false,
                scores: None,
                divergence: not.divergence().map(|found| json!(found)),
                snapshot_id: None,
                other,
            }
        }
        Ok(replayed) => {
            // A difference after the same steps is not a divergence: it explains why the status is
            // not better.
            let difference = replayed.difference();
            if let Some(found) = difference.filter(|_| replayed.divergence.is_none()) {
                other.insert("difference".to_owned(), found);
            }
            let divergence = replayed.divergence.as_ref();
            Attempt {
                attempt: 0,
                at: now().to_string(),
                kind: kind.as_str().to_owned(),
                strategy: Some(replayed.strategy.as_str().to_owned()),
                status: replayed.status,
                pass: replayed.pass,
                scores: Some(scores(&replayed.judgement)),
                divergence: divergence.map(|divergence| json!(divergence)),
                snapshot_id: None,
                other,
            }
        }
    };
    let key = key::for_replay();
    let status = folder.record_replay(&kept.path, attempt, key.as_ref());
    let status = status.map_err(failed)?;
    let end = end.map(|replayed| {
        let mut report = replayed.report();
        report["snapshot_id"] = json!(snapshot.snapshot_id);
        report["kind"] = json!(kind.as_str());
        report["replay_status"] = json!(status);
        (replayed, report)
    });
    Ok(One {
        id: snapshot.snapshot_id.clone(),
        workflow: snapshot.workflow_id.clone(),
        kind,
        calls: folder.calls(&kept.path).map_err(failed)?.len(),
        took,
        end,
    })
}

/// Replays every snapshot, the oldest first.
async fn all(args: &Args, folder: &Folder, session: &Session) -> Result<Exit, Failure> {
    let listing = folder.list().map_err(failed)?;
    let at = folder.snapshots();
    if listing.entries.is_empty() && listing.broken.is_empty() {
        return Err(Failure::new(format!("no snapshots in {}", at.display())));
    }
    let (mut cases, mut reports, mut data) = (Vec::new(), Vec::new(), Data::for_verdict());
    let broken = listing
        .broken
        .iter()
        .filter(|broken| !broken.is_unfinished());
    for broken in broken {
        cases.push(Case {
            workflow: "unknown".to_owned(),
            id: broken.file.clone(),
            took: Duration::ZERO,
            end: End::Error(broken.why.clone()),
        });
    }
    let mut is_stopped = false;
    for entry in listing.entries.iter().rev() {
        let path = at.join(&entry.file);
        let replayed = match find_whole(folder, &path.display().to_string()) {
            Ok(kept) => one(args, kept, session).await,
            Err(failure) => Err(failure),
        };
        let (case, report) = match &replayed {
            Ok(one) => {
                is_stopped = matches!(one.end, Err(NotReplayed::Cancelled));
                let report = match &one.end {
                    Ok((_, report)) => report.clone(),
                    Err(not) => json!({
                        "snapshot_id": one.id, "pass": false,
                        "error": { "code": not.code(), "message": not.to_string() },
                    }),
                };
                (one.case(), report)
            }
            Err(failure) => {
                let message = said_by(failure);
                let report = json!({
                    "snapshot_id": entry.snapshot_id, "pass": false,
                    "error": { "code": "failed", "message": message },
                });
                let case = Case {
                    workflow: entry.workflow_id.clone(),
                    id: entry.snapshot_id.clone(),
                    took: Duration::ZERO,
                    end: End::Error(message),
                };
                (case, report)
            }
        };
        if session.form == Form::Text {
            let (word, why) = match &case.end {
                End::Passed => (style::good("pass"), String::new()),
                End::Failed(why) => (style::bad("fail"), text::one_line(why, 400)),
                End::Error(why) => (style::bad("error"), text::one_line(why, 400)),
            };
            let (id, workflow) = (
                text::one_line(&case.id, 64),
                text::one_line(&case.workflow, 64),
            );
            data.line(format!("{word}  {id}  {workflow}  {why}"))?;
            data.flush()?;
        }
        cases.push(case);
        reports.push(report);
        if is_stopped {
            break;
        }
    }
    if let Some(path) = &args.junit {
        write_report(path, &cases)?;
    }
    let passed = cases.iter().filter(|case| matches!(case.end, End::Passed));
    let (passed, count) = (passed.count(), cases.len());
    match session.form {
        Form::Json => data.json(&json!({
            "pass": passed == count, "passed": passed, "count": count, "replays": reports,
        }))?,
        Form::Text => data.line(format!(
            "{passed} of {} passed",
            text::count(count, "replay")
        ))?,
    }
    data.done()?;
    Ok(match (is_stopped, passed == count) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::Found,
    })
}

/// The message of a failure.
fn said_by(failure: &Failure) -> String {
    match failure {
        Failure::Said { what, .. } | Failure::Damaged { what } => what.clone(),
        _ => "it could not be replayed".to_owned(),
    }
}

fn write_report(path: &Path, cases: &[Case]) -> Result<(), Failure> {
    let written = std::fs::write(path, junit::report(cases));
    written.map_err(|error| Failure::file(path, &error))
}

pub(super) fn say_not_replayed(
    id: &str,
    kind: Kind,
    not: &NotReplayed,
    session: &Session,
) -> Result<Exit, Failure> {
    if session.form == Form::Json {
        let mut data = Data::for_verdict();
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

/// Prints the result for people.
fn tell(data: &mut Data, replayed: &Replayed, kind: Kind) -> Result<(), Failure> {
    let verdict = if replayed.pass {
        style::good("pass")
    } else {
        style::bad("fail")
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
        if let Some(why) = unreached(&found["actual"]["input"]) {
            data.line(format!(
                "  {} {}; start the model's server, or name another by its base URL",
                style::bad("no model was reached:"),
                text::one_line(&why, 300)
            ))?;
        }
    }
    for (field, level) in replayed.levels() {
        data.line(format!("  {field:<25} {level}"))?;
    }
    Ok(())
}

/// Why a model's server was not reached, with its address.
fn unreached(output: &Value) -> Option<String> {
    (output["unreached"] == true).then_some(())?;
    let body: Value = serde_json::from_str(output["body"].as_str()?).ok()?;
    body["error"]["message"].as_str().map(str::to_owned)
}

/// The time now.
pub(super) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
