//! Maintenance: expired runs and forks that were cut off are erased.

use std::sync::Arc;
use std::time::Duration;

use kernel::ids::StreamId;
use kernel::run::{Command, Start};
use kernel::stream::ForkMode;
use kernel::time::Timestamp;
use runtime::engine::maintenance::{Cleared, Maintenance, round};
use runtime::{DoorError, Engine, ForkFailed, ForkSpec};
use serde_json::{Value, json};
use store::faults::{FaultyStore, Method, Plan, Strike};
use store::memory::MemoryStore;
use store::{ManualClock, ReadFrom, Store, StoreError};

use crate::engine::{chain, create, definition, engine_on};
use crate::support::Lab;

const DAY: Duration = Duration::from_secs(24 * 3600);
const KEPT: Maintenance = Maintenance {
    retain_finished: Some(DAY),
};
const FOR_EVER: Maintenance = Maintenance {
    retain_finished: None,
};

struct World {
    clock: Arc<ManualClock>,
    store: Arc<FaultyStore>,
    engine: Engine,
    _lab: Lab,
}

fn world() -> World {
    let (clock, lab) = (Arc::new(ManualClock::new(Timestamp(1_000_000))), Lab::new());
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let engine = engine_on(store.clone(), "one", &lab);
    World {
        clock,
        store,
        engine,
        _lab: lab,
    }
}

impl World {
    async fn is_there(&self, run: &StreamId) -> bool {
        match self.store.load_head(run).await {
            Ok(_) => true,
            Err(StoreError::Missing) => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn round(&self, maintenance: Maintenance) -> Cleared {
        round(&self.engine, maintenance)
            .await
            .expect("the store answers")
    }

    /// A waiting run with so long a log that a fork of it takes several appends.
    async fn long(&self) -> StreamId {
        let waits = definition(
            json!([{ "id": "w", "typeId": "core.delay", "config": { "ms": 1_000 } }]),
            json!([]),
        );
        let run = create(&self.engine, &waits, Start::WhenClaimed).await;
        let run = run.header.stream.clone();
        for n in 0..20 {
            let signal = Command::Signal {
                name: "big".into(),
                id: n.to_string(),
                payload: Value::String("x".repeat(1 << 20)),
            };
            let told = self.engine.command(&run, signal.into()).await;
            told.expect("a signal is kept");
        }
        run
    }
}

const NOTHING: Cleared = Cleared {
    expired: 0,
    cut_off: 0,
};

#[tokio::test]
async fn only_expired_streams_are_erased() {
    let world = world();
    world.engine.start();
    let ended = create(&world.engine, &chain(), Start::Now).await;
    let ended = ended.header.stream.clone();
    world.engine.settled(&ended).await.expect("it ends");
    let wait = json!([{ "id": "w", "typeId": "core.delay", "config": { "ms": 999_999_999 } }]);
    let waits = create(&world.engine, &definition(wait, json!([])), Start::Now).await;

    world.clock.advance(DAY - Duration::from_millis(1));
    let young = create(&world.engine, &chain(), Start::Now).await;
    let young = young.header.stream.clone();
    world.engine.settled(&young).await.expect("it ends");
    assert_eq!(world.round(KEPT).await, NOTHING);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.round(FOR_EVER).await, NOTHING);
    let one = Cleared {
        expired: 1,
        cut_off: 0,
    };
    assert_eq!(world.round(KEPT).await, one);
    assert!(!world.is_there(&ended).await);
    let grave = world.store.tombstone(&ended).await.expect("an answer");
    let grave = grave.expect("a tombstone");
    assert_eq!(grave.reason, "its retention is over");
    assert_eq!(grave.next_seq, 8);
    assert!(world.is_there(&young).await);
    assert!(world.is_there(&waits.header.stream).await);
    assert_eq!(world.round(KEPT).await, NOTHING);
}

#[tokio::test]
async fn an_abandoned_fork_is_cleared_and_one_in_progress_is_not() {
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let world = world();
        let source = world.long().await;
        let id = StreamId::new("run-fork");
        let order = |id: &StreamId| ForkSpec {
            id: Some(id.clone()),
            ..ForkSpec::new(mode, Some(20))
        };
        // The definition is read only once.
        let warm = world.engine.fork(&source, order(&"run-warm".into())).await;
        warm.expect("a fork");
        // A live process removes its own failed fork.
        world.store.set_plan(Plan::NthOf {
            method: Method::Append,
            nth: 1,
            strike: Strike::Before,
        });
        let before = world.store.calls().len();
        let failed = world.engine.fork(&source, order(&"run-failed".into()));
        failed.await.expect_err("the store fails");
        let calls = world.store.calls().split_off(before);
        let failed = calls.iter().position(|call| call.strike.is_some());
        let failed = failed.expect("an append that fails") as u64;
        world.store.set_plan(Plan::Never);
        assert!(!world.is_there(&"run-failed".into()).await);

        // The process crashes in the middle of a fork.
        world.store.set_plan(Plan::From {
            nth: failed,
            strike: Strike::Before,
        });
        match world.engine.fork(&source, order(&id)).await {
            Err(ForkFailed::Door(DoorError::Store(StoreError::Unavailable(_)))) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was made"),
        }
        world.store.set_plan(Plan::Never);
        let half = world.engine.door().load(&id).await.expect("a half fork");
        assert!(half.is_forking() && !half.is_settled());
        // Its maker may still be at work.
        assert_eq!(world.round(FOR_EVER).await, NOTHING);
        world.clock.advance(Duration::from_secs(61));
        let one = Cleared {
            expired: 0,
            cut_off: 1,
        };
        assert_eq!(world.round(FOR_EVER).await, one);
        assert!(!world.is_there(&id).await && world.is_there(&source).await);

        let whole = world
            .engine
            .fork(&source, order(&"run-again".into()))
            .await
            .expect("a fork");
        assert!(!whole.run.is_forking());
        let again = StreamId::new("run-again");
        let loaded = world.store.load(&again, ReadFrom::Seq(0), 1).await;
        assert_eq!(loaded.expect("it is there").lease, None);
        world.clock.advance(Duration::from_secs(61));
        assert_eq!(world.round(FOR_EVER).await, NOTHING);
    }
}

#[tokio::test]
async fn a_round_that_was_cut_short_is_made_up_for() {
    let mut nth = 0;
    loop {
        let world = world();
        world.engine.start();
        let mut runs = Vec::new();
        for _ in 0..3 {
            let run = create(&world.engine, &chain(), Start::Now).await;
            world
                .engine
                .settled(&run.header.stream)
                .await
                .expect("it ends");
            runs.push(run.header.stream.clone());
        }
        world.engine.drain(Duration::from_secs(5)).await;
        world.clock.advance(2 * DAY);
        world.store.set_plan(Plan::NthOf {
            method: Method::Purge,
            nth,
            strike: Strike::After,
        });
        let first = round(&world.engine, KEPT).await;
        world.store.set_plan(Plan::Never);
        world.round(KEPT).await;
        for run in &runs {
            assert!(!world.is_there(run).await);
            let grave = world.store.tombstone(run).await.expect("an answer");
            assert!(grave.is_some());
        }
        if first.is_ok() {
            assert_eq!(
                nth, 9,
                "of notes, run and notes again each purge failed once"
            );
            return;
        }
        nth += 1;
    }
}
