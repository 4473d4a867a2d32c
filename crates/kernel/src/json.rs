//! JSON as the log keeps it: RFC 8785 canonical bytes.

use serde::Serialize;

/// The canonical bytes (RFC 8785) of a value that is known to be representable as JSON.
///
/// # Panics
/// When a map key is not a string or a float is not finite; neither can be held by the types
/// that come here.
pub fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("kernel values are always JSON")
}
