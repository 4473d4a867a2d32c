//! The ways to install a package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Lab, Obstacle, all_of, done, fail, printed, run_quietly};
use crate::project::find_program;

/// The exit code of a script that cannot do its work on this machine.
const NOT_HERE: i32 = 77;

/// Installs a Debian package as root, in a copy of the system that is thrown away.
const INSTALL_DEB: &str = include_str!("../files/install-deb.sh");

pub(super) fn tarball(lab: &Lab<'_>) -> Result<(), Obstacle> {
    let tar = program("tar", "install tar")?;
    let mut unpack = Command::new(tar);
    unpack.arg("--extract").arg("--file").arg(lab.package);
    done(unpack.arg("--directory").arg(&lab.folder))?;
    let unpacked = std::fs::read_dir(&lab.folder)
        .map_err(|error| fail(error.to_string()))?
        .flatten()
        .map(|entry| entry.path().join("bin"));
    let found = unpacked.into_iter().find(|bin| bin.is_dir());
    lab.prove(&found.ok_or_else(|| fail("the tarball has no folder bin/"))?)
}

pub(super) fn wheel(lab: &Lab<'_>) -> Result<(), Obstacle> {
    let python = program("python3", "install Python 3")?;
    let prefix = lab.folder.join("venv");
    let mut venv = Command::new(python);
    done(venv.args(["-m", "venv"]).arg(&prefix)).map_err(|obstacle| match obstacle {
        Obstacle::Fail(reason) => Obstacle::Skip(format!("python3 makes no venv: {reason}")),
        skip @ Obstacle::Skip(_) => skip,
    })?;
    let bin = prefix.join("bin");
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--no-index"])
        .arg("--disable-pip-version-check");
    done(pip.arg(lab.package))?;
    lab.prove(&bin)
}

pub(super) fn npm(lab: &Lab<'_>) -> Result<(), Obstacle> {
    let npm = program("npm", "install Node.js with npm")?;
    let prefix = lab.folder.join("prefix");
    let mut install = Command::new(npm);
    install
        .args([
            "install",
            "--global",
            "--offline",
            "--no-audit",
            "--no-fund",
        ])
        .arg("--prefix")
        .arg(&prefix)
        .arg("--cache")
        .arg(lab.folder.join("cache"));
    done(install.arg(lab.package))?;
    lab.prove(&prefix.join("bin"))
}

pub(super) fn deb_extracted(lab: &Lab<'_>) -> Result<(), Obstacle> {
    let dpkg = dpkg("dpkg-deb")?;
    let prefix = lab.folder.join("root");
    let mut extract = Command::new(dpkg);
    done(extract.arg("--extract").arg(lab.package).arg(&prefix))?;
    lab.prove(&prefix.join("usr/bin"))
}

pub(super) fn deb_installed(lab: &Lab<'_>) -> Result<(), Obstacle> {
    dpkg("dpkg")?;
    let script = lab.folder.join("install.sh");
    write(&script, INSTALL_DEB.as_bytes())?;
    std::fs::copy(lab.package, lab.folder.join("runwright.deb"))
        .map_err(|error| fail(format!("cannot copy {}: {error}", lab.package.display())))?;
    println!("    dpkg --install, runwright --version, runwright demo, dpkg --purge");
    let mut install = Command::new("sh");
    install.arg(&script).arg(&lab.folder);
    let output = run_quietly(&mut install)?;
    if output.status.code() == Some(NOT_HERE) {
        let reason = all_of(&output);
        return Err(Obstacle::Skip(format!(
            "no copy of this system can be made: {}",
            reason.trim()
        )));
    }
    lab.expect_version(&printed(&install, &output)?)
}

fn dpkg(name: &str) -> Result<PathBuf, Obstacle> {
    program(name, "run the check on Debian or Ubuntu")
}

/// A program that the check needs; without it the check is skipped.
fn program(name: &str, advice: &str) -> Result<PathBuf, Obstacle> {
    find_program(name).ok_or_else(|| Obstacle::Skip(format!("there is no {name}; {advice}")))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Obstacle> {
    std::fs::write(path, bytes)
        .map_err(|error| fail(format!("cannot write {}: {error}", path.display())))
}
