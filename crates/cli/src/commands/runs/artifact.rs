//! `runwright runs artifact`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use kernel::digest::Hasher;
use kernel::ids::TenantId;
use kernel::problem::quoted;
use kernel::run::Artifact;
use runtime::api::HIDDEN;
use runtime::door::Door;
use store::StoreError;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::{talk, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(after_help = "`runwright runs show` lists the artifacts of a run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// The artifact: its id, or the beginning or the end of it
    #[arg(value_name = "ARTIFACT")]
    artifact: String,

    /// Save it as this file, which must not exist yet, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
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
    let fits = |id: &str| id.starts_with(&args.artifact) || id.ends_with(&args.artifact);
    let mut found = artifacts
        .iter()
        .filter(|(_, artifact)| fits(&artifact.artifact_id));
    let artifact = match (found.next(), found.next()) {
        (Some((node, _)), None) if state.plan.hides_talk(node) => {
            let hint = "a run of the workflow without the node's `outputSensitivity`, and without \
                        a `complianceClass`, shows it";
            return Err(Failure::new(HIDDEN).hint(hint));
        }
        (Some((_, artifact)), None) => artifact,
        (Some(_), Some(_)) => {
            let what = format!("{} fits several artifacts", quoted(&args.artifact));
            return Err(Failure::new(what).hint("give more characters of its id"));
        }
        (None, _) => {
            let what = format!(
                "run {} has no artifact {}",
                short(&run),
                quoted(&args.artifact)
            );
            return Err(Failure::new(what)
                .hint(format!("`runwright runs show {}` lists them", short(&run))));
        }
    };
    match &args.output {
        None => print(&door, tenant, artifact).await?,
        Some(path) => save(&door, tenant, artifact, path).await?,
    }
    Ok(Exit::Done)
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
    let fail = |error| match error {
        error if is_taken(&error) => Failure::new(format!("{} exists already", path.display()))
            .hint("choose another name, or remove it first"),
        error => Failure::file(path, &error),
    };
    let mut file = File::create_new(path).map_err(fail)?;
    let mut digest = Hasher::default();
    for part in &artifact.parts {
        let bytes = door.store().blob(tenant, part).await?;
        digest.update(&bytes);
        file.write_all(&bytes).map_err(fail)?;
    }
    file.sync_all().map_err(fail)?;
    if digest.finish() != artifact.digest {
        let what = format!("artifact {} is not what the run left", artifact.artifact_id);
        return Err(StoreError::Corrupt(what).into());
    }
    talk::say(format!(
        "{}: {}",
        path.display(),
        text::bytes(artifact.size)
    ));
    Ok(())
}

fn is_taken(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AlreadyExists
}
