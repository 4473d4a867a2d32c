//! Complete streams of server-sent events.

use std::borrow::Cow;
use std::collections::BTreeMap;

use provenance::{Across, Redaction};
use serde_json::Value;

/// The data of each event that is JSON.
pub(super) fn events(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.filter_map(|data| serde_json::from_str(data.trim()).ok())
}

/// A line with an event of a model's answer.
pub(crate) struct Line {
    pub(crate) event: Value,
    /// Empty in a text with a JSON object per line.
    pub(crate) prefix: &'static str,
}

impl Line {
    /// The event of a line, if it has one.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (prefix, json) = match line.strip_prefix("data:") {
            Some(json) => ("data: ", json),
            None => ("", line),
        };
        // Other values have no pieces, and most lines of a text are not tried.
        let is_object = json.trim_start().starts_with('{');
        let event = is_object
            .then(|| serde_json::from_str(json).ok())
            .flatten()?;
        Some(Self { event, prefix })
    }

    /// The channel of its texts.
    fn channel(&self) -> String {
        format!("{}{}", self.prefix, channel(&self.event))
    }
}

/// The text with every secret in one piece. A model's output comes in pieces, and a secret may lie
/// across them: if it does, the first piece gets the whole text and the others become empty.
pub(crate) fn gathered<'a>(text: &'a str, redaction: &Redaction) -> Cow<'a, str> {
    let may_be_event = |line: &&str| line.starts_with("data:") || line.starts_with('{');
    if text.split('\n').filter(may_be_event).nth(1).is_none() {
        return Cow::Borrowed(text);
    }
    let lines: Vec<(&str, Option<Line>)> = text
        .split('\n')
        .map(|line| {
            (
                line,
                may_be_event(&line).then(|| Line::parse(line)).flatten(),
            )
        })
        .collect();
    let mut pieces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.iter().filter_map(|(_, line)| line.as_ref()) {
        each_text(&line.event, &line.channel(), &mut |channel, text| {
            pieces
                .entry(channel.to_owned())
                .or_default()
                .push(text.to_owned());
        });
    }
    let mut whole: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (channel, pieces) in pieces {
        let is_across = match redaction.across(&pieces) {
            Some(Across::Known) => true,
            // Unrelated lines of a file may look like a secret one after the other.
            Some(Across::Shape) => channel.starts_with("data: "),
            None => false,
        };
        if is_across {
            whole.insert(channel, Some(pieces.concat()));
        }
    }
    if whole.is_empty() {
        return Cow::Borrowed(text);
    }
    let lines = lines.into_iter().map(|(text, line)| {
        let Some(mut line) = line else {
            return text.to_owned();
        };
        let (before, channel) = (line.event.clone(), line.channel());
        replace_texts(&mut line.event, &channel, &mut whole);
        if line.event == before {
            text.to_owned()
        } else {
            format!("{}{}", line.prefix, line.event)
        }
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
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
