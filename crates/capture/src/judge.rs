//! The first step of a replay that is another than in its recording.

use serde_json::Value;

use crate::call::{Call, Keep, Kind};
use crate::tape::{Divergence, Reason, Side, first_difference, last_step};

/// The first call of a replay that is not that of its recording, for calls that were made again.
pub fn first_divergence(
    recorded: (&[Call], &dyn Keep),
    replayed: (&[Call], &dyn Keep),
) -> Option<Divergence> {
    let steps = |calls: &[Call]| -> Vec<Call> {
        let calls = calls.iter().filter(|call| call.kind != Kind::Protocol);
        calls.cloned().collect()
    };
    let (a, b) = (steps(recorded.0), steps(replayed.0));
    for place in 0..a.len().max(b.len()) {
        let (old, new) = (a.get(place), b.get(place));
        let step = old.map_or(last_step(recorded.0) + 1, |call| call.seq);
        let (reason, word) = match (old, new) {
            (Some(old), Some(new)) if (old.kind, &old.name) != (new.kind, &new.name) => {
                (Reason::Changed, "another call was made")
            }
            (Some(old), Some(new)) if old.input != new.input => {
                (Reason::Changed, "the input differs")
            }
            (Some(old), Some(new)) if old.output != new.output => {
                (Reason::OtherResult, "the result differs")
            }
            (Some(_), Some(_)) => continue,
            (Some(_), None) => (Reason::Missing, "this call was not made again"),
            (None, _) => (Reason::Added, "this call was not recorded"),
        };
        let by_result = reason == Reason::OtherResult;
        let side = |call: Option<&Call>, keep: &dyn Keep| {
            call.map(|call| {
                let digest = match by_result {
                    true => call.output,
                    false => Some(call.input),
                };
                let bytes = digest.and_then(|digest| keep.get(digest).ok().flatten());
                Side {
                    kind: call.kind.as_str(),
                    name: call.name.clone(),
                    input: bytes
                        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                        .unwrap_or(Value::Null),
                }
            })
        };
        let (expected, actual) = (side(old, recorded.1), side(new, replayed.1));
        let at = match (&expected, &actual) {
            (Some(expected), Some(actual)) => first_difference(&expected.input, &actual.input),
            _ => None,
        };
        let name = old.or(new).map_or("", |call| call.name.as_str());
        let kind = old.or(new).map_or("call", |call| call.kind.as_str());
        let place = at.as_deref().filter(|at| !at.is_empty());
        let place = place.map_or_else(String::new, |at| format!(" at {at}"));
        return Some(Divergence {
            step,
            reason,
            at,
            recorded_step: old.map(|call| call.seq),
            expected,
            actual,
            message: format!("step {step}: {kind} {name}: {word}{place}"),
        });
    }
    None
}
