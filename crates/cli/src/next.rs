//! Suggested commands, completed with the place from the command line, so that they can be pasted.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use crate::env;

/// The options to append to a suggested command; set once, from the command line.
static PLACE: OnceLock<Place> = OnceLock::new();

/// The beginning of a command in a text.
const COMMAND: &str = "`runwright ";
/// Commands that can also use a server.
const ASK_A_SERVER: [&str; 3] = ["run", "runs", "events"];
/// Words of a command that names its place, or needs none.
const PLACED: [&str; 5] = ["--data", "--store", "--server", "--help", "completions"];

#[derive(Debug, Default)]
struct Place {
    /// Options that name a store and its project, each with a space before it.
    folders: String,
    /// The option that names a server, with a space before it.
    server: Option<String>,
}

/// Remembers the named place. Folders from the environment also apply to the next command; a server
/// is always named, because more depends on it.
pub(crate) fn remember(
    data: Option<&Path>,
    project: Option<&Path>,
    database: Option<&str>,
    server: Option<String>,
) {
    let mut folders = String::new();
    if let Some(url) = database.filter(|url| !is_said(env::STORE, OsStr::new(url))) {
        // A URL with a password has to be typed again.
        let shown = if has_password(url) {
            Cow::Borrowed("URL")
        } else {
            word(url)
        };
        folders.push_str(&format!(" --store {shown}"));
    }
    for (option, variable, path) in [
        ("--data", env::DATA, data),
        ("--project", env::PROJECT, project),
    ] {
        if let Some(path) = path.filter(|path| !is_said(variable, path.as_os_str())) {
            folders.push_str(&format!(" {option} {}", word(&path.to_string_lossy())));
        }
    }
    // A process has one command line.
    let _ = PLACE.set(Place { folders, server });
}

/// Whether a URL contains a password, which no output may repeat.
fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let user = place.split_once("://").map_or("", |(_, rest)| rest);
    let user = user.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || query.contains("password")
}

fn is_said(variable: &str, value: &OsStr) -> bool {
    std::env::var_os(variable).is_some_and(|said| said == value)
}

/// A text with its commands completed for this place.
pub(crate) fn placed(text: &str) -> Cow<'_, str> {
    match PLACE.get() {
        Some(place) => place.within(text),
        None => Cow::Borrowed(text),
    }
}

impl Place {
    fn within<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if (self.folders.is_empty() && self.server.is_none()) || !text.contains(COMMAND) {
            return Cow::Borrowed(text);
        }
        let mut placed = String::with_capacity(text.len() + 40);
        let mut rest = text;
        while let Some(begin) = rest.find(COMMAND) {
            let (before, from) = rest.split_at(begin + COMMAND.len());
            placed.push_str(before);
            let end = from.find('`').unwrap_or(from.len());
            let (command, behind) = from.split_at(end);
            match command.split_once(" -- ") {
                Some((options, program)) => {
                    let place = self.of(options);
                    placed.push_str(&format!("{options}{place} -- {program}"));
                }
                None => {
                    placed.push_str(command);
                    placed.push_str(self.of(command));
                }
            }
            rest = behind;
        }
        placed.push_str(rest);
        Cow::Owned(placed)
    }

    /// The options to append to a command.
    fn of(&self, command: &str) -> &str {
        let mut words = command.split_whitespace();
        let asks_a_server = words
            .next()
            .is_some_and(|word| ASK_A_SERVER.contains(&word));
        match &self.server {
            _ if PLACED.iter().any(|word| command.contains(word)) => "",
            Some(server) if asks_a_server => server,
            // The path of that store is unknown here.
            Some(_) => "",
            None => &self.folders,
        }
    }
}

/// A text quoted as one word for a shell.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+:@,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_noticed() {
        for url in [
            "postgres://me:word@h/d",
            "postgres://h/d?user=me&password=word",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in ["postgres://me@h:5433/d", "postgres://h:1,i:2/d?user=me"] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn a_command_names_the_store_that_was_named() {
        let place = Place {
            folders: " --data x".into(),
            server: None,
        };
        for (text, expected) in [
            (
                "say `runwright resume`, or not",
                "say `runwright resume --data x`, or not",
            ),
            (
                "`runwright runs show R` and `runwright verify`",
                "`runwright runs show R --data x` and `runwright verify --data x`",
            ),
            (
                "`runwright worker --queue q -- ls -l`",
                "`runwright worker --queue q --data x -- ls -l`",
            ),
            (
                "`runwright serve --data DIR`",
                "`runwright serve --data DIR`",
            ),
            ("`runwright run --help`", "`runwright run --help`"),
            ("`cargo run`", "`cargo run`"),
            ("`runwright resume", "`runwright resume --data x"),
        ] {
            assert_eq!(place.within(text), expected);
        }
    }

    #[test]
    fn a_command_asks_the_server_that_was_named_where_it_can() {
        let place = Place {
            folders: " --data x".into(),
            server: Some(" --server http://h".into()),
        };
        let said = "`runwright runs list`, `runwright keys create`";
        let expected = "`runwright runs list --server http://h`, `runwright keys create`";
        assert_eq!(place.within(said), expected);
        assert_eq!(Place::default().within(said), said);
    }

    #[test]
    fn a_folder_is_one_word() {
        assert_eq!(word("a/b-1.x"), "a/b-1.x");
        assert_eq!(word("it's here"), r"'it'\''s here'");
        assert_eq!(word(""), "''");
    }
}
