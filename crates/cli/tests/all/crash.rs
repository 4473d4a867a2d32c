//! The state after a `kill -9` of the engine, and how the next `runwright resume` continues.
//!
//! Every process records its start and end in a ledger, and counts the living processes of its
//! attempt. The tests compare the ledger with the log.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::*;

/// A step: records its start and end in the ledger, and the other living processes of its node.
const STEP: &str = r#"
for other in pids/"$NODE".*; do
    pid=${other##*.}
    if tr '\0' '\n' < "/proc/$pid/environ" 2>/dev/null | grep -qx "WF_ATTEMPT_KEY=$WF_ATTEMPT_KEY"; then
        echo "overlap $NODE $pid $$" >> ledger
    fi
done
: > "pids/$NODE.$$"
echo "start $NODE $WF_ATTEMPT_KEY" >> ledger
echo "$NODE works"
# A process of its own, so that a whole tree has to go.
sh -c "$WORK"
echo "end $NODE $WF_ATTEMPT_KEY" >> ledger
rm "pids/$NODE.$$"
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    std::fs::create_dir(lab.path().join("pids")).unwrap();
    lab.write("step.sh", STEP);
    lab
}

fn step(lab: &Lab, id: &str, work: &str) -> Value {
    let env = json!({ "LAB": lab.mark(), "NODE": id, "WORK": work });
    node(
        id,
        "runwright.process",
        json!({ "argv": ["sh", "-eu", "step.sh"], "env": env }),
    )
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    what: String,
    node: String,
    key: String,
}

fn ledger(lab: &Lab) -> Vec<Entry> {
    let text = lab.read("ledger");
    let entries = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_ne!(
            words[0], "overlap",
            "two instances alive at once: {line}\n{text}"
        );
        let [what, node, key] = words[..] else {
            panic!("{line}")
        };
        Entry {
            what: what.into(),
            node: node.into(),
            key: key.into(),
        }
    });
    entries.collect()
}

/// The durable state when the engine was killed.
#[derive(Debug)]
struct Kill {
    completed: BTreeSet<String>,
    /// Nodes with a durable start and no durable end.
    in_flight: BTreeSet<String>,
    /// The length of the ledger once all processes had ended.
    ledger: usize,
    /// The length of the log.
    events: usize,
}

impl Kill {
    /// Checks log and ledger after a kill, once all processes have ended.
    fn look(lab: &Lab, run: &str) -> Self {
        lab.wait_until_quiet();
        let events = lab.events(run);
        let nodes = |kind: &'static str| -> BTreeSet<String> {
            let of_kind = events.iter().filter(|event| event["type"] == kind);
            of_kind
                .map(|event| event["nodeId"].as_str().unwrap().to_owned())
                .collect()
        };
        let completed = nodes("node.completed");
        let in_flight = &nodes("node.started") - &completed;
        Self {
            completed,
            in_flight,
            ledger: ledger(lab).len(),
            events: events.len(),
        }
    }
}

/// Compares the ledger and the log of a finished run with its kills.
fn check(lab: &Lab, run: &str, kills: &[Kill], nodes: usize) {
    let ledger = ledger(lab);
    let events = lab.events(run);
    let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in &ledger {
        keys.entry(&entry.node).or_default().insert(&entry.key);
    }
    assert_eq!(keys.len(), nodes, "every node has run");
    assert!(
        keys.values().all(|keys| keys.len() == 1),
        "a node has one attempt key: {keys:#?}"
    );

    let starts = |entries: &[Entry], node: &str| {
        entries
            .iter()
            .filter(|entry| entry.what == "start" && entry.node == node)
            .count()
    };
    for (i, kill) in kills.iter().enumerate() {
        let next = kills.get(i + 1).map_or(ledger.len(), |next| next.ledger);
        for node in &kill.completed {
            let again = starts(&ledger[kill.ledger..], node);
            assert_eq!(
                again, 0,
                "{node} was completed at kill {i} and started again: {ledger:#?}"
            );
        }
        for node in &kill.in_flight {
            let again = starts(&ledger[kill.ledger..next], node);
            assert!(
                again <= 1,
                "{node} started {again} times after kill {i}: {ledger:#?}"
            );
        }
    }
    for node in keys.keys() {
        let lost = kills
            .iter()
            .filter(|kill| kill.in_flight.contains(*node))
            .count();
        let started = starts(&ledger, node);
        assert!(
            started <= 1 + lost,
            "{node} started {started} times, in flight at {lost} kills"
        );
    }

    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("node.completed"), nodes, "one completion per node");
    let taken_over = kills
        .iter()
        .filter(|kill| !kill.in_flight.is_empty())
        .count();
    assert_eq!(
        count("run.resuming"),
        taken_over,
        "the log shows each crash"
    );
    let restarts: usize = kills.iter().map(|kill| kill.in_flight.len()).sum();
    assert_eq!(
        count("runwright.attempt.restarted"),
        restarts,
        "and what it cost"
    );
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], seq, "no gap");
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "run.completed", "{last}");
    let verified = lab.call(&["verify", "--json"]).with(0).json();
    assert_eq!(verified["findings"], json!([]));
}

/// Run, wait until some nodes have completed and others are in flight, `kill -9`, resume.
#[test]
fn a_killed_run_continues_at_the_end_of_its_log() {
    let lab = lab();
    let quick = "true";
    let (mut gate_c, mut gate_d) = (lab.gate("gate-c"), lab.gate("gate-d"));
    let nodes = [
        step(&lab, "first", quick),
        step(&lab, "a-quick", quick),
        step(&lab, "b-quick", quick),
        step(&lab, "c-gated", "read -r _ < gate-c"),
        step(&lab, "d-gated", "read -r _ < gate-d"),
        step(&lab, "after-a", quick),
        step(&lab, "join", quick),
    ];
    let edges = [
        ("first", "a-quick"),
        ("first", "b-quick"),
        ("first", "c-gated"),
        ("first", "d-gated"),
        ("a-quick", "after-a"),
        ("after-a", "join"),
        ("b-quick", "join"),
        ("c-gated", "join"),
        ("d-gated", "join"),
    ];
    let file = lab.workflow(&workflow("headline", &nodes, &edges));

    let mut engine = lab.engine(&["run", &file]);
    let mut waiting = BTreeSet::from(["a-quick", "b-quick", "after-a", "c-gated", "d-gated"]);
    while !waiting.is_empty() {
        let event = engine.next().expect("the run waits at its gates");
        let node = event["nodeId"].as_str().unwrap_or_default();
        // The gated ones are certainly in flight once they have printed something.
        let done = if node.ends_with("gated") {
            "output.chunk"
        } else {
            "node.completed"
        };
        if event["type"] == done {
            waiting.remove(node);
        }
    }
    let processes = lab.attempts_alive();
    assert!(
        processes.len() >= 4,
        "two scripts and what they wait in: {processes:?}"
    );
    engine.kill();

    processes.into_iter().for_each(wait_until_gone);
    let run = lab.last_run();
    let kill = Kill::look(&lab, &run);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(
        kill.completed,
        names(&["first", "a-quick", "b-quick", "after-a"])
    );
    assert_eq!(kill.in_flight, names(&["c-gated", "d-gated"]));
    assert_eq!(lab.attempts_alive(), [0; 0], "nothing outlives its engine");
    lab.call(&["runs", "show", &run])
        .with(0)
        .prints("is gone")
        .prints("running");

    gate_c.open();
    gate_d.open();
    let resumed = lab.call(&["resume"]).with(0);
    resumed
        .says("2 nodes in flight when its engine ended")
        .says("starts again: it was in flight when its engine ended")
        .says("completed");
    check(&lab, &run, &[kill], nodes.len());

    let restarted: BTreeSet<String> = lab
        .events(&run)
        .iter()
        .filter(|event| event["type"] == "runwright.attempt.restarted")
        .map(|event| event["nodeId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(restarted, names(&["c-gated", "d-gated"]));
    lab.call(&["resume"]).with(0).says("no run to resume");
}

/// Repeated kills at random moments, until the run ends.
#[test]
fn soak_kills_at_any_moment() {
    for seed in testkit::seeds(3, 200) {
        killed_at_any_moment(seed);
    }
}

fn killed_at_any_moment(seed: u64) {
    let mut random = Random::from_seed(seed);
    let lab = lab();
    let mut nodes = vec![step(&lab, "first", "true")];
    let mut edges = Vec::new();
    let names: Vec<String> = (0..12)
        .map(|n| format!("step-{}-{}", n / 3, n % 3))
        .collect();
    for (n, name) in names.iter().enumerate() {
        // Work of no or a short duration.
        let work = format!(
            "head -c {} /dev/urandom | cksum",
            1 << (10 + random.below(14))
        );
        nodes.push(step(&lab, name, &work));
        edges.push((
            if n % 3 == 0 { "first" } else { &names[n - 1] },
            name.as_str(),
        ));
    }
    nodes.push(step(&lab, "join", "true"));
    edges.extend(
        names
            .iter()
            .skip(2)
            .step_by(3)
            .map(|name| (name.as_str(), "join")),
    );
    let file = lab.workflow(&workflow("soak", &nodes, &edges));

    let mut kills = Vec::new();
    let mut engine = lab.engine(&["run", &file]);
    let run = loop {
        let mut left = random.below(14);
        let ended = loop {
            match engine.next() {
                None => break true,
                Some(_) if left == 0 => break false,
                Some(_) => left -= 1,
            }
        };
        if ended {
            break lab.last_run();
        }
        engine.kill();
        let run = lab.last_run();
        kills.push(Kill::look(&lab, &run));
        assert!(kills.len() < 200, "seed {seed}: the run never ends");
        engine = lab.engine(&["resume", "last"]);
    };
    assert_eq!(engine.end().0, 0, "seed {seed}");
    let forward = kills
        .windows(2)
        .all(|pair| pair[0].events <= pair[1].events);
    assert!(forward, "seed {seed}: a log only grows");
    check(&lab, &run, &kills, nodes.len());
}

/// Ctrl-C lets running work end, starts nothing new and leaves the run to a later `resume`.
#[test]
fn an_interrupt_parks_the_run() {
    let lab = lab();
    let nodes = [
        step(&lab, "gated", "read -r _ < gate"),
        step(&lab, "after", "true"),
    ];
    let file = lab.workflow(&workflow("parked", &nodes, &[("gated", "after")]));
    let mut gate = lab.gate("gate");
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    engine.signal(Signal::INT);
    gate.open();
    let (code, snapshot) = engine.end();
    assert_eq!(code, 130);
    assert_eq!(snapshot.unwrap()["status"], "running");
    let run = lab.last_run();
    let events = lab.events(&run);
    let kill = Kill::look(&lab, &run);
    assert_eq!(
        kill.completed.len(),
        1,
        "it could come to its end: {events:#?}"
    );
    assert!(
        !lab.read("ledger").contains("start after"),
        "nothing new was started"
    );
    let starts = events
        .iter()
        .filter(|event| event["type"] == "node.started");
    let starts: Vec<&Value> = starts.map(|event| &event["nodeId"]).collect();
    assert_eq!(starts, ["gated"], "the log says that a node started");

    lab.call(&["resume"]).with(0).says("completed");
    check(&lab, &run, &[kill], 2);
}

/// A second Ctrl-C does not wait; stopped work starts over with the same key.
#[test]
fn a_second_interrupt_stops_at_once() {
    let lab = lab();
    let nodes = [step(&lab, "gated", "read -r _ < gate")];
    let file = lab.workflow(&workflow("stopped", &nodes, &[]));
    let mut gate = lab.gate("gate");
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    engine.signal(Signal::INT);
    engine.signal(Signal::TERM);
    engine.signal(Signal::INT);
    let (code, _) = engine.end();
    assert_eq!(code, 130);
    let run = lab.last_run();
    let kill = Kill::look(&lab, &run);
    assert_eq!(kill.in_flight.len(), 1, "it is still to be done");

    let mut engine = lab.engine(&["resume", &run]);
    engine.wait_for(is("output.chunk"));
    gate.open();
    assert_eq!(engine.end().0, 0);
    check(&lab, &run, &[kill], 1);
}

/// A run with another driver is left alone, and the message names that driver.
#[test]
fn two_engines_do_not_share_a_run() {
    let lab = lab();
    let nodes = [step(&lab, "gated", "read -r _ < gate")];
    let file = lab.workflow(&workflow("held", &nodes, &[]));
    let mut gate = lab.gate("gate");
    let mut engine = lab.engine(&["run", &file]);
    engine.wait_for(is("output.chunk"));
    let pid = format!("driven by process {} of this machine", engine.pid());
    lab.call(&["resume", "last"])
        .with(2)
        .says(&pid)
        .says("runs tail");
    lab.call(&["resume"])
        .with(0)
        .says(&pid)
        .says("no run to resume");
    lab.call(&["runs", "show", "last"]).with(0).prints(&pid);
    gate.open();
    assert_eq!(engine.end().0, 0);
    check(&lab, &lab.last_run(), &[], 1);
}
