//! Node.js folders with the packages that tests run against the program: one folder per purpose.

use std::path::PathBuf;

use super::{Need, Session, Skip};
use crate::project::{Project, find_program, succeed};

/// The exact versions of a folder's packages.
const LOCKFILE: &str = "package-lock.json";

/// A folder with packages.
struct Kit {
    /// Its name below the scratch folder. Other packages need another name.
    folder: &'static str,
    /// The packages to install.
    packages: Packages,
    /// The variable by which tests find the folder.
    variable: &'static str,
    /// A test that needs it.
    test: &'static str,
}

/// The source of a folder's packages.
enum Packages {
    /// These, with the dependencies that they have now.
    Named(&'static [&'static str]),
    /// Those of a lockfile in this folder of the checkout.
    Locked(&'static str),
}

/// The server that the bench of the workbench face is compared with.
const EXPRESS: Kit = Kit {
    folder: "express-5",
    packages: Packages::Named(&["express@5"]),
    variable: "RUNWRIGHT_NODE_MODULES",
    test: "the bench of the workbench face",
};

/// The compiler of the worker library for TypeScript.
const TYPESCRIPT: Kit = Kit {
    folder: "typescript-5.9.3",
    packages: Packages::Named(&["typescript@5.9.3", "@types/node@20.19.43"]),
    variable: "RUNWRIGHT_TYPESCRIPT_MODULES",
    test: "workers_in_typescript_do_the_work",
};

/// A test that needs more npm packages adds them here.
const KITS: &[Kit] = &[
    // The client of the LLM Workbench, its MCP tools, and their dependencies.
    Kit {
        folder: "llm-workbench-0.3.3",
        packages: Packages::Named(&[
            "@llm-workbench/runtime@0.3.3",
            "@llm-workbench/mcp@0.3.4",
            "@modelcontextprotocol/sdk@1",
        ]),
        variable: "RUNWRIGHT_NODE_MODULES",
        test: "the_real_workbench_client_drives_it",
    },
    // The client of the runtime contract.
    Kit {
        folder: "oh-my-codex-0.21.6",
        packages: Packages::Named(&["oh-my-codex@0.21.6"]),
        variable: "RUNWRIGHT_OMX_MODULES",
        test: "the_published_client_drives_it",
    },
    TYPESCRIPT,
    // The compiler of the console, and the driver of its tests.
    Kit {
        folder: "console",
        packages: Packages::Locked("console"),
        variable: "RUNWRIGHT_CONSOLE_MODULES",
        test: "the_embedded_console_is_made_of_its_source",
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

/// A folder of the bench and the variable by which it finds it.
pub(crate) type BenchFolder = Result<(&'static str, PathBuf), String>;

/// The folder with Express, prepared on first use.
pub(crate) fn express(project: &Project) -> BenchFolder {
    prepared(project, &EXPRESS)
}

/// The folder with the compiler of TypeScript, prepared on first use.
pub(crate) fn typescript(project: &Project) -> BenchFolder {
    prepared(project, &TYPESCRIPT)
}

fn prepared(project: &Project, kit: &Kit) -> BenchFolder {
    if kit.ready(project).is_none() {
        kit.make(project)?;
    }
    Ok((kit.variable, kit.place(project)?))
}

impl Kit {
    fn place(&self, project: &Project) -> Result<PathBuf, String> {
        Ok(project.scratch()?.join(self.folder))
    }

    /// The folder, if it is prepared for the packages of now.
    fn ready(&self, project: &Project) -> Option<PathBuf> {
        let folder = self.place(project).ok()?;
        let made_for = std::fs::read_to_string(folder.join("ready")).ok()?;
        (made_for == self.wanted(project)?).then_some(folder)
    }

    /// The lockfile that a prepared folder was made for; empty for named packages.
    fn wanted(&self, project: &Project) -> Option<String> {
        match self.packages {
            Packages::Named(_) => Some(String::new()),
            Packages::Locked(source) => {
                std::fs::read_to_string(project.root().join(source).join(LOCKFILE)).ok()
            }
        }
    }

    fn make(&self, project: &Project) -> Result<(), String> {
        find_program("node").ok_or("there is no node; install Node.js 20 or later")?;
        let npm = find_program("npm").ok_or("there is no npm; install it with Node.js")?;
        let folder = self.place(project)?;
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut install = project.program(npm);
        let named = match self.packages {
            Packages::Named(packages) => {
                let package = "{\"private\":true,\"type\":\"module\"}\n";
                std::fs::write(folder.join("package.json"), package)
                    .map_err(|error| error.to_string())?;
                install.arg("install").args(packages);
                packages.join(" ")
            }
            Packages::Locked(source) => {
                let source_folder = project.root().join(source);
                for name in ["package.json", LOCKFILE] {
                    std::fs::copy(source_folder.join(name), folder.join(name))
                        .map_err(|error| format!("cannot copy {name} of {source}: {error}"))?;
                }
                install.arg("ci");
                format!("the packages of {source}/{LOCKFILE}")
            }
        };
        // Install scripts are off: package code runs only in a test.
        install
            .args(["--silent", "--no-audit", "--no-fund"])
            .args(["--ignore-scripts", "--prefix"])
            .arg(&folder);
        succeed(&mut install).map_err(|error| format!("{named} cannot be installed: {error}"))?;
        let made_for = self.wanted(project).unwrap_or_default();
        std::fs::write(folder.join("ready"), made_for).map_err(|error| error.to_string())
    }
}
