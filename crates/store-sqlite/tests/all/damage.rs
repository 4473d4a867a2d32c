//! Truncated or changed files give a clean error or the right answer, never a wrong one.

use std::path::Path;

use kernel::digest::Digest;
use store::seed::Draws;
use store::{DueQuery, ListQuery, Loaded, Position, ReadFrom, Store, StoreError};
use store_sqlite::{Options, SqliteStore};

use crate::bed::{File, Log, block_on};

const STREAMS: u64 = 6;

/// Half of the streams packed, one blob, and one event large enough to be a blob.
fn used() -> (File, Vec<Loaded>, Digest) {
    let file = File::new();
    block_on(async {
        let store = file.open();
        for n in 0..STREAMS {
            let mut log = Log::new(format!("run-{n}"));
            for k in 0..8 {
                log.settled = k == 7 && n % 2 == 0;
                let size = if k == 3 { 40_000 } else { 400 };
                let content = format!("{n} {k} {}", "payload ".repeat(size / 8));
                log.append(&store, &[content]).await.unwrap();
            }
        }
        let digest = store
            .put_blob(&"local".into(), vec![7; 9_000])
            .await
            .unwrap();
        while store.maintain().await.unwrap() {}
        let mut streams = Vec::new();
        for n in 0..STREAMS {
            let id = format!("run-{n}").into();
            streams.push(store.load(&id, ReadFrom::Seq(0), usize::MAX).await.unwrap());
        }
        assert_eq!(store.inspect().await, Ok(vec![]));
        drop(store);
        let log = file.path().with_extension("db-wal");
        assert!(!log.exists(), "a store that is closed lies in one file");
        (file, streams, digest)
    })
}

/// Uses every part of a damaged store. Returns whether any answer was an error.
async fn poke(path: &Path, streams: &[Loaded], digest: &Digest) -> bool {
    let Ok(store) = SqliteStore::open(path, Options::default()) else {
        return true;
    };
    let mut failed = false;
    let mut clean = |error: Option<StoreError>| {
        if let Some(error) = error {
            let is_clean = matches!(
                error,
                StoreError::Corrupt(_) | StoreError::Unavailable(_) | StoreError::Missing
            );
            assert!(is_clean, "{error}");
            failed = true;
        }
    };
    for (n, stream) in streams.iter().enumerate() {
        let id = format!("run-{n}").into();
        match store.load(&id, ReadFrom::Checkpoint, usize::MAX).await {
            Ok(loaded) => assert_eq!(loaded.records, stream.records, "run-{n} was changed"),
            Err(error) => clean(Some(error)),
        }
    }
    match store.blob(&"local".into(), digest).await {
        Ok(bytes) => assert_eq!(bytes, vec![7; 9_000]),
        Err(error) => clean(Some(error)),
    }
    let fed = store.feed(Position(0), usize::MAX).await;
    let fed = fed.and_then(|events| {
        let is_whole = events.iter().all(|event| event.content.is_some());
        is_whole.then_some(()).ok_or(StoreError::Missing)
    });
    clean(fed.err());
    let query = ListQuery {
        limit: 100,
        ..ListQuery::default()
    };
    clean(store.list(query).await.err());
    let query = DueQuery {
        queue: "default".into(),
        limit: 100,
    };
    clean(store.due(query).await.err());
    let mut log = Log::new("run-more");
    clean(log.append(&store, &["more".into()]).await.err());
    clean(store.maintain().await.err());
    match store.inspect().await {
        Ok(findings) => failed |= !findings.is_empty(),
        Err(error) => clean(Some(error)),
    }
    failed
}

#[test]
fn a_file_cut_short_gives_clean_errors() {
    let (file, streams, digest) = used();
    let whole = std::fs::read(file.path()).unwrap();
    let mut noticed = 0;
    for eighth in 0..8 {
        for extra in [0, 1, 100, 4_096] {
            let cut = File::new();
            let length = (whole.len() * eighth / 8 + extra).min(whole.len() - 1);
            std::fs::write(cut.path(), &whole[..length]).unwrap();
            noticed += u32::from(block_on(poke(&cut.path(), &streams, &digest)));
        }
    }
    assert!(noticed >= 31, "{noticed} of 32 cuts were noticed");
}

#[test]
fn soak_flipped_bytes_give_clean_errors_and_never_wrong_events() {
    let (file, streams, digest) = used();
    let whole = std::fs::read(file.path()).unwrap();
    let mut noticed = 0;
    let seeds = store::seed::cases(60, 3_000);
    let count = seeds.len();
    for seed in seeds {
        let mut draws = Draws::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..=draws.below(3) {
            let at = draws.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << draws.below(8);
        }
        let flipped = File::new();
        std::fs::write(flipped.path(), bytes).unwrap();
        noticed += usize::from(block_on(poke(&flipped.path(), &streams, &digest)));
    }
    // Much of a small file is free space of its pages, where a change means nothing.
    assert!(noticed * 5 > count, "{noticed} of {count} were noticed");
}

#[test]
fn a_damaged_event_does_not_hide_the_others_in_the_feed() {
    let (file, ..) = used();
    let conn = rusqlite::Connection::open(file.path()).unwrap();
    // The events of run-0 are packed.
    let damage = "UPDATE packs SET body = zeroblob(9) WHERE stream =
        (SELECT id FROM streams WHERE name = 'run-0');
      UPDATE events SET content = X'7B' WHERE seq = 2 AND stream =
        (SELECT id FROM streams WHERE name = 'run-1');";
    conn.execute_batch(damage).unwrap();
    let events = block_on(file.open().feed(Position(0), usize::MAX)).unwrap();
    assert_eq!(events.len() as u64, STREAMS * 8);
    for event in events {
        let is_damaged =
            event.stream.as_str() == "run-0" || event.stream.as_str() == "run-1" && event.seq == 2;
        assert_eq!(event.content.is_none(), is_damaged, "{event:?}");
    }
}

#[test]
fn inspect_names_the_stream_and_the_problem() {
    let cases = [
        ("DELETE FROM events WHERE seq = 2", "gap"),
        (
            "UPDATE streams SET next_seq = next_seq + 1",
            "another length",
        ),
        (
            "UPDATE events SET chain = zeroblob(32) WHERE seq = 2",
            "damaged",
        ),
        ("UPDATE streams SET chain = zeroblob(32)", "damaged"),
        ("UPDATE headers SET header = '{}'", "header"),
        (
            "DROP TRIGGER stream_changed; UPDATE streams SET index_row = 'x'",
            "damaged",
        ),
        ("UPDATE listed SET status = 'x'", "list"),
        ("UPDATE packs SET body = zeroblob(9)", "damaged"),
        ("DELETE FROM packs", "packs"),
        ("UPDATE streams SET timer = 5", "timer"),
        ("UPDATE blobs SET refs = refs + 1", "referred"),
        ("UPDATE blob_bytes SET stored = zeroblob(9)", "blob"),
        (
            "PRAGMA foreign_keys = OFF; DELETE FROM streams",
            "not there",
        ),
        (
            "INSERT INTO tombstones SELECT name, tenant, next_seq, chain, 'x', 1 FROM streams",
            "purged",
        ),
    ];
    let (file, ..) = used();
    let whole = std::fs::read(file.path()).unwrap();
    for (damage, expected) in cases {
        let damaged = File::new();
        std::fs::write(damaged.path(), &whole).unwrap();
        let conn = rusqlite::Connection::open(damaged.path()).unwrap();
        conn.execute_batch(damage).unwrap();
        drop(conn);
        let findings = block_on(damaged.open().inspect()).unwrap();
        let found = findings
            .iter()
            .any(|finding| finding.what.contains(expected));
        assert!(found, "{damage}: {findings:?}");
    }
}
