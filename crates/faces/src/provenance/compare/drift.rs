//! Differences in the setup before the execution, and in its metrics.

use serde::Serialize;
use serde_json::{Map, Value};

use super::super::document::{Metrics, Snapshot};

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The place: a path in the document, or of a file.
    pub path: String,
    /// A description.
    pub what: &'static str,
    /// The value on the first side.
    pub a: Option<Value>,
    /// And on the other.
    pub b: Option<Value>,
}

/// A metric of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetricDelta {
    /// Its name.
    pub metric: &'static str,
    /// On the first side.
    pub a: u64,
    /// On the other.
    pub b: u64,
}

/// Settings, agent and inputs that differ.
pub(super) fn drift(a: &Snapshot, b: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    let value = |part: Result<Value, serde_json::Error>| part.unwrap_or_default();
    walk(
        "config",
        &value(serde_json::to_value(&a.config)),
        &value(serde_json::to_value(&b.config)),
        &mut found,
    );
    walk(
        "agent",
        &value(serde_json::to_value(&a.agent)),
        &value(serde_json::to_value(&b.agent)),
        &mut found,
    );
    let inputs = |snapshot: &Snapshot| {
        let mut inputs = value(serde_json::to_value(&snapshot.inputs));
        // Files by their path: an additional one does not shift the others.
        let files = snapshot.inputs.context_files.iter().flatten().map(|file| {
            let hash = file.hash.clone().unwrap_or_default();
            (file.path.clone().unwrap_or_default(), Value::from(hash))
        });
        let files: Map<String, Value> = files.collect();
        if let Value::Object(members) = &mut inputs {
            members.remove("user_prompt_hash");
            if !files.is_empty() {
                members.insert("context_files".to_owned(), files.into());
            }
        }
        inputs
    };
    walk("inputs", &inputs(a), &inputs(b), &mut found);
    let status = |snapshot: &Snapshot| {
        let extensions = snapshot.extensions.as_ref();
        extensions
            .and_then(|more| more.run_status.clone())
            .map(Value::from)
    };
    if let (Some(one), Some(other)) = (status(a), status(b)) {
        walk("extensions.run_status", &one, &other, &mut found);
    }
    found
}

fn walk(path: &str, a: &Value, b: &Value, found: &mut Vec<Difference>) {
    let equal = match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    };
    if equal {
        return;
    }
    if let (Value::Object(one), Value::Object(other)) = (a, b) {
        let more = other.keys().filter(|name| !one.contains_key(*name));
        for name in one.keys().chain(more) {
            let member =
                |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
            walk(
                &format!("{path}.{name}"),
                &member(one),
                &member(other),
                found,
            );
        }
        return;
    }
    let shown = |value: &Value| (!value.is_null()).then(|| value.clone());
    found.push(Difference {
        path: path.to_owned(),
        what: match (a.is_null(), b.is_null()) {
            (true, _) => "is on the other side only",
            (_, true) => "is on one side only",
            _ => "differs",
        },
        a: shown(a),
        b: shown(b),
    });
}

/// The metrics that both sides have.
pub(super) fn metrics(a: &Snapshot, b: &Snapshot) -> Vec<MetricDelta> {
    let list = |metrics: &Metrics| {
        [
            ("duration_ms", metrics.duration_ms),
            ("tokens_input", metrics.tokens_input),
            ("tokens_output", metrics.tokens_output),
            ("tool_calls_count", metrics.tool_calls_count),
            ("iterations", metrics.iterations),
        ]
    };
    let (Some(a), Some(b)) = (&a.metrics, &b.metrics) else {
        return Vec::new();
    };
    let pairs = list(a).into_iter().zip(list(b));
    pairs
        .filter_map(|((metric, a), (_, b))| {
            Some(MetricDelta {
                metric,
                a: a?,
                b: b?,
            })
        })
        .collect()
}

/// The first difference of two values, as a JSON pointer.
pub(super) fn first_pointer(a: &Value, b: &Value) -> String {
    let step = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let more = other.keys().filter(|name| !one.contains_key(*name));
            let differs = |name: &&String| one.get(*name) != other.get(*name);
            match one.keys().chain(more).find(differs) {
                Some(name) => match (one.get(name), other.get(name)) {
                    (Some(a), Some(b)) => step(name) + &first_pointer(a, b),
                    _ => step(name),
                },
                None => String::new(),
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            let longest = one.len().max(other.len());
            match (0..longest).find(|&at| one.get(at) != other.get(at)) {
                Some(at) => match (one.get(at), other.get(at)) {
                    (Some(a), Some(b)) => format!("/{at}{}", first_pointer(a, b)),
                    _ => format!("/{at}"),
                },
                None => String::new(),
            }
        }
        _ => String::new(),
    }
}
