//! `runwright runtime`: the published command line of the runtime contract, over our store.
//!
//! Its clients start one process per command, read its output, and read the files it writes. So its
//! words, texts, exit codes and files are the published ones, and its arguments are parsed as by
//! the published program. Under the name `omx-runtime` the program has this command only.

mod exec;
mod folder;
mod identity;
mod import;
mod init;
mod keeper;
mod lease_mutex;
mod options;
mod rename;
mod schema;
mod serve;
mod snapshot;
mod status;
mod views;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use options::Options;

pub(crate) use keeper::{KEEPER_COMMAND, keeper_main};

/// The program name under which it acts as the published program.
const PUBLISHED_NAME: &str = "omx-runtime";

/// The variable in which clients look for the published program first.
const PUBLISHED_VARIABLE: &str = "OMX_RUNTIME_BINARY";

const USAGE: &str = "\
The authority lease, dispatch backlog, mailboxes and replay cursor of one runtime

Usage: omx-runtime COMMAND [ARGUMENT…]   (or: runwright runtime COMMAND [ARGUMENT…])

Commands:
  exec JSON|-|@FILE       Send the runtime one command and print the resulting event
  snapshot [--json]       Print the runtime's state
  status [--json]         Print the runtime's status for people
  serve                   Keep the state directory open and do what exec asks for, until stopped
  init DIR                Make an empty state directory
  schema [--json]         List commands and events
  mux-contract            Print what the tmux adapter offers
  lease-mutex DIR DEV INO LEAF
                          Hold a lock for as long as stdin is open
  fs-rename-no-replace FROM TO
                          Rename unless the target exists
  process-identity PID    Print what tells a process from a later one of its number

Options:
  --state-dir=DIR         The state directory; without one, an empty runtime is asked
  --compact               After an exec, take settled requests out of what is shown
  --views=all|none        After an exec, bring the JSON files up to date, or leave them [all]
  --contract=published|native
                          With the first exec or init: which rules the runtime keeps [published]
  --data=DIR --queue=NAME [--tenant=NAME]
                          With status: a queue in the store of a server, in place of --state-dir
  --watch                 With status: print it again whenever something has changed
  --notify=tmux           With serve: type pending requests into the panes they are for
  --enforce-leases        Let leases of the published contract expire

Exits with 0, or 1 if it could not.

Examples:
  omx-runtime init state
  omx-runtime exec '{\"command\":\"QueueDispatch\",\"request_id\":\"r1\",\"target\":\"worker-1\"}' \\
    --state-dir=state
  omx-runtime snapshot --json --state-dir=state
  omx-runtime serve --state-dir=state
  omx-runtime status --watch --state-dir=state
  omx-runtime status --data=./instance --tenant=acme --queue=render
";

/// The arguments, in the words of the published program, which do not follow the rules of other
/// commands.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// A command of the runtime and its arguments; none for a list
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub(crate) args: Vec<OsString>,
}

/// The error, in the published words.
pub(crate) struct Refused(String);

impl<T: Into<String>> From<T> for Refused {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// The arguments of this command, if the whole program is used for it: called by the published
/// name, by a client that was configured to use this program as the published one, or with
/// `runtime` as the first word.
pub(crate) fn taken(mut args: std::env::ArgsOs) -> Option<Vec<OsString>> {
    let program = args.next()?;
    let stem = Path::new(&program).file_stem().unwrap_or_default();
    if stem == PUBLISHED_NAME || is_taken_for_it() {
        return Some(args.collect());
    }
    (args.next()? == "runtime").then(|| args.collect())
}

/// Whether the clients' variable for the published program names this one.
fn is_taken_for_it() -> bool {
    let Some(named) = std::env::var_os(PUBLISHED_VARIABLE) else {
        return false;
    };
    let of = |path: &Path| path.canonicalize().ok();
    let here = std::env::current_exe().ok().and_then(|path| of(&path));
    here.is_some() && of(Path::new(&named)) == here
}

/// Carries out the command. Exits with 0 or 1 only.
pub(crate) fn main(args: &[OsString]) -> ExitCode {
    match dispatch(args) {
        Ok(text) => {
            // A closed pipe means that the reader is done.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Refused(text)) => {
            let _ = writeln!(std::io::stderr(), "{PUBLISHED_NAME}: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The output of a command.
fn dispatch(args: &[OsString]) -> Result<String, Refused> {
    // These take paths in the system's encoding.
    match args.first().and_then(|command| command.to_str()) {
        Some("lease-mutex") => return lease_mutex::run(&args[1..]),
        Some("fs-rename-no-replace") => return rename::text(&args[1..]),
        _ => {}
    }
    let words = words(args)?;
    let Some(command) = words.first() else {
        return Ok(USAGE.to_owned());
    };
    let rest = &words[1..];
    match command.as_str() {
        "-h" | "--help" => Ok(USAGE.to_owned()),
        "exec" | "init" | "status" | "serve" if asks_for_help(rest) => Ok(USAGE.to_owned()),
        "schema" => Ok(schema::text(rest)),
        "snapshot" => snapshot::text(rest, &Options::read(rest)?),
        "status" => status::text(rest, &Options::only(rest, &status::WORDS)?),
        "exec" => exec::text(rest, &Options::read(rest)?),
        "serve" => serve::run(&Options::only(rest, &serve::WORDS)?),
        "init" => init::text(rest, &Options::read(rest)?),
        "mux-contract" => Ok(schema::MUX_CONTRACT.to_owned()),
        "process-identity" => identity::text(rest),
        other => Err(format!("unknown subcommand `{other}`").into()),
    }
}

/// The arguments as text. An argument that is not UTF-8 cannot be read unchanged.
fn words(args: &[OsString]) -> Result<Vec<String>, Refused> {
    let word = |(at, arg): (usize, &OsString)| {
        let word = arg.to_str().map(str::to_owned);
        word.ok_or_else(|| {
            Refused(format!(
                "argument {} is not UTF-8; name a path that is, and give other texts by exec - or \
                 exec @FILE",
                at + 1
            ))
        })
    };
    args.iter().enumerate().map(word).collect()
}

/// For our own commands, and for those that the published program rejects in the same way.
fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "-h" || word == "--help")
}

/// Pretty JSON with a final line break, as in every command's output.
fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("what is printed is always JSON");
    text.push('\n');
    text
}
