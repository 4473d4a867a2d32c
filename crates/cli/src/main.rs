//! `runwright`, the only binary.
//!
//! A tour: the command line ([`commands`]) is evaluated ([`session`] and each command's own types),
//! a command is carried out, and [`exit`] reports the outcome. Data goes to stdout ([`data`]),
//! messages to stderr ([`talk`]). This is the composition root, the only crate that names a
//! concrete store; all important decisions are in the crates below it.

mod args;
mod ask;
mod budget;
mod commands;
mod compose;
mod data;
mod database;
mod document;
mod driving;
mod env;
mod exit;
mod faces_json;
mod folders;
mod follow;
mod inputs;
mod live;
mod lookup;
mod next;
mod place;
mod prompt;
mod questions;
mod remote;
mod scratch;
mod session;
mod span;
mod style;
mod summary;
mod talk;
mod target;
mod text;
mod trail;
mod trouble;
mod web;

use std::io::ErrorKind;
use std::process::ExitCode;

use capture::watchdog::{WATCHDOG_COMMAND, watchdog_main};
use clap::Parser;
use clap::error::ErrorKind as Told;
use kernel::limits::READER_STACK_BYTES;
use runtime::supervisor::{EXEC_COMMAND, exec_main};
use tokio::runtime::Runtime;

use commands::coordinator::{KEEPER_COMMAND, keeper_main};
use commands::{Cli, Command, coordinator};
use exit::{Exit, Failure};
use session::Session;

/// Many events per millisecond are allocated on one thread and freed on another, which is slow with
/// the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First: a supervisor waits for every child of its process, so it must run alone in it.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == EXEC_COMMAND) {
        return exec_main(args);
    }
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == WATCHDOG_COMMAND) {
        return watchdog_main(args);
    }
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == KEEPER_COMMAND) {
        return keeper_main(args);
    }
    // These commands start one process each, so only the needed parts are set up.
    if let Some(args) = coordinator::taken(std::env::args_os()) {
        return coordinator::main(&args);
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(told) => {
            // A closed pipe is ignored for help.
            let _ = told.print();
            match told.kind() {
                Told::DisplayHelp | Told::DisplayVersion => Exit::Done,
                _ => Exit::Refused,
            }
        }
    };
    exit.into()
}

fn run(cli: Cli) -> Exit {
    match try_run(cli) {
        Ok(exit) => exit,
        // The reader closed its end.
        Err(Failure::Unread) => Exit::Done,
        Err(failure) => {
            talk::say_failure(&failure);
            Exit::Refused
        }
    }
}

fn start_threads() -> Result<Runtime, Failure> {
    let build = || {
        tokio::runtime::Builder::new_multi_thread()
            .thread_stack_size(READER_STACK_BYTES)
            .enable_all()
            .build()
    };
    // Tokio panics if the system refuses its first thread.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let built = std::panic::catch_unwind(build);
    std::panic::set_hook(hook);
    match built {
        Ok(built) => built.map_err(|error| exit::no_thread(&error)),
        Err(_) => Err(exit::no_thread(&ErrorKind::WouldBlock.into())),
    }
}

fn try_run(cli: Cli) -> Result<Exit, Failure> {
    // A server uses no other server; the variable is for the commands that do.
    let typed = match cli.command {
        Command::Serve(_) if !args::is_typed("--server") => cli.typed.without_server(),
        _ => cli.typed,
    };
    let session = Session::new(&typed)?;
    start_threads()?.block_on(commands::dispatch(cli.command, &session))
}
