//! Requests with a key: one effect and one response.

use std::sync::Arc;
use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, ApiError, Finish, IdempotencyState, InProgress, KeptAnswer, KeyedBy};
use serde_json::Value;
use store::memory::MemoryStore;
use store::{ManualClock, Store};

use crate::engine::engine_on;
use crate::support::Lab;

struct World {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    lab: Lab,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        Self {
            store: Arc::new(MemoryStore::new(clock.clone())),
            clock,
            lab: Lab::new(),
        }
    }

    fn api(&self) -> Api {
        Api::new(engine_on(self.store.clone(), "somebody", &self.lab))
    }
}

fn who(workspace: Option<&str>) -> Principal {
    Principal {
        tenant: "acme".into(),
        workspace: workspace.map(str::to_owned),
        run: None,
        id: "ci".into(),
        issuer: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
    }
}

fn request(body: &str) -> KeyedBy {
    KeyedBy {
        key: "once".into(),
        operation: "POST /v1/things".into(),
        request: Digest::compute(body.as_bytes()),
    }
}

fn answer(body: &str) -> KeptAnswer {
    KeptAnswer {
        status: 201,
        body: body.into(),
    }
}

async fn first(api: &Api, keyed: &KeyedBy) -> InProgress {
    match api.begin(&who(None), keyed).await {
        Ok(IdempotencyState::First(begun)) => begun,
        other => panic!("it was to be the first, not {other:?}"),
    }
}

#[tokio::test]
async fn an_equal_request_of_the_workspace_gets_the_same_answer() {
    let world = World::new();
    let (api, later) = (world.api(), world.api());
    let begun = first(&api, &request("a")).await;
    let told = answer(r#"{"secret":"shown-once"}"#);
    api.finish(begun, Finish::Answered(told.clone()))
        .await
        .unwrap();

    let again = later.begin(&who(None), &request("a")).await.unwrap();
    assert!(matches!(again, IdempotencyState::Again(kept) if kept == told));
    let other = later.begin(&who(None), &request("b")).await;
    assert!(matches!(other, Err(ApiError::KeyMismatch)));
    let neighbour = later.begin(&who(Some("blue")), &request("a")).await;
    assert!(matches!(neighbour, Ok(IdempotencyState::First(_))));

    let day = Duration::from_secs(24 * 3600);
    world.clock.advance(day);
    let again = later.begin(&who(None), &request("a")).await.unwrap();
    assert!(matches!(again, IdempotencyState::Again(_)));
    world.clock.advance(day);
    first(&later, &request("b")).await;
}

#[tokio::test]
async fn a_key_whose_request_had_no_effect_is_free_at_once() {
    let world = World::new();
    let api = world.api();
    let begun = first(&api, &request("a")).await;
    api.finish(begun, Finish::Refused).await.unwrap();
    first(&api, &request("b")).await;
}

#[tokio::test(start_paused = true)]
async fn an_equal_request_waits_for_the_first_ones_answer() {
    let world = World::new();
    let api = world.api();
    let begun = first(&api, &request("a")).await;
    let refused = api.begin(&who(None), &request("a")).await;
    assert!(matches!(refused, Err(ApiError::KeyInFlight)));

    let (second, finish) = tokio::join!(
        async { api.begin(&who(None), &request("a")).await },
        async { api.finish(begun, Finish::Answered(answer("{}"))).await },
    );
    finish.unwrap();
    assert!(matches!(second, Ok(IdempotencyState::Again(kept)) if kept == answer("{}")));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_process_died_is_done_again() {
    let world = World::new();
    let api = world.api();
    let slow = first(&api, &request("a")).await;
    // Its outcome is unknown once its lease has expired.
    world.clock.advance(Duration::from_secs(120));
    let taken = first(&api, &request("a")).await;
    // The first one's response comes too late.
    api.finish(slow, Finish::Answered(answer("late")))
        .await
        .unwrap();
    api.finish(taken, Finish::Answered(answer("taken")))
        .await
        .unwrap();
    let again = api.begin(&who(None), &request("a")).await.unwrap();
    assert!(matches!(again, IdempotencyState::Again(kept) if kept == answer("taken")));
}

#[tokio::test(start_paused = true)]
async fn a_process_known_to_be_dead_is_not_waited_for() {
    let world = World::new();
    let api = world.api();
    let IdempotencyState::First(_) = api.begin(&who(None), &request("a")).await.unwrap() else {
        panic!("it is the first");
    };
    // As if another process, now gone, had begun it.
    let name = Digest::compute(b"acme\0\0POST /v1/things\0once").to_string();
    let tenant = who(None).tenant;
    let row = world.store.key(&tenant, "requests", &name).await.unwrap();
    let row = row.expect("the key that was put");
    let mut kept: Value = serde_json::from_slice(row.answer.as_deref().unwrap()).unwrap();
    let by = kept["begun"]["by"].as_str().unwrap();
    let (machine, _) = by.rsplit_once('/').unwrap();
    kept["begun"]["by"] = format!("{machine}/1").into();
    let claim = KeyClaim {
        namespace: "requests".into(),
        key: name,
        digest: row.digest,
        answer: Some(kept.to_string().into()),
        expires_at: row.expires_at,
    };
    let put = world.store.put_key(&tenant, claim, Some(row)).await;
    put.unwrap();
    first(&api, &request("a")).await;
}

#[tokio::test]
async fn stored_answers_are_unreadable() {
    let world = World::new();
    let api = world.api();
    let begun = first(&api, &request("a")).await;
    let told = answer(r#"{"secret":"shown-once"}"#);
    api.finish(begun, Finish::Answered(told)).await.unwrap();
    let name = Digest::compute(b"acme\0\0POST /v1/things\0once").to_string();
    let tenant = who(None).tenant;
    let row = world.store.key(&tenant, "requests", &name).await.unwrap();
    let kept = String::from_utf8(row.unwrap().answer.unwrap()).unwrap();
    assert!(!kept.contains("shown-once"), "{kept}");
}
