//! JSON: read strictly, kept as RFC 8785 canonical bytes.

use std::cell::RefCell;
use std::fmt;

use serde::Serialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::limits::{MAX_DEFINITION_BYTES, MAX_JSON_DEPTH};
use crate::problem::{Path, Position, Problem, ProblemCode, Problems, quoted};

/// The canonical bytes (RFC 8785) of a value that is known to be representable as JSON.
///
/// Every number becomes a double: beyond 2^53 the nearest one is written.
///
/// # Panics
/// When a map key is not a string or a float is not finite; neither can be held by the types
/// that come here.
pub fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("kernel values are always JSON")
}

/// How large a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub max_bytes: usize,
    /// Arrays and objects within one another. More than [`MAX_JSON_DEPTH`] is not allowed.
    pub max_depth: usize,
}

impl Limits {
    /// The bounds of a workflow definition.
    pub const DEFINITION: Self = Self {
        max_bytes: MAX_DEFINITION_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
}

/// Reads a JSON text strictly: UTF-8, one value and nothing after it, no key twice in an object,
/// within bounds. Time and memory are in proportion to the bounds, not to the text.
///
/// Numbers are kept as `serde_json` does (64-bit integers, else doubles); one that is too large
/// for a double is an error.
///
/// # Errors
/// The first place where the text is not JSON, or every repeated key with its path.
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Value, Problems> {
    if bytes.len() > limits.max_bytes {
        return Err(Problem::new(
            "",
            ProblemCode::TooLarge,
            format!(
                "the document has {} bytes; at most {} are allowed",
                bytes.len(),
                limits.max_bytes
            ),
        )
        .into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        at(
            position(bytes, error.valid_up_to()),
            ProblemCode::InvalidUtf8,
            "the text is not UTF-8; save it as UTF-8",
        )
    })?;
    if text.starts_with('\u{feff}') {
        return Err(at(
            Position { line: 1, column: 1 },
            ProblemCode::MalformedJson,
            "the text begins with a byte order mark; save it as UTF-8 without one",
        ));
    }
    check_depth(bytes, limits.max_depth.min(MAX_JSON_DEPTH))?;

    let problems = RefCell::new(Problems::new());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let strict = Strict {
        path: &Path::Root,
        problems: &problems,
    };
    let value = strict
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| malformed(text, &error))?;
    problems.into_inner().or(value)
}

/// How deep arrays and objects are nested in a value; 0 for anything else.
///
/// Takes as much stack as the value is deep, so only for values that were read or computed here.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn at(position: Position, code: ProblemCode, message: impl Into<String>) -> Problems {
    Problem {
        at: Some(position),
        ..Problem::new("", code, message)
    }
    .into()
}

fn position(bytes: &[u8], offset: usize) -> Position {
    let before = &bytes[..offset];
    let line_start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |newline| newline + 1);
    Position {
        line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
        column: 1 + offset - line_start,
    }
}

/// Refuses deep nesting before anything recurses. Counts brackets outside of strings, which is
/// right for JSON, and for anything else an error follows anyway.
fn check_depth(bytes: &[u8], max_depth: usize) -> Result<(), Problems> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (offset, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > max_depth {
                    return Err(at(
                        position(bytes, offset),
                        ProblemCode::TooDeep,
                        format!("nested more than {max_depth} deep; flatten the document"),
                    ));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

fn malformed(text: &str, error: &serde_json::Error) -> Problems {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = match message {
        "trailing characters" => "something follows the end of the JSON value; remove it",
        "number out of range" => "the number is too large for JSON",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a string holds a raw control character, such as a line break; write it as \\n or \\u…"
        }
        _ if text.trim_ascii().is_empty() => "the document is empty; a JSON value is needed",
        "trailing comma" => "a comma stands before the closing bracket; remove it",
        "key must be a string" => "a key must be a text in double quotes",
        message => message,
    };
    let (line, column) = (error.line().max(1), error.column().max(1));
    at(
        Position { line, column },
        ProblemCode::MalformedJson,
        format!("not JSON: {message}"),
    )
}

/// Reads a value and notes repeated keys.
#[derive(Clone, Copy)]
struct Strict<'a> {
    path: &'a Path<'a>,
    problems: &'a RefCell<Problems>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        match serde_json::Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(E::custom("number out of range")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path::Index(self.path, items.len());
            match seq.next_element_seed(Strict {
                path: &path,
                ..self
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path::Key(self.path, &key);
            let value = map.next_value_seed(Strict {
                path: &path,
                ..self
            })?;
            if object.contains_key(&key) {
                self.problems.borrow_mut().add(
                    path.pointer(),
                    ProblemCode::DuplicateKey,
                    format!(
                        "the key {} stands here twice; keep one of them",
                        quoted(&key)
                    ),
                );
                continue;
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const LIMITS: Limits = Limits {
        max_bytes: 1_000,
        max_depth: 5,
    };

    #[track_caller]
    fn check(text: impl AsRef<[u8]>, expected: &[(&str, ProblemCode, &str)]) {
        let found = parse(text.as_ref(), LIMITS).map_err(|problems| problems.listed);
        let found = found.err().unwrap_or_default();
        let found: Vec<_> = found
            .iter()
            .map(|p| (p.path.as_str(), p.code, p.to_string()))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, code, text)| (*path, *code, (*text).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_json_says_where() {
        use ProblemCode::*;
        let json = MalformedJson;
        check(r#"{"a": [1, 2.5, null, true, "x"]}"#, &[]);
        check(
            "",
            &[(
                "",
                json,
                "line 1, column 1: not JSON: the document is empty; a JSON value is needed",
            )],
        );
        check(
            "{\n \"a\": tru }",
            &[("", json, "line 2, column 10: not JSON: expected ident")],
        );
        check(
            "[1,]",
            &[(
                "",
                json,
                "line 1, column 4: not JSON: a comma stands before the closing bracket; remove it",
            )],
        );
        check(
            "{a: 1}",
            &[(
                "",
                json,
                "line 1, column 2: not JSON: a key must be a text in double quotes",
            )],
        );
        check(
            "[1] 2",
            &[(
                "",
                json,
                "line 1, column 5: not JSON: something follows the end of the JSON value; remove it",
            )],
        );
        check(
            "[1e999]",
            &[(
                "",
                json,
                "line 1, column 6: not JSON: the number is too large for JSON",
            )],
        );
        check(
            "NaN",
            &[("", json, "line 1, column 1: not JSON: expected value")],
        );
        check(
            "\u{feff}{}",
            &[(
                "",
                json,
                "line 1, column 1: the text begins with a byte order mark; save it as UTF-8 without one",
            )],
        );
        check(
            r#""\ud800""#,
            &[(
                "",
                json,
                "line 1, column 8: not JSON: unexpected end of hex escape",
            )],
        );
        check(
            b"[\n\"\xff\"]",
            &[(
                "",
                InvalidUtf8,
                "line 2, column 2: the text is not UTF-8; save it as UTF-8",
            )],
        );
        check(
            "[[[[[[1]]]]]]",
            &[(
                "",
                TooDeep,
                "line 1, column 6: nested more than 5 deep; flatten the document",
            )],
        );
        check("[[[[[\"[[[\\\"[[\"]]]]]", &[]);
        check(
            [b' '; 1_001],
            &[(
                "",
                TooLarge,
                "the document has 1001 bytes; at most 1000 are allowed",
            )],
        );
    }

    #[test]
    fn every_repeated_key_is_listed_with_its_path() {
        let text = r#"{"a": 1, "b": [{"c/d": 1, "c\/d": {"e": 1, "e": 2}}], "a": 2, "\u0061": 3}"#;
        let twice = |path: &str, key: &str| {
            format!("{path}: the key `{key}` stands here twice; keep one of them")
        };
        check(
            text,
            &[
                (
                    "/b/0/c~1d/e",
                    ProblemCode::DuplicateKey,
                    &twice("/b/0/c~1d/e", "e"),
                ),
                (
                    "/b/0/c~1d",
                    ProblemCode::DuplicateKey,
                    &twice("/b/0/c~1d", "c/d"),
                ),
                ("/a", ProblemCode::DuplicateKey, &twice("/a", "a")),
                ("/a", ProblemCode::DuplicateKey, &twice("/a", "a")),
            ],
        );
    }

    #[test]
    fn bounds_hold_whatever_is_asked() {
        let wide = Limits {
            max_bytes: usize::MAX,
            max_depth: usize::MAX,
        };
        for depth in [1_000, 100_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let problems = parse(text.as_bytes(), wide).err().unwrap_or_default();
                assert_eq!(problems.listed[0].code, ProblemCode::TooDeep);
            }
        }
        let deepest = format!(
            "{}{}",
            "[".repeat(MAX_JSON_DEPTH),
            "]".repeat(MAX_JSON_DEPTH)
        );
        let value = parse(deepest.as_bytes(), wide).unwrap_or_default();
        assert_eq!(depth(&value), MAX_JSON_DEPTH);
        let huge = vec![b'['; 100 << 20];
        let problems = parse(&huge, Limits::DEFINITION).err().unwrap_or_default();
        assert_eq!(problems.listed[0].code, ProblemCode::TooLarge);
    }

    #[test]
    fn a_flood_of_problems_is_counted() {
        let text = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1_000));
        let problems = parse(text.as_bytes(), Limits::DEFINITION)
            .err()
            .unwrap_or_default();
        assert_eq!(
            (problems.listed.len(), problems.more),
            (crate::limits::MAX_PROBLEMS, 900)
        );
    }

    /// The number samples of RFC 8785, appendix B, and what serde_json makes of integers.
    #[test]
    fn canonical_numbers() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let text = String::from_utf8(canonical(&f64::from_bits(bits)));
            assert_eq!(text.as_deref(), Ok(expected));
        }
        assert_eq!(canonical(&json!([1.0, 10, -7, 1e2])), b"[1,10,-7,100]");
        assert_eq!(canonical(&9_007_199_254_740_993_u64), b"9007199254740992");
    }

    /// Keys are ordered by UTF-16 code units, where U+1F600 comes before U+FB33.
    #[test]
    fn canonical_keys_and_strings() {
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew",
            "1": "One", "\u{1f600}": "Emoji", "\u{80}": "Control", "\u{f6}": "Latin",
        });
        let text = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
                    \"\u{f6}\":\"Latin\",\"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji\",\
                    \"\u{fb33}\":\"Hebrew\"}";
        assert_eq!(String::from_utf8(canonical(&value)).as_deref(), Ok(text));
        let escapes = json!("\u{20ac}$\u{f}\nA'B\"\\\"/\u{7f}");
        assert_eq!(
            String::from_utf8(canonical(&escapes)).as_deref(),
            Ok("\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\"/\u{7f}\"")
        );
    }

    /// Any JSON value, floats that are written with an exponent included.
    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-1_000_000_i64..1_000_000).prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes, LIMITS);
        }

        #[test]
        fn any_json_like_text_is_read_or_refused(text in "[\\[\\]{}\":,0-9a-e\\\\ntru.+-]{0,40}") {
            let strict = parse(text.as_bytes(), LIMITS);
            let plain = serde_json::from_str::<Value>(&text);
            match strict {
                Ok(value) => prop_assert_eq!(Some(value), plain.ok()),
                Err(problems) => {
                    let stricter = |p: &Problem| {
                        matches!(p.code, ProblemCode::DuplicateKey | ProblemCode::TooDeep)
                    };
                    let refused = plain.is_err() || problems.listed.iter().all(stricter);
                    prop_assert!(refused, "{}", text);
                }
            }
        }

        /// Canonical bytes are a fixed point, and say the same thing.
        #[test]
        fn canonical_bytes_are_stable(value in values()) {
            let bytes = canonical(&value);
            let back = parse(&bytes, Limits::DEFINITION);
            prop_assert!(back.is_ok());
            let back = back.unwrap_or_default();
            prop_assert!(crate::expr::json_eq(&back, &value));
            prop_assert_eq!(canonical(&back), bytes);
        }
    }
}
