//! The engine while the store does not respond.

use std::sync::Arc;
use std::time::Duration;

use kernel::run::Start;
use runtime::EngineOptions;
use serde_json::json;
use store::Store;
use store::faults::{FaultyStore, Method, Plan, Strike};

use crate::engine::{create, definition, engine_on, engine_with, kinds, memory};
use crate::support::{self, Lab};

/// Every append of the driver in turn succeeds with its response lost. None is repeated, no lease
/// is reported lost, and a step that must not be repeated runs once.
#[tokio::test]
async fn an_append_without_an_answer_is_not_made_again() {
    let document = definition(
        json!([{
            "id": "p", "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", "echo said; echo ran >> ran"], "repeat": "once" }
        }]),
        json!([]),
    );
    let mut nth = 0;
    loop {
        let lab = Lab::new();
        let faulty = Arc::new(FaultyStore::new(memory()));
        let store: Arc<dyn Store> = faulty.clone();
        let engine = engine_on(store.clone(), "one", &lab);
        let run = create(&engine, &document, Start::WhenClaimed).await;
        faulty.set_plan(Plan::NthOf {
            method: Method::Append,
            nth,
            strike: Strike::After,
        });
        engine.start();
        let settled = engine.settled(&run.header.stream);
        let end = tokio::time::timeout(support::DEADLINE, settled).await;
        let end = end.expect("it ends in time").expect("a settled run");
        assert_eq!(
            end.status().as_str(),
            "completed",
            "append {nth}: {:?}",
            end.end()
        );
        assert_eq!(
            kinds(&store, &run).await,
            [
                "run.started",
                "node.started p",
                "output.chunk p",
                "node.completed p",
                "run.completed"
            ],
            "append {nth}"
        );
        assert_eq!(lab.read("ran"), "ran\n", "append {nth}");
        engine.drain(Duration::from_secs(5)).await;
        if !faulty.calls().iter().any(|call| call.strike.is_some()) {
            break;
        }
        nth += 1;
    }
    assert!(nth >= 3, "only {nth} appends were met");
}

/// Without leases nothing must be renewed before the engine may end.
#[tokio::test]
async fn an_engine_without_runs_drains_without_waiting_for_a_renewal() {
    let lab = Lab::new();
    let options = EngineOptions {
        lease_ttl: Duration::from_secs(3_600),
        ..EngineOptions::default()
    };
    let engine = engine_with(memory(), options, &lab);
    engine.start();
    let drained = engine.drain(Duration::from_secs(3_600));
    let drained = tokio::time::timeout(support::DEADLINE, drained).await;
    drained.expect("it ends long before the next renewal");
}
