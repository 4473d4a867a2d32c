//! What credentials look like, and the forms a known secret may take.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::named::Takes;
use super::spellings::{self, Spelled};
use super::{keys, ordinary};

/// What a credential looks like.
pub(super) struct Shape {
    /// What stands in its place.
    pub(super) replacement: &'static str,
    /// The pattern; where it has a group, that alone is the credential.
    pub(super) pattern: &'static str,
    /// What of it is taken out.
    pub(super) takes: Takes,
}

const fn alone(pattern: &'static str) -> Shape {
    Shape {
        replacement: "[REDACTED]",
        pattern,
        takes: |_, credential| Some(credential),
    }
}

const fn hook(pattern: &'static str) -> Shape {
    Shape {
        replacement: "[REDACTED:url]",
        pattern,
        takes: |_, credential| Some(credential),
    }
}

/// Well-known shapes. Each begins with something fixed, so that ordinary text is passed over
/// quickly and a stream holds back little.
pub(super) const SHAPES: [Shape; 30] = [
    // Private keys in PEM, also with their line breaks escaped.
    alone(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\:,.\-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    ),
    // Our own API keys.
    alone(r"\brw_[0-9a-f]{40}_[0-9a-f]{48}"),
    // OpenAI, Anthropic and others that took the prefix over.
    alone(r"\bsk-[A-Za-z0-9_\-]{20,}"),
    // Stripe.
    alone(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    // JSON Web Tokens: header and payload are objects, whose base64 begins alike.
    alone(r"\beyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]*"),
    // AWS access keys.
    alone(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    // GitHub.
    alone(r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    alone(r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    // GitLab.
    alone(r"\bglpat-[A-Za-z0-9_\-]{20,}"),
    // Slack.
    alone(r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}"),
    // Google.
    alone(r"\bAIza[A-Za-z0-9_\-]{35}\b"),
    // Anything that is sent as a bearer token.
    alone(r"\b[Bb][Ee][Aa][Rr][Ee][Rr] {1,4}[A-Za-z0-9\-._~+/]{16,}={0,2}"),
    // The name in an address that has no password is a key where it looks like one.
    Shape {
        replacement: "[REDACTED:url]",
        takes: keys::of_user,
        pattern: r#":(?:\\?/){2}([^\s/?\#:@"'<>\\{}$\[\]`,;()=&]{16,})(?::(?:x-oauth-basic)?)?@"#,
    },
    // The addresses of hooks, which are keys themselves.
    hook(r"\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{10,})"),
    hook(r"\bdiscord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{1,25}/([A-Za-z0-9_\-]{10,})"),
    hook(
        r"\b(?:webhook\.office|outlook\.office(?:365)?)\.com/webhook(?:b2)?/([A-Za-z0-9@/\-]{10,})",
    ),
    // A bot of Telegram.
    hook(r"/bot([0-9]{5,14}:[A-Za-z0-9_\-]{20,})"),
    // SendGrid, npm, PyPI, Hugging Face, Groq, Google, Shopify, Vault, DigitalOcean, age.
    alone(r"\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"),
    alone(r"\bnpm_[A-Za-z0-9]{36}\b"),
    alone(r"\bpypi-[A-Za-z0-9_\-]{50,}"),
    alone(r"\b(?:hf|gsk)_[A-Za-z0-9]{30,}"),
    alone(r"\b(?:GOCSPX-|ya29\.)[A-Za-z0-9_\-]{20,}"),
    alone(r"\bshp(?:at|ca|pa|ss)_[0-9a-f]{32}"),
    alone(r"\bhv[bs]\.[A-Za-z0-9_\-]{24,}"),
    alone(r"\bdo[opr]_v1_[0-9a-f]{64}"),
    alone(r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    // The password of an address, up to the last `@` before its path. A place to be filled in,
    // such as `${PASSWORD}`, is none.
    Shape {
        replacement: "[REDACTED:url]",
        takes: ordinary::of_address,
        pattern: r#":(?:\\?/){2}(?:\[REDACTED[^\s\]]*\]|[^\s/?\#:"'<>\\\[])*:((?:[^\s/?\#"'<>\\{$]|\$[^\s/?\#"'<>\\{])[^\s/?\#"'<>\\]*)@"#,
    },
    // A parameter of an address with the name of a secret.
    Shape {
        replacement: "[REDACTED:field]",
        takes: ordinary::of_query,
        pattern: r#"(?i)(?:[?&]|\\u0026)(?:amp;)?(?:(?:access|auth|id|refresh|session|api|bearer|private|x-amz-security|x-goog-security)[_\-]?token|token|(?:api|app|access|subscription)[_\-]?key|client[_\-]?secret|secret|password|passwd|passphrase|pass|pwd|jwt|auth|sig|signature|x-(?:amz|goog)-(?:signature|credential))=((?:%[0-9a-f]{2}|[^\s&\#"'<>\\{}$%\[])[^\s&\#"'<>\\]*)"#,
    },
    // Basic authentication: base64 that is padded, or mixes its letters as no word does. The name of
    // the header is not asked for: a stream would hold back each word that begins like it.
    Shape {
        replacement: "[REDACTED:header]",
        takes: |_, credential| Some(credential),
        pattern: r"\b[Bb][Aa][Ss][Ii][Cc] {1,4}([A-Za-z0-9+/]{6,}={1,2}|[A-Za-z0-9+/]*[a-z][A-Z0-9][A-Za-z0-9+/]*[a-z][A-Z0-9][A-Za-z0-9+/]+)",
    },
    // Headers that are a key.
    Shape {
        replacement: "[REDACTED:header]",
        takes: ordinary::of_key_header,
        pattern: r#"(?i)\bx-(?:api-key|auth-token)\\*["']?[ \t]{0,4}[:=][ \t]{0,4}\\*["']?([A-Za-z0-9\-._~+/]{4,}={0,2})"#,
    },
];

/// Lines of a secret that are found without the rest of it, because programs print line by line.
const MIN_LINE_BYTES: usize = 16;
/// A base64 form with fewer characters of its own would match by chance.
const MIN_BASE64_CHARS: usize = 8;

/// Bytes of a text whose every spelling is looked for, and characters in it that may be written in
/// several ways: these make its machine large. Of a longer one there are the usual spellings.
const MAX_SPELLED_BYTES: usize = 4 << 10;
const MAX_SPELLED_SIGNS: usize = 512;

/// Patterns for every form in which a secret is found again.
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
    let forms = rest.iter().cloned().chain(escaped).chain(base64s(secret));
    patterns.extend(forms.map(|form| literal(form.as_bytes())));
    for ends in [u16::to_le_bytes, u16::to_be_bytes] {
        let wide: Vec<u8> = secret.encode_utf16().flat_map(ends).collect();
        patterns.push(literal(&wide));
    }
    patterns
}

/// Characters that are neither a letter nor a digit of ASCII.
fn signs(text: &str) -> usize {
    text.chars().filter(|c| !c.is_ascii_alphanumeric()).count()
}

/// A secret, and those of its lines that are found without the rest.
fn texts(secret: &str) -> Vec<String> {
    let mut texts = vec![secret.to_owned()];
    let lines = secret.lines().filter(|line| line.len() >= MIN_LINE_BYTES);
    texts.extend(lines.map(str::to_owned).filter(|line| line != secret));
    texts
}

/// The usual ways to write a text.
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
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

/// What is the same in every base64 that has a secret. It groups three bytes: what a secret looks
/// like depends on where in a group it begins, as it does behind the user name of basic
/// authentication.
fn base64s(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let encoded = engine.encode(&bytes);
            // Characters that share bits with what stands before or behind are not of the form.
            let from = (offset * 8).div_ceil(6);
            let to = bytes.len() * 8 / 6;
            if to.saturating_sub(from) >= MIN_BASE64_CHARS {
                forms.push(encoded[from..to].to_owned());
            }
        }
    }
    forms
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
