//! `runwright runs artifact`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use kernel::digest::Hasher;
use kernel::ids::{StreamId, TenantId};
use kernel::problem::quoted;
use kernel::run::Artifact;
use runtime::api::HIDDEN;
use runtime::door::Door;
use runtime::private;
use store::StoreError;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "`runwright runs show` lists the artifacts of a run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// The artifact: its id, or the beginning or the end of it
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: String,

    /// Write it to this file, which must not exist yet, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Prints or saves an artifact.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let run = lookup::find(&door, &args.run).await?;
    let state = door.load(&run).await?;
    let tenant = state.header.tenant();
    let artifacts = state
        .facts()
        .map(|facts| facts.artifacts.as_slice())
        .unwrap_or_default();
    let named = artifacts.iter().map(|of| (of.1.artifact_id.as_str(), of));
    let (node, artifact) = chosen(run.as_str(), &args.artifact, named)?;
    if state.plan.hides_talk(node) {
        let hint = "run the workflow without the node's `outputSensitivity` and without a \
                    `complianceClass` to show it";
        return Err(Failure::new(HIDDEN).hint(hint));
    }
    match &args.output {
        None => print(&door, tenant, artifact).await?,
        Some(path) => save(&door, tenant, artifact, path).await?,
    }
    Ok(Exit::Done)
}

/// The artifact of a run, by its id, that the typed text matches.
pub(crate) fn chosen<'a, T>(
    run: &str,
    typed: &str,
    artifacts: impl Iterator<Item = (&'a str, T)>,
) -> Result<T, Failure> {
    let mut found = artifacts.filter(|(id, _)| id.starts_with(typed) || id.ends_with(typed));
    match (found.next(), found.next()) {
        (Some((_, artifact)), None) => Ok(artifact),
        (Some(_), Some(_)) => {
            let what = format!("{} fits several artifacts", quoted(typed));
            Err(Failure::new(what).hint("give more characters of its id"))
        }
        (None, _) => {
            let run = StreamId::new(run);
            let run = short(&run);
            let what = format!("run {run} has no artifact {}", quoted(typed));
            Err(Failure::new(what).hint(format!("`runwright runs show {run}` lists them")))
        }
    }
}

async fn print(door: &Door, tenant: &TenantId, artifact: &Artifact) -> Result<(), Failure> {
    let mut data = Data::new();
    for part in &artifact.parts {
        data.bytes(&door.store().blob(tenant, part).await?)?;
    }
    data.done()
}

async fn save(
    door: &Door,
    tenant: &TenantId,
    artifact: &Artifact,
    path: &Path,
) -> Result<(), Failure> {
    let mut file = created(path)?;
    let done = fill(&mut file, door, tenant, artifact, path).await;
    if done.is_err() {
        // A partial file is useless, and would block the next attempt.
        let _ = std::fs::remove_file(path);
    }
    done
}

async fn fill(
    file: &mut File,
    door: &Door,
    tenant: &TenantId,
    artifact: &Artifact,
    path: &Path,
) -> Result<(), Failure> {
    let mut digest = Hasher::default();
    for part in &artifact.parts {
        let bytes = door.store().blob(tenant, part).await?;
        digest.update(&bytes);
        file.write_all(&bytes)
            .map_err(|error| Failure::file(path, &error))?;
    }
    let about = (artifact.artifact_id.as_str(), artifact.size);
    saved(file, path, about, digest.finish() == artifact.digest)
}

/// A new file for an artifact.
pub(crate) fn created(path: &Path) -> Result<File, Failure> {
    let file = private::file().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(format!("{} exists already", path.display()))
                .hint("choose another name, or remove it first")
        }
        _ => Failure::file(path, &error),
    })
}

/// Reports that an artifact of this id and size was saved to a file, if it `is_whole`.
pub(crate) fn saved(
    file: &File,
    path: &Path,
    (id, size): (&str, u64),
    is_whole: bool,
) -> Result<(), Failure> {
    file.sync_all()
        .map_err(|error| Failure::file(path, &error))?;
    if !is_whole {
        let what = format!("artifact {id} differs from the one of the run");
        return Err(StoreError::Corrupt(what).into());
    }
    talk::say(format!("{}: {}", path.display(), text::bytes(size)));
    Ok(())
}
