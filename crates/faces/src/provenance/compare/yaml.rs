//! Parses YAML into a value, within bounds, as far as JSON can represent it.

use std::collections::BTreeMap;

use kernel::limits::MAX_JSON_DEPTH;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value, json};

/// Maximum bytes of a text.
const MAX_BYTES: usize = 1 << 20;
/// Maximum parts of a value, including those that aliases repeat.
const MAX_PARTS: usize = 1 << 18;

/// Parses a text into a value; several documents become a list. `None` where it is invalid YAML, or
/// too large.
pub(super) fn parse(text: &str) -> Option<Value> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        reader.take(event.ok()?.0)?;
    }
    let mut documents = reader.documents;
    match documents.len() {
        0 => None,
        1 => documents.pop(),
        _ => Some(Value::Array(documents)),
    }
}

/// A bare text that is certainly YAML: marked as a document, or nested members with names in the
/// style of programs. A paragraph after `Note:` does not count, nor does a list in a text.
pub(super) fn bare(text: &str) -> Option<Value> {
    let is_comment = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let first = text.lines().find(is_comment)?;
    let is_marked = first.trim_end() == "---";
    let name = first.split(':').next().unwrap_or_default();
    let is_entry = first.contains(':') && is_name(name);
    if !is_marked && !is_entry {
        return None;
    }
    let value = parse(text)?;
    let holds = |value: &Value| value.is_object() || value.is_array();
    let is_data = match &value {
        Value::Object(members) if is_marked => !members.is_empty(),
        Value::Object(members) => {
            members.keys().all(|name| is_name(name)) && members.values().any(holds)
        }
        Value::Array(items) => is_marked && items.iter().all(Value::is_object),
        _ => false,
    };
    is_data.then_some(value)
}

/// Whether a key looks like one of a program.
fn is_name(key: &str) -> bool {
    let key = key.trim_matches(['"', '\'']);
    let begins = key.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    begins && !key.contains(char::is_whitespace)
}

/// An open value while a document is read.
enum Open {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

/// An open value.
struct Level {
    open: Open,
    anchor: usize,
    tag: Option<String>,
    /// The number of parts at its beginning.
    from: usize,
}

#[derive(Default)]
struct Reader {
    levels: Vec<Level>,
    /// Values for aliases, each with its number of parts.
    anchors: BTreeMap<usize, (Value, usize)>,
    parts: usize,
    documents: Vec<Value>,
}

impl Reader {
    /// `None` ends it.
    fn take(&mut self, event: Event<'_>) -> Option<()> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Some(()),
            Event::Alias(anchor) => {
                let (value, parts) = self.anchors.get(&anchor)?;
                self.parts = self.parts.checked_add(*parts)?;
                let value = (self.parts <= MAX_PARTS).then(|| value.clone())?;
                self.put(value)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let value = match tag.as_deref() {
                    None if is_plain => plain(&text),
                    Some(tag) if tag.is_yaml_core_schema() && tag.suffix != "str" => plain(&text),
                    _ => Value::String(text.into_owned()),
                };
                let value = tagged(tag.as_deref().and_then(own), value);
                self.count()?;
                self.keep(anchor, &value, 1);
                self.put(value)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Open::List(Vec::new()), anchor, tag.as_deref())
            }
            Event::MappingStart(anchor, tag) => {
                self.open(Open::Object(Map::new(), None), anchor, tag.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let level = self.levels.pop()?;
                let value = match level.open {
                    Open::List(items) => Value::Array(items),
                    Open::Object(members, _) => Value::Object(members),
                };
                let value = tagged(level.tag, value);
                self.keep(level.anchor, &value, self.parts - level.from);
                self.put(value)
            }
        }
    }

    fn count(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= MAX_PARTS).then_some(())
    }

    fn open(&mut self, open: Open, anchor: usize, tag: Option<&Tag>) -> Option<()> {
        let from = self.parts;
        self.count()?;
        self.levels.push(Level {
            open,
            anchor,
            tag: tag.and_then(own),
            from,
        });
        (self.levels.len() <= MAX_JSON_DEPTH).then_some(())
    }

    fn keep(&mut self, anchor: usize, value: &Value, parts: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), parts));
        }
    }

    /// Adds a value to the innermost open one. A duplicate key is an error.
    fn put(&mut self, value: Value) -> Option<()> {
        match self.levels.last_mut().map(|level| &mut level.open) {
            None => self.documents.push(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object(members, key)) => match key.take() {
                None => {
                    *key = Some(match value {
                        Value::String(text) => text,
                        other => other.to_string(),
                    });
                }
                Some(key) => {
                    if members.insert(key, value).is_some() {
                        return None;
                    }
                }
            },
        }
        Some(())
    }
}

/// The name of a tag that is not YAML's own.
fn own(tag: &Tag) -> Option<String> {
    (!tag.is_yaml_core_schema() && !tag.suffix.is_empty())
        .then(|| format!("{}{}", tag.handle, tag.suffix))
}

/// A value under the name of its tag, which is part of its meaning.
fn tagged(tag: Option<String>, value: Value) -> Value {
    match tag {
        Some(tag) => json!({ tag: value }),
        None => value,
    }
}

/// A scalar without quotes, by the core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let whole = match text.get(..2) {
        Some("0o") => i64::from_str_radix(&text[2..], 8).ok(),
        Some("0x") => i64::from_str_radix(&text[2..], 16).ok(),
        _ => text.parse().ok(),
    };
    if let Some(whole) = whole {
        return Value::from(whole);
    }
    let is_number = text.contains(|c: char| c.is_ascii_digit())
        && text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    let number = text.parse().ok().filter(|_| is_number);
    let number = number.and_then(Number::from_f64);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_read_like_the_same_json() {
        for (text, expected) in [
            (
                "a: 1\nb: [x, 'y', \"z\"]\nc:\n  - d: ~\n  - 2.50\n",
                json!({ "a": 1, "b": ["x", "y", "z"], "c": [{ "d": null }, 2.5] }),
            ),
            (
                "a: 0x1f\nb: '1'\nc: 1.2.3\nd: |\n  e\n  f\n",
                json!({ "a": 31, "b": "1", "c": "1.2.3", "d": "e\nf\n" }),
            ),
            (
                "a: &x {b: 1}\nc: *x\n",
                json!({ "a": { "b": 1 }, "c": { "b": 1 } }),
            ),
            (
                "1: yes\ntrue: 2024-01-01\n",
                json!({ "1": "yes", "true": "2024-01-01" }),
            ),
            (
                "a: !Ref b\nc: !!str 7\n",
                json!({ "a": { "!Ref": "b" }, "c": "7" }),
            ),
            ("--- {a: 1}\n--- {b: 2}\n", json!([{ "a": 1 }, { "b": 2 }])),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for none in ["a: 1\na: 2", "a: [", "a: *gone", "", "a: b: c"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }

    #[test]
    fn unbounded_expansion_is_rejected() {
        let laughs: String = (1..40)
            .map(|n| {
                format!(
                    "l{n}: &l{n} [{}]\n",
                    vec![format!("*l{}", n - 1); 9].join(", ")
                )
            })
            .collect();
        assert_eq!(parse(&format!("l0: &l0 [x]\n{laughs}")), None);
        assert_eq!(parse(&"[".repeat(100_000)), None);
        assert_eq!(parse(&"a: 1\n".repeat(MAX_BYTES / 4)), None);
    }

    #[test]
    fn prose_is_not_yaml() {
        for data in [
            "name: ci\non: [push]\njobs:\n  test:\n    steps:\n      - run: x\n",
            "# What is wanted\napiVersion: v1\nspec: {a: 1}\n",
            "---\nAny: x\n",
        ] {
            assert!(bare(data).is_some(), "{data}");
        }
        for prose in [
            "Note: this is done.",
            "Summary: done\nSteps:\n- one\n- two\n",
            "- one\n- two: three\n",
            "result: the tests pass",
            "plain words",
            "---\nplain words\n",
            "---\ntitle: x\n---\n# A page\n\nwith words\n",
        ] {
            assert!(bare(prose).is_none(), "{prose}");
        }
    }
}
