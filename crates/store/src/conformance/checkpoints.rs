//! Checkpoints: a shorter way to the same state, never the source of truth.

use kernel::ids::StreamId;

use super::world::*;
use crate::*;

fn checkpoint(log: &Log, next_seq: u64, state: &str) -> Checkpoint {
    Checkpoint {
        next_seq,
        chain: log.chain,
        state: state.into(),
    }
}

async fn five_events(w: &World<'_>) -> Log {
    let mut log = Log::new("run-1");
    let draft = log.next(["a", "b", "c", "d", "e"]);
    w.put(&mut log, draft).await;
    log
}

async fn kept(w: &World<'_>, stream: &StreamId) -> Option<Checkpoint> {
    w.load(stream, ReadFrom::Checkpoint, 0)
        .await
        .unwrap()
        .checkpoint
}

pub(super) async fn a_load_begins_at_the_checkpoint(w: World<'_>) {
    let log = five_events(&w).await;
    let three = checkpoint(&log, 3, "three");
    w.put_checkpoint(log.id(), three.clone()).await.unwrap();
    let loaded = w.load(log.id(), ReadFrom::Checkpoint, 9).await.unwrap();
    assert_eq!(loaded.checkpoint, Some(three));
    assert_eq!((loaded.first_seq, loaded.next_seq), (3, 5));
    assert_eq!(texts(&loaded.records), ["d", "e"]);
    let one = w.load(log.id(), ReadFrom::Checkpoint, 1).await.unwrap();
    assert_eq!(texts(&one.records), ["d"]);
    let whole = w.read(log.id()).await;
    assert_eq!((whole.checkpoint, whole.records.len()), (None, 5));
    w.put_checkpoint(log.id(), checkpoint(&log, 5, "five"))
        .await
        .unwrap();
    let end = w.load(log.id(), ReadFrom::Checkpoint, 9).await.unwrap();
    assert_eq!((end.first_seq, end.records.len()), (5, 0));
}

pub(super) async fn only_a_checkpoint_that_is_not_older_replaces(w: World<'_>) {
    let log = five_events(&w).await;
    for (next_seq, state, wanted) in [
        (0, "zero", "zero"),
        (2, "two", "two"),
        (1, "older", "two"),
        (2, "two again", "two again"),
        (6, "longer than the log", "two again"),
        (4, "four", "four"),
        (2, "two at last", "four"),
    ] {
        w.put_checkpoint(log.id(), checkpoint(&log, next_seq, state))
            .await
            .unwrap();
        assert_eq!(kept(&w, log.id()).await.unwrap().state, wanted.as_bytes());
    }
}

pub(super) async fn a_checkpoint_survives_appends_and_other_streams(w: World<'_>) {
    let mut log = five_events(&w).await;
    w.put_checkpoint(log.id(), checkpoint(&log, 5, "five"))
        .await
        .unwrap();
    let draft = log.next(["f"]);
    w.put(&mut log, draft).await;
    let other = w.create("run-2").await;
    w.put_checkpoint(other.id(), checkpoint(&other, 1, "other"))
        .await
        .unwrap();
    let loaded = w.load(log.id(), ReadFrom::Checkpoint, 9).await.unwrap();
    assert_eq!(texts(&loaded.records), ["f"]);
    assert_eq!(loaded.checkpoint.unwrap().state, b"five");
}

pub(super) async fn a_checkpoint_may_be_large_and_may_be_lost(mut w: World<'_>) {
    let log = five_events(&w).await;
    let large = Checkpoint {
        next_seq: 4,
        chain: log.chain,
        state: dense(1 << 20),
    };
    w.put_checkpoint(log.id(), large.clone()).await.unwrap();
    assert_eq!(kept(&w, log.id()).await, Some(large.clone()));
    w.reopen().await;
    let loaded = w.load(log.id(), ReadFrom::Checkpoint, 9).await.unwrap();
    match loaded.checkpoint {
        Some(found) => {
            assert_eq!(found, large);
            assert_eq!(texts(&loaded.records), ["e"]);
        }
        None => assert_eq!(texts(&loaded.records), ["a", "b", "c", "d", "e"]),
    }
}

pub(super) async fn a_checkpoint_needs_its_stream(w: World<'_>) {
    let log = five_events(&w).await;
    let unknown = w
        .put_checkpoint(&"run-9".into(), checkpoint(&log, 0, "no"))
        .await;
    assert_eq!(unknown, Err(StoreError::Missing));
    w.purge(log.id(), "gone").await.unwrap();
    let purged = w.put_checkpoint(log.id(), checkpoint(&log, 5, "no")).await;
    assert_eq!(purged, Err(StoreError::Missing));
}
