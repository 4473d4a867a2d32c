//! `exec`: one command, durable before its event is printed.

use std::io::Read;
use std::path::Path;

use faces::coordinator::{CommandJson, EventJson};
use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, CoordinatorEvent, LeaseRule, Recall,
};
use kernel::time::Timestamp;
use runtime::door::{CommandResult, CoordinatorError};
use runtime::named_file::NamedFile;

use super::folder::{Folder, NAME, TENANT};
use super::options::{Options, ViewChoice};
use super::{Refused, pretty, serve, views};

/// Maximum bytes of a command from a file or from stdin.
const MAX_BYTES: u64 = 16 << 20;

/// The printed event of the command.
pub(super) fn text(words: &[String], options: &Options) -> Result<String, Refused> {
    let Some(argument) = words.first().filter(|word| !word.starts_with("--")) else {
        return Err("exec requires a JSON command argument".into());
    };
    let json = read(argument)?;
    match &options.state_dir {
        None => alone(&parse(&json)?, options),
        Some(dir) => {
            if let Some(answer) = serve::ask(dir, &json, options) {
                return answer;
            }
            let folder = Folder::open(dir, options)?;
            // Parsed only now: the state directory is created even for an invalid command.
            let command = parse(&json)?;
            durable(&folder, &command, options)
        }
    }
}

/// Reads the command: given directly, in a file or on stdin, since an argument cannot be long.
fn read(argument: &str) -> Result<String, Refused> {
    let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
    let mut bytes = Vec::new();
    // One byte over the limit shows that it is exceeded.
    match argument.strip_prefix('@') {
        Some(path) => {
            let file = NamedFile::open(Path::new(path)).map_err(fail)?;
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes)
        }
        None if argument == "-" => {
            let stdin = std::io::stdin();
            stdin.take(MAX_BYTES + 1).read_to_end(&mut bytes)
        }
        None => return Ok(argument.to_owned()),
    }
    .map_err(fail)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "command error: the command is longer than {MAX_BYTES} bytes; store the text elsewhere \
             and refer to it"
        )
        .into());
    }
    String::from_utf8(bytes).map_err(|_| "invalid JSON: the command is not UTF-8".into())
}

pub(super) fn parse(json: &str) -> Result<CoordinatorCommand, Refused> {
    let command = CommandJson::parse(json).map_err(|error| format!("invalid JSON: {error}"))?;
    Ok(command.into())
}

/// Runs a command on an empty runtime in memory.
fn alone(command: &CoordinatorCommand, options: &Options) -> Result<String, Refused> {
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let empty = Coordinator::unborn(&TENANT.into(), NAME, options.first_contract(), now);
    empty
        .decide(command, &Recall::default(), options.rule, now)
        .map(|decision| shown(&decision.event, &decision.after))
        .map_err(|rejection| faces::coordinator::text(&rejection).into())
}

fn durable(
    folder: &Folder,
    command: &CoordinatorCommand,
    options: &Options,
) -> Result<String, Refused> {
    let compact = if options.compact {
        Compact::After
    } else {
        Compact::Not
    };
    let told = tell(
        folder,
        options.first_contract(),
        command,
        options.rule,
        compact,
    );
    if options.views == ViewChoice::All {
        match &told {
            Ok(told) => views::refresh(folder, &told.after, options.rule)?,
            Err(_) => views::catch_up(folder, options.rule)?,
        }
    }
    told.map(|told| shown(&told.event, &told.after))
}

/// The printed form of the event.
pub(super) fn shown(event: &CoordinatorEvent, after: &Coordinator) -> String {
    pretty(&EventJson::answer(event, after.contract()))
}

/// Whether settled requests are removed from the displayed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compact {
    /// They are kept.
    Not,
    /// Once the command is done.
    After,
}

/// Sends the runtime a command.
pub(super) fn tell(
    folder: &Folder,
    contract: Contract,
    command: &CoordinatorCommand,
    rule: LeaseRule,
    compact: Compact,
) -> Result<CommandResult, Refused> {
    let mut told = folder.tell(contract, command, rule).map_err(refused)?;
    if compact == Compact::After {
        let compacted = folder
            .tell(contract, &CoordinatorCommand::CompactDispatches, rule)
            .map_err(refused)?;
        told.after = compacted.after;
    }
    Ok(told)
}

pub(super) fn refused(error: CoordinatorError) -> Refused {
    match error {
        CoordinatorError::Rejected(rejection) => faces::coordinator::text(&rejection).into(),
        CoordinatorError::Store(error) => format!("persist failed: {error}").into(),
    }
}
