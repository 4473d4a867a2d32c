//! `runwright snapshot`: evidence of executions: capture, comparison, storage.

mod again;
mod capture;
mod command;
mod compare;
mod consent;
mod diff;
mod export;
mod fork;
mod from_run;
mod how;
mod import;
mod junit;
mod key;
mod kind;
mod list;
mod mcp;
mod of_run;
mod pin;
mod prune;
mod remove;
mod replay;
mod show;
mod tool;
mod unredacted;
mod validate;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use faces::provenance::seal::State;
use provenance::{Broken, Folder, FolderError, Kept, Strictness, Unresolved};
use serde_json::json;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::talk;

/// The prefix of queues of replayed runs. No server serves them.
pub(crate) const REPLAY_QUEUE: &str = "replay-";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Capture a run, or a command; prints the path of the snapshot last
    Capture(Box<capture::Args>),
    /// List snapshots, latest first
    List(list::Args),
    /// Show a snapshot
    Show(show::Args),
    /// Check a snapshot: its shape, its hashes, its contents
    Verify(verify::Args),
    /// Compare two snapshots and show where they first differ
    Compare(Box<compare::Args>),
    /// Show step by step where two executions differ
    Diff(diff::Args),
    /// Replay a snapshot from its recording or for real, and compare the results
    Replay(Box<replay::Args>),
    /// Continue from a step for real, as another snapshot
    Fork(fork::Args),
    /// Rerun a snapshot several times for real and report how often the results match
    Validate(Box<validate::Args>),
    /// Run a tool of a captured command and record the call
    Tool(tool::Args),
    /// Proxy a tool server of a captured command and record its calls
    Mcp(mcp::Args),
    /// Pin a snapshot, so that it is not pruned, or unpin it
    Pin(pin::Args),
    /// Remove snapshots, and their contents without other references
    Rm(remove::Args),
    /// Print the public key that your captures are signed with
    Key(key::Args),
    /// Show expired snapshots, or remove them
    Prune(prune::Args),
    /// Print a snapshot as PROV-JSON, as OpenLineage, or as a bundle with all its files
    Export(export::Args),
    /// Import a snapshot
    Import(import::Args),
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match carry_out(command, session).await {
        Err(Failure::Damaged { what }) => {
            if session.form == Form::Json {
                let mut data = Data::new();
                data.json(&json!({
                    "match_status": null, "pass": false, "first_divergence": null,
                    "error": { "code": "damaged", "message": what },
                }))?;
                data.done()?;
            }
            talk::say_failure(&Failure::new(what));
            Ok(Exit::Damaged)
        }
        done => done,
    }
}

async fn carry_out(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Capture(args) => capture::run(*args, session).await,
        Command::List(args) => list::run(&args, session),
        Command::Show(args) => show::run(&args, session),
        Command::Verify(args) => verify::run(&args, session),
        Command::Compare(args) => compare::run(*args, session).await,
        Command::Replay(args) => replay::run(*args, session).await,
        Command::Fork(args) => fork::run(args, session).await,
        Command::Validate(args) => validate::run(*args, session).await,
        Command::Tool(args) => tool::run(args).await,
        Command::Mcp(args) => mcp::run(args).await,
        Command::Pin(args) => pin::run(&args, session),
        Command::Diff(args) => diff::run(&args, session),
        Command::Rm(args) => remove::run(&args, session),
        Command::Key(args) => key::run(&args, session),
        Command::Prune(args) => prune::run(&args, session),
        Command::Export(args) => export::run(&args, session),
        Command::Import(args) => import::run(&args, session),
    }
}

/// The folder of snapshots.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Rooted {
    /// The folder that has `.aiwg/provenance` [default: the project folder]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Rooted {
    /// The base folder of paths in snapshots.
    pub(crate) fn root<'a>(&'a self, session: &'a Session) -> &'a Path {
        self.root.as_deref().unwrap_or(&session.place.project)
    }

    /// The folder of snapshots.
    ///
    /// # Errors
    /// When the folder that contains it is missing, or is not a folder.
    pub(crate) fn folder(&self, session: &Session) -> Result<Folder, Failure> {
        let root = self.root(session);
        let shown = root.display();
        match std::fs::metadata(root) {
            Ok(facts) if facts.is_dir() => Ok(Folder::of_project(root)),
            Ok(_) => Err(Failure::new(format!("{shown} is not a folder"))
                .hint("name the folder that has `.aiwg/provenance` with --root")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Failure::new(format!("the folder {shown} does not exist"))
                    .hint("name the folder that has `.aiwg/provenance` with --root"))
            }
            Err(error) => Err(Failure::file(root, &error)),
        }
    }

    /// The folder of snapshots, which the first write creates.
    pub(crate) fn folder_to_write(&self, session: &Session) -> Folder {
        Folder::of_project(self.root(session))
    }

    /// The folder of a snapshot, and the base of its paths. A snapshot named by its path may be in
    /// another project, with its sidecar files.
    pub(crate) fn of(&self, kept: &Kept, session: &Session) -> (Folder, PathBuf) {
        let folder = Folder::of_project(self.root(session)).holding_or_self(&kept.path);
        let root = match (&self.root, folder.project()) {
            (None, Some(project)) => project.to_owned(),
            _ => self.root(session).to_owned(),
        };
        (folder, root)
    }
}

/// A snapshot by its typed name.
pub(crate) fn find(folder: &Folder, typed: &str) -> Result<Kept, Failure> {
    let path = match folder.resolve(typed) {
        Ok(path) => path,
        Err(Unresolved::Folder(error)) => return Err(failed(error)),
        Err(other) => {
            // An unreadable file has no id and is found by its name.
            let broken = folder.list().map_err(failed)?.broken;
            let is_it = |broken: &&Broken| {
                let file = broken.file.as_str();
                file == typed || file.strip_suffix(".json") == Some(typed)
            };
            if let Some(broken) = broken.iter().find(is_it) {
                let file = crate::text::one_line(&broken.file, 120);
                let what = format!("{file}: {}", broken.why);
                return Err(Failure::Damaged { what });
            }
            let failure = Failure::new(other.to_string());
            return Err(match (other, broken.first()) {
                (Unresolved::Ambiguous { .. }, _) => failure.hint(
                    "write more of the id, or the name; ids created close in time start alike",
                ),
                // An unreadable file may be the one that was meant.
                (_, Some(broken)) => failure.hint(format!(
                    "{} cannot be read: {}",
                    crate::text::one_line(&broken.file, 120),
                    crate::text::one_line(&broken.why, 200)
                )),
                (_, None) => failure.hint(
                    "`runwright snapshot list` shows them; give an id, at least four characters of \
                     its start, a name or a path",
                ),
            });
        }
    };
    folder.read(&path).map_err(failed)
}

/// A snapshot that matches its seal, by its typed name.
pub(crate) fn find_whole(folder: &Folder, typed: &str) -> Result<Kept, Failure> {
    let kept = find(folder, typed)?;
    let lies_in = folder.clone().holding_or_self(&kept.path);
    let verified = lies_in.verify(&kept, Strictness::Lenient);
    let verified = verified.map_err(failed)?;
    let id = crate::text::one_line(&verified.snapshot_id, 64);
    match verified.state {
        State::Valid | State::Unsigned => Ok(kept),
        State::Unverified => {
            let note = crate::style::warn("unverified:");
            let why = kept.document.snapshot.unverified().unwrap_or_default();
            let why = crate::text::one_line(&why, 600);
            talk::say(format!("{note} the snapshot {id}: {why}"));
            Ok(kept)
        }
        State::Unsealed => {
            let note = crate::style::warn("unsealed:");
            talk::say(format!(
                "{note} the snapshot {id} has no seal: changes to it cannot be detected"
            ));
            Ok(kept)
        }
        State::Tampered => {
            let errors = verified.findings.iter().filter(|finding| finding.is_error);
            let errors = errors.take(3).map(|finding| {
                let message = crate::text::one_line(&finding.message, 300);
                format!(
                    "\n  {}: {message}",
                    crate::text::one_line(&finding.path, 120)
                )
            });
            let why: String = errors.collect();
            let what = format!(
                "the snapshot {id} is tampered: it was changed after it was \
                                sealed{why}"
            );
            Err(Failure::Damaged { what })
        }
    }
}

/// Converts an error of the folder.
pub(crate) fn failed(error: FolderError) -> Failure {
    match error {
        FolderError::Io { path, error } => Failure::file(&path, &error),
        error @ (FolderError::NoSnapshot { .. } | FolderError::Damaged { .. }) => {
            Failure::Damaged {
                what: error.to_string(),
            }
        }
        other => Failure::new(other.to_string()),
    }
}
