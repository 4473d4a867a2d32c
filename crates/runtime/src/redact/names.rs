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
