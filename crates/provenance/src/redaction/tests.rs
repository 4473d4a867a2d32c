use super::*;
use serde_json::json;

#[test]
fn texts_are_masked_and_counted() {
    for (text, expected) in [
        (
            "see https://me:pa55w0rd@host/x.",
            "see https://me:[REDACTED:url]@host/x.",
        ),
        ("Cookie: a=b; c=d\nnext", "Cookie: [REDACTED:header]\nnext"),
        (
            r#"{"password": "open"}"#,
            r#"{"password": "[REDACTED:field]"}"#,
        ),
        (
            "DB_PASSWORD=sesame ./start",
            "DB_PASSWORD=[REDACTED:field] ./start",
        ),
        (
            "max_tokens: 4096, authorised by the author",
            "max_tokens: 4096, authorised by the author",
        ),
    ] {
        let redaction = Redaction::default();
        assert_eq!(redaction.text(text), expected);
        assert_eq!(redaction.text(expected), expected, "once is enough");
        assert_eq!(redaction.counted().count, u64::from(text != expected));
    }
}

#[test]
fn arguments_and_members_are_masked_by_their_place() {
    for (mut value, expected) in [
        (
            json!(["login", "--db-password", "abc", "--token", "--user", "me"]),
            json!([
                "login",
                "--db-password",
                "[REDACTED:field]",
                "--token",
                "--user",
                "me"
            ]),
        ),
        (
            json!([
                "curl",
                "-u",
                "ada:sesame",
                "-H",
                "Authorization: Bearer x1y2z3",
                1
            ]),
            json!([
                "curl",
                "-u",
                "ada:[REDACTED:field]",
                "-H",
                "Authorization: Bearer [REDACTED:header]",
                1
            ]),
        ),
        (
            json!({ "token": "t", "max_tokens": 3, "a": { "clientSecret": "open" } }),
            json!({ "token": "[REDACTED:field]", "max_tokens": 3, "a": { "clientSecret": "[REDACTED:field]" } }),
        ),
    ] {
        Redaction::default().value(&mut value);
        assert_eq!(value, expected);
    }
}

#[test]
fn values_of_secret_variables_are_found_everywhere() {
    let variables = [
        ("MY_TOKEN", "correct-horse"),
        ("HOME", "/srv/me"),
        ("PIN_SECRET", "1234"),
        ("DATABASE_URL", "postgres://ada:planted-1@db/shop"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let redaction = Redaction::of_environment(variables);
    let mut value = json!({ "a": ["x correct-horse y", "/srv/me", "1234"], "correct-horse": 1 });
    redaction.value(&mut value);
    let place = "[REDACTED:MY_TOKEN]";
    assert_eq!(
        value,
        json!({ "a": [format!("x {place} y"), "/srv/me", "1234"], place: 1 })
    );
    let bytes = redaction.bytes(b"\xffcorrect-horse\xfe");
    assert_eq!(bytes, b"\xff[REDACTED:MY_TOKEN]\xfe");
    assert_eq!(
        redaction.text("say planted-1"),
        "say [REDACTED:DATABASE_URL]"
    );
    let (_, taken) = redaction.sifted(b"password=[REDACTED:field]");
    assert_eq!(taken, BTreeMap::new());
    let counted = redaction.counted();
    assert_eq!((counted.count, counted.kinds["MY_TOKEN"]), (4, 3));
}
