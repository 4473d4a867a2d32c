//! Tests of masking by name.

use super::*;

#[test]
fn names_do_not_redact_stored_text() {
    for text in [
        "password=hunter22x",
        "Authorization: Basic dXNlcjpwYXNz",
        "https://ada:hunter2@db.example/x?token=abc",
        "--token abc123 api_key: 'x1y2z3'",
    ] {
        assert_eq!(Redactor::default().text(text), text);
        assert_ne!(Redactor::masking().text(text), text);
    }
}

#[test]
fn names_are_masked_for_display_and_evidence() {
    for (text, expected) in [
        (
            "https://ada:hunter2@db/x",
            "https://ada:[REDACTED:url]@db/x",
        ),
        ("curl -u ada:sesame1 h", "curl -u ada:[REDACTED:field] h"),
        ("--auth ada:sesame1", "--auth ada:[REDACTED:field]"),
        ("x --password sesame1 y", "x --password [REDACTED:field] y"),
        (
            "password = correct horse battery\nx",
            "password = [REDACTED:field]\nx",
        ),
        (
            "DB_PASSWORD=sesame ./start",
            "DB_PASSWORD=[REDACTED:field] ./start",
        ),
        (
            r#"{"clientSecret":"a\"b c","b":1}"#,
            r#"{"clientSecret":"[REDACTED:field]","b":1}"#,
        ),
        (
            r#"{\"token\":\"a b\",\"b\":1}"#,
            r#"{\"token\":\"[REDACTED:field]\",\"b\":1}"#,
        ),
        ("/x?api_key=abc&y=1", "/x?api_key=[REDACTED:field]&y=1"),
        (
            "Authorization: Bearer abc.def9 ",
            "Authorization: Bearer [REDACTED:header]",
        ),
        ("Cookie: a=b; c=d\nnext", "Cookie: [REDACTED:header]\nnext"),
    ] {
        let masked = Redactor::masking().text(text).into_owned();
        assert_eq!(masked.trim_end(), expected.trim_end(), "{text}");
        assert_eq!(Redactor::masking().text(&masked), masked, "once is enough");
    }
    for text in [
        "max_tokens: 4096, tokens_input=2000",
        "the password is checked: it must be long",
        "let token = next(); const apiKey = process.env.API_KEY;",
        "https://host:8080/a@b http://[::1]:80/ ${USER}:${PASSWORD}",
        "PWD=/srv/shop docker run -u 1000:1000 Password: required",
        "password=${DB_PASSWORD} token: <your token> secret: null",
        "arn:aws:secretsmanager:eu-west-1:1:secret:prod/db token: \"op://a/b/c\"",
    ] {
        assert_eq!(Redactor::masking().text(text), text);
    }
}

#[test]
fn secrets_of_variables_and_arguments_are_known() {
    let of = |name, value| {
        secrets_of_variable(name, value)
            .into_iter()
            .map(|(_, secret)| secret)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("SHOP_TOKEN", "open-sesame"), ["open-sesame"]);
    assert_eq!(
        of("DATABASE_URL", "postgres://ada:planted-1@db/shop"),
        ["planted-1"]
    );
    for signs in [
        "harbor.Lynx.cord",
        "pa(ss)word",
        "@gate&9",
        "~tilde.9",
        "^up...9",
        "$mall-9",
    ] {
        assert_eq!(of("SHOP_TOKEN", signs), [signs]);
    }
    for (name, value) in [
        ("SHOP_TOKEN", "$OTHER"),
        ("SHOP_TOKEN", "<your token>"),
        ("SHOP_TOKEN", "op://shop/token"),
        ("SSH_AUTH_SOCK", "/tmp/x"),
        ("PWD", "/srv"),
        ("NODE_ENV", "production"),
        ("TOKEN", "${T}"),
    ] {
        assert_eq!(of(name, value), Vec::<String>::new(), "{name}");
    }
    let arguments = [
        "curl",
        "-u",
        "ada:sesame1",
        "--api-key",
        "x1y2z3",
        "--token",
        "--verbose",
        "-u",
        "1:1",
    ];
    assert_eq!(secret_arguments(arguments.map(Some)), [(2, 4), (4, 0)]);
}
