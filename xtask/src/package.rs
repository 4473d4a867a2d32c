//! `cargo xtask package`: packages of the program that need no compiler to install.
//!
//! All packages carry the same binary. Each format is a function from the [`Product`] to the bytes
//! of one file, in a module named for the format; it starts no program and reads no file, so its
//! tests need no build.

mod archive;
mod build;
mod check;
mod debian;
mod npm;
mod platform;
mod tarball;
mod wheel;

use std::path::PathBuf;
use std::time::Instant;

use crate::Failure;
use crate::project::Project;
use platform::Platform;

/// The version of the workspace, and so of each package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const DESCRIPTION: &str = "Run and record workflows of processes, HTTP calls, models and people";
const LICENSE: &str = include_str!("../../LICENSE");
const README: &str = include_str!("package/files/README.md");
/// The unit of the server; the program is in `/usr/bin`.
const UNIT: &str = include_str!("package/files/runwright.service");

const USAGE: &str = "cargo xtask package [--check]

Builds the program with `--profile dist` and makes four packages of it in target/package/: a
tarball, a wheel for pip, a package for npm, and a Debian package. Needs Linux and binutils
(readelf and strip).

  --check  then installs each package into an empty prefix and runs `runwright --version` and
           `runwright demo` from there; counts and names the checks that cannot run here

Examples:
  cargo xtask package            the packages; the first build takes 10 to 30 minutes
  cargo xtask package --check    the packages, and proof that each one installs and runs";

/// The contents that all packages share.
struct Product {
    version: &'static str,
    platform: Platform,
    binary: Vec<u8>,
    completions: Vec<Completion>,
}

/// A completion script.
struct Completion {
    shell: &'static Shell,
    script: Vec<u8>,
}

/// A shell and where a Linux system looks for its completions, below `share/`.
#[derive(Debug)]
struct Shell {
    name: &'static str,
    path: &'static str,
    /// The path on Debian, where it differs.
    debian_path: Option<&'static str>,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        path: "share/bash-completion/completions/runwright",
        debian_path: None,
    },
    Shell {
        name: "zsh",
        path: "share/zsh/site-functions/_runwright",
        debian_path: Some("share/zsh/vendor-completions/_runwright"),
    },
    Shell {
        name: "fish",
        path: "share/fish/vendor_completions.d/runwright.fish",
        debian_path: None,
    },
];

/// A format of packages.
struct Format {
    name: &'static str,
    file_name: fn(&Product) -> String,
    make: fn(&Product) -> std::io::Result<Vec<u8>>,
}

/// Every format; the checks find their package by its name.
const FORMATS: [&Format; 4] = [
    &tarball::FORMAT,
    &wheel::FORMAT,
    &npm::FORMAT,
    &debian::FORMAT,
];

/// A package on the disk.
struct Package {
    format: &'static str,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Make,
    Check,
    Help,
}

fn parse(arguments: &[String]) -> Result<Call, Failure> {
    match arguments {
        [] => Ok(Call::Make),
        [flag] if flag == "--check" => Ok(Call::Check),
        [flag] if flag == "--help" || flag == "-h" => Ok(Call::Help),
        _ => Err(Failure::Usage(USAGE.to_owned())),
    }
}

/// Makes the packages; with `--check` also installs and runs them.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    let call = parse(arguments)?;
    if call == Call::Help {
        println!("{USAGE}");
        return Ok(());
    }
    plain(VERSION)?;
    let product = build::product(project)?;
    let packages = write(project, &product)?;
    if call == Call::Check {
        check::run(&project.scratch()?.join("package"), &packages)?;
    }
    Ok(())
}

/// Rejects a version with a pre-release part.
fn plain(version: &str) -> Result<(), String> {
    if version.contains(['-', '+']) {
        return Err(format!(
            "version {version} has a pre-release or build part, which PyPI, npm and Debian write in \
             different ways; set a version of three numbers in Cargo.toml"
        ));
    }
    Ok(())
}

fn write(project: &Project, product: &Product) -> Result<Vec<Package>, String> {
    let folder = project.target().join("package");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let mut packages = Vec::new();
    for format in FORMATS {
        let began = Instant::now();
        println!("==> {}: packing", format.name);
        let bytes = (format.make)(product)
            .map_err(|error| format!("cannot make the {} package: {error}", format.name))?;
        let path = folder.join((format.file_name)(product));
        std::fs::write(&path, &bytes)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!(
            "<== {}: {} ({}, {})",
            format.name,
            path.display(),
            megabytes(bytes.len()),
            seconds(began),
        );
        packages.push(Package {
            format: format.name,
            path,
        });
    }
    Ok(packages)
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn seconds(began: Instant) -> String {
    format!("{:.1} s", began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Machine;

    /// A script in the place of the program.
    pub(super) const PROGRAM: &str = "#!/bin/sh\ncase \"$1\" in\n\
        --version) echo \"runwright 1.2.3\" ;;\n\
        demo) echo shown ;;\n\
        *) exit 2 ;;\nesac\n";

    pub(super) fn stand_in(program: &str) -> Product {
        Product {
            version: "1.2.3",
            platform: Platform {
                machine: Machine::X86_64,
                glibc: (2, 34),
            },
            binary: program.as_bytes().to_vec(),
            completions: SHELLS
                .iter()
                .map(|shell| Completion {
                    shell,
                    script: format!("# {}\n", shell.name).into_bytes(),
                })
                .collect(),
        }
    }

    #[test]
    fn a_call_makes_checks_or_explains() {
        let call = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            parse(&words).ok()
        };
        assert_eq!(call(&[]), Some(Call::Make));
        assert_eq!(call(&["--check"]), Some(Call::Check));
        assert_eq!(call(&["--help"]), Some(Call::Help));
        assert_eq!(call(&["--install"]), None);
        assert_eq!(call(&["--check", "--check"]), None);
    }

    #[test]
    fn versions_with_a_pre_release_part_are_rejected() {
        assert_eq!(plain("0.1.0"), Ok(()));
        let error = plain("0.1.0-rc.1").unwrap_err();
        assert!(error.contains("0.1.0-rc.1"), "{error}");
    }

    #[test]
    fn a_package_is_the_same_every_time() {
        for format in FORMATS {
            let make = || (format.make)(&stand_in(PROGRAM)).unwrap();
            assert!(make() == make(), "{}", format.name);
        }
    }
}
