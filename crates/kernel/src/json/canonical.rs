//! RFC 8785: one value, one text.
//!
//! Implemented here because every event passes through it. It visits a value once and copies
//! strings whole, which is an order of magnitude faster than a formatter that sees one token at a
//! time. A test compares it with `serde_json_canonicalizer`.

use serde::Serialize;
use serde_json::{Map, Number, Value};

/// Up to here a double holds every integer.
const SAFE_INTEGER: u64 = 1 << 53;

/// The canonical bytes (RFC 8785) of a value that is known to be representable as JSON.
///
/// Integers of 64 bits keep all digits: RFC 8785 defines no text for those beyond 2^53. A float
/// that is not finite becomes `null`, as always with `serde_json`.
///
/// # Panics
/// When the value is not JSON: a map key that is neither a string nor a number. Takes as much
/// stack as the value is deep.
pub fn canonical<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let value = serde_json::to_value(value).expect("kernel values are always JSON");
    let mut out = Vec::with_capacity(256);
    write_value(&value, &mut out);
    out
}

/// As [`canonical`], for a JSON value, without a copy.
pub(crate) fn canonical_of(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_value(value, &mut out);
    out
}

/// As [`canonical`], for a JSON value, appended to `out`.
pub(crate) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(object) => write_object(object, out),
    }
}

/// As [`write_value`], for an object's members.
pub(crate) fn write_object(object: &Map<String, Value>, out: &mut Vec<u8>) {
    // Nearly always the keys are plain and the map has them in order already.
    if object.keys().all(|key| key.is_ascii()) && object.keys().is_sorted() {
        return write_members(object.iter(), out);
    }
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    write_members(entries.into_iter(), out);
}

/// Writes entries that are in the order of UTF-16 code units, in which U+1F600 comes before
/// U+FB33.
fn write_members<'a>(entries: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

/// Escapes as RFC 8785 requires, like `serde_json`.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a vector takes every write");
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    if number.is_f64() {
        let double = number.as_f64().unwrap_or_default();
        out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
    } else {
        serde_json::to_writer(out, number).expect("a vector takes every write");
    }
}

/// Converts each number to JavaScript's number, in one spelling.
pub fn as_doubles(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if whole.is_some_and(|whole| whole <= SAFE_INTEGER) {
                return;
            }
            let double = number.as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, reason = "whole and within bounds")]
            let whole = (double.fract() == 0.0 && double.abs() <= SAFE_INTEGER as f64)
                .then_some(double as i64);
            *number = match whole {
                Some(whole) => whole.into(),
                None => Number::from_f64(double).unwrap_or_else(|| 0.into()),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(as_doubles),
        Value::Object(members) => members.values_mut().for_each(as_doubles),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
