//! The project's own commands. `cargo xtask ci` is the one to run before a change is done.
//!
//! Each command is a module: [`ci`], [`tidy`], [`direction`], [`soak`], [`picture`],
//! [`mod@reference`], [`package`], [`mod@bench`]. Data and findings go to stdout, a wrong call to
//! stderr. Exit codes: 0 done, 1 something was found or failed, 2 the call was wrong.
//!
//! This crate is built before anything else can be checked, so it has few dependencies.

#![expect(
    clippy::print_stdout,
    reason = "a command-line program talks on stdout"
)]
#![expect(
    clippy::print_stderr,
    reason = "a command-line program complains on stderr"
)]

mod bench;
mod ci;
mod circles;
mod direction;
mod package;
mod picture;
mod project;
mod reference;
mod soak;
mod tidy;

use std::process::ExitCode;

use crate::project::Project;

/// Why a command failed.
enum Failure {
    /// The call was wrong; the text explains the usage.
    Usage(String),
    /// Something was found or failed. It has been printed already; the text is a summary.
    Found(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Found(text)
    }
}

/// A subcommand of `cargo xtask`.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&Project, &[String]) -> Result<(), Failure>,
}

/// Every command; the usage text and the README check read this table.
const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        arguments: "[--require all] [--only STEP]...",
        about: "everything a change must pass",
        run: ci::run,
    },
    Command {
        name: "tidy",
        arguments: "[--bless]",
        about: "the house rules; --bless updates the quoted event hash and lowers the counts of prose",
        run: tidy::run,
    },
    Command {
        name: "direction",
        arguments: "",
        about: "which crate may depend on which",
        run: direction::run,
    },
    Command {
        name: "soak",
        arguments: "[NAME] [--cases N] [--seed N] [--dev]",
        about: "the long runs: every test named soak_NAME with its full count",
        run: soak::run,
    },
    Command {
        name: "picture",
        arguments: "",
        about: "runs the demo and draws what it printed, for the README",
        run: picture::run,
    },
    Command {
        name: "reference",
        arguments: "",
        about: "writes the generated pages of docs/reference/",
        run: reference::run,
    },
    Command {
        name: "package",
        arguments: "[--check]",
        about: "a tarball and packages for pip, npm and Debian (see `cargo xtask package --help`)",
        run: package::run,
    },
    Command {
        name: "bench",
        arguments: "[NAME]... [--repeat N] [--json]",
        about: "measurements, of a `--profile dist` build (see `cargo xtask bench --help`)",
        run: bench::run,
    },
];

fn usage() -> String {
    let mut text = String::from("cargo xtask COMMAND\n");
    for command in COMMANDS {
        let call = format!("{} {}", command.name, command.arguments);
        text.push_str(&format!("\n  {call:<40} {}", command.about));
    }
    text
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage(usage()));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{}", usage());
        return Ok(());
    }
    let command = COMMANDS
        .iter()
        .find(|command| command.name == name)
        .ok_or_else(|| Failure::Usage(format!("no such command\n\n{}", usage())))?;
    (command.run)(&Project::locate()?, rest)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Found(text)) => {
            if !text.is_empty() {
                eprintln!("xtask: {text}");
            }
            ExitCode::FAILURE
        }
        Err(Failure::Usage(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_command() {
        for command in COMMANDS {
            assert!(
                usage().contains(&format!("\n  {}", command.name)),
                "{}",
                command.name
            );
        }
    }

    #[test]
    fn an_unknown_command_is_a_usage_error() {
        let call = ["frobnicate".to_owned()];
        assert!(matches!(dispatch(&call), Err(Failure::Usage(_))));
    }
}
