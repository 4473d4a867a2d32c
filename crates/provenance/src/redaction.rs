//! Removes secrets from snapshots and their blobs.
//!
//! The rules for texts are those of [`runtime::redact`], which keep logs clean, and its masks:
//! evidence is also cleaned by names. A value is also recognised by its place: the member of an
//! object with the name of a secret, the argument after `--password`. A removed value is replaced
//! by `[REDACTED:kind]`; neither its hash nor its length is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use faces::provenance::document::{OFF, RedactionCount};
use runtime::redact::{Redactor, is_secret_name, secret_arguments, secrets_of_variable};
use serde_json::Value;

/// The version of the rules, recorded in each snapshot.
const VERSION: u32 = 7;
/// Minimum bytes of a variable's value to be searched for everywhere.
const MIN_KNOWN_BYTES: usize = 8;

/// Removes secrets and counts them.
pub struct Redaction {
    policy: Policy,
    known: Redactor,
    /// With [`Policy::Off`]: the only names and values to remove.
    alone: Vec<(String, String)>,
    kinds: Mutex<BTreeMap<String, u64>>,
}

/// A secret that lies across the pieces of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// A known value.
    Known,
    /// A text with the shape of a secret.
    Shape,
}

/// The values to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Everything that may be a secret.
    #[default]
    On,
    /// Only the values that this program uses as secrets itself. An explicit choice of the user.
    Off,
}

impl Default for Redaction {
    /// Without known values.
    fn default() -> Self {
        Self {
            policy: Policy::On,
            known: Redactor::masking(),
            alone: Vec::new(),
            kinds: Mutex::default(),
        }
    }
}

/// The prefixes of variables whose secrets the recording proxy forwards.
const OF_THE_PROXY: [&str; 2] = ["OPENAI_", "ANTHROPIC_"];

impl Redaction {
    /// A redaction that knows the secret of every variable: its value if the name is that of a
    /// secret, the password if it is an address.
    pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut redaction = Self::default();
        for (name, value) in variables {
            for (name, secret) in secrets_of_variable(&name, &value) {
                redaction.know(&name, &secret);
            }
        }
        redaction
    }

    /// A redaction that removes only the keys of models' servers and the values it
    /// [learns](Self::know).
    pub fn off(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut redaction = Self {
            policy: Policy::Off,
            known: Redactor::of_known_alone([]),
            ..Self::default()
        };
        for (name, value) in variables {
            let is_of_proxy = OF_THE_PROXY.iter().any(|begin| name.starts_with(begin));
            if is_of_proxy && is_secret_name(&name) {
                redaction.know(&name, &value);
            }
        }
        redaction
    }

    /// The redaction of a snapshot's policy.
    pub fn of_policy(
        policy: Policy,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        match policy {
            Policy::On => Self::of_environment(variables),
            Policy::Off => Self::off(variables),
        }
    }

    /// The same with its counts reset.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self {
            policy: self.policy,
            known: self.known.clone(),
            alone: self.alone.clone(),
            kinds: Mutex::default(),
        }
    }

    /// Learns a value, by the name that will replace it. A value too short to be distinguished from
    /// ordinary words, or one that is a document, is not searched for.
    pub fn know(&mut self, name: &str, value: &str) {
        if value.len() < MIN_KNOWN_BYTES {
            return;
        }
        match self.policy {
            Policy::On => {
                if let Ok(known) = self.known.knowing(name, value) {
                    self.known = known;
                }
            }
            Policy::Off if self.alone.iter().any(|(_, known)| known == value) => {}
            Policy::Off => {
                self.alone.push((name.to_owned(), value.to_owned()));
                let alone = self.alone.iter();
                let alone = alone.map(|(name, value)| (name.as_str(), value.as_str()));
                self.known = Redactor::of_known_alone(alone);
            }
        }
    }

    /// A text without secrets.
    pub fn text(&self, text: &str) -> String {
        let redacted = self.known.text(text).into_owned();
        self.tally(&new_marks(text, &redacted));
        redacted
    }

    /// The result of [`bytes`](Self::bytes), and the removed values by kind. They are not counted
    /// until the caller [tallies](Self::tally) them.
    pub fn sifted(&self, bytes: &[u8]) -> (Vec<u8>, BTreeMap<String, u64>) {
        let redacted = match std::str::from_utf8(bytes) {
            Ok(text) => self.known.text(text).into_owned().into_bytes(),
            Err(_) => self.no_text(bytes),
        };
        if redacted == bytes {
            return (redacted, BTreeMap::new());
        }
        let [before, after] = [bytes, &redacted].map(String::from_utf8_lossy);
        let taken = taken_out(&before, &after);
        (redacted, taken)
    }

    /// Whether a secret lies across the pieces of a text.
    pub fn across(&self, pieces: &[String]) -> Option<Across> {
        let whole = pieces.concat();
        let clean = self.known.text(&whole);
        if pieces.len() < 2 || clean == whole {
            return None;
        }
        let each = pieces.iter().map(|piece| self.known.text(piece));
        let separately: String = each.collect();
        if clean == separately {
            return None;
        }
        let new = new_marks(&separately, &clean);
        let is_known = |kind: &String| self.restored(&format!("[REDACTED:{kind}]")).is_some();
        if new.keys().any(is_known) {
            Some(Across::Known)
        } else {
            Some(Across::Shape)
        }
    }

    /// Counts removed values.
    pub fn tally(&self, taken: &BTreeMap<String, u64>) {
        if taken.is_empty() {
            return;
        }
        let mut counted = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in taken {
            *counted.entry(kind.clone()).or_default() += count;
        }
    }

    /// A text with its named secrets restored; `None` where it contained another.
    pub fn restored(&self, text: &str) -> Option<String> {
        self.known.restored(text)
    }

    /// Bytes without secrets, including bytes that are not text.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let (redacted, taken) = self.sifted(bytes);
        self.tally(&taken);
        redacted
    }

    fn no_text(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.known.stream();
        let mut redacted = stream.push_bytes(bytes);
        redacted.extend(stream.finish_bytes());
        redacted
    }

    /// A value without secrets: in every text, and every text under the name of a secret.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => {
                // Among arguments, the one after `--password` is a secret.
                let secrets = match self.policy {
                    Policy::On => secret_arguments(items.iter().map(Value::as_str)),
                    Policy::Off => Vec::new(),
                };
                for (at, from) in secrets {
                    if let Some(Value::String(text)) = items.get_mut(at) {
                        let mut secret = text.split_off(from);
                        self.take(&mut secret);
                        text.push_str(&secret);
                    }
                }
                items.iter_mut().for_each(|item| self.value(item));
            }
            Value::Object(members) => {
                let taken = std::mem::take(members).into_iter();
                *members = taken
                    .map(|(name, mut member)| {
                        match &mut member {
                            Value::String(text)
                                if self.policy == Policy::On && is_secret_name(&name) =>
                            {
                                self.take(text);
                            }
                            member => self.value(member),
                        }
                        (self.text(&name), member)
                    })
                    .collect();
            }
        }
    }

    /// Replaces a whole text that its place marks as a secret.
    fn take(&self, text: &mut String) {
        if !text.is_empty() && !is_mark(text) {
            self.tally(&BTreeMap::from([("field".to_owned(), 1)]));
            *text = "[REDACTED:field]".to_owned();
        }
    }

    /// The counts of removed values, in the form of a snapshot.
    pub fn counted(&self) -> RedactionCount {
        let kinds = self
            .kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        RedactionCount {
            policy: match self.policy {
                Policy::On => "on",
                Policy::Off => OFF,
            }
            .to_owned(),
            version: VERSION,
            count: kinds.values().sum(),
            kinds,
            files: BTreeMap::new(),
        }
    }
}

/// The values that redaction removed from a text, by kind. Never empty: even if the text already
/// contained such a mark, it was changed.
pub fn taken_out(before: &str, after: &str) -> BTreeMap<String, u64> {
    let mut taken = new_marks(before, after);
    if taken.is_empty() {
        taken.insert("field".to_owned(), 1);
    }
    taken
}

/// The marks that a text has gained, by kind.
fn new_marks(before: &str, after: &str) -> BTreeMap<String, u64> {
    const MARK: &str = "[REDACTED";
    if before == after {
        return BTreeMap::new();
    }
    let kinds = |text: &str| {
        let mut kinds = BTreeMap::<String, u64>::new();
        for rest in text.split(MARK).skip(1) {
            let kind = rest.split(']').next().unwrap_or_default();
            let kind = kind.strip_prefix(':').unwrap_or("shape");
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
        kinds
    };
    let known = kinds(before);
    let mut new = kinds(after);
    new.retain(|kind, count| {
        *count = count.saturating_sub(known.get(kind).copied().unwrap_or(0));
        *count > 0
    });
    new
}

/// Whether a text is a single redaction mark.
fn is_mark(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t', '"', '\'']);
    text.starts_with("[REDACTED") && text.find(']') == Some(text.len() - 1)
}

#[cfg(test)]
mod tests;
