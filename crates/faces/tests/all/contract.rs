//! The runtime contract's own document, where it is available: each line of JSON in it is parsed
//! and printed byte for byte, is produced by a coordinator that follows it, and every field of its
//! table is in a snapshot.

use faces::coordinator::{CommandJson, EventJson, SnapshotJson};
use kernel::coordinator::{Contract, Coordinator, CoordinatorCommand, LeaseRule, Recall};
use kernel::time::Timestamp;
use serde_json::Value;

use crate::schemas::shared;

/// The document. `None`, with a named skip, where it is missing.
fn document(test: &str) -> Option<String> {
    let found = shared().and_then(|folder| {
        let documents = std::fs::read_dir(folder.join("seeds")).ok()?;
        let mut texts =
            documents.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        texts.find(|text| text.contains("## Command shapes"))
    });
    if found.is_none() {
        testkit::skip(test, "there is no document of the runtime contract");
    }
    found
}

/// The lines of JSON that have this field first.
fn lines<'a>(document: &'a str, field: &str) -> Vec<&'a str> {
    let begin = format!("{{\"{field}\":");
    let lines = document.lines().filter(|line| line.starts_with(&begin));
    lines.collect()
}

/// Gives a fresh native coordinator these commands, and lists the events in their printed form.
fn live(commands: impl IntoIterator<Item = CoordinatorCommand>) -> (Coordinator, Vec<String>) {
    let now = Timestamp::parse("2026-03-19T01:00:00Z").unwrap();
    let mut coordinator = Coordinator::unborn(&"t".into(), "c", Contract::Native, now);
    let mut printed = Vec::new();
    for command in commands {
        let decision = coordinator
            .decide(&command, &Recall::default(), LeaseRule::Contract, now)
            .unwrap();
        coordinator = decision.after;
        let event = EventJson::from(&decision.event);
        printed.push(serde_json::to_string(&event).unwrap());
    }
    (coordinator, printed)
}

fn command(line: &str) -> CoordinatorCommand {
    CommandJson::parse(line).expect(line).into()
}

#[test]
fn every_line_of_the_contract_is_printed_as_it_is_read() {
    let Some(document) = document("every_line_of_the_contract_is_printed_as_it_is_read") else {
        return;
    };
    let (commands, events) = (lines(&document, "command"), lines(&document, "event"));
    assert_eq!((commands.len(), events.len()), (8, 14));
    for line in &commands {
        let read = CommandJson::parse(line).expect(line);
        assert_eq!(serde_json::to_string(&read).unwrap(), *line);
    }
    for line in &events {
        let read: EventJson = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&read).unwrap(), *line);
    }

    // The effects that the document describes, for a follower: a request that is delivered, one
    // that fails, and a runtime that reports on itself and its workers.
    let failed = |line: &&str| line.contains("MarkFailed");
    let (_, mut happened) = live(
        commands
            .iter()
            .filter(|line| !failed(line))
            .map(|line| command(line)),
    );
    let delivered = |line: &&str| line.contains("MarkDelivered");
    let (_, second) = live(
        commands
            .iter()
            .filter(|line| !delivered(line))
            .map(|line| command(line)),
    );
    happened.extend(second);
    let leads = commands[0].replacen(r#""owner":"w1""#, r#""owner":"leader""#, 1);
    let told = events
        .iter()
        .filter(|line| line.contains('.') && !line.contains("leased"));
    let told = told.map(|line| command(&line.replacen("event", "command", 1)));
    let (_, third) = live(std::iter::once(command(&leads)).chain(told));
    happened.extend(third);
    for line in events {
        assert!(happened.iter().any(|event| event == line), "{line}");
    }
}

#[test]
fn a_live_snapshot_is_that_of_the_contract() {
    let Some(document) = document("a_live_snapshot_is_that_of_the_contract") else {
        return;
    };
    let commands = lines(&document, "command");
    let (coordinator, _) = live([commands[0], commands[2]].map(command));
    let now = Timestamp::parse("2026-03-19T01:00:00Z").unwrap();
    let snapshot = SnapshotJson::from(&coordinator.standing(now, LeaseRule::Contract));
    let printed = serde_json::to_string_pretty(&snapshot).unwrap();
    assert!(
        document.contains(&format!("```json\n{printed}\n```")),
        "{printed}"
    );

    let (_, table) = document.split_once("## Snapshot fields").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let fields: Vec<&str> = (table.lines())
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(fields.len(), 15);
    let shown: Value = serde_json::to_value(&snapshot).unwrap();
    for field in fields {
        let place = format!("/{}", field.replace('.', "/"));
        assert!(shown.pointer(&place).is_some(), "{field}");
    }
}
