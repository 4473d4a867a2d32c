//! Leases: who may drive a stream, and who is fenced off.

use std::sync::Arc;

use kernel::ids::StreamId;

use super::world::*;
use crate::*;

async fn drive(w: &World<'_>, log: &mut Log, epoch: Epoch) -> Result<Appended, StoreError> {
    let batch = log.next(["driven"]).batch();
    let result = w
        .append(batch.clone(), Guard::Holder(epoch), LeaseChange::Keep)
        .await;
    if result.is_ok() {
        log.went(&batch);
    }
    result
}

pub(super) async fn a_claim_gives_a_hold_with_the_next_epoch(mut w: World<'_>) {
    let log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    let wanted = Lease {
        stream: log.id().clone(),
        epoch: Epoch(1),
        holder: holder("a"),
        expires_at: START.plus(TTL),
    };
    assert_eq!(lease, wanted);
    assert_eq!(w.read(log.id()).await.lease, Some(wanted));
    w.release(&lease).await.unwrap();
    assert_eq!(
        w.lease(&log, "b").await.epoch,
        Epoch(2),
        "a release does not turn epochs back"
    );
    w.reopen().await;
    assert_eq!(w.read(log.id()).await.lease.unwrap().epoch, Epoch(2));
    w.clock.advance(TTL);
    assert_eq!(
        w.lease(&log, "c").await.epoch,
        Epoch(3),
        "nor does reopening"
    );
    let unknown = StreamId::new("run-2");
    assert_eq!(
        w.claim(&unknown, &holder("a"), TTL).await,
        Err(StoreError::Missing)
    );
}

pub(super) async fn a_live_hold_keeps_others_out_until_it_expires(w: World<'_>) {
    let other = w.other().await;
    let log = w.create("run-1").await;
    w.lease(&log, "a").await;
    assert_eq!(other.claim(log.id(), &holder("b"), TTL).await, Err(HELD));
    w.clock.advance(TTL - MS);
    assert_eq!(w.claim(log.id(), &holder("b"), TTL).await, Err(HELD));
    w.clock.advance(MS);
    assert_eq!(
        other
            .claim(log.id(), &holder("b"), TTL)
            .await
            .unwrap()
            .epoch,
        Epoch(2)
    );
}

pub(super) async fn the_same_holder_may_claim_again(w: World<'_>) {
    let mut log = w.create("run-1").await;
    let first = w.lease(&log, "a").await;
    let second = w.lease(&log, "a").await;
    assert!(second.epoch > first.epoch);
    assert_eq!(
        drive(&w, &mut log, first.epoch).await,
        Err(StoreError::Fenced)
    );
    drive(&w, &mut log, second.epoch).await.unwrap();
}

pub(super) async fn a_stale_holder_is_fenced(w: World<'_>) {
    let other = w.other().await;
    let mut log = w.create("run-1").await;
    let stale = w.lease(&log, "a").await;
    drive(&w, &mut log, stale.epoch).await.unwrap();
    w.clock.advance(TTL);
    let lease = other.claim(log.id(), &holder("b"), TTL).await.unwrap();
    assert_eq!(
        drive(&w, &mut log, stale.epoch).await,
        Err(StoreError::Fenced)
    );
    drive(&w, &mut log, lease.epoch).await.unwrap();
    assert_eq!(w.texts(log.id()).await, ["created", "driven", "driven"]);
}

pub(super) async fn an_expired_lease_without_a_successor_still_passes(w: World<'_>) {
    let mut log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    w.clock.advance(TTL * 1000);
    drive(&w, &mut log, lease.epoch).await.unwrap();
    assert_eq!(
        w.read(log.id()).await.lease,
        Some(lease),
        "an append does not renew"
    );
}

pub(super) async fn a_stream_without_a_hold_fences_every_holder(w: World<'_>) {
    let mut log = w.create("run-1").await;
    for epoch in [0, 1, u64::MAX / 2] {
        assert_eq!(
            drive(&w, &mut log, Epoch(epoch)).await,
            Err(StoreError::Fenced)
        );
    }
    let lease = w.lease(&log, "a").await;
    w.release(&lease).await.unwrap();
    assert_eq!(
        drive(&w, &mut log, lease.epoch).await,
        Err(StoreError::Fenced)
    );
    assert_eq!(w.read(log.id()).await.lease, None);
    let unknown = Log::new("run-2").next(["no"]).batch();
    let result = w
        .append(unknown, Guard::Holder(Epoch(1)), LeaseChange::Keep)
        .await;
    assert_eq!(result, Err(StoreError::Fenced));
}

pub(super) async fn appends_from_outside_pass_by_the_hold(w: World<'_>) {
    let mut log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    let draft = log.next(["cancel"]);
    w.put(&mut log, draft).await;
    drive(&w, &mut log, lease.epoch).await.unwrap();
    assert_eq!(w.texts(log.id()).await, ["created", "cancel", "driven"]);
}

pub(super) async fn creation_may_take_the_hold(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["created"]).runnable();
    let done = w.put_as(&mut log, draft, Guard::Outside, taking("a")).await;
    let lease = done.lease.expect("the hold was asked for");
    assert_eq!((lease.epoch, &lease.holder), (Epoch(1), &holder("a")));
    assert_eq!(lease.expires_at, START.plus(TTL));
    assert_eq!(w.read(log.id()).await.lease.as_ref(), Some(&lease));
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(w.claim(log.id(), &holder("b"), TTL).await, Err(HELD));
    drive(&w, &mut log, lease.epoch).await.unwrap();
}

pub(super) async fn an_append_may_release_the_hold(w: World<'_>) {
    let mut log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    let mut stale = log.clone();
    stale.next_seq = 9;
    let guard = Guard::Holder(lease.epoch);
    let refused = w
        .append(stale.next(["no"]).batch(), guard, LeaseChange::Release)
        .await;
    assert_eq!(refused, Err(SEQUENCE));
    assert_eq!(
        w.claim(log.id(), &holder("b"), TTL).await,
        Err(HELD),
        "a refusal releases nothing"
    );
    let draft = log.next(["parked"]);
    w.put_as(&mut log, draft, guard, LeaseChange::Release).await;
    assert_eq!(w.read(log.id()).await.lease, None);
    assert_eq!(
        drive(&w, &mut log, lease.epoch).await,
        Err(StoreError::Fenced)
    );
    assert_eq!(w.lease(&log, "b").await.epoch, Epoch(2));
}

pub(super) async fn renewing_sets_the_expiry_from_now(w: World<'_>) {
    let log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    w.clock.advance(TTL - MS);
    let renewed = w
        .renew(std::slice::from_ref(&lease), TTL)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    let wanted = Lease {
        expires_at: START.plus(TTL * 2 - MS),
        ..lease.clone()
    };
    assert_eq!(renewed, wanted);
    assert_eq!(w.read(log.id()).await.lease, Some(wanted));
    assert_eq!(
        w.read(log.id()).await.next_seq,
        1,
        "a renewal touches no log"
    );
    w.clock.advance(TTL - MS);
    assert_eq!(w.claim(log.id(), &holder("b"), TTL).await, Err(HELD));
    let shorter = w.renew(&[renewed], MS).await.unwrap().remove(0).unwrap();
    assert_eq!(shorter.expires_at, w.now().plus(MS));
    w.clock.advance(MS);
    w.lease(&log, "b").await;
}

pub(super) async fn renewing_many_answers_each_in_order(w: World<'_>) {
    let mut leases = Vec::new();
    for n in 0..5 {
        let log = w.create(&format!("run-{n}")).await;
        leases.push(w.lease(&log, "a").await);
    }
    w.release(&leases[1]).await.unwrap();
    w.release(&leases[3]).await.unwrap();
    w.purge(&leases[3].stream, "gone").await.unwrap();
    let newer = w.claim(&leases[4].stream, &holder("a"), TTL).await.unwrap();
    leases.push(Lease {
        stream: "run-9".into(),
        ..leases[0].clone()
    });
    leases.push(newer.clone());
    w.clock.advance(SECOND);
    let answers = w.renew(&leases, TTL).await.unwrap();
    let later = |lease: &Lease| {
        Ok(Lease {
            expires_at: START.plus(TTL + SECOND),
            ..lease.clone()
        })
    };
    let wanted = [
        later(&leases[0]),
        Err(StoreError::Fenced),
        later(&leases[2]),
        Err(StoreError::Missing),
        Err(StoreError::Fenced),
        Err(StoreError::Missing),
        later(&newer),
    ];
    assert_eq!(answers, wanted);
    assert_eq!(w.renew(&[], TTL).await, Ok(vec![]));
}

pub(super) async fn an_expired_hold_can_be_renewed_until_it_is_taken(w: World<'_>) {
    let log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    w.clock.advance(TTL * 2);
    let revived = w
        .renew(std::slice::from_ref(&lease), TTL)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(w.claim(log.id(), &holder("b"), TTL).await, Err(HELD));
    w.clock.advance(TTL);
    w.lease(&log, "b").await;
    for stale in [lease, revived] {
        assert_eq!(
            w.renew(&[stale], TTL).await.unwrap(),
            [Err(StoreError::Fenced)]
        );
    }
}

pub(super) async fn releasing_frees_at_once_and_leaves_others_alone(w: World<'_>) {
    let log = w.create("run-1").await;
    let old = w.lease(&log, "a").await;
    w.release(&old).await.unwrap();
    let new = w.lease(&log, "b").await;
    w.release(&old).await.unwrap();
    assert_eq!(
        w.read(log.id()).await.lease,
        Some(new.clone()),
        "a stale release does nothing"
    );
    w.release(&new).await.unwrap();
    w.release(&new).await.unwrap();
    w.release(&Lease {
        stream: "run-9".into(),
        ..new
    })
    .await
    .unwrap();
    assert_eq!(w.read(log.id()).await.lease, None);
}

pub(super) async fn one_of_many_racing_claims_wins(w: World<'_>) {
    let other = w.other().await;
    let mut log = w.create("run-1").await;
    for round in 1..6 {
        let mut claims = Vec::new();
        for n in 0..8 {
            let store = if n % 2 == 0 {
                w.store.clone()
            } else {
                other.clone()
            };
            let stream = log.id().clone();
            let name = holder(&format!("{n}"));
            claims.push(tokio::spawn(async move {
                store.claim(&stream, &name, TTL).await
            }));
        }
        let mut won = Vec::new();
        for claim in claims {
            match claim.await.unwrap() {
                Ok(lease) => won.push(lease),
                refused => assert_eq!(refused, Err(HELD)),
            }
        }
        assert_eq!(won.len(), 1, "at most one holder lives");
        assert_eq!(won[0].epoch, Epoch(round));
        drive(&w, &mut log, won[0].epoch).await.unwrap();
        w.clock.advance(TTL);
    }
}

pub(super) async fn safety_does_not_hang_on_clocks(w: World<'_>) {
    let fast = Arc::new(ManualClock::new(START.plus(TTL * 10)));
    let hasty = w.bed.open(fast).await;
    let mut log = w.create("run-1").await;
    let lease = w.lease(&log, "a").await;
    let stolen = hasty.claim(log.id(), &holder("b"), TTL).await.unwrap();
    assert_eq!(
        drive(&w, &mut log, lease.epoch).await,
        Err(StoreError::Fenced)
    );
    assert_eq!(
        w.renew(&[lease], TTL).await.unwrap(),
        [Err(StoreError::Fenced)]
    );
    let batch = log.next(["driven"]).batch();
    hasty
        .append(batch, Guard::Holder(stolen.epoch), LeaseChange::Keep)
        .await
        .unwrap();
}
