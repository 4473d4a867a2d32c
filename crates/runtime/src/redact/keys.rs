//! Keys that stand behind a name which ordinary things have, too: what a value looks like decides.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex_automata::meta::Regex;
use serde_json::Value;

use super::Redactor;
use super::names::{self, Sure};
use super::ordinary::{self, matcher};

/// Characters that a key has at least.
const MIN_KEY: usize = 8;
/// The same amid a text, behind a name that other things have, too.
const MIN_TEXT_KEY: usize = 12;
/// Characters that a step of a path has at least to be taken for a key.
const MIN_STEP: usize = 20;
/// Characters of a key that has no digit, and how often small letters follow large ones in it.
const MIN_LETTERS: usize = 16;
const MIN_HUMPS: usize = 3;

/// What has letters and digits and is no key: days and times, codes of errors, names of files.
static ORDINARY: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"[0-9]{4}-?[0-9]{2}(?:-?[0-9]{2})?(?:[Tt_ ][0-9:.\-]+(?:[Zz]|[+\-][0-9:]+)?)?",
        r"[A-Z]+(?:[_\-][A-Z]+)*[_\-]?[0-9]{1,5}",
        r"[A-Za-z0-9_\-]+\.[a-z]{2,5}",
    ])
});

/// Bytes that keys are made of.
fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.~+/=%:|!@#$^*".contains(&byte)
}

/// Whether a text looks like a key: long enough, with letters and digits, or with large letters amid
/// small ones as no word has them.
pub(super) fn is_key_like(text: &[u8]) -> bool {
    if text.len() < MIN_KEY || !text.iter().all(|byte| is_of_key(*byte)) || ORDINARY.is_match(text)
    {
        return false;
    }
    if ordinary::is_no_secret(text) {
        return false;
    }
    let mut steps = text
        .split(|byte| *byte == b'/')
        .filter(|step| !step.is_empty());
    let mut others = steps.clone();
    let is_file = others
        .next_back()
        .is_some_and(|last| ORDINARY.is_match(last));
    let is_path = is_file || (others.count() > 1 && !text.ends_with(b"="));
    let is_key = |step: &[u8]| step.len() >= MIN_STEP && is_mixed(step) && !ORDINARY.is_match(step);
    match is_path {
        true => steps.any(is_key),
        false => is_mixed(text),
    }
}

/// Whether letters and digits, or large and small letters, are mixed.
fn is_mixed(text: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| text.iter().any(is);
    let humps = text
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let has_humps = text.len() >= MIN_LETTERS && humps.count() >= MIN_HUMPS;
    has(u8::is_ascii_alphabetic) && (has(u8::is_ascii_digit) || has_humps)
}

/// Whether a parameter of an address is a secret by its name, whatever it has.
pub fn is_secret_parameter(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "auth",
        "hmac",
        "jwt",
        "otp",
        "pass",
        "session",
        "sessionid",
        "sig",
    ];
    let name = name.to_ascii_lowercase();
    names::is_secret_member(&name)
        || NAMES.contains(&&*name)
        || ["signature", "_auth"].iter().any(|end| name.ends_with(end))
}

/// Whether a parameter of an address is a secret.
pub(super) fn is_parameter(name: &str, value: &str) -> bool {
    let may_be_key = ["key", "code"]
        .iter()
        .any(|end| name.to_ascii_lowercase().ends_with(end));
    let value = value.as_bytes();
    (is_secret_parameter(name) && !ordinary::is_no_secret(value))
        || (may_be_key && is_key_like(value))
}

/// The value of a parameter of an address that may be something else by its name.
pub(super) fn of_query(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    ordinary::of_query(text, value).filter(|own| is_key_like(&text[own.clone()]))
}

/// A name before an address that is a key.
pub(super) fn of_user(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    is_key_like(&text[value.clone()]).then_some(value)
}

/// The name that stands before a value and its sign.
fn name_before<'a>(text: &'a [u8], value: &Range<usize>) -> Option<(&'a str, u8)> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let sign = text[..value.start]
        .iter()
        .position(|byte| b"=:".contains(byte))?;
    let before = &text[..sign];
    let end = before.iter().rposition(is_of_name)? + 1;
    let begin = before[..end].iter().rposition(|byte| !is_of_name(byte));
    let name = std::str::from_utf8(&before[begin.map_or(0, |at| at + 1)..end]).ok()?;
    Some((name, text[sign]))
}

/// The value of a variable whose name ends in `_KEY`.
pub(super) fn of_variable(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let (name, _) = name_before(text, &value)?;
    let sure = names::of_variable(name);
    let own = ordinary::of_parameter(text, value)?;
    match sure {
        Sure::No => None,
        // In code it is as often the name of something.
        Sure::ByValue => {
            let value = &text[own.clone()];
            (value.len() >= MIN_TEXT_KEY && is_key_like(value)).then_some(own)
        }
        Sure::Yes => Some(own),
    }
}

/// A password by its short name, which results of tests have, too: `PASS: signs_in`, `pass=12`.
pub(super) fn of_pass(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let (name, sign) = name_before(text, &value)?;
    let own = ordinary::of_parameter(text, value)?;
    let is_number = text[own.clone()]
        .iter()
        .all(|byte| b"0123456789.,/%".contains(byte));
    let is_result = match name {
        "PASS" | "Pass" => sign == b':' || is_number,
        name => name.eq_ignore_ascii_case("pass") && is_number,
    };
    (!is_result && !ordinary::is_folder(&text[own.clone()])).then_some(own)
}

/// The same behind an option.
pub(super) fn of_pass_option(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let own = ordinary::of_option(text, value)?;
    let is_number = text[own.clone()].iter().all(u8::is_ascii_digit);
    (!is_number).then_some(own)
}

/// User and password in base64, as registries of images are told them.
pub(super) fn of_registry(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    const ANY: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let said = ANY.decode(&text[value.clone()]).ok()?;
    let said = String::from_utf8(said).ok()?;
    let (_, password) = said.split_once(':')?;
    let is_text = !password.is_empty() && !said.contains(|c: char| c.is_control());
    is_text.then_some(value)
}

/// Programs that are told a password by an option of their own.
const PROGRAMS: [&str; 24] = [
    "bcp",
    "buildah",
    "cqlsh",
    "curl",
    "docker",
    "helm",
    "ldapmodify",
    "ldapsearch",
    "mariadb",
    "mongo",
    "mongodump",
    "mongorestore",
    "mongosh",
    "mysql",
    "mysqladmin",
    "mysqldump",
    "mysqlimport",
    "openssl",
    "podman",
    "redis-cli",
    "skopeo",
    "sqlcmd",
    "sshpass",
    "unzip",
];
/// Arguments of a program that are looked at.
const MAX_ARGUMENTS: usize = 64;

/// The places of a list of arguments in which the program finds a password: behind `sshpass -p`, in
/// `mysql -p…`.
pub fn told_on_command_line(arguments: &[Value]) -> Vec<usize> {
    let texts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let Some((program, texts)) = texts.as_ref().and_then(|texts| texts.split_first()) else {
        return Vec::new();
    };
    let program = program.rsplit('/').next().unwrap_or_default();
    if !PROGRAMS.contains(&program) {
        return Vec::new();
    }
    let mut line = program.to_owned();
    let mut places = Vec::new();
    for (place, argument) in texts.iter().take(MAX_ARGUMENTS).enumerate() {
        // What is found in an argument by itself is taken out there, and alone.
        if matches!(Redactor::default().text(argument), Cow::Owned(_)) {
            line.push_str(" [REDACTED]");
            continue;
        }
        let before = line.len();
        line.push(' ');
        // In a text a space would end it.
        line.push_str(&argument.replace(char::is_whitespace, "_"));
        let clean = Redactor::default().text(&line).into_owned();
        if clean != line {
            places.push(place + 1);
            line.truncate(before);
            line.push_str(" [REDACTED]");
        }
    }
    places
}

/// The items of a list under the name of secrets, from the first to the last. Lists of tokens, of secrets
/// and of keys may have words.
pub(super) fn of_list(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let (name, _) = name_before(text, &value)?;
    let name = name.to_ascii_lowercase().replace('_', "");
    let name = name.trim_end_matches('s');
    let is_sure = [
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "credential",
    ]
    .iter()
    .chain(&[
        "accesstoken",
        "apitoken",
        "refreshtoken",
        "authtoken",
        "bearertoken",
    ])
    .any(|end| name.ends_with(end));
    // A key that nobody says more of may be anything by which something is found.
    if name == "key" || name.ends_with("publickey") {
        return None;
    }
    let is_secret = |item: &[u8]| match is_sure {
        true => !ordinary::is_no_secret(item) && !ordinary::is_code(item),
        false => is_key_like(item) && !ordinary::is_code(item),
    };
    list(text, value, is_secret)
}

/// The items of a list, between its first and its last quotes if it has any, where one is a secret.
fn list(
    text: &[u8],
    value: Range<usize>,
    is_secret: impl Fn(&[u8]) -> bool,
) -> Option<Range<usize>> {
    let whole = &text[value.clone()];
    let is_around = |byte: &u8| b"\"'\\- \t\r\n".contains(byte);
    let has_secret = whole.split(|byte| b"\",'\n".contains(byte)).any(|item| {
        let begin = item.iter().position(|byte| !is_around(byte));
        let end = item.iter().rposition(|byte| !is_around(byte));
        matches!((begin, end), (Some(begin), Some(end)) if is_secret(&item[begin..=end]))
    });
    // Behind the sign of the first item, without the quotes around all.
    let begin = whole.iter().position(|byte| !b"- \t".contains(byte))?;
    let end = whole.trim_ascii_end().len();
    let quotes = whole[begin..end]
        .iter()
        .take_while(|byte| b"\"'\\".contains(byte));
    let quotes = quotes.count();
    let is_around_all = whole[begin..end].ends_with(&whole[begin..begin + quotes]);
    let (begin, end) = match is_around_all && end - begin > 2 * quotes {
        true => (begin + quotes, end - quotes),
        false => (begin, end),
    };
    has_secret.then_some(value.start + begin..value.start + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_mixes_what_words_do_not() {
        for key in [
            "planted-in-url-4",
            "4/0AX4XfWhPlanted",
            "a1b2c3d4e5",
            "AbCdEfGhIjKlMnOpQr",
            "AIzaPlanted123",
            "1f2e3d4c-aaaa-bbbb-cccc-1234567890ab",
            "abc/def+123456==",
        ] {
            assert!(is_key_like(key.as_bytes()), "{key}");
        }
        for other in [
            "name",
            "200",
            "created_at",
            "2026-11-22",
            "2026-11-22T20:15:00Z",
            "ERR_NOT_FOUND_404",
            "uploads/2026/photo1.png",
            "photo-12.png",
            "userProfile",
            "1234567890",
            "v1.2.3",
            "${KEY_12}",
            "[REDACTED:field]",
            "two words 2",
        ] {
            assert!(!is_key_like(other.as_bytes()), "{other}");
        }
    }
}
