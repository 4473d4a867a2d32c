//! Complete streams of server-sent events.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clean::Cleaner;

/// The data of each event that is JSON.
pub(super) fn events(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.filter_map(|data| serde_json::from_str(data.trim()).ok())
}

/// A stream without secrets. A model's output comes in pieces, and a secret may cross them: texts
/// that belong together are joined. If the joined text contains a secret, its first piece gets the
/// whole clean text and the others become empty.
pub(crate) fn clean_stream(text: &str, cleaner: &Cleaner) -> String {
    let lines: Vec<(&str, Option<Value>)> = text
        .split('\n')
        .map(|line| {
            let data = line.strip_prefix("data:").map(str::trim);
            (line, data.and_then(|data| serde_json::from_str(data).ok()))
        })
        .collect();
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for value in lines.iter().filter_map(|(_, value)| value.as_ref()) {
        each_text(value, &channel(value), &mut |channel, text| {
            joined.entry(channel.to_owned()).or_default().push_str(text);
        });
    }
    // Texts that occur once are cleaned separately.
    let mut replaced: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (channel, whole) in joined {
        let clean = cleaner.text(&whole);
        if clean != whole {
            replaced.insert(channel, Some(clean));
        }
    }
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    for (line, value) in lines {
        let Some(mut value) = value else {
            out.push(cleaner.text(line));
            continue;
        };
        let original = value.clone();
        let of = channel(&value);
        if !replaced.is_empty() {
            replace_texts(&mut value, &of, &mut replaced);
        }
        cleaner.value(&mut value);
        if value == original {
            out.push(line.to_owned())
        } else {
            out.push(format!("data: {value}"))
        }
    }
    out.join("\n")
}

/// The channel of a stream that an event's texts belong to.
fn channel(event: &Value) -> String {
    let mut channel = event["type"].as_str().unwrap_or_default().to_owned();
    for part in ["index", "output_index", "content_index", "item_id"] {
        if !event[part].is_null() {
            channel.push_str(&format!(";{part}={}", event[part]));
        }
    }
    channel
}

fn step(channel: &str, place: usize, item: &Value) -> String {
    let place = item["index"].as_u64().unwrap_or(place as u64);
    format!("{channel}/{place}")
}

fn each_text(value: &Value, channel: &str, take: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => take(channel, text),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                each_text(item, &step(channel, place, item), take);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                each_text(field, &format!("{channel}/{name}"), take);
            }
        }
        _ => {}
    }
}

fn replace_texts(
    value: &mut Value,
    channel: &str,
    replaced: &mut BTreeMap<String, Option<String>>,
) {
    match value {
        Value::String(text) => {
            if let Some(clean) = replaced.get_mut(channel) {
                *text = clean.take().unwrap_or_default();
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter_mut().enumerate() {
                let channel = step(channel, place, item);
                replace_texts(item, &channel, replaced);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                replace_texts(field, &format!("{channel}/{name}"), replaced);
            }
        }
        _ => {}
    }
}
