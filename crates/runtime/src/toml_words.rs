//! Readable errors of a TOML file: the line, the column, and a suggestion.

use kernel::problem::closest;

/// The message of an error. Only names of keys are quoted from the file.
pub(crate) fn say(text: &str, error: &toml::de::Error) -> String {
    let message = with_guess(error.message());
    let Some(span) = error.span() else {
        return message;
    };
    let before = text.get(..span.start).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    let column = 1 + before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    format!("line {line}, column {column}: {message}")
}

/// The message of an unknown name, with the most similar known one.
fn with_guess(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown ");
    let meant = quoted
        .next()
        .filter(|_| is_unknown)
        .and_then(|name| closest(name, quoted));
    match meant {
        Some(meant) => format!("{message}; did you mean `{meant}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[expect(dead_code, reason = "only what cannot be read is looked at")]
        provider: Option<u64>,
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = toml::from_str::<File>(text).expect_err("it cannot be read");
        assert_eq!(say(text, &error), expected);
    }

    #[test]
    fn an_error_has_the_place_and_a_suggestion() {
        check(
            "\n\n providers = 1\n",
            "line 3, column 2: unknown field `providers`, expected `provider`; did you mean `provider`?",
        );
        let error = toml::from_str::<File>("a = 1\n[b").expect_err("it cannot be read");
        let said = say("a = 1\n[b", &error);
        assert!(said.starts_with("line 2, column "), "{said}");
    }
}
