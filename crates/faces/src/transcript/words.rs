//! The phrases of lines. Empty ones are left out.

use std::collections::BTreeMap;
use std::fmt;

use kernel::run::{Artifact, NodeError, Usage};
use serde_json::{Map, Value};

use super::{MAX_TEXT, shorten};
use crate::mask::apply_mask;

/// The longest value within a line, in characters.
const MAX_VALUE: usize = 60;

/// The longest list of names within a line.
const MAX_NAMES: usize = 6;

pub(super) fn join(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// The number of the attempt. People count from 1, the log from 0.
pub(super) fn tried(visit: u32, attempt: u32) -> String {
    let round = round(visit);
    let space = if round.is_empty() { "" } else { " " };
    format!("{round}{space}attempt {}", u64::from(attempt) + 1)
}

/// As [`tried`], but empty for a first attempt.
pub(super) fn retried(visit: u32, attempt: u32) -> String {
    if attempt == 0 {
        round(visit)
    } else {
        tried(visit, attempt)
    }
}

/// Empty for the first visit of a node.
pub(super) fn round(visit: u32) -> String {
    if visit == 0 {
        String::new()
    } else {
        format!("visit {}", u64::from(visit) + 1)
    }
}

pub(super) fn took(ms: u64) -> String {
    format!("took {}", millis(ms))
}

pub(super) fn millis(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{:03}s", ms / 1_000, ms % 1_000),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

pub(super) fn failure(error: &NodeError) -> String {
    let parts = [&error.code, &error.message];
    let said: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match said.as_slice() {
        [] => "no error was given".to_owned(),
        [one] => (*one).clone(),
        [code, message, ..] => format!("{code}: {message}"),
    }
}

pub(super) fn why(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!("({reason})"))
        .unwrap_or_default()
}

pub(super) fn by(who: Option<&str>) -> String {
    said("by", who)
}

pub(super) fn said(label: &str, what: Option<impl fmt::Display>) -> String {
    what.map(|what| format!("{label} {what}"))
        .unwrap_or_default()
}

pub(super) fn count(n: u32, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// The names of given values; the values themselves are for `--json`.
pub(super) fn given(label: &str, values: &Map<String, Value>) -> String {
    let keys: Vec<_> = values.keys().cloned().collect();
    names(label, &keys)
}

pub(super) fn names(label: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown: Vec<_> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| shorten(name, MAX_VALUE))
        .collect();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{label} {}{more}", shown.join(", "))
}

pub(super) fn value(value: &Value) -> String {
    let mut shown = value.clone();
    apply_mask(&mut shown);
    shorten(&shown.to_string(), MAX_VALUE)
}

/// The log's name of a fieldless enum value.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

pub(super) fn artifact_text(artifact: &Artifact) -> String {
    join([
        artifact.artifact_type.clone(),
        bytes(artifact.size),
        artifact.media_type.clone(),
    ])
}

fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = n.saturating_mul(10);
    let mut unit = None;
    for name in UNITS {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1_024;
        unit = Some(name);
    }
    match unit {
        None => format!("{n} B"),
        Some(unit) => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

pub(super) fn usage_text(usage: &Usage) -> String {
    join([
        format!("{} {}", usage.provider, usage.model),
        format!(
            "{} tokens in, {} out",
            usage.input_tokens, usage.output_tokens
        ),
        said(
            "USD",
            usage.cost_estimate_usd.map(|usd| format!("{usd:.4}")),
        ),
    ])
}

pub(super) fn amounts_text(amounts: &BTreeMap<String, u64>) -> String {
    let amounts: Vec<_> = amounts
        .iter()
        .map(|(dimension, amount)| format!("{amount} {dimension}"))
        .collect();
    shorten(&amounts.join(", "), MAX_TEXT)
}
