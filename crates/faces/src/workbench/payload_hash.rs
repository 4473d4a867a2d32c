//! The client's hash of an artifact's data.
//!
//! It differs from the hash of canonical JSON: the client sorts the keys of an object and builds it
//! anew, but JavaScript puts keys that are array indices first, in numerical order, and treats
//! `__proto__` specially. The hash covers the result of that.

use kernel::digest::Digest;
use serde_json::Value;

/// The client's hash of an artifact's data.
pub(super) fn payload_hash(data: &Value) -> Digest {
    let mut out = Vec::new();
    write(data, &mut out);
    Digest::compute(&out)
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .filter(|(key, _)| *key != "__proto__")
                .collect();
            members.sort_by_cached_key(|(key, _)| order(key));
            out.push(b'{');
            for (place, (key, value)) in members.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend(kernel::json::canonical(key));
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        plain => out.extend(kernel::json::canonical(plain)),
    }
}

/// Array indices first, by number; then the others by UTF-16.
fn order(key: &str) -> (u64, Vec<u16>) {
    let is_plain =
        key == "0" || (!key.starts_with('0') && key.bytes().all(|it| it.is_ascii_digit()));
    let index = key
        .parse::<u64>()
        .ok()
        .filter(|index| is_plain && *index < u64::from(u32::MAX));
    match index {
        Some(index) => (index, Vec::new()),
        None => (u64::MAX, key.encode_utf16().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_that_are_indices_come_first_by_number() {
        let mut out = Vec::new();
        let value = json!({ "b": 1, "10": 2, "9": 3, "010": 4, "4294967295": 5, "__proto__": 6 });
        write(&value, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, r#"{"9":3,"10":2,"010":4,"4294967295":5,"b":1}"#);
    }
}
