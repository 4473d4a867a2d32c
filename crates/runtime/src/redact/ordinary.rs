//! What stays although it stands behind the name of a secret: places to be filled in, where a secret
//! is and not what it is, code, states, types, versions, and words that are shown to people.
//!
//! A word alone can be either. In a line of settings, a query, quotes or behind an option it is taken
//! for a secret, as an argument of code and in a sentence for none. One with digits is a secret in all
//! of these places, unless it reads like something else: a version, a measured number, one or two
//! digits, a colour, code. In a sentence it has six characters and a letter, too.

use std::ops::Range;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::{MARK, is_taken_out};

/// A pattern over the whole of a value.
pub(super) fn matcher(patterns: &[&str]) -> Regex {
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let whole = format!(r"\A(?:{})\z", patterns.join("|"));
    let built = Regex::builder().syntax(syntax).build(&whole);
    built.expect("patterns that are made here compile")
}

/// Nothing that a secret looks like, in quotes or without.
static NONE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        // Places to be filled in: what a shell, a template, a page or a format puts there, with no
        // more around it than signs and words before them.
        r"(?:[:/.\-@ +,=?&_|]|[A-Za-z]{1,12}[:/ ]|:[0-9]{2,5}/)*(?:(?:\$\{\{[^}]*(?:\}\})?|\$\{[A-Za-z_][A-Za-z0-9_.\[\]]*(?::?\?[^}]*)?\}?|\$[({][^(){}]*[)}]?|\$[A-Z_][A-Z0-9_]*|\$[a-z_]+(?:[A-Z][a-z]+)*|%[A-Za-z_]+%|\$[0-9@*#?]|\{\{[^{}]*(?:\}\})?|#\{[^}]*\}|\{[A-Za-z_]?[A-Za-z0-9_.\[\]()]*(?:![rs])?\}?|<[^<>]*>|<[A-Za-z _\-]*|%\([a-z_]+\)s|\\\([^()]*\))(?:[:/.\-@ +,=?&_|]|[A-Za-z]{1,12}[:/ ]|:[0-9]{2,5}/)*)+",
        r"`[^`]*|`[^`]*[ $({][^`]*`.*|\$\(.*\(.*|\?|:[a-z_]+|@[a-z_]+|%[sdvq]|\*[a-z_]+",
        // What somebody else put in the place of one.
        r"(?:[A-Za-z]{1,8}[\-_]){0,3}(?:[*.]{3,}|[xX]{3,}(?:[\-_]?[xX]{3,})*|\-{3,})|[*.x\-]{3,}",
        r"(?i:your[_\-][a-z_\-]+|[a-z_\-]+[_\-]here|change[_\-]?(?:me|this|it)|replace[_\-]?(?:me|this|with[a-z_\-]+)|placeholder|example|todo|fixme|redacted|hidden|masked|value|string|password|passwd|pass|token|secret|null|undefined)",
        r"(?:[A-Z]{1,12}_){0,4}(?:TOKEN|KEY|SECRET|PASSWORD|PASS|CREDENTIALS?|VALUE|STRING|HERE)",
        // Where it is.
        r"(?i:env|vault|ssm|op|secret|keychain|keyring|file):[A-Za-z_./~\-]+|arn:aws:.*|(?:/[A-Za-z_\-.:]+[0-9]?)+/?|\./[A-Za-z_\-./]*|~(?:/[A-Za-z0-9_\-.]+)+",
        // The public half.
        r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-[a-z0-9\-]+) AAAA.*",
        r"[a-z][a-z0-9+]{1,12}://(?:[a-z\-]+\.)*[a-z\-]+(?::[0-9]{2,5})?(?:/(?:v[0-9]|[A-Za-z_\-.]*))*",
        // Versions and measured numbers.
        r"(?:(?:[\^~>=<v]{1,2} ?[0-9]{1,6}(?:\.[0-9xX*]{1,6}){0,3}|[0-9]{1,6}(?:\.[0-9xX*]{1,6}){1,3})(?:[.\-+][A-Za-z0-9.\-+]{1,16})?(?: ?\|\| ?| - |,? |)){1,4}(?:ms|s|%)?",
        r"workspace:[\^~*]?(?:[0-9]{1,6}(?:\.[0-9]{1,6}){1,2})?|catalog:[a-z]*|(?:npm|patch):@?[a-z.\-]+(?:/[a-z.\-]+)?@.*|(?:workspace|link|portal):\.{0,2}/[A-Za-z_\-./]*",
        r"\*|latest|next|[0-9]{1,2}(?:ms|s|m|h|d|%)?|[0-9]{1,2}[.,]?",
        // Types.
        r"[&*]{0,2}(?i:str|string|text|bytes?|int|integer|number|bool|boolean|any|object|optional|secretstr|varchar|uuid|jwt|json|blob|datetime|timestamp|float|double|decimal|void|never|unknown|buffer|uint8array|[iuf](?:8|16|32|64|128)|u?int(?:8|16|32|64)(?:_t)?|[iu]size|ident|identifier|credentials?|option|id)(?:\[\]|\?|!)*",
        r"[A-Za-z_][A-Za-z_:.]*<[A-Za-z0-9_:., &'<>\[\]()*]+>[?!]*|[A-Za-z]+(?:\|[A-Za-z]+)+",
        // What was settled about it.
        r"(?i:true|false|none|nil|yes|no|on|off|ok|okay|required|optional|mandatory|missing|present|absent|empty|blank|set|unset|valid|invalid|validated|verified|unverified|expired|expires|refreshed|revoked|rotated|renewed|issued|incorrect|correct|wrong|accepted|rejected|denied|granted|forbidden|unauthorized|authorized|authenticated|unauthenticated|unknown|unchanged|changed|updated|created|deleted|removed|generated|reset|mismatch|mismatched|match|matched|matches|failed|failure|success|successful|succeeded|passed|enabled|disabled|active|inactive|supported|unsupported|available|unavailable|allowed|pending|loaded|loading|encrypted|hashed|stored|saved|provided|given|omitted|skipped|checked|found|sensitive|ignored|used|unused|inherit|inherited|read|write|include|omit|same-origin)[.,:;!?]*",
        // Names of what is asked for.
        r"(?:api_key|access_key|secret_key|client_secret|(?:access|refresh|id|auth|api)_token)",
        r"(?i:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key)|\$?[a-z_]+(?:::[A-Za-z_]+)+",
        // Colours.
        r"#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})",
        // No letter and no digit.
        r"[^A-Za-z0-9]{1,3}",
    ])
});

/// What a program says in the place of a value, which is never between quotes.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"[&*!]?[A-Za-z_$@:][A-Za-z_.:$?!>\-]*(?:[0-9]{1,3}[a-z_]*)?[(\[](?:[^()\[\]]|[(\[][^()\[\]]*[)\]])*(?:[)\]](?:[.?!\[;].*)?|[(\[].*)?",
        r"(?:self|this|args|opts|options|config|cfg|settings|process|os|env|request|req|ctx|data|params|var|local|module|each|secrets|inputs|steps)(?:\??\.[A-Za-z_][A-Za-z0-9_]*)+[!?]?",
        r"\$?[A-Za-z_]{1,40}(?:(?:\.|->|::|\?\.)[A-Za-z_]{1,40})+[!?]?|::?[A-Za-z_]+(?:::[A-Za-z0-9_]+)*(?:<.*)?|\*(?:mut|const) [A-Za-z_:]+",
        // Types, by the name of what they hold.
        r"[&*]?(?:[A-Z][a-z]+)+(?:Token|Credentials?|Type|Id|Key|Secret|Password|String|Str|Buffer|Bytes|Config|Options|Provider|Source|Ref)[!?]?",
        // What is said of a line of code.
        r"//.*",
        // Names of variables, in the words of their programs.
        r"[A-Za-z]{1,2}|[*&$@]?(?:[a-z]+_){1,4}(?:token|key|secret|password|passwd|passphrase|pass|pwd|pw|credentials?|creds|cookie|dsn|auth|value|val|str|string|hash|bytes|env|header|name|id|arg|param|input|opt|option|var)",
        r"[a-z]+(?:[A-Z][a-z]+)*(?:Token|Key|Secret|Password|Passphrase|Credentials?|Cookie|Value|Header|Name|Id|Input|Env|Hash)",
        r"(?i:creds|cookie|credentials|passwd|pass|key|val|arg|str|text|bytes)",
    ])
});

/// What has a secret by a name of its own, as the argument of a call.
static HAS_ANOTHER: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"(?i)[^=:]+(?:token|key|secret|password|passwd|passphrase|credentials?|dsn)[=:][^,;)\[]*[0-9].*",
    ])
});

/// A name of a program's own, or a word of a language of people.
static WORD: LazyLock<Regex> = LazyLock::new(|| matcher(&[r"[a-z][A-Za-z_]{0,19}"]));

/// A name of a program's own that has digits, and reads like one.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"_[a-z0-9_]+|[A-Z][a-z]+[0-9]|[a-z_]+[0-9]{0,5}(?:\.[A-Za-z_]+[A-Za-z0-9_]*)+",
        r"[a-z0-9_]*_(?:token|key|secret|password|passphrase|credentials?)",
        // Sizes and what a text is written in.
        r"[0-9]{1,4}-[a-z\-]+|(?i:base|sha|md|utf|ed|aes|hs|rs|es|oauth)-?[0-9]{1,4}[a-z\-]*",
    ])
});

/// Words that stand behind the name of an option in a sentence, or say what it takes.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"[A-Z][A-Z_]*[\])}.:]*|(?i:a|an|and|are|argument|arguments|as|at|be|by|can|cannot|file|flag|flags|for|from|has|have|if|in|instead|into|is|it|may|must|name|needs|not|of|on|option|options|or|path|requires|set|sets|should|string|stringarray|strings|takes|text|that|the|then|this|to|was|when|which|will|with|without|you|your|value|key|pass|phrase|passphrase)[\]]*[.,:;!?)]*",
        r"(?:id|type|src|name)=[A-Za-z_\-./]*",
    ])
});

/// Words of a sentence, in the place of a credential.
static SENTENCE: LazyLock<Regex> =
    LazyLock::new(|| matcher(&[r"(?:(?-i:[A-Za-z]?[a-z]+)[.,:;!?)]*[ \t]*)+"]));

/// What a shell puts in the place of a variable that is not set.
static UNLESS_SET: LazyLock<Regex> =
    LazyLock::new(|| matcher(&[r"\$\{[A-Za-z_][A-Za-z0-9_]*:?[\-=](?:.*)"]));

/// Attributes of a cookie.
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(&[
        r"(?i:path|domain|httponly|secure|samesite|max-age|expires|partitioned|priority)(?:=.*)?",
    ])
});

/// Words that sentences have and passphrases do not need.
const FUNCTION_WORDS: [&str; 44] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "cannot", "could", "do",
    "does", "for", "from", "has", "have", "if", "in", "is", "it", "least", "must", "no", "not",
    "of", "on", "or", "please", "should", "that", "the", "this", "to", "use", "was", "when",
    "will", "with", "would", "you", "your", "enter",
];

/// What a password is called in the languages that pages are written in.
const LABELS: [&str; 30] = [
    "adgangskode",
    "contraseña",
    "contrasenya",
    "hasło",
    "heslo",
    "jelszó",
    "kennwort",
    "lozinka",
    "lösenord",
    "lykilorð",
    "parool",
    "passe",
    "passord",
    "passwort",
    "pasahitza",
    "palavra-passe",
    "salasana",
    "salasõna",
    "senha",
    "slaptažodis",
    "wachtwoord",
    "şifre",
    "κωδικός",
    "пароль",
    "סיסמה",
    "パスワード",
    "密码",
    "密碼",
    "비밀번호",
    "รหัสผ่าน",
];

/// Words before the name of a secret in what is told of it.
const STATES: [&str; 22] = [
    "bad",
    "change",
    "confirm",
    "current",
    "empty",
    "enter",
    "expired",
    "forgot",
    "incorrect",
    "invalid",
    "malformed",
    "missing",
    "new",
    "no",
    "old",
    "reset",
    "the",
    "unexpected",
    "unknown",
    "unsupported",
    "wrong",
    "your",
];

/// Whether a value is a place to be filled in, or what no secret looks like.
pub(super) fn is_no_secret(value: &[u8]) -> bool {
    is_taken_out(value) || NONE.is_match(value) || is_shown_to_people(value)
}

/// Whether a value is what a program says in the place of one.
pub(super) fn is_code(value: &[u8]) -> bool {
    CODE.is_match(value)
}

/// Whether a text reads like one of an interface: a label such as `Confirm password`, or a sentence. A
/// passphrase has words without a sentence.
fn is_shown_to_people(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let is_mark = |c: char| ".,:;!?()[]\"'`*<>\u{2026}\u{2019}\u{bf}".contains(c);
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches(is_mark).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let is_plain = |word: &String| {
        let is_number = word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_letter = |c: char| c.is_alphabetic() || "'\u{2019}-/".contains(c);
        is_number || (word.len() <= 24 && word.chars().all(is_letter))
    };
    let is_named = words.iter().any(|word| LABELS.contains(&word.as_str()));
    if words.len() == 1 && is_named {
        return true;
    }
    if words.len() < 2 || !words.iter().all(is_plain) {
        return false;
    }
    let begins_like_one = text.starts_with(|c: char| c.is_uppercase());
    let ends_like_one = text.ends_with(['.', '!', '?', ':', '\u{2026}']);
    let last = words.last().map(|word| word.trim_end_matches('s'));
    let tells = words
        .first()
        .is_some_and(|first| STATES.contains(&first.as_str()));
    let is_label = (begins_like_one || tells)
        && last.is_some_and(|last| {
            [
                "password",
                "token",
                "secret",
                "key",
                "passphrase",
                "credential",
                "cookie",
                "session",
            ]
            .contains(&last)
        });
    let function_words = words
        .iter()
        .filter(|word| FUNCTION_WORDS.contains(&word.as_str()))
        .count();
    is_label
        || (is_named && (begins_like_one || ends_like_one))
        || (words.len() >= 3
            && function_words > 0
            && (begins_like_one || ends_like_one || function_words > 1))
}

/// What of a value without quotes is its own: not what closes a call, a list, an element or a piece of
/// code around it.
pub(super) fn narrowed(text: &[u8], value: Range<usize>) -> Range<usize> {
    let mut end = value.end;
    // What another rule took out, and what closes something behind it.
    if text[value.clone()].starts_with(MARK.as_bytes())
        && let Some(at) = find(&text[value.clone()], b"]")
        && let behind = &text[value.start + at + 1..value.end]
        && (matches!(behind.first(), Some(b')' | b']' | b'`'))
            || behind.iter().all(|byte| b")]}>`.:{".contains(byte)))
    {
        end = value.start + at + 1;
    }
    if let Some(at) = find(&text[value.clone()], b"</") {
        let tag = &text[value.start + at..value.end];
        if tag[2..].first().is_some_and(u8::is_ascii_alphabetic) && tag.contains(&b'>') {
            end = value.start + at;
        }
    }
    // Once for all of them: a value may end with a million signs.
    let mut counts = [0_usize; 256];
    for byte in &text[value.start..end] {
        counts[usize::from(*byte)] += 1;
    }
    while end > value.start {
        let last = text[end - 1];
        let count = |byte: u8| counts[usize::from(byte)];
        let is_end = match last {
            b'`' => count(b'`') % 2 == 1,
            b')' => count(b')') > count(b'('),
            b']' => count(b']') > count(b'['),
            b'>' => count(b'>') > count(b'<'),
            // What a block begins with.
            b':' => matches!(text[value.start..end - 1].last(), Some(b')' | b']')),
            _ => false,
        };
        if !is_end {
            break;
        }
        counts[usize::from(last)] -= 1;
        end -= 1;
    }
    value.start..end
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// A value between quotes.
pub(super) fn is_quoted(text: &[u8], value: &Range<usize>) -> bool {
    let before = value.start.checked_sub(1).map(|at| text[at]);
    matches!(before, Some(b'"' | b'\''))
}

/// Whether a value is that of a variable of the environment, `NAME=value`, which is no code.
fn is_variable(text: &[u8], value: &Range<usize>) -> bool {
    let mut before = text[..value.start].iter().rev();
    before.next() == Some(&b'=') && before.next().is_some_and(u8::is_ascii_uppercase)
}

/// A value between backticks, which are how it is shown.
fn in_backticks(text: &[u8], value: &Range<usize>) -> Option<Range<usize>> {
    let inner = text[value.clone()].strip_prefix(b"`")?.strip_suffix(b"`")?;
    let is_one = !inner.is_empty() && !inner.contains(&b'`');
    is_one.then_some(value.start + 1..value.end - 1)
}

/// The value, unless it looks like none; of what a shell falls back to, that alone, and of what
/// stands between backticks not these.
fn unless(
    text: &[u8],
    value: Range<usize>,
    is_none: impl Fn(&[u8]) -> bool,
) -> Option<Range<usize>> {
    if UNLESS_SET.is_match(&text[value.clone()]) {
        let mut own = text[value.clone()].iter();
        let sign = own.position(|byte| matches!(byte, b'-' | b'='))?;
        let from = value.start + sign + 1;
        let is_open = !text[from..value.end].contains(&b'}');
        let to = match is_open {
            true => value.end,
            false => from + find(&text[from..value.end], b"}")?,
        };
        let is_word = text[from..to]
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        return (!is_word && !is_none(&text[from..to])).then_some(from..to);
    }
    if value.is_empty() || is_none(&text[value.clone()]) {
        return None;
    }
    let own = in_backticks(text, &value).unwrap_or(value);
    (!is_none(&text[own.clone()])).then_some(own)
}

/// Between quotes, or of what is like it.
pub(super) fn of_quotes(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    unless(text, value, is_no_secret)
}

/// Of a line, or in quotes.
pub(super) fn of_setting(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    if is_quoted(text, &value) {
        return of_quotes(text, value);
    }
    let own = narrowed(text, value.clone());
    if is_variable(text, &value) {
        return unless(text, own, is_no_secret);
    }
    let is_argument = own.end < value.end && WORD.is_match(&text[own.clone()]);
    let is_none = |value: &[u8]| {
        (is_no_secret(value) || CODE.is_match(value)) && !HAS_ANOTHER.is_match(value)
    };
    unless(text, own, is_none).filter(|_| !is_argument)
}

/// Amid a text: an argument, a setting or a field of a form, or in quotes.
pub(super) fn of_parameter(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let is_argument = text[value.end..].starts_with(b",")
        && WORD.is_match(&text[value.clone()])
        && !is_variable(text, &value);
    if is_quoted(text, &value) {
        return of_quotes(text, value);
    }
    let is_mark = matches!(text[value.end - 1], b':' | b'.') && value.len() > 1;
    let own = value.start..value.end - usize::from(is_mark);
    match is_argument {
        true => None,
        false => of_setting(text, own),
    }
}

/// Behind an option, which names what it takes in a text of help.
pub(super) fn of_option(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    if is_quoted(text, &value) {
        return of_quotes(text, value);
    }
    let is_none = |value: &[u8]| is_no_secret(value) || PROSE.is_match(value);
    let whole = is_none(&text[value.clone()]);
    unless(text, narrowed(text, value), is_none).filter(|_| !whole)
}

/// Amid a text, by its digits.
pub(super) fn of_text(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let mut end = value.end;
    while text[value.start..end].ends_with(b".") || text[value.start..end].ends_with(b":") {
        end -= 1;
    }
    let own = value.start..end;
    let is_secret = own.len() >= 6 && text[own.clone()].iter().any(u8::is_ascii_alphabetic);
    let is_none =
        |value: &[u8]| is_no_secret(value) || CODE.is_match(value) || NAME.is_match(value);
    unless(text, own, is_none).filter(|_| is_secret)
}

/// Of a parameter of an address, which may stand between brackets. What goes on behind these with
/// another parameter is taken with it.
pub(super) fn of_query(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let own = &text[value.clone()];
    let end = own.iter().position(|byte| *byte == b')');
    let end = end.filter(|at| !own[..*at].contains(&b'(') && !own[*at..].contains(&b'='));
    let own = value.start..end.map_or(value.end, |at| value.start + at);
    of_quotes(text, narrowed(text, own))
}

/// Of the password in an address.
pub(super) fn of_address(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let is_word = |value: &[u8]| {
        matches!(
            value,
            b"password" | b"PASSWORD" | b"pass" | b"passwd" | b"x-oauth-basic"
        )
    };
    let is_none = |value: &[u8]| is_word(value) || value.iter().all(|byte| b"*x.".contains(byte));
    unless(text, value, is_none)
}

/// Of a folder by the name of `pwd`, or of a password.
pub(super) fn of_folder_or_password(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    match is_folder(&text[value.clone()]) {
        true => None,
        false => of_parameter(text, value),
    }
}

/// Of a header: with or without what kind of credential it is.
pub(super) fn of_header(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    unless(text, value, is_no_credential)
}

/// Of a header that is a key by itself, in a text or in code.
pub(super) fn of_key_header(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let is_none = |value: &[u8]| is_no_credential(value) || CODE.is_match(value);
    unless(text, value, is_none)
}

/// Of a header that stands amid a text, or begins a line.
pub(super) fn of_header_line(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let is_none = |value: &[u8]| {
        let value = value.strip_suffix(b",").unwrap_or(value);
        is_no_credential(value) || SENTENCE.is_match(value) || CODE.is_match(value)
    };
    match text[value.clone()].contains(&b' ') {
        true => unless(text, value, is_none),
        false => unless(text, narrowed(text, value), is_none),
    }
}

/// Of a header that is written as a setting.
pub(super) fn of_header_setting(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    match is_no_credential(&text[value.clone()]) {
        true => None,
        false => of_parameter(text, value),
    }
}

/// Whether what a header has is no credential, with or without what kind of one it is.
fn is_no_credential(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let is_kind = |kind: &[u8]| {
        let kind = kind.to_ascii_lowercase();
        [
            &b"basic"[..],
            b"bearer",
            b"digest",
            b"token",
            b"negotiate",
            b"apikey",
        ]
        .contains(&&*kind)
    };
    let at = value.iter().position(|byte| matches!(byte, b' ' | b'+'));
    let (kind, behind) = match at {
        Some(at) => (&value[..at], value[at + 1..].trim_ascii()),
        None => (value, &b""[..]),
    };
    if is_no_secret(value) || (behind.is_empty() && is_kind(kind)) {
        return true;
    }
    let is_scheme = kind.iter().all(u8::is_ascii_alphabetic);
    let is_call = |value: &[u8]| value.starts_with(b"${");
    if is_scheme && !behind.is_empty() && (is_no_secret(behind) || is_call(behind)) {
        return true;
    }
    let mut pairs = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let is_no_pair = |pair: &[u8]| match find(pair, b"=") {
        _ if ATTRIBUTE.is_match(pair) || pair.is_empty() => true,
        Some(at) => is_no_secret(&pair[at + 1..]) && at + 1 < pair.len(),
        None => false,
    };
    pairs.all(is_no_pair)
}

/// Whether a value reads like a folder, or like what stands for one.
pub(super) fn is_folder(value: &[u8]) -> bool {
    let begins = |beginning: &[u8]| value.starts_with(beginning);
    matches!(
        value.first(),
        Some(b'/' | b'~' | b'.' | b'$' | b'{' | b'%' | b'`')
    ) || begins(b"[RUNWRIGHT")
}
