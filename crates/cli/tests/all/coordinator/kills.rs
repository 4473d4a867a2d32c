//! Commands that are killed, and readers and commands at the same time.

use std::collections::HashSet;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{VIEWS, notify, queue};
use crate::support::Lab;

/// Kills the program at random moments of a command. Whatever was answered is there, nothing else
/// is but what was being done, and no id of a refused command is taken.
#[test]
fn soak_kills_of_exec() {
    let (mut kills, mut answered, mut durable) = (0, 0, 0);
    for seed in testkit::seeds(8, 300) {
        let (was_answered, was_done) = survive_a_kill(seed);
        kills += 1;
        answered += u32::from(was_answered);
        durable += u32::from(was_done && !was_answered);
    }
    let undone = kills - answered - durable;
    testkit::figures(
        "soak_kills_of_exec",
        &format!(
            "{kills} kills: {answered} commands had been answered, {durable} more were done, \
             {undone} were not; no directory was left unusable"
        ),
    );
}

/// Whether the command was answered, and whether it was done.
fn survive_a_kill(seed: u64) -> (bool, bool) {
    let lab = Lab::new();
    let mut took = std::time::Duration::ZERO;
    for n in 0..3 {
        let begun = std::time::Instant::now();
        lab.exec(&queue(&format!("r{n}"))).with(0);
        took = begun.elapsed();
    }
    let command = queue("last").to_string();
    let args = ["runtime", "exec", &command, "--state-dir=state"];
    let mut child = lab.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    // Few seeds spread over the time that the last command took, and a little beyond.
    let part = u32::try_from(seed * 379 % 1_000).unwrap();
    let until = std::time::Instant::now() + took * part / 800;
    while std::time::Instant::now() < until {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let ended = child.wait_with_output().unwrap();
    let was_answered = !ended.stdout.is_empty();

    let pending = lab.snapshot()["backlog"]["pending"].as_u64().unwrap();
    assert!(
        pending == 4 || (pending == 3 && !was_answered),
        "seed {seed}: {pending}"
    );
    let again = lab.exec(&queue("last"));
    assert_eq!(
        again.code,
        i32::from(pending == 4),
        "seed {seed}: {again:?}"
    );
    // The command was refused where the kill came too late, so the files are made by one more.
    lab.exec(&notify("last")).with(0);
    let ids = |name: &str, list: &str, field: &str| -> Vec<Value> {
        let view = lab.view(name);
        let list = if list.is_empty() { &view } else { &view[list] };
        let entries = list.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["event"] != "DispatchNotified")
            .map(|entry| entry[field].clone())
            .collect()
    };
    let expected = ["r0", "r1", "r2", "last"].map(Value::from);
    assert_eq!(
        ids("events.json", "", "request_id"),
        expected,
        "seed {seed}"
    );
    assert_eq!(
        ids("dispatch.json", "records", "request_id"),
        expected,
        "seed {seed}"
    );
    let seen = lab.view("dispatch-seen.json")["request_ids"].clone();
    assert_eq!(seen, json!(["last", "r0", "r1", "r2"]), "seed {seed}");
    assert_eq!(
        lab.view("snapshot.json")["backlog"]["pending"],
        3,
        "seed {seed}"
    );
    (was_answered, pending == 4)
}

/// A reader in a loop sees whole files only, while commands run: one for a hundred reads at least.
#[test]
fn soak_readers_of_files() {
    let lab = Lab::new();
    lab.exec(&queue("first")).with(0);
    let commands = AtomicU64::new(0);
    let wanted = testkit::seeds(200, 10_000).count() as u64;
    let (reads, seen) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut seen) = (0, HashSet::new());
            while reads < wanted || commands.load(Ordering::Relaxed) < wanted / 100 {
                for name in VIEWS.iter().filter(|name| **name != "events.json") {
                    let file = fs::File::open(lab.path().join("state").join(name)).unwrap();
                    seen.insert((name, file.metadata().unwrap().ino()));
                    serde_json::from_reader::<_, Value>(BufReader::new(file))
                        .unwrap_or_else(|error| panic!("{name} is torn: {error}"));
                    reads += 1;
                }
            }
            (reads, seen.len())
        });
        while !reader.is_finished() {
            let n = commands.fetch_add(1, Ordering::Relaxed);
            lab.exec(&queue(&format!("r{n}"))).with(0);
        }
        reader.join().unwrap()
    });
    let commands = commands.into_inner();
    testkit::figures(
        "soak_readers_of_files",
        &format!("{reads} reads of {seen} files that {commands} commands wrote, none torn"),
    );
}

#[test]
fn commands_at_the_same_time_are_all_kept() {
    let lab = Lab::new();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let lab = &lab;
            scope.spawn(move || {
                for n in 0..3 {
                    lab.exec(&queue(&format!("{worker}-{n}"))).with(0);
                }
            });
        }
    });
    assert_eq!(lab.snapshot()["backlog"]["pending"], 12);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 12);
    assert_eq!(
        lab.view("dispatch.json")["records"]
            .as_array()
            .unwrap()
            .len(),
        12
    );
}
