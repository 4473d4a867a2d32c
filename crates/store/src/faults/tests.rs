use super::*;
use crate::conformance::draft::Log;
use crate::memory::MemoryStore;
use crate::{Conflict, SystemClock};

fn faulty() -> (Arc<MemoryStore>, FaultyStore) {
    let inner = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    (inner.clone(), FaultyStore::new(inner))
}

fn is_unavailable<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

async fn append(store: &dyn Store, log: &Log) -> Result<Appended, StoreError> {
    store
        .append(log.next(["a"]).batch(), Guard::Outside, LeaseChange::Keep)
        .await
}

async fn events(store: &dyn Store) -> usize {
    store.feed(Position(0), usize::MAX).await.unwrap().len()
}

#[tokio::test]
async fn a_call_that_fails_before_is_not_made() {
    let (inner, store) = faulty();
    store.set_plan(Plan::Nth {
        nth: 0,
        strike: Strike::Before,
    });
    assert!(is_unavailable(append(&store, &Log::new("run-1")).await));
    assert_eq!(events(&*inner).await, 0);
    append(&store, &Log::new("run-1")).await.unwrap();
    assert_eq!(events(&*inner).await, 1);
}

#[tokio::test]
async fn a_call_that_fails_after_is_made_and_its_answer_is_lost() {
    let (inner, store) = faulty();
    store.set_plan(Plan::Nth {
        nth: 0,
        strike: Strike::After,
    });
    assert!(is_unavailable(append(&store, &Log::new("run-1")).await));
    assert_eq!(events(&*inner).await, 1);
    let again = append(&store, &Log::new("run-1")).await;
    assert_eq!(again, Err(StoreError::Conflict(Conflict::Sequence)));
    store.set_plan(Plan::Nth {
        nth: 0,
        strike: Strike::After,
    });
    assert!(
        is_unavailable(append(&store, &Log::new("run-1")).await),
        "a refusal is lost too"
    );
}

#[tokio::test]
async fn calls_are_counted_from_the_plan_and_by_method() {
    let (_, store) = faulty();
    append(&store, &Log::new("run-1")).await.unwrap();
    store.set_plan(Plan::NthOf {
        method: Method::Append,
        nth: 1,
        strike: Strike::Before,
    });
    append(&store, &Log::new("run-2")).await.unwrap();
    store.feed(Position(0), 1).await.unwrap();
    assert!(is_unavailable(append(&store, &Log::new("run-3")).await));
    append(&store, &Log::new("run-3")).await.unwrap();
    let (append, feed) = (Method::Append, Method::Feed);
    let wanted = [
        (append, None),
        (append, None),
        (feed, None),
        (append, Some(Strike::Before)),
        (append, None),
    ];
    assert_eq!(
        store.calls(),
        wanted.map(|(method, strike)| Call { method, strike })
    );
}

#[tokio::test]
async fn a_store_that_is_gone_does_not_come_back_until_the_plan_ends() {
    let (inner, store) = faulty();
    store.set_plan(Plan::From {
        nth: 1,
        strike: Strike::After,
    });
    append(&store, &Log::new("run-1")).await.unwrap();
    assert!(is_unavailable(append(&store, &Log::new("run-2")).await));
    for _ in 0..3 {
        assert!(is_unavailable(append(&store, &Log::new("run-3")).await));
        assert!(is_unavailable(store.outbox(1).await));
    }
    assert_eq!(
        events(&*inner).await,
        2,
        "the first lost answer was of a durable append"
    );
    store.set_plan(Plan::Never);
    assert_eq!(events(&store).await, 2);
}

#[tokio::test]
async fn a_seed_fails_the_same_calls() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let (_, store) = faulty();
        store.set_plan(Plan::Random {
            seed,
            before: 200,
            after: 300,
        });
        for _ in 0..200 {
            let _ = store.outbox(1).await;
        }
        runs.push(store.calls());
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    for strike in [None, Some(Strike::Before), Some(Strike::After)] {
        let count = runs[0].iter().filter(|call| call.strike == strike).count();
        assert!(count > 20, "{strike:?} {count}");
    }
}

#[tokio::test]
async fn every_method_is_counted_and_can_fail() {
    let (_, store) = faulty();
    store.set_plan(Plan::From {
        nth: 0,
        strike: Strike::Before,
    });
    let (run, tenant, digest) = ("run-1".into(), "acme".into(), Digest::compute(b""));
    let lease = Lease {
        stream: "run-1".into(),
        epoch: Epoch(1),
        holder: "a".into(),
        expires_at: Timestamp(0),
    };
    let checkpoint = Checkpoint {
        next_seq: 0,
        chain: digest,
        state: vec![],
    };
    let second = Duration::from_secs(1);
    let query = DueQuery {
        queue: String::new(),
        limit: 1,
    };
    let failed = [
        is_unavailable(append(&store, &Log::new("run-1")).await),
        is_unavailable(store.load(&run, ReadFrom::Seq(0), 1).await),
        is_unavailable(store.claim(&run, &lease.holder, second).await),
        is_unavailable(store.renew(std::slice::from_ref(&lease), second).await),
        is_unavailable(store.release(&lease).await),
        is_unavailable(store.due(query).await),
        is_unavailable(store.key(&tenant, "", "").await),
        is_unavailable(store.put_checkpoint(&run, checkpoint).await),
        is_unavailable(store.put_blob(&tenant, vec![]).await),
        is_unavailable(store.blob(&tenant, &digest).await),
        is_unavailable(store.list(ListQuery::default()).await),
        is_unavailable(store.feed(Position(0), 1).await),
        is_unavailable(store.outbox(1).await),
        is_unavailable(store.delivered(&[]).await),
        is_unavailable(store.purge(&run, "").await),
        is_unavailable(store.tombstone(&run).await),
        is_unavailable(store.maintain().await),
        is_unavailable(store.inspect().await),
    ];
    assert_eq!(failed, [true; 18]);
    let mut methods: Vec<_> = store.calls().iter().map(|call| call.method).collect();
    methods.dedup();
    assert_eq!(methods.len(), 18, "each under its own name");
    assert!(methods.is_sorted(), "and in the order of the trait");
}
