//! `cargo xtask package --check`: each package is installed into an empty prefix and run.

mod install;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::{Package, VERSION, seconds};
use crate::Failure;

/// Lines of a program's output that a failure shows.
const SHOWN_LINES: usize = 20;

/// Why a check did not pass.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// This machine lacks what the check needs.
    Skip(String),
    /// The package is wrong.
    Fail(String),
}

/// One way to install a package and to run the program from it.
struct Check {
    name: &'static str,
    /// The format of the package.
    format: &'static str,
    run: fn(&Lab<'_>) -> Result<(), Obstacle>,
}

const CHECKS: [Check; 5] = [
    Check {
        name: "tarball, unpacked",
        format: "tarball",
        run: install::tarball,
    },
    Check {
        name: "wheel, pip install into a virtual environment",
        format: "wheel",
        run: install::wheel,
    },
    Check {
        name: "npm, npm install --global into a prefix",
        format: "npm",
        run: install::npm,
    },
    Check {
        name: "deb, extracted by dpkg-deb",
        format: "deb",
        run: install::deb_extracted,
    },
    Check {
        name: "deb, installed and purged by dpkg in a copy of this system",
        format: "deb",
        run: install::deb_installed,
    },
];

/// A folder for one check, and what it is about.
struct Lab<'a> {
    /// Empty at first, and removed afterwards.
    folder: PathBuf,
    package: &'a Path,
    /// The version that the program has to report.
    version: &'a str,
}

/// Runs every check in a folder below `scratch`; the last line has the counts.
pub(super) fn run(scratch: &Path, packages: &[Package]) -> Result<(), Failure> {
    let (mut passed, mut failed) = (0, 0);
    let mut skips = Vec::new();
    for check in &CHECKS {
        let package = packages
            .iter()
            .find(|package| package.format == check.format)
            .ok_or_else(|| format!("there is no {} package to check", check.format))?;
        println!("==> check: {}", check.name);
        let began = Instant::now();
        match one(check, scratch, &package.path, VERSION) {
            Ok(()) => {
                passed += 1;
                println!("<== check: passed in {}", seconds(began));
            }
            Err(Obstacle::Skip(reason)) => {
                println!("<== check: skipped: {reason}");
                skips.push((check.name, reason));
            }
            Err(Obstacle::Fail(reason)) => {
                failed += 1;
                println!("<== check: FAILED in {}: {reason}", seconds(began));
            }
        }
    }
    for (name, reason) in &skips {
        println!("  SKIP: {name}: {reason}");
    }
    println!("{passed} passed, {failed} failed, {} skipped", skips.len());
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Found(String::new())),
    }
}

fn one(check: &Check, scratch: &Path, package: &Path, version: &str) -> Result<(), Obstacle> {
    let folder = scratch.join("check");
    remove(&folder)?;
    std::fs::create_dir_all(&folder)
        .map_err(|error| fail(format!("cannot create {}: {error}", folder.display())))?;
    let lab = Lab {
        folder: folder.clone(),
        package,
        version,
    };
    let outcome = (check.run)(&lab);
    remove(&folder)?;
    outcome
}

fn remove(folder: &Path) -> Result<(), Obstacle> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fail(format!(
            "cannot remove {}: {error}; remove it by hand",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

fn fail(reason: impl Into<String>) -> Obstacle {
    Obstacle::Fail(reason.into())
}

impl Lab<'_> {
    /// Runs the program of a prefix, found on the search path as a user would find it.
    fn prove(&self, bin: &Path) -> Result<(), Obstacle> {
        let home = self.folder.join("home");
        std::fs::create_dir_all(&home)
            .map_err(|error| fail(format!("cannot create {}: {error}", home.display())))?;
        let runwright = |argument: &str| {
            println!("    runwright {argument}");
            let mut command = Command::new("sh");
            command
                .args(["-c", &format!("runwright {argument}")])
                .current_dir(&home)
                .env_clear()
                .env("HOME", &home)
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
            done(&mut command)
        };
        let printed = runwright("--version")?;
        self.expect_version(&printed)?;
        runwright("demo").map(drop)
    }

    fn expect_version(&self, printed: &str) -> Result<(), Obstacle> {
        let expected = format!("runwright {}", self.version);
        if printed.lines().any(|line| line == expected) {
            return Ok(());
        }
        let printed = printed.trim();
        Err(fail(format!(
            "`runwright --version` printed `{printed}` in place of `{expected}`"
        )))
    }
}

/// Runs a command to its end and returns all it printed; a failure shows the last lines.
fn done(command: &mut Command) -> Result<String, Obstacle> {
    let output = run_quietly(command)?;
    printed(command, &output)
}

/// The output of a successful command.
fn printed(command: &Command, output: &Output) -> Result<String, Obstacle> {
    let printed = all_of(output);
    if output.status.success() {
        return Ok(printed);
    }
    let lines: Vec<&str> = printed.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n    ");
    Err(fail(format!(
        "{command:?} ended with {}:\n    {last}",
        output.status
    )))
}

fn run_quietly(command: &mut Command) -> Result<Output, Obstacle> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| fail(format!("cannot start {command:?}: {error}")))
}

fn all_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PROGRAM, stand_in};
    use super::super::{FORMATS, debian, tarball};
    use super::*;

    /// The outcome of a check of a package of this script.
    fn outcome(format: &str, check: usize, program: &str) -> Result<(), Obstacle> {
        let folder = tempfile::tempdir().unwrap();
        let format = FORMATS.into_iter().find(|it| it.name == format).unwrap();
        let product = stand_in(program);
        let path = folder.path().join((format.file_name)(&product));
        std::fs::write(&path, (format.make)(&product).unwrap()).unwrap();
        one(&CHECKS[check], folder.path(), &path, product.version)
    }

    #[test]
    fn an_unpacked_tarball_is_run() {
        assert_eq!(outcome(tarball::FORMAT.name, 0, PROGRAM), Ok(()));
    }

    #[test]
    fn another_version_fails_the_check() {
        let program = PROGRAM.replace("1.2.3", "1.2.4");
        let Err(Obstacle::Fail(reason)) = outcome(tarball::FORMAT.name, 0, &program) else {
            panic!("the check passed");
        };
        assert!(reason.contains("`runwright 1.2.4`"), "{reason}");
    }

    #[test]
    fn a_failing_demo_shows_its_output() {
        let program = PROGRAM.replace("echo shown", "echo broken; exit 1");
        let Err(Obstacle::Fail(reason)) = outcome(tarball::FORMAT.name, 0, &program) else {
            panic!("the check passed");
        };
        assert!(reason.ends_with("\n    broken"), "{reason}");
    }

    #[test]
    fn dpkg_extracts_the_debian_package() {
        match outcome(debian::FORMAT.name, 3, PROGRAM) {
            Ok(()) => {}
            Err(Obstacle::Skip(reason)) => assert!(reason.contains("dpkg-deb"), "{reason}"),
            Err(Obstacle::Fail(reason)) => panic!("{reason}"),
        }
    }

    #[test]
    fn each_format_has_a_check() {
        for format in FORMATS {
            assert!(CHECKS.iter().any(|check| check.format == format.name));
        }
    }
}
