//! Takes secrets out of what goes into a snapshot and the blobs beside it.
//!
//! The rules for texts are those of [`runtime::redact`], by which logs are kept clean. Above them it
//! knows what a value is by its place: the member of an object that is called like a secret, the
//! argument behind `--password`. In a log these stay, as they are the data of a workflow. What is
//! taken out leaves `[REDACTED:kind]` behind; neither its hash nor its length is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use faces::provenance::document::RedactionCount;
use runtime::redact::{
    Redactor, is_secret_member, is_secret_option, secrets_of_variable, told_on_command_line,
};
use serde_json::Value;

/// The version of the rules; it stands in each snapshot.
const VERSION: u32 = 6;
/// Bytes that the value of a variable has at least to be looked for everywhere.
const MIN_KNOWN_BYTES: usize = 8;

/// Takes secrets out and counts what it took.
#[derive(Default)]
pub struct Redaction {
    known: Redactor,
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Redaction {
    /// One that knows what is secret of every variable: its value where it is called like a secret, the
    /// password where it is an address.
    pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut redaction = Self::default();
        for (name, value) in variables {
            for (name, secret) in secrets_of_variable(&name, &value) {
                redaction.know(&name, &secret);
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
        let redacted = self.known.text(text).into_owned();
        self.tally(&new_marks(text, &redacted));
        redacted
    }

    /// What [`bytes`](Self::bytes) gives, and what was taken out of it by kind, which is not counted
    /// until somebody [tallies](Self::tally) it.
    pub fn sifted(&self, bytes: &[u8]) -> (Vec<u8>, BTreeMap<String, u64>) {
        let redacted = match std::str::from_utf8(bytes) {
            Ok(text) => self.known.text(text).into_owned().into_bytes(),
            Err(_) => self.no_text(bytes),
        };
        if redacted == bytes {
            return (redacted, BTreeMap::new());
        }
        let [before, after] = [bytes, &redacted].map(String::from_utf8_lossy);
        let mut taken = new_marks(&before, &after);
        if taken.is_empty() {
            // A value that had such a mark in it already: it is not the same for all that.
            taken.insert("field".to_owned(), 1);
        }
        (redacted, taken)
    }

    /// Counts what was taken out.
    pub fn tally(&self, taken: &BTreeMap<String, u64>) {
        if taken.is_empty() {
            return;
        }
        let mut counted = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in taken {
            *counted.entry(kind.clone()).or_default() += count;
        }
    }

    /// A text with the secrets it was told by their names; `None` where another stood in it.
    pub fn restored(&self, text: &str) -> Option<String> {
        self.known.restored(text)
    }

    /// Bytes without secrets; those that are no text, too.
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

    /// A value without secrets: in every text, and every text under a name that stands for one.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => {
                // Of arguments, the one behind `--password` is it, and what a program takes for one.
                for place in told_on_command_line(items) {
                    if let Some(Value::String(text)) = items.get_mut(place) {
                        self.take(text);
                    }
                }
                let mut is_asked_for = false;
                for item in items {
                    match item {
                        Value::String(text) if is_asked_for && !text.starts_with('-') => {
                            self.take(text);
                            is_asked_for = false;
                        }
                        item => {
                            is_asked_for = item.as_str().is_some_and(is_secret_option);
                            self.value(item);
                        }
                    }
                }
            }
            Value::Object(members) => {
                let taken = std::mem::take(members).into_iter();
                *members = taken
                    .map(|(name, mut member)| {
                        match &mut member {
                            Value::String(text) if is_secret_member(&name) => self.take(text),
                            member => self.value(member),
                        }
                        (self.text(&name), member)
                    })
                    .collect();
            }
        }
    }

    /// Takes the whole of a text that is a secret by where it stands.
    fn take(&self, text: &mut String) {
        if !text.is_empty() && !is_mark(text) {
            self.tally(&BTreeMap::from([("field".to_owned(), 1)]));
            *text = "[REDACTED:field]".to_owned();
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
            files: BTreeMap::new(),
        }
    }
}

/// What stands in a text now in the place of secrets and did not before, by kind.
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

/// Whether a secret was taken out here, and nothing else stands beside it.
fn is_mark(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t', '"', '\'']);
    text.starts_with("[REDACTED") && text.find(']') == Some(text.len() - 1)
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
    fn quotes_are_taken_up_to_their_end_and_names_may_go_on_before_them() {
        for (text, expected) in [
            (r#"DB_PASSWORD="hunterQ1""#, r#"DB_PASSWORD="*""#),
            (r#"password: "hunterQ2""#, r#"password: "*""#),
            (r"api_key = 'x'", r"api_key = '*'"),
            (r#"export API_KEY="a b""#, r#"export API_KEY="*""#),
            (
                "run AWS_SECRET_ACCESS_KEY=a/b+c now",
                "run AWS_SECRET_ACCESS_KEY=* now",
            ),
            ("SECRET_KEY=abc", "SECRET_KEY=*"),
            ("TOKEN=ab,cd;ef", "TOKEN=*"),
            ("login pwd=abc;x", "login pwd=*;x"),
            (r#"{"dbPassword":"abc"}"#, r#"{"dbPassword":"*"}"#),
            (r#"{"clientSecret":"abc"}"#, r#"{"clientSecret":"*"}"#),
            (r#"{"password":"x hunterQ5"}"#, r#"{"password":"*"}"#),
            (
                r#"{"password":"ab,hunterQ9","b":1}"#,
                r#"{"password":"*","b":1}"#,
            ),
            (
                r#"{"password":"a\"b c\\","b":"c"}"#,
                r#"{"password":"*","b":"c"}"#,
            ),
            (
                r#"{\"token\":\"a\\\"b c\",\"b\":\"c\"}"#,
                r#"{\"token\":\"*\",\"b\":\"c\"}"#,
            ),
            ("/x?access_key=abc&y=1", "/x?access_key=*&y=1"),
            ("/x?auth=abc", "/x?auth=*"),
            ("/x?session=abc#y", "/x?session=*#y"),
            ("/x?y=1&sig=a%2Fb", "/x?y=1&sig=*"),
        ] {
            check(text, &expected.replace('*', "[REDACTED:field]"));
        }
        for (text, expected) in [
            (
                "see proxy-authorization=abc now",
                "see proxy-authorization=* now",
            ),
            (r#"Cookie: a="b"; c=d"#, "Cookie: *"),
            (r#"-H "Cookie: a=b; c=d" /x"#, r#"-H "Cookie: *" /x"#),
        ] {
            check(text, &expected.replace('*', "[REDACTED:header]"));
        }
        // What stands behind a secret that was taken out may be one.
        let text = Redaction::default().text("Cookie: [REDACTED]; s=hunterQB");
        assert_eq!(text, "Cookie: [REDACTED:header]");
    }

    #[test]
    fn the_argument_behind_an_option_is_a_secret() {
        let mut value = json!(["login", "--db-password", "abc", "--token", "--user", "me"]);
        let redaction = Redaction::default();
        redaction.value(&mut value);
        let expected = [
            "login",
            "--db-password",
            "[REDACTED:field]",
            "--token",
            "--user",
            "me",
        ];
        assert_eq!(value, json!(expected));
        assert_eq!(redaction.counted().count, 1);
    }

    #[test]
    fn what_a_program_takes_for_a_password_is_one_in_a_list_of_arguments() {
        for (mut value, expected) in [
            (
                json!(["/usr/bin/sshpass", "-p", "sesame", "ssh", "ada@h"]),
                json!(["/usr/bin/sshpass", "-p", "[REDACTED:field]", "ssh", "ada@h"]),
            ),
            (
                json!(["mysql", "-u", "root", "-psesame", "shop"]),
                json!(["mysql", "-u", "root", "[REDACTED:field]", "shop"]),
            ),
            (
                json!(["curl", "-u", "ada:sesame", "https://h"]),
                json!(["curl", "-u", "[REDACTED:field]", "https://h"]),
            ),
            (
                json!(["tar", "-p", "sesame", 1]),
                json!(["tar", "-p", "sesame", 1]),
            ),
        ] {
            Redaction::default().value(&mut value);
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn of_an_address_in_a_variable_the_password_is_known() {
        let variables = [
            ("DATABASE_URL", "postgres://ada:planted-1@db/shop"),
            ("STRIPE_KEY", "planted-in-key-2"),
            ("SHOP_PASS", "open-sesame"),
            ("WF_ATTEMPT_KEY", "run-1f2e3d4c"),
            ("NODE_ENV", "production"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let redaction = Redaction::of_environment(variables);
        assert_eq!(
            redaction.text("planted-1 planted-in-key-2 open-sesame run-1f2e3d4c production"),
            "[REDACTED:DATABASE_URL.password] [REDACTED:STRIPE_KEY] [REDACTED:SHOP_PASS] run-1f2e3d4c production"
        );
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        for text in [
            "max_tokens: 4096, tokens_input=2000",
            "the password is checked: it must be long",
            "https://host:8080/a@b and http://[::1]:80/",
            "authorised by the author",
            "let token = next();\nlet cookie = jar.get(name);",
            r#"{"label":"Password:","b":1} input("password: ")"#,
            "PWD=/srv/shop OLDPWD=~/x",
            "/x?design=1&config=2",
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
        let (_, taken) = redaction.sifted(b"password=[REDACTED:field]planted-1");
        assert_eq!(taken, BTreeMap::from([("field".to_owned(), 1)]));
        let (_, taken) = redaction.sifted(b"password=[REDACTED:field]");
        assert_eq!(taken, BTreeMap::new());
        let counted = redaction.counted();
        assert_eq!(
            (
                counted.count,
                counted.kinds["MY_TOKEN"],
                counted.kinds["field"]
            ),
            (4, 3, 1)
        );
    }
}
