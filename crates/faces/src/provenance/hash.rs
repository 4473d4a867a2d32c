//! Hashes: SHA-256, written `sha256:` and 64 lowercase hex digits.
//!
//! Texts are hashed as their bytes, values as their canonical JSON (RFC 8785, with all digits of
//! integers beyond 2^53), so that a text as a value hashes with its quotes.

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

/// The canonical text of a value.
pub fn canonical_json(value: &Value) -> String {
    String::from_utf8(canonical(value)).expect("JSON is UTF-8")
}
