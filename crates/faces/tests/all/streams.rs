//! The events shown by each stream mode: the protocol's table, over every kind of event.

use std::collections::BTreeSet;

use faces::Mask;
use faces::openwop::v1::{self, StreamModes};
use kernel::run::event::OutputChannel;
use kernel::run::{Event, RunEvent};

use crate::samples;

const RUN: [&str; 6] = [
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.paused",
    "run.resumed",
];
const NODE: [&str; 7] = [
    "node.completed",
    "node.failed",
    "node.skipped",
    "node.cancelled",
    "node.suspended",
    "node.resumed",
    "node.dispatched",
];

/// The modes of a kind by the protocol's table; unlisted kinds are for `debug` only.
fn by_the_table(event: &Event, kind: &str) -> BTreeSet<&'static str> {
    let asks = ["approval.", "clarification.", "interrupt."];
    let is_update = RUN.contains(&kind)
        || NODE.contains(&kind)
        || asks.iter().any(|root| kind.starts_with(root))
        || kind == "artifact.created";
    let is_text = matches!(
        event.body,
        RunEvent::OutputChunk {
            channel: OutputChannel::Text,
            ..
        }
    );
    let modes = [
        ("debug", true),
        ("updates", is_update),
        ("values", is_update || kind == "node.started"),
        ("messages", is_text),
    ];
    let shown = modes.into_iter().filter(|(_, shown)| *shown);
    shown.map(|(mode, _)| mode).collect()
}

#[test]
fn every_kind_of_event_is_shown_by_the_modes_of_the_table() {
    let header = samples::header();
    let mut seen = BTreeSet::new();
    for event in samples::log() {
        let doc = v1::event(&header, Mask::bare(), &event);
        let kind = doc["type"].as_str().expect("a type");
        seen.insert(kind.to_owned());
        let admits = |mode: &&str| {
            let modes = StreamModes::parse(mode).expect("a mode");
            modes.admitting(&event.body).is_some()
        };
        let modes = ["updates", "values", "messages", "debug"];
        let shown: BTreeSet<&str> = modes.into_iter().filter(admits).collect();
        assert_eq!(shown, by_the_table(&event, kind), "{kind}");
    }
    let all: BTreeSet<String> = v1::EVENT_TYPES.iter().map(|&t| t.to_owned()).collect();
    assert_eq!(seen, all, "the samples have every kind");
}
