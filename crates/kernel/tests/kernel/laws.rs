//! The laws of every batch, for all tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::batch::Record;
use kernel::check;
use kernel::ids::AttemptId;
use kernel::run::decide::{self, Refused};
use kernel::run::event::RunEvent;
use kernel::run::{
    Command, Decided, Driving, Envelope, Event, Outcome, Phase, Run, RunIndex,
    decide as decided_by, schedule,
};
use kernel::time::Timestamp;
use serde_json::Map;

use crate::world::World;

/// Longer logs are checked only now and then against the laws that read a whole log.
const SHORT: usize = 600;

/// The laws of one batch: it equals the fold of its own records, it is decided again from its
/// records, and its columns agree with the state.
pub(crate) fn of_a_batch(world: &World, before: &Run, envelope: &Envelope, decided: &Decided) {
    let batch = &decided.batch;
    assert!(!batch.records().is_empty(), "a batch holds an event");
    assert_eq!(batch.first_seq(), before.head.next_seq);
    assert_eq!(batch.stream(), &before.header.stream);
    assert_eq!(batch.tenant(), before.header.tenant());
    assert_eq!(batch.header().is_some(), batch.first_seq() == 0);

    let (folded, events) = fold(before.clone(), batch.records());
    assert_same(
        &folded,
        &decided.run,
        "the state is the fold of its records",
    );
    for (seq, event) in (batch.first_seq()..).zip(&events) {
        assert_eq!(event.seq, seq, "sequences have no gap");
        assert_eq!(event.at, world.now.max(before.head.at));
        assert_eq!(event.cause.is_some(), seq == batch.first_seq());
    }

    let (rebuilt, at) = Command::from_log(&events).expect("a batch gives its command back");
    assert_eq!(rebuilt.message, envelope.message);
    let again = decided_by(before.clone(), &rebuilt, at)
        .unwrap_or_else(|refused| panic!("not decided again: {:?}", refused.rejection));
    assert_eq!(
        text(again.batch.records()),
        text(batch.records()),
        "the log is decided again"
    );
    assert_eq!(again.batch.records(), batch.records());

    assert_eq!(batch.index(), &RunIndex::from_run(&folded));
    let mut timers = world.timers.clone();
    for change in batch.timers() {
        match change {
            kernel::batch::TimerChange::Set { name, due } => {
                timers.insert(name.clone(), *due);
            }
            kernel::batch::TimerChange::Cancel { name } => {
                assert!(timers.remove(name).is_some(), "{name} was not set");
            }
        }
    }
    let is_whole = batch.records().len() < decide::MAX_BATCH_EVENTS;
    let is_driven = envelope.driving == Driving::Here;
    if is_whole && is_driven && matches!(folded.phase(), Some(Phase::Running)) {
        assert!(
            !schedule::has_startable(&folded),
            "whatever can start has started"
        );
    }
    let owned: BTreeMap<String, Timestamp> = folded
        .timers()
        .map(|(name, due)| (name.to_owned(), due))
        .collect();
    assert_eq!(timers, owned, "timer rows mirror the state");

    let parts: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            RunEvent::ArtifactCreated { artifact, .. } => Some(artifact.parts.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    assert!(
        batch.blobs().starts_with(&parts),
        "a batch refers to the blobs of its artifacts"
    );
}

/// The laws of a whole log: it can be folded in two parts, its chain verifies, a checkpoint is
/// equivalent, and invalid commands leave it unchanged.
pub(crate) fn of_a_log(world: &World) {
    let len = world.records.len();
    if len > SHORT && !len.is_multiple_of(97) && !world.run.is_settled() {
        return;
    }
    let unborn = || Run::unborn(world.run.header.clone(), world.run.plan.clone());
    let (whole, _) = fold(unborn(), &world.records);
    assert_same(&whole, &world.run, "the state is the fold of the log");
    let (first, _) = fold(unborn(), &world.records[..len / 2]);
    if first.head.next_seq > 0 {
        let first = through_a_checkpoint(&first);
        let (both, _) = fold(first, &world.records[len / 2..]);
        assert_same(&both, &whole, "fold(a + b) = fold(fold(a), b)");
    }
    assert_same(
        &through_a_checkpoint(&whole),
        &whole,
        "a checkpoint holds everything",
    );
    nonsense_is_refused(&whole);
    let violations = check::check(&world.run.header, &world.run.plan, &world.events);
    assert_eq!(violations, [], "an independent checker finds nothing");
    let chain = check::verify_chain(&world.run.header, &world.records);
    assert_eq!(chain, Ok(world.run.head.chain), "the chain verifies");
}

/// A rejection leaves the state unchanged.
pub(crate) fn of_a_refusal(before: &Run, refused: &Refused) {
    assert_same(before, &refused.run, "a refusal changes nothing");
}

/// Folds records, which extends and verifies the hash chain.
pub(crate) fn fold(mut run: Run, records: &[Record]) -> (Run, Vec<Event>) {
    let mut events = Vec::new();
    for record in records {
        let event = run
            .fold_content(&record.content)
            .unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(run.head.chain, record.chain, "the chain verifies");
        events.push(event);
    }
    (run, events)
}

/// The state after writing and reading a checkpoint.
pub(crate) fn through_a_checkpoint(run: &Run) -> Run {
    Run::from_checkpoint(
        run.header.clone(),
        run.plan.clone(),
        run.head.next_seq,
        run.head.chain,
        &run.checkpoint(),
    )
    .expect("a checkpoint of this build is read")
}

#[track_caller]
fn assert_same(found: &Run, expected: &Run, law: &str) {
    assert_eq!(found.head, expected.head, "{law}");
    assert_eq!(found.state, expected.state, "{law}");
    assert!(Arc::ptr_eq(&found.header, &expected.header));
}

fn nonsense_is_refused(run: &Run) {
    let attempt = |visit| AttemptId {
        node: run.plan.nodes[0].id.clone(),
        visit,
        attempt: 77,
    };
    let nonsense = [
        Command::Create(kernel::run::Create::new(
            Map::new(),
            "test",
            kernel::run::Start::Now,
        )),
        Command::Finish {
            attempt: attempt(0),
            outcome: Outcome::completed(Map::new()),
        },
        Command::Finish {
            attempt: attempt(77),
            outcome: Outcome::Stopped,
        },
        Command::Fire {
            timer: "timeout/nobody".into(),
        },
        Command::Resolve {
            interrupt: "interrupt-0".into(),
            value: serde_json::Value::Null,
            by: None,
            capacity: Default::default(),
        },
        Command::Reserve {
            attempt: attempt(3),
            amounts: BTreeMap::from([("tokens".into(), 1)]),
            least: None,
        },
    ];
    for command in nonsense {
        match decided_by(run.clone(), &command.into(), run.head.at) {
            Ok(decided) => panic!("nonsense was decided: {:?}", decided.events),
            Err(refused) => of_a_refusal(run, &refused),
        }
    }
}

fn text(records: &[Record]) -> Vec<String> {
    let text = |record: &Record| String::from_utf8_lossy(&record.content).into_owned();
    records.iter().map(text).collect()
}
