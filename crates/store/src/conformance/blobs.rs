//! Blobs: once per tenant, counted, collected when nothing refers to them.

use kernel::digest::Digest;
use kernel::ids::TenantId;

use super::world::*;
use crate::*;

fn acme() -> TenantId {
    TenantId::new("acme")
}

async fn is_there(w: &World<'_>, digest: &Digest) -> bool {
    match w.blob(&acme(), digest).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, StoreError::Missing);
            false
        }
    }
}

pub(super) async fn bytes_come_back_under_their_digest(mut w: World<'_>) {
    let all = [
        vec![],
        b"small".to_vec(),
        vec![b'a'; 1 << 20],
        dense(1 << 20),
    ];
    for bytes in &all {
        assert_eq!(
            w.put_blob(&acme(), bytes.clone()).await,
            Ok(Digest::compute(bytes))
        );
        assert_eq!(
            w.put_blob(&acme(), bytes.clone()).await,
            Ok(Digest::compute(bytes))
        );
    }
    let other = w.other().await;
    for bytes in &all {
        assert_eq!(
            other.blob(&acme(), &Digest::compute(bytes)).await.as_ref(),
            Ok(bytes)
        );
    }
    drop(other);
    w.reopen().await;
    for bytes in &all {
        assert_eq!(
            w.blob(&acme(), &Digest::compute(bytes)).await.as_ref(),
            Ok(bytes)
        );
    }
    assert_eq!(
        w.blob(&acme(), &Digest::compute(b"never put")).await,
        Err(StoreError::Missing)
    );
}

pub(super) async fn tenants_do_not_see_each_others_blobs(w: World<'_>) {
    let globex = TenantId::new("globex");
    let digest = w.put_blob(&acme(), b"ours".to_vec()).await.unwrap();
    assert_eq!(w.blob(&globex, &digest).await, Err(StoreError::Missing));
    let theirs = Log::for_tenant("globex", "run-1").next(["no"]).blob(digest);
    assert_eq!(w.try_put(theirs).await, Err(StoreError::Missing));
    // Both tenants may store the same bytes; deleting one copy leaves the other.
    w.put_blob(&globex, b"ours".to_vec()).await.unwrap();
    let mut log = Log::for_tenant("globex", "run-1");
    let draft = log.next(["a"]).blob(digest);
    w.put(&mut log, draft).await;
    w.clock.advance(BLOB_GRACE);
    w.maintain_all().await;
    assert_eq!(w.blob(&acme(), &digest).await, Err(StoreError::Missing));
    assert_eq!(w.blob(&globex, &digest).await, Ok(b"ours".to_vec()));
}

pub(super) async fn a_missing_blob_refuses_the_append(w: World<'_>) {
    let there = w.put_blob(&acme(), b"there".to_vec()).await.unwrap();
    let log = Log::new("run-1");
    let draft = log
        .next(["no"])
        .blob(there)
        .blob(Digest::compute(b"not there"));
    assert_eq!(w.try_put(draft).await, Err(StoreError::Missing));
    assert_eq!(
        w.load(log.id(), ReadFrom::Seq(0), 1).await,
        Err(StoreError::Missing)
    );
}

pub(super) async fn an_unreferenced_blob_stays_for_its_grace(w: World<'_>) {
    let blob = w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    w.clock.advance(BLOB_GRACE - MS);
    w.maintain_all().await;
    assert!(is_there(&w, &blob).await);
    w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    w.clock.advance(BLOB_GRACE - MS);
    w.maintain_all().await;
    assert!(
        is_there(&w, &blob).await,
        "putting it again starts the grace again"
    );
    w.clock.advance(MS);
    w.maintain_all().await;
    assert!(!is_there(&w, &blob).await);
    assert_eq!(
        w.try_put(Log::new("run-1").next(["no"]).blob(blob)).await,
        Err(StoreError::Missing)
    );
    w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    assert!(is_there(&w, &blob).await, "it may be put again");
}

pub(super) async fn a_referenced_blob_stays_until_the_last_reference_goes(w: World<'_>) {
    let blob = w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    let (mut one, mut two) = (Log::new("run-1"), Log::new("run-2"));
    let draft = one.next(["a"]).blob(blob).blob(blob);
    w.put(&mut one, draft).await;
    let draft = one.next(["b"]).blob(blob);
    w.put(&mut one, draft).await;
    let draft = two.next(["a"]).blob(blob);
    w.put(&mut two, draft).await;
    w.clock.advance(BLOB_GRACE * 2);
    w.maintain_all().await;
    w.purge(one.id(), "gone").await.unwrap();
    w.maintain_all().await;
    assert!(
        is_there(&w, &blob).await,
        "another stream still refers to it"
    );
    w.purge(two.id(), "gone").await.unwrap();
    assert!(
        !is_there(&w, &blob).await,
        "it goes with the last stream that refers to it"
    );
}

pub(super) async fn a_purge_erases_a_blob_unless_it_was_put_again(w: World<'_>) {
    let blob = w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    let mut log = Log::new("run-1");
    let draft = log.next(["a"]).blob(blob);
    w.put(&mut log, draft).await;
    w.put_blob(&acme(), b"blob".to_vec()).await.unwrap();
    w.purge(log.id(), "gone").await.unwrap();
    w.maintain_all().await;
    assert!(
        is_there(&w, &blob).await,
        "a batch may follow the second put"
    );
    let mut next = Log::new("run-2");
    let draft = next.next(["a"]).blob(blob);
    w.put(&mut next, draft).await;
    w.purge(next.id(), "gone").await.unwrap();
    assert!(!is_there(&w, &blob).await);
}

pub(super) async fn large_content_is_shared_by_forks_and_goes_with_the_last(w: World<'_>) {
    let content = dense(codec::EXTERNAL_BYTES * 2);
    let digest = Digest::compute(&content);
    let mut logs = [
        Log::new("run-1"),
        Log::new("run-2"),
        Log::for_tenant("globex", "run-3"),
    ];
    for log in &mut logs {
        let draft = log.next([content.clone(), b"small".to_vec(), content.clone()]);
        w.put(log, draft).await;
    }
    assert_eq!(w.blob(&acme(), &digest).await.as_ref(), Ok(&content));
    w.purge(logs[0].id(), "gone").await.unwrap();
    w.clock.advance(BLOB_GRACE);
    w.maintain_all().await;
    assert_eq!(w.read(logs[1].id()).await.records[2].content, content);
    w.purge(logs[1].id(), "gone").await.unwrap();
    assert!(
        !is_there(&w, &digest).await,
        "content of an event has no grace"
    );
    assert_eq!(w.read(logs[2].id()).await.records[0].content, content);
}
