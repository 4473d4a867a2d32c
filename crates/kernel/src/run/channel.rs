//! Channel values: how each reducer folds a write.

use serde_json::{Map, Value, json};

use crate::control::schema;
use crate::definition::{Channel, Reducer};
use crate::limits::DEFAULT_CHANNEL_ENTRIES;
use crate::time::Timestamp;

/// A write that its channel rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The value does not fit the reducer.
    WrongShape(&'static str),
    /// The value would be larger than the channel's `maxSize`.
    TooLarge,
    /// The sum exceeds the largest finite number.
    NotFinite,
    /// The value violates the channel's `schema`, at this place.
    BreaksSchema(String),
}

impl Refused {
    /// The reason for a person; contains nothing of the written value.
    pub fn message(&self, channel: &str) -> String {
        match self {
            Self::WrongShape(shape) => format!("channel {channel} takes {shape}"),
            Self::TooLarge => {
                format!("the write would make channel {channel} larger than maxSize")
            }
            Self::NotFinite => format!(
                "the write would make the sum of channel {channel} larger than any number; write \
                 smaller ones"
            ),
            Self::BreaksSchema(rule) => format!(
                "the write would break the rule {rule} of the schema of channel {channel}; write \
                 what fits it"
            ),
        }
    }
}

/// Whether a value has the shape that its reducer takes.
fn check_shape(
    reducer: &Reducer,
    channel: Option<&Channel>,
    current: Option<&Value>,
    value: &Value,
) -> Result<(), Refused> {
    let shape = match reducer {
        Reducer::Merge if !value.is_object() => Some("an object"),
        Reducer::Counter if !value.is_number() => Some("a number"),
        Reducer::Votes if !has(value, "userId") => Some("an object with userId and action"),
        Reducer::Message if !has(value, "messageId") => {
            Some("an object with messageId, role and content")
        }
        _ => None,
    };
    if let Some(shape) = shape {
        return Err(Refused::WrongShape(shape));
    }
    let bounded = matches!(reducer, Reducer::Replace | Reducer::Merge);
    if let (true, Some(max)) = (bounded, channel.and_then(|c| c.max_size)) {
        let after = reduce(reducer, channel, current, value, Timestamp(0));
        let len = match &after {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            Value::String(text) => text.len(),
            _ => 1,
        };
        if len > max {
            return Err(Refused::TooLarge);
        }
    }
    Ok(())
}

/// Whether a write fits its reducer, and whether the resulting value is allowed: a number for a
/// counter, and valid by the channel's `schema`. The schema applies to the value as the workflow
/// sees it, without the times of entries with a time-to-live.
///
/// # Errors
/// The fault of the write, or of the resulting value.
pub fn check(
    reducer: &Reducer,
    channel: Option<&Channel>,
    current: Option<&Value>,
    value: &Value,
    at: Timestamp,
) -> Result<(), Refused> {
    check_shape(reducer, channel, current, value)?;
    let schema = channel.and_then(|channel| channel.schema.as_ref());
    if schema.is_none() && *reducer != Reducer::Counter {
        return Ok(());
    }
    let mut after = reduce(reducer, channel, current, value, at);
    if *reducer == Reducer::Counter && !after.is_number() {
        return Err(Refused::NotFinite);
    }
    let Some(schema) = schema else { return Ok(()) };
    if channel.is_some_and(keeps_times)
        && let Some(entries) = after.as_array_mut()
    {
        for entry in entries {
            if entry.get("_ts").is_some()
                && let Some(value) = entry.get_mut("value")
            {
                *entry = value.take();
            }
        }
    }
    schema::validate(schema, &after).map_err(Refused::BreaksSchema)
}

fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(Value::is_string)
}

/// The value of a channel after a write. Total: a value that does not fit (which [`check`] rejects)
/// leaves the channel unchanged.
pub fn reduce(
    reducer: &Reducer,
    channel: Option<&Channel>,
    current: Option<&Value>,
    value: &Value,
    at: Timestamp,
) -> Value {
    let mut out = current
        .cloned()
        .unwrap_or_else(|| initial(reducer, channel));
    reduce_in_place(reducer, channel, &mut out, value, at);
    out
}

/// As [`reduce`], without a copy: a fold of many writes stays linear.
pub fn reduce_in_place(
    reducer: &Reducer,
    channel: Option<&Channel>,
    current: &mut Value,
    value: &Value,
    at: Timestamp,
) {
    match reducer {
        Reducer::Replace | Reducer::Vendor(_) => *current = value.clone(),
        Reducer::Counter => {
            let sum = match (current.as_i64(), value.as_i64()) {
                (Some(a), Some(b)) => a.checked_add(b).map(|n| json!(n)),
                _ => None,
            };
            let sum = sum.or_else(|| Some(json!(current.as_f64()? + value.as_f64()?)));
            if let Some(sum) = sum {
                *current = sum;
            }
        }
        Reducer::Merge => {
            if let (Some(to), Some(from)) = (object(current), value.as_object()) {
                for (key, value) in from {
                    to.insert(key.clone(), value.clone());
                }
            }
        }
        Reducer::Append | Reducer::Votes | Reducer::Feedback | Reducer::Message => {
            push_entry(reducer, channel, current, value, at);
        }
    }
}

/// Whether the entries of a channel are kept with the time of their write.
pub fn keeps_times(channel: &Channel) -> bool {
    let is_list = matches!(
        channel.reducer,
        Reducer::Append | Reducer::Votes | Reducer::Feedback | Reducer::Message
    );
    is_list && channel.ttl_ms.is_some_and(|ms| ms > 0)
}

/// The value of a channel before its first write.
pub fn initial(reducer: &Reducer, channel: Option<&Channel>) -> Value {
    if let Some(default) = channel.and_then(|c| c.default.clone()) {
        return default;
    }
    match reducer {
        Reducer::Replace | Reducer::Vendor(_) => Value::Null,
        Reducer::Counter => json!(0),
        Reducer::Merge => Value::Object(Map::new()),
        Reducer::Append | Reducer::Votes | Reducer::Feedback | Reducer::Message => {
            Value::Array(Vec::new())
        }
    }
}

fn object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    value.as_object_mut()
}

fn push_entry(
    reducer: &Reducer,
    channel: Option<&Channel>,
    current: &mut Value,
    value: &Value,
    at: Timestamp,
) {
    let Some(entries) = current.as_array_mut() else {
        return;
    };
    let ttl = channel.and_then(|c| c.ttl_ms).filter(|ms| *ms > 0);
    if let Some(ttl) = ttl {
        // Pruned when written, so that a fold never depends on when it is read.
        let oldest = at.0.saturating_sub(i64::try_from(ttl).unwrap_or(i64::MAX));
        entries
            .retain(|entry| entry.get("_ts").and_then(Value::as_i64).unwrap_or(i64::MAX) >= oldest);
    }
    let key = match reducer {
        Reducer::Votes => Some("userId"),
        Reducer::Message => Some("messageId"),
        _ => None,
    };
    let inner = |entry: &Value| -> Value {
        if ttl.is_some() {
            entry.get("value").cloned().unwrap_or(Value::Null)
        } else {
            entry.clone()
        }
    };
    if let Some(key) = key {
        let same = |entry: &Value| inner(entry).get(key) == value.get(key);
        if *reducer == Reducer::Message {
            if entries.iter().any(same) {
                return;
            }
        } else {
            entries.retain(|entry| !same(entry));
        }
    }
    entries.push(match ttl {
        Some(_) => json!({ "value": value, "_ts": at.0 }),
        None => value.clone(),
    });
    let max = channel
        .and_then(|c| c.max_size)
        .unwrap_or(DEFAULT_CHANNEL_ENTRIES);
    if entries.len() > max {
        entries.drain(..entries.len() - max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(reducer: &str, writes: &[Value]) -> Value {
        let reducer = Reducer::parse(reducer).expect("a reducer");
        let mut value = initial(&reducer, None);
        for (n, write) in writes.iter().enumerate() {
            reduce_in_place(&reducer, None, &mut value, write, Timestamp(n as i64));
        }
        value
    }

    #[test]
    fn each_reducer_folds_as_its_name_says() {
        let vote = |user: &str, action: &str| json!({ "userId": user, "action": action });
        let message = |id: &str, text: &str| json!({ "messageId": id, "content": text });
        let table = [
            ("replace", vec![json!(1), json!("b")], json!("b")),
            ("append", vec![json!(1), json!([2])], json!([1, [2]])),
            (
                "merge",
                vec![json!({"a": 1, "b": 1}), json!({"b": 2})],
                json!({"a": 1, "b": 2}),
            ),
            ("counter", vec![json!(2), json!(-5)], json!(-3)),
            ("counter", vec![json!(1), json!(0.5)], json!(1.5)),
            (
                "votes",
                vec![
                    vote("u", "accept"),
                    vote("v", "accept"),
                    vote("u", "reject"),
                ],
                json!([vote("v", "accept"), vote("u", "reject")]),
            ),
            (
                "feedback",
                vec![json!({"feedback": "x"})],
                json!([{"feedback": "x"}]),
            ),
            (
                "message",
                vec![message("1", "a"), message("1", "b")],
                json!([message("1", "a")]),
            ),
        ];
        for (reducer, writes, expected) in table {
            assert_eq!(fold(reducer, &writes), expected, "{reducer}");
        }
    }

    #[test]
    fn a_time_to_live_prunes_when_written() {
        let channel = Channel {
            reducer: Reducer::Append,
            default: None,
            max_size: None,
            ttl_ms: Some(200),
            schema_version: 1,
            compatible_with: Vec::new(),
            schema: None,
            access: Default::default(),
            sensitive: false,
            in_variable: false,
        };
        let mut value = json!([]);
        for (at, write) in [(0, "a"), (100, "b"), (301, "c")] {
            reduce_in_place(
                &Reducer::Append,
                Some(&channel),
                &mut value,
                &json!(write),
                Timestamp(at),
            );
        }
        assert_eq!(value, json!([{ "value": "c", "_ts": 301 }]));
    }
}
