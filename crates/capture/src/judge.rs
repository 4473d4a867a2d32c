//! The first step at which a replay differs from its recording.

use kernel::digest::Digest;
use serde_json::Value;

use crate::call::{Call, Keep, Kind};
use crate::call_groups::is_parallel;
use crate::headers;
use crate::ignored::Ignored;
use crate::replayer::{Divergence, Reason, Side, first_difference, last_step};

/// The first call of a replay that differs from its recording, where calls were made again. Ignored
/// fields of requests are not compared.
pub fn first_divergence(
    recorded: (&[Call], &dyn Keep),
    replayed: (&[Call], &dyn Keep),
    ignored: &Ignored,
) -> Option<Divergence> {
    let steps = |calls: &[Call]| -> Vec<Call> {
        let calls = calls.iter().filter(|call| call.kind != Kind::Protocol);
        calls.cloned().collect()
    };
    let keyed = |calls: &[Call], keep: &dyn Keep| {
        let keys = ignored.keys(calls, keep);
        let mut calls = steps(calls);
        for call in &mut calls {
            call.input = keys.get(&call.seq).copied().unwrap_or(call.input);
        }
        calls
    };
    let (a, b) = (keyed(recorded.0, recorded.1), keyed(replayed.0, replayed.1));
    let is_parallel = is_parallel(recorded.0);
    for (nth, (old, new)) in pairs(is_parallel, &a, &b).into_iter().enumerate() {
        let (old, new, reason) = if is_parallel {
            (old, new, None)
        } else {
            parted((old, new), (&a, &b), nth)
        };
        let step = old.map_or(last_step(recorded.0) + 1, |call| call.seq);
        let (reason, word) = match (old, new) {
            _ if reason == Some(Reason::Missing) => (Reason::Missing, "this call was left out"),
            _ if reason == Some(Reason::Added) => (Reason::Added, "an unrecorded call was made"),
            _ if reason == Some(Reason::OutOfOrder) => (
                Reason::OutOfOrder,
                "a call was made that was recorded later",
            ),
            (Some(old), Some(new)) if (old.kind, &old.name) != (new.kind, &new.name) => {
                (Reason::Changed, "another call was made")
            }
            (Some(old), Some(new)) if old.input != new.input => {
                (Reason::Changed, "the input differs")
            }
            (Some(old), Some(new)) if differ((old, recorded.1), (new, replayed.1)) => {
                (Reason::OtherResult, "the result differs")
            }
            (Some(_), Some(_)) => continue,
            (Some(_), None) => (Reason::Missing, "this call was not made again"),
            (None, _) => (Reason::Added, "this call was not recorded"),
        };
        let by_result = reason == Reason::OtherResult;
        let side = |call: Option<&Call>, (calls, keep): (&[Call], &dyn Keep)| {
            call.map(|call| {
                // The original input, including ignored fields.
                let whole = calls.iter().find(|whole| whole.seq == call.seq);
                let digest = if by_result {
                    call.output
                } else {
                    whole.map(|whole| whole.input)
                };
                let value = read(digest, keep);
                Side {
                    kind: call.kind.as_str(),
                    name: call.name.clone(),
                    input: if by_result && call.kind == Kind::Model {
                        headers::without(value)
                    } else {
                        value
                    },
                }
            })
        };
        let (expected, actual) = (side(old, recorded), side(new, replayed));
        let at = match (&expected, &actual) {
            (Some(expected), Some(actual)) if reason.is_of_one_call() => {
                first_difference(&expected.input, &actual.input)
            }
            _ => None,
        };
        // A call in the place of another is described by the call that came.
        let named = match reason {
            Reason::Added | Reason::OutOfOrder => new.or(old),
            _ => old.or(new),
        };
        let name = named.map_or("", |call| call.name.as_str());
        let kind = named.map_or("call", |call| call.kind.as_str());
        let recorded_step = match (reason, new) {
            (Reason::Added, _) => None,
            (Reason::OutOfOrder, Some(new)) => {
                let later = a.iter().skip(nth).find(|call| is_same(call, new));
                later.map(|call| call.seq)
            }
            _ => old.map(|call| call.seq),
        };
        let place = at.as_deref().filter(|at| !at.is_empty());
        let place = place.map_or_else(String::new, |at| format!(" at {at}"));
        return Some(Divergence {
            step,
            reason,
            at,
            recorded_step,
            expected,
            actual,
            message: format!("step {step}: {kind} {name}: {word}{place}"),
        });
    }
    None
}

/// The comparable input and output of a call when two executions are compared: for a model's answer
/// its text and the tools it requested, without ids and times.
pub fn given_and_said(call: &Call, keep: &dyn Keep) -> (Value, Value) {
    let output = read(call.output, keep);
    let said = match call.kind {
        Kind::Model => crate::recorder::said(&call.name, &output),
        Kind::Tool | Kind::Protocol => output,
    };
    (read(Some(call.input), keep), said)
}

fn read(digest: Option<Digest>, keep: &dyn Keep) -> Value {
    let bytes = digest.and_then(|digest| keep.get(digest).ok().flatten());
    let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.unwrap_or(Value::Null)
}

/// Whether the results of two calls differ. Headers of a model's answer change with each date and
/// are not compared.
fn differ((old, from): (&Call, &dyn Keep), (new, to): (&Call, &dyn Keep)) -> bool {
    if old.output == new.output {
        return false;
    }
    let bare = |call: &Call, keep| headers::without(read(call.output, keep));
    match (bare(old, from), bare(new, to)) {
        // Contents that are not kept are compared by digest only.
        (Value::Null, _) | (_, Value::Null) => true,
        (old_output, new_output) => old.kind != Kind::Model || old_output != new_output,
    }
}

/// How two lists of calls diverge at a place: decided by the counts of both calls in the rest of
/// the lists; if later calls depend on it, by the names of the rest.
fn parted<'a>(
    (old, new): Pair<'a>,
    (a, b): (&[Call], &[Call]),
    place: usize,
) -> (Option<&'a Call>, Option<&'a Call>, Option<Reason>) {
    let (Some(one), Some(other)) = (old, new) else {
        return (old, new, None);
    };
    if is_same(one, other) {
        return (old, new, None);
    }
    let (a, b) = (&a[place..], &b[place..]);
    let count = |calls: &[Call], call: &Call| calls.iter().filter(|c| is_same(c, call)).count();
    let is_gone = count(a, one) > count(b, one);
    let is_more = count(b, other) > count(a, other);
    let names = |calls: &[Call]| -> Vec<(Kind, String)> {
        calls
            .iter()
            .map(|call| (call.kind, call.name.clone()))
            .collect()
    };
    let reason = match (is_gone, is_more) {
        (true, false) => Reason::Missing,
        (false, true) => Reason::Added,
        (false, false) => Reason::OutOfOrder,
        (true, true) if (one.kind, &one.name) == (other.kind, &other.name) => Reason::Changed,
        (true, true) if names(&a[1..]) == names(b) => Reason::Missing,
        (true, true) if names(a) == names(&b[1..]) => Reason::Added,
        (true, true) => Reason::Changed,
    };
    (old, new, Some(reason))
}

/// Whether two calls have the same key.
fn is_same(a: &Call, b: &Call) -> bool {
    (a.kind, &a.name, a.input) == (b.kind, &b.name, b.input)
}

/// A recorded call and the corresponding call of the replay; one of them may be missing.
type Pair<'a> = (Option<&'a Call>, Option<&'a Call>);

/// Pairs the calls of two executions. Sequential calls are paired in order. Concurrent calls may
/// come in any order: each is paired with the first unpaired call of its name and input, and the
/// rest by name.
fn pairs<'a>(is_parallel: bool, a: &'a [Call], b: &'a [Call]) -> Vec<Pair<'a>> {
    if !is_parallel {
        let places = 0..a.len().max(b.len());
        return places.map(|place| (a.get(place), b.get(place))).collect();
    }
    let mut left: Vec<&Call> = b.iter().collect();
    let mut partners: Vec<Option<&Call>> = vec![None; a.len()];
    for by_input in [true, false] {
        for (old, partner) in a.iter().zip(&mut partners) {
            let is_it = |new: &&Call| {
                (old.kind, &old.name) == (new.kind, &new.name)
                    && (!by_input || old.input == new.input)
            };
            if partner.is_none()
                && let Some(place) = left.iter().position(is_it)
            {
                *partner = Some(left.remove(place));
            }
        }
    }
    let known = a.iter().map(Some).zip(partners);
    known
        .chain(left.into_iter().map(|new| (None, Some(new))))
        .collect()
}
