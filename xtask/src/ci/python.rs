//! A Python with the official OpenWOP client, for the test that lets it drive a server.

use std::path::PathBuf;

use super::{Need, Session, Skip};
use crate::project::{Project, find_program, succeed};

/// The client of the protocol's first major version.
const CLIENT: &str = "openwop-client==1.8.0";
/// The variable by which the test finds the interpreter.
pub(super) const VARIABLE: &str = "RUNWRIGHT_PYTHON";
/// The test that needs it.
const TEST: &str = "the_official_python_client_drives_it";

/// The interpreter, where it was made ready.
pub(super) fn interpreter(project: &Project) -> Option<PathBuf> {
    let folder = folder(project).ok()?;
    let python = folder.join("bin/python");
    // What was made ready with a Python that is gone since is not.
    let is_ready = folder.join("ready").is_file() && python.is_file();
    is_ready.then_some(python)
}

fn folder(project: &Project) -> Result<PathBuf, String> {
    Ok(project.scratch()?.join(CLIENT.replace("==", "-")))
}

/// Makes it ready. Without Python or without the package index the test names a skip, unless
/// nothing may be skipped.
pub(super) fn prepare(session: &mut Session<'_>) -> Result<(), String> {
    if interpreter(session.project).is_some() {
        return Ok(());
    }
    session
        .skips
        .extend(skipped(make(session.project), session.need)?);
    Ok(())
}

/// What it means that it was made ready, or why not.
fn skipped(made: Result<(), String>, need: Need) -> Result<Option<Skip>, String> {
    match (made, need) {
        (Ok(()), _) => Ok(None),
        (Err(reason), Need::Present) => Ok(Some(Skip {
            name: TEST.to_owned(),
            reason,
        })),
        (Err(reason), Need::All) => Err(reason),
    }
}

fn make(project: &Project) -> Result<(), String> {
    let python = find_program("python3").ok_or("there is no python3; install python3-venv")?;
    let folder = folder(project)?;
    let mut venv = project.program(python);
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    succeed(&mut venv).map_err(|error| format!("no virtual environment: {error}"))?;
    let mut pip = project.program(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", CLIENT]);
    succeed(&mut pip).map_err(|error| format!("{CLIENT} cannot be installed: {error}"))?;
    std::fs::write(folder.join("ready"), "").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_the_test_is_a_named_skip_or_a_failure() {
        let missing = || Err("there is no python3".to_owned());
        let skip = skipped(missing(), Need::Present).unwrap().unwrap();
        assert_eq!(
            (skip.name.as_str(), skip.reason.as_str()),
            (TEST, "there is no python3")
        );
        assert_eq!(skipped(missing(), Need::All), missing().map(|()| None));
        assert_eq!(skipped(Ok(()), Need::All), Ok(None));
    }
}
