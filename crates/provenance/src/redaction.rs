//! Takes secrets out of what goes into a snapshot and the blobs beside it.
//!
//! Above the shapes and known values of [`runtime::redact`] it knows names: a variable, a member,
//! a header or a parameter that is called like a secret has one. What is taken out leaves
//! `[REDACTED:kind]` behind; neither its hash nor its length is kept.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use faces::provenance::document::RedactionCount;
use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use runtime::redact::{Redactor, is_secret_name};
use serde_json::Value;

/// The version of the rules; it stands in each snapshot.
const VERSION: u32 = 2;
/// Bytes that the value of a variable has at least to be looked for everywhere.
const MIN_KNOWN_BYTES: usize = 8;
/// Patterns whose first group is a secret, and what it is called.
const PATTERNS: [(&str, &str); 3] = [
    (
        "header",
        r#"(?i)\b(?:proxy-authorization|authorization|set-cookie|cookie|x-api-key)\\*["']?[ \t]*:[ \t]*\\*["']?([^\r\n"'\\]+)"#,
    ),
    // A member, a form field or a parameter.
    (
        "field",
        r#"(?i)(?:\b|_)(?:[a-z0-9]*token|api[_\-]?key|secret|password|passwd|credentials?|private[_\-]?key|dsn)(?:\\*["'][ \t]*[:=][ \t]*\\*["']|=)([^\s"'\\&;,}]+)"#,
    ),
    // A line of YAML or of an ini file.
    (
        "field",
        r#"(?im)^[ \t]*[a-z0-9_\-]*(?:token|api[_\-]?key|secret|password|passwd|credentials?|private[_\-]?key|dsn)[ \t]*[:=][ \t]*([^\s"'\\&;,}]+)[ \t]*\r?$"#,
    ),
];

static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let patterns: Vec<&str> = PATTERNS.iter().map(|(_, pattern)| *pattern).collect();
    let built = Regex::builder().syntax(syntax).build_many(&patterns);
    built.expect("patterns that are made here compile")
});

/// Takes secrets out and counts what it took.
#[derive(Default)]
pub struct Redaction {
    known: Redactor,
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Redaction {
    /// One that knows the value of every variable that is called like a secret.
    pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut redaction = Self::default();
        for (name, value) in variables {
            if is_secret_name(&name) {
                redaction.know(&name, &value);
            }
        }
        redaction
    }

    /// Learns a value, by the name that will stand in its place. One that is too short to be told
    /// from ordinary words, or no secret but a document, is not looked for.
    pub fn know(&mut self, name: &str, value: &str) {
        if value.len() >= MIN_KNOWN_BYTES
            && let Ok(known) = self.known.knowing(name, value)
        {
            self.known = known;
        }
    }

    /// A text without secrets.
    pub fn text(&self, text: &str) -> String {
        let redacted = self.named(&self.known.text(text));
        self.count(text, &redacted);
        redacted
    }

    /// Bytes without secrets; those that are no text lose only values and shapes that are known.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text).into_bytes(),
            Err(_) => {
                let mut stream = self.known.stream();
                let mut redacted = stream.push_bytes(bytes);
                redacted.extend(stream.finish_bytes());
                redacted
            }
        }
    }

    /// A value without secrets: in every text, and every text under a name that stands for one.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                let taken = std::mem::take(members).into_iter();
                *members = taken
                    .map(|(name, mut member)| {
                        match &mut member {
                            Value::String(text) if is_secret_member(&name) && !text.is_empty() => {
                                if !text.starts_with("[REDACTED") {
                                    self.count("", "[REDACTED:field]");
                                    *text = "[REDACTED:field]".to_owned();
                                }
                            }
                            member => self.value(member),
                        }
                        (self.text(&name), member)
                    })
                    .collect();
            }
        }
    }

    /// What was taken out so far, as a snapshot says it.
    pub fn counted(&self) -> RedactionCount {
        let kinds = self
            .kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        RedactionCount {
            policy: "on".to_owned(),
            version: VERSION,
            count: kinds.values().sum(),
            kinds,
        }
    }

    fn named(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut captures: Captures = NAMED.create_captures();
        let mut from = 0;
        while from <= text.len() {
            let input = regex_automata::Input::new(text).range(from..);
            NAMED.search_captures(&input, &mut captures);
            let (Some(found), Some(secret)) = (captures.get_match(), captures.get_group(1)) else {
                break;
            };
            let kind = PATTERNS[found.pattern().as_usize()].0;
            if !text[secret.start..].starts_with("[REDACTED") {
                out.push_str(&text[at..secret.start]);
                out.push_str(&format!("[REDACTED:{kind}]"));
                at = secret.end;
            }
            from = secret.end.max(found.start() + 1);
        }
        out.push_str(&text[at..]);
        out
    }

    /// Counts what stands in a text now and did not before.
    fn count(&self, before: &str, after: &str) {
        const MARK: &str = "[REDACTED";
        if before == after {
            return;
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
        let mut counted = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in kinds(after) {
            let new = count.saturating_sub(known.get(&kind).copied().unwrap_or(0));
            if new > 0 {
                *counted.entry(kind).or_default() += new;
            }
        }
    }
}

/// Whether a member of this name holds a secret: its last word says so. `max_tokens` does not.
fn is_secret_member(name: &str) -> bool {
    const ENDS: [&str; 10] = [
        "token",
        "apikey",
        "api_key",
        "api-key",
        "secret",
        "password",
        "passwd",
        "credential",
        "authorization",
        "cookie",
    ];
    let name = name.to_ascii_lowercase();
    ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let redaction = Redaction::default();
        assert_eq!(redaction.text(text), expected);
        assert_eq!(redaction.text(expected), expected, "once is enough");
        assert_eq!(redaction.counted().count, u64::from(text != expected));
    }

    #[test]
    fn secrets_are_known_by_what_they_are_called() {
        check(
            "see https://me:pa55w0rd@host/x.",
            "see https://me:[REDACTED:url]@host/x.",
        );
        check("Cookie: a=b; c=d\nnext", "Cookie: [REDACTED:header]\nnext");
        check(
            "-H 'X-Api-Key: abc123'",
            "-H 'X-Api-Key: [REDACTED:header]'",
        );
        check(
            r#"{"password": "open"}"#,
            r#"{"password": "[REDACTED:field]"}"#,
        );
        check(
            r#"{\"client_secret\":\"open\"}"#,
            r#"{\"client_secret\":\"[REDACTED:field]\"}"#,
        );
        check("/x?api_key=abc&y=1", "/x?api_key=[REDACTED:field]&y=1");
        check(
            "user: me\ndb_password: open sesame",
            "user: me\ndb_password: open sesame",
        );
        check(
            "user: me\ndb_password: sesame\n",
            "user: me\ndb_password: [REDACTED:field]\n",
        );
        check(
            "DB_PASSWORD=sesame ./start",
            "DB_PASSWORD=[REDACTED:field] ./start",
        );
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        for text in [
            "max_tokens: 4096, tokens_input=2000",
            "the password is checked: it must be long",
            "https://host:8080/a@b and http://[::1]:80/",
            "authorised by the author",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn values_of_secret_variables_are_found_everywhere() {
        let variables = [
            ("MY_TOKEN", "correct-horse"),
            ("HOME", "/srv/me"),
            ("PIN_SECRET", "1234"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let redaction = Redaction::of_environment(variables);
        let mut value = json!({ "a": ["x correct-horse y", "/srv/me", "1234"], "token": "t",
                                "max_tokens": 3, "correct-horse": 1 });
        redaction.value(&mut value);
        let place = "[REDACTED:MY_TOKEN]";
        assert_eq!(
            value,
            json!({ "a": [format!("x {place} y"), "/srv/me", "1234"],
                    "token": "[REDACTED:field]", "max_tokens": 3, place: 1 })
        );
        let bytes = redaction.bytes(b"\xffcorrect-horse\xfe");
        assert_eq!(bytes, b"\xff[REDACTED:MY_TOKEN]\xfe");
        let counted = redaction.counted();
        assert_eq!(
            (
                counted.count,
                counted.kinds["MY_TOKEN"],
                counted.kinds["field"]
            ),
            (3, 2, 1)
        );
    }
}
