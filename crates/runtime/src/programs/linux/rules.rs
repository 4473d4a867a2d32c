//! Landlock: files, TCP, signals.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope,
};

use super::super::confinement::{Confinement, Files, Network};

/// The first version that restricts signals.
const FOR_FILES: ABI = ABI::V6;
/// The first version that restricts TCP.
const FOR_NETWORK: ABI = ABI::V4;

/// Paths that programs need to run at all: read and execute.
const SYSTEM: [&str; 29] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
];
/// Devices that hold no data.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

fn failed(error: RulesetError) -> io::Error {
    io::Error::other(error)
}

/// Checks that the kernel supports confinement of files.
pub(super) fn probe() -> io::Result<()> {
    files_and_signals()
        .and_then(Ruleset::create)
        .map_err(failed)?;
    Ok(())
}

/// Checks that the kernel supports confinement of TCP.
pub(super) fn probe_network() -> io::Result<()> {
    let ruleset = strict().handle_access(AccessNet::from_all(FOR_NETWORK));
    ruleset.and_then(Ruleset::create).map_err(failed)?;
    Ok(())
}

fn strict() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn files_and_signals() -> Result<Ruleset, RulesetError> {
    strict()
        .handle_access(AccessFs::from_all(FOR_FILES))?
        .scope(Scope::from_all(FOR_FILES))
}

/// Restricts the calling thread.
pub(super) fn restrict(confinement: &Confinement) -> io::Result<()> {
    let port = match confinement.network {
        Network::Open => None,
        // Nothing listens on port 0: in effect every connection is denied.
        Network::Denied => Some(0),
        Network::OnlyPort(port) => Some(port),
    };
    let ruleset = match &confinement.files {
        Files::All => Ok(strict()),
        Files::AllBut(_) | Files::Folder { .. } => files_and_signals(),
    };
    let ruleset = ruleset.and_then(|ruleset| match port {
        Some(_) => ruleset.handle_access(AccessNet::ConnectTcp),
        None => Ok(ruleset),
    });
    let mut rules = ruleset.and_then(Ruleset::create).map_err(failed)?;
    if let Some(port) = port.filter(|port| *port != 0) {
        let rule = NetPort::new(
            port,
            AccessNet::from_all(FOR_NETWORK) & AccessNet::ConnectTcp,
        );
        rules = rules.add_rule(rule).map_err(failed)?;
    }
    let all = AccessFs::from_all(FOR_FILES);
    match &confinement.files {
        Files::All => {}
        Files::AllBut(hidden) => {
            for path in around(Path::new("/"), hidden) {
                rules = allow(rules, &path, all)?;
            }
        }
        Files::Folder { folder, hidden } => {
            let roots = SYSTEM.iter().filter_map(|root| fs::canonicalize(root).ok());
            for path in roots.flat_map(|root| around(&root, hidden)) {
                rules = allow(rules, &path, AccessFs::from_read(FOR_FILES))?;
            }
            for device in DEVICES {
                let access = AccessFs::ReadFile | AccessFs::WriteFile;
                rules = allow(rules, Path::new(device), access)?;
            }
            rules = allow(rules, folder, all)?;
        }
    }
    let status = rules.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(io::Error::other("Landlock is only partly in effect")),
    }
}

/// Allows access to a path. A missing one needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Ok(about) = fs::metadata(path) else {
        return Ok(rules);
    };
    let mut access = access;
    if !about.is_dir() {
        access &= AccessFs::from_file(FOR_FILES);
    }
    let Ok(opened) = PathFd::new(path) else {
        return Ok(rules);
    };
    rules
        .add_rule(PathBeneath::new(opened, access))
        .map_err(failed)
}

/// The paths that together cover a folder without the hidden ones: itself, or the siblings of the
/// hidden paths in it.
fn around(root: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = open.pop() {
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            found.push(path);
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        // A link may lead to a hidden path; its target is covered by its own place.
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|of| !of.is_symlink()));
        open.extend(entries.map(|entry| entry.path()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_are_left_out_with_links_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["a/secret/deep", "a/open", "b"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(top.join("a/secret"), top.join("a/link")).unwrap();
        let mut found = around(&top, &[top.join("a/secret")]);
        found.sort();
        assert_eq!(found, [top.join("a/open"), top.join("b")]);
        assert_eq!(
            around(&top.join("b"), &[top.join("a/secret")]),
            [top.join("b")]
        );
        assert!(around(&top.join("a/secret/deep"), &[top.join("a/secret")]).is_empty());
    }
}
