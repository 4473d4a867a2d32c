//! The feed: every event once, in commit order, during concurrent changes.

use std::collections::BTreeMap;

use super::world::*;
use crate::*;

pub(super) async fn events_come_in_commit_order(mut w: World<'_>) {
    let (mut one, mut two) = (
        Log::for_tenant("acme", "run-1"),
        Log::for_tenant("globex", "run-2"),
    );
    let draft = one.next(["a", "b"]);
    let first = w.put(&mut one, draft).await.position;
    let draft = two.next(["c"]);
    let second = w.put(&mut two, draft).await.position;
    let draft = one.next(["d"]);
    let third = w.put(&mut one, draft).await.position;
    assert!(Position(0) < first && first < second && second < third);
    w.reopen().await;
    let events = w.feed(Position(0), 9).await.unwrap();
    assert_eq!(
        w.fed(Position(0)).await,
        ["run-1.0", "run-1.1", "run-2.0", "run-1.2"]
    );
    assert!(events.is_sorted_by(|a, b| a.position < b.position));
    let wanted = FeedEvent {
        position: second,
        stream: two.id().clone(),
        tenant: two.header.tenant().clone(),
        seq: 0,
        content: Some(b"c".to_vec()),
    };
    assert_eq!(events[2], wanted);
    assert_eq!((events[1].position, events[3].position), (first, third));
    assert_eq!(w.fed(first).await, ["run-2.0", "run-1.2"]);
    assert_eq!(w.fed(third).await, [""; 0]);
    assert_eq!(w.fed(Position(u64::MAX >> 1)).await, [""; 0]);
}

pub(super) async fn pages_follow_each_other(w: World<'_>) {
    let mut log = Log::new("run-1");
    for n in 0..5 {
        let draft = log.next([format!("{n}"), format!("{n}+")]);
        w.put(&mut log, draft).await;
    }
    let all = w.feed(Position(0), usize::MAX).await.unwrap();
    for limit in 1..4 {
        let (mut seen, mut after) = (Vec::new(), Position(0));
        // Bounded, so that a page that does not advance fails instead of hanging.
        for _ in 0..=all.len() {
            let page = w.feed(after, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = last.position;
            seen.extend(page);
        }
        assert_eq!(seen, all);
    }
    assert_eq!(w.feed(Position(0), 0).await, Ok(vec![]));
}

pub(super) async fn the_end_is_below_every_later_event(mut w: World<'_>) {
    assert_eq!(w.store.feed_end().await, Ok(Position(0)));
    let mut log = w.create("run-1").await;
    let draft = log.next(["b", "c"]);
    let newest = w.put(&mut log, draft).await.position;
    assert_eq!(w.store.feed_end().await, Ok(newest));
    w.purge(log.id(), "gone").await.unwrap();
    w.reopen().await;
    let end = w.store.feed_end().await.unwrap();
    w.create("run-2").await;
    assert_eq!(w.fed(end).await, ["run-2.0"]);
}

pub(super) async fn purged_events_are_left_out_and_positions_not_given_again(mut w: World<'_>) {
    let one = w.create("run-1").await;
    let two = w.create("run-2").await;
    let mut last = w.feed(Position(0), 9).await.unwrap()[1].position;
    w.purge(two.id(), "gone").await.unwrap();
    assert_eq!(w.fed(Position(0)).await, ["run-1.0"]);
    w.reopen().await;
    for n in 3..6 {
        let log = w.create(&format!("run-{n}")).await;
        let events = w.feed(last, 9).await.unwrap();
        assert_eq!(
            events.len(),
            1,
            "a reader of the purged event sees the next one"
        );
        last = events[0].position;
        w.purge(log.id(), "gone").await.unwrap();
    }
    w.purge(one.id(), "gone").await.unwrap();
    w.reopen().await;
    w.create("run-6").await;
    assert_eq!(
        w.fed(last).await,
        ["run-6.0"],
        "not even when the store is empty"
    );
}

pub(super) async fn a_reader_never_misses_commits_of_racing_writers(w: World<'_>) {
    const WRITERS: u64 = 6;
    const BATCHES: u64 = 15;
    let other = w.other().await;
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let store = if n % 2 == 0 {
            w.store.clone()
        } else {
            other.clone()
        };
        writers.push(tokio::spawn(async move {
            let mut log = Log::new(&format!("run-{n}"));
            for _ in 0..BATCHES {
                let batch = log.next(["a", "b"]).batch();
                store
                    .append(batch.clone(), Guard::Outside, LeaseChange::Keep)
                    .await
                    .unwrap();
                log.went(&batch);
            }
        }));
    }
    let (mut after, mut next_seqs, mut seen) = (Position(0), BTreeMap::new(), 0);
    while seen < WRITERS * BATCHES * 2 {
        let stopped = writers.iter().all(|writer| writer.is_finished());
        let page = other.feed(after, 7).await.unwrap();
        assert!(
            !(stopped && page.is_empty()),
            "an event came below a position already read"
        );
        for event in page {
            assert!(event.position > after);
            after = event.position;
            let next_seq = next_seqs.entry(event.stream).or_insert(0);
            assert_eq!(
                event.seq, *next_seq,
                "the events of a stream come in its order"
            );
            *next_seq += 1;
            seen += 1;
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(other.feed(after, 7).await, Ok(vec![]));
}
