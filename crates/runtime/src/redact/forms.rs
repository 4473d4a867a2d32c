//! The forms in which a known secret may be written.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::spellings::{self, Spelled};

/// The shortest line of a secret that is searched for by itself, as programs print line by line.
const MIN_LINE_BYTES: usize = 16;
/// The shortest base64 form, in characters of its own; a shorter one would match by chance.
const MIN_BASE64_CHARS: usize = 8;

/// The largest text, in bytes and in characters with several spellings, whose every spelling is
/// searched for: these make its automaton large. A larger one is searched for in its usual
/// spellings.
const MAX_SPELLED_BYTES: usize = 4 << 10;
const MAX_SPELLED_SIGNS: usize = 512;

/// Patterns for every form of a secret.
pub(super) fn patterns(secret: &str) -> Vec<Spelled> {
    let (spelled, rest): (Vec<String>, Vec<String>) = texts(secret)
        .into_iter()
        .partition(|text| text.len() <= MAX_SPELLED_BYTES && signs(text) <= MAX_SPELLED_SIGNS);
    let mut patterns: Vec<Spelled> = spelled
        .iter()
        .map(|text| spellings::spelled(text))
        .collect();
    let literal = |bytes: &[u8]| Spelled {
        pattern: bytes.iter().map(|byte| format!(r"\x{byte:02x}")).collect(),
        longest: bytes.len(),
    };
    let escaped = rest.iter().flat_map(|text| escapes(text));
    let forms = rest.iter().cloned().chain(escaped);
    patterns.extend(forms.map(|form| literal(form.as_bytes())));
    let encoded = base64s(secret).into_iter().chain(hexes(secret));
    if secret.len() <= MAX_SPELLED_BYTES {
        let base64s = base64s(secret).into_iter().map(|form| wrapped(&form));
        patterns.extend(base64s.chain([spaced(&hexes(secret)[0])]));
    } else {
        patterns.extend(encoded.map(|form| literal(form.as_bytes())));
    }
    for ends in [u16::to_le_bytes, u16::to_be_bytes] {
        let wide: Vec<u8> = secret.encode_utf16().flat_map(ends).collect();
        patterns.push(literal(&wide));
    }
    patterns
}

/// The text allowed between characters of base64: ends of lines and indentation, also escaped.
const WRAPS: &str = r"(?:[ \t\r\n]|\\+[nrt])*";
/// The text allowed between the digits of two bytes, as `od`, `xxd` and fingerprints write them.
const SPACES: &str = r"(?:[ \t\r\n:,\-]|0[xX]|\\+[nrtx])*";

/// A base64 form, also in lines. A match begins with two characters of one line, so that a stream
/// holds back few ends of lines; if a line ends after the first character, that one stays.
fn wrapped(form: &str) -> Spelled {
    let each: Vec<String> = form.bytes().map(|byte| format!(r"\x{byte:02x}")).collect();
    let (begin, rest) = each.split_at(2);
    let (first, second) = (&begin[0], &begin[1]);
    Spelled {
        pattern: format!("(?:{first}{second}{WRAPS}|{second}){}", rest.join(WRAPS)),
        longest: form.len() * 2,
    }
}

/// Hexadecimal digits in either case, also with separators between bytes.
fn spaced(digits: &str) -> Spelled {
    let digit = |digit: char| match digit {
        'a'..='f' => format!("[{digit}{}]", digit.to_ascii_uppercase()),
        digit => digit.to_string(),
    };
    let digits: Vec<String> = digits.chars().map(digit).collect();
    let bytes: Vec<String> = digits.chunks(2).map(<[String]>::concat).collect();
    Spelled {
        pattern: bytes.join(SPACES),
        longest: bytes.len() * 8,
    }
}

/// Characters other than ASCII letters and digits.
fn signs(text: &str) -> usize {
    text.chars().filter(|c| !c.is_ascii_alphanumeric()).count()
}

/// A secret, its unescaped form, and those of its lines that are searched for by themselves.
fn texts(secret: &str) -> Vec<String> {
    let mut texts = vec![secret.to_owned()];
    texts.extend(meant(secret).into_iter().filter(|text| is_long(text)));
    let lines = secret.lines().filter(|line| line.len() >= MIN_LINE_BYTES);
    texts.extend(lines.map(str::to_owned).filter(|line| line != secret));
    texts
}

/// The decoded forms of a secret that is stored percent-encoded or as JSON.
fn meant(secret: &str) -> Vec<String> {
    let mut meant = Vec::new();
    if secret.contains('%') {
        let decoded: Vec<u8> =
            url::form_urlencoded::parse(format!("x={}", secret.replace('+', "%2B")).as_bytes())
                .flat_map(|(_, value)| value.into_owned().into_bytes())
                .collect();
        meant.extend(String::from_utf8(decoded).ok());
    }
    if secret.contains('\\') {
        meant.extend(serde_json::from_str::<String>(&format!("\"{secret}\"")).ok());
    }
    meant.retain(|text| text != secret);
    meant
}

fn is_long(text: &str) -> bool {
    text.chars().count() >= super::MIN_SECRET_CHARS
}

/// The usual escaped forms of a text.
fn escapes(text: &str) -> [String; 4] {
    [
        json_escaped(text),
        percent_encoded(text, Hex::Upper),
        percent_encoded(text, Hex::Lower),
        form_encoded(text),
    ]
}

/// The usual forms of a secret, the longest first.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut forms = texts(secret);
    for text in forms.clone() {
        forms.extend(escapes(&text));
    }
    forms.extend(base64s(secret));
    forms.extend(hexes(secret));
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// The common parts of every base64 encoding that contains a secret. base64 groups three bytes: the
/// encoding depends on the offset of the secret in its group, as after the user name in basic
/// authentication.
fn base64s(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let encoded = engine.encode(&bytes);
            // Characters that share bits with neighbouring bytes are not part of the form.
            let from = (offset * 8).div_ceil(6);
            let to = bytes.len() * 8 / 6;
            if to.saturating_sub(from) >= MIN_BASE64_CHARS {
                forms.push(encoded[from..to].to_owned());
            }
        }
    }
    forms
}

/// The hexadecimal digits of each byte, in lower and upper case.
fn hexes(secret: &str) -> [String; 2] {
    let digits: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let capitals = digits.to_uppercase();
    [digits, capitals]
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

enum Hex {
    Upper,
    Lower,
}

fn percent_encoded(text: &str, hex: Hex) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match (byte, &hex) {
            (b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~', _) => {
                encoded.push(char::from(byte));
            }
            (byte, Hex::Upper) => encoded.push_str(&format!("%{byte:02X}")),
            (byte, Hex::Lower) => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    encoded
}

fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_in_every_form() {
        let forms = forms("p\"ä ss/w+rd\n");
        let expected = [
            "p\"ä ss/w+rd\n",
            "p\\\"ä ss/w+rd\\n",
            "p%22%C3%A4%20ss%2Fw%2Brd%0A",
        ];
        for form in expected {
            assert!(forms.iter().any(|f| f == form), "{form} in {forms:?}");
        }
        assert!(forms.iter().any(|f| f == "p%22%C3%A4+ss%2Fw%2Brd%0A"));
    }

    #[test]
    fn encoded_secrets_are_found_across_lines_and_separators() {
        let secret = "correct horse battery staple, and a whole stable of other horses after it";
        let redactor = super::super::Redactor::default()
            .knowing("env:K", secret)
            .unwrap();
        let parts = |text: &str, size: usize, between: &str| {
            let parts = text.as_bytes().chunks(size).map(String::from_utf8_lossy);
            parts.collect::<Vec<_>>().join(between)
        };
        for before in [
            "",
            "u",
            "us",
            "user:",
            "a long name of a user who has a password: ",
        ] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret}"));
            for width in [64, 76, 20, 7] {
                for between in ["\n", "\r\n", "\n    ", "\\n"] {
                    let text = redactor.text(&parts(&encoded, width, between)).into_owned();
                    assert!(
                        text.contains("[REDACTED:env:K]"),
                        "{before} {width}: {text}"
                    );
                }
            }
        }
        let digits = &hexes(secret)[0];
        for (size, between) in [
            (60, "\n"),
            (2, ":"),
            (2, " "),
            (4, " "),
            (2, ", 0x"),
            (32, "\n "),
        ] {
            for text in [
                parts(digits, size, between),
                parts(&digits.to_uppercase(), size, between),
            ] {
                assert_eq!(redactor.text(&text), "[REDACTED:env:K]", "{text}");
                let mut stream = redactor.stream();
                let streamed: String = text.chars().map(|c| stream.push(&c.to_string())).collect();
                assert_eq!(streamed + &stream.finish(), "[REDACTED:env:K]", "{text}");
            }
        }
    }

    #[test]
    fn base64_is_found_wherever_the_secret_begins() {
        let forms = forms("correct horse battery");
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "yz"] {
                let encoded =
                    STANDARD_NO_PAD.encode(format!("{before}correct horse battery{after}"));
                assert!(
                    forms.iter().any(|form| encoded.contains(form)),
                    "{before}|{after}"
                );
            }
        }
    }
}
