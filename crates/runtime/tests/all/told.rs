//! The cost of audit entries for frequent actions.

use std::sync::Arc;

use kernel::audit::{Actor, AuditAction, AuditEvent, Entry, Outcome, Subject};
use kernel::ids::{MessageId, TenantId};
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use runtime::access::checkpoints::{self, INTERVAL_ENTRIES, Keys};
use runtime::access::trail;
use runtime::engine::NewRun;
use serde_json::{Map, json};
use store::Store;
use store::faults::{FaultyStore, Method};

use crate::engine::{definition, engine_on, memory};
use crate::support::Lab;

#[tokio::test]
async fn an_audited_creation_is_one_append_and_the_trail_is_batched() {
    const RUNS: usize = 50;
    let lab = Lab::new();
    let faulty = Arc::new(FaultyStore::new(memory()));
    let store: Arc<dyn Store> = faulty.clone();
    // Without a driver: only the appends of creations are counted.
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
            nonce: None,
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
    // Repeated entries are stored once.
    trail::deliver(&*store).await.unwrap();
    assert_eq!(appends(), RUNS + 1);
}

#[tokio::test]
async fn unsigned_entries_stay_within_the_advertised_bound() {
    let lab = Lab::new();
    let (store, keyring, tenant) = (memory(), lab.keyring(), TenantId::new("acme"));
    for burst in 0..12 {
        let entry = |n: u32| Entry {
            message: MessageId::new(format!("m.{burst}.{n}")),
            decided_at: store.now(),
            action: AuditAction::RunCancelled,
            by: Actor::new("somebody"),
            on: Subject::new("run", format!("run-{burst}-{n}")),
            outcome: Outcome::Done,
        };
        let entries = (0..256).map(entry).collect();
        let told = trail::record_all(&*store, &tenant, entries, Some(&keyring)).await;
        assert!(told.expect("told") < INTERVAL_ENTRIES);
    }
    checkpoints::checkpoint(&*store, &keyring, &tenant)
        .await
        .expect("signed");
    let mut before = None;
    let mut most = 0;
    for event in trail::read(&*store, &tenant, 0, 10_000)
        .await
        .expect("a trail")
    {
        if let AuditEvent::Checkpointed(checkpoint) = event.body {
            let at = checkpoint.at_sequence;
            most = most.max(before.map_or(at + 1, |before| at - before));
            before = Some(at);
        }
    }
    assert!((1..=INTERVAL_ENTRIES).contains(&most), "{most} between two");
    let keys = Keys::Own(&keyring);
    let verified = checkpoints::verify(&*store, &keys, &tenant, 0, 1_000_000).await;
    let (report, entries) = verified.expect("verified");
    assert!(report.is_valid(), "{:?}", report.anomalies);
    assert!(entries >= 12 * 256);
}
