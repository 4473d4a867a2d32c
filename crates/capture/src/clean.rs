//! Removes secrets, and the path of the local working folder, from everything before it is hashed
//! or written.
//!
//! A recording is matched in its written form, so both sides of a replay are cleaned here (a digest
//! is always of redacted data, never of a raw secret). Cleaning is idempotent: a program that was
//! served a redacted answer sends it back unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use faces::provenance::document::RedactionCount;
use parking_lot::RwLock;
use provenance::Redaction;
use serde_json::{Value, json};

use crate::dialect::{Line, gathered};

/// The placeholder for the working folder in kept data.
pub const ROOT: &str = "[RUNWRIGHT:ROOT]";
/// Cleans data; cheap to clone. All clones share learned secrets.
#[derive(Clone)]
pub struct Cleaner(Arc<Inner>);

/// A content without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The cleaned content.
    pub bytes: Vec<u8>,
    /// The removed values, by kind.
    pub taken: BTreeMap<String, u64>,
    /// Whether values were removed that are all literal values of variables, not in an encoding
    /// such as that of an address or a quoted text: inserting them restores the original.
    pub is_verbatim: bool,
}

impl Content {
    /// The number of removed values.
    pub fn redacted(&self) -> u64 {
        self.taken.values().sum()
    }
}

struct Inner {
    roots: Vec<String>,
    redaction: RwLock<Redaction>,
}

impl Cleaner {
    /// Removes secrets by a redaction, and the working folder under each of its names. The first
    /// name is the one that is restored.
    pub fn new(redaction: Redaction, roots: &[&Path]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for root in roots {
            let text = root.to_string_lossy().trim_end_matches('/').to_owned();
            // A path as short as `/` or `/w` also occurs in unrelated texts.
            if text.len() >= 4 && !texts.contains(&text) {
                texts.push(text);
            }
        }
        Self(Arc::new(Inner {
            roots: texts,
            redaction: RwLock::new(redaction),
        }))
    }

    /// Learns one secret and its name. Short ones would be found everywhere and are not searched
    /// for.
    pub fn learn(&self, name: &str, value: &str) {
        self.0.redaction.write().know(name, value.trim());
    }

    /// A text without secrets, with the working folder by its placeholder.
    pub fn text(&self, text: &str) -> String {
        let placed = self.placed(text);
        let redaction = self.0.redaction.read();
        redaction.text(&gathered(&placed, &redaction))
    }

    /// The same for every text of a value; the text of a field with the name of a secret is removed
    /// as a whole.
    pub fn value(&self, value: &mut Value) {
        self.prepare(value);
        self.0.redaction.read().value(value);
    }

    fn placed<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut placed = Cow::Borrowed(text);
        for root in &self.0.roots {
            if placed.contains(root.as_str()) {
                placed = Cow::Owned(replace_path(&placed, root, ROOT));
            }
        }
        placed
    }

    /// A text in which no secret lies across the pieces of a model's answer.
    pub(crate) fn gathered<'a>(&self, text: &'a str) -> Cow<'a, str> {
        gathered(text, &self.0.redaction.read())
    }

    /// A stream of events without secrets, those that lie across its pieces included.
    pub(crate) fn stream(&self, text: &str) -> String {
        let gathered = self.gathered(text);
        let lines = gathered.split('\n').map(|line| match Line::parse(line) {
            Some(Line { event, prefix }) if !prefix.is_empty() => {
                let mut clean = event.clone();
                self.value(&mut clean);
                if clean == event {
                    line.to_owned()
                } else {
                    format!("data: {clean}")
                }
            }
            _ => self.text(line),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn prepare(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(placed) = self.placed(text) {
                    *text = placed;
                }
                if let Cow::Owned(gathered) = self.gathered(text) {
                    *text = gathered;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.prepare(item)),
            Value::Object(fields) => {
                if fields
                    .keys()
                    .any(|name| matches!(self.placed(name), Cow::Owned(_)))
                {
                    let old = std::mem::take(fields).into_iter();
                    let placed = old.map(|(name, field)| (self.placed(&name).into_owned(), field));
                    *fields = placed.collect();
                }
                fields.values_mut().for_each(|field| self.prepare(field));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Cleans the content of a file, text or binary.
    pub fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.text(text).into_bytes(),
            Err(_) => self.0.redaction.read().bytes(&bytes),
        }
    }

    /// The cleaned content of a file that may never be kept. A caller that keeps it also
    /// [tallies](Self::tally) the removed values.
    pub fn content(&self, bytes: Vec<u8>) -> Content {
        let placed = match std::str::from_utf8(&bytes) {
            Ok(text) => match self.placed(text) {
                Cow::Owned(placed) => placed.into_bytes(),
                Cow::Borrowed(_) => bytes,
            },
            Err(_) => bytes,
        };
        let redaction = self.0.redaction.read();
        let gathered = std::str::from_utf8(&placed).map(|text| gathered(text, &redaction));
        let (bytes, taken) = match gathered {
            Ok(Cow::Owned(gathered)) => redaction.sifted(gathered.as_bytes()),
            _ => redaction.sifted(&placed),
        };
        let is_verbatim = !taken.is_empty()
            && std::str::from_utf8(&bytes)
                .ok()
                .and_then(|clean| redaction.restored(clean))
                .is_some_and(|whole| whole.as_bytes() == placed);
        Content {
            bytes,
            taken,
            is_verbatim,
        }
    }

    /// Counts the values removed from kept data.
    pub fn tally(&self, taken: &BTreeMap<String, u64>) {
        self.0.redaction.read().tally(taken);
    }

    /// The output of a program as JSON: a text if it is valid text.
    pub fn output(&self, bytes: &[u8]) -> Value {
        output_of(&self.bytes(bytes.to_vec()))
    }

    /// A kept text with the local path of the working folder.
    pub fn restore(&self, text: &str) -> String {
        match self.0.roots.first() {
            Some(root) => text.replace(ROOT, root),
            None => text.to_owned(),
        }
    }

    /// A kept content with this machine's paths and the redacted values of variables, as they are
    /// now. `None` where one is unknown. All spellings of a value have the same mark, and the plain
    /// value is inserted: so only a [verbatim](Content::is_verbatim) content is restored exactly.
    pub fn restore_whole(&self, kept: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(kept).ok()?;
        let whole = self.restore(&self.restore_name(text)?).into_bytes();
        (self.content(whole.clone()).bytes == kept).then_some(whole)
    }

    /// The name of a file with its redacted secrets restored; `None` where one is unknown.
    pub(crate) fn restore_name(&self, name: &str) -> Option<String> {
        self.0.redaction.read().restored(name)
    }

    /// A kept value with the local path of the working folder, in every text.
    pub fn restore_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(ROOT) => *text = self.restore(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.restore_value(item)),
            Value::Object(fields) => fields
                .values_mut()
                .for_each(|field| self.restore_value(field)),
            _ => {}
        }
    }

    /// The bytes of an [`output`](Self::output), restored.
    pub fn restore_output(&self, output: &Value) -> Vec<u8> {
        match output {
            Value::String(text) => self.restore(text).into_bytes(),
            other => bytes_of(other),
        }
    }

    /// The content of a kept file, in the form to write again.
    pub fn restore_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(bytes) {
            Ok(text) => self.restore(&text).into_bytes(),
            Err(error) => error.into_bytes(),
        }
    }

    /// The counts of removed values, in the form of a snapshot.
    pub fn counted(&self) -> RedactionCount {
        self.0.redaction.read().counted()
    }
}

/// Bytes as JSON, unchanged: a text if they are valid text.
pub fn output_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// The bytes of a kept output.
pub fn bytes_of(output: &Value) -> Vec<u8> {
    match output {
        Value::String(text) => text.clone().into_bytes(),
        other => other["base64"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .unwrap_or_default(),
    }
}

/// Replaces a path where its name ends, not where it is a prefix of a longer name.
fn replace_path(text: &str, path: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find(path) {
        let (from, to) = (at + found, at + found + path.len());
        let mut after = text[to..].bytes();
        let goes_on = match after.next() {
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' => true,
            Some(b'.') => after
                .next()
                .is_some_and(|byte| byte.is_ascii_alphanumeric()),
            _ => false,
        };
        out.push_str(&text[at..from]);
        out.push_str(if goes_on { path } else { with });
        at = to;
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaner() -> Cleaner {
        let variables = [("SHOP_TOKEN".to_owned(), "correct-horse-9".to_owned())];
        let redaction = Redaction::of_environment(variables);
        Cleaner::new(redaction, &[Path::new("/srv/shop"), Path::new("/w")])
    }

    #[test]
    fn secrets_and_working_folder_are_removed_other_text_stays() {
        let cases = [
            ("say correct-horse-9!", "say [REDACTED:SHOP_TOKEN]!"),
            ("open /srv/shop/a.txt", "open [RUNWRIGHT:ROOT]/a.txt"),
            (
                "/srv/shopping and /srv/shop.",
                "/srv/shopping and [RUNWRIGHT:ROOT].",
            ),
            ("/srv/shop.bak /w/x", "/srv/shop.bak /w/x"),
        ];
        let cleaner = cleaner();
        for (text, expected) in cases {
            let clean = cleaner.text(text);
            assert_eq!(clean, expected);
            assert_eq!(cleaner.text(&clean), clean, "clean stays clean");
        }
        assert_eq!(cleaner.restore("in [RUNWRIGHT:ROOT]/a"), "in /srv/shop/a");
        cleaner.learn("header", "battery-staple");
        assert_eq!(cleaner.text("a battery-staple b"), "a [REDACTED:header] b");
    }

    #[test]
    fn values_are_cleaned_and_restored() {
        let cleaner = cleaner();
        let mut value = json!({ "a": ["correct-horse-9", "/srv/shop/b"], "/srv/shop": 1 });
        cleaner.value(&mut value);
        let place = "[RUNWRIGHT:ROOT]";
        let expected = json!({ "a": ["[REDACTED:SHOP_TOKEN]", format!("{place}/b")], place: 1 });
        assert_eq!(value, expected);
        cleaner.restore_value(&mut value);
        assert_eq!(value["a"][1], "/srv/shop/b");
    }

    #[test]
    fn bytes_that_are_no_text_come_back() {
        let cleaner = cleaner();
        let bytes = [0xff, 0xfe, b'a'];
        let output = cleaner.output(&bytes);
        assert_eq!(cleaner.restore_output(&output), bytes);
        let with = [&bytes[..], b"correct-horse-9"].concat();
        let clean = cleaner.restore_output(&cleaner.output(&with));
        assert!(!clean.windows(5).any(|part| part == b"horse"));
    }
}
