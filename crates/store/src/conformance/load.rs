//! Load: reading returns what was written, from the requested place.

use kernel::time::Timestamp;

use super::world::*;
use crate::*;

pub(super) async fn content_of_any_size_comes_back(mut w: World<'_>) {
    let sizes = [
        0,
        1,
        codec::COMPRESS_BYTES - 1,
        codec::COMPRESS_BYTES,
        codec::EXTERNAL_BYTES - 1,
        codec::EXTERNAL_BYTES,
        codec::EXTERNAL_BYTES + 1,
        3 << 20,
    ];
    let contents: Vec<_> = sizes
        .iter()
        .flat_map(|size| [vec![b'a'; *size], dense(*size)])
        .collect();
    let mut log = Log::new("run-1");
    for some in contents.chunks(5) {
        let draft = log.next(some.iter().cloned());
        w.put(&mut log, draft).await;
    }
    let same = |records: &[kernel::batch::Record]| {
        records
            .iter()
            .map(|record| &record.content)
            .eq(contents.iter())
    };
    assert!(
        same(&w.read(log.id()).await.records),
        "a load gives other content back"
    );
    let fed = w.feed(Position(0), usize::MAX).await.unwrap();
    assert!(
        fed.iter()
            .map(|event| event.content.as_ref())
            .eq(contents.iter().map(Some)),
        "the feed differs"
    );
    w.reopen().await;
    assert!(
        same(&w.read(log.id()).await.records),
        "reopening changes content"
    );
}

pub(super) async fn a_load_begins_where_asked_and_ends_at_the_limit(w: World<'_>) {
    let mut log = Log::new("run-1");
    let draft = log.next(["a", "b", "c"]);
    w.put(&mut log, draft).await;
    let draft = log.next(["d", "e"]);
    w.put(&mut log, draft).await;
    let cases: [(u64, usize, &[&str]); 7] = [
        (0, 2, &["a", "b"]),
        (2, 2, &["c", "d"]),
        (3, 9, &["d", "e"]),
        (4, usize::MAX, &["e"]),
        (1, 0, &[]),
        (5, 9, &[]),
        (7, 9, &[]),
    ];
    for (seq, limit, wanted) in cases {
        let loaded = w.load(log.id(), ReadFrom::Seq(seq), limit).await.unwrap();
        assert_eq!(texts(&loaded.records), wanted, "{limit} from {seq}");
        assert_eq!((loaded.first_seq, loaded.next_seq), (seq, 5));
    }
    let whole = w.load(log.id(), ReadFrom::Checkpoint, 9).await.unwrap();
    assert_eq!(
        (whole.first_seq, whole.records.len(), whole.checkpoint),
        (0, 5, None)
    );
    assert_eq!(
        w.load(&"run-2".into(), ReadFrom::Seq(0), 9).await,
        Err(StoreError::Missing)
    );
}

pub(super) async fn ids_and_texts_may_hold_any_character(w: World<'_>) {
    let odd = "a'b\"c%_\\;--\t\n é 🦀";
    let mut log = Log::for_tenant(odd, &format!("run-{odd}"));
    let draft = log
        .next([odd])
        .index(|row| {
            row.subject = odd.into();
            row.status = odd.into();
            row.tags = vec![odd.into()];
            row.queue = odd.into();
        })
        .runnable()
        .concurrency(odd)
        .key(odd, None)
        .timer(odd, Timestamp(0))
        .message(odd, odd);
    w.put(&mut log, draft).await;
    assert_eq!(w.read(log.id()).await.index, log.index);
    assert!(
        w.key(log.header.tenant(), "dedup", odd)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(w.ready_in(odd, 9).await, [log.id().as_str()]);
    assert_eq!(w.outbox(9).await.unwrap()[0].target.as_str(), odd);
    let query = ListQuery {
        tag: Some(odd.into()),
        statuses: vec![odd.into()],
        ..everything()
    };
    assert_eq!(w.listed(query).await, [log.id().as_str()]);
    let none = ListQuery {
        tag: Some("%".into()),
        ..everything()
    };
    assert_eq!(w.listed(none).await, [""; 0]);
}
