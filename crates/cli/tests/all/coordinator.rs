//! `runwright runtime`, and the program under its published name.

mod bridge;
mod clients;
mod live;
mod served;
mod status;
mod tmux;
mod tools;

use std::collections::HashSet;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::support::{Ended, Lab};

/// The files that clients read.
const VIEWS: [&str; 9] = [
    "events.json",
    "dispatch.json",
    "mailbox.json",
    "dispatch-seen.json",
    "snapshot.json",
    "authority.json",
    "backlog.json",
    "readiness.json",
    "replay.json",
];

impl Lab {
    fn runtime(&self, args: &[&str]) -> Ended {
        self.call(&[&["runtime"], args].concat())
    }

    fn exec(&self, command: &Value) -> Ended {
        self.runtime(&["exec", &command.to_string(), "--state-dir=state"])
    }

    fn snapshot(&self) -> Value {
        self.runtime(&["snapshot", "--json", "--state-dir=state"])
            .with(0)
            .json()
    }

    fn view(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(&format!("state/{name}"))).expect(name)
    }
}

fn queue(id: &str) -> Value {
    json!({ "command": "QueueDispatch", "request_id": id, "target": "worker" })
}

fn notify(id: &str) -> Value {
    json!({ "command": "MarkNotified", "request_id": id, "channel": "pane" })
}

fn deliver(id: &str) -> Value {
    json!({ "command": "MarkDelivered", "request_id": id })
}

fn acquire(owner: &str, until: &str) -> Value {
    json!({ "command": "AcquireAuthority", "owner": owner, "lease_id": "l", "leased_until": until })
}

#[test]
fn commands_leave_events_and_files_behind() {
    let lab = Lab::new();
    let printed = lab.exec(&queue("b")).with(0).stdout;
    assert_eq!(
        printed,
        "{\n  \"event\": \"DispatchQueued\",\n  \"request_id\": \"b\",\n  \"target\": \"worker\",\n  \
         \"metadata\": null\n}\n"
    );
    for command in [
        queue("a"),
        notify("a"),
        deliver("a"),
        acquire("me", "2020-01-01T00:00:00Z"),
        json!({ "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
                "to_worker": "y", "body": "a \"b\"\n{c}" }),
        json!({ "command": "MarkMailboxNotified", "message_id": "m" }),
        json!({ "command": "CaptureSnapshot" }),
    ] {
        lab.exec(&command).with(0);
    }
    let snapshot = lab.snapshot();
    assert_eq!(snapshot, lab.view("snapshot.json"));
    assert_eq!(
        snapshot["backlog"],
        json!({ "pending": 1, "notified": 0, "delivered": 1, "failed": 0 })
    );
    assert_eq!(
        snapshot["readiness"],
        json!({ "ready": true, "reasons": [] })
    );
    for section in ["authority", "backlog", "readiness", "replay"] {
        assert_eq!(snapshot[section], lab.view(&format!("{section}.json")));
    }
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 8);
    let records = lab.view("dispatch.json")["records"].clone();
    assert_eq!(records[0]["request_id"], "b");
    assert_eq!(records[1]["status"], "delivered");
    assert_eq!(records[1]["reason"], "pane");
    assert_eq!(
        lab.view("mailbox.json")["records"][0]["body"],
        "a \"b\"\n{c}"
    );
    assert_eq!(
        lab.view("dispatch-seen.json")["request_ids"],
        json!(["a", "b"])
    );

    let enforced = lab.runtime(&["snapshot", "--state-dir=state", "--enforce-leases"]);
    enforced
        .with(0)
        .prints("readiness=blocked(authority lease is stale: lease expired)");
    lab.call(&["verify", "--data", "state/.runwright"]).with(0);
}

#[test]
fn files_made_step_by_step_are_those_made_at_once() {
    let lab = Lab::new();
    for id in ["r3", "r1", "q\"\\", "r2", "é\n"] {
        lab.exec(&queue(id)).with(0);
        lab.exec(&notify(id)).with(0);
    }
    lab.exec(&deliver("q\"\\")).with(0);
    let step_by_step = VIEWS.map(|name| lab.read(&format!("state/{name}")));
    // Whoever touches a file is not trusted with it: everything is made again from the log.
    fs::remove_file(lab.path().join("state/events.json")).unwrap();
    fs::write(lab.path().join("state/dispatch.json"), "{").unwrap();
    lab.exec(&json!({ "command": "MarkReplayed", "event_id": "e1" }))
        .with(1);
    let beat = json!({ "command": "Heartbeat", "owner": "", "phase": "plan" });
    lab.exec(&beat).with(0);
    let at_once = VIEWS.map(|name| lab.read(&format!("state/{name}")));
    assert_eq!(step_by_step, at_once);
}

#[test]
fn refusals_are_in_the_published_words() {
    let lab = Lab::new();
    lab.exec(&queue("r")).with(0);
    lab.exec(&acquire("me", "later")).with(0);
    let cases = [
        (
            queue("r"),
            "dispatch error: duplicate dispatch request id: r",
        ),
        (
            queue(""),
            "dispatch error: invalid dispatch request id: \"\"",
        ),
        (notify("x"), "dispatch error: dispatch record not found: x"),
        (
            deliver("r"),
            "dispatch error: invalid transition for r: pending -> delivered",
        ),
        (
            acquire("you", "x"),
            "authority error: lease already held by me",
        ),
        (
            json!({ "command": "RenewAuthority", "owner": "you", "lease_id": "l", "leased_until": "x" }),
            "authority error: owner mismatch: lease held by me",
        ),
        (
            json!({ "command": "MarkMailboxNotified", "message_id": "m" }),
            "mailbox error: mailbox record not found: m",
        ),
        (
            json!({ "command": "MarkDelivered" }),
            "invalid JSON: missing field `request_id`",
        ),
        (
            json!({ "command": "Nope" }),
            "invalid JSON: unknown variant `Nope`",
        ),
    ];
    for (command, text) in cases {
        let ended = lab
            .exec(&command)
            .with(1)
            .says(&format!("omx-runtime: {text}"));
        assert_eq!(ended.stdout, "");
    }
    let usage: [(&[&str], &str); 9] = [
        (&["exec"], "exec requires a JSON command argument"),
        (&["init"], "init requires a state directory path"),
        (&["nope"], "unknown subcommand `nope`"),
        (
            &["snapshot", "--state-dir=nowhere"],
            "No such file or directory",
        ),
        (&["snapshot", "--state-dir", "x"], "--state-dir=DIR"),
        (
            &["process-identity", "abc"],
            "must be a positive integer, got: abc",
        ),
        (&["process-identity", "0"], "pid must be > 0"),
        (
            &["fs-rename-no-replace", "a", "/b"],
            "from path must be absolute",
        ),
        (&["lease-mutex", "a"], "lease-mutex requires exactly"),
    ];
    for (args, text) in usage {
        lab.runtime(args).with(1).says(text);
    }
}

#[test]
fn a_long_command_comes_by_file_or_by_stdin() {
    let lab = Lab::new();
    let command = json!({
        "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
        "to_worker": "y", "body": "long ".repeat(100_000),
    });
    lab.write("command.json", command.to_string());
    lab.runtime(&["exec", "@command.json", "--state-dir=state"])
        .with(0);
    let again = command.to_string().replace("\"m\"", "\"n\"");
    lab.call_with(
        &["runtime", "exec", "-", "--state-dir=state"],
        again.as_bytes(),
    )
    .with(0);
    assert_eq!(
        lab.view("mailbox.json")["records"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn without_files_nothing_but_the_answer_is_written() {
    let lab = Lab::new();
    let command = queue("r").to_string();
    lab.runtime(&["exec", &command, "--state-dir=state", "--views=none"])
        .with(0);
    assert!(!lab.path().join("state/events.json").exists());
    lab.exec(&notify("r")).with(0);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 2);
    assert_eq!(
        lab.view("dispatch.json")["records"][0]["status"],
        "notified"
    );
}

/// One that was killed before it wrote the files has taken its id: whoever asks again is refused,
/// and finds the files as they should be.
#[test]
fn a_command_that_is_refused_brings_the_files_up_to_date() {
    let lab = Lab::new();
    let command = queue("a").to_string();
    lab.runtime(&["exec", &command, "--state-dir=state", "--views=none"])
        .with(0);
    lab.exec(&queue("a")).with(1).says("duplicate");
    assert_eq!(lab.view("dispatch.json")["records"][0]["request_id"], "a");
    assert_eq!(lab.view("snapshot.json")["backlog"]["pending"], 1);
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
}

/// The published program knows neither release nor takeover: what it reads is who leads now.
#[test]
fn of_authorities_the_files_have_the_one_that_leads() {
    let lab = Lab::new();
    lab.exec(&queue("a")).with(0);
    lab.exec(&acquire("one", "2100-01-01T00:00:00Z")).with(0);
    lab.exec(&json!({ "command": "ReleaseAuthority", "owner": "one" }))
        .with(0);
    let named = |events: &Value| -> Vec<String> {
        let events = events.as_array().unwrap().iter();
        events
            .map(|event| event["event"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(named(&lab.view("events.json")), ["DispatchQueued"]);
    lab.exec(&acquire("two", "2100-01-01T00:00:00Z")).with(0);
    let events = lab.view("events.json");
    assert_eq!(named(&events), ["DispatchQueued", "AuthorityAcquired"]);
    assert_eq!(events[1]["owner"], "two");
    // Also a log that has both is taken over.
    let first = json!({
        "event": "AuthorityAcquired", "owner": "one", "lease_id": "l0",
        "leased_until": "2100-01-01T00:00:00Z",
    });
    let both = json!([first, events[0], events[1]]);
    let other = Lab::new();
    let state = other.path().join("state");
    fs::create_dir_all(&state).unwrap();
    for name in ["dispatch.json", "dispatch-seen.json", "mailbox.json"] {
        fs::copy(lab.path().join("state").join(name), state.join(name)).unwrap();
    }
    fs::write(state.join("events.json"), both.to_string()).unwrap();
    other.exec(&queue("b")).with(0);
    assert_eq!(other.snapshot()["authority"]["owner"], "one");
    assert_eq!(other.snapshot()["backlog"]["pending"], 2);
}

#[test]
fn records_that_were_taken_out_are_shown_no_more_and_their_ids_stay_taken() {
    let lab = Lab::new();
    for id in ["a", "b", "c"] {
        lab.exec(&queue(id)).with(0);
    }
    lab.exec(&notify("a")).with(0);
    lab.exec(&json!({ "command": "RemoveDispatchRecords", "request_ids": ["b"] }))
        .with(0);
    let compact = deliver("a").to_string();
    lab.runtime(&["exec", &compact, "--state-dir=state", "--compact"])
        .with(0);
    let shown = lab.view("dispatch.json");
    assert_eq!(shown["records"].as_array().unwrap().len(), 1);
    assert_eq!(shown["records"][0]["request_id"], "c");
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
    assert_eq!(
        lab.view("dispatch-seen.json")["request_ids"],
        json!(["a", "b", "c"])
    );
    for id in ["a", "b", "c"] {
        lab.exec(&queue(id))
            .with(1)
            .says("duplicate dispatch request id");
    }
}

#[test]
fn a_directory_of_the_published_program_is_taken_over() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("state")).unwrap();
    lab.write(
        "state/events.json",
        json!([
            { "event": "AuthorityAcquired", "owner": "o", "lease_id": "l", "leased_until": "x" },
            { "event": "DispatchQueued", "request_id": "a", "target": "t", "metadata": { "k": 1 } },
            { "event": "DispatchQueued", "request_id": "b", "target": "t", "metadata": null },
            { "event": "DispatchFailed", "request_id": "b", "reason": "why" },
            { "event": "SomethingNew", "field": 1 },
            { "event": "MailboxMessageCreated", "message_id": "m", "from_worker": "x",
              "to_worker": "y" },
        ])
        .to_string(),
    );
    let no_ledger = lab.exec(&queue("c")).with(1);
    no_ledger.says("failed to load authoritative runtime state: io error: missing dispatch seen");
    lab.write(
        "state/dispatch-seen.json",
        json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a"] }).to_string(),
    );
    lab.exec(&queue("c"))
        .with(1)
        .says("omits an authoritative dispatch id");
    for (ledger, says) in [
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b", "a"] }),
            "dispatch error: duplicate dispatch request id: a\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b", ""] }),
            "dispatch error: invalid dispatch request id: \"\"\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 2, "request_ids": ["a", "b"] }),
            "io error: unsupported dispatch seen ledger schema version or epoch\n",
        ),
        (
            json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ["a", "b"], "more": 1 }),
            "json error: data did not match any variant of untagged enum DispatchSeenLedger\n",
        ),
    ] {
        lab.write("state/dispatch-seen.json", ledger.to_string());
        let refused = lab.exec(&queue("c")).with(1);
        refused.says(&format!(
            "failed to load authoritative runtime state: {says}"
        ));
        let snapshot = lab.runtime(&["snapshot", "--state-dir=state"]).with(1);
        snapshot.says(&format!("omx-runtime: {says}"));
    }
    lab.write(
        "state/dispatch-seen.json",
        json!({ "schema_version": 1, "request_ids": ["a", "b", "gone"] }).to_string(),
    );
    lab.write(
        "state/mailbox.json",
        json!({ "records": [{ "message_id": "m", "from_worker": "x", "to_worker": "y",
            "body": "kept here alone", "created_at": "2026-03-19T01:00:00.000Z",
            "notified_at": "some day", "delivered_at": null }] })
        .to_string(),
    );
    let snapshot = lab.snapshot();
    assert_eq!(snapshot["authority"]["owner"], "o");
    assert_eq!(snapshot["backlog"]["failed"], 1);
    lab.exec(&notify("a")).with(0);
    let mail = lab.view("mailbox.json")["records"][0].clone();
    assert_eq!(mail["body"], "kept here alone");
    assert_eq!(mail["created_at"], "2026-03-19T01:00:00.000Z");
    assert_eq!(mail["notified_at"], "some day");
    assert_eq!(mail["delivered_at"], Value::Null);
    assert_eq!(
        lab.view("dispatch.json")["records"][0]["metadata"],
        json!({ "k": 1 })
    );
    lab.exec(&queue("gone"))
        .with(1)
        .says("duplicate dispatch request id");

    fs::remove_file(lab.path().join("state/dispatch-seen.json")).unwrap();
    lab.exec(&queue("d"))
        .with(1)
        .says("missing dispatch seen ledger");
}

#[test]
fn a_directory_is_made_empty_once() {
    let lab = Lab::new();
    let made = lab.runtime(&["init", "state"]).with(0);
    assert_eq!(made.stdout, "initialized state directory: state\n");
    assert_eq!(lab.view("events.json"), json!([]));
    assert_eq!(lab.view("dispatch.json"), json!({ "records": [] }));
    lab.exec(&queue("r")).with(0);
    lab.runtime(&["init", "state"])
        .with(1)
        .says("holds a runtime's state already");
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 1);
}

#[test]
fn the_native_contract_keeps_its_own_rules() {
    let lab = Lab::new();
    let native = |command: &Value| {
        let command = command.to_string();
        lab.runtime(&["exec", &command, "--state-dir=state", "--contract=native"])
    };
    // Its events are those of the contract, without what the published program adds.
    assert_eq!(
        native(&queue("r")).with(0).stdout,
        "{\n  \"event\": \"DispatchQueued\",\n  \"request_id\": \"r\",\n  \"target\": \"worker\"\n}\n"
    );
    native(&notify("r")).with(1).says("no lease currently held");
    native(&acquire("a", "2020-01-01T00:00:00Z")).with(0);
    native(&notify("r")).with(1).says("has expired");
    native(&acquire("b", "2120-01-01T00:00:00Z")).with(0);
    native(&notify("r")).with(0);
    native(&json!({ "command": "RequestReplay", "cursor": "e1" })).with(0);
    // The contract was said once; it need not be said again.
    let snapshot = lab.snapshot();
    assert_eq!(snapshot["replay"]["pending_events"], 3);
    assert_eq!(
        snapshot["readiness"]["reasons"],
        json!(["replay has 3 pending events"])
    );
    lab.exec(&json!({ "command": "MarkReplayed", "event_id": "e4" }))
        .with(0);
    assert_eq!(lab.snapshot()["replay"]["last_replayed_event_id"], "e4");
    lab.runtime(&["status", "--state-dir=state"])
        .with(0)
        .prints("ready")
        .prints("authority  b (l), until 2120-01-01T00:00:00Z");
}

#[test]
fn called_by_the_published_name_it_is_the_published_program() {
    let lab = Lab::new();
    let named = lab.path().join("omx-runtime");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_runwright"), &named).unwrap();
    let mut by_name = std::process::Command::new(&named);
    let by_name: Ended = by_name.args(["schema", "--json"]).output().unwrap().into();
    let schema = by_name.with(0).json();
    assert_eq!(schema["schema_version"], 1);
    let mut by_variable = lab.command(&["snapshot"]);
    by_variable.env("OMX_RUNTIME_BINARY", env!("CARGO_BIN_EXE_runwright"));
    let by_variable: Ended = by_variable.output().unwrap().into();
    by_variable.with(0).prints("schema=1 authority=owner=none");
}

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
