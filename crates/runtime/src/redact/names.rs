//! What secrets are called.

/// What the name of a variable holds that stands for a secret.
const PARTS: [&str; 15] = [
    "token",
    "apikey",
    "api_key",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
    "cookie",
    "private",
    "dsn",
    "webhook",
    "connection_string",
    "connectionstring",
];
/// The same as a word by itself, the last one of a name.
const LAST: [&str; 12] = [
    "pass",
    "pwd",
    "pw",
    "creds",
    "passwords",
    "tokens",
    "secrets",
    "jwt",
    "otp",
    "sas",
    "connstr",
    "salt",
];
/// Words before `pass` in one that is written without a sign between them.
const PASS_OF: [&str; 17] = [
    "admin", "bind", "db", "ftp", "http", "imap", "keystore", "ldap", "mail", "mysql", "pg",
    "proxy", "redis", "root", "smtp", "ssh", "user",
];
/// Variables that are called like a secret and have none.
const ORDINARY: [&str; 11] = [
    "pwd",
    "oldpwd",
    "desktop_session",
    "session_manager",
    "ssh_auth_sock",
    "xauthority",
    "sudo_askpass",
    "ssh_askpass",
    "git_askpass",
    "dbus_session_bus_address",
    "init_pwd",
];
/// Whose key is a secret, whatever it looks like.
const KEY_OF: [&str; 43] = [
    "access",
    "account",
    "admin",
    "aes",
    "anthropic",
    "api",
    "auth",
    "aws",
    "cipher",
    "crypto",
    "datadog",
    "deploy",
    "encrypt",
    "encryption",
    "gpg",
    "hmac",
    "integrity",
    "jwt",
    "kms",
    "license",
    "mailgun",
    "master",
    "openai",
    "pgp",
    "private",
    "root",
    "rsa",
    "seal",
    "sealing",
    "secret",
    "sendgrid",
    "service",
    "session",
    "shared",
    "sign",
    "signing",
    "ssh",
    "ssl",
    "stripe",
    "subscription",
    "tls",
    "twilio",
    "vault",
];
/// What has a key that is none: by which things are found, sorted or told from each other.
const NO_KEY_OF: [&str; 51] = [
    "accelerator",
    "attempt",
    "bucket",
    "cache",
    "col",
    "column",
    "component",
    "composite",
    "config",
    "dedup",
    "dedupe",
    "feature",
    "field",
    "flag",
    "foreign",
    "function",
    "group",
    "hash",
    "hot",
    "idempotency",
    "identity",
    "index",
    "issue",
    "item",
    "job",
    "lock",
    "lookup",
    "map",
    "message",
    "meta",
    "modifier",
    "natural",
    "object",
    "order",
    "partition",
    "press",
    "primary",
    "project",
    "publishable",
    "public",
    "query",
    "range",
    "record",
    "registry",
    "routing",
    "row",
    "sort",
    "state",
    "translation",
    "tree",
    "unique",
];
/// Words behind a name that say which one it is.
const WHICH: [&str; 21] = [
    "b64",
    "backup",
    "base",
    "base64",
    "current",
    "dev",
    "development",
    "hex",
    "live",
    "new",
    "next",
    "old",
    "pem",
    "previous",
    "primary",
    "prod",
    "production",
    "secondary",
    "staging",
    "test",
    "value",
];

/// How sure a name is of what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sure {
    /// It has no secret.
    No,
    /// It may have the key of something: its value says whether it is one.
    ByValue,
    /// It has a secret, whatever that looks like.
    Yes,
}

/// The words of a name in small letters, whatever stands between them: a sign, or the first letter of
/// the next. Digits are words by themselves.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let begins = match c {
            _ if !c.is_ascii_alphanumeric() => true,
            _ if c.is_ascii_uppercase() => before.is_ascii_lowercase(),
            _ => c.is_ascii_digit() && !before.is_ascii_digit(),
        };
        if begins {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words
                .last_mut()
                .expect("there is one")
                .push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The words that say what something is: without those behind them that say which one.
fn own_words(name: &str) -> Vec<String> {
    let mut words = words(name);
    let says_which = |word: &String| {
        WHICH.contains(&word.as_str()) || word.bytes().all(|byte| byte.is_ascii_digit())
    };
    while words.len() > 1 && words.last().is_some_and(says_which) {
        words.pop();
    }
    words
}

/// Whether the last words of a name say that it has the key of something, or a password in short.
fn by_last_words(name: &str) -> Sure {
    let words = own_words(name);
    let Some((last, before)) = words.split_last() else {
        return Sure::No;
    };
    let is_pass = |word: &str| {
        ["pass", "pwd"].iter().any(|end| {
            word.strip_suffix(end)
                .is_some_and(|of| PASS_OF.contains(&of))
        })
    };
    if LAST.contains(&last.as_str()) || is_pass(last) {
        return Sure::Yes;
    }
    let joined = ["key", "keys"]
        .iter()
        .find_map(|end| last.strip_suffix(end))
        .filter(|of| KEY_OF.contains(of));
    let of = match last.as_str() {
        "key" | "keys" => before.last().map(String::as_str),
        _ if joined.is_some() => joined,
        _ => return Sure::No,
    };
    match of {
        None => Sure::No,
        Some(of) if NO_KEY_OF.contains(&of) => Sure::No,
        // `AZURE_STORAGE_KEY` is one; by a `storageKey` a page finds what it kept.
        Some("storage") if before.len() == 1 => Sure::No,
        Some("storage") => Sure::Yes,
        Some(of) if KEY_OF.contains(&of) => Sure::Yes,
        Some(_) => Sure::ByValue,
    }
}

/// What the name of a variable says.
pub(crate) fn of_variable(name: &str) -> Sure {
    let name_of = name.to_ascii_lowercase();
    if ORDINARY.contains(&&*name_of) || name_of.starts_with("xdg_") {
        return Sure::No;
    }
    // `GIT_AUTHOR_NAME` has none.
    let has_auth = name_of.match_indices("auth").any(|(at, _)| {
        let behind = &name_of[at + "auth".len()..];
        !behind.starts_with("or") || behind.starts_with("oriz")
    });
    if has_auth || name_of.contains("session") || PARTS.iter().any(|part| name_of.contains(part)) {
        return Sure::Yes;
    }
    by_last_words(name)
}

/// Whether a variable of this name may hold a secret.
pub fn is_secret_name(name: &str) -> bool {
    of_variable(name) > Sure::No
}

/// Whether an argument says that the next one is a secret.
pub fn is_secret_option(argument: &str) -> bool {
    let name = argument.trim_start_matches('-');
    name.len() < argument.len() && (is_secret_member(name) || name == "pass")
}

/// Whether a member of this name holds a secret: its last word says so. `max_tokens` does not.
pub fn is_secret_member(name: &str) -> bool {
    const ENDS: [&str; 14] = [
        "token",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "credentials",
        "authorization",
        "cookie",
        "dsn",
    ];
    const SHORT: [&str; 4] = ["pass", "pwd", "creds", "passcode"];
    let plain = name.to_ascii_lowercase().replace(['_', '-'], "");
    if ENDS.iter().any(|end| plain.ends_with(end)) {
        return true;
    }
    let words = own_words(name);
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    // `pass` alone is as often what came of a check.
    let is_short = SHORT.contains(&last.as_str()) && (last != "pass" || !before.is_empty());
    is_short || (last.ends_with("key") && by_last_words(name) == Sure::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_known_by_what_they_are_called() {
        for name in [
            "DB_PASS",
            "DB_PWD",
            "MYSQL_PWD",
            "SSHPASS",
            "PGPASSWORD",
            "GPG_PASSPHRASE",
            "PASS",
            "dbPass",
            "ENCRYPTION_KEY",
            "SIGNING_KEY",
            "MASTER_KEY",
            "SSH_KEY",
            "APP_SIGNING_KEY_2",
            "SECRET_KEY_BASE",
            "API_KEY_1",
            "STRIPE_KEY",
            "STRIPE_KEY_LIVE",
            "SSH_KEY_BASE64",
            "AWS_CREDENTIALS",
            "AWS_CREDS",
            "SENTRY_DSN",
            "DB_CONNECTION_STRING",
            "SLACK_WEBHOOK_URL",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "apiKey",
            "GITHUB_TOKEN",
            "BASIC_AUTH",
            "OAUTH_ID",
            "HTTP_AUTHORIZATION",
            "SESSION_ID",
            "masterkey",
        ] {
            assert_eq!(of_variable(name), Sure::Yes, "{name}");
        }
        for name in ["ACME_KEY", "WEATHER_KEY_1", "MAPS_KEYS"] {
            assert_eq!(of_variable(name), Sure::ByValue, "{name}");
        }
        for name in [
            "PWD",
            "OLDPWD",
            "INIT_CWD",
            "KEY",
            "WF_ATTEMPT_KEY",
            "SSH_PUBLIC_KEY",
            "KEY_FILE",
            "CACHE_KEY",
            "PRIMARY_KEY",
            "X_IDEMPOTENCY_KEY",
            "AWS_ACCESS_KEY_ID",
            "SIGNING_KEY_ID",
            "SIGNING_KEY_FILE",
            "TLS_KEY_PATH",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "XDG_SESSION_TYPE",
            "MONKEY",
            "COMPASS",
            "BYPASS",
            "SORT_KEY",
            "STORAGE_KEY",
            "HOME",
            "PATH",
            "NODE_ENV",
        ] {
            assert_eq!(of_variable(name), Sure::No, "{name}");
        }
    }

    #[test]
    fn members_and_options_are_known_by_their_last_word() {
        for name in [
            "db_pass",
            "dbPass",
            "userPwd",
            "signing_key",
            "encryptionKey",
            "ssh-key",
            "client_secret",
            "aws_creds",
            "STRIPE_KEY_1",
        ] {
            assert!(is_secret_member(name), "{name}");
        }
        for name in [
            "pass",
            "key",
            "keys",
            "public_key",
            "sortKey",
            "monkey",
            "max_tokens",
            "bypass",
            "author",
            "cacheKey",
            "pwdLength",
        ] {
            assert!(!is_secret_member(name), "{name}");
        }
        assert!(is_secret_option("--db-pass") && !is_secret_option("db-pass"));
    }
}
