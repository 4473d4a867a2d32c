//! `runwright snapshot show`.

use faces::provenance::document::Snapshot;
use faces::provenance::seal::State;
use provenance::{Strictness, Verified};

use super::command::not_honoured;
use super::list::matched;
use super::{Rooted, failed, find, unredacted};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Maximum characters shown of a text.
const SHOWN: usize = 2_000;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "  runwright snapshot show latest
  runwright snapshot show 01a203d4-3b14 --json

Verifies the snapshot. Exits with 4 if it is unsealed or tampered. With --json its member `state`
has the result; `runwright snapshot export` writes a file for others.")]
pub(crate) struct Args {
    /// The snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,

    #[command(flatten)]
    rooted: Rooted,
}

/// Shows a snapshot: with `--json`, its document and, as `state`, the result of its verification.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let kept = find(&folder, &args.snapshot)?;
    for odd in &kept.document.warnings {
        let path = text::one_line(&odd.path, 120);
        talk::say(format!("{} {path}: {}", style::warn("odd:"), odd.message));
    }
    unredacted::warn(&kept.document.snapshot);
    let lies_in = folder.clone().holding_or_self(&kept.path);
    let verified = lies_in.verify(&kept, Strictness::Lenient);
    let verified = verified.map_err(failed)?;
    warn(&verified);
    if let Some(why) = kept.document.snapshot.unverified() {
        let why = text::one_line(&why, 600);
        talk::say(format!("{} {why}", style::warn("UNVERIFIED:")));
    }
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            let mut document = kept.document.raw.clone();
            document["state"] = verified.state.as_str().into();
            data.json(&document)?;
        }
        Form::Text => {
            let snapshot = &kept.document.snapshot;
            for (name, value) in facts(snapshot, verified.state) {
                data.line(format!("{}{value}", style::dim(format!("{name:<13}"))))?;
            }
            if let Some(line) = not_honoured(snapshot) {
                data.line(format!("{}{line}", style::dim(format!("{:<13}", "note"))))?;
            }
            // A damaged file counts as empty; the warning names it.
            let attempts = folder.attempts(&kept.path).map_or(0, |all| all.len());
            let calls = folder.calls(&kept.path).map_or(0, |all| all.len());
            let lines = [
                ("recorded", calls, "call"),
                ("attempts", attempts, "replay"),
            ];
            for (name, count, noun) in lines.into_iter().filter(|(_, count, _)| *count > 0) {
                let count = text::count(count, noun);
                data.line(format!("{}{count}", style::dim(format!("{name:<13}"))))?;
            }
            if folder.is_pinned(&kept.path) {
                data.line(format!("{}yes", style::dim(format!("{:<13}", "pinned"))))?;
            }
            for artifact in snapshot.outputs.artifacts_created.iter().flatten() {
                let operation = artifact
                    .operation
                    .map_or("", |operation| operation.as_str());
                let path = text::one_line(artifact.path.as_deref().unwrap_or("?"), 160);
                data.line(format!("  {operation:<9} {path}"))?;
            }
            let outputs = &snapshot.outputs;
            for (title, shown) in [
                ("prompt", &snapshot.inputs.user_prompt),
                ("response", &outputs.response),
            ] {
                if let Some(shown) = shown {
                    let whole = text::plain(shown);
                    let cut: String = whole.chars().take(SHOWN).collect();
                    let more = if cut.len() < whole.len() { " …" } else { "" };
                    data.line(format!("\n{}\n{cut}{more}", style::strong(title)))?;
                }
            }
        }
    }
    data.done()?;
    match verified.is_valid {
        true => Ok(Exit::Done),
        false => Ok(Exit::Damaged),
    }
}

/// Warns about a snapshot that may be forged.
fn warn(verified: &Verified) {
    match verified.state {
        State::Valid | State::Unverified | State::Unsigned => {}
        State::Unsealed => talk::say(format!(
            "{} the snapshot has no seal: changes to it cannot be detected",
            style::warn("UNSEALED:")
        )),
        State::Tampered => {
            talk::say(format!(
                "{} the snapshot or a file next to it was changed after it was sealed; `runwright \
                 snapshot verify` shows every change",
                style::bad("TAMPERED:")
            ));
            let errors = verified.findings.iter().filter(|finding| finding.is_error);
            for error in errors.take(3) {
                let path = text::one_line(&error.path, 120);
                let message = text::one_line(&error.message, 300);
                talk::say(format!("  {path}: {message}"));
            }
        }
    }
}

fn facts(snapshot: &Snapshot, state: State) -> Vec<(&'static str, String)> {
    let line = |shown: &str| text::one_line(shown, 160);
    let config = &snapshot.config;
    let provider = config.model.provider.as_ref();
    let provider = provider.map_or(String::new(), |provider| format!(" ({})", line(provider)));
    let mut facts = vec![
        ("snapshot", line(&snapshot.snapshot_id)),
        ("workflow", line(&snapshot.workflow_id)),
        ("captured", line(&snapshot.captured_at)),
        ("model", format!("{}{provider}", line(&config.model.id))),
        ("mode", config.execution_mode.as_str().to_owned()),
    ];
    let numbers = [
        (
            "temperature",
            config.temperature.map(|number| number.to_string()),
        ),
        ("seed", config.seed.map(|number| number.to_string())),
        (
            "max_tokens",
            config.max_tokens.map(|number| number.to_string()),
        ),
    ];
    facts.extend(
        numbers
            .into_iter()
            .filter_map(|(name, number)| Some((name, number?))),
    );
    if let Some(extensions) = &snapshot.extensions {
        let texts = [
            ("name", &extensions.name),
            ("run", &extensions.run_id),
            ("run status", &extensions.run_status),
        ];
        facts.extend(
            texts
                .into_iter()
                .filter_map(|(name, text)| Some((name, line(text.as_ref()?)))),
        );
    }
    if let Some(metrics) = &snapshot.metrics {
        let counts = [
            ("tokens in", metrics.tokens_input),
            ("tokens out", metrics.tokens_output),
            ("tool calls", metrics.tool_calls_count),
            ("turns", metrics.iterations),
        ];
        facts.extend(metrics.duration_ms.map(|ms| ("took", text::ms(ms))));
        facts.extend(
            counts
                .into_iter()
                .filter_map(|(name, count)| Some((name, count?.to_string()))),
        );
    }
    if snapshot.is_unredacted() {
        facts.push(("redaction", style::bad("UNREDACTED")));
    }
    let replays = snapshot.replays();
    let times = match replays.replay_count {
        0 => String::new(),
        count => format!(
            ", {}",
            text::count(usize::try_from(count).unwrap_or(usize::MAX), "replay")
        ),
    };
    // The record of replays of a changed snapshot may be forged.
    if state != State::Tampered {
        facts.push(("match", format!("{}{times}", matched(replays.match_status))));
    }
    facts.push(("state", state.as_str().to_owned()));
    facts
}
