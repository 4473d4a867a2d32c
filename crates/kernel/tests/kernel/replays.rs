//! Logs that are decided again, with and without a difference.

use std::sync::Arc;

use kernel::replay::{self, Divergence, ReplayError};
use kernel::run::event::{DivergenceKind, DrainPolicy};
use kernel::run::{NodeError, Outcome};
use serde_json::json;

use crate::flow;
use crate::notation::lines;
use crate::scenarios;
use crate::world::{World, started};

fn verify(run: &World, plan: &str) -> Result<(), Box<Divergence>> {
    match replay::verify(&run.run.header, &flow::plan(plan), &run.records) {
        Ok(_) => Ok(()),
        Err(ReplayError::Diverged(divergence)) => Err(divergence),
        Err(other) => panic!("{other}"),
    }
}

const JOIN: &str = "a -> c any_success\nb -> c any_success";

fn joined() -> World {
    let mut run = started(JOIN);
    run.completes("a").then("node.completed a; node.started c");
    run.completes("b").then("node.completed b");
    run.completes("c").then("node.completed c; run.completed");
    run
}

#[test]
fn a_log_is_decided_again_to_itself() {
    let run = joined();
    assert_eq!(verify(&run, JOIN), Ok(()));
}

/// The rule of an edge represents any rule of the engine: it changes decisions and not
/// observations.
#[test]
fn another_rule_shows_at_the_first_event_it_changes() {
    let run = joined();
    assert_eq!(lines(&run.events)[4], "node.started c");
    let divergence = verify(&run, "a -> c\nb -> c").expect_err("the rule differs");
    assert_eq!(
        (divergence.seq, divergence.kind),
        (4, DivergenceKind::Missing)
    );
    assert!(divergence.expected.is_some() && divergence.actual.is_none());

    let mut run = started("a -> c\nb -> c");
    run.completes("a").decided();
    let divergence = verify(&run, JOIN).expect_err("the rule differs");
    assert_eq!(
        (divergence.seq, divergence.kind),
        (4, DivergenceKind::Extra)
    );
    assert_eq!(
        lines(&[divergence.actual.expect("an event")]),
        ["node.started c"]
    );

    let mut run = started("a -> b");
    run.completes("a").decided();
    let divergence = verify(&run, "a -> b any_failed").expect_err("the rule differs");
    assert_eq!(
        (divergence.seq, divergence.kind),
        (3, DivergenceKind::TypeMismatch)
    );

    let run = started("a\nb: {\"settings\":{\"timeout\":5}}");
    let divergence = verify(&run, "a\nb: {\"settings\":{\"timeout\":6}}").expect_err("it differs");
    assert_eq!(
        (divergence.seq, divergence.kind),
        (2, DivergenceKind::Output)
    );
}

#[test]
fn a_command_that_is_refused_now_is_a_divergence() {
    let mut run = started("a -> b");
    run.completes("a").decided();
    run.completes("b").decided();
    let divergence = verify(&run, "a -> b any_failed").expect_err("b never starts");
    assert_eq!(divergence.seq, 3);
    // With the first difference cut off, the second is a rejection.
    let mut run = started("wait: core.delay {\"config\":{\"ms\":10}}\nb");
    run.next_timer().decided();
    let plan = "wait: core.delay {\"config\":{\"ms\":10}}\nb: {\"disabled\":true}";
    assert_eq!(verify(&run, plan).expect_err("b is disabled").seq, 2);
}

#[test]
fn a_changed_log_does_not_verify() {
    let run = joined();
    let mut records = run.records.clone();
    records[3].chain = records[2].chain;
    let verified = replay::verify(&run.run.header, &run.run.plan, &records);
    assert_eq!(
        verified.expect_err("the chain breaks"),
        ReplayError::Chain(3)
    );

    // A tampered value, with the chain recomputed.
    let mut records = run.records.clone();
    let text = String::from_utf8(records[3].content.clone()).expect("UTF-8");
    records[3].content = text
        .replace("\"durationMs\":0", "\"durationMs\":9")
        .into_bytes();
    let mut chain = run.run.header.genesis;
    for record in &mut records {
        chain = chain.chain(&record.content);
        record.chain = chain;
    }
    let verified = replay::verify(&run.run.header, &run.run.plan, &records);
    match verified.expect_err("nobody decided this") {
        ReplayError::Diverged(divergence) => {
            assert_eq!(
                (divergence.seq, divergence.kind),
                (3, DivergenceKind::Output)
            );
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_replay_is_its_source_again() {
    for scene in scenarios::all() {
        let replayed = scene.world.replay(0);
        let len = scene.world.records.len();
        assert_eq!(
            replayed.world.records[..len],
            scene.world.records[..],
            "{}",
            scene.name
        );
        assert_eq!(replayed.fork.divergence(), None, "{}", scene.name);
        assert!(replayed.world.run.is_settled(), "{}", scene.name);
        assert!(replayed.world.timers.is_empty() && replayed.world.outbox.is_empty());
        let header = &replayed.world.run.header;
        assert_eq!(header.root(), scene.world.run.header.root());
        let again = replay::verify(header, &replayed.world.run.plan, &replayed.world.records);
        assert!(again.is_ok(), "{}: {:?}", scene.name, again.err());
    }
}

#[test]
fn a_replay_refers_to_the_blobs_of_its_source() {
    for scene in scenarios::all() {
        let mut own = scene.world.blobs.clone();
        let definition = scene
            .world
            .run
            .header
            .definition
            .as_ref()
            .expect("a definition");
        own.sort_unstable();
        for at in [0, scene.world.records.len() as u64 - 1] {
            let mut replayed = scene.world.replay(at).world.blobs;
            assert!(replayed.contains(&definition.digest));
            replayed.sort_unstable();
            assert_eq!(replayed, own, "{}", scene.name);
        }
    }
}

/// A run with another plan than its own.
fn changed(run: &World, plan: &str) -> World {
    let mut changed = run.clone();
    changed.run.plan = flow::plan(plan);
    changed
}

#[test]
fn a_diverging_replay_reports_it_and_continues() {
    let replayed = changed(&joined(), "a -> c\nb -> c").replay(0);
    let at = replayed.world.now.plus_ms(0);
    assert_eq!(
        lines(&replayed.world.events),
        [
            "run.started",
            "node.started a",
            "node.started b",
            "replay.diverged 4 missing",
            "node.completed a",
            "node.completed b",
            "node.started c",
            "node.completed c",
            "run.completed",
        ]
    );
    let mut early = replayed.world.events.iter().map(|event| event.at);
    assert!(
        early.all(|event| event < at),
        "a replay has the times of its source"
    );
}

/// The run must exist before its divergence is recorded.
#[test]
fn a_replay_that_diverges_at_once_reports_it_second() {
    let source = started("a: {\"settings\":{\"timeout\":5}}");
    let replayed = changed(&source, "a: {\"settings\":{\"timeout\":6}}").replay(0);
    let divergence = replayed.fork.divergence().expect("the timeout differs");
    assert_eq!(
        (divergence.seq, divergence.kind),
        (1, DivergenceKind::Output)
    );
    assert_eq!(
        lines(&replayed.world.events)[..3],
        ["run.started", "replay.diverged 1 output", "node.started a"]
    );
    assert!(replayed.world.run.is_settled());
    let again = &replayed.world;
    let verified = replay::verify(&again.run.header, &again.run.plan, &again.records);
    assert!(verified.is_ok(), "{:?}", verified.err());
}

#[test]
fn nodes_without_a_source_outcome_fail_in_the_replay() {
    // In the replay both b and c start; the source has an outcome for neither, then ends.
    let mut source = started("a -> b any_failed\na -> c any_failed");
    source.completes("a").decided();
    assert!(source.run.is_settled());
    let replayed = changed(&source, "a -> b\na -> c").replay(0);
    assert_eq!(
        lines(&replayed.world.events)[2..],
        [
            "replay.diverged 3 type-mismatch",
            "node.completed a",
            "node.started b",
            "node.started c",
            "node.failed b replay_source_missing",
            "run.stopping replay_source_missing",
            "node.failed c replay_source_missing",
            "run.failed replay_source_missing",
        ]
    );
}

#[test]
fn a_replay_of_a_run_that_has_not_ended_ends_all_the_same() {
    let mut source = started("ask: core.interrupt\nwait: core.delay {\"config\":{\"ms\":9}}");
    source.signal("nobody", "1", json!(1)).decided();
    let replayed = source.replay(0);
    assert_eq!(replayed.world.run.status().as_str(), "cancelled");
    let reasons: Vec<(String, String)> = replayed
        .world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).expect("an event is JSON"))
        .filter(|event| event["data"]["reason"].is_string())
        .map(|event| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            (text(&event["type"]), text(&event["data"]["reason"]))
        })
        .collect();
    let missing = |kind: &str| (kind.to_owned(), "replay_source_missing".to_owned());
    assert_eq!(
        reasons,
        [
            missing("node.cancelled"),
            missing("node.cancelled"),
            missing("run.cancelled")
        ]
    );
    let replayed = started("a -> h any_failed").replay(0);
    assert_eq!(
        lines(&replayed.world.events)[2..],
        [
            "node.failed a replay_source_missing",
            "node.started h",
            "run.stopping cancelled",
            "node.cancelled h",
            "run.cancelled",
        ]
    );
}

#[test]
fn a_cancellation_before_an_effect_is_not_repeated() {
    let mut source = started("wait: core.delay {\"config\":{\"ms\":9}}\nwait -> effect");
    source.cancel().decided();
    assert_eq!(source.run.status().as_str(), "cancelled");
    let replayed = source.replay(0);
    assert_eq!(
        lines(&replayed.world.events)[2..],
        [
            "replay.diverged 2 missing",
            "node.completed wait",
            "node.started effect",
            "node.failed effect replay_source_missing",
            "run.failed replay_source_missing",
        ]
    );
    let again = &replayed.world;
    let verified = replay::verify(&again.run.header, &again.run.plan, &again.records);
    assert!(verified.is_ok(), "{:?}", verified.err());
    // No event is later than the cancellation that it replaces.
    assert_eq!(again.run.head.at, source.run.head.at);
}

#[test]
fn a_cancellation_during_a_pause_or_between_attempts_before_an_effect_is_not_repeated() {
    let failed = "node.failed effect replay_source_missing";
    let ended = "run.failed replay_source_missing";
    let mut paused = started("wait: core.delay {\"config\":{\"ms\":9}}\nwait -> effect");
    paused.pause(DrainPolicy::Immediate).decided();
    paused.cancel().decided();
    let mut between = started("a -> effect");
    between.pause(DrainPolicy::DrainCurrentNode).decided();
    between.completes("a").decided();
    between.cancel().decided();
    let text = "effect: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}";
    let mut waiting = started(text);
    let boom = NodeError::new("boom", "as the test says");
    waiting.finish("effect", Outcome::failed(boom)).decided();
    waiting.cancel().decided();
    for source in [paused, between, waiting] {
        assert_eq!(source.run.status().as_str(), "cancelled");
        let replayed = source.replay(0);
        let lines = lines(&replayed.world.events);
        assert!(lines.iter().any(|line| line == failed), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some(ended), "{lines:?}");
        let again = &replayed.world;
        let verified = replay::verify(&again.run.header, &again.run.plan, &again.records);
        assert!(verified.is_ok(), "{:?}", verified.err());
    }
}

#[test]
fn a_cancellation_at_a_gate_before_an_effect_is_not_repeated() {
    for text in [
        "ask: core.interrupt\nask -> effect",
        "ask: core.interrupt\nask -> wait\nwait: core.delay {\"config\":{\"ms\":9}}\nwait -> effect",
        "ask: core.interrupt\nask -> s\ns: core.subWorkflow {\"config\":{\"workflowId\":\"c\"}}",
    ] {
        let mut source = started(text);
        source.cancel().decided();
        let replayed = source.replay(0);
        let again = &replayed.world;
        let lines = lines(&again.events);
        let ends = [
            "replay.diverged 4 missing",
            "node.cancelled ask",
            "run.failed replay_source_missing",
        ];
        assert_eq!(lines[lines.len() - 3..], ends, "{lines:?}");
        let verified = replay::verify(&again.run.header, &again.run.plan, &again.records);
        assert!(verified.is_ok(), "{:?}", verified.err());
    }
}

#[test]
fn other_cancellations_are_repeated() {
    for text in [
        "wait: core.delay {\"config\":{\"ms\":9}}",
        "ask: core.interrupt",
        "effect",
    ] {
        let mut source = started(text);
        source.cancel().decided();
        if text == "effect" {
            source.stopped("effect").decided();
        }
        let replayed = source.replay(0);
        assert!(replayed.fork.divergence().is_none(), "{text}");
        assert_eq!(replayed.world.records, source.records, "{text}");
    }
}

#[test]
fn two_replays_of_one_source_are_equal() {
    let changed = changed(&joined(), "a -> c\nb -> c");
    let (mut other, first) = (changed.clone(), changed.replay(0).world.records);
    other.now = other.now.plus_ms(5_000_000);
    assert_eq!(other.replay(0).world.records, first);
    assert!(Arc::strong_count(&changed.run.plan) > 0);
}

/// A replay of a run that waits.
pub(crate) fn unfinished() -> scenarios::Scenario {
    let document = flow::document("ask: core.interrupt\nwait: core.delay {\"config\":{\"ms\":9}}");
    let mut source = World::new(flow::compile(&document), Default::default());
    let create = kernel::run::Create::new(Default::default(), "test", kernel::run::Start::Now);
    source.when(kernel::run::Command::Create(create)).decided();
    scenarios::Scenario {
        name: "replay-unfinished",
        document,
        world: source.replay(0).world,
    }
}

/// A replay of a run that was cancelled at a gate before an effect.
pub(crate) fn cut() -> scenarios::Scenario {
    let document = flow::document("ask: core.interrupt\nask -> effect");
    let mut source = World::new(flow::compile(&document), Default::default());
    let create = kernel::run::Create::new(Default::default(), "test", kernel::run::Start::Now);
    source.when(kernel::run::Command::Create(create)).decided();
    source.cancel().decided();
    scenarios::Scenario {
        name: "replay-cut",
        document,
        world: source.replay(0).world,
    }
}
