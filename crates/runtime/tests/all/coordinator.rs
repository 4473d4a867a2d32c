//! Several commands to a coordinator at once.

use std::sync::Arc;

use kernel::coordinator::{
    Contract, Coordinator, CoordinatorCommand, CoordinatorEvent, Event, LeaseRule, Rejection,
};
use kernel::ids::RequestId;
use kernel::time::Timestamp;
use runtime::door::{CommandResult, CoordinatorError, CoordinatorName, CoordinatorOrder, Door};
use runtime::hints::Hints;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use store::faults::{FaultyStore, Method, Plan, Strike};
use store::memory::MemoryStore;
use store::{ManualClock, ReadFrom, Store, StoreError};

fn named() -> CoordinatorName {
    CoordinatorName {
        tenant: "acme".into(),
        name: "c".into(),
        contract: Contract::Published,
    }
}

fn world() -> (Arc<FaultyStore>, Door) {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock))));
    let plans = Arc::new(Plans::new(Arc::new(Registry::standard())));
    let door = Door::new(store.clone(), plans, Hints::default());
    (store, door)
}

async fn log(store: &Arc<FaultyStore>) -> Vec<CoordinatorEvent> {
    let stream = Coordinator::stream(&named().tenant, &named().name);
    let loaded = store.load(&stream, ReadFrom::Seq(0), usize::MAX).await;
    let records = loaded.map_or_else(|_| Vec::new(), |loaded| loaded.records);
    let event = |content: &[u8]| serde_json::from_slice::<Event>(content).unwrap().body;
    records
        .iter()
        .map(|record| event(&record.content))
        .collect()
}

fn queue(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::QueueDispatch {
        request_id: id.into(),
        target: "worker".into(),
        metadata: None,
    }
}

fn notify(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkNotified {
        request_id: id.into(),
        channel: "pane".into(),
    }
}

fn deliver(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkDelivered {
        request_id: id.into(),
    }
}

fn mail(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::CreateMail {
        message_id: id.into(),
        from_worker: "a".into(),
        to_worker: "b".into(),
        body: "hello".into(),
    }
}

fn read(id: &str) -> CoordinatorCommand {
    CoordinatorCommand::MarkMailDelivered {
        message_id: id.into(),
    }
}

/// Commands of which some depend on others, some are rejected, and some repeat earlier ones.
fn commands() -> Vec<CoordinatorCommand> {
    vec![
        CoordinatorCommand::ClearDeferredLeaderNotification,
        queue("a"),
        queue("b"),
        mail("m"),
        queue("a"),
        notify("x"),
        notify("a"),
        CoordinatorCommand::DeferLeaderNotification,
        CoordinatorCommand::DeferLeaderNotification,
        deliver("a"),
        deliver("b"),
        deliver("a"),
        read("m"),
        read("m"),
        CoordinatorCommand::CompactDispatches,
        deliver("a"),
        queue("c"),
        CoordinatorCommand::RemoveDispatchRecords {
            request_ids: ["b", "c"].map(RequestId::new).into(),
        },
        queue("b"),
        CoordinatorCommand::CaptureSnapshot,
    ]
}

fn orders(commands: &[CoordinatorCommand]) -> Vec<CoordinatorOrder> {
    let order = |command: &CoordinatorCommand| CoordinatorOrder {
        command: command.clone(),
        rule: LeaseRule::Contract,
    };
    commands.iter().map(order).collect()
}

/// A result without the state.
fn said(answer: &Result<CommandResult, CoordinatorError>) -> Result<CoordinatorEvent, String> {
    match answer {
        Ok(told) => Ok(told.event.clone()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn batched_commands_equal_single_commands() {
    let (alone, door) = world();
    let mut one_by_one = Vec::new();
    for command in commands() {
        let name = named();
        let told = door.tell_coordinator(&name, &command, LeaseRule::Contract);
        one_by_one.push(said(&told.await));
    }
    let (together, door) = world();
    let orders = orders(&commands());
    let at_once = door.tell_coordinator_all(&named(), &orders).await;
    let at_once: Vec<_> = at_once.iter().map(said).collect();
    assert_eq!(at_once, one_by_one);
    assert_eq!(log(&together).await, log(&alone).await);
    // And for each split into two groups.
    for cut in 1..orders.len() {
        let (store, door) = world();
        let (first, second) = orders.split_at(cut);
        let mut answers = door.tell_coordinator_all(&named(), first).await;
        answers.extend(door.tell_coordinator_all(&named(), second).await);
        let answers: Vec<_> = answers.iter().map(said).collect();
        assert_eq!(answers, one_by_one, "cut at {cut}");
        assert_eq!(log(&store).await, log(&alone).await, "cut at {cut}");
    }
}

/// Each append in turn fails, or succeeds with its response lost. No command is reported done
/// without being in the log, and none is done twice.
#[tokio::test]
async fn an_append_that_fails_spoils_no_answer_but_its_own() {
    for strike in [Strike::Before, Strike::After] {
        let mut nth = 0;
        loop {
            let (store, door) = world();
            store.set_plan(Plan::NthOf {
                method: Method::Append,
                nth,
                strike,
            });
            let commands: Vec<_> = (0..6).map(|n| queue(&format!("r{n}"))).collect();
            let answers = door
                .tell_coordinator_all(&named(), &orders(&commands))
                .await;
            let struck = store.calls().iter().any(|call| call.strike.is_some());
            let failed: Vec<usize> = (0..6).filter(|&n| answers[n].is_err()).collect();
            let written = log(&store).await;
            if !struck {
                assert_eq!((failed.len(), written.len()), (0, 6));
                break;
            }
            let [failed] = failed[..] else {
                panic!("{strike:?} {nth}: {failed:?}");
            };
            assert!(matches!(
                answers[failed],
                Err(CoordinatorError::Store(StoreError::Unavailable(_)))
            ));
            let expected = match strike {
                Strike::Before => 5,
                Strike::After => 6,
            };
            assert_eq!(written.len(), expected, "{strike:?} {nth}");
            for (n, answer) in answers.iter().enumerate() {
                let Ok(told) = answer else { continue };
                assert!(written.contains(&told.event), "{strike:?} {nth}: {n}");
            }
            nth += 1;
        }
        assert_eq!(nth, 6);
    }
}

/// Two processes at once: the loser decides again on the winner's state.
#[tokio::test]
async fn two_who_tell_at_once_are_both_heard() {
    let (store, door) = world();
    let orders = |who: &str| {
        orders(
            &(0..50)
                .map(|n| queue(&format!("{who}{n}")))
                .collect::<Vec<_>>(),
        )
    };
    let (a, b) = (orders("a"), orders("b"));
    let name = named();
    let (one, other) = tokio::join!(
        door.tell_coordinator_all(&name, &a),
        door.tell_coordinator_all(&name, &b),
    );
    assert!(one.iter().chain(&other).all(Result::is_ok));
    assert_eq!(log(&store).await.len(), 100);
    let again = door.tell_coordinator_all(&name, &a[..1]).await;
    assert!(matches!(
        &again[0],
        Err(CoordinatorError::Rejected(Rejection::DuplicateRequest(_)))
    ));
}
