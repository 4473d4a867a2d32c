//! What secrets are called.

/// What the name of a variable holds that stands for a secret.
const WORDS: [&str; 12] = [
    "token",
    "apikey",
    "api_key",
    "secret",
    "password",
    "passwd",
    "credential",
    "auth",
    "cookie",
    "session",
    "private",
    "dsn",
];

/// Whether a variable of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Whether an argument says that the next one is a secret.
pub fn is_secret_option(argument: &str) -> bool {
    argument.starts_with('-') && is_secret_member(argument.trim_start_matches('-'))
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
    let name = name.to_ascii_lowercase().replace(['_', '-'], "");
    ENDS.iter().any(|end| name.ends_with(end))
}
