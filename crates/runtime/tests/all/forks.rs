//! Forks through the engine: a branch is driven, a replay is not.

use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::fork::ForkError;
use kernel::run::{Command, Rejection, Start};
use kernel::stream::ForkMode;
use runtime::{DoorError, ForkFailed, ForkSpec};
use serde_json::json;
use store::{DueQuery, ReadFrom};

use crate::engine::{chain, create, definition, engine_on, kinds, memory};
use crate::support::Lab;

fn branch(at: u64) -> ForkSpec {
    ForkSpec::new(ForkMode::Branch, Some(at))
}

fn replay() -> ForkSpec {
    ForkSpec::new(ForkMode::Replay, None)
}

/// A process that appends a line to `ran` each time it runs.
fn steps() -> Vec<u8> {
    let step = |id: &str| {
        json!({
            "id": id, "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", format!("echo {id} >> ran")] }
        })
    };
    let edges = json!([{ "id": "ab", "sourceNodeId": "a", "targetNodeId": "b" }]);
    definition(json!([step("a"), step("b")]), edges)
}

#[tokio::test]
async fn a_branch_is_driven_and_a_replay_is_not() {
    let (store, lab) = (memory(), Lab::new());
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let source = create(&engine, &steps(), Start::Now).await;
    let id = source.header.stream.clone();
    engine.settled(&id).await.expect("a settled run");
    let ran = || std::fs::read_to_string(lab.work().join("ran")).expect("the file");
    assert_eq!(ran(), "a\nb\n");

    let before = kinds(&store, &source).await;
    let replayed = engine.fork(&id, replay()).await.expect("a replay");
    assert!(replayed.run.is_settled() && replayed.divergence.is_none());
    assert_eq!(kinds(&store, &replayed.run).await, before);
    assert_eq!(ran(), "a\nb\n", "a replay runs nothing");

    let behind_a = before.iter().position(|kind| kind == "node.completed a");
    let at = behind_a.expect("a completes") as u64 + 1;
    let branched = engine.fork(&id, branch(at)).await.expect("a branch");
    let end = engine.settled(&branched.run.header.stream).await;
    assert_eq!(end.expect("a settled run").status().as_str(), "completed");
    assert_eq!(ran(), "a\nb\nb\n", "a branch runs what follows");
    assert_eq!(kinds(&store, &source).await, before);
    engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_replay_of_a_waiting_run_is_not_due_and_takes_no_command() {
    let (store, lab) = (memory(), Lab::new());
    let engine = engine_on(store.clone(), "one", &lab);
    let delay = json!([{ "id": "d", "typeId": "core.delay", "config": { "ms": 1 } }]);
    let source = create(&engine, &definition(delay, json!([])), Start::WhenClaimed).await;
    let id = source.header.stream.clone();
    let advance = Command::Advance.into();
    engine
        .door()
        .transact(&id, &advance)
        .await
        .expect("it starts");

    let replayed = engine.fork(&id, replay()).await.expect("a replay");
    let replay = replayed.run.header.stream.clone();
    let due = store
        .due(DueQuery {
            queue: "default".into(),
            limit: 10,
        })
        .await;
    let due = due.expect("the queue").ready;
    assert!(due.iter().all(|due| due.stream != replay), "{due:?}");
    let cancel = Command::Cancel {
        reason: None,
        by: None,
        parent: None,
    };
    match engine.command(&replay, cancel.into()).await {
        Err(DoorError::Rejected(Rejection::Settled { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_fork_claims_its_id_and_keys_once() {
    let (store, lab) = (memory(), Lab::new());
    let engine = engine_on(store.clone(), "one", &lab);
    let source = create(&engine, &chain(), Start::WhenClaimed).await;
    let id = source.header.stream.clone();
    let order = |name: &str, key: &str| ForkSpec {
        id: Some(name.into()),
        keys: vec![KeyClaim {
            namespace: "idempotency".into(),
            key: key.into(),
            digest: None,
            answer: None,
            expires_at: None,
        }],
        ..branch(1)
    };
    engine
        .fork(&id, order("run-f", "k"))
        .await
        .expect("a branch");
    match engine.fork(&id, order("run-f", "l")).await {
        Err(ForkFailed::Door(DoorError::Rejected(Rejection::Existing))) => {}
        other => panic!("{other:?}"),
    }
    match engine.fork(&id, order("run-g", "k")).await {
        Err(ForkFailed::Door(DoorError::KeyTaken { .. })) => {}
        other => panic!("{other:?}"),
    }
    match engine.fork(&id, branch(2)).await {
        Err(ForkFailed::Refused(ForkError::BeyondLog { len: 1, .. })) => {}
        other => panic!("{other:?}"),
    }
    let fork = store.load(&"run-f".into(), ReadFrom::Seq(0), 10).await;
    let fork = fork.expect("the fork");
    assert!(fork.index.runnable && fork.next_seq == 2);
    engine.door().replay(&id).await.expect("the same decisions");
}
