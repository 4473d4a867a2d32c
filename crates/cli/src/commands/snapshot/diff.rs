//! `runwright snapshot diff`: compares two executions step by step.

use std::sync::Arc;

use capture::call::{Call, Keep, Kind};
use capture::folder_keep::Recording;
use capture::judge::given_and_said;
use faces::provenance::hash::hash_json;
use serde_json::{Value, json};
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices};

use super::{Rooted, failed, find_whole};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// Maximum differences shown per step.
const SHOWN: usize = 8;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The steps are the model and tool calls with their inputs and results; ids and times of answers do
not count. `compare` compares the outcome, with files.

  runwright snapshot diff 0199 latest

Exits with 0 if there is no difference, 1 if there is one."
)]
pub(crate) struct Args {
    /// The first snapshot
    #[arg(value_name = "A")]
    a: String,

    /// The second snapshot
    #[arg(value_name = "B")]
    b: String,

    #[command(flatten)]
    rooted: Rooted,
}

/// A step in the form for comparison.
struct Step {
    number: u64,
    kind: Kind,
    name: String,
    given: Value,
    said: Value,
}

impl Step {
    fn key(&self) -> String {
        hash_json(&json!([
            self.kind.as_str(),
            self.name,
            self.given,
            self.said
        ]))
    }

    fn shown(&self) -> String {
        let name = text::one_line(&self.name, 80);
        format!("step {} {} {name}", self.number, self.kind.as_str())
    }
}

fn steps(args: &Args, typed: &str, session: &Session) -> Result<(Value, Vec<Step>), Failure> {
    let folder = args.rooted.folder(session)?;
    let kept = find_whole(&folder, typed)?;
    let folder = folder.holding_or_self(&kept.path);
    let calls = folder.calls(&kept.path).map_err(failed)?;
    let keep: Arc<dyn Keep> = Arc::new(Recording(folder));
    let calls = calls.iter().filter_map(Call::of_file);
    let calls = calls.filter(|call| call.kind != Kind::Protocol);
    let steps = calls.map(|call| {
        let (given, said) = given_and_said(&call, &*keep);
        Step {
            number: call.seq,
            kind: call.kind,
            name: call.name,
            given,
            said,
        }
    });
    Ok((
        json!(kept.document.snapshot.outputs.response),
        steps.collect(),
    ))
}

/// Shows the differences.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let (response_a, a) = steps(args, &args.a, session)?;
    let (response_b, b) = steps(args, &args.b, session)?;
    let keys = |steps: &[Step]| steps.iter().map(Step::key).collect::<Vec<_>>();
    let ops = capture_diff_slices(Algorithm::Myers, &keys(&a), &keys(&b));
    let mut changes = Vec::new();
    for op in ops {
        let (old, new) = match op {
            DiffOp::Equal { .. } => continue,
            op => (&a[op.old_range()], &b[op.new_range()]),
        };
        for at in 0..old.len().max(new.len()) {
            changes.push(change(old.get(at), new.get(at)));
        }
    }
    if response_a != response_b && changes.is_empty() {
        let places = fields("", &response_a, &response_b);
        changes.push(json!({ "change": "response", "a": null, "b": null, "fields": places }));
    }
    let is_same = changes.is_empty();
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => {
            data.json(&json!({ "same": is_same, "steps": [a.len(), b.len()], "changes": changes }))?
        }
        Form::Text if is_same => {
            data.line(format!("no difference in {}", text::count(a.len(), "step")))?;
        }
        Form::Text => changes
            .iter()
            .try_for_each(|change| tell(&mut data, change))?,
    }
    data.done()?;
    Ok(if is_same { Exit::Done } else { Exit::Found })
}

fn change(old: Option<&Step>, new: Option<&Step>) -> Value {
    let side = |step: Option<&Step>| {
        step.map(
            |step| json!({ "step": step.number, "kind": step.kind.as_str(), "name": step.name }),
        )
    };
    let (word, places) = match (old, new) {
        (Some(old), Some(new)) if (old.kind, &old.name) == (new.kind, &new.name) => {
            let given = fields("input", &old.given, &new.given);
            let said = fields("output", &old.said, &new.said);
            ("changed", [given, said].concat())
        }
        (Some(_), Some(_)) => ("replaced", Vec::new()),
        (Some(_), None) => ("removed", Vec::new()),
        (None, _) => ("added", Vec::new()),
    };
    let shown = [old, new].into_iter().flatten().map(Step::shown);
    json!({
        "change": word, "a": side(old), "b": side(new), "fields": places,
        "shown": shown.collect::<Vec<_>>(),
    })
}

/// The places at which two values differ, with the differing words.
fn fields(place: &str, a: &Value, b: &Value) -> Vec<Value> {
    if a == b {
        return Vec::new();
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            let null = Value::Null;
            let parts = names.flat_map(|name| {
                let (a, b) = (a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null));
                fields(&format!("{place}/{name}"), a, b)
            });
            parts.collect()
        }
        (Value::Array(a), Value::Array(b)) => {
            let null = Value::Null;
            let parts = (0..a.len().max(b.len())).flat_map(|at| {
                let (a, b) = (a.get(at).unwrap_or(&null), b.get(at).unwrap_or(&null));
                fields(&format!("{place}/{at}"), a, b)
            });
            parts.collect()
        }
        (a, b) => vec![json!({ "at": place, "a": a, "b": b })],
    }
}

fn tell(data: &mut Data, change: &Value) -> Result<(), Failure> {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let word = change["change"].as_str().unwrap_or_default();
    let mut shown = texts(&change["shown"]);
    shown.dedup();
    data.line(format!("{} {}", style::warn(word), shown.join(" / ")))?;
    let places = change["fields"].as_array().map_or(&[][..], Vec::as_slice);
    for place in places.iter().take(SHOWN) {
        let at = text::one_line(place["at"].as_str().unwrap_or_default(), 120);
        data.line(format!("  {at}: {}", words(&place["a"], &place["b"])))?;
    }
    if places.len() > SHOWN {
        data.line(format!(
            "  and {} more; --json lists all",
            places.len() - SHOWN
        ))?;
    }
    Ok(())
}

/// Two values as one line, with the differing words.
fn words(a: &Value, b: &Value) -> String {
    let (Some(a), Some(b)) = (a.as_str(), b.as_str()) else {
        let (a, b) = (
            text::one_line(&a.to_string(), 200),
            text::one_line(&b.to_string(), 200),
        );
        return format!(
            "{} {}",
            style::bad(format!("-{a}")),
            style::good(format!("+{b}"))
        );
    };
    let diff = TextDiff::from_words(a, b);
    let changes = diff.iter_all_changes().filter_map(|change| {
        let word = text::one_line(change.value(), 200);
        match change.tag() {
            ChangeTag::Equal => None,
            _ if word.trim().is_empty() => None,
            ChangeTag::Delete => Some(style::bad(format!("-{word}"))),
            ChangeTag::Insert => Some(style::good(format!("+{word}"))),
        }
    });
    changes.take(40).collect::<Vec<_>>().join(" ")
}
