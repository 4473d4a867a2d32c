//! The difference between two saves of a document.

use kernel::document::{Body, Entries};
use serde_json::{Map, Value, json};

/// The difference, as JSON: events that only one of them has, changed members of the run, and for
/// each map the added, removed and changed keys.
pub fn compare(from: &Body, to: &Body) -> Value {
    let common = from.common_prefix(to);
    json!({
        "revision": { "from": from.revision, "to": to.revision },
        "trace": {
            "common": common,
            "removed": from.trace[common..],
            "added": to.trace[common..],
        },
        "run": members(&from.derived.run, &to.derived.run),
        "artifacts": entries(&from.derived.artifacts, &to.derived.artifacts),
        "ruleSets": entries(&from.derived.rules, &to.derived.rules),
        "stepStatus": entries(&from.derived.steps, &to.derived.steps),
        "gateState": entries(&from.derived.gates, &to.derived.gates),
        "idempotency": entries(&from.derived.idempotency, &to.derived.idempotency),
    })
}

fn members(from: &Map<String, Value>, to: &Map<String, Value>) -> Value {
    let pairs = |members: &Map<String, Value>| {
        members
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Entries>()
    };
    entries(&pairs(from), &pairs(to))
}

/// A change has both values; an absent one is left out.
fn entries(from: &Entries, to: &Entries) -> Value {
    let mut changes = Map::new();
    for (key, old) in from.iter() {
        match to.get(key) {
            Some(new) if new == old => {}
            Some(new) => drop(changes.insert(key.to_owned(), json!({ "from": old, "to": new }))),
            None => drop(changes.insert(key.to_owned(), json!({ "from": old }))),
        }
    }
    for (key, new) in to.iter().filter(|(key, _)| from.get(key).is_none()) {
        changes.insert(key.to_owned(), json!({ "to": new }));
    }
    Value::Object(changes)
}
