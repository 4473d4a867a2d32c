//! Hashes: SHA-256, written `sha256:` and 64 lowercase hex digits.
//!
//! Texts are hashed as their bytes, values as their canonical JSON (RFC 8785), so that a text as a
//! value hashes with its quotes.

use kernel::digest::Digest;
use kernel::json::canonical;
use serde_json::Value;

const PREFIX: &str = "sha256:";

/// The hash of a text, exactly as given: without trimming or normalising.
pub fn hash_text(text: &str) -> String {
    hash_bytes(text.as_bytes())
}

/// The hash of some bytes.
pub fn hash_bytes(bytes: &[u8]) -> String {
    written(&Digest::compute(bytes))
}

/// The hash of a value: of its [`canonical_json`].
pub fn hash_json(value: &Value) -> String {
    hash_text(&canonical_json(value))
}

/// The written form of a digest.
pub fn written(digest: &Digest) -> String {
    format!("{PREFIX}{digest}")
}

/// Parses a hash: with or without its prefix, in any case. `None` for anything else, such as the
/// placeholders in examples.
pub fn digest(text: &str) -> Option<Digest> {
    text.strip_prefix(PREFIX).unwrap_or(text).parse().ok()
}

/// Whether two written hashes are equal.
pub fn same(a: &str, b: &str) -> bool {
    match (digest(a), digest(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a == b,
        _ => false,
    }
}

/// The canonical text of a value by RFC 8785, except that whole numbers beyond 2^53 keep their
/// digits: two different ones must not have the same hash.
pub fn canonical_json(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) if !number.is_f64() => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push(b'{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend(canonical(name));
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
        plain => out.extend(canonical(plain)),
    }
}
