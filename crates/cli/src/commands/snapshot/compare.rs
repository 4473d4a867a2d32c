//! `runwright snapshot compare`.

use std::path::{Path, PathBuf};

use faces::provenance::calls::Call;
use faces::provenance::compare::{Comparison, Line, Verdict, html, side_by_side};
use faces::provenance::ladder::Level;
use provenance::{Folder, Kept};
use serde_json::Value;

use super::how::{Held, How, Judge, aside};
use super::list::matched;
use super::{Rooted, failed, find_whole, unredacted};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Two texts match when they are the same after normalising, and differ where one of five rules says
so: numbers, identifiers, negation, opposites, word order. Everything else needs review: by you,
or by a model given here.

  runwright snapshot compare 01a203d4-3b14 latest
  runwright snapshot compare first latest --judge-url http://localhost:11434/v1 --judge-model llama3
  runwright snapshot compare first latest --strategy structural --html report.html

Exits with 0 if the comparison passes, 1 if it does not, 3 if it needs review or there is nothing to
compare, 4 if a snapshot was changed after it was written, 130 if a signal ended it."
)]
pub(crate) struct Args {
    /// The reference snapshot: its id, the beginning of it, its name, `latest`, or a path
    #[arg(value_name = "SNAPSHOT")]
    a: String,

    /// The other one
    #[arg(value_name = "OTHER")]
    b: String,

    #[command(flatten)]
    how: How,

    /// Write the comparison as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    rooted: Rooted,
}

/// A snapshot with its sidecar files.
struct Whole {
    kept: Kept,
    calls: Vec<Call>,
    folder: Folder,
}

impl Whole {
    /// Reads the sidecar files of a snapshot.
    fn load(kept: Kept, folder: &Folder) -> Result<Self, Failure> {
        let folder = Folder::holding(&kept.path).unwrap_or_else(|| folder.clone());
        let calls = folder.calls(&kept.path).map_err(failed)?;
        Ok(Self {
            kept,
            calls,
            folder,
        })
    }

    fn held(&self) -> Held {
        let folder = self.folder.clone();
        Held {
            snapshot: self.kept.document.snapshot.clone(),
            calls: self.calls.clone(),
            contents: Box::new(move |hash| folder.blob(hash).ok()),
        }
    }

    fn response(&self) -> String {
        let outputs = &self.kept.document.snapshot.outputs;
        let hashed = || {
            let bytes = self.folder.blob(outputs.response_hash.as_deref()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        outputs.response.clone().or_else(hashed).unwrap_or_default()
    }
}

/// Compares and shows.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session)?;
    let a = Whole::load(find_whole(&folder, &args.a)?, &folder)?;
    let b = Whole::load(find_whole(&folder, &args.b)?, &folder)?;
    unredacted::warn(&a.kept.document.snapshot);
    unredacted::warn(&b.kept.document.snapshot);
    let judge = Judge::new(args.how)?;
    let Some(found) = judge.compare(a.held(), b.held(), None).await? else {
        return Ok(interrupted());
    };
    let exit = match (found.match_status, found.pass) {
        (None, _) => Exit::Incomparable,
        (_, true) => Exit::Done,
        (_, false) if found.needs_review() => Exit::Incomparable,
        (_, false) => Exit::Found,
    };
    // A report may be long and its reader slow: signals are handled meanwhile.
    let (page, form) = (args.html, session.form);
    let written = move || report(&found, &a.response(), &b.response(), page.as_deref(), form);
    match aside(judge.stop(), written).await? {
        Some(written) => written.map(|()| exit),
        None => Ok(interrupted()),
    }
}

fn interrupted() -> Exit {
    talk::say(format!(
        "{} nothing was compared, or the result was not completely written",
        style::warn("interrupted:")
    ));
    Exit::Interrupted
}

/// Writes the result of a comparison, optionally also as a page.
fn report(
    found: &Comparison,
    a: &str,
    b: &str,
    page: Option<&Path>,
    form: Form,
) -> Result<(), Failure> {
    if let Some(path) = page {
        let text = html::page(found, a, b);
        std::fs::write(path, text).map_err(|error| Failure::file(path, &error))?;
    }
    if form == Form::Text {
        return show(found, a, b, page);
    }
    let mut value = serde_json::to_value(found).unwrap_or_default();
    if found.match_status.is_none() {
        value["error"] = "not_comparable".into();
    }
    let mut data = Data::for_verdict();
    data.json(&value)?;
    data.done()
}

fn show(found: &Comparison, a: &str, b: &str, page: Option<&Path>) -> Result<(), Failure> {
    let mut data = Data::for_verdict();
    let line = |value: &Option<Value>| match value {
        None => style::dim("—"),
        Some(Value::String(shown)) => text::one_line(shown, 200),
        Some(value) => text::one_line(&value.to_string(), 200),
    };
    for row in &found.drift {
        let path = text::one_line(&row.path, 80);
        data.line(format!(
            "{} {path}: {} → {}",
            style::warn("drift"),
            line(&row.a),
            line(&row.b)
        ))?;
    }
    if let Some(first) = &found.first_divergence {
        let step = first
            .step
            .map_or(String::new(), |step| format!(" tool call {step}"));
        let at = first
            .line
            .map_or(String::new(), |line| format!(" line {line}"));
        let tool = first.tool.as_deref();
        let tool = tool.map_or(String::new(), |tool| {
            format!(" tool {},", text::one_line(tool, 60))
        });
        let path = first.path.as_deref();
        let path = path.map_or(String::new(), |path| {
            format!(" at {}", text::one_line(path, 120))
        });
        data.line(format!(
            "{} {}{step}{at}:{tool} {}{path}",
            style::strong("first divergence"),
            first.field,
            first.what
        ))?;
        data.line(format!("  {} {}", style::bad("-"), line(&first.a)))?;
        data.line(format!("  {} {}", style::good("+"), line(&first.b)))?;
    }
    data.line(format!(
        "{:<28} {}",
        "outputs.response",
        level(found.response)
    ))?;
    for field in &found.fields {
        data.line(format!("{:<28} {}", field.field, level(field.level)))?;
        for row in &field.differences {
            data.line(format!(
                "  {}: {}",
                text::one_line(&row.path, 120),
                row.what
            ))?;
        }
    }
    let meaning = &found.meaning;
    if let (Some(min), Some(mean)) = (meaning.min, meaning.mean_f) {
        let least = found.similarity;
        data.line(format!(
            "{} least alike {min:.4}, mean {mean:.4}, needed {least}",
            text::one_line(&meaning.scorer, 80)
        ))?;
    }
    if let Some(reason) = meaning.reason {
        data.line(style::dim(reason))?;
    }
    for pair in &meaning.worst {
        let rule = pair.rule.map_or(String::new(), |rule| format!(", {rule}"));
        let score = pair
            .score
            .map_or(String::new(), |score| format!(", {score:.4}"));
        let verdict = match pair.verdict {
            Verdict::Mismatch => style::bad("differs"),
            _ => style::warn("needs review"),
        };
        data.line(format!("  {verdict}{rule}{score}"))?;
        let shown = |unit: &Option<String>| match unit {
            Some(unit) => text::one_line(unit, 200),
            None => "—".to_owned(),
        };
        data.line(format!("    {} {}", style::bad("-"), shown(&pair.a)))?;
        data.line(format!("    {} {}", style::good("+"), shown(&pair.b)))?;
    }
    if a != b {
        beside(&mut data, a, b)?;
    }
    for metric in found.metrics.iter().filter(|metric| metric.a != metric.b) {
        let (one, other) = (metric.a, metric.b);
        data.line(style::dim(format!("{}: {one} → {other}", metric.metric)))?;
    }
    let status = match found.match_status {
        Some(status) => matched(status),
        None => style::bad("not comparable"),
    };
    let pass = match (found.pass, found.needs_review()) {
        (true, _) => style::good("pass"),
        (false, true) => style::warn("needs review"),
        (false, false) => style::bad("fail"),
    };
    data.line(format!(
        "{status}, strategy {}: {pass}",
        found.strategy.as_str()
    ))?;
    if let Some(page) = page {
        talk::say(format!("{}", page.display()));
    }
    data.done()
}

fn level(level: Level) -> String {
    match level {
        Level::Identical => style::good("identical"),
        Level::Equivalent => style::good("equivalent"),
        Level::SameShape => style::warn("same shape"),
        Level::Different => style::bad("different"),
        Level::Unavailable => style::dim("unavailable"),
    }
}

/// Columns per side.
const WIDE: usize = 58;

/// The two responses, side by side.
fn beside(data: &mut Data, a: &str, b: &str) -> Result<(), Failure> {
    let cell = |line: &str| format!("{:<WIDE$}", text::cut(&text::plain(line), WIDE));
    for line in side_by_side(a, b) {
        data.line(match line {
            Line::Same(line) => format!("  {} │ {}", cell(&line), cell(&line).trim_end()),
            Line::Changed(a, b) => {
                let b = cell(&b);
                format!(
                    "{} {} │ {}",
                    style::warn("~"),
                    style::bad(cell(&a)),
                    style::good(b.trim_end())
                )
            }
            Line::Gone(a) => format!("{} {} │", style::bad("-"), style::bad(cell(&a))),
            Line::New(b) => {
                let b = cell(&b);
                format!(
                    "{} {} │ {}",
                    style::good("+"),
                    cell(""),
                    style::good(b.trim_end())
                )
            }
            Line::LeftOut(count) => {
                style::dim(format!("  … {} the same", text::count(count, "line")))
            }
        })?;
    }
    Ok(())
}
