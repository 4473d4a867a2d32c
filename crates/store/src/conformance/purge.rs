//! Purge, tombstones and housekeeping.

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::time::Timestamp;

use super::world::*;
use crate::*;

/// A stream with one of everything.
async fn full(w: &World<'_>) -> Log {
    let blob = w.put_blob(&"acme".into(), b"blob".to_vec()).await.unwrap();
    let mut log = Log::new("run-1");
    let draft = log
        .next(["a", "b"])
        .runnable()
        .concurrency("k")
        .timer("t", START);
    let draft = draft.index(|row| row.tags = vec!["tag".into()]);
    let draft = draft.key("k", None).message("m", "run-2").blob(blob);
    w.put(&mut log, draft).await;
    let checkpoint = Checkpoint {
        next_seq: 2,
        chain: log.chain,
        state: b"state".to_vec(),
    };
    w.put_checkpoint(log.id(), checkpoint).await.unwrap();
    log
}

pub(super) async fn nothing_but_the_tombstone_is_left(mut w: World<'_>) {
    let log = full(&w).await;
    let mut sender = Log::new("run-0");
    let draft = sender
        .next(["a"])
        .message("to purged", "run-1")
        .message("other", "run-7");
    w.put(&mut sender, draft).await;
    w.clock.advance(SECOND);
    let tombstone = w.purge(log.id(), "asked for").await.unwrap();
    let wanted = Tombstone {
        stream: log.id().clone(),
        tenant: log.header.tenant().clone(),
        next_seq: 2,
        chain: log.chain,
        reason: "asked for".into(),
        purged_at: START.plus(SECOND),
    };
    assert_eq!(tombstone, wanted);
    for _ in 0..2 {
        assert_eq!(w.tombstone(log.id()).await, Ok(Some(wanted.clone())));
        for from in [ReadFrom::Seq(0), ReadFrom::Checkpoint] {
            assert_eq!(w.load(log.id(), from, 9).await, Err(StoreError::Missing));
        }
        assert_eq!(w.listed(everything()).await, ["run-0"]);
        assert_eq!(
            w.listed(ListQuery {
                tag: Some("tag".into()),
                ..everything()
            })
            .await,
            [""; 0]
        );
        assert_eq!(w.fed(Position(0)).await, ["run-0.0"]);
        assert_eq!(w.ready().await, [""; 0]);
        assert_eq!(w.key(log.header.tenant(), "dedup", "k").await, Ok(None));
        assert_eq!(w.outgoing().await, ["to purged", "other"]);
        w.maintain_all().await;
        w.reopen().await;
    }
}

pub(super) async fn a_request_outlives_its_result_until_its_key_expires(mut w: World<'_>) {
    let mut log = Log::new("run-1");
    let expires_at = Some(START.plus(SECOND * 10));
    let answered = claim_of("request", Some(Digest::compute(b"request")), expires_at);
    let nameless = claim_of("nameless", None, expires_at);
    let endless = claim_of("endless", Some(Digest::compute(b"request")), None);
    let draft = log.next(["a"]);
    let draft = [&answered, &nameless, &endless]
        .into_iter()
        .fold(draft, |draft, claim| draft.claim(claim.clone()));
    w.put(&mut log, draft).await;
    w.purge(log.id(), "asked for").await.unwrap();
    let tenant = log.header.tenant().clone();
    for _ in 0..2 {
        let kept = w.key(&tenant, &answered.namespace, "request").await;
        let kept = kept.unwrap().expect("the request is answered still");
        assert_eq!((kept.stream, kept.digest), (None, answered.digest));
        assert_eq!(
            (&kept.answer, kept.expires_at),
            (&answered.answer, expires_at)
        );
        for freed in ["nameless", "endless"] {
            assert_eq!(w.key(&tenant, &answered.namespace, freed).await, Ok(None));
        }
        let again = Log::new("run-2").next(["a"]).claim(answered.clone());
        assert!(matches!(
            w.try_put(again).await,
            Err(StoreError::Conflict(Conflict::Key { .. }))
        ));
        w.maintain_all().await;
        w.reopen().await;
    }
    w.clock.advance(SECOND * 10);
    assert_eq!(
        w.key(&tenant, &answered.namespace, "request").await,
        Ok(None)
    );
    let mut other = Log::new("run-3");
    let draft = other.next(["a"]).claim(claim_of("request", None, None));
    w.put(&mut other, draft).await;
}

fn claim_of(key: &str, digest: Option<Digest>, expires_at: Option<Timestamp>) -> KeyClaim {
    KeyClaim {
        namespace: "requests".into(),
        key: key.into(),
        digest,
        answer: Some(b"what was said".to_vec()),
        expires_at,
    }
}

pub(super) async fn a_purged_stream_stays_purged(w: World<'_>) {
    let mut log = full(&w).await;
    let lease = w.lease(&log, "a").await;
    w.release(&lease).await.unwrap();
    let tombstone = w.purge(log.id(), "first").await.unwrap();
    w.clock.advance(SECOND);
    assert_eq!(w.purge(log.id(), "second").await, Ok(tombstone));
    assert_eq!(
        w.try_put(Log::new("run-1").next(["no"])).await,
        Err(SEQUENCE)
    );
    assert_eq!(w.try_put(log.next(["no"])).await, Err(SEQUENCE));
    let driven = log.next(["no"]).batch();
    let fenced = w
        .append(driven, Guard::Holder(lease.epoch), LeaseChange::Keep)
        .await;
    assert_eq!(fenced, Err(StoreError::Fenced));
    let claimed = w.claim(log.id(), &holder("a"), TTL).await;
    assert_eq!(claimed, Err(StoreError::Missing));
    w.release(&lease).await.unwrap();
    assert_eq!(
        w.renew(&[lease], TTL).await.unwrap(),
        [Err(StoreError::Missing)]
    );
    // Its keys and its concurrency key are free for others.
    log = Log::new("run-2");
    let draft = log.next(["a"]).key("k", None).concurrency("k");
    w.put(&mut log, draft).await;
    w.lease(&log, "a").await;
}

pub(super) async fn a_live_hold_forbids_the_purge(w: World<'_>) {
    let log = full(&w).await;
    let before = w.read(log.id()).await.records;
    let lease = w.lease(&log, "a").await;
    assert_eq!(w.purge(log.id(), "no").await, Err(HELD));
    assert_eq!(w.tombstone(log.id()).await, Ok(None));
    assert_eq!(w.read(log.id()).await.records, before);
    w.clock.set(lease.expires_at);
    w.purge(log.id(), "yes").await.unwrap();
}

pub(super) async fn an_unknown_stream_has_no_tombstone(w: World<'_>) {
    let log = w.create("run-1").await;
    assert_eq!(
        w.purge(&"run-2".into(), "no").await,
        Err(StoreError::Missing)
    );
    assert_eq!(w.tombstone(&"run-2".into()).await, Ok(None));
    assert_eq!(w.tombstone(log.id()).await, Ok(None));
    w.create("run-2").await;
}

pub(super) async fn housekeeping_changes_nothing_that_shows(mut w: World<'_>) {
    let large = dense(codec::EXTERNAL_BYTES);
    let mut logs = Vec::new();
    for n in 0..3 {
        let mut log = Log::new(&format!("run-{n}"));
        for round in 0..40 {
            let draft = log.next([format!("{n} {round} a"), format!("{n} {round} b")]);
            w.put(&mut log, draft).await;
        }
        let draft = log
            .next([b"end".to_vec(), large.clone()])
            .index(|row| row.settled = n < 2);
        w.put(&mut log, draft).await;
        logs.push(log);
    }
    let mut before = Vec::new();
    for log in &logs {
        before.push(w.read(log.id()).await);
    }
    let fed = w.feed(Position(0), usize::MAX).await.unwrap();
    w.maintain_all().await;
    w.reopen().await;
    w.maintain_all().await;
    for (log, before) in logs.iter().zip(&before) {
        assert_eq!(w.read(log.id()).await, *before);
        for (from, limit) in [(0, 1), (17, 30), (79, 5), (81, 9), (82, 9)] {
            let part = w.load(log.id(), ReadFrom::Seq(from), limit).await.unwrap();
            let wanted = before.records.iter().skip(from as usize).take(limit);
            assert!(part.records.iter().eq(wanted), "{limit} from {from}");
        }
    }
    assert_eq!(w.feed(Position(0), usize::MAX).await.unwrap(), fed);
    let half = fed[fed.len() / 2].position;
    assert_eq!(
        w.feed(half, 9).await.unwrap(),
        fed[fed.len() / 2 + 1..][..9]
    );
    assert_eq!(w.inspect().await, Ok(vec![]));
    // The store does not interpret `settled`; the log may even grow again.
    let draft = logs[0].next(["after"]).index(|row| row.settled = false);
    w.put(&mut logs[0], draft).await;
    w.maintain_all().await;
    let end = w.load(logs[0].id(), ReadFrom::Seq(81), 9).await.unwrap();
    assert_eq!(end.records[0].content, large);
    assert_eq!(end.records[1].content, b"after");
    w.purge(logs[1].id(), "gone").await.unwrap();
    assert_eq!(
        w.feed(Position(0), usize::MAX).await.unwrap().len(),
        82 * 2 + 1
    );
}

pub(super) async fn a_used_store_is_healthy(mut w: World<'_>) {
    let log = full(&w).await;
    let lease = w.lease(&log, "a").await;
    w.create("run-2").await;
    let large = Log::new("run-3");
    w.put(
        &mut large.clone(),
        large.next([dense(codec::EXTERNAL_BYTES)]),
    )
    .await;
    assert_eq!(w.inspect().await, Ok(vec![]));
    w.clock.set(lease.expires_at);
    w.purge(log.id(), "gone").await.unwrap();
    w.purge(large.id(), "gone").await.unwrap();
    assert_eq!(w.inspect().await, Ok(vec![]));
    w.clock.advance(BLOB_GRACE * 2);
    w.maintain_all().await;
    w.reopen().await;
    assert_eq!(w.inspect().await, Ok(vec![]));
}
