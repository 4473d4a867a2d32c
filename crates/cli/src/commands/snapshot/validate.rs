//! `runwright snapshot validate`: how often repeated executions agree.

use faces::provenance::document::Snapshot;
use serde_json::json;

use super::again::Again;
use super::how::{How, Judge};
use super::kind::{Kind, ReplayError, Typed};
use super::replay::say_not_replayed;
use super::{Rooted, find_whole};
use crate::args::PortArgs;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Each run is a replay in which everything is real; it is compared with the snapshot. With few runs, a
rate below 1 means that at least one differed: five runs cannot reach 0.95 otherwise.

  runwright snapshot validate latest --runs 5

Exits with 0 if the rate is reached, 1 if not, 3 if nothing could be compared, 130 if a signal ended
it."
)]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    /// The number of executions to compare, including the snapshot
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    runs: u32,

    /// The share of them that must match, from 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.95)]
    match_rate: f64,

    /// Run the command of a snapshot that you did not capture, without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    ports: PortArgs,

    #[command(flatten)]
    rooted: Rooted,

    /// Another command in place of the recorded one
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

/// Validates.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    if !(0.0..=1.0).contains(&args.match_rate) {
        return Err(Failure::new("--match-rate is from 0 to 1"));
    }
    let folder = args.rooted.folder(session)?;
    let kept = find_whole(&folder, &args.snapshot)?;
    let baseline = kept.document.snapshot.clone();
    let typed = Typed::rerun(args.argv, args.yes);
    let (folder, root) = args.rooted.of(&kept, session);
    let again = Again::new(typed, kept, folder, &root)?;
    let again = again.with_ports(args.ports);
    let judge = Judge::of_replays(args.how, baseline.config.execution_mode)?;
    let (mut reports, mut passed, mut others) = (Vec::new(), 0, Vec::new());
    for number in 1..args.runs {
        let replayed = match again.once(&judge, session).await {
            Ok(replayed) => replayed,
            Err(ReplayError::NotReplayed(why)) => {
                return say_not_replayed(&baseline.snapshot_id, Kind::Rerun, &why, session);
            }
            Err(ReplayError::Failed(failure)) => return Err(failure),
        };
        passed += u32::from(replayed.pass);
        if session.form == Form::Text {
            let word = replayed
                .status
                .map(super::list::matched)
                .unwrap_or_default();
            talk::say(format!("run {} of {}: {word}", number + 1, args.runs));
        }
        reports.push(replayed.report());
        others.push(replayed.snapshot);
    }
    let rate = f64::from(passed) / f64::from(args.runs - 1);
    let sources = variance(&baseline, &others);
    let verdict = match (rate >= args.match_rate, sources.is_empty()) {
        (false, _) => "FAIL",
        (true, false) => "WARNING",
        (true, true) => "PASS",
    };
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => data.json(&json!({
            "snapshot_id": baseline.snapshot_id, "workflow": baseline.workflow_id, "runs": args.runs,
            "match_rate": rate, "threshold": args.match_rate, "verdict": verdict,
            "pass": verdict != "FAIL", "sources_of_variance": sources, "comparisons": reports,
        }))?,
        Form::Text => {
            let shown = match verdict {
                "PASS" => style::good(verdict),
                "WARNING" => style::warn(verdict),
                _ => style::bad(verdict),
            };
            let compared = text::count(reports.len(), "comparison");
            data.line(format!("{shown}  {passed} of {compared} the same (at least {} needed)", args.match_rate))?;
            for source in &sources {
                data.line(format!("  may vary: {source}"))?;
            }
        }
    }
    data.done()?;
    Ok(match verdict {
        "FAIL" => Exit::Found,
        _ => Exit::Done,
    })
}

/// Sources of different results between executions.
fn variance(baseline: &Snapshot, others: &[Snapshot]) -> Vec<String> {
    let mut sources = Vec::new();
    let config = &baseline.config;
    let asks = baseline
        .metrics
        .as_ref()
        .and_then(|metrics| metrics.iterations)
        .unwrap_or(0)
        > 0;
    if asks {
        match config.temperature {
            Some(temperature) if temperature > 0.0 => {
                sources.push(format!("temperature {temperature}"))
            }
            None => sources.push("no temperature is sent".to_owned()),
            Some(_) => {}
        }
        if config.seed.is_none() {
            sources.push("no seed is sent".to_owned());
        }
    }
    if others
        .iter()
        .any(|other| other.config.model != config.model)
    {
        sources.push("another model answered".to_owned());
    }
    let mut tools = baseline.outputs.tool_calls.iter().flatten();
    if tools.any(|call| {
        !matches!(
            call.other
                .get("effect_class")
                .and_then(|class| class.as_str()),
            Some("read" | "write_local")
        )
    }) {
        sources.push("tools have outside effects, or do not declare their effects".to_owned());
    }
    sources
}
