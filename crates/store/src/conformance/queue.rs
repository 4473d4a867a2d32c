//! The queue and the timers: what is due, in which order, and when to look again.

use kernel::time::Timestamp;

use super::world::*;
use crate::*;

async fn next_at(w: &World<'_>) -> Option<Timestamp> {
    w.due(DueQuery {
        queue: "default".into(),
        limit: 10,
    })
    .await
    .unwrap()
    .next_at
}

/// Follows `next_at` until a stream is due, and returns that time.
async fn due_at(w: &World<'_>) -> Timestamp {
    for _ in 0..20 {
        if !w.ready().await.is_empty() {
            return w.now();
        }
        let at = next_at(w)
            .await
            .expect("a stream will become due, so there is a time to look");
        assert!(at > w.now(), "next_at lies ahead");
        w.clock.set(at);
    }
    panic!("next_at leads nowhere");
}

pub(super) async fn a_runnable_stream_is_due(mut w: World<'_>) {
    let mut log = w.create("run-1").await;
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(next_at(&w).await, None);
    let draft = log.next(["a"]).runnable();
    w.put(&mut log, draft).await;
    w.reopen().await;
    let answer = w
        .due(DueQuery {
            queue: "default".into(),
            limit: 1,
        })
        .await
        .unwrap();
    let wanted = Due {
        stream: log.id().clone(),
        tenant: log.header.tenant().clone(),
    };
    assert_eq!(answer.ready, [wanted]);
    let draft = log.next(["b"]).index(|row| row.runnable = false);
    w.put(&mut log, draft).await;
    assert_eq!(w.ready().await, [""; 0]);
}

pub(super) async fn priority_goes_first_then_the_longest_wait_then_the_id(w: World<'_>) {
    let streams = [
        ("run-a", 0, 5),
        ("run-b", 0, 3),
        ("run-c", 9, 8),
        ("run-d", -1, 1),
        ("run-e", 0, 3),
    ];
    for (stream, priority, updated) in streams {
        let mut log = Log::new(stream);
        let draft = log.next(["a"]).runnable().index(|row| {
            row.priority = priority;
            row.updated_at = START.plus_ms(updated);
        });
        w.put(&mut log, draft).await;
    }
    // Its timer has been due for longer than any runnable stream of its priority has waited.
    let mut timed = Log::new("run-t");
    let draft = timed
        .next(["a"])
        .timer("t", Timestamp(START.0 - 7))
        .timer("u", START.plus_ms(99));
    w.put(
        &mut timed,
        draft.index(|row| row.updated_at = START.plus_ms(99)),
    )
    .await;
    let order = ["run-c", "run-t", "run-b", "run-e", "run-a", "run-d"];
    assert_eq!(w.ready().await, order);
    for limit in 0..order.len() {
        assert_eq!(w.ready_in("default", limit).await, order[..limit]);
    }
}

pub(super) async fn queues_are_apart(w: World<'_>) {
    for (stream, queue) in [("run-1", "default"), ("run-2", "gpu"), ("run-3", "gpu")] {
        let mut log = Log::new(stream);
        let draft = log
            .next(["a"])
            .runnable()
            .index(|row| row.queue = queue.into());
        w.put(&mut log, draft).await;
    }
    let mut later = Log::new("run-4");
    let draft = later.next(["a"]).timer("t", START.plus(SECOND));
    w.put(&mut later, draft.index(|row| row.queue = "gpu".into()))
        .await;
    assert_eq!(w.ready().await, ["run-1"]);
    assert_eq!(w.ready_in("gpu", 9).await, ["run-2", "run-3"]);
    assert_eq!(w.ready_in("none", 9).await, [""; 0]);
    assert_eq!(
        next_at(&w).await,
        None,
        "a timer of another queue is of no interest"
    );
}

pub(super) async fn a_timer_makes_a_stream_due_and_keeps_it_due(mut w: World<'_>) {
    let mut log = w.create("run-1").await;
    let due = START.plus(SECOND);
    let draft = log.next(["a"]).timer("t", due);
    w.put(&mut log, draft).await;
    w.reopen().await;
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(due_at(&w).await, due);
    w.clock.advance(SECOND * 1000);
    let draft = log.next(["b"]);
    w.put(&mut log, draft).await;
    assert_eq!(
        w.ready().await,
        ["run-1"],
        "only a batch puts a due timer off"
    );
    let draft = log.next(["c"]).cancel("t");
    w.put(&mut log, draft).await;
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(next_at(&w).await, None);
}

pub(super) async fn timers_are_named_replaced_and_cancelled_in_order(w: World<'_>) {
    let at = |seconds: u64| START.plus_ms(seconds * 1000);
    let mut log = w.create("run-1").await;
    let draft = log
        .next(["a"])
        .timer("s", at(5))
        .timer("t", at(9))
        .timer("t", at(3));
    w.put(&mut log, draft).await;
    assert_eq!(due_at(&w).await, at(3), "the later set of a name counts");
    let draft = log.next(["b"]).timer("t", at(20)).cancel("unknown");
    w.put(&mut log, draft).await;
    assert_eq!(due_at(&w).await, at(5), "a replaced timer is gone");
    let draft = log.next(["c"]).cancel("s").timer("u", at(8)).cancel("u");
    w.put(&mut log, draft).await;
    assert_eq!(
        due_at(&w).await,
        at(20),
        "a timer cancelled after it was set is not set"
    );
    let draft = log.next(["d"]).cancel("t").timer("t", at(30));
    w.put(&mut log, draft).await;
    assert_eq!(
        due_at(&w).await,
        at(30),
        "a timer set after its cancellation is set"
    );
    // Timer names belong to a stream.
    let mut other = w.create("run-2").await;
    let draft = other.next(["a"]).cancel("t");
    w.put(&mut other, draft).await;
    assert_eq!(w.ready().await, ["run-1"]);
}

pub(super) async fn a_held_stream_is_not_due_until_the_hold_ends(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).runnable();
    w.put(&mut log, draft).await;
    let lease = w.lease(&log, "a").await;
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(
        due_at(&w).await,
        lease.expires_at,
        "an expired hold gives the stream back"
    );
    let lease = w.lease(&log, "b").await;
    assert_eq!(w.ready().await, [""; 0]);
    w.release(&lease).await.unwrap();
    assert_eq!(w.ready().await, ["run-1"]);
}

pub(super) async fn a_held_stream_with_a_timer_is_due_when_both_allow_it(w: World<'_>) {
    for (timer, wanted) in [(TTL / 2, TTL), (TTL * 2, TTL * 2)] {
        let from = w.now();
        let mut log = Log::new(&format!("run-{}", timer.as_secs()));
        let draft = log.next(["a"]).timer("t", from.plus(timer));
        w.put(&mut log, draft).await;
        w.lease(&log, "a").await;
        assert_eq!(due_at(&w).await, from.plus(wanted));
        let draft = log.next(["b"]).cancel("t");
        w.put(&mut log, draft).await;
    }
}

pub(super) async fn a_used_concurrency_key_keeps_others_back(w: World<'_>) {
    let mut logs = [
        Log::new("run-1"),
        Log::new("run-2"),
        Log::for_tenant("globex", "run-3"),
    ];
    for log in &mut logs {
        let draft = log.next(["a"]).runnable().concurrency("k");
        w.put(log, draft).await;
    }
    let lease = w.lease(&logs[1], "a").await;
    assert_eq!(w.ready().await, ["run-3"]);
    w.lease(&logs[2], "a").await;
    assert_eq!(due_at(&w).await, lease.expires_at);
    assert_eq!(w.ready().await, ["run-1", "run-3"]);
}

pub(super) async fn only_the_first_of_a_concurrency_key_is_shown(w: World<'_>) {
    for (stream, tenant, key, priority) in [
        ("run-1", "acme", "k", 0),
        ("run-2", "acme", "k", 5),
        ("run-3", "globex", "k", 1),
        ("run-4", "acme", "other", 0),
        ("run-5", "acme", "k", 2),
    ] {
        let mut log = Log::for_tenant(tenant, stream);
        let draft = log.next(["a"]).runnable().concurrency(key);
        w.put(&mut log, draft.index(|row| row.priority = priority))
            .await;
    }
    assert_eq!(w.ready().await, ["run-2", "run-3", "run-4"]);
    assert_eq!(w.ready_in("default", 2).await, ["run-2", "run-3"]);
    let claimed = w.claim(&"run-2".into(), &holder("a"), TTL).await.unwrap();
    assert_eq!(w.ready().await, ["run-3", "run-4"]);
    w.release(&claimed).await.unwrap();
    assert_eq!(w.ready_in("default", 1).await, ["run-2"]);
}

pub(super) async fn due_streams_can_be_claimed(w: World<'_>) {
    for n in 0..6 {
        let mut log = Log::new(&format!("run-{n}"));
        let draft = log.next(["a"]).index(|row| row.runnable = n % 2 == 0);
        let draft = if n % 3 == 0 {
            draft.concurrency("k")
        } else {
            draft
        };
        let draft = if n % 2 == 1 {
            draft.timer("t", START)
        } else {
            draft
        };
        w.put(&mut log, draft).await;
    }
    let query = DueQuery {
        queue: "default".into(),
        limit: 10,
    };
    let mut claimed = 0;
    while let Some(due) = w.due(query.clone()).await.unwrap().ready.first() {
        assert!(claimed < 6, "claimed work is no longer due");
        w.claim(&due.stream, &holder("a"), TTL).await.unwrap();
        claimed += 1;
    }
    assert_eq!(
        claimed, 5,
        "all but one of the two streams that share a key"
    );
}
