//! Secrets that are known by what stands before them: a variable, a member, a header, an option or a
//! parameter that is called like a secret has one, whatever it looks like.
//!
//! Names are looked for wherever a word of them ends (`DB_PASSWORD`, `clientSecret`); `tokens`,
//! `token_count` and `tokenizer` are none. What reads like a place to be filled in, like code or
//! like prose stays.

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::is_taken_out;

/// One rule.
pub(super) struct Rule {
    /// What stands in the place of a secret.
    pub(super) replacement: &'static str,
    /// The pattern; the first of its groups that has something has the secret. One without a
    /// group takes what it finds from the rules behind it and leaves it as it is.
    pub(super) pattern: String,
    /// Whether a value stays as it is.
    pub(super) spares: fn(&[u8]) -> bool,
}

/// How the name of a secret ends; what stands before it does not matter.
const NAME: &str = r"(?:token|(?:api|access|account|secret|private)[_\-]?key|secret(?:[_\-]?(?:value|text|string))?[0-9_]*|(?:password|passwd|passphrase)[a-z0-9_]*|credentials?|dsn)";
/// Names of headers that are a credential.
const HEADER: &str = "(?:proxy-authorization|authorization|x-api-key)";
/// Names of headers that have cookies.
const COOKIE: &str = "(?:set-)?cookie";
/// What stands before a credential in such a header.
const SCHEME: &str = "(?:(?:basic|bearer|token|negotiate|apikey)[ +]+)?";
/// Behind a name: the end of its quotes, if it has any, and a sign.
const SIGN: &str = r"[ \t]*(?:=>|:=|[:=])[ \t]*";
/// The rest of a value in quotes that may have lines, none of them empty, up to that same quote where
/// it ends a value: without that, the quote would be any.
const LINES: &str = r#"(?:[^"\\\r\n]|\\[^\r\n]|\\?\r?\n(?:[^"\\\r\n]|\\[^\r\n]))*"#;
const LINES_SINGLE: &str = r#"(?:[^'\\\r\n]|\\[^\r\n]|\\?\r?\n(?:[^'\\\r\n]|\\[^\r\n]))*"#;
/// What ends such a value.
const CLOSED: &str = r"(?:[\s,;)}\]]|\z)";
/// A value without quotes.
const BARE: &str = r#"([^\s"'\\&;,}=>][^\s"'\\&;,}]*)"#;

/// A quoted value up to that same quote, escapes honoured, in a text that is itself the content of a
/// string, of a string in a string, or of none.
fn quoted() -> String {
    let lines = in_lines(r#"[^"\\\r\n]|\\[^\r\n]"#, r"[^'\\\r\n]|\\[^\r\n]");
    format!(
        r#"(?:\\{{3}}"((?:[^"\\\r\n]|\\{{8}}|\\{{7}}"|\\{{1,6}}[^"\\\r\n])+)|\\"((?:[^"\\\r\n]|\\{{4}}|\\{{3}}"|\\{{1,2}}[^"\\\r\n])+)|{lines}|"((?:[^"\\\r\n]|\\[^\r\n])+)|\\+'((?:[^'\\\r\n]|\\+[^'\\\r\n])+)|'((?:[^'\\\r\n]|\\[^\r\n]|'')+))"#
    )
}

/// The same behind a name without quotes, which may be the end of a text in quotes: what goes on
/// like the language around it is no value.
fn opened() -> String {
    let lines = in_lines(
        r#"[^"\\\r\n\s,;:)\]}]|\\[^\r\n]"#,
        r"[^'\\\r\n\s,;:)\]}]|\\[^\r\n]",
    );
    format!(
        r#"(?:\\{{3}}"([^"\\\r\n\s,;:)\]}}](?:[^"\\\r\n]|\\{{8}}|\\{{7}}"|\\{{1,6}}[^"\\\r\n])*)|\\"([^"\\\r\n\s,;:)\]}}](?:[^"\\\r\n]|\\{{4}}|\\{{3}}"|\\{{1,2}}[^"\\\r\n])*)|{lines}|"((?:[^"\\\r\n\s,;:)\]}}]|\\[^\r\n])(?:[^"\\\r\n]|\\[^\r\n])*)|\\+'([^'\\\r\n\s,;:)\]}}](?:[^'\\\r\n]|\\+[^'\\\r\n])*)|'((?:[^'\\\r\n\s,;:)\]}}]|\\[^\r\n])(?:[^'\\\r\n]|\\[^\r\n]|'')*))"#
    )
}

/// Values over several lines, by what they may begin with between each kind of quotes.
fn in_lines(double: &str, single: &str) -> String {
    format!(
        r#""{{3}}((?:[^"\\]|\\[^\r\n]|"{{1,2}}(?:[^"\\]|\\[^\r\n]))+)"{{3}}|"((?:{double}){LINES}(?:\r?\n)?)"{CLOSED}|'((?:{single}){LINES_SINGLE}(?:\r?\n)?)'{CLOSED}"#
    )
}

/// Every rule; of two that begin at the same place the earlier counts.
pub(super) fn rules() -> Vec<Rule> {
    let (quoted, opened) = (quoted(), opened());
    let field = |pattern: String, spares| Rule {
        replacement: "[REDACTED:field]",
        pattern,
        spares,
    };
    let header = |pattern: String, spares| Rule {
        replacement: "[REDACTED:header]",
        pattern,
        spares,
    };
    vec![
        // Where the next page begins, and what a model of language calls its own signs.
        field(
            r"(?i)(?:page|next|continuation|continue|sync|start|resume|bos|eos|pad|unk|sep|cls|mask|end)[_\-]?(?:page[_\-]?)?token".to_owned(),
            |_| true,
        ),
        // Where a secret is, not what.
        field(
            r"(?i)(?:password|passwd|passphrase)[_\-]?(?:file|path|dir|name|type|count|length|policy|field|label|hint|prompt|url)s?\b".to_owned(),
            |_| true,
        ),
        field(
            format!(r#"(?i)pwd(?:\\*["']{SIGN}{quoted}|{SIGN}{opened}|={BARE})"#),
            |value| is_folder(value) || is_to_be_filled_in(value),
        ),
        header(
            format!(r#"(?i)'(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*([^'\s][^'\r\n]*)"#),
            is_no_credential,
        ),
        header(
            format!(r#"(?i)"(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*((?:[^"\\\s]|\\[^\r\n])(?:[^"\\\r\n]|\\[^\r\n])*)"#),
            is_no_credential,
        ),
        header(
            format!(r#"(?i)\b(?:{HEADER}|{COOKIE})\\*["']{SIGN}{quoted}"#),
            is_no_credential,
        ),
        header(
            format!(r"(?im)^[ \t<>*]*(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*([^\s][^\r\n]*)"),
            |value| is_no_credential(value) || SENTENCE.is_match(value),
        ),
        header(
            format!(r#"(?i)\b{HEADER}[ \t]*:[ \t]*\\*["']?{SCHEME}([^\s"'\\,;]+)"#),
            |value| is_no_credential(value) || SENTENCE.is_match(value),
        ),
        header(
            format!(r#"(?i)\b{COOKIE}[ \t]*:[ \t]*\\*["']?([^\s=;:,"'\\]+=[^\r\n"'\\]+)"#),
            is_no_credential,
        ),
        header(
            format!(
                r#"(?i)\b(?:{HEADER}|{COOKIE})=(?:{opened}|((?:(?:basic|bearer|digest)[ +])?[^\s"'\\&;,}}=>]+))"#
            ),
            is_no_credential,
        ),
        // A line of YAML, of an ini file, or of variables.
        field(
            format!(
                r##"(?im)^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env)[ \t]+)?[a-z0-9_\-]{{0,40}}{NAME}[ \t]*[:=][ \t]*([^\s"'\\=>][^\s"'\\]*[^\s"'\\&;,}}]|[^\s"'\\&;,}}=>|])(?:[ \t]+#[^\r\n]*|[ \t]*)\r?$"##
            ),
            is_no_value,
        ),
        // A text of several lines in YAML: its first.
        field(
            format!(
                r"(?im)^[ \t]*(?:-[ \t]+)?[a-z0-9_\-]{{0,40}}{NAME}[ \t]*:[ \t]*[|>][+\-0-9]*[ \t]*\r?\n[ \t]+([^\s][^\r\n]*)"
            ),
            is_no_value,
        ),
        // A member.
        field(
            format!(r#"(?i){NAME}\\*["']{SIGN}{quoted}"#),
            is_to_be_filled_in,
        ),
        // Arguments, as a shell has them and as lists do.
        field(
            format!(
                r#"(?i)--(?:[a-z0-9]+[_\-]){{0,4}}{NAME}(?:\\*["'][ \t]*,[ \t]*{quoted}|[ \t]+(?:{quoted}|([^\s"'\\\-&;|,<>=][^\s"'\\&;|,]*)))"#
            ),
            is_no_argument,
        ),
        // A setting, a form field or a parameter.
        field(
            format!(r"(?i){NAME}(?:{SIGN}{opened}|={BARE})"),
            is_no_value,
        ),
        // An element.
        field(
            format!(r"(?i){NAME}>([^<>\s][^<>\r\n]*)</"),
            is_to_be_filled_in,
        ),
        field(
            r#"(?i)[?&](?:amp;)?[a-z0-9_\-]{0,40}(?:auth|session(?:[_\-]?id)?|sig|signature)=([^\s&\#"'<>\\]+)"#
                .to_owned(),
            is_no_value,
        ),
    ]
}

/// A pattern over the whole of a value.
fn matcher(pattern: &str) -> Regex {
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let whole = format!(r"\A(?:{pattern})\z");
    let built = Regex::builder().syntax(syntax).build(&whole);
    built.expect("patterns that are made here compile")
}

/// Places to be filled in, and what was taken out by somebody else.
static TO_BE_FILLED_IN: LazyLock<Regex> = LazyLock::new(|| {
    matcher(
        r"\$[A-Z_][A-Z0-9_]*|\$[0-9@*]|\$[{(].*|\{\{.*|\{[A-Za-z_][A-Za-z0-9_.]*\}?|<[^<>]*>|%[A-Za-z_]*%|%[sdvq]|[*.x\-]{3,}|(?i:string|password|token|secret|null|undefined)",
    )
});

/// What a program says in the place of a value.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(
        r"[A-Za-z_][A-Za-z0-9_.:]*[(\[].*|(?:self|this|args|opts|options|config|cfg|settings|process|os|env|request|req|ctx|data|params)(?:\.[A-Za-z_][A-Za-z0-9_]*)+|(?i:true|false|none|nil|yes|no|str|text|bytes|int|integer|number|bool|boolean|any|object|optional|required|secretstr|varchar)",
    )
});

/// Words that stand behind the name of an option in a sentence, or say what it takes.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    matcher(
        r"[A-Z][A-Z_]*[\])}.:]*|(?i:a|an|and|are|argument|arguments|as|at|be|by|can|cannot|file|flag|flags|for|from|has|have|if|in|instead|into|is|it|may|must|name|needs|not|of|on|option|options|or|path|requires|set|sets|should|string|stringarray|strings|takes|text|that|the|then|this|to|was|when|which|will|with|without|you|your)[.,:;!?)]*",
    )
});

/// What ordinary files have behind such names: versions and measured numbers, permissions, members
/// of objects, names of variables and of types, and sentences shown to people.
static ORDINARY: LazyLock<Regex> = LazyLock::new(|| {
    matcher(
        r"[\^~>=<v ]{0,4}[0-9]+(?:\.[0-9]+)+(?:[.\-+][A-Za-z0-9.\-+]{1,16})?(?:ms|s|%)?|[\^~][0-9]+|read|write|none|include|omit|same-origin|[a-z_]{1,24}(?:\.[a-z_]{1,24})+[)\]]*|(?:api_key|access_key|secret_key|client_secret|(?:access|refresh|id|auth|api)_token)[)\]]*|(?:[A-Z][a-z]+)+(?:Token|Credentials)|Credentials|Ident|Identifier|ID!|String!|[A-Z][a-z]+(?: [a-z]+){2,}[.?!]?",
    )
});

/// Words of a sentence, in the place of a credential.
static SENTENCE: LazyLock<Regex> =
    LazyLock::new(|| matcher(r"(?:(?-i:[A-Za-z]?[a-z]+)[.,:;!?)]*[ \t]*)+"));

/// Whether a value is a place to be filled in, or what no secret looks like.
pub(super) fn is_to_be_filled_in(value: &[u8]) -> bool {
    TO_BE_FILLED_IN.is_match(value) || ORDINARY.is_match(value)
}

/// Whether a value of a setting is none: not the rest of an address, such as `secret://NAME`. What
/// closes a call or a list behind it is no part of it.
fn is_no_value(value: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b')' | b']');
    let ends = value.iter().rev().take_while(|byte| is_end(byte)).count();
    let inner = &value[..value.len() - ends];
    is_to_be_filled_in(inner)
        || is_to_be_filled_in(value)
        || value.starts_with(b"//")
        || CODE.is_match(value)
}

/// Whether what stands behind an option is no argument of it.
fn is_no_argument(value: &[u8]) -> bool {
    is_to_be_filled_in(value) || PROSE.is_match(value)
}

/// Whether what a header has is no credential, with or without what kind of one it is.
fn is_no_credential(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let at = value.iter().position(|byte| matches!(byte, b' ' | b'+'));
    let behind = at.map_or(value, |at| value[at + 1..].trim_ascii());
    let is_scheme = at.is_some_and(|at| value[..at].iter().all(u8::is_ascii_alphabetic));
    let is_none = |value: &[u8]| is_taken_out(value) || is_to_be_filled_in(value);
    is_none(value) || (is_scheme && is_none(behind))
}

/// Whether a value reads like a folder, or like what stands for one.
fn is_folder(value: &[u8]) -> bool {
    let begins = |beginning: &[u8]| value.starts_with(beginning);
    matches!(
        value.first(),
        Some(b'/' | b'~' | b'.' | b'$' | b'{' | b'%' | b'`')
    ) || begins(b"[RUNWRIGHT")
}

#[cfg(test)]
mod tests {
    use super::super::Redactor;

    /// Holds for the whole text, for it in two pieces cut anywhere, and once more.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let redactor = Redactor::default();
        assert_eq!(redactor.text(text), expected);
        assert_eq!(redactor.text(expected), expected, "once is enough");
        for cut in 0..=text.len() {
            let mut stream = redactor.stream();
            let mut streamed = stream.push_bytes(&text.as_bytes()[..cut]);
            streamed.extend(stream.push_bytes(&text.as_bytes()[cut..]));
            streamed.extend(stream.finish_bytes());
            assert_eq!(
                String::from_utf8(streamed).unwrap(),
                expected,
                "cut at {cut}"
            );
        }
        let mut stream = redactor.stream();
        let mut streamed: Vec<u8> = Vec::new();
        for byte in text.as_bytes() {
            streamed.extend(stream.push_bytes(&[*byte]));
        }
        streamed.extend(stream.finish_bytes());
        assert_eq!(
            String::from_utf8(streamed).unwrap(),
            expected,
            "byte by byte"
        );
    }

    #[test]
    fn settings_lose_their_values() {
        for (text, expected) in [
            (r#"DB_PASSWORD="hunterQ1""#, r#"DB_PASSWORD="*""#),
            ("export API_KEY='a b' && x", "export API_KEY='*' && x"),
            (
                "run AWS_SECRET_ACCESS_KEY=a/b+c now",
                "run AWS_SECRET_ACCESS_KEY=* now",
            ),
            ("a\n  password: sesame\nb: c", "a\n  password: *\nb: c"),
            ("password: sesame # of prod\n", "password: * # of prod\n"),
            ("- token: sesame", "- token: *"),
            ("+TOKEN=sesame\r\n", "+TOKEN=*\r\n"),
            (
                r#"{"dbPassword": "a\"b c", "b": "c"}"#,
                r#"{"dbPassword": "*", "b": "c"}"#,
            ),
            (
                r#"{\"token\":\"a\\\"b\",\"b\":1}"#,
                r#"{\"token\":\"*\",\"b\":1}"#,
            ),
            ("<password>open sesame</password>", "<password>*</password>"),
            ("'password' => 'open sesame',", "'password' => '*',"),
            ("//h/:_authToken=sesame\n", "//h/:_authToken=*\n"),
        ] {
            check(text, &expected.replace('*', "[REDACTED:field]"));
        }
    }

    #[test]
    fn values_in_quotes_may_have_several_lines() {
        for (text, expected) in [
            (
                "KEY_SECRET=\"first\nsecond part\nthird\"\nNEXT=1\n",
                "KEY_SECRET=\"*\"\nNEXT=1\n",
            ),
            ("api_key='one\r\ntwo'; x", "api_key='*'; x"),
            ("password = \"one\ntwo\n\"\n", "password = \"*\"\n"),
            (
                "password = \"\"\"\none\n\n\"two\"\n\"\"\"\nb = 1",
                "password = \"\"\"*\"\"\"\nb = 1",
            ),
            ("secret: |\n  open sesame\nb: c", "secret: |\n  *\nb: c"),
            // A quote that nothing closes is not looked for further than its line.
            (
                "password=\"open\n\nand \"so\" on",
                "password=\"*\n\nand \"so\" on",
            ),
            (
                "password=\"open\nsay \"hello\"\n",
                "password=\"*\nsay \"hello\"\n",
            ),
        ] {
            check(text, &expected.replace('*', "[REDACTED:field]"));
        }
    }

    #[test]
    fn headers_lose_their_values_wherever_they_stand() {
        for (text, expected) in [
            ("Cookie: a=b; c=d\nnext", "Cookie: *\nnext"),
            ("Cookie: planted-1", "Cookie: *"),
            ("< Set-Cookie: id=planted; Path=/", "< Set-Cookie: *"),
            ("sent Cookie: id=planted", "sent Cookie: *"),
            (
                "Authorization: Digest username=\"a\", b=c",
                "Authorization: *",
            ),
            (
                "it sent Authorization: planted-1 twice",
                "it sent Authorization: * twice",
            ),
            (
                "-H 'Authorization: Token planted-1' x",
                "-H 'Authorization: *' x",
            ),
            (r#"{"Cookie": "a=b; c=d"}"#, r#"{"Cookie": "*"}"#),
            ("curl -H \"Cookie: a=b; c\" /", "curl -H \"Cookie: *\" /"),
        ] {
            check(text, &expected.replace('*', "[REDACTED:header]"));
        }
    }

    #[test]
    fn the_argument_of_an_option_is_its_secret() {
        for (text, expected) in [
            (
                "login --password sesame --user me",
                "login --password * --user me",
            ),
            ("x --db-password 'open sesame' y", "x --db-password '*' y"),
            ("x --api-key=sesame", "x --api-key=*"),
            (
                r#"["--token", "sesame", "--user", "me"]"#,
                r#"["--token", "*", "--user", "me"]"#,
            ),
            (
                r#"ran [\"--token\",\"sesame\"]"#,
                r#"ran [\"--token\",\"*\"]"#,
            ),
        ] {
            check(text, &expected.replace('*', "[REDACTED:field]"));
        }
    }

    #[test]
    fn ordinary_output_stays_as_it_is() {
        for text in [
            r#"{"token_count": 5, "max_tokens": 4096, "tokens": "7", "tokenizer": "bert"}"#,
            "token_count = 5\nmax_tokens: 7\n[tokens]\nlimit = 3\n",
            r#"{"nextPageToken": "CAUQAA", "next_token":"b", "eos_token": "</s>"}"#,
            "?page_token=abc password_file=/run/secrets/db PASSWORD_MIN=",
            r#"{"password": "", "token": null, "secret": true}"#,
            "the password is checked: it must be long. A token, a secret and a cookie: none",
            "password: ${DB_PASSWORD}\ntoken: <your token>\nsecret: \"{{ .Secret }}\"\n",
            "usage: x --token TOKEN [--password PASSWORD]  --secret string  to use",
            "give it by --password or as --token if it is there",
            "let token = next();\nif token == \"x\" || token != other {}\nf(password=password)",
            "token: string\npassword=os.environ[\"X\"] token=self.token api_key=getenv(x)",
            "input(\"password: \") print('token:')\nlabel=\"Password:\"",
            "Authorization: required\nAuthorization: Bearer $TOKEN\nCookie: name and value",
            "the Authorization: header is required; no cookie: it expired",
            "PWD=/srv/shop OLDPWD=~/x pwd=***",
            "secret://user/canary",
            r#"{"jsonwebtoken": "^9.0.2", "csrf-token": "1.0.0-rc.1", "@octokit/auth-token": "^4"}"#,
            "jsonwebtoken = \"9.3\"\n",
            "permissions:\n  id-token: write\n",
            "client = OpenAI(api_key=api_key)\nf(client_secret=client_secret)\n",
            "token = user.token\npassword = form.password\n",
            "cancellation_token: CancellationToken\ncredentials: Credentials\n",
            "time_to_first_token=0.35s cost_per_token=0.00001\n",
            r#"{"forgot_password": "Forgot your password?", "invalid_token": "Your token is invalid"}"#,
            "tests::password_is_checked ... ok\nsecrets.rs:12: token::next -> \"a\"",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn what_hides_a_secret_does_not_hide_the_next() {
        check(
            "token=$TOKEN password=sesame nextToken=a secret=b1",
            "token=$TOKEN password=[REDACTED:field] nextToken=a secret=[REDACTED:field]",
        );
        check(
            r#"{"password":"a","token":"b","c":"d","api_key":"e"}"#,
            r#"{"password":"[REDACTED:field]","token":"[REDACTED:field]","c":"d","api_key":"[REDACTED:field]"}"#,
        );
    }
}
