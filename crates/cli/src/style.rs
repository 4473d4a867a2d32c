//! Styles of words. The stream removes colours where they are disabled.

use std::fmt::Display;

use owo_colors::OwoColorize;

/// Ended well.
pub(crate) fn good(text: impl Display) -> String {
    text.green().to_string()
}

/// Went wrong.
pub(crate) fn bad(text: impl Display) -> String {
    text.red().bold().to_string()
}

/// Needs a look.
pub(crate) fn warn(text: impl Display) -> String {
    text.yellow().to_string()
}

/// Is going on.
pub(crate) fn busy(text: impl Display) -> String {
    text.cyan().to_string()
}

/// Emphasised.
pub(crate) fn strong(text: impl Display) -> String {
    text.bold().to_string()
}

/// De-emphasised.
pub(crate) fn dim(text: impl Display) -> String {
    text.dimmed().to_string()
}

/// A status word of a run or a node in its colour.
pub(crate) fn status(word: &str) -> String {
    match word {
        "completed" => good(word),
        "failed" => bad(word),
        "running" | "retrying" | "cancelling" => busy(word),
        "pending" | "skipped" | "cancelled" => dim(word),
        _ => warn(word),
    }
}
