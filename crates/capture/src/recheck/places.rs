//! Where two values differ of which one is the other without secrets.

use provenance::taken_out;
use serde_json::Value;

use super::Kinds;
use crate::clean::Cleaner;

/// The places where something was taken out, as JSON pointers without secrets, and what was.
pub(super) fn differences(
    before: &Value,
    after: &Value,
    cleaner: &Cleaner,
) -> Vec<(String, Kinds)> {
    let mut found = Vec::new();
    collect(before, after, "", cleaner, &mut found);
    found
}

fn collect(
    before: &Value,
    after: &Value,
    at: &str,
    cleaner: &Cleaner,
    found: &mut Vec<(String, Kinds)>,
) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (place, (one, other)) in one.iter().zip(other).enumerate() {
                collect(one, other, &format!("{at}/{place}"), cleaner, found);
            }
        }
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            for (name, one) in one {
                let shown = name.replace('~', "~0").replace('/', "~1");
                collect(one, &other[name], &format!("{at}/{shown}"), cleaner, found);
            }
        }
        (Value::String(one), Value::String(other)) => {
            found.push((cleaner.text(at), taken_out(one, other)));
        }
        // A name among the members, which is told of with all of them.
        (one, other) => {
            let kinds = taken_out(&one.to_string(), &other.to_string());
            found.push((cleaner.text(at), kinds));
        }
    }
}
