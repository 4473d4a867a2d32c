//! Compares the calls, their order, and the place of the first difference.

use serde_json::Value;

use super::super::document::ToolCall;
use super::super::hash;
use super::super::ladder::Level;
use super::report::{FieldReport, FirstDivergence, Verdict};
use super::{Side, drift};

/// A call that only the second list has.
const ADDED: &str = "the call is added";
/// A call that the first list has later.
const IN_ANOTHER_ORDER: &str = "the calls are in another order";

/// The properties that distinguish two calls, in the order of the rules.
fn key(call: &ToolCall) -> (Option<&str>, Option<String>, Option<String>) {
    let plain = |hash: &Option<String>| {
        let hash = hash.as_deref()?;
        Some(hash::digest(hash).map_or_else(|| hash.to_owned(), |digest| digest.to_string()))
    };
    (
        call.tool.as_deref(),
        plain(&call.input_hash),
        plain(&call.output_hash),
    )
}

pub(super) fn compare(a: &[ToolCall], b: &[ToolCall]) -> FieldReport {
    let keys = |calls: &[ToolCall]| {
        let keys = calls.iter().map(|call| {
            let (tool, input, output) = key(call);
            (tool.map(str::to_owned), input, output)
        });
        keys.collect::<Vec<_>>()
    };
    let (one, other) = (keys(a), keys(b));
    let sorted = |keys: &[_]| {
        let mut keys: Vec<(Option<String>, Option<String>, Option<String>)> = keys.to_vec();
        keys.sort();
        keys
    };
    let names = a
        .iter()
        .map(|call| &call.tool)
        .eq(b.iter().map(|call| &call.tool));
    let level = if one == other {
        Level::Identical
    } else if sorted(&one) == sorted(&other) {
        Level::Equivalent
    } else if names {
        Level::SameShape
    } else {
        Level::Different
    };
    FieldReport {
        field: "outputs.tool_calls",
        level,
        verdict: if level >= Level::Equivalent {
            Verdict::Match
        } else {
            Verdict::Mismatch
        },
        is_empty: a.is_empty() && b.is_empty(),
        differences: Vec::new(),
    }
}

/// The first differing call.
pub(super) fn divergence(
    a: (&Side<'_>, &[ToolCall]),
    b: (&Side<'_>, &[ToolCall]),
) -> Option<FirstDivergence> {
    let (one, other) = (a.1, b.1);
    let step = (0..one.len().max(other.len())).find(|&at| match (one.get(at), other.get(at)) {
        (Some(one), Some(other)) => key(one) != key(other),
        _ => true,
    })?;
    let what = parted(&one[step.min(one.len())..], &other[step.min(other.len())..]);
    let (one, other) = ((a.0, one.get(step)), (b.0, other.get(step)));
    Some(at_call(step, one, other, what))
}

/// The kind of divergence of two lists, unless a single call was replaced: by the counts of the two
/// calls at that place.
fn parted(a: &[ToolCall], b: &[ToolCall]) -> Option<&'static str> {
    let asked = |call: &ToolCall| {
        let (tool, input, _) = key(call);
        (tool.map(str::to_owned), input)
    };
    let (one, other) = (asked(a.first()?), asked(b.first()?));
    if one == other {
        return None;
    }
    let count = |calls: &[ToolCall], it| calls.iter().filter(|call| asked(call) == it).count();
    let is_gone = count(a, one.clone()) > count(b, one);
    let is_more = count(b, other.clone()) > count(a, other);
    match (is_gone, is_more) {
        (true, false) => Some("the call is missing"),
        (false, true) => Some(ADDED),
        (false, false) => Some(IN_ANOTHER_ORDER),
        (true, true) => None,
    }
}

/// A side with one of its calls.
type Called<'a, 'b> = (&'a Side<'b>, Option<&'a ToolCall>);

fn at_call(
    step: usize,
    a: Called<'_, '_>,
    b: Called<'_, '_>,
    what: Option<&str>,
) -> FirstDivergence {
    let shown = |(_, call): Called<'_, '_>| {
        let call = call?;
        Some(serde_json::json!({
            "tool": call.tool, "input_hash": call.input_hash, "output_hash": call.output_hash,
        }))
    };
    // A call in the place of another is described by the call that came.
    let named = match what {
        Some(ADDED | IN_ANOTHER_ORDER) => b.1.or(a.1),
        _ => a.1.or(b.1),
    };
    let mut found = FirstDivergence {
        field: "outputs.tool_calls",
        step: Some(step + 1),
        tool: named.and_then(|call| call.tool.clone()),
        a: shown(a),
        b: shown(b),
        ..FirstDivergence::default()
    };
    let (Some(one), Some(other)) = (a.1, b.1) else {
        let missing = if a.1.is_none() {
            ADDED
        } else {
            "the call is missing"
        };
        missing.clone_into(&mut found.what);
        return found;
    };
    if let Some(what) = what {
        what.clone_into(&mut found.what);
        return found;
    }
    let (one_key, other_key) = (key(one), key(other));
    let (what, hashes) = if one_key.0 != other_key.0 {
        ("another tool", None)
    } else if one_key.1 != other_key.1 {
        (
            "the input differs",
            Some((&one.input_hash, &other.input_hash)),
        )
    } else {
        (
            "the output differs",
            Some((&one.output_hash, &other.output_hash)),
        )
    };
    what.clone_into(&mut found.what);
    if let Some((Some(one), Some(other))) =
        hashes.map(|(one, other)| (one.as_ref(), other.as_ref()))
    {
        let read = |side: &Side<'_>, hash: &str| {
            serde_json::from_slice::<Value>(&(side.contents)(hash)?).ok()
        };
        if let (Some(one), Some(other)) = (read(a.0, one), read(b.0, other)) {
            let at = drift::first_pointer(&one, &other);
            found.a = one.pointer(&at).cloned();
            found.b = other.pointer(&at).cloned();
            found.path = Some(at);
        }
    }
    found
}
