//! JSON texts with their values or faults, and values with their bytes.

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
fn invalid_json_is_located() {
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
        &[(
            "",
            json,
            "line 2, column 10: not JSON: a word must be true, false or null; put other words into \
             double quotes",
        )],
    );
    let comment = "not JSON: JSON has no comments; remove this one";
    for (text, place) in [
        ("// a\n{}", "line 1, column 1"),
        ("{ // a\n}", "line 1, column 3"),
        ("{\"a\": 1, /* a */ \"b\": 2}", "line 1, column 10"),
        ("{\"a\": 1 // a\n}", "line 1, column 9"),
        ("# a\n{}", "line 1, column 1"),
        ("{} // a", "line 1, column 4"),
    ] {
        check(text, &[("", json, &format!("{place}: {comment}"))]);
    }
    let yaml = "not JSON: this looks like YAML; write the same as JSON, such as `{ \"id\": \
                \"build\" }`";
    for (text, place) in [
        ("id: w\nname: w\n", "line 1, column 1"),
        ("---\nid: w\n", "line 1, column 2"),
        ("- id: w\n", "line 1, column 2"),
        ("# a\nnodes:\n  - id: a\n", "line 1, column 1"),
        ("name: w\n", "line 1, column 2"),
    ] {
        check(text, &[("", json, &format!("{place}: {yaml}"))]);
    }
    check(
        "[1,]",
        &[(
            "",
            json,
            "line 1, column 4: not JSON: there is a comma before the closing bracket; remove it",
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
            "line 1, column 5: not JSON: there is text after the end of the JSON value; remove it",
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
        &[(
            "",
            json,
            "line 1, column 1: not JSON: a value is expected here: an object, an array, a string \
             in double quotes, a number, true, false or null",
        )],
    );
    check(
        "\u{feff}{}",
        &[(
            "",
            json,
            "line 1, column 1: the text starts with a byte order mark; save it as UTF-8 without one",
        )],
    );
    check(
        r#""\ud800""#,
        &[(
            "",
            json,
            "line 1, column 8: not JSON: a string contains half of a surrogate pair; write the \
             other half after it",
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
    let twice =
        |path: &str, key: &str| format!("{path}: the key `{key}` is here twice; keep one of them");
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
fn hard_limits_hold_for_any_request() {
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
    for whole in [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
    ] {
        let value: Value = serde_json::from_str(whole).expect("JSON");
        assert_eq!(canonical(&value), whole.as_bytes());
    }
}

#[test]
fn integers_beyond_64_bits_are_refused_with_their_place() {
    for (text, column) in [
        ("[18446744073709551616, 18446744073709551617]", 24),
        ("{\"a\\\"b\": -9223372036854775809}", 10),
        ("100000000000000000000000000000000001", 1),
    ] {
        let problems = parse(text.as_bytes(), Limits::DEFINITION).expect_err(text);
        let problem = &problems.listed[0];
        assert_eq!(problem.at, Some(Position { line: 1, column }), "{text}");
        assert!(problem.message.contains("as a string"), "{problem}");
    }
    for text in [
        "[9007199254740993, -9223372036854775808, 18446744073709551615]",
        "[18446744073709551616, 100000000000000000000, 1e300]",
        "[0.12345678901234567890123, \"18446744073709551617\"]",
    ] {
        assert!(parse(text.as_bytes(), Limits::DEFINITION).is_ok(), "{text}");
    }
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
            prop::collection::btree_map("[a-b\u{e000}\u{fb33}\u{1f600}\\PC\n]{0,3}", inner, 0..4)
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

    #[test]
    fn canonical_bytes_are_those_of_another_implementation(value in values()) {
        let theirs = serde_json_canonicalizer::to_vec(&value)?;
        prop_assert_eq!(canonical(&value), theirs);
    }

    /// Canonical bytes are a fixed point with the same meaning.
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
