//! Unique keys: claimed with an append, taken until they expire.

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::TenantId;
use kernel::time::Timestamp;

use super::world::*;
use crate::*;

pub(super) async fn a_claimed_key_is_found_as_it_was_claimed(mut w: World<'_>) {
    let claim = KeyClaim {
        namespace: "idempotency".into(),
        key: "request-1".into(),
        digest: Some(Digest::compute(b"request")),
        answer: Some(vec![0, 1, 255]),
        expires_at: Some(START.plus(SECOND)),
    };
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).claim(claim.clone()).key("k", None);
    w.put(&mut log, draft).await;
    w.reopen().await;
    let tenant = log.header.tenant();
    let row = KeyRow {
        stream: Some(log.id().clone()),
        digest: claim.digest,
        answer: claim.answer,
        expires_at: claim.expires_at,
    };
    assert_eq!(
        w.key(tenant, "idempotency", "request-1").await,
        Ok(Some(row))
    );
    let bare = KeyRow {
        stream: Some(log.id().clone()),
        digest: None,
        answer: None,
        expires_at: None,
    };
    assert_eq!(w.key(tenant, "dedup", "k").await, Ok(Some(bare)));
    for (namespace, key) in [("dedup", "request-1"), ("idempotency", "k"), ("dedup", "K")] {
        assert_eq!(w.key(tenant, namespace, key).await, Ok(None));
    }
}

pub(super) async fn a_taken_key_refuses_the_append(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).key("k", None);
    w.put(&mut log, draft).await;
    assert_eq!(
        w.try_put(Log::new("run-2").next(["no"]).key("k", None))
            .await,
        Err(key_taken("k"))
    );
    let again = w.try_put(log.next(["no"]).key("k", None)).await;
    assert_eq!(
        again,
        Err(key_taken("k")),
        "the stream that has the key is refused like any other"
    );
    let draft = Log::new("run-2")
        .next(["no"])
        .key("free", None)
        .key("k", None)
        .key("k", None);
    assert_eq!(w.try_put(draft).await, Err(key_taken("k")));
    assert_eq!(w.texts(log.id()).await, ["a"]);
}

pub(super) async fn the_first_taken_key_of_a_batch_is_named(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).key("y", None).key("x", None);
    w.put(&mut log, draft).await;
    let draft = Log::new("run-2")
        .next(["no"])
        .key("free", None)
        .key("x", None)
        .key("y", None);
    assert_eq!(w.try_put(draft).await, Err(key_taken("x")));
}

pub(super) async fn a_batch_cannot_claim_a_key_twice(w: World<'_>) {
    let draft = Log::new("run-1").next(["no"]).key("k", None).key("k", None);
    assert_eq!(w.try_put(draft).await, Err(key_taken("k")));
    assert_eq!(w.fed(Position(0)).await, [""; 0]);
}

pub(super) async fn an_expired_key_is_free(w: World<'_>) {
    let (mut one, mut two) = (Log::new("run-1"), Log::new("run-2"));
    let expiry = START.plus(SECOND);
    let draft = one.next(["a"]).key("k", Some(expiry)).key("forever", None);
    w.put(&mut one, draft).await;
    let tenant = one.header.tenant().clone();
    w.clock.advance(SECOND - MS);
    assert!(w.key(&tenant, "dedup", "k").await.unwrap().is_some());
    assert_eq!(
        w.try_put(two.next(["no"]).key("k", None)).await,
        Err(key_taken("k"))
    );
    w.clock.advance(MS);
    assert_eq!(w.key(&tenant, "dedup", "k").await, Ok(None));
    let draft = two.next(["a"]).key("k", Some(expiry.plus(SECOND)));
    w.put(&mut two, draft).await;
    let row = w.key(&tenant, "dedup", "k").await.unwrap().unwrap();
    assert_eq!(
        (&row.stream, row.expires_at),
        (&Some(two.id().clone()), Some(expiry.plus(SECOND)))
    );
    assert_eq!(
        w.try_put(one.next(["no"]).key("k", None)).await,
        Err(key_taken("k"))
    );
    w.clock.advance(SECOND);
    w.maintain_all().await;
    assert_eq!(w.key(&tenant, "dedup", "k").await, Ok(None));
    assert!(w.key(&tenant, "dedup", "forever").await.unwrap().is_some());
    // The purge of the first claimer must not take the key from the second.
    let draft = two.next(["b"]).key("k", None);
    w.put(&mut two, draft).await;
    w.purge(one.id(), "gone").await.unwrap();
    assert_eq!(
        w.key(&tenant, "dedup", "k").await.unwrap().unwrap().stream,
        Some(two.id().clone())
    );
}

pub(super) async fn a_key_claimed_as_expired_is_free_at_once(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).key("k", Some(START));
    w.put(&mut log, draft).await;
    assert_eq!(w.key(log.header.tenant(), "dedup", "k").await, Ok(None));
    let draft = log.next(["b"]).key("k", None);
    w.put(&mut log, draft).await;
}

pub(super) async fn keys_of_tenants_are_apart(w: World<'_>) {
    let (mut ours, mut theirs) = (
        Log::for_tenant("acme", "run-1"),
        Log::for_tenant("globex", "run-2"),
    );
    for log in [&mut ours, &mut theirs] {
        let draft = log.next(["a"]).key("k", None);
        w.put(log, draft).await;
    }
    let row = w
        .key(ours.header.tenant(), "dedup", "k")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.stream, Some(ours.id().clone()));
    assert_eq!(w.key(&"initech".into(), "dedup", "k").await, Ok(None));
}

pub(super) async fn one_of_many_racing_claims_of_a_key_wins(w: World<'_>) {
    let other = w.other().await;
    let mut appends = Vec::new();
    for n in 0..16 {
        let store = if n % 2 == 0 {
            w.store.clone()
        } else {
            other.clone()
        };
        let batch = Log::new(&format!("run-{n}"))
            .next(["a"])
            .key("k", None)
            .batch();
        appends.push(tokio::spawn(async move {
            let result = store
                .append(batch.clone(), Guard::Outside, LeaseChange::Keep)
                .await;
            (batch.stream().clone(), result)
        }));
    }
    let mut won = Vec::new();
    for append in appends {
        match append.await.unwrap() {
            (stream, Ok(_)) => won.push(stream),
            (_, refused) => assert_eq!(refused, Err(key_taken("k"))),
        }
    }
    let row = w.key(&"acme".into(), "dedup", "k").await.unwrap().unwrap();
    assert_eq!(won, [row.stream.unwrap()]);
    assert_eq!(w.fed(Position(0)).await.len(), 1);
}

fn request(key: &str, answer: &str, expires_at: Option<Timestamp>) -> KeyClaim {
    KeyClaim {
        namespace: "dedup".into(),
        key: key.into(),
        digest: Some(Digest::compute(b"request")),
        answer: Some(answer.into()),
        expires_at,
    }
}

pub(super) async fn a_key_without_a_stream_replaces_the_version_seen(mut w: World<'_>) {
    let acme = TenantId::new("acme");
    let at = Some(START.plus(SECOND));
    let first = request("k", "begun", at);
    w.put_key(&acme, first.clone(), None).await.unwrap();
    w.reopen().await;
    let row = KeyRow {
        stream: None,
        digest: first.digest,
        answer: first.answer.clone(),
        expires_at: at,
    };
    assert_eq!(w.key(&acme, "dedup", "k").await, Ok(Some(row.clone())));
    // A caller that saw no row, or a different one, is too late.
    let other = KeyRow {
        answer: None,
        ..row.clone()
    };
    for seen in [None, Some(other)] {
        let late = w.put_key(&acme, request("k", "late", at), seen).await;
        assert_eq!(late, Err(key_taken("k")));
    }
    let done = request("k", "done", None);
    w.put_key(&acme, done.clone(), Some(row.clone()))
        .await
        .unwrap();
    let again = w.put_key(&acme, done, Some(row)).await;
    assert_eq!(again, Err(key_taken("k")), "what was seen is not there now");
    let found = w.key(&acme, "dedup", "k").await.unwrap().unwrap();
    assert_eq!(found.answer.as_deref(), Some(&b"done"[..]));
    // A claim that has already expired frees the key.
    let free = request("k", "", Some(START));
    w.put_key(&acme, free, Some(found)).await.unwrap();
    assert_eq!(w.key(&acme, "dedup", "k").await, Ok(None));
    w.put_key(&acme, request("k", "new", at), None)
        .await
        .unwrap();
    w.clock.advance(SECOND);
    assert_eq!(w.key(&acme, "dedup", "k").await, Ok(None));
    w.maintain_all().await;
    w.put_key(&acme, request("k", "newer", None), None)
        .await
        .unwrap();
}

pub(super) async fn a_key_without_a_stream_coexists_with_those_of_streams(w: World<'_>) {
    let acme = TenantId::new("acme");
    let mut log = Log::for_tenant("acme", "run-1");
    let draft = log.next(["a"]).key("of-run", None);
    w.put(&mut log, draft).await;
    w.put_key(&acme, request("k", "", None), None)
        .await
        .unwrap();
    let late = w.put_key(&acme, request("of-run", "", None), None).await;
    assert_eq!(late, Err(key_taken("of-run")));
    let batch = Log::for_tenant("acme", "run-2").next(["no"]).key("k", None);
    assert_eq!(w.try_put(batch).await, Err(key_taken("k")));
    let others = TenantId::new("globex");
    w.put_key(&others, request("k", "", None), None)
        .await
        .unwrap();
    // Keys of streams are purged with them, others stay. A key without a stream may replace one.
    let seen = w.key(&acme, "dedup", "of-run").await.unwrap();
    w.put_key(&acme, request("of-run", "", None), seen)
        .await
        .unwrap();
    w.purge(log.id(), "gone").await.unwrap();
    for key in ["k", "of-run"] {
        let row = w.key(&acme, "dedup", key).await.unwrap();
        assert_eq!(row.expect("it stays").stream, None, "{key}");
    }
    assert_eq!(w.inspect().await, Ok(vec![]));
}

pub(super) async fn one_of_many_racing_puts_of_a_key_wins(w: World<'_>) {
    let other = w.other().await;
    let mut puts = Vec::new();
    for n in 0..16 {
        let store = if n % 2 == 0 {
            w.store.clone()
        } else {
            other.clone()
        };
        puts.push(tokio::spawn(async move {
            let claim = request("k", &n.to_string(), None);
            let put = store.put_key(&"acme".into(), claim.clone(), None).await;
            (claim.answer, put)
        }));
    }
    let mut won = Vec::new();
    for put in puts {
        match put.await.unwrap() {
            (answer, Ok(())) => won.push(answer),
            (_, refused) => assert_eq!(refused, Err(key_taken("k"))),
        }
    }
    let row = w.key(&"acme".into(), "dedup", "k").await.unwrap().unwrap();
    assert_eq!(won, [row.answer]);
}
