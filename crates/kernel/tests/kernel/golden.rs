//! Golden logs: every later build must read the logs of each format version.
//!
//! `tests/golden/v1/NAME.jsonl` has the header and the workflow on its first line and one event on
//! each further line, byte for byte as stored; `NAME.state.json` is the folded state. Files are
//! added and never edited. `RUNWRIGHT_GOLDEN=add` writes the files of new scenes only.

#![expect(
    clippy::disallowed_methods,
    reason = "golden logs lie in files; the kernel itself reads none"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::batch::Record;
use kernel::definition::Plan;
use kernel::json;
use kernel::run::{Event, Run};
use kernel::stream::StreamHeader;
use kernel::{check, replay};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scenarios::{self, Scenario};
use crate::{flow, laws};

#[derive(Serialize, Deserialize)]
struct FirstLine {
    header: StreamHeader,
    definition: Value,
}

struct Golden {
    name: String,
    header: Arc<StreamHeader>,
    plan: Arc<Plan>,
    records: Vec<Record>,
    events: Vec<Event>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn goldens() -> Vec<Golden> {
    if std::env::var("RUNWRIGHT_GOLDEN").as_deref() == Ok("add") {
        scenarios::all().iter().for_each(add);
    }
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the folder of golden logs")
        .map(|entry| entry.expect("an entry").file_name().into_string())
        .filter_map(|name| Some(name.ok()?.strip_suffix(".jsonl")?.to_owned()))
        .collect();
    names.sort();
    names.iter().map(|name| read(name)).collect()
}

fn read(name: &str) -> Golden {
    let text = fs::read_to_string(folder().join(format!("{name}.jsonl"))).expect("a golden log");
    let mut lines = text.lines();
    let first = lines.next().expect("a first line");
    let FirstLine { header, definition } = serde_json::from_str(first).expect("a header");
    let plan = flow::compile_stored(&definition);
    let expected = header.definition.as_ref().expect("a run has a definition");
    assert_eq!(plan.digest, expected.digest, "{name}");
    let mut chain = header.genesis;
    let records: Vec<Record> = lines
        .map(|line| {
            chain = chain.chain(line.as_bytes());
            Record {
                content: line.as_bytes().to_vec(),
                chain,
            }
        })
        .collect();
    let events = records
        .iter()
        .map(|record| serde_json::from_slice(&record.content).expect("an event"))
        .collect();
    Golden {
        name: name.to_owned(),
        header: Arc::new(header),
        plan,
        records,
        events,
    }
}

/// Writes the files of a scene, unless they exist.
fn add(scene: &Scenario) {
    let log = folder().join(format!("{}.jsonl", scene.name));
    if log.exists() {
        return;
    }
    fs::create_dir_all(folder()).expect("the folder of golden logs");
    let first = FirstLine {
        header: (*scene.world.run.header).clone(),
        definition: scene.document.clone(),
    };
    let mut text = String::from_utf8(json::canonical(&first)).expect("JSON is UTF-8");
    for record in &scene.world.records {
        text.push('\n');
        text.push_str(std::str::from_utf8(&record.content).expect("JSON is UTF-8"));
    }
    text.push('\n');
    let log_text = text;
    let state = folder().join(format!("{}.state.json", scene.name));
    let mut text = serde_json::to_string_pretty(&view(&scene.world.run)).expect("JSON");
    text.push('\n');
    // The state first: a log without one would fail the tests that read it.
    put(&state, &text);
    put(&log, &log_text);
}

/// Tests of other processes may read the file at this moment.
fn put(path: &Path, text: &str) {
    let half = path.with_extension(format!("{}.half", std::process::id()));
    fs::write(&half, text).expect("a golden file is written");
    fs::rename(half, path).expect("a golden file is put in place");
}

/// A state in a form that does not depend on the types of this build.
fn view(run: &Run) -> Value {
    let facts = run.facts().expect("a golden log has begun");
    let nodes: serde_json::Map<String, Value> = run
        .plan
        .nodes
        .iter()
        .zip(&facts.nodes)
        .map(|(node, state)| {
            let said = json!({
                "status": state.status.as_str(),
                "visit": state.visit,
                "attempts": state.attempts,
                "retries": state.retries,
            });
            (node.id.to_string(), said)
        })
        .collect();
    let children = facts.children.iter().map(|(id, child)| (id, child.status));
    json!({
        "events": run.head.next_seq,
        "chain": run.head.chain,
        "at": run.head.at,
        "status": run.status().as_str(),
        "end": run.end(),
        "inputs": facts.inputs,
        "variables": facts.variables,
        "channels": facts.channels,
        "tags": facts.tags,
        "metadata": facts.metadata,
        "configurable": facts.configurable,
        "nodes": nodes,
        "executions": facts.executions,
        "interrupts": facts.interrupts.iter().map(|open| &open.id).collect::<Vec<_>>(),
        "signals": facts.inbox.waiting.keys().collect::<Vec<_>>(),
        "children": children.collect::<std::collections::BTreeMap<_, _>>(),
        "timers": facts.timers,
        "spent": facts.budget.spent,
        "reserved": facts.budget.reserved,
        "artifacts": facts.artifacts.iter().map(|(_, a)| &a.artifact_id).collect::<Vec<_>>(),
        "messages": facts.seen,
        "takeovers": facts.takeovers,
    })
}

#[test]
fn golden_logs_are_read_as_they_were_written() {
    for golden in goldens() {
        let name = &golden.name;
        let unborn = Run::unborn(golden.header.clone(), golden.plan.clone());
        let (run, _) = laws::fold(unborn, &golden.records);
        for (record, event) in golden.records.iter().zip(&golden.events) {
            assert_eq!(json::canonical(event), record.content, "{name}");
        }
        let violations = check::check(&golden.header, &golden.plan, &golden.events);
        assert_eq!(violations, [], "{name}");
        let chain = check::verify_chain(&golden.header, &golden.records);
        assert_eq!(chain, Ok(run.head.chain), "{name}");
        let again = replay::verify(&golden.header, &golden.plan, &golden.records);
        let again = again.unwrap_or_else(|error| panic!("{name}: {error}: {error:?}"));
        assert_eq!(again.state, run.state, "{name}");
        let state = fs::read_to_string(folder().join(format!("{name}.state.json")));
        let state: Value = serde_json::from_str(&state.expect("a state")).expect("JSON");
        assert_eq!(view(&run), state, "{name}");
    }
}

/// A rule that decides a scene differently from its golden log changes the meaning of the format,
/// and must be documented.
#[test]
fn scenes_are_still_decided_as_their_golden_logs() {
    let goldens = goldens();
    for scene in scenarios::all() {
        let golden = goldens.iter().find(|golden| golden.name == scene.name);
        let golden = golden.unwrap_or_else(|| {
            panic!(
                "no golden log {}: add it with RUNWRIGHT_GOLDEN=add",
                scene.name
            )
        });
        let text = |records: &[Record]| -> Vec<String> {
            let text = |record: &Record| String::from_utf8_lossy(&record.content).into_owned();
            records.iter().map(text).collect()
        };
        assert_eq!(
            text(&scene.world.records),
            text(&golden.records),
            "{}",
            scene.name
        );
    }
}

#[test]
fn every_event_is_in_a_golden_log() {
    let source = include_str!("../../src/run/event.rs");
    let events = source
        .split("pub enum RunEvent {")
        .nth(1)
        .expect("the enum");
    let events = events.split("\n}\n").next().expect("its end");
    let named: BTreeSet<&str> = events
        .split("#[serde(rename = \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(named.len() > 30, "the enum is read: {named:?}");
    let found: BTreeSet<String> = goldens()
        .iter()
        .flat_map(|golden| {
            golden
                .events
                .iter()
                .map(|event| crate::notation::tag(&event.body))
        })
        .collect();
    let missing: Vec<&&str> = named.iter().filter(|tag| !found.contains(**tag)).collect();
    assert!(missing.is_empty(), "in no golden log: {missing:?}");
}
