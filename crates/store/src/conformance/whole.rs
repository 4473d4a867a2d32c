//! Whole stores: copies, and reports.

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::stream::StreamKind;

use super::world::*;
use crate::memory::MemoryStore;
use crate::whole::*;
use crate::*;

/// More events than one page of a copy.
const EVENTS: usize = 2_400;

/// Writes something of everything, so that no lease is live at the end.
async fn fill(w: &World<'_>) {
    let tenant = "acme".into();
    let blob = w.put_blob(&tenant, dense(50_000)).await.unwrap();
    w.put_blob(&"globex".into(), b"waits".to_vec())
        .await
        .unwrap();

    let mut log = Log::new("run-1");
    let draft = log
        .next(["a", "b"])
        .runnable()
        .concurrency("k")
        .blob(blob)
        .blob(blob);
    let draft = draft
        .timer("late", START)
        .timer("later", START.plus(SECOND));
    let draft = draft.index(|row| {
        row.tags = vec!["tag".into(), "a \"quoted\" one".into()];
        row.subject = "sub\0ject".into();
        row.workspace = Some("space".into());
        row.parent = Some("run-0".into());
        row.priority = -3;
        row.summary = serde_json::json!({"ratio": 0.1, "text": "é"});
    });
    let draft = draft.key("k1", None).key("gone", Some(START));
    w.put(
        &mut log,
        draft.message("m1", "run-2").message("m2", "run-3"),
    )
    .await;
    let state = dense(40_000);
    let (next_seq, chain) = (2, log.chain);
    let checkpoint = Checkpoint {
        next_seq,
        chain,
        state,
    };
    w.put_checkpoint(log.id(), checkpoint).await.unwrap();
    let delivered = w.outbox(1).await.unwrap()[0].place;
    w.delivered(&[delivered]).await.unwrap();
    let lease = w.lease(&log, "engine").await;
    w.release(&lease).await.unwrap();

    let mut long = Log::for_tenant("globex", "doc-1");
    long.index.kind = StreamKind::Document;
    let draft = long.next(vec![b'x'; codec::EXTERNAL_BYTES].chunks(codec::EXTERNAL_BYTES));
    w.put(&mut long, draft).await;
    for _ in 0..4 {
        let contents = (0..EVENTS / 4).map(|n| format!("event {n}"));
        let draft = long.next(contents).index(|row| row.settled = true);
        w.put(&mut long, draft).await;
    }
    let draft = long.next([vec![b'y'; codec::COMPRESS_BYTES]]);
    w.put(&mut long, draft).await;
    w.lease(&long, "other engine").await;

    let claim = KeyClaim {
        namespace: "requests".into(),
        key: "k2".into(),
        digest: Some(Digest::compute(b"request")),
        answer: Some(vec![0, 255]),
        expires_at: Some(START.plus(TTL * 9)),
    };
    w.put_key(&tenant, claim, None).await.unwrap();
    // The newest position and the newest place go with their stream.
    let mut purged = Log::new("run-9");
    let draft = purged.next(["a"]).message("m9", "run-1");
    w.put(&mut purged, draft).await;
    w.purge(purged.id(), "asked for").await.unwrap();
    w.clock.advance(TTL);
    w.maintain_all().await;
}

/// Every row of a store.
async fn rows(store: &dyn WholeStore) -> Vec<(Part, Row)> {
    let mut all = Vec::new();
    for part in Part::ALL {
        let rows = store.export(part, &part.start(), usize::MAX).await.unwrap();
        all.extend(rows.into_iter().map(|row| (part, row)));
    }
    all
}

/// An empty reference store to copy into.
fn empty(w: &World<'_>) -> MemoryStore {
    let store = MemoryStore::new(w.clock.clone());
    let opened = store.share_whole(w.clock.clone(), Opening::Destination);
    opened.expect("it is empty")
}

/// A filled reference store.
async fn reference(w: &World<'_>) -> MemoryStore {
    let memory = MemoryStore::new(w.clock.clone());
    fill(&World {
        bed: w.bed,
        clock: w.clock.clone(),
        store: std::sync::Arc::new(memory.clone()),
    })
    .await;
    memory
}

pub(super) async fn a_copy_is_equal_in_everything(mut w: World<'_>) {
    let from = reference(&w).await;
    let store = w.whole(Opening::Destination).await.unwrap();
    let copied = copy(&from, &*store, &mut |_, _| {}).await.unwrap();
    assert_eq!(rows(&*store).await, rows(&from).await);
    let of = |wanted: Part| {
        copied
            .rows
            .iter()
            .find(|(part, _)| *part == wanted)
            .unwrap()
            .1
    };
    assert_eq!(of(Part::Streams), 2);
    assert_eq!(of(Part::Events), EVENTS as u64 + 4);
    drop(store);

    // Through the other methods it is the same store too.
    w.reopen().await;
    for stream in ["run-1", "doc-1"] {
        let stream = stream.into();
        for begin in [ReadFrom::Seq(0), ReadFrom::Checkpoint] {
            let loaded = from.load(&stream, begin, usize::MAX).await;
            assert_eq!(w.load(&stream, begin, usize::MAX).await, loaded);
        }
    }
    let all = everything();
    assert_eq!(w.list(all.clone()).await, from.list(all).await);
    let tagged = ListQuery {
        workspace: Some("space".into()),
        tag: Some("tag".into()),
        subject: Some("sub\0ject".into()),
        parent: Some("run-0".into()),
        ..everything()
    };
    assert_eq!(w.list(tagged).await.unwrap().len(), 1);
    let (feed, outbox) = (
        from.feed(Position(0), usize::MAX).await,
        from.outbox(9).await,
    );
    assert_eq!(w.feed(Position(0), usize::MAX).await, feed);
    assert_eq!(w.outbox(9).await, outbox);
    assert_eq!(w.ready().await, ["run-1"]);
    let purged = "run-9".into();
    assert_eq!(w.tombstone(&purged).await, from.tombstone(&purged).await);
    // No epoch, position or place is given again.
    let (end, last) = (from.feed_end().await.unwrap(), outbox.unwrap()[0].place);
    let lease = w
        .claim(&"run-1".into(), &holder("engine"), TTL)
        .await
        .unwrap();
    assert_eq!(lease.epoch, Epoch(2));
    let mut log = Log::new("run-2");
    let draft = log.next(["a"]).message("m3", "run-1");
    let done = w.put(&mut log, draft).await;
    // The purged event was one further.
    assert!(done.position.0 > end.0 + 1, "{done:?} after {end:?}");
    assert!(w.outbox(9).await.unwrap()[1].place > last + 1);
    // A settled stream is packed again, and copied back from its packs.
    w.maintain_all().await;
    let store = w.whole(Opening::Source).await.unwrap();
    w.clock.advance(TTL);
    let back = empty(&w);
    copy(&*store, &back, &mut |_, _| {}).await.unwrap();
    assert_eq!(rows(&back).await, rows(&*store).await);
}

pub(super) async fn a_copy_continues_where_it_was_stopped(mut w: World<'_>) {
    let from = reference(&w).await;
    let whole = empty(&w);
    let mut wanted = Vec::new();
    copy(&from, &whole, &mut |part, rows| wanted.push((part, rows)))
        .await
        .unwrap();

    let (pages, seen) = std::sync::mpsc::channel();
    for stop in [3, 9, usize::MAX] {
        let store = w.whole(Opening::Destination).await.unwrap();
        let (from, pages) = (from.clone(), pages.clone());
        let mut count = 0;
        let run = tokio::spawn(async move {
            let mut report = |part, rows| {
                pages.send((part, rows)).unwrap();
                count += 1;
                assert!(count < stop, "the copy is stopped here on purpose");
            };
            copy(&from, &*store, &mut report).await.map(drop)
        });
        let ended = run.await;
        assert_eq!(ended.is_err(), stop < usize::MAX);
        if stop < usize::MAX {
            let refused = w.whole(Opening::Source).await.err().unwrap();
            assert!(refused.to_string().contains("unfinished"), "{refused}");
        } else {
            ended.unwrap().unwrap();
        }
    }
    drop(pages);
    assert_eq!(seen.iter().collect::<Vec<_>>(), wanted);

    // Another source, or a later state of the same, is refused.
    let store = w.whole(Opening::Source).await.unwrap();
    let half = empty(&w);
    let mark = Mark {
        step: 1,
        text: serde_json::json!({"source": Digest::compute(b"")}).to_string(),
    };
    half.import(Part::Blobs, Vec::new(), mark).await.unwrap();
    let refused = copy(&*store, &half, &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(refused, CopyError::SourceChanged), "{refused}");
}

pub(super) async fn a_source_in_use_is_refused(mut w: World<'_>) {
    let log = w.create("run-1").await;
    w.lease(&log, "engine").await;
    let list = serde_json::json!([
        {"holder": "server", "address": "http://a", "expiresAt": w.now().plus(TTL * 2)},
        {"holder": "ended", "address": "http://b", "expiresAt": w.now()},
    ]);
    let claim = KeyClaim {
        namespace: SERVERS_NAMESPACE.into(),
        key: SERVERS_KEY.into(),
        digest: None,
        answer: Some(list.to_string().into_bytes()),
        expires_at: None,
    };
    w.put_key(&"*".into(), claim, None).await.unwrap();
    let to = empty(&w);
    let store = w.whole(Opening::Source).await.unwrap();
    let servers = store.status().await.unwrap().servers;
    let named: Vec<_> = servers
        .iter()
        .map(|server| (server.to_string(), server.leases))
        .collect();
    assert_eq!(
        named,
        [("engine".into(), 1), ("http://a (server)".into(), 0)]
    );
    for wanted in ["engine", "http://a", ""] {
        match copy(&*store, &to, &mut |_, _| {}).await {
            Err(CopyError::SourceIsLive(who)) => {
                assert!(who.contains(wanted) && !wanted.is_empty())
            }
            done => assert_eq!((wanted, done.is_ok()), ("", true), "{done:?}"),
        }
        w.clock.advance(TTL);
    }
}

pub(super) async fn a_destination_with_data_is_refused(mut w: World<'_>) {
    w.put_blob(&"acme".into(), b"data".to_vec()).await.unwrap();
    let refused = w.whole(Opening::Destination).await.err().unwrap();
    assert!(refused.to_string().contains("has data"), "{refused}");
    let store = w.whole(Opening::Source).await.unwrap();
    assert_eq!(store.mark().await, Ok(None));
    let refused = copy(&MemoryStore::new(w.clock.clone()), &*store, &mut |_, _| {}).await;
    assert!(
        matches!(refused, Err(CopyError::NotADestination)),
        "{refused:?}"
    );
}

pub(super) async fn a_status_counts_what_is_there(mut w: World<'_>) {
    fill(&w).await;
    let store = w.whole(Opening::Source).await.unwrap();
    let status = store.status().await.unwrap();
    assert_eq!((status.streams, status.events), (2, EVENTS as u64 + 4));
    let oldest = Some(START);
    assert_eq!(
        status.outbox,
        Outbox {
            messages: 1,
            oldest
        }
    );
    assert!(status.feed_end >= store.feed_end().await.unwrap());
    assert_eq!((status.feed_waiting, status.servers), (0, vec![]));
    assert!(status.tables.iter().all(|table| table.bytes > 0));
}
