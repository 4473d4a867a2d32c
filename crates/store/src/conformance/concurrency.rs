//! Concurrency keys: one live lease per tenant and key.

use super::world::*;
use crate::*;

pub(super) async fn a_concurrency_key_is_held_once_per_tenant(w: World<'_>) {
    let mut logs = [
        Log::new("run-1"),
        Log::new("run-2"),
        Log::for_tenant("globex", "run-3"),
    ];
    for log in &mut logs {
        let draft = log.next(["created"]).concurrency("k");
        w.put(log, draft).await;
    }
    let mut free = Log::new("run-4");
    let draft = free.next(["created"]).concurrency("k2");
    w.put(&mut free, draft).await;

    let lease = w.lease(&logs[0], "a").await;
    for name in ["a", "b"] {
        assert_eq!(w.claim(logs[1].id(), &holder(name), TTL).await, Err(HELD));
    }
    w.lease(&logs[2], "a").await;
    w.lease(&free, "a").await;
    w.lease(&logs[0], "a").await;
    w.release(&lease).await.unwrap();
    assert_eq!(
        w.claim(logs[1].id(), &holder("b"), TTL).await,
        Err(HELD),
        "it was a stale release"
    );
    w.clock.advance(TTL);
    w.lease(&logs[1], "b").await;
    assert_eq!(w.claim(logs[0].id(), &holder("a"), TTL).await, Err(HELD));
}

pub(super) async fn a_concurrency_key_follows_the_index_row(w: World<'_>) {
    let mut one = w.create("run-1").await;
    let mut two = Log::new("run-2");
    let draft = two.next(["created"]).concurrency("k");
    w.put(&mut two, draft).await;
    w.lease(&one, "a").await;
    let lease = w.lease(&two, "b").await;
    w.release(&lease).await.unwrap();
    let draft = one.next(["changed"]).concurrency("k");
    w.put(&mut one, draft).await;
    assert_eq!(w.claim(two.id(), &holder("b"), TTL).await, Err(HELD));
    let draft = one
        .next(["changed"])
        .index(|row| row.concurrency_key = None);
    w.put(&mut one, draft).await;
    w.lease(&two, "b").await;
}

pub(super) async fn creation_may_not_take_a_hold_its_concurrency_key_forbids(w: World<'_>) {
    let mut first = Log::new("run-1");
    let draft = first.next(["created"]).concurrency("k");
    let lease = w
        .put_as(&mut first, draft, Guard::Outside, taking("a"))
        .await
        .lease
        .unwrap();
    let mut second = Log::new("run-2");
    let batch = second.next(["created"]).concurrency("k").batch();
    let refused = w.append(batch.clone(), Guard::Outside, taking("a")).await;
    assert_eq!(refused, Err(HELD));
    assert_eq!(
        w.load(second.id(), ReadFrom::Seq(0), 1).await,
        Err(StoreError::Missing)
    );
    let mut foreign = Log::for_tenant("globex", "run-3");
    let draft = foreign.next(["created"]).concurrency("k");
    w.put_as(&mut foreign, draft, Guard::Outside, taking("a"))
        .await;
    w.release(&lease).await.unwrap();
    let draft = second.next(["created"]).concurrency("k");
    w.put_as(&mut second, draft, Guard::Outside, taking("b"))
        .await;
}

pub(super) async fn an_expired_hold_does_not_take_its_concurrency_key_back(w: World<'_>) {
    let (mut one, mut two) = (Log::new("run-1"), Log::new("run-2"));
    for log in [&mut one, &mut two] {
        let draft = log.next(["created"]).concurrency("k");
        w.put(log, draft).await;
    }
    let lease = w.lease(&one, "a").await;
    w.clock.advance(TTL);
    let newer = w.lease(&two, "b").await;
    assert_eq!(
        w.renew(std::slice::from_ref(&lease), TTL).await.unwrap(),
        [Err(StoreError::Fenced)]
    );
    w.release(&newer).await.unwrap();
    assert!(
        w.renew(&[lease], TTL).await.unwrap()[0].is_ok(),
        "the key is free again"
    );
}
