//! Append: what is written, what is refused, what is left.

use super::world::*;
use crate::*;

pub(super) async fn a_first_batch_creates_the_stream(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a", "b"]).index(|row| {
        row.workspace = Some("lab".into());
        row.tags = vec!["red".into(), "green".into()];
        row.parent = Some("run-0".into());
        row.priority = -3;
        row.concurrency_key = Some("key".into());
        row.summary = serde_json::json!({"nodes": [1, 2.5, null, "é"]});
    });
    w.put(&mut log, draft).await;
    let loaded = w.read(log.id()).await;
    assert_eq!(loaded.header, log.header);
    assert_eq!(loaded.index, log.index);
    assert_eq!(texts(&loaded.records), ["a", "b"]);
    assert_eq!(loaded.records[1].chain, log.chain);
    assert_eq!((loaded.first_seq, loaded.next_seq), (0, 2));
    assert_eq!((loaded.checkpoint, loaded.lease), (None, None));
}

pub(super) async fn later_batches_extend_the_log(w: World<'_>) {
    let mut log = w.create("run-1").await;
    for n in 1..5 {
        let draft = log.next([format!("a{n}"), format!("b{n}")]);
        let draft = draft.index(|row| {
            row.status = format!("status-{n}");
            row.updated_at = START.plus_ms(n);
        });
        w.put(&mut log, draft).await;
    }
    let loaded = w.read(log.id()).await;
    let all = ["created", "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"];
    assert_eq!(texts(&loaded.records), all);
    assert_eq!((loaded.next_seq, &loaded.index), (9, &log.index));
    assert_eq!(loaded.records.last().unwrap().chain, log.chain);
}

pub(super) async fn the_wrong_sequence_is_a_conflict(w: World<'_>) {
    let mut log = w.create("run-1").await;
    let stale = log.clone();
    let draft = log.next(["a"]);
    w.put(&mut log, draft).await;
    let mut ahead = log.clone();
    ahead.next_seq += 1;
    let mut unknown = Log::new("run-2");
    unknown.next_seq = 1;
    for log in [&stale, &ahead, &Log::new("run-1"), &unknown] {
        assert_eq!(w.try_put(log.next(["no"])).await, Err(SEQUENCE));
    }
    assert_eq!(w.texts(log.id()).await, ["created", "a"]);
    assert_eq!(
        w.load(unknown.id(), ReadFrom::Seq(0), 1).await,
        Err(StoreError::Missing)
    );
    assert_eq!(w.fed(Position(0)).await, ["run-1.0", "run-1.1"]);
}

pub(super) async fn a_refused_append_leaves_no_trace(w: World<'_>) {
    let mut taken = Log::new("run-0");
    let draft = taken.next(["a"]).key("taken", None);
    w.put(&mut taken, draft).await;
    let log = w.create("run-1").await;
    let before = w.read(log.id()).await;
    let blob = w
        .put_blob(log.header.tenant(), b"blob".to_vec())
        .await
        .unwrap();

    let full = |log: &Log| {
        log.next(["no"])
            .index(|row| row.status = "no".into())
            .runnable()
            .timer("no", START)
            .key("free", None)
            .message("no", "run-9")
            .blob(blob)
    };
    let mut moved = log.clone();
    moved.next_seq += 1;
    let refused = [
        (full(&log).key("taken", None), key_taken("taken")),
        (full(&moved), SEQUENCE),
        (
            full(&log).blob(kernel::digest::Digest([7; 32])),
            StoreError::Missing,
        ),
        (
            full(&Log::new("run-2")).key("taken", None),
            key_taken("taken"),
        ),
    ];
    for (draft, refusal) in refused {
        assert_eq!(w.try_put(draft).await, Err(refusal));
    }
    let fenced = w
        .append(
            full(&log).batch(),
            Guard::Holder(Epoch(1)),
            LeaseChange::Keep,
        )
        .await;
    assert_eq!(fenced, Err(StoreError::Fenced));

    assert_eq!(w.read(log.id()).await, before);
    assert_eq!(
        w.load(&"run-2".into(), ReadFrom::Seq(0), 1).await,
        Err(StoreError::Missing)
    );
    assert_eq!(w.ready().await, [""; 0]);
    assert_eq!(w.outgoing().await, [""; 0]);
    assert_eq!(w.key(log.header.tenant(), "dedup", "free").await, Ok(None));
    assert_eq!(w.fed(Position(0)).await, ["run-0.0", "run-1.0"]);
    // The blob was not counted as referenced either: it is collected after its grace.
    w.clock.advance(BLOB_GRACE);
    w.maintain_all().await;
    assert_eq!(
        w.blob(log.header.tenant(), &blob).await,
        Err(StoreError::Missing)
    );
}

pub(super) async fn the_first_of_several_refusals_is_given(w: World<'_>) {
    let mut taken = Log::new("run-0");
    let draft = taken.next(["a"]).key("taken", None).concurrency("busy");
    w.put(&mut taken, draft).await;
    w.lease(&taken, "holder").await;
    let stale = Guard::Holder(Epoch(7));
    let wrong = |log: &Log| {
        log.next(["no"])
            .concurrency("busy")
            .key("taken", None)
            .blob(kernel::digest::Digest([7; 32]))
    };
    // All refusal reasons at once, then one fewer each time.
    let again = Log::new("run-0");
    assert_eq!(
        w.append(wrong(&again).batch(), stale, taking("b")).await,
        Err(StoreError::Fenced)
    );
    assert_eq!(
        w.append(wrong(&again).batch(), Guard::Outside, taking("b"))
            .await,
        Err(SEQUENCE)
    );
    let new = Log::new("run-1");
    assert_eq!(
        w.append(wrong(&new).batch(), Guard::Outside, taking("b"))
            .await,
        Err(HELD)
    );
    assert_eq!(w.try_put(wrong(&new)).await, Err(key_taken("taken")));
    let mut blob_only = wrong(&new);
    blob_only.keys.clear();
    assert_eq!(w.try_put(blob_only).await, Err(StoreError::Missing));
}

pub(super) async fn neighbours_of_a_refused_append_pass(w: World<'_>) {
    let taken = w.create("run-taken").await;
    let mut appends = Vec::new();
    for n in 0..60 {
        let log = if n % 3 == 0 {
            Log::new("run-taken")
        } else {
            Log::new(&format!("run-{n}"))
        };
        let (store, batch) = (w.store.clone(), log.next([format!("{n}")]).batch());
        appends.push(tokio::spawn(async move {
            (
                n,
                store.append(batch, Guard::Outside, LeaseChange::Keep).await,
            )
        }));
    }
    for append in appends {
        let (n, result) = append.await.unwrap();
        if n % 3 == 0 {
            assert_eq!(result, Err(SEQUENCE));
        } else {
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(w.texts(&format!("run-{n}").into()).await, [n.to_string()]);
        }
    }
    assert_eq!(w.texts(taken.id()).await, ["created"]);
    assert_eq!(w.fed(Position(0)).await.len(), 41);
}

pub(super) async fn one_of_many_racing_appends_wins(w: World<'_>) {
    let other = w.other().await;
    let mut log = w.create("run-1").await;
    for round in 0..10 {
        let mut appends = Vec::new();
        for n in 0..8 {
            let store = if n % 2 == 0 {
                w.store.clone()
            } else {
                other.clone()
            };
            let batch = log.next([format!("{round}/{n}")]).batch();
            appends.push(tokio::spawn(async move {
                let result = store
                    .append(batch.clone(), Guard::Outside, LeaseChange::Keep)
                    .await;
                (batch, result)
            }));
        }
        let mut won = Vec::new();
        for append in appends {
            match append.await.unwrap() {
                (batch, Ok(_)) => won.push(batch),
                (_, refused) => assert_eq!(refused, Err(SEQUENCE)),
            }
        }
        assert_eq!(won.len(), 1, "exactly one append may have a sequence");
        log.went(&won[0]);
        let loaded = w.read(log.id()).await;
        assert_eq!(loaded.records.last().unwrap(), &won[0].records()[0]);
        assert_eq!(loaded.next_seq, log.next_seq);
    }
}

pub(super) async fn an_acknowledged_append_is_seen_by_others_and_after_reopening(mut w: World<'_>) {
    let other = w.other().await;
    let mut log = w.create("run-1").await;
    let draft = log
        .next(["a"])
        .runnable()
        .timer("t", START)
        .key("k", None)
        .message("m", "run-2");
    w.put(&mut log, draft).await;
    let seen = other.load(log.id(), ReadFrom::Seq(0), 10).await.unwrap();
    assert_eq!(texts(&seen.records), ["created", "a"]);
    assert_eq!(other.feed(Position(0), 10).await.unwrap().len(), 2);
    assert_eq!(other.outbox(10).await.unwrap().len(), 1);
    assert!(
        other
            .key(log.header.tenant(), "dedup", "k")
            .await
            .unwrap()
            .is_some()
    );
    drop(other);
    w.reopen().await;
    assert_eq!(w.read(log.id()).await, seen);
    assert_eq!(w.fed(Position(0)).await, ["run-1.0", "run-1.1"]);
    assert_eq!(w.outgoing().await, ["m"]);
    assert_eq!(w.ready().await, ["run-1"]);
    let draft = log.next(["b"]);
    w.put(&mut log, draft).await;
}

pub(super) async fn calls_that_only_a_bug_can_make_panic(w: World<'_>) {
    let log = w.create("run-1").await;
    let mut second_header = log.next(["no"]);
    second_header.header = Some(log.header.clone());
    let mut no_header = Log::new("run-2").next(["no"]);
    no_header.header = None;
    let calls = [
        (log.next([""; 0]), LeaseChange::Keep),
        (second_header, LeaseChange::Keep),
        (no_header, LeaseChange::Keep),
        (log.next(["no"]), taking("b")),
        (log.next(["no"]), LeaseChange::Release),
    ];
    for (draft, lease) in calls {
        let (store, what) = (w.store.clone(), format!("{draft:?} with {lease:?}"));
        let call =
            tokio::spawn(async move { store.append(draft.batch(), Guard::Outside, lease).await });
        assert!(
            call.await.is_err_and(|error| error.is_panic()),
            "no panic: {what}"
        );
    }
    assert_eq!(w.texts(log.id()).await, ["created"]);
}
