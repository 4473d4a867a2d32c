//! Logs cut everywhere: a crash at any batch, a fork at any event, a repeated message.

use std::collections::BTreeMap;

use kernel::fork::ForkError;
use kernel::ids::MessageId;
use kernel::replay;
use kernel::run::event::RunEvent;
use kernel::run::{Command, Event, Run};
use kernel::stream::ForkMode;

use crate::laws;
use crate::scenarios::{self, Scenario};
use crate::world::World;

/// The run before event `below`; the clock shows the time of the event before.
fn cut(scene: &Scenario, below: usize) -> World {
    let source = &scene.world;
    let mut world = World::with_header(source.run.header.clone(), source.run.plan.clone());
    let (run, events) = laws::fold(world.run.clone(), &source.records[..below]);
    world.now = run.head.at;
    world.timers = run
        .timers()
        .map(|(name, due)| (name.to_owned(), due))
        .collect();
    world.run = run;
    world.records = source.records[..below].to_vec();
    world.events = events;
    world
}

#[test]
fn a_new_holder_after_any_batch_ends_the_run() {
    for scene in scenarios::all() {
        if scene.world.run.is_replay() {
            continue;
        }
        // The copied part of a branch always includes its fork.
        let own = scene
            .world
            .run
            .header
            .origin
            .as_ref()
            .map_or(0, |origin| origin.seq);
        for &at in scene.world.batches.iter().filter(|at| **at > own) {
            let mut world = cut(&scene, at as usize);
            world.drive_to_the_end();
            let verified = replay::verify(&world.run.header, &world.run.plan, &world.records);
            assert!(
                verified.is_ok(),
                "{} at {at}: {:?}",
                scene.name,
                verified.err()
            );
        }
    }
}

#[test]
fn a_log_cut_at_any_event_folds_and_is_legal() {
    for scene in scenarios::all() {
        for below in 1..=scene.world.records.len() {
            let world = cut(&scene, below);
            laws::of_a_log(&world);
            let rest = &scene.world.records[below..];
            let (run, _) = laws::fold(world.run, rest);
            assert_eq!(
                run.state, scene.world.run.state,
                "{} at {below}",
                scene.name
            );
        }
    }
}

#[test]
fn a_branch_at_any_event_reaches_an_end() {
    for scene in scenarios::all() {
        for at in 0..=scene.world.records.len() as u64 {
            let mut branch = match scene.world.fork(ForkMode::Branch, at) {
                Ok(forked) => forked.world,
                Err(ForkError::Ended { seq }) if seq + 1 == at => continue,
                Err(error) => panic!("{} at {at}: {error}", scene.name),
            };
            branch.drive_to_the_end();
            let verified = replay::verify(&branch.run.header, &branch.run.plan, &branch.records);
            assert!(
                verified.is_ok(),
                "{} at {at}: {:?}",
                scene.name,
                verified.err()
            );
        }
    }
}

/// How often each visit of a node wrote and was answered, and how often each child reported.
fn doings(log: &[Event]) -> BTreeMap<(String, u32, &'static str), u32> {
    let mut visits = BTreeMap::new();
    let mut doings = BTreeMap::new();
    for event in log {
        let (node, what) = match &event.body {
            RunEvent::NodeStarted { node_id, visit, .. } => {
                visits.insert(node_id.to_string(), *visit);
                continue;
            }
            RunEvent::ChannelWritten {
                node_id: Some(node),
                ..
            } => (node, "written"),
            RunEvent::VariableChanged {
                node_id: Some(node),
                ..
            } => (node, "changed"),
            RunEvent::InterruptResolved { node_id, .. } => (node_id, "answered"),
            RunEvent::ApprovalReceived { node_id, .. } => (node_id, "received"),
            RunEvent::ChildSettled { child_run_id, .. } => {
                let child = format!("child {child_run_id}");
                *doings.entry((child, 0, "settled")).or_default() += 1;
                continue;
            }
            _ => continue,
        };
        let visit = visits.get(node.as_str()).copied().unwrap_or_default();
        *doings.entry((node.to_string(), visit, what)).or_default() += 1;
    }
    doings
}

/// The effects of a step are copied together with the step's end, or not at all: a branch from the
/// middle of a batch repeats none of them. (Between batches a node may be at work: it starts over,
/// with all its questions.)
#[test]
fn no_branch_does_a_step_twice() {
    let (mut cut_back, mut kept) = (0, 0);
    for scene in scenarios::all() {
        let source = doings(&scene.world.events);
        let amid = |at: &u64| !scene.world.batches.contains(at);
        for at in (1..scene.world.records.len() as u64).filter(amid) {
            let Ok(forked) = scene.world.fork(ForkMode::Branch, at) else {
                continue;
            };
            let mut branch = forked.world;
            let cut = branch.run.header.origin.as_ref().expect("an origin").seq;
            cut_back += u32::from(cut < at);
            let begin = scene.world.batches.iter().filter(|begin| **begin <= cut);
            let begin = begin.max().copied().unwrap_or_default() as usize;
            let before = doings(&scene.world.events[..begin]);
            let copied = doings(&scene.world.events[..cut as usize]);
            branch.drive_to_the_end();
            let done = doings(&branch.events);
            for step in copied
                .iter()
                .filter(|(step, times)| before.get(*step) != Some(times))
            {
                let (step, _) = step;
                // Later repetitions of the source may differ in the branch.
                let (done, at_most) = (done.get(step), source.get(step));
                assert!(
                    done <= at_most,
                    "{} from {at}: {step:?} {done:?}, in the source {at_most:?}",
                    scene.name
                );
                kept += 1;
            }
        }
    }
    assert!(kept > 20, "some batches are cut behind a step: {kept}");
    assert!(
        cut_back > 20,
        "the scenes have steps to cut through: {cut_back}"
    );
}

#[test]
fn a_replay_from_any_event_is_its_source_again() {
    for scene in scenarios::all() {
        let len = scene.world.records.len();
        for at in 0..len as u64 {
            let replayed = scene.world.replay(at);
            assert_eq!(replayed.world.records[..len], scene.world.records[..]);
            assert_eq!(replayed.fork.divergence(), None, "{} at {at}", scene.name);
            assert!(replayed.world.run.is_settled());
        }
    }
}

/// A run can be replayed at any time: waits after the end of its log are cancelled, including
/// children, and the replay completes.
#[test]
fn a_replay_of_a_run_that_is_under_way_ends() {
    let mut with_children = 0;
    for scene in scenarios::all() {
        if scene.world.run.is_replay() {
            continue;
        }
        let origin = scene.world.run.header.origin.as_ref();
        let own = origin.map_or(0, |origin| origin.seq);
        for &at in scene.world.batches.iter().filter(|at| **at > own) {
            let source = cut(&scene, at as usize);
            let children = source.run.facts().map(|facts| &facts.children);
            let running = children.into_iter().flatten();
            let is_parent = running.filter(|(_, child)| child.status.is_none()).count() > 0;
            with_children += u32::from(is_parent);
            let replayed = source.replay(own);
            assert!(replayed.world.run.is_settled(), "{} at {at}", scene.name);
            assert_eq!(replayed.fork.divergence(), None, "{} at {at}", scene.name);
        }
    }
    assert!(
        with_children > 5,
        "some of them have children: {with_children}"
    );
}

/// The outbox may deliver a message again at any later time: the log does not change.
#[test]
fn a_message_that_comes_again_at_any_moment_changes_nothing() {
    let mut messages = 0;
    for scene in scenarios::all() {
        for (seq, event) in scene.world.events.iter().enumerate() {
            let message = event.cause.as_ref().and_then(|cause| cause.message.clone());
            let Some(message) = message else { continue };
            messages += 1;
            let batch: Vec<_> = scene.world.events[seq..]
                .iter()
                .take_while(|other| other.seq == event.seq || other.cause.is_none())
                .cloned()
                .collect();
            let (envelope, _) = Command::from_log(&batch).expect("a command");
            assert_eq!(envelope.message, Some(message));
            let after = scene.world.batches.iter().filter(|at| **at > event.seq);
            let len = scene.world.records.len() as u64;
            for at in after.copied().chain([len]) {
                let mut world = cut(&scene, at as usize);
                let code = match (&envelope.command, world.run.is_settled()) {
                    (Command::Create(_), _) => "run_exists",
                    (_, true) => "run_terminal",
                    (_, false) => "duplicate",
                };
                world.when(envelope.clone()).refused(code);
            }
        }
    }
    assert!(messages >= 3, "some scenes have messages");
}

/// The messages of a batch are lost and sent again with it, as by a crash between the decision and
/// its append, followed by a delivery.
#[test]
fn messages_have_the_same_id_however_often_they_are_decided() {
    let mut seen = 0;
    for scene in scenarios::all()
        .iter()
        .filter(|scene| !scene.world.run.is_replay())
    {
        let own = scene
            .world
            .run
            .header
            .origin
            .as_ref()
            .map_or(0, |origin| origin.seq);
        for &at in scene.world.batches.iter().filter(|at| **at >= own) {
            let ids = |run: Run| -> Vec<MessageId> {
                let batch: Vec<_> = scene.world.events[at as usize..]
                    .iter()
                    .take_while(|event| event.seq == at || event.cause.is_none())
                    .cloned()
                    .collect();
                let (envelope, now) = Command::from_log(&batch).expect("a command");
                let decided = kernel::run::decide(run, &envelope, now).expect("it was decided");
                decided
                    .batch
                    .outbox()
                    .iter()
                    .map(|message| message.id.clone())
                    .collect()
            };
            let before = cut(scene, at as usize).run;
            let first = ids(before.clone());
            assert_eq!(ids(before), first);
            seen += first.len();
        }
        let ended = scene.world.events.last().expect("an event");
        if matches!(ended.body, RunEvent::RunCompleted { .. }) {
            assert!(scene.world.run.is_settled());
        }
    }
    assert!(seen >= 2, "some scenes send messages");
}
