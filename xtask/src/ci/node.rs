//! A Node.js folder with the LLM Workbench packages, for the test that lets them drive a server.

use std::path::PathBuf;

use super::{Need, Session, Skip};
use crate::project::{Project, find_program, succeed};

/// The client, its MCP tools, and what those run on.
const PACKAGES: [&str; 3] = [
    "@llm-workbench/runtime@0.3.3",
    "@llm-workbench/mcp@0.3.4",
    "@modelcontextprotocol/sdk@1",
];
/// The variable by which the test finds the folder.
pub(super) const VARIABLE: &str = "RUNWRIGHT_NODE_MODULES";
/// The test that needs it.
const TEST: &str = "the_real_workbench_client_drives_it";

/// The folder, where it was made ready.
pub(super) fn folder(project: &Project) -> Option<PathBuf> {
    let folder = place(project).ok()?;
    folder.join("ready").is_file().then_some(folder)
}

fn place(project: &Project) -> Result<PathBuf, String> {
    Ok(project.scratch()?.join("llm-workbench-0.3.3"))
}

/// Makes it ready. Without Node.js or without the package index the test names a skip, unless
/// nothing may be skipped.
pub(super) fn prepare(session: &mut Session<'_>) -> Result<(), String> {
    if folder(session.project).is_some() {
        return Ok(());
    }
    match (make(session.project), session.need) {
        (Ok(()), _) => Ok(()),
        (Err(reason), Need::Present) => {
            session.skips.push(Skip {
                name: TEST.to_owned(),
                reason,
            });
            Ok(())
        }
        (Err(reason), Need::All) => Err(reason),
    }
}

fn make(project: &Project) -> Result<(), String> {
    find_program("node").ok_or("there is no node; install Node.js 20 or later")?;
    let npm = find_program("npm").ok_or("there is no npm; install it beside Node.js")?;
    let folder = place(project)?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let package = "{\"private\":true,\"type\":\"module\"}\n";
    std::fs::write(folder.join("package.json"), package).map_err(|error| error.to_string())?;
    let mut install = project.program(npm);
    install
        .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .arg(&folder)
        .args(PACKAGES);
    succeed(&mut install)
        .map_err(|error| format!("{} cannot be installed: {error}", PACKAGES.join(" ")))?;
    std::fs::write(folder.join("ready"), "").map_err(|error| error.to_string())
}
