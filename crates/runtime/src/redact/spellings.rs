//! A secret in any spelling: each of its characters as it is, or escaped for JSON, HTML, a URL, a
//! shell or a debug listing, also nested.

use std::fmt::Write as _;

/// A pattern for every spelling of a text, and the length of the longest one in bytes.
pub(super) struct Spelled {
    pub(super) pattern: String,
    pub(super) longest: usize,
}

/// The most backslashes before a character: those of a string in a string in a string.
const BACKSLASHES: usize = 8;

/// Every spelling of a text.
pub(super) fn spelled(text: &str) -> Spelled {
    let mut spelled = Spelled {
        pattern: String::with_capacity(text.len() * 2),
        longest: 0,
    };
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            spelled.pattern.push(c);
            spelled.longest += 1;
            continue;
        }
        let mut ways = Ways::default();
        ways.escaped(c);
        ways.quoted(c);
        ways.entity(c);
        ways.percent(c);
        ways.itself(c);
        spelled.pattern.push_str("(?:");
        spelled.pattern.push_str(&ways.patterns.join("|"));
        spelled.pattern.push(')');
        spelled.longest += ways.longest;
    }
    spelled
}

/// The spellings of one character; of two with a common prefix the longer comes first.
#[derive(Default)]
struct Ways {
    patterns: Vec<String>,
    longest: usize,
}

impl Ways {
    fn add(&mut self, pattern: String, longest: usize) {
        self.patterns.push(pattern);
        self.longest = self.longest.max(longest);
    }

    /// By its code after backslashes: `\u00eb`, `\xeb`, `\U0001f600`, `\u{eb}`, and each of its
    /// bytes as `\303`.
    fn escaped(&mut self, c: char) {
        let slashes = format!(r"\\{{1,{BACKSLASHES}}}");
        let code = u32::from(c);
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter();
        let units = units.map(|unit| format!("{slashes}u{}", hex(&format!("{unit:04x}"))));
        let units: Vec<String> = units.collect();
        let length = units.len() * (BACKSLASHES + 5);
        self.add(units.concat(), length);
        let code = hex(&format!("{code:x}"));
        self.add(
            format!(r"{slashes}[uU](?:\{{0{{0,6}}{code}\}}|0{{0,7}}{code})"),
            BACKSLASHES + 1 + 8 + 8,
        );
        if u32::from(c) < 256 {
            let code = hex(&format!("{:02x}", u32::from(c)));
            self.add(format!("{slashes}x{code}"), BACKSLASHES + 3);
        }
        let mut bytes = [0; 4];
        let bytes = c.encode_utf8(&mut bytes).as_bytes();
        for radix in ["x", ""] {
            let each = bytes.iter().map(|byte| match radix {
                "x" => format!("{slashes}x{}", hex(&format!("{byte:02x}"))),
                _ => format!("{slashes}{byte:03o}"),
            });
            self.add(each.collect(), bytes.len() * (BACKSLASHES + 3));
        }
        let letter = match c {
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\u{b}' => 'v',
            '\u{1b}' => 'e',
            _ => return,
        };
        self.add(format!("{slashes}{letter}"), BACKSLASHES + 1);
    }

    /// As a shell, a query or YAML writes a quote within quotes of the same kind.
    fn quoted(&mut self, c: char) {
        match c {
            '\'' => self.add(r#"'(?:\\{1,4}'|"'")'|''"#.to_owned(), 6),
            '"' => self.add(r#"""|"'"'""#.to_owned(), 5),
            // In a form-encoded body.
            ' ' => self.add(r"\+".to_owned(), 1),
            _ => {}
        }
    }

    /// As an HTML entity, also nested.
    fn entity(&mut self, c: char) {
        let code = u32::from(c);
        let name = match c {
            '&' => "amp|",
            '<' => "lt|",
            '>' => "gt|",
            '"' => "quot|",
            '\'' => "apos|",
            '\u{a0}' => "nbsp|",
            _ => "",
        };
        let code_hex = hex(&format!("{code:x}"));
        // The ampersand may be escaped itself, as some JSON writers do.
        let and = r"(?:&|\\{1,8}u0026)(?:amp;){0,2}";
        self.add(
            format!("{and}(?:{name}#0{{0,6}}{code}|#[xX]0{{0,6}}{code_hex});"),
            13 + 8 + 16,
        );
    }

    /// Percent-encoded bytes, also nested.
    fn percent(&mut self, c: char) {
        let mut bytes = [0; 4];
        let bytes = c.encode_utf8(&mut bytes).as_bytes();
        let each = bytes
            .iter()
            .map(|byte| format!("%(?:25){{0,2}}{}", hex(&format!("{byte:02x}"))));
        self.add(each.collect(), bytes.len() * 7);
    }

    /// As it is, and after backslashes if it has a special meaning without them.
    fn itself(&mut self, c: char) {
        let mut pattern = String::new();
        if c == '\\' {
            let most = BACKSLASHES * 2;
            return self.add(format!(r"\\{{1,{most}}}"), most);
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            // Writing to a string cannot fail.
            let _ = write!(pattern, r"\x{byte:02x}");
        }
        if c.is_ascii() {
            self.add(format!(r"\\{{0,{BACKSLASHES}}}{pattern}"), BACKSLASHES + 1)
        } else {
            self.add(pattern, c.len_utf8())
        }
    }
}

/// Hexadecimal digits in either case.
fn hex(digits: &str) -> String {
    let each = digits.chars().map(|digit| {
        if digit.is_ascii_digit() {
            String::from(digit)
        } else {
            format!("[{digit}{}]", digit.to_ascii_uppercase())
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::Redactor;

    #[track_caller]
    fn check(secret: &str, written: &str) {
        let redactor = Redactor::default().knowing("env:K", secret).unwrap();
        let text = format!("a note: {written}; end");
        let expected = "a note: [REDACTED:env:K]; end";
        assert_eq!(redactor.text(&text), expected, "{written}");
        for cut in 0..=text.len() {
            let mut stream = redactor.stream();
            let mut streamed = stream.push_bytes(&text.as_bytes()[..cut]);
            streamed.extend(stream.push_bytes(&text.as_bytes()[cut..]));
            streamed.extend(stream.finish_bytes());
            let streamed = String::from_utf8(streamed).unwrap();
            assert_eq!(streamed, expected, "{written} cut at {cut}");
        }
    }

    #[test]
    fn a_secret_is_found_however_it_is_escaped() {
        for (secret, written) in [
            ("wJalr/K7/bPxR", r"wJalr\/K7\/bPxR"),
            ("wJalr/K7/bPxR", r"wJalr\\\/K7\\\/bPxR"),
            ("wJalr/K7/bPxR", "wJalr%2fK7%2FbPxR"),
            ("wJalr/K7/bPxR", "wJalr%252fK7%252fbPxR"),
            ("a&b<c>d'e", r"a\u0026b\u003cc\u003Ed'e"),
            ("a&b<c>d'e", r"a\\u0026b\\u003cc\\u003ed'e"),
            ("a&b<c>d'e", "a&amp;b&lt;c&gt;d&#39;e"),
            ("a&b<c>d'e", "a&amp;b&lt;c&gt;d&#x27;e"),
            ("a&b<c>d'e", r"a\u0026amp;b\u0026lt;c\u0026gt;d\u0026#39;e"),
            ("a&b<c>d'e", r"a\&b\<c\>d\'e"),
            ("a&b<c>d'e", r"a&b<c>d'\''e"),
            ("a&b<c>d'e", r#"a&b<c>d'"'"'e"#),
            ("Zoë-7 x\"y\\z", r#"Zo\u00eb-7 x\"y\\z"#),
            ("Zoë-7 x\"y\\z", r#"Zo\xeb-7 x"y\\z"#),
            ("Zoë-7 x\"y\\z", r#"Zo\303\253-7 x"y\z"#),
            ("Zoë-7 x\"y\\z", r#"Zo\\u00eb-7 x\\\"y\\\\z"#),
            ("Zoë-7 x\"y\\z", "Zo%c3%ab-7+x%22y%5cz"),
            ("Zoë-7 x\"y\\z", "Zo&#235;-7 x&quot;y\\z"),
            ("key😀key", r"key\ud83d\ude00key"),
            ("key😀key", r"key\U0001f600key"),
            ("one\ntwo\tthree", r"one\ntwo\tthree"),
        ] {
            check(secret, secret);
            check(secret, written);
        }
    }

    #[test]
    fn a_long_secret_is_found_however_it_is_escaped() {
        // As base64 has it: one sign in thirty.
        let secret = "Ab3dEfGhIjKlMnOpQrStUvWxYz012/".repeat(60);
        let redactor = Redactor::default().knowing("env:K", &secret).unwrap();
        for sign in ["/", r"\/", r"\u002f", "&#47;", "%2F", r"\x2f"] {
            let text = format!("a note: {}; end", secret.replace('/', sign));
            assert_eq!(
                redactor.text(&text),
                "a note: [REDACTED:env:K]; end",
                "{sign}"
            );
            let mut stream = redactor.stream();
            let pieces = text.as_bytes().chunks(1_000);
            let mut streamed: Vec<u8> = pieces.flat_map(|piece| stream.push_bytes(piece)).collect();
            streamed.extend(stream.finish_bytes());
            assert_eq!(streamed, b"a note: [REDACTED:env:K]; end", "{sign}");
        }
    }

    #[test]
    fn a_secret_is_found_in_two_bytes_a_character() {
        let redactor = Redactor::default().knowing("env:K", "Zoë-hunter").unwrap();
        for ends in [u16::to_le_bytes, u16::to_be_bytes] {
            let text = "say Zoë-hunter now".encode_utf16();
            let bytes: Vec<u8> = text.flat_map(ends).collect();
            let mut stream = redactor.stream();
            let mut clean = stream.push_bytes(&bytes);
            clean.extend(stream.finish_bytes());
            let text = String::from_utf8_lossy(&clean).replace('\0', "");
            assert_eq!(text, "say [REDACTED:env:K] now");
        }
    }
}
