//! Node.js folders with the packages that tests run against the program: one folder per purpose.

use std::path::PathBuf;

use super::{Need, Session, Skip};
use crate::project::{Project, find_program, succeed};

/// A folder with packages.
struct Kit {
    /// Its name below the scratch folder. Other packages need another name.
    folder: &'static str,
    /// The packages to install.
    packages: &'static [&'static str],
    /// The variable by which tests find the folder.
    variable: &'static str,
    /// A test that needs it.
    test: &'static str,
}

/// The server that the bench of the workbench face is compared with.
const EXPRESS: Kit = Kit {
    folder: "express-5",
    packages: &["express@5"],
    variable: "RUNWRIGHT_NODE_MODULES",
    test: "the bench of the workbench face",
};

/// A test that needs more npm packages adds them here.
const KITS: &[Kit] = &[
    // The client of the LLM Workbench, its MCP tools, and their dependencies.
    Kit {
        folder: "llm-workbench-0.3.3",
        packages: &[
            "@llm-workbench/runtime@0.3.3",
            "@llm-workbench/mcp@0.3.4",
            "@modelcontextprotocol/sdk@1",
        ],
        variable: "RUNWRIGHT_NODE_MODULES",
        test: "the_real_workbench_client_drives_it",
    },
    // The client of the runtime contract.
    Kit {
        folder: "oh-my-codex-0.21.6",
        packages: &["oh-my-codex@0.21.6"],
        variable: "RUNWRIGHT_OMX_MODULES",
        test: "the_published_client_drives_it",
    },
    // The compiler of the worker library for TypeScript.
    Kit {
        folder: "typescript-5.9.3",
        packages: &["typescript@5.9.3", "@types/node@20.19.43"],
        variable: "RUNWRIGHT_TYPESCRIPT_MODULES",
        test: "workers_in_typescript_do_the_work",
    },
];

/// The prepared folders, by variable.
pub(super) fn folders(project: &Project) -> Vec<(&'static str, PathBuf)> {
    let ready = KITS.iter();
    let ready = ready.filter_map(|kit| Some((kit.variable, kit.ready(project)?)));
    ready.collect()
}

/// Prepares the folders. Without Node.js or the package index the test reports a skip, unless skips
/// are not allowed.
pub(super) fn prepare(session: &mut Session<'_>) -> Result<(), String> {
    for kit in KITS {
        if kit.ready(session.project).is_some() {
            continue;
        }
        match (kit.make(session.project), session.need) {
            (Ok(()), _) => {}
            (Err(reason), Need::Present) => session.skips.push(Skip {
                name: kit.test.to_owned(),
                reason,
            }),
            (Err(reason), Need::All) => return Err(reason),
        }
    }
    Ok(())
}

/// The folder with Express and the variable by which the bench finds it; prepared on first use.
pub(crate) fn express(project: &Project) -> Result<(&'static str, PathBuf), String> {
    if EXPRESS.ready(project).is_none() {
        EXPRESS.make(project)?;
    }
    Ok((EXPRESS.variable, EXPRESS.place(project)?))
}

impl Kit {
    fn place(&self, project: &Project) -> Result<PathBuf, String> {
        Ok(project.scratch()?.join(self.folder))
    }

    /// The folder, if it is prepared.
    fn ready(&self, project: &Project) -> Option<PathBuf> {
        let folder = self.place(project).ok()?;
        folder.join("ready").is_file().then_some(folder)
    }

    fn make(&self, project: &Project) -> Result<(), String> {
        find_program("node").ok_or("there is no node; install Node.js 20 or later")?;
        let npm = find_program("npm").ok_or("there is no npm; install it with Node.js")?;
        let folder = self.place(project)?;
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let package = "{\"private\":true,\"type\":\"module\"}\n";
        std::fs::write(folder.join("package.json"), package).map_err(|error| error.to_string())?;
        let mut install = project.program(npm);
        // Install scripts are off: package code runs only in a test.
        install
            .args(["install", "--silent", "--no-audit", "--no-fund"])
            .args(["--ignore-scripts", "--prefix"])
            .arg(&folder)
            .args(self.packages);
        let named = self.packages.join(" ");
        succeed(&mut install).map_err(|error| format!("{named} cannot be installed: {error}"))?;
        std::fs::write(folder.join("ready"), "").map_err(|error| error.to_string())
    }
}
