//! System calls show a sync between each write and its acknowledgement.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use store_sqlite::Durability;

use crate::bed::File;
use crate::child::{self, Role};

const APPENDS: u64 = 50;

fn find_strace() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("strace"));
    places.find(|place| place.is_file())
}

/// Runs the appends of another process under strace and returns its record, `Err` where this system
/// does not allow it.
fn trace(strace: &Path, durability: Durability) -> Result<String, String> {
    let file = File::new();
    let record = file.path().with_extension("trace");
    let this = std::env::current_exe().expect("a test knows its binary");
    let mut tracer = Command::new(strace);
    tracer
        .args(["-f", "-y", "-s", "64", "-e"])
        .arg("trace=write,pwrite64,fdatasync,fsync")
        .args([OsStr::new("-o"), record.as_os_str(), this.as_os_str()]);
    let role = Role::Append {
        times: APPENDS,
        durability,
    };
    let ran = child::command(tracer, role, "run-traced", &file.path())
        .output()
        .expect("strace starts");
    let said = String::from_utf8_lossy(&ran.stdout)
        .matches("@said appended")
        .count();
    if said == 0 {
        return Err(format!("strace could not trace: {}", ran.status));
    }
    assert_eq!(said as u64, APPENDS, "the traced process did not finish");
    Ok(std::fs::read_to_string(record).expect("strace wrote its record"))
}

/// How far the log of the store is from being synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wal {
    Written,
    Syncing,
    Synced,
}

/// Follows the calls and returns how many acknowledgements came after a write of the log and a
/// sync of it, and how many did not.
fn proof(trace: &str) -> (u64, u64) {
    let (mut proven, mut unproven) = (0, 0);
    let mut wal = None;
    for line in trace.lines() {
        // "pid call(descriptor<path>, …" or "pid <... call resumed>…" if it took a while.
        let call = line
            .split_once(' ')
            .map_or(line, |(_, call)| call.trim_start());
        let is_sync = call.contains("fdatasync") || call.contains("fsync");
        let of_wal = call.contains("-wal>");
        if is_sync && call.starts_with("<... ") {
            // Only the writing thread syncs.
            if wal == Some(Wal::Syncing) {
                wal = Some(Wal::Synced);
            }
        } else if is_sync && of_wal {
            let done = !call.contains("<unfinished");
            wal = Some(if done { Wal::Synced } else { Wal::Syncing });
        } else if call.starts_with("pwrite64") && of_wal {
            wal = Some(Wal::Written);
        } else if call.starts_with("write(1") && call.contains("@said appended") {
            match wal.take() {
                Some(Wal::Synced) => proven += 1,
                _ => unproven += 1,
            }
        }
    }
    (proven, unproven)
}

#[test]
fn every_append_is_synced_before_its_acknowledgement() {
    let name = "every_append_is_synced_before_its_acknowledgement";
    let Some(strace) = find_strace() else {
        return testkit::skip(name, "strace is not installed");
    };
    let full = match trace(&strace, Durability::Full) {
        Ok(full) => full,
        Err(why) => return testkit::skip(name, &why),
    };
    assert_eq!(proof(&full), (APPENDS, 0));
    // The proof can fail: it does without the syncs.
    let relaxed = trace(&strace, Durability::Relaxed).expect("it traced a moment ago");
    let (_, unproven) = proof(&relaxed);
    assert!(unproven >= APPENDS - 1, "{unproven} of {APPENDS} unproven");
}

#[test]
fn the_proof_requires_a_sync_between_write_and_acknowledgement() {
    let write = "7 pwrite64(5</t/runs.db-wal>, \"x\", 24, 0) = 24\n";
    let sync = "7 fdatasync(5</t/runs.db-wal>) = 0\n";
    let begun = "7 fdatasync(5</t/runs.db-wal> <unfinished ...>\n";
    let ended = "7 <... fdatasync resumed>) = 0\n";
    let other = "7 fdatasync(4</t/runs.db>) = 0\n";
    let ack = "8 write(1<pipe:[9]>, \"@said appended run 1\\n\", 21) = 21\n";
    let proven = |calls: &[&str]| proof(&calls.concat());
    assert_eq!(proven(&[write, sync, ack]), (1, 0));
    assert_eq!(proven(&[write, begun, ended, ack]), (1, 0));
    assert_eq!(proven(&[write, begun, ack, ended]), (0, 1));
    assert_eq!(proven(&[sync, write, ack]), (0, 1));
    assert_eq!(proven(&[write, other, ack]), (0, 1));
    assert_eq!(proven(&[write, ack, sync]), (0, 1));
    assert_eq!(proven(&[write, sync, ack, ack]), (1, 1));
}
