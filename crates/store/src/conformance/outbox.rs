//! The outbox: committed with the events, kept until delivered.

use super::world::*;
use crate::*;

pub(super) async fn messages_wait_in_commit_order(mut w: World<'_>) {
    let (mut one, mut two) = (
        Log::for_tenant("acme", "run-1"),
        Log::for_tenant("globex", "run-2"),
    );
    let draft = one
        .next(["a"])
        .message("m1", "run-8")
        .message("m2", "run-9");
    w.put(&mut one, draft).await;
    let draft = two.next(["a"]).message("m0", "run-7");
    w.put(&mut two, draft).await;
    let draft = one.next(["b"]).message("m3", "run-1");
    w.put(&mut one, draft).await;
    w.reopen().await;
    assert_eq!(w.outgoing().await, ["m1", "m2", "m0", "m3"]);
    let two_of_them = w.outbox(2).await.unwrap();
    assert_eq!(two_of_them.len(), 2);
    let wanted = Outgoing {
        place: two_of_them[1].place,
        source: one.id().clone(),
        tenant: one.header.tenant().clone(),
        id: "m2".into(),
        target: "run-9".into(),
        command: b"{\"to\":\"run-9\"}".to_vec(),
    };
    assert_eq!(two_of_them[1], wanted);
    assert_eq!(w.outbox(9).await.unwrap()[2].tenant, *two.header.tenant());
    assert_eq!(w.outbox(0).await, Ok(vec![]));
}

pub(super) async fn delivered_messages_are_forgotten(mut w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log
        .next(["a"])
        .message("m1", "t")
        .message("m2", "t")
        .message("m3", "t");
    w.put(&mut log, draft).await;
    let places: Vec<_> = w
        .outbox(9)
        .await
        .unwrap()
        .iter()
        .map(|one| one.place)
        .collect();
    w.delivered(&[places[1], places[1], u64::MAX / 2])
        .await
        .unwrap();
    assert_eq!(w.outgoing().await, ["m1", "m3"]);
    w.delivered(&[]).await.unwrap();
    w.reopen().await;
    assert_eq!(w.outgoing().await, ["m1", "m3"]);
    w.delivered(&places).await.unwrap();
    assert_eq!(w.outgoing().await, [""; 0]);
}

pub(super) async fn a_place_is_never_used_again(mut w: World<'_>) {
    let mut log = Log::new("run-1");
    let mut seen = 0;
    for n in 0..4 {
        let draft = log.next(["a"]).message(&format!("m{n}"), "t");
        w.put(&mut log, draft).await;
        let place = w.outbox(9).await.unwrap()[0].place;
        assert!(n == 0 || place > seen, "place {place} is not after {seen}");
        seen = place;
        w.delivered(&[place]).await.unwrap();
        if n % 2 == 0 {
            w.reopen().await;
        }
    }
}

pub(super) async fn both_handles_see_and_deliver(w: World<'_>) {
    let other = w.other().await;
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).message("m1", "t").message("m2", "t");
    w.put(&mut log, draft).await;
    let first = other.outbox(1).await.unwrap().remove(0);
    other.delivered(&[first.place]).await.unwrap();
    w.delivered(&[first.place]).await.unwrap();
    assert_eq!(w.outgoing().await, ["m2"]);
}
