//! Secrets that are known by what stands before them: a variable, a member, a header, an option or a
//! parameter that is called like a secret has one, whatever it looks like.
//!
//! Names are looked for wherever a word of them ends (`DB_PASSWORD`, `clientSecret`); `tokens`,
//! `token_count` and `tokenizer` are none. What reads like a place to be filled in, like code or
//! like prose stays (`ordinary.rs`).

use std::sync::LazyLock;

use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::{keys, ordinary};

/// Which part of a match is taken out, by where its value stands in it. None of it: it stays.
pub(super) type Takes = fn(&[u8], std::ops::Range<usize>) -> Option<std::ops::Range<usize>>;

/// One rule.
pub(super) struct Rule {
    /// What stands in the place of a secret.
    pub(super) replacement: &'static str,
    /// The pattern; the first of its groups that has something has the value. One without a
    /// group takes what it finds from the rules behind it and leaves it as it is.
    pub(super) pattern: String,
    /// What of a value is secret.
    pub(super) takes: Takes,
}

/// How the name of a secret ends; what stands before it does not matter.
const NAME: &str = r"(?:token|(?:api|access|account|secret|private|encrypt(?:ion)?|sign(?:ing)?|master|ssh|jwt|hmac|deploy|license|subscription|stripe|sendgrid|twilio|mailgun|openai|anthropic)[_\-]?keys?(?:[_\-]?base)?(?:_?[0-9]{1,3})?|secret(?:[_\-]?(?:value|text|string))?[0-9_]*|(?:password|passwd|passphrase)[a-z0-9_]*|credentials?|dsn)";
/// The same in short, and what may not be a part of another word before it.
const PASS: &str = r"(?:(?:\b|_)(?:admin|bind|db|ftp|http|imap|keystore|ldap|mail|mysql|pg|proxy|redis|root|smtp|ssh|user)?pass|(?-i:Pass)|_pwd)(?:_?[0-9]{1,3})?";
/// A variable that has the key of something.
const KEY: &str = r"\b[A-Z][A-Z0-9_]*_KEY(?:_[0-9]{1,3})?";
/// How lists of secrets are called; some may have words.
const LISTS: &str = r"(?:(?:password|passwd|passphrase|(?:(?:api|access|account|secret|private|encryption|signing)[_\-]?)?key|(?:(?:access|refresh|bearer|auth|api)[_\-]?)?token|secret|credential)s)";
/// Names of headers that are a credential.
const HEADER: &str = "(?:proxy-authorization|authorization|x-api-key)";
/// Names of headers that have cookies.
const COOKIE: &str = "(?:set-)?cookie";
/// What stands before a credential in such a header.
const SCHEME: &str = "(?:(?:basic|bearer|token|negotiate|apikey)[ +]+)?";
/// Behind a name: the end of its quotes, if it has any, and a sign.
const SIGN: &str = r"[ \t]*(?:=>|:=|[:=])[ \t]*";
/// With what a line of settings begins before a name.
const LINE: &str = r"^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env)[ \t]+)?";
/// The same before the end of a name: the rule for these would come first.
const BEGINNING: &str =
    r"(?im)(?:^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env)[ \t]+)?[a-z0-9_\-]*)?";
/// Between a sign and quotes: what kind of text it is, or what makes a value of it.
const KIND: &str = r"(?:[bfru@$]{0,2}|String::from\(|Some\(|Secret(?:Str|String|::new|String::new|String::from)?\()";
/// Between a name and the sign of a variable that says of which type it is.
const TYPE: &str = r"(?:\[[0-9]{0,5}\][ \t]*=|[ \t]*:[ \t]*(?:&'static )?[&*a-z_][a-z0-9_.:<>\[\]|?]{0,40}(?: \| none)?[ \t]+=|[ \t]+(?:string|str|text|\[\]byte)[ \t]*=)[ \t]*";
/// The rest of a value in quotes that may have lines, none of them empty, up to that same quote where
/// it ends a value: without that, the quote would be any.
const LINES: &str = r#"(?:[^"\\\r\n]|\\[^\r\n]|\\?\r?\n(?:[^"\\\r\n]|\\[^\r\n]))*"#;
const LINES_SINGLE: &str = r#"(?:[^'\\\r\n]|\\[^\r\n]|\\?\r?\n(?:[^'\\\r\n]|\\[^\r\n]))*"#;
/// What ends such a value.
const CLOSED: &str = r"(?:[\s,;)}\]]|\z)";
/// A value without quotes, with the comma behind it: an argument has one.
const BARE: &str = r#"([^\s"'\\&;,}=>][^\s"'\\&;,}]*),?"#;
/// The value of a line without quotes: nothing but a comment may stand behind it.
const TO_END: &str = r##"(\$\{[^\s"'\\{}]+\}|[^\s"'\\=>][^\s"'\\]*[^\s"'\\&;,}]|[^\s"'\\&;,}=>|])(?:[ \t]+#[^\r\n]*|[ \t]*)\r?$"##;

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

/// What every rule finds before a secret.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    let names = r"(?i:token|key|secret|pass|pwd|credential|dsn|auth|cookie|session|sig|code|identified[ \t]+by|curl|mysql|mariadb|redis-cli|valkey-cli|login|mongo|sqlplus|cqlsh|sqlcmd|bcp|zip|mosquitto|ldap)";
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let built = Regex::builder().syntax(syntax).build(names);
    built.expect("patterns that are made here compile")
});

/// Where the first name ends in a text: no secret that a rule finds begins before.
pub(super) fn name_ends(text: &[u8]) -> Option<usize> {
    NAMES.search_half(&Input::new(text)).map(|end| end.offset())
}

/// Texts in quotes between brackets, and items of YAML below each other: words, or texts in quotes.
/// Where the name does not say for sure that every item is a secret, what has a sign or a name of an
/// option is no such item but for another rule to judge: what is judged as a list is not looked
/// through again.
fn listed(is_sure: bool) -> String {
    if is_sure {
        return in_list(
            &[
                sure_texts(r#"""#, r#"(?:[^"\\\r\n]|\\[^\r\n])"#),
                sure_texts(r#"\\""#, r#"(?:[^"\\\r\n]|\\{2,3}[^\r\n])"#),
                sure_texts("'", r"(?:[^'\\\r\n]|\\[^\r\n])"),
            ],
            r#"[ \t]*-[ \t]+(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s:=#"'{}\[\]&*!|>%@`\-][^\s:=]*)[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\z)"#,
        );
    }
    let texts = |quote: &str, plain: &str, escaped: &str| {
        let first = plain.replacen("[^", r"[^\-", 1);
        let item = format!("(?:(?:{first}|{escaped})(?:{plain}|{escaped})*={{0,2}})?");
        format!(r"{quote}{item}{quote}(?:\s*,\s*{quote}{item}{quote})*")
    };
    let lists = [
        texts(r#"""#, r#"[^"\\\r\n:=]"#, r"\\[^\r\n]"),
        texts(r#"\\""#, r#"[^"\\\r\n:=]"#, r"\\{2,3}[^\r\n]"),
        texts("'", r"[^'\\\r\n:=]", r"\\[^\r\n]"),
    ];
    let item = r#"[ \t]*-[ \t]+(?:"(?:[^\-"\r\n:=][^"\r\n:=]*={0,2})?"|'(?:[^\-'\r\n:=][^'\r\n:=]*={0,2})?'|[^\s:=#"'{}\[\]&*!|>%@`\-][^\s:=]*={0,2})[ \t]*(?:#[^\r\n:=]*)?(?:\r?\n|\z)"#;
    in_list(&lists, item)
}

/// Texts between quotes, whatever is in them.
fn sure_texts(quote: &str, text: &str) -> String {
    format!(r"{quote}{text}*{quote}(?:\s*,\s*{quote}{text}*{quote})*")
}

fn in_list(lists: &[String; 3], item: &str) -> String {
    format!(
        r#"(?:\\*["'])?(?:{SIGN}\[\s*({})[\s,]*\]|:[ \t]*(?:#[^\r\n]*)?\r?\n((?:{item})+))"#,
        lists.join("|")
    )
}

/// Names of lists of which every item is a secret.
const SURE_LISTS: &str = r"(?:(?:password|passwd|passphrase|credential|(?:api|access|secret|private)_?key|(?:access|refresh|bearer|auth|api)_?token)s)";

/// How clients are told a password: the program, more of its arguments, and what stands before it.
fn told(programs: &str, option: &str) -> String {
    format!(
        r#"\b(?:{programs})(?:[ \t]+[^\s|;&<>"'`]+){{0,10}}?[ \t]+{option}["']?([^\s"'\\|;&<>`]+)"#
    )
}

/// Every rule; of two that begin at the same place the earlier counts.
pub(super) fn rules() -> Vec<Rule> {
    let (quoted, opened) = (quoted(), opened());
    let rule = |replacement: &'static str| {
        move |pattern: String, takes| Rule {
            replacement,
            pattern,
            takes,
        }
    };
    let (field, header) = (rule("[REDACTED:field]"), rule("[REDACTED:header]"));
    vec![
        // Where the next page begins, and what a model of language calls its own signs: words by
        // themselves, which are no end of another one (`BACKEND_TOKEN`, `sendToken`).
        field(
            format!(
                r"(?im)(?:(?:{LINE}(?:[a-z0-9_\-]*[_\-])?|\b|_)(?:page|next|continuation|continue|sync|start|resume|bos|eos|pad|unk|sep|cls|mask)|(?:{LINE}|\b)end|(?:{LINE}[a-z0-9_\-]*)?(?-i:Page|Next|Continuation|Continue|Sync|Start|Resume))[_\-]?(?:page[_\-]?)?token"
            ),
            |_, _| None,
        ),
        // Where a secret is and how it has to be, not what it is.
        field(
            BEGINNING.to_owned() + r"(?:password|passwd|passphrase)[_\-]?(?:[a-z0-9]{1,20}_){0,3}[a-z0-9]{0,20}(?:file|path|dir|name|type|count|length|len|policy|field|label|hint|prompt|url|uri|days|hours|minutes|seconds|timeout|expiry|attempt|enabled|required|regex|pattern|rounds|template|strength)s?\b",
            |_, _| None,
        ),
        field(
            format!(
                r"(?im)(?:(?:{LINE}(?:[a-z0-9_\-]*[_\-])?|\b|_)image|(?:{LINE}[a-z0-9_\-]*)?(?-i:Image))[_\-]?pull[_\-]?secret"
            ),
            |_, _| None,
        ),
        field(
            format!(r#"(?i)pwd(?:\\*["']{SIGN}{quoted}|{SIGN}{opened}|={BARE})"#),
            ordinary::of_folder_or_password,
        ),
        header(
            format!(r#"(?i)'(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*([^'\s][^'\r\n]*)"#),
            ordinary::of_header,
        ),
        header(
            format!(r#"(?i)"(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*((?:[^"\\\s]|\\[^\r\n])(?:[^"\\\r\n]|\\[^\r\n])*)"#),
            ordinary::of_header,
        ),
        header(
            format!(r#"(?i)\b(?:{HEADER}|{COOKIE})\\*["']{SIGN}{quoted}"#),
            ordinary::of_header,
        ),
        header(
            format!(r"(?im)^[ \t<>*]*(?:{HEADER}|{COOKIE})[ \t]*:[ \t]*([^\s`][^\r\n]*)"),
            ordinary::of_header_line,
        ),
        header(
            format!(r#"(?i)\b{HEADER}[ \t]*:[ \t]*(?:\\*["']|`)?{SCHEME}([^\s"'`\\,;]+)"#),
            ordinary::of_header_line,
        ),
        header(
            format!(r#"(?i)\b{COOKIE}[ \t]*:[ \t]*\\*["']?([^\s=;:,"'\\]+=[^\r\n"'\\]+)"#),
            ordinary::of_header,
        ),
        header(
            format!(
                r#"(?i)\b(?:{HEADER}|{COOKIE})=(?:{opened}|((?:(?:basic|bearer|digest)[ +])?[^\s"'\\&;,}}=>]+),?)"#
            ),
            ordinary::of_header_setting,
        ),
        // The key of something, by its variable.
        field(
            format!(
                r"(?m)^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env|ENV)[ \t]+)?{KEY}[ \t]*[:=][ \t]*{TO_END}"
            ),
            keys::of_variable,
        ),
        field(
            format!(r#"{KEY}(?:\\*["']\]?{SIGN}{KIND}{quoted}|{SIGN}{KIND}{opened}|={BARE})"#),
            keys::of_variable,
        ),
        // Lists.
        field(
            format!(r#"(?im)(?:^[ \t]*(?:-[ \t]+)?["']?[a-z0-9_\-]*)?{SURE_LISTS}{}"#, listed(true)),
            keys::of_list,
        ),
        field(
            format!(r#"(?im)(?:^[ \t]*(?:-[ \t]+)?["']?[a-z0-9_\-]*)?{LISTS}{}"#, listed(false)),
            keys::of_list,
        ),
        // A line of YAML, of an ini file, or of variables.
        field(
            format!(
                r"(?im)^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env)[ \t]+)?[a-z0-9_\-]*{NAME}[ \t]*[:=][ \t]*{TO_END}"
            ),
            ordinary::of_setting,
        ),
        field(
            format!(
                r"(?im)^[ \t]*(?:[\-+>][ \t]*)?(?:(?:export|set|env)[ \t]+)?[a-z0-9_\-]*{PASS}[ \t]*[:=][ \t]*{TO_END}"
            ),
            keys::of_pass,
        ),
        // A text of several lines in YAML: its first.
        field(
            format!(
                r"(?im)^[ \t]*(?:-[ \t]+)?[a-z0-9_\-]*{NAME}[ \t]*:[ \t]*[|>][+\-0-9]*[ \t]*\r?\n[ \t]+([^\s][^\r\n]*)"
            ),
            ordinary::of_quotes,
        ),
        // A variable of a container or of a shell without a sign.
        field(
            format!(
                r"(?im)^[ \t]*(?:env|setx|set[ \t]+-[a-z]{{1,3}})[ \t]+[a-z0-9_]*{NAME}[ \t]+{TO_END}"
            ),
            ordinary::of_setting,
        ),
        // A name and its value, each as a member of its own.
        field(
            format!(
                r#"(?im){NAME}(?:["']?[ \t]*\r?\n[ \t]*value:[ \t]*(?:{quoted}|{TO_END})|\\*["'][ \t]*,?\s{{0,80}}(?:\\*["'])?value(?:\\*["'])?{SIGN}{quoted})"#
            ),
            ordinary::of_setting,
        ),
        // A member.
        field(
            format!(r#"(?i){NAME}\\*["']\]?{SIGN}{KIND}{quoted}"#),
            ordinary::of_quotes,
        ),
        // Arguments, as a shell has them and as lists do.
        field(
            format!(
                r#"(?i)--(?:[a-z0-9]+[_\-]){{0,4}}{NAME}(?:\\*["'][ \t]*,[ \t]*{quoted}|(?:[ \t]+|=)(?:{quoted}|([^\s"'\\\-&;|,<>=][^\s"'\\&;|,]*)))"#
            ),
            ordinary::of_option,
        ),
        // A setting, a form field or a parameter.
        field(
            format!(r"(?i){NAME}(?:{SIGN}{KIND}{opened}|={BARE})"),
            ordinary::of_parameter,
        ),
        // A password in short.
        field(
            format!(
                r#"(?i)--(?:[a-z0-9]+[_\-]){{0,4}}(?:pass|pwd)(?:\\*["'][ \t]*,[ \t]*{quoted}|[ \t=](?:{quoted}|([^\s"'\\\-&;|,<>=][^\s"'\\&;|,]*)))"#
            ),
            keys::of_pass_option,
        ),
        field(
            format!(r#"(?i){PASS}(?:\\*["']\]?{SIGN}{KIND}{quoted}|{SIGN}{KIND}{opened}|={BARE})"#),
            keys::of_pass,
        ),
        // User and password of a registry of images.
        field(
            r#"(?i)\bauth\\*"\s*:\s*\\*"([A-Za-z0-9+/]{8,}={0,2})\\*""#.to_owned(),
            keys::of_registry,
        ),
        // A variable with its type.
        field(format!(r"(?i){NAME}{TYPE}{KIND}{opened}"), ordinary::of_quotes),
        // One in a list or amid a text, where it has digits as no word has.
        field(
            format!(r#"(?i){NAME}[ \t]*:[ \t]+((?:[^\s"'`\\&;,{{}}\[\]()<>=]*[0-9])[^\s"'`\\&;,{{}}\[\]()<>=]*)"#),
            ordinary::of_text,
        ),
        field(
            format!(r#"(?i){NAME}[ \t]+(?:(?:is:?[ \t]+)?["']([^\s"'\\]*[0-9][^\s"'\\]*)["']|is:?[ \t]+([^\s"'`\\&;,{{}}\[\]()<>=]*[0-9][^\s"'`\\&;,{{}}\[\]()<>=]*))"#),
            ordinary::of_text,
        ),
        // One in bold letters, or in the next cell of a table, as pages of notes have them.
        field(
            format!(r#"(?i){NAME}(?::\*\*|\*\*[ \t]*:)[ \t]+`?([^\s"'`\\&;,{{}}\[\]()<>=|]*[0-9][^\s"'`\\&;,{{}}\[\]()<>=|]*)"#),
            ordinary::of_text,
        ),
        field(
            format!(r#"(?im)^[ \t]*\|[ \t]*[`*]{{0,3}}[a-z0-9_\-]*{NAME}[`*]{{0,3}}[ \t]*\|[ \t]*`?([^\s"'`\\&;,{{}}\[\]()<>=|]*[0-9][^\s"'`\\&;,{{}}\[\]()<>=|]*)`?[ \t]*\|"#),
            ordinary::of_text,
        ),
        // As the clients of servers and of databases are told it, and that of a registry.
        field(
            r#"(?i)\bcurl(?:[ \t]+-{1,2}[a-z\-]{1,20}(?:[ \t]+[a-z]{3,6})?){0,6}[ \t]+(?:-u|--user)[ \t=]*["']?[^\s:"'$]{1,64}:([^\s"'\\]+)"#
                .to_owned(),
            ordinary::of_quotes,
        ),
        field(
            r#"\b(?:mysql(?:dump|admin|import|show)?|mariadb(?:-dump|-admin)?)(?:[ \t]+-[^\sp"'][^\s"']{0,64}(?:[ \t]+[^\s\-"'][^\s"']{0,64})?){0,6}[ \t]+-p["']?([^\s"'\\]+)"#
                .to_owned(),
            ordinary::of_quotes,
        ),
        field(
            format!(r"(?im)^[ \t]*(?://[^\s=]{{1,200}}:)?_auth[ \t]*=[ \t]*{TO_END}"),
            ordinary::of_setting,
        ),
        // Behind its own options: the program that it starts may have a `-p` of another meaning.
        field(
            r#"\bsshpass(?:[ \t]+-[vhV]|[ \t]+-P[ \t]*[^\s]{1,64}){0,4}[ \t]+-p[ \t]*["']?([^\s"'\\|;&<>`]+)"#
                .to_owned(),
            ordinary::of_quotes,
        ),
        field(told("redis-cli|valkey-cli", "-a[ \\t]+"), ordinary::of_quotes),
        field(
            told("(?:docker|podman|buildah|skopeo|nerdctl|oras|helm(?:[ \\t]+registry)?|crane(?:[ \\t]+auth)?)[ \\t]+login", "-p[ \\t=]+"),
            ordinary::of_quotes,
        ),
        field(told("mongosh?|mongodump|mongorestore|sqlplus|cqlsh", "-p[ \\t]+"), ordinary::of_option),
        field(told("sqlcmd|bcp|zip|unzip|mosquitto_(?:pub|sub)", "-P[ \\t]*"), ordinary::of_option),
        field(told("ldap(?:search|modify|add|delete|whoami|passwd)", "-w[ \\t]*"), ordinary::of_quotes),
        field(told("openssl", "-pass(?:in|out)?[ \\t]+pass:"), ordinary::of_quotes),
        // As databases are told it.
        field(
            r"(?i)\b(?:password|identified[ \t]+by)[ \t]+'([^'\r\n]+)'".to_owned(),
            ordinary::of_quotes,
        ),
        // As programs find whom to say they are to a machine.
        field(
            r"(?i)\b(?:machine\s{1,8}[^\s.]{1,200}\.[^\s]+|(?:machine\s{1,8}[^\s]+|default)\s{1,8}(?:login|account)\s{1,8}[^\s]+)(?:\s{1,8}(?:login|account)\s{1,8}[^\s]+){0,2}\s{1,8}password\s{1,8}([^\s]+)"
                .to_owned(),
            ordinary::of_quotes,
        ),
        // An element.
        field(
            format!(r"(?i)<[a-z0-9_.:\-]*{NAME}(?:[ \t][^<>\r\n]*)?>([^<>\s][^<>\r\n]*)</"),
            ordinary::of_quotes,
        ),
        field(
            r#"(?i)(?:[?&]|\\u0026)(?:amp;)?[a-z0-9_\-]{0,40}(?:auth|session(?:[_\-]?id)?|sig|signature)=([^\s&\#"'<>\\]+)"#
                .to_owned(),
            ordinary::of_query,
        ),
        field(
            r#"(?i)(?:[?&]|\\u0026)(?:amp;)?[a-z0-9_\-]{0,40}(?:key|code)=([^\s&\#"'<>\\]+)"#.to_owned(),
            keys::of_query,
        ),
    ]
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
