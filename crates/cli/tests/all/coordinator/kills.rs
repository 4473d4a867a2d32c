//! Killed commands, and concurrent readers and commands.

use std::collections::HashSet;
use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{VIEWS, notify, queue};
use crate::support::Lab;

/// The outcome of a killed command.
struct Killed {
    /// It had been answered.
    was_answered: bool,
    /// It was done.
    was_done: bool,
    /// It had opened the store, as far as could be observed, and was not answered.
    was_amid: bool,
}

/// When a command is killed.
enum Moment {
    /// After this many thousandths of the last command's duration.
    Part(u32),
    /// Once it has the store open, and then after this many thousandths.
    Amid(u32),
    /// As soon as it answers.
    Answer,
}

/// Kills the program at random moments of a command. Acknowledged commands are present, only the
/// command in progress may be in addition, and a rejected command takes no id. It continues until
/// one command was acknowledged and one was killed in the middle: a sample on a busy machine may
/// have neither.
#[test]
fn soak_kills_of_exec() {
    let mut killed: Vec<Killed> = Vec::new();
    for seed in testkit::seeds(4, 300) {
        // Few seeds cover the duration of the last command, and a little more.
        let part = u32::try_from(seed * 379 % 1_000).unwrap() * 5 / 4;
        let moment = match seed % 2 {
            0 => Moment::Part(part),
            _ => Moment::Amid(part),
        };
        killed.push(survive_a_kill(&format!("seed {seed}"), &moment));
    }
    while !killed.iter().any(|killed| killed.was_answered) {
        killed.push(survive_a_kill("after its answer", &Moment::Answer));
    }
    while !killed.iter().any(|killed| killed.was_amid) {
        killed.push(survive_a_kill("amid its work", &Moment::Amid(0)));
    }
    let count = |is_so: fn(&Killed) -> bool| killed.iter().filter(|one| is_so(one)).count();
    testkit::figures(
        "soak_kills_of_exec",
        &format!(
            "{} kills, {} of them amid a command's work: {} commands had been answered, {} more \
             were done, {} were not; no directory was left unusable",
            killed.len(),
            count(|one| one.was_amid),
            count(|one| one.was_answered),
            count(|one| one.was_done && !one.was_answered),
            count(|one| !one.was_done),
        ),
    );
}

/// Whether a process has the store of the lab open.
fn has_store_open(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut files = open.into_iter().flatten().filter_map(Result::ok);
    files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.ends_with("store.db")))
}

/// Kills a command at its moment, and checks the outcome and its directory.
fn survive_a_kill(seed: &str, moment: &Moment) -> Killed {
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
    let mut stdout = child.stdout.take().unwrap();
    let mut said = Vec::new();
    let part = match moment {
        Moment::Part(part) => *part,
        Moment::Amid(part) => {
            while !has_store_open(child.id()) && child.try_wait().unwrap().is_none() {
                std::hint::spin_loop();
            }
            *part
        }
        Moment::Answer => {
            let mut first = [0];
            stdout.read_exact(&mut first).expect("an answer");
            said.push(first[0]);
            0
        }
    };
    let until = std::time::Instant::now() + took * part / 1_000;
    while std::time::Instant::now() < until {
        std::hint::spin_loop();
    }
    let was_at_work = has_store_open(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    stdout.read_to_end(&mut said).unwrap();
    let was_answered = !said.is_empty();

    let pending = lab.snapshot()["backlog"]["pending"].as_u64().unwrap();
    assert!(
        pending == 4 || (pending == 3 && !was_answered),
        "{seed}: {pending}"
    );
    let again = lab.exec(&queue("last"));
    assert_eq!(again.code, i32::from(pending == 4), "{seed}: {again:?}");
    // A late kill may leave a rejected command, so one more command writes the files.
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
    assert_eq!(ids("events.json", "", "request_id"), expected, "{seed}");
    assert_eq!(
        ids("dispatch.json", "records", "request_id"),
        expected,
        "{seed}"
    );
    let seen = lab.view("dispatch-seen.json")["request_ids"].clone();
    assert_eq!(seen, json!(["last", "r0", "r1", "r2"]), "{seed}");
    assert_eq!(lab.view("snapshot.json")["backlog"]["pending"], 3, "{seed}");
    Killed {
        was_answered,
        was_done: pending == 4,
        was_amid: was_at_work && !was_answered,
    }
}

/// A looping reader sees complete files only, while commands run: at least one command for a
/// hundred reads.
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
