//! Sealed values: the encrypted form of sensitive values in a log.
//!
//! The kernel only knows their form. The runtime, which has the keys, seals a value on input and
//! opens it when a node receives it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The only key of the object that represents a sealed value.
pub const SEALED: &str = "$sealed";

/// A sensitive value, encrypted: `{"$sealed":{"key":…,"nonce":…,"body":…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// The id of the key it is sealed with.
    pub key: String,
    /// The nonce, base64.
    pub nonce: String,
    /// The ciphertext of the value's JSON with its tag, base64.
    pub body: String,
}

impl Sealed {
    /// Its form in the log.
    pub fn into_value(self) -> Value {
        serde_json::json!({ SEALED: self })
    }

    /// Reads one; `None` for any other value.
    pub fn from_value(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        if fields.len() != 1 {
            return None;
        }
        Self::deserialize(fields.get(SEALED)?).ok()
    }
}

/// Whether a value, or anything in it, claims to be sealed.
pub fn has_sealed(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.contains_key(SEALED) || fields.values().any(has_sealed),
        Value::Array(items) => items.iter().any(has_sealed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sealed_value_differs_from_lookalikes() {
        let sealed = Sealed {
            key: "k".into(),
            nonce: "bg==".into(),
            body: "Yg==".into(),
        };
        let value = sealed.clone().into_value();
        assert_eq!(Sealed::from_value(&value), Some(sealed));
        for other in [
            json!({ "$sealed": 1 }),
            json!({ "$sealed": { "key": "k", "nonce": "n" } }),
            json!({ "$sealed": { "key": "k", "nonce": "n", "body": "b" }, "more": 1 }),
            json!("$sealed"),
        ] {
            assert_eq!(Sealed::from_value(&other), None, "{other}");
        }
        assert!(has_sealed(&json!([{ "deep": { "$sealed": 1 } }])));
        assert!(!has_sealed(&json!({ "a": ["$sealed"] })));
    }
}
