//! The project's folder and how its programs are started.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A checkout of the project.
pub(crate) struct Project {
    root: PathBuf,
}

impl Project {
    /// The checkout that this program was built from.
    pub(crate) fn locate() -> Result<Self, String> {
        // The run-time variable has priority: one target directory may serve several checkouts.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest)
            .parent()
            .filter(|root| root.join("Cargo.toml").is_file())
            .ok_or("cannot find the workspace; call it as `cargo xtask`")?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// The folder of the workspace manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of builds.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |dir| self.root.join(dir))
    }

    /// A folder for files that runs leave.
    pub(crate) fn scratch(&self) -> Result<PathBuf, String> {
        let scratch = self.target().join("xtask");
        std::fs::create_dir_all(&scratch)
            .map_err(|error| format!("cannot create {}: {error}", scratch.display()))?;
        Ok(scratch)
    }

    /// Cargo, to run in the workspace without standard input.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.program(program);
        command.args(arguments);
        // Cargo's variables for this program must not reach other build scripts, which would
        // rebuild because of them.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Any program, to run in the workspace without standard input.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }
}

/// Runs a command to its end; its output is passed through.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| unstartable(command, error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", name_of(command)))
    }
}

/// Runs a command to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| unstartable(command, error))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", name_of(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{} wrote no UTF-8", name_of(command)))
}

/// Which stream of a command is read line by line; the other is passed through.
#[derive(Clone, Copy)]
pub(crate) enum Listen {
    Stdout,
    Stderr,
}

/// Runs a command to its end, shows one of its streams and passes each line of it to `hear`.
/// Returns whether the command succeeded.
pub(crate) fn overhear(
    command: &mut Command,
    listen: Listen,
    mut hear: impl FnMut(&str),
) -> Result<bool, String> {
    match listen {
        Listen::Stdout => command.stdout(Stdio::piped()),
        Listen::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command
        .spawn()
        .map_err(|error| unstartable(command, error))?;
    let stream: Box<dyn std::io::Read> = match listen {
        Listen::Stdout => Box::new(child.stdout.take().expect("it is piped")),
        Listen::Stderr => Box::new(child.stderr.take().expect("it is piped")),
    };
    for line in BufReader::new(stream).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read {}: {error}", name_of(command)))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        hear(&without_colour(&line));
    }
    let status = child
        .wait()
        .map_err(|error| format!("lost {}: {error}", name_of(command)))?;
    Ok(status.success())
}

/// The path of a program on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn without_colour(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A control sequence ends with a letter.
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            text.push(c);
        }
    }
    text
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Some(first) = command.get_args().next() {
        text.push(' ');
        text.push_str(&first.to_string_lossy());
    }
    text
}

fn unstartable(command: &Command, error: std::io::Error) -> String {
    format!("cannot start {}: {error}", name_of(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(
            without_colour("\u{1b}[32;1m     Summary\u{1b}[0m [ 0.1s]"),
            "     Summary [ 0.1s]"
        );
    }

    #[test]
    fn lines_of_the_chosen_stream_are_heard() {
        let mut heard = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let success = overhear(&mut command, Listen::Stdout, |line| {
            heard.push(line.to_owned())
        });
        assert_eq!(success, Ok(false));
        assert_eq!(heard, ["one", "two"]);
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = succeed(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.starts_with("sh -c ended with"), "{error}");
    }
}
