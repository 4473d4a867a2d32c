//! Logs cut everywhere: a crash at any batch, a fork at any event, a message that comes twice.

use kernel::fork::ForkError;
use kernel::ids::MessageId;
use kernel::replay;
use kernel::run::event::RunEvent;
use kernel::run::{Command, Run};
use kernel::stream::ForkMode;

use crate::laws;
use crate::scenes::{self, Scene};
use crate::world::World;

/// The run as it was before event `below`; the clock stands at the event before.
fn cut(scene: &Scene, below: usize) -> World {
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
fn a_holder_that_comes_after_any_batch_brings_the_run_to_its_end() {
    for scene in scenes::all() {
        if scene.world.run.is_replay() {
            continue;
        }
        // What a branch copied was never without its fork.
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
    for scene in scenes::all() {
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
fn a_branch_at_any_event_goes_on_to_an_end() {
    for scene in scenes::all() {
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

#[test]
fn a_replay_from_any_event_is_its_source_again() {
    for scene in scenes::all() {
        let len = scene.world.records.len();
        for at in 0..len as u64 {
            let replayed = scene.world.replay(at);
            assert_eq!(replayed.world.records[..len], scene.world.records[..]);
            assert_eq!(replayed.fork.divergence(), None, "{} at {at}", scene.name);
            assert!(replayed.world.run.is_settled());
        }
    }
}

/// What the outbox delivers may come again at any later moment: the log stays as it is.
#[test]
fn a_message_that_comes_again_at_any_moment_changes_nothing() {
    let mut messages = 0;
    for scene in scenes::all() {
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

/// The messages of a batch are lost and sent again with it: what a crash between the decision
/// and its append, and a delivery after it, can make of one.
#[test]
fn messages_have_the_same_id_however_often_they_are_decided() {
    let mut seen = 0;
    for scene in scenes::all()
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
