//! Runs that begin with a part of another: branches, replays, and logs decided again.

use kernel::digest::Digest;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::*;

/// Two steps that write a line each time they run; the second needs a file.
fn two_steps(lab: &Lab) -> String {
    let nodes = [
        script("first", "echo first >> ran; echo one"),
        script("second", "echo second >> ran; cat needed"),
    ];
    lab.workflow(&workflow("two", &nodes, &[("first", "second")]))
}

/// The sequence after an event.
fn behind(events: &[Value], what: impl Fn(&Value) -> bool) -> String {
    let event = events.iter().find(|event| what(event)).unwrap();
    (event["sequence"].as_u64().unwrap() + 1).to_string()
}

/// The content of events, without the id of their run.
pub(crate) fn content(events: &[Value]) -> Vec<Value> {
    let content = |event: &Value| {
        let mut payload = event["payload"].clone();
        if let Some(fields) = payload.as_object_mut() {
            fields.remove("runId");
        }
        json!([
            event["sequence"],
            event["type"],
            event["timestamp"],
            payload
        ])
    };
    events.iter().map(content).collect()
}

#[test]
fn a_branch_continues_from_an_event_and_runs_only_later_nodes() {
    let lab = Lab::new();
    let file = two_steps(&lab);
    lab.call(&["run", &file]).with(1);
    let source = lab.last_run();
    let events = lab.events(&source);
    lab.write("needed", "it is here now");
    let at = behind(&events, is_of("node.completed", "first"));
    lab.call(&["runs", "fork", &source, "--at", &at, "--tag", "again"])
        .with(0)
        .says("branches off")
        .prints("it is here now");
    assert_eq!(lab.read("ran"), "first\nsecond\nsecond\n");
    let branch = lab.last_run();
    assert_ne!(branch, source);
    let own = lab.events(&branch);
    let copied: usize = at.parse().unwrap();
    assert_eq!(content(&own)[..copied], content(&events)[..copied]);
    assert_eq!(own[copied]["type"], "runwright.run.forked");
    lab.call(&["runs", "show", &branch])
        .with(0)
        .prints("branch of")
        .prints("again");
    lab.call(&["runs", "replay", &branch]).with(0);
    lab.call(&["verify"]).with(0);
    // The source is unchanged.
    assert_eq!(lab.events(&source), events);
}

#[test]
fn a_branch_can_be_made_now_and_driven_later() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo ran >> ran"));
    lab.call(&["run", &file]).with(0);
    let made = lab
        .call(&["runs", "fork", "last", "--at", "0", "--detach"])
        .with(0)
        .says("runwright resume");
    assert_eq!(lab.read("ran"), "ran\n");
    lab.call(&["resume", made.stdout.trim()]).with(0);
    assert_eq!(lab.read("ran"), "ran\nran\n");
}

#[test]
fn a_replay_runs_nothing_and_is_the_same_again() {
    let lab = Lab::new();
    let file = two_steps(&lab);
    lab.call(&["run", &file]).with(1);
    let source = lab.last_run();
    let ran = lab.read("ran");
    let replayed = lab
        .call(&["runs", "fork", &source, "--mode", "replay"])
        .with(0)
        .says("without a difference");
    let replay = replayed.stdout.trim().to_owned();
    assert_eq!(lab.read("ran"), ran);
    assert_eq!(content(&lab.events(&replay)), content(&lab.events(&source)));
    let snapshot = lab.call(&["runs", "show", &replay, "--json"]).with(0);
    assert_eq!(snapshot.json()["status"], "failed");
    lab.call(&["runs", "replay", &replay]).with(0);
    lab.call(&["verify"]).with(0);
    lab.call(&["resume"]).with(0).says("no run to resume");
    // Its artifacts are its own: they stay when the source is purged.
    lab.call(&["runs", "purge", &source, "--yes"]).with(0);
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_fork_is_refused_where_there_is_nothing_to_fork() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "echo hi"));
    lab.call(&["run", &file]).with(0);
    let fork = |args: &[&str]| {
        let args: Vec<&str> = ["runs", "fork", "last"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        lab.call(&args).with(2)
    };
    fork(&[]).says("ended with event").says("--at SEQ");
    fork(&["--at", "99"])
        .says("is past the end of the source's log")
        .says("runwright events");
    fork(&["--mode", "replay", "--tag", "x"]).says("remove --tag");
    fork(&["--at", "-1"]);
    lab.call(&["runs", "fork", "nosuch"]).with(2);
    let runs = lab.call(&["runs", "list", "--json"]).with(0);
    assert_eq!(runs.json_lines().len(), 1, "a refusal makes no run");
}

#[test]
fn a_purged_fork_leaves_the_runs_its_source_started() {
    let lab = Lab::new();
    let child = lab.workflow(&one_script("child", "echo hi"));
    let start = node(
        "start",
        "core.subWorkflow",
        json!({ "workflowId": "child" }),
    );
    let file = lab.workflow(&workflow(
        "parent",
        &[start, script("then", "echo done")],
        &[("start", "then")],
    ));
    lab.call(&["run", &file, "--with", &child]).with(0);
    let source = lab.call(&["runs", "list", "--json"]).with(0).json_lines();
    let source = source
        .iter()
        .find(|run| run["workflowId"] == "parent")
        .unwrap();
    let source = source["runId"].as_str().unwrap().to_owned();
    let replay = lab
        .call(&["runs", "fork", &source, "--mode", "replay"])
        .with(0);
    lab.call(&["runs", "purge", replay.stdout.trim(), "--yes"])
        .with(0)
        .says("1 run erased");
    lab.call(&["verify"]).with(0);
    assert_eq!(
        lab.call(&["runs", "list", "--json"])
            .with(0)
            .json_lines()
            .len(),
        2
    );
}

/// A rewritten log with a valid hash chain is detected by deciding it again.
#[test]
fn replay_finds_events_without_a_decision() {
    let lab = Lab::new();
    let mut document = one_script("w", "echo hi");
    document["variables"] = json!([{ "name": "limit", "type": "number", "defaultValue": 1234 }]);
    let file = lab.workflow(&document);
    lab.call(&["run", &file, "--detach"]).with(0);
    lab.call(&["runs", "replay", "last"])
        .with(0)
        .prints("no difference");
    let clean = lab
        .call(&["runs", "replay", "last", "--json"])
        .with(0)
        .json();
    assert_eq!(
        (&clean["events"], &clean["divergence"]),
        (&json!(1), &Value::Null)
    );

    forge(&lab, "\"limit\":1234", "\"limit\":9999");
    lab.call(&["runs", "replay", "last"])
        .with(1)
        .says("decided differently at event 0")
        .says("9999")
        .says("1234");
    let found = lab
        .call(&["runs", "replay", "last", "--json"])
        .with(1)
        .json();
    assert_eq!(found["divergence"]["sequence"], 0);
    assert_eq!(found["divergence"]["kind"], "output");
    // A replay of it continues with the current decision, and reports where it diverged.
    let replay = lab
        .call(&["runs", "fork", "last", "--mode", "replay"])
        .with(1)
        .says("decided differently");
    assert!(!replay.stdout.is_empty());
}

/// Changes the content of the only event of the only run and its hash.
pub(crate) fn forge(lab: &Lab, old: &str, new: &str) {
    let connection = Connection::open(lab.path().join(".runwright/store.db")).unwrap();
    let columns: Vec<(String, String)> = {
        let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
                   WHERE m.type = 'table'";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let find = |text: &str| -> Option<(String, String, Vec<u8>)> {
        columns.iter().find_map(|(table, column)| {
            let sql = format!(
                "SELECT CAST({column} AS BLOB) FROM {table}
                 WHERE instr(CAST({column} AS TEXT), ?1)"
            );
            let bytes = connection.query_row(&sql, [text], |row| row.get(0)).ok()?;
            Some((table.clone(), column.clone(), bytes))
        })
    };
    let (_, _, header) = find("\"genesis\":\"").unwrap();
    let header = String::from_utf8_lossy(&header).into_owned();
    let genesis = header.split("\"genesis\":\"").nth(1).unwrap();
    let genesis: Digest = genesis[..64].parse().unwrap();
    let (table, column, stored) = find("\"type\":\"run.started\"").unwrap();
    // Two bytes of the codec precede the content.
    let (codec, content) = stored.split_at(2);
    let forged = String::from_utf8(content.to_vec())
        .unwrap()
        .replace(old, new);
    assert_ne!(
        forged.as_bytes(),
        content,
        "the test knows what the event says"
    );
    let (before, after) = (genesis.chain(content), genesis.chain(forged.as_bytes()));
    let put = |table: &str, column: &str, old: &[u8], new: &[u8]| -> usize {
        let sql = format!("UPDATE {table} SET {column} = ?2 WHERE CAST({column} AS BLOB) = ?1");
        connection.execute(&sql, [old, new]).unwrap_or(0)
    };
    let new_row: Vec<u8> = codec.iter().copied().chain(forged.bytes()).collect();
    assert_eq!(put(&table, &column, &stored, &new_row), 1);
    let chained: usize = columns
        .iter()
        .map(|(table, column)| put(table, column, &before.0, &after.0))
        .sum();
    assert!(chained > 0, "the test knows where the hash chain lies");
}
