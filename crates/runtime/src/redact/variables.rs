//! What of a variable's value is secret: all of it, the password in an address, the key in a list of
//! settings, or nothing, where it says where a secret is or has an ordinary word.

use super::keys;
use super::names::{self, Sure, is_secret_member};

/// Words that settings have. Looked for everywhere they would be found everywhere.
const WORDS: [&str; 34] = [
    "administrator",
    "anonymous",
    "automatic",
    "changeme",
    "configured",
    "default",
    "development",
    "disabled",
    "encrypted",
    "external",
    "filesystem",
    "inherited",
    "interactive",
    "internal",
    "keychain",
    "localhost",
    "memcached",
    "mandatory",
    "optional",
    "password",
    "placeholder",
    "postgres",
    "postgresql",
    "production",
    "protected",
    "required",
    "sessions",
    "standard",
    "supported",
    "temporary",
    "undefined",
    "unlimited",
    "username",
    "wincred",
];
/// Folders in which everything lies on a machine.
const ROOTS: [&str; 28] = [
    "Library",
    "Users",
    "Volumes",
    "app",
    "bin",
    "builds",
    "data",
    "dev",
    "etc",
    "github",
    "home",
    "lib",
    "media",
    "mnt",
    "nix",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "workspace",
];
/// Characters that a name in an address, or a step of its path, has at least to be a key.
const MIN_PART: usize = 16;

/// Texts to be kept out of everything because a variable has them, each by the name that will stand in
/// its place. They may be as short as the value is.
pub fn secrets_of_variable(name: &str, value: &str) -> Vec<(String, String)> {
    let sure = names::of_variable(name);
    let mut parts = Vec::new();
    if let Some(address) = Address::of(value) {
        address.secrets(sure, &mut parts);
    } else {
        settings(value, &mut parts);
    }
    let is_whole = match sure {
        Sure::No => false,
        Sure::ByValue => keys::is_key_like(value.as_bytes()) && !is_place(value),
        Sure::Yes => !is_plain(name, value, !parts.is_empty()),
    };
    let mut secrets = Vec::new();
    if is_whole {
        secrets.push((name.to_owned(), value.to_owned()));
        let is_list = name.to_ascii_lowercase().ends_with('s') && value.contains(',');
        // `AUTH_PROVIDERS` has names, `API_TOKENS` has tokens.
        let is_sure = is_secret_member(name.trim_end_matches(['s', 'S']));
        let items = value
            .split(',')
            .map(str::trim)
            .filter(|item| is_list && (is_sure || keys::is_key_like(item.as_bytes())));
        parts.extend(
            items
                .enumerate()
                .map(|(place, item)| (place.to_string(), item.to_owned())),
        );
    }
    for (what, part) in parts {
        let is_new = |(_, known): &(String, String)| *known != part;
        if !part.is_empty() && !is_word(&part) && secrets.iter().all(is_new) {
            secrets.push((format!("{name}.{what}"), part));
        }
    }
    secrets
}

/// Whether a text is a word that settings have.
fn is_word(text: &str) -> bool {
    WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a value is no secret although the name of its variable says so.
fn is_plain(name: &str, value: &str, has_parts: bool) -> bool {
    // What one is connected by may be a file or a server that asks for nothing.
    let name = name.to_ascii_lowercase().replace('_', "");
    let is_connection = ["connectionstring", "connstr"]
        .iter()
        .any(|of| name.contains(of));
    let is_server =
        || Address::of(value).is_some_and(|address| address.is_plain()) || is_host(value);
    is_word(value) || is_place(value) || (!has_parts && (is_connection || is_server()))
}

/// Whether a value says where something lies on a machine.
fn is_place(value: &str) -> bool {
    let is_drive = {
        let bytes = value.as_bytes();
        matches!(bytes, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic())
    };
    let root = value
        .strip_prefix('/')
        .and_then(|rest| rest.split('/').next());
    is_drive
        || ["~/", "./", "../", "unix:", "file:/"]
            .iter()
            .any(|sign| value.starts_with(sign))
        || root.is_some_and(|root| ROOTS.contains(&root))
}

/// Whether a value is the name of a server and its port.
fn is_host(value: &str) -> bool {
    value.rsplit_once(':').is_some_and(|(host, port)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        !host.is_empty() && host.chars().all(is_name) && port.parse::<u16>().is_ok()
    })
}

/// The secrets of settings in one line, as databases and clouds have them:
/// `Server=h;Password=…`, `AccountName=shop;AccountKey=…`.
fn settings(value: &str, parts: &mut Vec<(String, String)>) {
    if !value.contains('=') {
        return;
    }
    let between: &[char] = match value.contains(';') {
        true => &[';'],
        // As PostgreSQL has them.
        false => &[' '],
    };
    for pair in value.split(between) {
        if let Some((name, text)) = pair.split_once('=')
            && is_key_of_settings(name.trim())
        {
            let text = text.trim().trim_matches(['\'', '"']);
            parts.push((name.trim().to_ascii_lowercase(), text.to_owned()));
        }
    }
}

fn is_key_of_settings(name: &str) -> bool {
    let name = name.replace(' ', "_");
    is_secret_member(&name) || name.to_ascii_lowercase().ends_with("signature")
}

/// An address: `scheme://user:password@host/path?query`.
struct Address<'a> {
    user: Option<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl<'a> Address<'a> {
    fn of(value: &'a str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once("://")?;
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.:".contains(c);
        if scheme.is_empty() || !scheme.chars().all(is_scheme) || rest.contains(char::is_whitespace)
        {
            return None;
        }
        let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (user, rest) = match rest[..end].rsplit_once('@') {
            Some((user, _)) => (Some(user), &rest[user.len() + 1..]),
            // A `/` or a `?` in the password that nobody escaped: no host and port stand before it.
            None => match rest.rsplit_once('@') {
                Some((user, behind)) if rest[..end].contains(':') && !is_host(&rest[..end]) => {
                    (Some(user), behind)
                }
                _ => (None, rest),
            },
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        Some(Self { user, path, query })
    }

    fn secrets(&self, sure: Sure, parts: &mut Vec<(String, String)>) {
        let mut part = |what: &str, text: &str| {
            parts.push((what.to_owned(), text.to_owned()));
            let decoded = decoded(text);
            if decoded != text {
                parts.push((format!("{what}.decoded"), decoded));
            }
        };
        match self
            .user
            .map(|user| user.split_once(':').unwrap_or((user, "")))
        {
            Some((user, "")) if sure > Sure::No || is_key(user) => part("user", user),
            Some((_, password)) => part("password", password),
            None => {}
        }
        for pair in self.query.split('&') {
            if let Some((name, text)) = pair.split_once('=')
                && keys::is_parameter(name, text)
            {
                part(name, text);
            }
        }
        if sure > Sure::No {
            self.path
                .split('/')
                .filter(|step| is_key(step))
                .for_each(|step| part("path", step));
        }
    }

    /// Whether nothing in it can be secret.
    fn is_plain(&self) -> bool {
        self.user.is_none() && self.query.is_empty() && !self.path.split('/').any(is_key)
    }
}

/// A part of an address as it was before somebody put it there.
fn decoded(part: &str) -> String {
    let pair = format!("x={}", part.replace('+', "%2B").replace('&', "%26"));
    let mut pairs = url::form_urlencoded::parse(pair.as_bytes());
    pairs
        .next()
        .map(|(_, part)| part.into_owned())
        .unwrap_or_default()
}

/// Whether a part of an address looks like a key.
fn is_key(part: &str) -> bool {
    part.len() >= MIN_PART && keys::is_key_like(part.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, expected: &[(&str, &str)]) {
        let secrets = secrets_of_variable(name, value);
        let secrets: Vec<(&str, &str)> = secrets.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(secrets, expected, "{name}={value}");
    }

    #[test]
    fn what_of_a_variable_is_secret() {
        check("DB_PASS", "open-sesame", &[("DB_PASS", "open-sesame")]);
        check(
            "ACME_KEY",
            "planted-by-key-1",
            &[("ACME_KEY", "planted-by-key-1")],
        );
        check(
            "ENCRYPTION_KEY",
            "openthesesame",
            &[("ENCRYPTION_KEY", "openthesesame")],
        );
        check(
            "API_KEYS",
            "planted-1, planted-2",
            &[
                ("API_KEYS", "planted-1, planted-2"),
                ("API_KEYS.0", "planted-1"),
                ("API_KEYS.1", "planted-2"),
            ],
        );
        // Of names nothing is secret by itself.
        check(
            "AUTH_PROVIDERS",
            "google,facebook,microsoft",
            &[("AUTH_PROVIDERS", "google,facebook,microsoft")],
        );
        for (address, secret) in [
            (
                "smtp://ada:open-sesame-1@mail.example:587/?from=shop@acme.example",
                Some("open-sesame-1"),
            ),
            (
                "smtp://ada:open-sesame-1@mail.example:587?from=shop@acme",
                Some("open-sesame-1"),
            ),
            (
                "postgres://ada:open/sesame@db.example/shop",
                Some("open/sesame"),
            ),
            ("https://registry.example:8443/npm/@acme/", None),
        ] {
            let expected: Vec<_> = secret
                .map(|secret| ("MAIL_URL.password", secret))
                .into_iter()
                .collect();
            check("MAIL_URL", address, &expected);
        }
        check(
            "DATABASE_URL",
            "postgres://ada:p%40ss-1word@db.example:5432/shop",
            &[
                ("DATABASE_URL.password", "p%40ss-1word"),
                ("DATABASE_URL.password.decoded", "p@ss-1word"),
            ],
        );
        check(
            "SHOP_CONNECTION_STRING",
            "Server=h;User Id=ada;Password=planted-3;",
            &[
                (
                    "SHOP_CONNECTION_STRING",
                    "Server=h;User Id=ada;Password=planted-3;",
                ),
                ("SHOP_CONNECTION_STRING.password", "planted-3"),
            ],
        );
        check(
            "PG_ARGS",
            "host=h password='planted-4' user=ada",
            &[("PG_ARGS.password", "planted-4")],
        );
        check(
            "SLACK_WEBHOOK_URL",
            "https://hooks.example/services/T0/planted1planted2planted3",
            &[
                (
                    "SLACK_WEBHOOK_URL",
                    "https://hooks.example/services/T0/planted1planted2planted3",
                ),
                ("SLACK_WEBHOOK_URL.path", "planted1planted2planted3"),
            ],
        );
        check(
            "FEED",
            "https://h.example/x?page=2&key=planted-in-query-5",
            &[("FEED.key", "planted-in-query-5")],
        );
    }

    #[test]
    fn what_says_where_or_how_it_is_is_none() {
        for (name, value) in [
            ("GITHUB_TOKEN_FILE", "/run/secrets/github-7"),
            ("SSH_KEY", "~/.ssh/id_ed25519"),
            ("SIGNING_KEY", r"C:\keys\signing-1.pem"),
            ("DB_PASSWORD", "postgres"),
            ("APP_PASS", "production"),
            ("ACME_KEY", "created_at"),
            ("ACME_KEY", "/srv/keys/acme-12.pem"),
            ("OAUTH_TOKEN_URL", "https://login.example/oauth2/v2/token"),
            ("SHOP_CONNECTION_STRING", "localhost:5432"),
            ("SHOP_WEBHOOK_URL", "http://localhost:8080/hooks/shop"),
            ("DATABASE_URL", "postgres://ada@db.example/shop"),
            ("GIT_AUTHOR_NAME", "Ada Lovelace 2"),
            ("PWD", "/srv/shop-12345678"),
            ("PATH", "/bin:/usr/bin"),
            ("WF_ATTEMPT_KEY", "run-1f2e3d4c5b6a/0"),
        ] {
            check(name, value, &[]);
        }
    }
}
