//! Requests with a key whose store fails, or whose process dies, at any point: after the same
//! request is repeated its effect exists once.

use std::sync::Arc;
use std::time::Duration;

use kernel::digest::Digest;
use kernel::ids::{StreamId, TenantId};
use kernel::notes::{Signal, Target};
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use kernel::time::Timestamp;
use runtime::access::{Principal, Scopes};
use runtime::api::{
    Api, ApiError, Finish, IdempotencyState, InProgress, KeptAnswer, KeyedBy, NewAnnotation,
    NewWebhook,
};
use runtime::engine::NewRun;
use runtime::webhooks::{Reach, Webhooks};
use serde_json::{Map, json};
use store::ManualClock;
use store::faults::{FaultyStore, Plan, Strike};
use store::memory::MemoryStore;

use crate::engine::{definition, engine_on};
use crate::support::Lab;

/// Longer than the lease of a request.
const LEASE: Duration = Duration::from_secs(121);

struct World {
    clock: Arc<ManualClock>,
    faulty: Arc<FaultyStore>,
    api: Api,
    _lab: Lab,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let faulty = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
        let lab = Lab::new();
        let engine = engine_on(faulty.clone(), "somebody", &lab);
        Self {
            clock,
            faulty,
            api: Api::new(engine).with_webhooks(Webhooks::new(Reach::Private)),
            _lab: lab,
        }
    }

    /// A run without a driver.
    async fn run(&self) -> StreamId {
        let engine = self.api.engine();
        let document = definition(json!([{ "id": "a", "typeId": "core.noop" }]), json!([]));
        let plans = engine.door().plans();
        let tenant = TenantId::new("acme");
        let prepared = plans.prepare(&*self.faulty, &tenant, &document).await;
        let new = NewRun {
            owner: Owner::tenant(tenant),
            prepared: prepared.expect("a plan"),
            create: Create::new(Map::new(), "test", Start::WhenClaimed),
            policy: Policy::default(),
            trace: None,
            id: None,
            nonce: None,
            keys: Vec::new(),
        };
        let created = engine.create(new).await;
        created.expect("a run").run.header.stream.clone()
    }
}

fn who() -> Principal {
    Principal {
        tenant: "acme".into(),
        workspace: None,
        run: None,
        id: "ci".into(),
        issuer: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
    }
}

/// The kind of request.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Webhook,
    Annotation,
}

/// A request as a face makes it: begun, executed, finished. Returns the response, if any.
async fn request(api: &Api, run: &StreamId, asks: Asks) -> Result<String, ApiError> {
    let keyed = KeyedBy {
        key: "once".into(),
        operation: format!("POST {asks:?}"),
        request: Digest::compute(b"the same"),
    };
    let begun = match api.begin(&who(), &keyed).await? {
        IdempotencyState::Again(kept) => return Ok(kept.body),
        IdempotencyState::First(begun) => begun,
    };
    let done = act(api, run, asks, &begun).await;
    let how = match &done {
        Ok(body) => Finish::Answered(KeptAnswer {
            status: 201,
            body: body.clone(),
        }),
        Err(_) => Finish::Unknown,
    };
    // A face responds even if the response could not be stored.
    let _ = api.finish(begun, how).await;
    done
}

async fn act(
    api: &Api,
    run: &StreamId,
    asks: Asks,
    begun: &InProgress,
) -> Result<String, ApiError> {
    let effect = Some(begun.effect());
    match asks {
        Asks::Webhook => {
            let new = NewWebhook {
                url: "http://127.0.0.1:9/hook".into(),
                events: ["run.completed".to_owned()].into(),
                ..NewWebhook::default()
            };
            let made = api.register_webhook(&who(), new, None, effect).await?;
            let secret = made.secret.expect("a secret to show");
            Ok(format!("{} {}", made.webhook.id, secret.reveal()))
        }
        Asks::Annotation => {
            let said = NewAnnotation {
                target: Target::default(),
                signal: Signal::Flag,
                note: None,
            };
            let noted = api.annotate(&who(), run, said, None, effect).await?;
            Ok(format!("{}", noted.seq))
        }
    }
}

/// The number of objects that were made.
async fn count(api: &Api, run: &StreamId, asks: Asks) -> usize {
    match asks {
        Asks::Webhook => api.webhooks(&who()).await.expect("webhooks").len(),
        Asks::Annotation => api.annotations(&who(), run).await.expect("notes").len(),
    }
}

async fn calls_of(asks: Asks) -> u64 {
    let world = World::new();
    let run = world.run().await;
    world.faulty.set_plan(Plan::Never);
    let before = world.faulty.calls().len();
    request(&world.api, &run, asks).await.expect("an answer");
    (world.faulty.calls().len() - before) as u64
}

/// One case: the request once while the store fails by plan, then repeated until it is answered.
async fn survives(asks: Asks, plan: Plan, dies: bool) {
    let what = format!("{asks:?} {plan:?}");
    let world = World::new();
    let run = world.run().await;
    world.faulty.set_plan(plan);
    let first = request(&world.api, &run, asks).await;
    world.faulty.set_plan(Plan::Never);
    if dies {
        world.clock.advance(LEASE);
    }
    let again = request(&world.api, &run, asks).await;
    let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
    if let (Ok(first), false) = (first, dies) {
        assert_eq!(first, again, "{what}");
    }
    assert_eq!(count(&world.api, &run, asks).await, 1, "{what}");
    let third = request(&world.api, &run, asks).await.expect("an answer");
    assert_eq!(third, again, "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_effect_whose_answer_was_lost_is_found_and_not_had_twice() {
    for asks in [Asks::Webhook, Asks::Annotation] {
        let calls = calls_of(asks).await;
        assert!(calls >= 4, "{asks:?} makes {calls} calls");
        for nth in 0..calls {
            for strike in [Strike::Before, Strike::After] {
                // One call fails and the process continues; or all later calls fail.
                survives(asks, Plan::Nth { nth, strike }, false).await;
                survives(asks, Plan::From { nth, strike }, true).await;
            }
        }
    }
}

#[tokio::test]
async fn the_key_of_an_unresolved_request_cannot_be_reused() {
    let world = World::new();
    let keyed = |body: &[u8]| KeyedBy {
        key: "once".into(),
        operation: "POST /v1/things".into(),
        request: Digest::compute(body),
    };
    let begin = |body: &'static [u8]| {
        let api = world.api.clone();
        async move { api.begin(&who(), &keyed(body)).await }
    };
    let Ok(IdempotencyState::First(begun)) = begin(b"a").await else {
        panic!("it is the first");
    };
    let name = begun.effect().name().to_owned();
    assert!(!begun.effect().is_repeated);
    world.api.finish(begun, Finish::Unknown).await.unwrap();
    assert!(matches!(begin(b"b").await, Err(ApiError::KeyMismatch)));
    let Ok(IdempotencyState::First(begun)) = begin(b"a").await else {
        panic!("it may be done again");
    };
    assert!(begun.effect().is_repeated);
    assert_eq!(begun.effect().name(), name);
    world.api.finish(begun, Finish::Refused).await.unwrap();
    let Ok(IdempotencyState::First(begun)) = begin(b"b").await else {
        panic!("the key is free");
    };
    assert!(!begun.effect().is_repeated);
    assert_ne!(begun.effect().name(), name);
}
