//! `runwright runs artifact`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use kernel::digest::Hasher;
use kernel::ids::StreamId;
use kernel::problem::quoted;
use runtime::private;
use store::StoreError;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::target::{self, ArtifactRow, Intent, Purpose, Target};
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs artifact last 4be1d0c7
  runwright runs artifact 1f0c9a2b 4be1d0c7 --output report.txt

`runwright runs show` lists the artifacts of a run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// The artifact: its id, or the beginning or the end of it
    #[arg(value_name = "ARTIFACT")]
    artifact: String,

    /// Write it to this file, which must not exist yet, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints or saves an artifact.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let artifact = chosen(&run, &args.artifact, target.artifacts(&run).await?)?;
    match &args.output {
        None => {
            let mut data = Data::new();
            let mut print = |part: &[u8]| data.bytes(part);
            target.artifact(&run, &artifact.id, &mut print).await?;
            data.done()?;
        }
        Some(path) => save(&*target, &run, &artifact, path).await?,
    }
    Ok(Exit::Done)
}

/// The artifact of a run that the typed text matches.
fn chosen(run: &StreamId, typed: &str, all: Vec<ArtifactRow>) -> Result<ArtifactRow, Failure> {
    let fits = |one: &ArtifactRow| one.id.starts_with(typed) || one.id.ends_with(typed);
    let mut found = all.into_iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(artifact), None) => Ok(artifact),
        (Some(_), Some(_)) => {
            let what = format!("{} fits several artifacts", quoted(typed));
            Err(Failure::new(what).hint("give more characters of its id"))
        }
        (None, _) => {
            let run = short(run);
            let what = format!("run {run} has no artifact {}", quoted(typed));
            Err(Failure::new(what).hint(format!("`runwright runs show {run}` lists them")))
        }
    }
}

async fn save(
    target: &dyn Target,
    run: &StreamId,
    artifact: &ArtifactRow,
    path: &Path,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::file(path, &error);
    let mut file = None;
    let mut digest = Hasher::default();
    let mut write = |part: &[u8]| {
        let file = match &mut file {
            Some(file) => file,
            // Created once access is granted.
            empty => empty.insert(new_file(path)?),
        };
        digest.update(part);
        file.write_all(part).map_err(failed)
    };
    let read = target.artifact(run, &artifact.id, &mut write).await;
    let Some(file) = file else {
        return read;
    };
    let done = match read {
        Ok(()) if digest.finish().to_string() != artifact.digest => {
            let what = format!("artifact {} differs from the one of the run", artifact.id);
            Err(StoreError::Corrupt(what).into())
        }
        read => read.and_then(|()| file.sync_all().map_err(failed)),
    };
    if done.is_err() {
        // A partial file is useless, and would block the next attempt.
        let _ = std::fs::remove_file(path);
        return done;
    }
    let size = text::bytes(artifact.size);
    talk::say(format!("{}: {size}", path.display()));
    Ok(())
}

/// Creates a file, which must not exist yet.
pub(super) fn new_file(path: &Path) -> Result<File, Failure> {
    let file = private::file().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(format!("{} exists already", path.display()))
                .hint("choose another name, or remove it first")
        }
        _ => Failure::file(path, &error),
    })
}
