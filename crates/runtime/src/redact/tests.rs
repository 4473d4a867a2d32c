use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn knowing(value: &str) -> Redactor {
    Redactor::default().knowing("env:TOKEN", value).unwrap()
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, expected: &str) {
    assert_eq!(redactor.text(text), expected);
    // The same one byte at a time, and cut at every place.
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
        format!("github_pat_11AAAA_{key}"),
        format!("glpat-{key}"),
        format!("xoxb-123456789-{key}"),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("AIza{}", &key[..35]),
        jwt.to_owned(),
        pem.to_owned(),
        pem.replace('\n', "\\n"),
        format!("Bearer {key}=="),
        format!("bearer  {key}"),
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
fn of_an_address_or_a_header_the_secret_alone_goes() {
    let key = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let cases = [
        (
            "see https://ada:hunter2@db.example/x.",
            "see https://ada:[REDACTED:url]@db.example/x.",
        ),
        ("redis://:pw@h", "redis://:[REDACTED:url]@h"),
        (
            "postgres://a@b.org:p@s:s!@h:5432/d",
            "postgres://a@b.org:[REDACTED:url]@h:5432/d",
        ),
        (r"https:\/\/ada:pw@h", r"https:\/\/ada:[REDACTED:url]@h"),
        (
            "/x?a=1&api_key=abc&y=1#z",
            "/x?a=1&api_key=[REDACTED:field]&y=1#z",
        ),
        ("h/?TOKEN=%41b\nend", "h/?TOKEN=[REDACTED:field]\nend"),
        (
            "its authorization: Basic dXNlcjpwYXNz x",
            "its authorization: Basic [REDACTED:header] x",
        ),
        ("basic YWRhOnB3Mg== x", "basic [REDACTED:header] x"),
        ("-H 'X-Api-Key: abcd'", "-H 'X-Api-Key: [REDACTED:header]'"),
    ];
    for (text, expected) in cases {
        check(&Redactor::default(), text, expected);
        check(&Redactor::default(), expected, expected);
        assert!(matches!(
            Redactor::default().text(expected),
            Cow::Borrowed(_)
        ));
    }
    // What is known, or a credential by itself, goes from what stands before it, too.
    let text =
        format!("https://ghp_{key}:x-oauth-basic@h ftp://hunter22:hunter22@h?token=hunter22&y");
    check(
        &knowing("hunter22"),
        &text,
        "https://[REDACTED:url]:x-oauth-basic@h ftp://[REDACTED:env:TOKEN]:[REDACTED:env:TOKEN]@h\
         ?token=[REDACTED:env:TOKEN]&y",
    );
    // A secret that a shape would cut short is taken whole.
    check(
        &knowing("p@rt/rest&more"),
        "ftp://u:p@rt/rest&more@h",
        "ftp://u:[REDACTED:env:TOKEN]@h",
    );
    check(
        &knowing("rt/rest&more"),
        "?token=pa&rt/rest&more x",
        "?token=[REDACTED:field]&[REDACTED:env:TOKEN] x",
    );
}

#[test]
fn addresses_without_a_password_stay_as_they_are() {
    for text in [
        "http://127.0.0.1:8080/a@b, ssh://git@host:22/x?y=a@b and http://[::1]:80",
        "https://${USER}:${PASSWORD}@host https://{u}:{p}@host //x:y@z",
        "http://h:80?mail=a@b https://h:1#a@b 'http://h:1' me@here",
        "?page_token=a&max_tokens=3&token=$TOKEN&token={t}&tokens=1 Authorization: required",
        "Basic JavaScript, basic authentication and a basic PostgreSQL",
        "curl -H \"Authorization: Bearer $KEY\" -H 'X-Api-Key: ${KEY}'",
    ] {
        check(&Redactor::default(), text, text);
    }
}

#[test]
fn ordinary_words_are_not_credentials() {
    let text = "task-runner-with-a-very-long-name sk-short AKIA Bearer of bad news; the bearer token \
                is missing; eyJ.eyJ. xoxb- ghp_ disk-usage-of-the-whole-machine BEGIN PRIVATE KEY";
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
fn what_is_known_by_one_reference_is_put_back() {
    let redactor = knowing("hunter22");
    let put_back = |text: &str| redactor.restored(&redactor.text(text));
    assert_eq!(
        put_back("a hunter22 b hunter22").unwrap(),
        "a hunter22 b hunter22"
    );
    assert_eq!(put_back("[x]").unwrap(), "[x]");
    for unknown in [
        "token=abc",
        "[REDACTED]",
        "[REDACTED:env:OTHER]",
        "[REDACTED",
    ] {
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
fn what_cannot_be_kept_out_is_refused() {
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
fn a_stream_holds_back_no_more_than_it_must() {
    let redactor = knowing("hunter22");
    let mut stream = redactor.stream();
    assert_eq!(stream.push("done\nprompt> "), "done\nprompt> ");
    assert_eq!(stream.push("hunt"), "");
    assert_eq!(stream.push("ing"), "hunting");
    assert_eq!(stream.push(" hunter2"), " ");
    assert_eq!(stream.push("2!"), "[REDACTED:env:TOKEN]!");
    assert_eq!(stream.push("s"), "");
    assert_eq!(stream.finish(), "s");
    // Models stream word by word. What a line begins with may become a name.
    let mut stream = Redactor::default().stream();
    assert_eq!(stream.push("once"), "");
    assert_eq!(stream.push(" upon no ti"), "once upon no ti");
    assert_eq!(stream.push("me to"), "me ");
    assert_eq!(stream.push("day\nis "), "today\nis ");
    assert_eq!(stream.push("12.5 %"), "12.5 %");
    // Whoever is shown each word when it comes is given it then, but for what may be a secret.
    let mut stream = Redactor::default().stream_of_words();
    for word in [
        "a",
        " to",
        "ken",
        "s\n",
        "name",
        "d \"it\": 7",
        "\n\"pass",
        "word\"",
    ] {
        assert_eq!(stream.push(word), if word == "word\"" { "" } else { word });
    }
    assert_eq!(stream.push(": \"hun"), "");
    let expected = "word\": \"[REDACTED:field]\"";
    assert_eq!(
        stream.push("ter2x9\", ok") + &stream.finish(),
        format!("{expected}, ok")
    );
}

#[test]
fn a_stream_stays_bounded_whatever_comes() {
    let redactor = Redactor::default();
    for piece in [
        "eyJaaaaaaaaaaaa-",
        "-----BEGIN PRIVATE KEY-----aaaa",
        "sk-aaaaaaaaaaaaaaaaaaaaaa",
        "://aaaaaaaa:aaaaaaaaaaaa",
        "?token=aaaaaaaaaa",
    ] {
        let mut stream = redactor.stream();
        for _ in 0..100 {
            stream.push(&piece.repeat(40));
            // Shapes hold back as much as names do, each by themselves.
            assert!(stream.held() <= 2 * (HOLD_LIMIT + 64 * 40), "{piece}");
        }
    }
}

#[test]
fn many_closing_signs_take_no_longer_than_they_are_long() {
    let name = "token=x";
    for sign in [">", ")", "]"] {
        let text = name.to_owned() + &sign.repeat(1 << 20);
        let value = name.len() - 1..text.len();
        let none = ordinary::of_setting(text.as_bytes(), value);
        assert_eq!(none, None, "a name of one letter is left");
    }
}

#[test]
fn long_lists_take_no_longer_than_they_are_long() {
    let (redactor, many) = (Redactor::default(), 1 << 16);
    let items = "\"planted-1\", ".repeat(many);
    let list = format!("passwords = [{items}\"x\"]\nnext");
    let expected = "passwords = [\"[REDACTED:field]\"]\nnext";
    assert_eq!(redactor.text(&list), expected);
    let lines = format!("tokens:\n{}next: 1\n", "  - planted-1\n".repeat(many));
    let expected = "tokens:\n  - [REDACTED:field]\nnext: 1\n";
    assert_eq!(redactor.text(&lines), expected);
    // Nothing closes it, and each of them could begin one.
    for open in ["tokens = [\"a\", ", "docker login a b ", "passwords:\n"] {
        let text = open.repeat(many);
        assert!(matches!(redactor.text(&text), Cow::Borrowed(_)), "{open}");
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
    vec![
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
        form in 0_usize..4,
    ) {
        let redactor = knowing(&secret);
        let planted = &forms_of(&secret)[form];
        let text = around.join(planted);
        let redacted = redactor.text(&text);
        // A secret that is part of its own replacement cannot be looked for.
        prop_assume!(!"[REDACTED:env:TOKEN]".contains(&secret));
        let bare = redacted.replace("[REDACTED:env:TOKEN]", "\u{0}").replace("[REDACTED]", "\u{0}");
        // Base64 leaves padding and shared characters behind; of the rest nothing may be left.
        let core = planted.trim_end_matches('=');
        let core = if form == 3 { &core[..core.len().saturating_sub(1)] } else { core };
        prop_assert!(form == 3 && core.len() < 8 || !bare.contains(core), "{bare:?}");
    }

    #[test]
    fn a_text_without_secrets_is_the_same_text(text in "[a-zA-Z0-9 .,:/\n-]{0,200}", secret in "[#$%&]{6,12}") {
        // What looks like a credential by chance is not without secrets.
        prop_assume!(Redactor::default().text(&text) == text);
        let redactor = knowing(&secret);
        prop_assert!(matches!(redactor.text(&text), Cow::Borrowed(same) if same == text));
        let mut stream = redactor.stream();
        let streamed = stream.push(&text) + &stream.finish();
        prop_assert_eq!(streamed, text);
    }

    #[test]
    fn a_stream_gives_what_the_whole_text_gives(
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
            let mut words = redactor.stream_of_words();
            let pieces = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]);
            let mut streamed: Vec<u8> = pieces.flat_map(|piece| words.push_bytes(piece)).collect();
            streamed.extend(words.finish_bytes());
            prop_assert_eq!(&String::from_utf8(streamed).unwrap(), &whole, "in words");
            prop_assert_eq!(redactor.text(&whole), &*whole, "once is enough");
        }
    }
}
