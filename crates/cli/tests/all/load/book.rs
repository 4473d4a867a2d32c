//! The events that a watcher received, compared with the final state.

use std::collections::{BTreeMap, BTreeSet};

use kernel::ids::{AttemptId, StreamId};
use serde_json::{Value, json};

use crate::support::*;

/// All acknowledgements to the parent of the engines.
#[derive(Default)]
pub(super) struct Book {
    /// Runs with an acknowledged creation.
    pub(super) created: BTreeSet<String>,
    /// Runs with an acknowledged cancellation.
    pub(super) cancelled: BTreeSet<String>,
    /// Run and id of each acknowledged signal.
    pub(super) signals: BTreeSet<(String, String)>,
    /// Events that an engine has shown as durable, by run and sequence.
    events: BTreeMap<(String, u64), Value>,
    /// The length of the ledger when the completion of an attempt was shown, by attempt key.
    completed: BTreeMap<String, usize>,
    /// Engines killed while driving.
    pub(super) kills: usize,
}

/// The final figures of the store and the ledger.
#[derive(Default, Debug)]
pub(super) struct Figures {
    pub(super) kills: usize,
    pub(super) runs: usize,
    pub(super) events: usize,
    pub(super) shown: usize,
    pub(super) starts: usize,
    pub(super) restarts: usize,
}

impl Figures {
    pub(super) fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.runs += other.runs;
        self.events += other.events;
        self.shown += other.shown;
        self.starts += other.starts;
        self.restarts += other.restarts;
    }
}

/// The lines of the ledger: kind and attempt key.
fn ledger(lab: &Lab) -> Vec<(String, String)> {
    let text = lab.read("ledger");
    let entry = |line: &str| {
        let (what, key) = line.split_once(' ').unwrap_or((line, ""));
        assert_ne!(what, "overlap", "two instances alive at once: {line}");
        (what.to_owned(), key.to_owned())
    };
    text.lines().map(entry).collect()
}

/// The key of an event's attempt.
fn key_of(event: &Value) -> Option<String> {
    let payload = &event["payload"];
    let number = |name: &str| {
        payload[name]
            .as_u64()
            .map(|n| u32::try_from(n).expect("a small number"))
    };
    let attempt = AttemptId {
        node: payload["nodeId"].as_str()?.into(),
        visit: number("visit").unwrap_or(0),
        attempt: number("attempt")?,
    };
    let run: StreamId = event["runId"].as_str()?.into();
    Some(attempt.key(&run).to_string())
}

impl Book {
    /// Records a line that an engine printed.
    pub(super) fn shown(&mut self, lab: &Lab, event: &Value) {
        let (Some(run), Some(seq)) = (event["runId"].as_str(), event["sequence"].as_u64()) else {
            return;
        };
        if event["type"] == "node.completed"
            && let Some(key) = key_of(event)
        {
            let lines = lab.read("ledger").lines().count();
            self.completed.entry(key).or_insert(lines);
        }
        let place = (run.to_owned(), seq);
        let earlier = self.events.entry(place).or_insert_with(|| event.clone());
        assert_eq!(earlier, event, "one place in a log, one event");
    }

    /// Compares everything with the logs and the ledger, once every run should have ended.
    pub(super) fn check(&self, lab: &Lab) -> Figures {
        let listed = lab.call(&["runs", "list", "--limit", "5000", "--json"]);
        let rows = listed.with(0).json_lines();
        let ids: BTreeSet<String> = rows
            .iter()
            .map(|row| row["runId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids.len(), rows.len());
        for run in &self.created {
            assert!(ids.contains(run), "{run} was created and is not there");
        }
        let mut figures = Figures {
            kills: self.kills,
            runs: rows.len(),
            shown: self.events.len(),
            ..Figures::default()
        };
        let mut allowed = BTreeMap::new();
        let mut found = BTreeMap::new();
        for row in &rows {
            assert_eq!(row["settled"], true, "it never ended: {row}");
            let run = row["runId"].as_str().unwrap();
            let events = lab.events(run);
            figures.events += events.len();
            self.check_log(run, row, &events, &mut allowed);
            for event in events {
                found.insert((run.to_owned(), event["sequence"].as_u64().unwrap()), event);
            }
        }
        for (place, event) in &self.events {
            assert_eq!(found.get(place), Some(event), "shown as durable: {place:?}");
        }
        figures.restarts = allowed.values().map(|starts| starts - 1).sum();
        figures.starts = self.check_ledger(lab, &allowed, &found);
        let verified = lab.call(&["verify", "--json"]).with(0).json();
        assert_eq!(verified["findings"], json!([]));
        assert_eq!(lab.attempts_alive(), [0; 0], "nothing is left running");
        figures
    }

    fn check_log(
        &self,
        run: &str,
        row: &Value,
        events: &[Value],
        allowed: &mut BTreeMap<String, usize>,
    ) {
        assert_eq!(row["events"], events.len(), "the index knows its log");
        for (seq, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], seq, "no gap and no duplicate in {run}");
        }
        let last = events.last().expect("a run has events");
        let wanted: &[&str] = match self.cancelled.contains(run) {
            true => &["run.cancelled"],
            // A child is cancelled with its parent.
            false if row["parentRunId"].is_string() => &["run.completed", "run.cancelled"],
            false => &["run.completed"],
        };
        assert!(wanted.iter().any(|end| last["type"] == *end), "{last}");
        let (mut started, mut completed) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            match event["type"].as_str().unwrap() {
                "node.started" => {
                    let key = key_of(event).expect("a start names its attempt");
                    assert!(started.insert(key.clone()), "started twice: {event}");
                    if event["payload"]["typeId"] == "runwright.process" {
                        allowed.insert(key, 1);
                    }
                }
                "runwright.attempt.restarted" => {
                    let key = key_of(event).expect("a restart names its attempt");
                    assert!(started.contains(&key), "restarted but not started: {event}");
                    allowed.entry(key).and_modify(|starts| *starts += 1);
                    assert!(event["payload"]["restarts"].as_u64().unwrap() <= self.kills as u64);
                }
                "node.completed" => {
                    let key = key_of(event).expect("a completion names its attempt");
                    assert!(completed.insert(key), "completed twice: {event}");
                }
                _ => {}
            }
        }
        for (of, id) in self.signals.iter().filter(|(of, _)| of == run) {
            let is_it = |event: &&Value| {
                event["type"] == "runwright.signal.received" && event["payload"]["id"] == *id
            };
            let times = events.iter().filter(is_it).count();
            assert_eq!(times, 1, "the signal {id} of {of}");
        }
    }

    /// Each attempt started as often as its log allows, and never after its completion was shown;
    /// each completed one finished. Returns the number of starts.
    fn check_ledger(
        &self,
        lab: &Lab,
        allowed: &BTreeMap<String, usize>,
        found: &BTreeMap<(String, u64), Value>,
    ) -> usize {
        let ledger = ledger(lab);
        let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ends = BTreeSet::new();
        for (line, (what, key)) in ledger.iter().enumerate() {
            if what == "end" {
                ends.insert(key.as_str());
            }
            if what != "start" {
                continue;
            }
            *starts.entry(key).or_default() += 1;
            let over = self.completed.get(key);
            assert!(
                over.is_none_or(|lines| line < *lines),
                "{key} started again after its completion was durable"
            );
        }
        for (key, times) in &starts {
            let allowed = allowed.get(*key).copied().unwrap_or(0);
            assert!(
                *times <= allowed,
                "{key} started {times} times, its log says {allowed}"
            );
        }
        for event in found.values() {
            let Some(key) = key_of(event).filter(|key| allowed.contains_key(key)) else {
                continue;
            };
            if event["type"] == "node.completed" {
                assert!(
                    ends.contains(key.as_str()),
                    "it never did its work: {event}"
                );
            }
        }
        starts.values().sum()
    }
}
