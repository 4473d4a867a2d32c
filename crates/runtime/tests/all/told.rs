//! What it costs that the audit trail tells of what is done often.

use std::sync::Arc;

use kernel::ids::TenantId;
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use runtime::access::trail;
use runtime::engine::NewRun;
use serde_json::{Map, json};
use store::Store;
use store::faults::{FaultyStore, Method};

use crate::engine::{definition, engine_on, memory};
use crate::support::Lab;

#[tokio::test]
async fn a_creation_that_the_trail_tells_of_is_one_append_and_the_trail_one_for_many() {
    const RUNS: usize = 50;
    let lab = Lab::new();
    let faulty = Arc::new(FaultyStore::new(memory()));
    let store: Arc<dyn Store> = faulty.clone();
    // Nobody drives them: what is counted is what creating costs.
    let engine = engine_on(store.clone(), "one", &lab);
    let document = definition(json!([{ "id": "a", "typeId": "core.noop" }]), json!([]));
    let tenant = TenantId::new("acme");
    let prepared = engine.door().plans();
    let prepared = prepared.prepare(&*store, &tenant, &document).await.unwrap();
    for _ in 0..RUNS {
        let new = NewRun {
            owner: Owner {
                principal: Some("somebody".into()),
                ..Owner::tenant(tenant.clone())
            },
            prepared: prepared.clone(),
            create: Create::new(Map::new(), "test", Start::WhenClaimed),
            policy: Policy::default(),
            trace: None,
            id: None,
            keys: Vec::new(),
        };
        engine.create(new).await.unwrap();
    }
    let appends = || {
        let calls = faulty.calls().into_iter();
        calls.filter(|call| call.method == Method::Append).count()
    };
    assert_eq!(appends(), RUNS);
    trail::deliver(&*store).await.unwrap();
    assert_eq!(appends(), RUNS + 1);
    let told = trail::read(&*store, &tenant, 0, 1_000).await.unwrap();
    assert_eq!(told.len(), RUNS);
    // What was told again is kept once.
    trail::deliver(&*store).await.unwrap();
    assert_eq!(appends(), RUNS + 1);
}
