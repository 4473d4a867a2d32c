use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;

use super::services::{Alphabet, SERVICES};
use super::*;

fn knowing(value: &str) -> Redactor {
    Redactor::default().knowing("env:TOKEN", value).unwrap()
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, expected: &str) {
    assert_eq!(redactor.text(text), expected);
    // The same one byte at a time, and split at every position.
    let mut stream = redactor.stream();
    let bytes: Vec<u8> = text.bytes().flat_map(|b| stream.push_bytes(&[b])).collect();
    let rest = stream.finish_bytes();
    assert_eq!(
        String::from_utf8([bytes, rest].concat()).unwrap(),
        expected,
        "byte by byte"
    );
}

#[test]
fn known_secrets_are_named_by_their_reference() {
    let redactor = knowing("hunter22");
    check(&redactor, "hunter22", "[REDACTED:env:TOKEN]");
    check(
        &redactor,
        "a hunter22\nhunter2 xhunter22x",
        "a [REDACTED:env:TOKEN]\nhunter2 x[REDACTED:env:TOKEN]x",
    );
    check(&redactor, "nothing here", "nothing here");
}

#[test]
fn known_shapes_are_found_without_being_known() {
    let key = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY-----";
    let cases = [
        format!("sk-{key}"),
        format!("sk-ant-api03-{key}-x_y"),
        format!("sk_live_{key}"),
        format!("ghp_{key}"),
        format!("github_pat_11AA2bB_{key}"),
        format!("glpat-{key}"),
        format!("xoxb-123456789-{key}"),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("AIza{}", &key[..35]),
        jwt.to_owned(),
        pem.to_owned(),
        pem.replace('\n', "\\n"),
    ];
    for secret in cases {
        let expected = "key: [REDACTED]\nend";
        check(
            &Redactor::default(),
            &format!("key: {secret}\nend"),
            expected,
        );
    }
}

#[test]
fn each_service_is_found_and_its_name_alone_is_not() {
    // A random token of each alphabet, as long as the service requires.
    let of = |alphabet: Alphabet, length: usize| -> String {
        let signs = match alphabet {
            Alphabet::Hex => "9f3a7c1e5b2d8046",
            Alphabet::Upper => "Q7K2M9X4T6Z3B8W5",
            Alphabet::Lower => "q7k2m9x4t6z3b8w5",
            _ => "qR7kW2mZ9xY4tL6v",
        };
        signs.chars().cycle().take(length).collect()
    };
    for service in SERVICES {
        for prefix in service.prefixes.split('|') {
            let token = format!("{prefix}{}", of(service.alphabet, service.least));
            let redactor = Redactor::default();
            assert_eq!(
                redactor.text(&format!("it is {token}, ok")),
                "it is [REDACTED], ok"
            );
            let short = format!("it is {prefix} or {prefix}x, ok");
            assert_eq!(redactor.text(&short), short);
        }
    }
}

/// Tokens as the documentation of their services writes them, with a made-up random part.
const DOCUMENTED: [&str; 9] = [
    "gldt-x7Kq2mZp9Rw4Tb1Yc8Nf",
    "SSWS 00QCjAl4MlV-WPXM0Ae5Fo9Kd3Xz7Tn2Ub1Vy6Rqs",
    "vercel_blob_rw_aB3dE5fG7hJ9kL1m_qW2eR4tY6uI8oP0aS1dF3gH5jK7lZ9",
    "md-kQ3v9ZbT1xW7rL5nE2yH0A",
    "4f9c2b7e1d8a6053c9e2f4b7a1d80653-us12",
    "patQ7wE2rT9yU4iO1p.3f8a1c5e9b2d7046f1a3c5e7092b4d6f8a1c3e5b7d902f4a6c8e1b3d5f7092a",
    "dapi3f8a1c5e9b2d7046f1a3c5e7092b4d6f",
    "atlasv1.Qw3Er5Ty7Ui9Op1As2Df4Gh6Jk8Lz0Xc3Vb5Nm7Qw9Er1Ty3Ui5Op7As9Df1Gh3Jk5L",
    "PMAK-3f8a1c5e9b2d7046f1a3c5e7-092b4d6f8a1c3e5b7d902f4a6c8e1b3d5f",
];

#[test]
fn documented_tokens_are_found_also_before_a_suffix() {
    let redactor = Redactor::default();
    for token in DOCUMENTED {
        let secret = token.rsplit([' ', '-', '.', '_']).next().unwrap_or(token);
        for behind in ["", " ", "\"", ".", "_suffix", "_prod_2"] {
            let text = redactor.text(&format!("key={token}{behind}")).into_owned();
            let is_whole = secret.len() > 4;
            assert!(text.contains("[REDACTED]"), "{token}{behind}: {text}");
            assert!(
                !is_whole || !text.contains(&secret[..8]),
                "{token}{behind}: {text}"
            );
        }
    }
}

#[test]
fn a_token_may_start_after_an_escape() {
    let token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    for (before, behind) in [
        ("\\n", "\\n"),
        ("\u{1b}[32m", "\u{1b}[0m"),
        ("%3D", "%26"),
        ("\\u0022", "\\u0022"),
    ] {
        let text = format!("a{before}{token}{behind}b");
        check(
            &Redactor::default(),
            &text,
            &format!("a{before}[REDACTED]{behind}b"),
        );
    }
}

#[test]
fn addresses_of_hooks_are_keys() {
    check(
        &Redactor::default(),
        "https://hooks.slack.com/services/T0A1B2C3D/B9Z8Y7X6W/q1w2e3r4t5y6u7i8",
        "https://hooks.slack.com/services/[REDACTED:url]",
    );
}

#[test]
fn ordinary_words_are_not_credentials() {
    let text = "task-runner-with-a-very-long-name sk-short AKIA Bearer of bad news; the bearer token \
                is missing; eyJ.eyJ. xoxb- ghp_ disk-usage-of-the-whole-machine BEGIN PRIVATE KEY \
                sk-learn-pipelines-are-easy-to-write ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    check(&Redactor::default(), text, text);
    assert!(matches!(Redactor::default().text(text), Cow::Borrowed(_)));
}

#[test]
fn of_two_secrets_the_longer_is_meant() {
    let redactor = knowing("secret-1")
        .knowing("env:LONG", "secret-1-and-more")
        .unwrap();
    check(&redactor, "secret-1-and-more", "[REDACTED:env:LONG]");
    check(
        &redactor,
        "secret-1-and-mor",
        "[REDACTED:env:TOKEN]-and-mor",
    );
}

#[test]
fn a_value_with_one_reference_is_restored() {
    let redactor = knowing("hunter22");
    let put_back = |text: &str| redactor.restored(&redactor.text(text));
    assert_eq!(
        put_back("a hunter22 b hunter22").unwrap(),
        "a hunter22 b hunter22"
    );
    assert_eq!(put_back("[x]").unwrap(), "[x]");
    for unknown in ["[REDACTED]", "[REDACTED:env:OTHER]", "[REDACTED"] {
        assert_eq!(put_back(unknown), None, "{unknown}");
    }
    let two = redactor.knowing("env:TOKEN", "another-one").unwrap();
    assert_eq!(two.restored("[REDACTED:env:TOKEN]"), None);
}

#[test]
fn a_value_is_redacted_all_through() {
    let redactor = knowing("123456");
    let mut value = json!({ "a": ["x 123456", 123456, 12345], "123456": { "b": null, "c": true } });
    redactor.value(&mut value);
    let place = "[REDACTED:env:TOKEN]";
    let expected =
        json!({ "a": [format!("x {place}"), place, 12345], place: { "b": null, "c": true } });
    assert_eq!(value, expected);
}

#[test]
fn values_that_cannot_be_redacted_are_rejected() {
    let redactor = Redactor::default();
    assert_eq!(
        redactor.knowing("a", "12345").err(),
        Some(Unredactable::TooShort)
    );
    let long = "x".repeat(MAX_SECRET_BYTES + 1);
    assert_eq!(
        redactor.knowing("a", &long).err(),
        Some(Unredactable::TooLong)
    );
}

#[test]
fn a_stream_holds_back_only_the_minimum() {
    let redactor = knowing("hunter22");
    let mut stream = redactor.stream();
    assert_eq!(stream.push("done\nprompt> "), "done\nprompt> ");
    assert_eq!(stream.push("hunt"), "");
    assert_eq!(stream.push("ing"), "hunting");
    assert_eq!(stream.push(" hunter2"), " ");
    assert_eq!(stream.push("2!"), "[REDACTED:env:TOKEN]!");
    assert_eq!(stream.push("s"), "");
    assert_eq!(stream.finish(), "s");
    // Models stream word by word.
    let mut stream = Redactor::default().stream();
    assert_eq!(stream.push("Once upon no ti"), "Once upon no ti");
    assert_eq!(stream.push("me, "), "me, ");
    assert_eq!(stream.push("12.5, "), "12.5, ");
}

#[test]
fn a_stream_stays_bounded_for_any_input() {
    let redactor = Redactor::default();
    for piece in [
        "eyJaaaaaaaaaaaa-",
        "-----BEGIN PRIVATE KEY-----aaaa",
        "sk-aaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let mut stream = redactor.stream();
        for _ in 0..100 {
            stream.push(&piece.repeat(40));
            // Shapes and names hold back the same amount, each separately.
            assert!(stream.held() <= 2 * (HOLD_LIMIT + 64 * 40), "{piece}");
        }
    }
}

#[test]
fn long_texts_take_no_longer_than_they_are_long() {
    let many = 1 << 14;
    for piece in [
        "token=x, ",
        "password = \"a ",
        "tokens = [\"a\", ",
        "://a:b",
        "sk-",
        "%25",
        "Authorization: ",
        "--password ",
        "login a password ",
        "\\n",
        "-u a:",
    ] {
        let text = piece.repeat(many);
        let masked = Redactor::masking().text(&text).into_owned();
        assert!(!masked.is_empty(), "{piece}");
    }
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{6,40}",
        "[a-zA-Z0-9+/=_-]{8,60}",
        "\\PC{6,20}",
        "[a-z\n\"\\\\]{6,40}"
    ]
}

fn forms_of(secret: &str) -> Vec<String> {
    let quoted = serde_json::to_string(secret).unwrap();
    let percent = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(secret);
    let hex = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
    vec![
        hex,
        secret.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        percent,
        base64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_planted_secret_survives(
        secret in secret(),
        around in proptest::collection::vec("[a-z .,:\"{}\n]{0,12}", 2..6),
        form in 0_usize..5,
    ) {
        let redactor = knowing(&secret);
        let planted = &forms_of(&secret)[form];
        let text = around.join(planted);
        let redacted = redactor.text(&text);
        // A secret that is part of its own replacement cannot be searched for.
        prop_assume!(!"[REDACTED:env:TOKEN]".contains(&secret));
        let bare = redacted.replace("[REDACTED:env:TOKEN]", "\u{0}").replace("[REDACTED]", "\u{0}");
        // Base64 leaves padding and shared characters; nothing else may remain.
        let core = planted.trim_end_matches('=');
        let core = if form == 4 { &core[..core.len().saturating_sub(1)] } else { core };
        prop_assert!(form == 4 && core.len() < 8 || !bare.contains(core), "{bare:?}");
    }

    #[test]
    fn a_text_without_secrets_is_the_same_text(text in "[a-zA-Z0-9 .,:/\n-]{0,200}", secret in "[#$%&]{6,12}") {
        // Skip texts that look like a credential by chance.
        prop_assume!(Redactor::default().text(&text) == text);
        let redactor = knowing(&secret);
        prop_assert!(matches!(redactor.text(&text), Cow::Borrowed(same) if same == text));
        let mut stream = redactor.stream();
        let streamed = stream.push(&text) + &stream.finish();
        prop_assert_eq!(streamed, text);
    }

    #[test]
    fn a_stream_matches_the_whole_text(
        secret in "[a-c]{6,8}",
        parts in proptest::collection::vec(prop_oneof![
            Just("SECRET".to_owned()), "[a-c]{0,9}", " {0,2}", "sk-[a-z]{15,25}", "eyJ[a-z]{9,12}\\.",
            Just("Bearer ".to_owned()), "\\PC{0,3}", Just("-----BEGIN PRIVATE KEY-----".to_owned()),
            Just("-----END PRIVATE KEY-----".to_owned()), Just("://".to_owned()), "[:@/?&]",
            Just("?token=".to_owned()), Just("Basic aBcD".to_owned()),
            "(db_)?password", "[=:\"' \n;,-]{1,3}", "--api-key ", "\n(Set-)?Cookie: ", "Token(\": ?\"|=|: )",
            "(page|my)_token", "[A-Z0-9]{1,6}", "\\\\[\"n\\\\]", "\"\"\"", "authorization: ",
        ], 0..14),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let redactor = knowing(&secret);
        let text = parts.concat().replace("SECRET", &secret);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let goes_on_elsewhere = |stream: RedactedStream| {
            let Some(tail) = stream.tail() else { return stream };
            let kept = serde_json::to_string(&tail).unwrap();
            redactor.stream_from(&serde_json::from_str(&kept).unwrap()).unwrap()
        };
        let stays: fn(RedactedStream) -> RedactedStream = |stream| stream;
        for hand_over in [&stays as &dyn Fn(RedactedStream) -> RedactedStream, &goes_on_elsewhere] {
            let mut stream = redactor.stream();
            let mut streamed = Vec::new();
            for cut in cuts.windows(2) {
                streamed.extend(stream.push_bytes(&text.as_bytes()[cut[0]..cut[1]]));
                stream = hand_over(stream);
            }
            streamed.extend(stream.finish_bytes());
            let whole = redactor.text(&text);
            prop_assert_eq!(&String::from_utf8(streamed).unwrap(), &whole);
            prop_assert_eq!(redactor.text(&whole), &*whole, "once is enough");
        }
    }
}
