//! Branches and replays: their cuts, and how they continue.

use kernel::fork::ForkError;
use kernel::limits::MAX_COPY_EVENTS;
use kernel::replay::ReplayError;
use kernel::run::{Command, Create, Overlay, Rejection, RunIndex, Start, decide};
use kernel::stream::ForkMode;
use serde_json::{Map, json};

use crate::notation::lines;
use crate::world::{World, started};

/// The branch's own decisions, from its fork on.
fn own(branch: &World) -> Vec<String> {
    let origin = branch.run.header.origin.as_ref().expect("an origin");
    lines(&branch.events)[origin.seq as usize..].to_vec()
}

fn after(run: &World, line: &str) -> u64 {
    let lines = lines(&run.events);
    lines.iter().position(|found| found == line).expect(line) as u64 + 1
}

#[test]
fn a_branch_continues_after_the_node_it_was_cut_at() {
    let mut run = started("a -> b -> c");
    run.gives("a", json!({ "n": 1 })).decided();
    run.gives("b", json!({ "n": 2 })).decided();
    run.fails("c", "boom").decided();
    let mut branch = run.branch(after(&run, "node.completed b"));
    assert_eq!(own(&branch), ["run.forked 5"]);
    assert!(RunIndex::from_run(&branch.run).runnable);
    branch.advance().then("node.started c");
    branch
        .completes("c")
        .then("node.completed c; run.completed");
    assert_ne!(
        branch.attempt_key("c"),
        run.attempt_key("c"),
        "effects happen again"
    );
}

impl World {
    fn attempt_key(&self, node: &str) -> kernel::ids::AttemptKey {
        let attempt = kernel::ids::AttemptId {
            node: node.into(),
            visit: 0,
            attempt: 0,
        };
        attempt.key(&self.run.header.key_origin())
    }
}

#[test]
fn work_in_flight_restarts_as_the_next_attempt() {
    let run = started("a -> b");
    let mut branch = run.branch(2);
    branch.advance().then("node.started a/1");
    branch
        .completes("a")
        .then("node.completed a/1; node.started b");
}

#[test]
fn a_branch_from_the_start_is_asked_for_anew() {
    let mut run = World::new(crate::flow::plan("a"), Default::default());
    let mut create = Create::new(Map::from_iter([("k".into(), json!(1))]), "rest", Start::Now);
    create.tags = vec!["old".into()];
    run.when(Command::Create(create)).decided();
    let overlay = Overlay {
        tags: Some(vec!["new".into()]),
        ..Overlay::default()
    };
    let forked = run
        .fork_with(ForkMode::Branch, 0, overlay)
        .expect("a branch");
    let mut branch = forked.world;
    assert_eq!(own(&branch), ["run.started"]);
    let facts = branch.run.facts().expect("facts");
    assert_eq!(facts.tags, ["new"]);
    assert_eq!(facts.inputs, json!({ "k": 1 }));
    assert_eq!(facts.started_at, branch.now);
    assert_eq!(branch.run.status().as_str(), "pending");
    branch.drive_to_the_end();
}

#[test]
fn an_overlay_is_for_branches_and_within_bounds() {
    let run = started("a");
    let overlay = |tags: usize| Overlay {
        tags: Some(vec!["t".into(); tags]),
        ..Overlay::default()
    };
    let branch = run
        .fork_with(ForkMode::Branch, 1, overlay(1))
        .expect("a branch");
    assert_eq!(branch.world.run.facts().expect("facts").tags, ["t"]);
    let replay = run.fork_with(ForkMode::Replay, 1, overlay(1));
    assert_eq!(replay.err(), Some(ForkError::OverlayOnReplay));
    for at in [0, 1] {
        let branch = run.fork_with(ForkMode::Branch, at, overlay(101));
        let what = "the list of tags";
        assert_eq!(branch.err(), Some(Rejection::TooLarge { what }.into()));
    }
}

#[test]
fn a_cut_must_exist_and_leave_something_to_do() {
    let mut run = started("a");
    assert_eq!(
        run.fork(ForkMode::Branch, 3).err(),
        Some(ForkError::BeyondLog { at: 3, len: 2 })
    );
    assert_eq!(
        run.fork(ForkMode::Replay, 3).err(),
        Some(ForkError::BeyondLog { at: 3, len: 2 })
    );
    run.completes("a").decided();
    assert_eq!(
        run.fork(ForkMode::Branch, 4).err(),
        Some(ForkError::Ended { seq: 3 })
    );
    assert_eq!(own(&run.branch(3)), ["run.forked 3", "run.completed"]);
}

#[test]
fn the_ending_of_a_run_is_not_cut_through() {
    let mut run = started(
        "a: {\"settings\":{\"retry\":{\"maxRetries\":1,\"initialDelayMs\":0}}}\nask: core.interrupt",
    );
    run.fails("a", "boom").decided();
    run.fails("a", "boom")
        .then("node.failed a boom; run.dead_lettered a x2; node.cancelled ask; run.failed boom");
    let failed = after(&run, "node.failed a boom");
    for at in failed..=failed + 2 {
        let branch = run.branch(at);
        assert_eq!(
            branch.run.header.origin.as_ref().expect("an origin").seq,
            failed
        );
        assert_eq!(
            own(&branch)[1..],
            [
                "run.dead_lettered a x2",
                "node.cancelled ask",
                "run.failed boom"
            ]
        );
    }
    // A run that was cancelled continues as if it had not been.
    let mut run = started("ask: core.interrupt");
    run.cancel().then("node.cancelled ask; run.cancelled");
    let mut branch = run.branch(5);
    assert_eq!(own(&branch), ["run.forked 4"]);
    branch.resolve("ask", json!(1)).decided();
    assert!(branch.run.is_settled());
}

#[test]
fn consequences_that_were_cut_off_follow() {
    let mut run = started("a -> b if output.n > 1\nc");
    run.completes("a")
        .then("node.completed a; run.stopping condition_failed");
    let branch = run.branch(after(&run, "node.completed a"));
    assert_eq!(
        own(&branch)[1..],
        ["node.cancelled c", "run.failed condition_failed"]
    );

    let mut run = started("a: {\"settings\":{\"onFailure\":\"skip\"}}\na -> b none_failed");
    run.fails("a", "boom").decided();
    let branch = run.branch(after(&run, "node.failed a boom"));
    assert_eq!(own(&branch)[1..], ["node.skipped a on_failure"]);
}

#[test]
fn an_interrupt_can_be_cut_through() {
    let mut run = started("ask: core.interrupt {\"config\":{\"key\":\"go\"}}\nask -> b");
    run.signal("go", "1", json!(7)).decided();
    let mut branch = run.branch(after(&run, "interrupt.requested ask"));
    assert_eq!(own(&branch)[1..], ["node.suspended ask"]);
    branch.resolve("ask", json!(8)).decided();

    let branch = run.branch(after(&run, "signal.received go 1"));
    assert_eq!(
        own(&branch)[1..],
        [
            "interrupt.resolved ask = 7",
            "node.resumed ask",
            "node.completed ask",
            "node.started b"
        ]
    );
    // A question is not asked again if its answer would have been copied.
    let answered = own(&branch);
    for line in ["interrupt.resolved ask = 7", "node.resumed ask"] {
        assert_eq!(own(&run.branch(after(&run, line))), answered);
    }
    let mut run = started("ask: core.interrupt\nask -> b");
    run.resolve("ask", json!(7)).decided();
    let asked = after(&run, "node.suspended ask");
    for line in ["interrupt.resolved ask = 7", "node.resumed ask"] {
        let mut branch = run.branch(after(&run, line));
        assert_eq!(own(&branch), [format!("run.forked {asked}")]);
        branch.resolve("ask", json!(8)).then(
            "interrupt.resolved ask = 8; node.resumed ask; node.completed ask; node.started b",
        );
    }
}

#[test]
fn writes_of_a_node_are_not_copied_without_its_end() {
    let run = started(
        "add: core.channelWrite {\"config\":{\"channel\":\"n\",\"value\":5}}\n\
         set: core.setVariable {\"config\":{\"name\":\"v\",\"expression\":\"variables.v + 1\"}}\n\
         add -> set -> b\n\
         workflow: {\"channels\":{\"n\":{\"reducer\":\"counter\"}},\
         \"variables\":[{\"name\":\"v\",\"type\":\"number\",\"defaultValue\":1}]}",
    );
    let cut = |at: u64| {
        let mut branch = run.branch(at);
        branch.drive_to_the_end();
        let facts = branch.run.facts().expect("facts");
        assert_eq!(facts.channels["n"], json!(5), "from {at}");
        assert_eq!(facts.variables["v"], json!(2), "from {at}");
        branch.run.header.origin.as_ref().expect("an origin").seq
    };
    let (added, set) = (
        after(&run, "channel.written n = 5"),
        after(&run, "variable.changed v = 2"),
    );
    for at in 0..=run.records.len() as u64 {
        let expected = match at {
            at if at == added || at == set => at - 1,
            at => at,
        };
        assert_eq!(cut(at), expected);
    }
}

/// The head of a loop used to begin again with the first round.
#[test]
fn the_head_of_a_loop_keeps_its_round() {
    let mut run = started("head: core.loop {\"config\":{\"times\":3}}\nhead.body -> a -> head");
    run.completes("a").decided();
    run.completes("a").decided();
    let mut branch = run.branch(after(&run, "node.started head@2"));
    branch
        .advance()
        .then("node.started head@2/1; node.completed head@2/1 -> body; node.started a@2");
    let index = |run: &World| run.run.facts().expect("facts").nodes[0].status.clone();
    assert_eq!(index(&branch), {
        let mut plain = run.branch(after(&run, "node.completed head@2 -> body"));
        plain.advance().decided();
        index(&plain)
    });
    branch.drive_to_the_end();
    let heads = lines(&branch.events);
    assert_eq!(
        heads
            .iter()
            .filter(|line| line.ends_with("-> body"))
            .count(),
        3
    );
}

#[test]
fn forks_can_be_forked() {
    let mut run = started("a -> b -> c");
    run.completes("a").decided();
    let mut branch = run.branch(4);
    branch.drive_to_the_end();
    for at in 0..branch.records.len() as u64 {
        let mut second = World {
            now: branch.now.plus_ms(1),
            ..branch.clone()
        };
        let fork = second
            .fork(ForkMode::Branch, at)
            .expect("a branch of a branch");
        second = fork.world;
        // The ids of a fork and its fork would be equal in this world.
        second.drive_to_the_end();
        let replayed = branch.replay(at);
        assert_eq!(replayed.world.records, branch.records);
        assert!(
            replayed
                .fork
                .header()
                .origin
                .as_ref()
                .expect("an origin")
                .seq
                >= 4
        );
    }
}

#[test]
fn a_long_fork_is_unowned_until_its_last_append() {
    let mut run = started("a -> b");
    let attempt = run.attempt("a");
    let line = Command::Log {
        attempt,
        level: kernel::run::event::LogLevel::Info,
        message: "x".into(),
    };
    while run.records.len() < 2 * MAX_COPY_EVENTS + 7 {
        let decided = decide(run.run.clone(), &line.clone().into(), run.now).expect("a line");
        run.append(&decided.batch);
        run.run = decided.run;
    }
    let len = run.records.len() as u64;
    let forked = run.fork(ForkMode::Branch, len).expect("a branch");
    assert_eq!(forked.appends, 3);
    assert_eq!(run.replay(0).appends, 3);
    let half = MAX_COPY_EVENTS;
    let mut copying = World::with_header(forked.world.run.header.clone(), run.run.plan.clone());
    let (state, _) = crate::laws::fold(copying.run.clone(), &run.records[..half]);
    copying.run = state;
    let index = RunIndex::from_run(&copying.run);
    assert_eq!((index.runnable, index.status.as_str()), (false, "pending"));
    assert_eq!(copying.run.timers().count(), 0);
    copying.cancel().refused("run_not_found");
    copying.advance().refused("run_not_found");
}

#[test]
fn a_run_the_rules_would_not_start_now_is_not_replayed() {
    let mut run = started("a");
    let needs = r#"workflow: {"settings":{"compensation":{"triggerOn":["failure"]}}}"#;
    run.run.plan = crate::flow::stored(&format!("a\n{needs}"));
    let Some(ForkError::Source(ReplayError::Diverged(left))) = run.fork(ForkMode::Replay, 0).err()
    else {
        panic!("it was replayed");
    };
    assert_eq!((left.seq, left.refused), (0, Some("capability_required")));
    let error = ForkError::Source(ReplayError::Diverged(left));
    assert_eq!(error.code(), "replay_diverged");
}

#[test]
fn logs_of_a_newer_engine_are_neither_driven_nor_forked() {
    let mut run = started("a -> b");
    let header = kernel::stream::StreamHeader {
        engine_version: Some(kernel::ENGINE_VERSIONS.end() + 1),
        ..(*run.run.header).clone()
    };
    run.run.header = header.into();
    let wrote = kernel::ENGINE_VERSIONS.end() + 1;
    assert_eq!(run.run.newer_engine(), Some(wrote));
    let refused = decide(run.run.clone(), &Command::Advance.into(), run.now);
    let refused = refused.expect_err("its rules are not known").rejection;
    assert_eq!(refused, Rejection::NewerEngine { wrote });
    assert_eq!(refused.code(), "engine_version_mismatch");
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let fork = run.fork(mode, 2);
        assert_eq!(
            fork.err(),
            Some(ForkError::Rejected(Rejection::NewerEngine { wrote }))
        );
    }
    assert!(
        run.fork(ForkMode::Branch, 0).is_ok(),
        "it is asked for anew"
    );
}
