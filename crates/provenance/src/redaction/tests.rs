use super::*;
use serde_json::json;

#[track_caller]
fn check(text: &str, expected: &str) {
    let redaction = Redaction::default();
    assert_eq!(redaction.text(text), expected);
    assert_eq!(redaction.text(expected), expected, "once is enough");
    assert_eq!(redaction.counted().count, u64::from(text != expected));
}

#[test]
fn secrets_are_known_by_what_they_are_called() {
    check(
        "see https://me:pa55w0rd@host/x.",
        "see https://me:[REDACTED:url]@host/x.",
    );
    check("Cookie: a=b; c=d\nnext", "Cookie: [REDACTED:header]\nnext");
    check(
        "-H 'X-Api-Key: abc123'",
        "-H 'X-Api-Key: [REDACTED:header]'",
    );
    check(
        r#"{"password": "open"}"#,
        r#"{"password": "[REDACTED:field]"}"#,
    );
    check(
        r#"{\"client_secret\":\"open\"}"#,
        r#"{\"client_secret\":\"[REDACTED:field]\"}"#,
    );
    check("/x?api_key=abc&y=1", "/x?api_key=[REDACTED:field]&y=1");
    check(
        "user: me\ndb_password: open sesame",
        "user: me\ndb_password: open sesame",
    );
    check(
        "user: me\ndb_password: sesame\n",
        "user: me\ndb_password: [REDACTED:field]\n",
    );
    check(
        "DB_PASSWORD=sesame ./start",
        "DB_PASSWORD=[REDACTED:field] ./start",
    );
}

#[test]
fn quotes_are_taken_up_to_their_end_and_names_may_go_on_before_them() {
    for (text, expected) in [
        (r#"DB_PASSWORD="hunterQ1""#, r#"DB_PASSWORD="*""#),
        (r#"password: "hunterQ2""#, r#"password: "*""#),
        (r"api_key = 'x'", r"api_key = '*'"),
        (r#"export API_KEY="a b""#, r#"export API_KEY="*""#),
        (
            "run AWS_SECRET_ACCESS_KEY=a/b+c now",
            "run AWS_SECRET_ACCESS_KEY=* now",
        ),
        ("SECRET_KEY=abc", "SECRET_KEY=*"),
        ("TOKEN=ab,cd;ef", "TOKEN=*"),
        ("login pwd=abc;x", "login pwd=*;x"),
        (r#"{"dbPassword":"abc"}"#, r#"{"dbPassword":"*"}"#),
        (r#"{"clientSecret":"abc"}"#, r#"{"clientSecret":"*"}"#),
        (r#"{"password":"x hunterQ5"}"#, r#"{"password":"*"}"#),
        (
            r#"{"password":"ab,hunterQ9","b":1}"#,
            r#"{"password":"*","b":1}"#,
        ),
        (
            r#"{"password":"a\"b c\\","b":"c"}"#,
            r#"{"password":"*","b":"c"}"#,
        ),
        (
            r#"{\"token\":\"a\\\"b c\",\"b\":\"c\"}"#,
            r#"{\"token\":\"*\",\"b\":\"c\"}"#,
        ),
        ("/x?access_key=abc&y=1", "/x?access_key=*&y=1"),
        ("/x?auth=abc", "/x?auth=*"),
        ("/x?session=abc#y", "/x?session=*#y"),
        ("/x?y=1&sig=a%2Fb", "/x?y=1&sig=*"),
    ] {
        check(text, &expected.replace('*', "[REDACTED:field]"));
    }
    for (text, expected) in [
        (
            "see proxy-authorization=abc now",
            "see proxy-authorization=* now",
        ),
        (r#"Cookie: a="b"; c=d"#, "Cookie: *"),
        (r#"-H "Cookie: a=b; c=d" /x"#, r#"-H "Cookie: *" /x"#),
    ] {
        check(text, &expected.replace('*', "[REDACTED:header]"));
    }
    // What stands behind a secret that was taken out may be one.
    let text = Redaction::default().text("Cookie: [REDACTED]; s=hunterQB");
    assert_eq!(text, "Cookie: [REDACTED:header]");
}

#[test]
fn the_argument_behind_an_option_is_a_secret() {
    let mut value = json!(["login", "--db-password", "abc", "--token", "--user", "me"]);
    let redaction = Redaction::default();
    redaction.value(&mut value);
    let expected = [
        "login",
        "--db-password",
        "[REDACTED:field]",
        "--token",
        "--user",
        "me",
    ];
    assert_eq!(value, json!(expected));
    assert_eq!(redaction.counted().count, 1);
}

#[test]
fn ordinary_texts_stay_as_they_are() {
    for text in [
        "max_tokens: 4096, tokens_input=2000",
        "the password is checked: it must be long",
        "https://host:8080/a@b and http://[::1]:80/",
        "authorised by the author",
        "let token = next();\nlet cookie = jar.get(name);",
        r#"{"label":"Password:","b":1} input("password: ")"#,
        "PWD=/srv/shop OLDPWD=~/x",
        "/x?design=1&config=2",
    ] {
        check(text, text);
    }
}

#[test]
fn values_of_secret_variables_are_found_everywhere() {
    let variables = [
        ("MY_TOKEN", "correct-horse"),
        ("HOME", "/srv/me"),
        ("PIN_SECRET", "1234"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let redaction = Redaction::of_environment(variables);
    let mut value = json!({ "a": ["x correct-horse y", "/srv/me", "1234"], "token": "t",
                            "max_tokens": 3, "correct-horse": 1 });
    redaction.value(&mut value);
    let place = "[REDACTED:MY_TOKEN]";
    assert_eq!(
        value,
        json!({ "a": [format!("x {place} y"), "/srv/me", "1234"],
                "token": "[REDACTED:field]", "max_tokens": 3, place: 1 })
    );
    let bytes = redaction.bytes(b"\xffcorrect-horse\xfe");
    assert_eq!(bytes, b"\xff[REDACTED:MY_TOKEN]\xfe");
    let (_, taken) = redaction.sifted(b"password=[REDACTED:field]planted-1");
    assert_eq!(taken, BTreeMap::from([("field".to_owned(), 1)]));
    let (_, taken) = redaction.sifted(b"password=[REDACTED:field]");
    assert_eq!(taken, BTreeMap::new());
    let counted = redaction.counted();
    assert_eq!(
        (
            counted.count,
            counted.kinds["MY_TOKEN"],
            counted.kinds["field"]
        ),
        (4, 3, 1)
    );
}

#[test]
fn what_a_program_takes_for_a_password_is_one_in_a_list_of_arguments() {
    for (mut value, expected) in [
        (
            json!(["/usr/bin/sshpass", "-p", "sesame", "ssh", "ada@h"]),
            json!(["/usr/bin/sshpass", "-p", "[REDACTED:field]", "ssh", "ada@h"]),
        ),
        (
            json!(["mysql", "-u", "root", "-psesame", "shop"]),
            json!(["mysql", "-u", "root", "[REDACTED:field]", "shop"]),
        ),
        (
            json!(["curl", "-u", "ada:sesame", "https://h"]),
            json!(["curl", "-u", "[REDACTED:field]", "https://h"]),
        ),
        // What is known by itself goes alone, and of two calls that differ the difference stays.
        (
            json!([
                "curl",
                "https://ada:pw12345x@h/a",
                "-H",
                "Authorization: Bearer x1y2z3"
            ]),
            json!([
                "curl",
                "https://ada:[REDACTED:url]@h/a",
                "-H",
                "Authorization: [REDACTED:header]"
            ]),
        ),
        (
            json!(["tar", "-p", "sesame", 1]),
            json!(["tar", "-p", "sesame", 1]),
        ),
    ] {
        Redaction::default().value(&mut value);
        assert_eq!(value, expected);
    }
}

#[test]
fn of_an_address_in_a_variable_the_password_is_known() {
    let variables = [
        ("DATABASE_URL", "postgres://ada:planted-1@db/shop"),
        ("STRIPE_KEY", "planted-in-key-2"),
        ("SHOP_PASS", "open-sesame"),
        ("WF_ATTEMPT_KEY", "run-1f2e3d4c"),
        ("NODE_ENV", "production"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let redaction = Redaction::of_environment(variables);
    assert_eq!(
        redaction.text("planted-1 planted-in-key-2 open-sesame run-1f2e3d4c production"),
        "[REDACTED:DATABASE_URL.password] [REDACTED:STRIPE_KEY] [REDACTED:SHOP_PASS] run-1f2e3d4c production"
    );
}
