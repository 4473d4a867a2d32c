//! Files and log agree right after a process was killed between them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use kernel::coordinator::Coordinator;
use serde_json::{Value, json};
use store::{ReadFrom, Store};
use store_sqlite::{Access, Options, SqliteStore};

use super::queue;
use super::served::Served;
use crate::support::Lab;

/// Stops the writer of the first file of a change: the pipe has no reader.
fn block_files(lab: &Lab) -> PathBuf {
    let path = lab.path().join("state/.dispatch-seen.json.new");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    path
}

/// Waits until the log has `count` events.
fn wait_for_events(lab: &Lab, count: u64) {
    let options = Options {
        access: Access::Read,
        ..Options::default()
    };
    let store = SqliteStore::open(lab.path().join("state/.runwright/store.db"), options).unwrap();
    let stream = Coordinator::stream(&"local".into(), "runtime");
    let threads = tokio::runtime::Runtime::new().unwrap();
    let events = || {
        let load = store.load(&stream, ReadFrom::Seq(0), 0);
        threads.block_on(load).unwrap().next_seq
    };
    while events() < count {
        std::thread::yield_now();
    }
}

/// The printed snapshot and the files are of one moment.
fn assert_agreed(lab: &Lab, ids: &[&str]) {
    let snapshot = lab.snapshot();
    assert_eq!(snapshot["backlog"]["pending"], ids.len());
    assert_eq!(lab.view("snapshot.json")["backlog"], snapshot["backlog"]);
    assert_eq!(lab.view("backlog.json"), snapshot["backlog"]);
    let listed = |list: &Value| -> Vec<Value> {
        let entries = list.as_array().unwrap().iter();
        entries.map(|entry| entry["request_id"].clone()).collect()
    };
    let records = &lab.view("dispatch.json")["records"];
    assert_eq!(listed(records), ids);
    assert_eq!(listed(&lab.view("events.json")), ids);
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let seen = lab.view("dispatch-seen.json");
    assert_eq!(seen["request_ids"], json!(sorted));
}

#[test]
fn files_agree_right_after_a_killed_exec() {
    let lab = Lab::new();
    lab.exec(&queue("first")).with(0);
    let blocked = block_files(&lab);
    let command = queue("last").to_string();
    let args = ["runtime", "exec", &command, "--state-dir=state"];
    let mut exec = lab.command(&args).stdout(Stdio::null()).spawn().unwrap();
    wait_for_events(&lab, 2);
    fs::remove_file(blocked).unwrap();
    exec.kill().unwrap();
    exec.wait().unwrap();
    assert_agreed(&lab, &["first", "last"]);
    lab.exec(&queue("next")).with(0);
    assert_agreed(&lab, &["first", "last", "next"]);
}

#[test]
fn files_agree_right_after_a_killed_server() {
    let lab = Lab::new();
    let served = Served::start(&lab, &[]);
    lab.exec(&queue("first")).with(0);
    let blocked = block_files(&lab);
    let command = queue("last").to_string();
    let args = ["runtime", "exec", &command, "--state-dir=state"];
    let mut exec = lab.command(&args).stderr(Stdio::null()).spawn().unwrap();
    wait_for_events(&lab, 2);
    fs::remove_file(blocked).unwrap();
    served.kill();
    assert_eq!(exec.wait().unwrap().code(), Some(1));
    assert_agreed(&lab, &["first", "last"]);
    lab.exec(&queue("next")).with(0);
    assert_agreed(&lab, &["first", "last", "next"]);
}
