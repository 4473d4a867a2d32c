//! Masking by the name before a value, for display and in evidence.
//!
//! A name is only a guess, so masking never changes a node's inputs: a
//! [`Redactor`](super::Redactor) masks only if [`masking`](super::Redactor::masking) asked for it.
//! The names, in any case and with `-`, `_`, or a capital between their words:
//!
//! `password`, `passwd`, `passphrase`, `passcode`, `pwd`, `pass`, `secret`, `token`, `credential`,
//! `dsn`, `jwt`, and `key` after `api`, `app`, `application`, `access`, `account`, `client`,
//! `consumer`, `private`, `secret`, `sign`, `signing`, `encryption`, `auth`, `master`, `shared`,
//! `subscription`.
//!
//! A name counts at the end of a word (`DB_PASSWORD`, `clientSecret`), not within another
//! (`token_count`, `passwords`).

use std::ops::Range;

use super::Takes;
use super::shapes::{Shape, looks_random, random};

/// The ends of secrets' names.
const NAME: &str = r"(?:password|passwd|passphrase|passcode|pwd|(?:\b|[_\-])pass|secret|token|credentials?|dsn|jwt|(?:api|app|application|access|account|client|consumer|private|secret|sign(?:ing)?|encryption|auth|master|shared|subscription)[_\-]?key)";

/// Whether the name of a variable, member or parameter is that of a secret.
pub fn is_secret_name(name: &str) -> bool {
    const ENDS: [&str; 11] = [
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "secret",
        "token",
        "credential",
        "credentials",
        "dsn",
        "jwt",
    ];
    const KEYS: [&str; 16] = [
        "api",
        "app",
        "application",
        "access",
        "account",
        "client",
        "consumer",
        "private",
        "secret",
        "sign",
        "signing",
        "encryption",
        "auth",
        "master",
        "shared",
        "subscription",
    ];
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .collect();
    let plain = plain
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_ascii_lowercase();
    let is_ordinary = matches!(&*plain, "pwd" | "oldpwd");
    let is_key = plain
        .strip_suffix("key")
        .is_some_and(|of| KEYS.iter().any(|key| of.ends_with(key)));
    let last = name.rsplit(['_', '-', ' ']).next().unwrap_or_default();
    !is_ordinary
        && (is_key
            || ENDS.iter().any(|end| plain.ends_with(end))
            || last.eq_ignore_ascii_case("pass")
            || matches!(
                &*plain,
                "authorization" | "proxyauthorization" | "cookie" | "setcookie"
            ))
}

/// Parts of variable names whose values are never written down.
const PARTS: [&str; 12] = [
    "token",
    "apikey",
    "api_key",
    "secret",
    "password",
    "passwd",
    "credential",
    "auth",
    "cookie",
    "session",
    "private",
    "dsn",
];

/// Whether a variable may be a secret by its name: its value is left out of a recorded environment.
pub fn is_secret_variable(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    is_secret_name(name) || PARTS.iter().any(|part| small.contains(part))
}

/// The secrets in a variable, each with its replacement name: the value if the variable's name is
/// that of a secret, and the password of an address.
pub fn secrets_of_variable(name: &str, value: &str) -> Vec<(String, String)> {
    let is_path = ["/", "~/", "./", "../"]
        .iter()
        .any(|begin| value.starts_with(begin));
    let mut secrets = Vec::new();
    // One of our own variables distinguishes attempts and is not a secret.
    let is_key = name.ends_with("_KEY") && !name.starts_with("WF_");
    if (is_secret_name(name) || is_key) && !is_path && !is_placeholder(value) {
        secrets.push((name.to_owned(), value.to_owned()));
    }
    if let Ok(address) = url::Url::parse(value)
        && let Some(password) = address.password().filter(|password| !password.is_empty())
    {
        secrets.push((name.to_owned(), password.to_owned()));
    }
    secrets
}

/// Options whose value is a user and a password.
const OF_USERS: [&str; 7] = [
    "-u",
    "--user",
    "--auth",
    "--proxy-user",
    "--basic-auth",
    "--creds",
    "--login",
];

/// The secrets in the arguments of a command: the index of each argument, and where in it the
/// secret begins.
pub fn secret_arguments<'a>(
    arguments: impl IntoIterator<Item = Option<&'a str>>,
) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut before: Option<&str> = None;
    for (at, argument) in arguments.into_iter().enumerate() {
        let option = before.take();
        if let (Some(option), Some(argument)) = (option, argument) {
            let bytes = argument.as_bytes();
            if OF_USERS.contains(&option) {
                found.extend(of_user(bytes, 0..bytes.len()).map(|range| (at, range.start)));
            } else if option.starts_with('-')
                && is_secret_name(option)
                && !argument.starts_with('-')
            {
                found.extend(of_name(bytes, 0..bytes.len()).map(|_| (at, 0)));
            }
        }
        before = argument;
    }
    found
}

/// The patterns, each with the secret as its group.
pub(super) fn masks() -> Vec<Shape> {
    let mask = |replacement, pattern: String, takes| Shape {
        replacement,
        pattern,
        takes: Takes::Value(takes),
    };
    let (field, header, url) = ("[REDACTED:field]", "[REDACTED:header]", "[REDACTED:url]");
    let quote = r#"\\*["']"#;
    // `NAME =`, `"name":`, `env["NAME"] =`.
    let between = format!(r"(?:{quote})?\]?[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}");
    vec![
        // `Authorization: Bearer …`, in a header, an option, JSON or code; the scheme is kept.
        mask(
            header,
            format!(r#"(?i)(?:\\[nrt]|\b)(?:proxy-)?authorization{between}(?:{quote})?(?:(?:bearer|basic|token|digest|apikey|negotiate|ntlm)[ \t]+)?([^\s"'\\][^\r\n"'\\]*)"#),
            of_header,
        ),
        mask(header, r#"(?i)(?:\\[nrt]|\b)(?:set-)?cookie:[ \t]*([^\s"'\\][^\r\n"'\\]*)"#.to_owned(), of_header),
        mask(header, r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/\-]{16,}=*)".to_owned(), of_token),
        mask(header, r"(?i)\bbasic[ \t]+([A-Za-z0-9+/]{8,}={0,2})".to_owned(), of_basic),
        // The password of an address, or a user name in one that is a key.
        mask(url, r#":(?:\\?/){2}[^\s/?\#:@"'<>\\]*:([^\s/?\#"'<>\\]+)@"#.to_owned(), of_address),
        mask(url, r#":(?:\\?/){2}([^\s/?\#:@"'<>\\]{16,})(?::(?:x-oauth-basic)?)?@"#.to_owned(), of_token),
        mask(
            field,
            r#"(?i)[?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=([^\s&\#"'<>]{8,})"#.to_owned(),
            of_name,
        ),
        // `--auth user:password`
        mask(
            field,
            format!(r#"(?:^|[\s"'])(?:-u|--user|--auth|--proxy-user|--basic-auth|--creds|--login)(?:=|[ \t]+)(?:{quote})?([^\s"'\\]+:[^\s"'\\]+)"#),
            of_user,
        ),
        // `--password …`
        mask(
            field,
            format!(r#"(?i)(?:^|[\s"'\[])--?[a-z0-9_\-]*{NAME}(?:=|[ \t]+|{quote},[ \t]*)(?:{quote})?([^\s"'\\\-][^\s"'\\]*)"#),
            of_name,
        ),
        // `password = several words`, a line of settings.
        mask(
            field,
            format!(r#"(?im)^[ \t]*(?:export[ \t]+)?[a-z0-9_.\-]*{NAME}[ \t]+=[ \t]+([^\s"'\\{{(\[<$][^\r\n"'\#;]*)"#),
            of_line,
        ),
        // Between quotes, in JSON, YAML and code.
        mask(
            field,
            format!(r#"(?i){NAME}[0-9]{{0,2}}{between}"((?:[^"\\]|\\.){{1,2000}})""#),
            of_name,
        ),
        // The same in a text that is itself between quotes.
        mask(
            field,
            format!(r#"(?i){NAME}[0-9]{{0,2}}{between}\\"((?:[^"\\]|\\\\\\.|\\\\){{1,2000}})\\""#),
            of_name,
        ),
        mask(field, format!(r"(?i){NAME}[0-9]{{0,2}}{between}'((?:[^'\\]|\\.){{1,2000}})'"), of_name),
        // `NAME=value`, `name: value`.
        mask(
            field,
            format!(r#"(?i){NAME}[0-9]{{0,2}}=([^\s&;,"'\\<>)\]}}]+)"#),
            of_name,
        ),
        mask(
            field,
            format!(r#"(?i){NAME}[0-9]{{0,2}}(?:{quote})?(?:[ \t]{{1,4}}(?:=>|:=|[:=])[ \t]{{0,4}}|(?:=>|:=|[:=])[ \t]{{1,4}})([^\s&;,"'\\<>)\]}}]+)"#),
            of_setting,
        ),
        // As `.netrc` has it.
        mask(
            field,
            r"(?m)(?:^|[ \t])(?:login|account)[ \t\r\n]+[^\s]+[ \t\r\n]+password[ \t]+([^\s]+)".to_owned(),
            of_name,
        ),
    ]
}

/// Words that are never secrets, after any name.
const WORDS: [&str; 26] = [
    "true",
    "false",
    "null",
    "none",
    "nil",
    "undefined",
    "yes",
    "no",
    "on",
    "off",
    "required",
    "optional",
    "string",
    "str",
    "text",
    "number",
    "int",
    "bool",
    "boolean",
    "default",
    "env",
    "input",
    "password",
    "token",
    "secret",
    "auto",
];

/// Whether the value of a variable is not a secret: a word or a placeholder. A variable is never
/// code, unlike text, so it may contain any characters.
fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    let is_name = |text: &str| {
        let is_sign = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        !text.is_empty() && text.chars().all(is_sign)
    };
    let is_reference = value
        .strip_prefix('$')
        .is_some_and(|rest| is_name(rest) || rest.starts_with('{') && rest.ends_with('}'));
    let is_to_fill = [("<", ">"), ("{{", "}}"), ("[", "]")]
        .iter()
        .any(|(begin, end)| value.starts_with(begin) && value.ends_with(end));
    let is_plain = value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_:/.".contains(c));
    let is_code = value.contains('.')
        && ["process.env.", "os.environ"]
            .iter()
            .any(|code| value.starts_with(code));
    is_reference
        || is_to_fill
        || is_code
        || (is_plain && is_place(value.replace('.', "-").as_bytes()))
}

/// Whether a value is a reference to a secret or a placeholder for one.
pub(super) fn is_place(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value);
    let text = text.trim().trim_end_matches(['.', '!', '?']);
    let lower = text.to_ascii_lowercase();
    let is_filled = |c: char| lower.len() > 2 && lower.chars().all(|with| with == c);
    let is_code = text.contains('(')
        || (text.contains('.')
            && text.split('.').all(|part| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
            }));
    text.is_empty()
        || WORDS.contains(&&*lower)
        || text.starts_with(['$', '<', '{', '%', '[', '(', '&', '@', '/', '~', '^'])
        || ["your", "my_", "my-", "changeme", "replace", "example", "env:", "file:", "vault:", "secret:", "process.env", "os.environ"]
            .iter()
            .any(|begin| lower.starts_with(begin))
        || ['x', '*', '.', '-', '_', '0', '?', '•'].into_iter().any(is_filled)
        || is_code
        || value.windows(3).any(|part| part == b"...")
        || text.contains('…')
        // A reference to where it is kept.
        || text.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn of_name(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let is_short_number = inner.len() < 5 && inner.iter().all(u8::is_ascii_digit);
    (!is_place(inner) && !is_short_number).then_some(value)
}

/// After a colon, or with spaces, an ordinary word is kept: it may be prose, a type, a variable.
fn of_setting(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let word = inner.strip_suffix(b".").unwrap_or(inner);
    let is_word = word
        .iter()
        .skip(1)
        .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
        || word.iter().all(u8::is_ascii_uppercase)
        || word.len() < 6;
    of_name(text, value).filter(|_| !is_word)
}

fn of_line(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let end = inner
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    of_name(text, value.start..value.end - end)
}

fn of_header(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let is_prose =
        inner.contains(&b' ') && !inner.contains(&b'=') && !inner.iter().any(u8::is_ascii_digit);
    let is_short = inner.len() < 6;
    of_name(text, value).filter(|_| !is_prose && !is_short)
}

fn of_token(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    random(text, value)
}

fn of_basic(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let is_coded = inner.ends_with(b"=") || looks_random(inner);
    is_coded.then_some(value)
}

fn of_address(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    // A port before a later `@` is not a password.
    let inner = &text[value.clone()];
    (!is_place(inner)).then_some(value)
}

/// The password in `user:password`.
fn of_user(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let inner = &text[value.clone()];
    let colon = inner.iter().position(|byte| *byte == b':')?;
    let (user, password) = (&inner[..colon], &inner[colon + 1..]);
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_ids = is_number(user) && is_number(password);
    let is_none = password.is_empty() || user == password || is_ids || password.starts_with(b"//");
    (!is_none && !is_place(password)).then_some(value.start + colon + 1..value.end)
}
