//! The process table from `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, getpid, getppid};

use super::Process;
use crate::programs::Crowd;

struct Stat {
    process: Process,
    parent: i32,
    group: i32,
    state: u8,
}

/// The stat line of a process; its second field is a name in brackets that may contain anything.
fn stat(pid: i32) -> Option<Stat> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
    let fields = std::str::from_utf8(&line[after_name..]).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Stat {
        process: Process {
            pid,
            started: fields.get(19)?.parse().ok()?,
        },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        state: *fields.first()?.as_bytes().first()?,
    })
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_dead(stat: &Stat) -> bool {
    matches!(stat.state, b'Z' | b'X' | b'x')
}

/// Identifies the boot of the machine, so that process ids of an earlier boot are ignored.
pub(in super::super) fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The process with this id, unless it is a zombie.
pub(in super::super) fn find(pid: i32) -> Option<Process> {
    stat(pid)
        .filter(|stat| !is_dead(stat))
        .map(|stat| stat.process)
}

/// Whether a process is alive, and not a zombie.
pub(in super::super) fn is_alive(process: Process) -> bool {
    find(process.pid) == Some(process)
}

/// Sends a signal to a process, never to another one that reuses its id. A process that is gone is
/// not an error.
pub(in super::super) fn signal(process: Process, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    // The handle is opened before the check: from then on it refers to this process only.
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    if !is_alive(process) {
        return Ok(());
    }
    let sent = match handle {
        Ok(handle) => rustix::process::pidfd_send_signal(handle, signal),
        // A sandbox without process handles.
        Err(_) => rustix::process::kill_process(pid, signal),
    };
    match sent {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes this process the parent of every descendant whose own parent exits, including daemons.
pub(in super::super) fn collect_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Every living descendant of this process, without the given ones and their descendants.
pub(in super::super) fn descendants(except: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in pids().filter_map(stat) {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for stat in children.remove(&parent).into_iter().flatten() {
            if except.contains(&stat.process) {
                continue;
            }
            open.push(stat.process.pid);
            if !is_dead(&stat) {
                found.push(stat.process);
            }
        }
    }
    found
}

/// The ids of ended children of this process that were not waited for, except those in its own
/// process group.
pub(in super::super) fn zombies() -> Vec<i32> {
    let (own, group) = (getpid(), getpgrp());
    let [own, group] = [own, group].map(|id| id.as_raw_nonzero().get());
    let stats = pids().filter_map(stat);
    let ended = stats.filter(|stat| stat.parent == own && stat.state == b'Z');
    let elsewhere = ended.filter(|stat| stat.group != group);
    elsewhere.map(|stat| stat.process.pid).collect()
}

/// The combined resource use of processes. File-backed memory is not counted.
pub(in super::super) fn used(processes: &[Process]) -> Crowd {
    let mut crowd = Crowd::default();
    for process in processes {
        let Ok(status) = fs::read_to_string(format!("/proc/{}/status", process.pid)) else {
            continue;
        };
        for line in status.lines() {
            let (name, value) = line.split_once(':').unwrap_or_default();
            let number = value.split_ascii_whitespace().next();
            let number: u64 = number.and_then(|n| n.parse().ok()).unwrap_or_default();
            match name {
                "RssAnon" | "RssShmem" => crowd.memory += number << 10,
                "Threads" => crowd.threads += number,
                _ => {}
            }
        }
    }
    crowd
}

/// Every process that an attempt started, directly or indirectly: those with its lock file open and
/// those with its key and its directory in their environment. The key alone is not enough: a copy
/// of the store in another folder has attempts with the same keys. A process that closed the file
/// and cleared a variable is not found. This process and its parent are excluded.
pub(in super::super) fn holders(dir: &Path, lock: &Path, key: &str) -> Vec<Process> {
    let spared: HashSet<i32> = [Some(getpid()), getppid()]
        .into_iter()
        .flatten()
        .map(|pid| pid.as_raw_nonzero().get())
        .collect();
    let key = format!("WF_ATTEMPT_KEY={key}").into_bytes();
    let dir = [b"WF_ATTEMPT_DIR=", dir.as_os_str().as_bytes()].concat();
    pids()
        .filter(|pid| !spared.contains(pid))
        .filter(|&pid| has_variables(pid, [&key, &dir]) || has_open(pid, lock))
        .filter_map(find)
        .collect()
}

fn has_variables(pid: i32, variables: [&[u8]; 2]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let entries = environment.split(|&byte| byte == 0);
    variables
        .iter()
        .all(|variable| entries.clone().any(|entry| entry == *variable))
}

fn has_open(pid: i32, file: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    descriptors
        .into_iter()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == file))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let me = find(getpid().as_raw_nonzero().get()).unwrap();
        assert!(is_alive(me));
        assert!(!is_alive(Process {
            started: me.started + 1,
            ..me
        }));
    }

    #[test]
    fn a_recycled_id_is_not_signalled() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let process = find(child.id() as i32).unwrap();
        signal(
            Process {
                started: process.started - 1,
                ..process
            },
            Signal::KILL,
        )
        .unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(!is_alive(process));
    }

    #[test]
    fn holders_are_found_by_environment_and_by_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().canonicalize().unwrap().join("lock");
        let file = fs::File::create(&lock).unwrap();
        let mut by_file = Command::new("cat")
            .stdin(Stdio::piped())
            .stderr(file)
            .spawn()
            .unwrap();
        let mut by_variable = Command::new("cat")
            .stdin(Stdio::piped())
            .env("WF_ATTEMPT_KEY", "attempt-found")
            .env("WF_ATTEMPT_DIR", folder.path())
            .spawn()
            .unwrap();
        let mut of_another_store = Command::new("cat")
            .stdin(Stdio::piped())
            .env("WF_ATTEMPT_KEY", "attempt-found")
            .env("WF_ATTEMPT_DIR", "/elsewhere")
            .spawn()
            .unwrap();
        let mut found: Vec<i32> = holders(folder.path(), &lock, "attempt-found")
            .iter()
            .map(|p| p.pid)
            .collect();
        let mut expected = vec![by_file.id() as i32, by_variable.id() as i32];
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let inside = descendants(&[]);
        assert!(
            expected
                .iter()
                .all(|pid| inside.iter().any(|process| process.pid == *pid))
        );
        for child in [&mut by_file, &mut by_variable, &mut of_another_store] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert_eq!(holders(folder.path(), &lock, "attempt-found"), []);
    }
}
