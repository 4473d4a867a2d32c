//! Workflow definitions in folders, registered for every tenant.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kernel::audit::Actor;
use kernel::problem::{Problem, ProblemCode};
use runtime::api::Registered;
use runtime::definitions::shared_tenant;
use runtime::door::Door;

use crate::document::Source;
use crate::exit::Failure;

/// Registers every `*.json` of some folders, in the order of their names. A file that cannot be
/// registered is reported and does not stop the others; an unreadable folder does. Returns the ids
/// of those that can run here.
pub(crate) async fn register(door: &Door, folders: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let (mut count, mut runnable) = (0, Vec::new());
    for folder in folders {
        for file in files(folder)? {
            match register_file(door, &file).await {
                Ok(usable) => {
                    count += 1;
                    runnable.extend(usable);
                }
                Err(failure) => {
                    tracing::warn!(file = %file.display(), problem = %failure, "not registered");
                }
            }
        }
    }
    if !folders.is_empty() {
        tracing::info!(workflows = count, "registered");
    }
    Ok(runnable)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::new(format!("--workflows {}: no such folder", folder.display()))
                .hint("give a folder with workflow definitions as *.json files, or create it")
        }
        ErrorKind::NotADirectory => Failure::new(format!(
            "--workflows {} is a file, not a folder",
            folder.display()
        ))
        .hint("give its folder"),
        _ => Failure::file(folder, &error),
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
            && path.is_file()
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Registers a file. Returns the workflow's id, unless a warning means that it will not work as
/// written.
async fn register_file(door: &Door, file: &Path) -> Result<Option<String>, Failure> {
    let source = Source::File(file.to_owned());
    let document = source.read()?;
    let Registered {
        definition,
        warnings,
    } = door
        .register(&shared_tenant(), &document, &Actor::operator())
        .await
        .map_err(|error| Failure::plan(&source.name(), error))?;
    let id = definition.workflow.to_string();
    // A plain secret runs like any other text.
    let is_odd = |warning: &Problem| warning.code != ProblemCode::LiteralSecret;
    let usable = (!warnings.iter().any(is_odd)).then_some(id);
    for warning in warnings {
        let workflow = &definition.workflow;
        tracing::warn!(%workflow, file = %file.display(), %warning, "registered with a warning");
    }
    Ok(usable)
}
