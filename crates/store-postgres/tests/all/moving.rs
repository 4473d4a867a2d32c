//! Moving house: the store of a folder into a database and back, through kills of the copying process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kernel::batch::{KeyClaim, Message, TimerChange};
use kernel::ids::HolderId;
use kernel::time::Timestamp;
use store::whole::{CopyError, Part, Row, WholeStore, copy};
use store::{Checkpoint, Guard, LeaseChange, Store};
use store_postgres::{Access, Options, PostgresStore};
use store_sqlite::{Sharing, SqliteStore};

use crate::bed::{Database, on_database};
use crate::logs::Log;

const FROM: &str = "STORE_TEST_FROM";
const TO: &str = "STORE_TEST_TO";
const MARK: &str = "@copied ";

/// Streams with some of everything; half of them are settled and packed.
async fn fill(store: &dyn Store) {
    for n in 0..40 {
        let mut log = Log::new(format!("run-{n:02}"));
        for k in 0..60 {
            let content = if k == 7 {
                "large ".repeat(9_000)
            } else {
                format!("event {k}")
            };
            let mut batch = log.next(&content);
            batch.index.settled = k == 59 && n % 2 == 0;
            batch.index.runnable = !batch.index.settled;
            if k == 3 {
                let blob = store
                    .put_blob(&"local".into(), vec![n; 9_000])
                    .await
                    .unwrap();
                batch.blobs.push(blob);
                batch.timers.push(TimerChange::Set {
                    name: "t".into(),
                    due: Timestamp(5),
                });
                batch.keys.push(KeyClaim {
                    namespace: "requests".into(),
                    key: format!("key-{n}"),
                    digest: Some(blob),
                    answer: Some(vec![0, n]),
                    expires_at: None,
                });
                batch.outbox.push(Message {
                    id: format!("m{n}").as_str().into(),
                    target: "run-00".into(),
                    command: b"{}".to_vec(),
                });
            }
            let chain = batch.records[0].chain;
            store
                .append(batch.into(), Guard::Outside, LeaseChange::Keep)
                .await
                .unwrap();
            log.went(chain);
        }
        let state = b"state".to_vec();
        let (next_seq, chain) = (log.next_seq, log.chain);
        let checkpoint = Checkpoint {
            next_seq,
            chain,
            state,
        };
        store
            .put_checkpoint(&log.id.as_str().into(), checkpoint)
            .await
            .unwrap();
    }
    store.purge(&"run-39".into(), "asked for").await.unwrap();
    while store.maintain().await.unwrap() {}
}

fn source(path: &Path) -> SqliteStore {
    let options = store_sqlite::Options {
        access: Access::Write,
        sharing: Sharing::Exclusive,
        busy_timeout: Duration::from_millis(1),
        ..store_sqlite::Options::default()
    };
    SqliteStore::open(path, options).unwrap()
}

async fn destination(database: &Database) -> PostgresStore {
    let address = database.address();
    let opened = PostgresStore::open_destination(&address, Options::default()).await;
    opened.unwrap()
}

async fn rows(store: &dyn WholeStore) -> Vec<(Part, Vec<Row>)> {
    let mut all = Vec::new();
    for part in Part::ALL {
        let rows = store.export(part, &part.start(), usize::MAX).await.unwrap();
        all.push((part, rows));
    }
    all
}

/// Not a test: the process that copies. Does nothing unless it is told a source.
#[test]
fn in_the_role_of_a_copy() {
    let Ok(from) = std::env::var(FROM) else {
        return;
    };
    let to = Database(std::env::var(TO).unwrap());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (from, to) = (source(Path::new(&from)), destination(&to).await);
        let mut report = |part: Part, rows| {
            let nth = Part::ALL.iter().position(|other| *other == part).unwrap();
            // The test runner prints to the same place.
            println!("{MARK}{nth} {rows}");
        };
        copy(&from, &to, &mut report).await.unwrap();
    });
}

/// Copies in another process, which is killed after some pages. Returns the parts of its pages.
fn copy_elsewhere(from: &Path, to: &Database, pages: usize) -> Vec<usize> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "moving::in_the_role_of_a_copy", "--nocapture"])
        .env(FROM, from)
        .env(TO, &to.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.map_while(Result::ok);
    let page = |line: String| {
        let (_, page) = line.split_once(MARK)?;
        page.split(' ').next()?.parse().ok()
    };
    let seen = lines.filter_map(page).take(pages).collect();
    if pages < usize::MAX {
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        assert!(child.wait().unwrap().success());
    }
    seen
}

#[test]
fn a_store_moves_to_a_database_and_back_through_kills() {
    on_database(async |database| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        fill(&SqliteStore::open(&path, store_sqlite::Options::default()).unwrap()).await;

        let mut last = 0;
        for pages in [2, 4, 3, usize::MAX] {
            let seen = copy_elsewhere(&path, &database, pages);
            assert!(
                seen.is_sorted() && seen[0] >= last,
                "{seen:?} after part {last}"
            );
            last = seen[seen.len() - 1];
            if pages < usize::MAX {
                let why = database.refusal(Access::Create).await;
                assert!(
                    why.contains("unfinished destination") && why.contains("repeat"),
                    "{why}"
                );
            }
        }
        assert_eq!(last, Part::ALL.len() - 1);
        let (from, to) = (source(&path), database.store().await);
        let wanted = rows(&from).await;
        assert!(wanted.iter().all(|(_, rows)| !rows.is_empty()));
        assert_eq!(rows(&to).await, wanted);

        let back = folder.path().join("back.db");
        let options = store_sqlite::Options::default();
        let back = SqliteStore::open_destination(&back, options).await.unwrap();
        copy(&to, &back, &mut |_, _| {}).await.unwrap();
        assert_eq!(rows(&back).await, wanted);
        while back.maintain().await.unwrap() {}
        assert_eq!(rows(&back).await, wanted);
        assert_eq!(back.inspect().await, Ok(vec![]));
    });
}

#[test]
fn a_copy_that_differs_is_found_and_stays_unfinished() {
    on_database(async |database| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        fill(&SqliteStore::open(&path, store_sqlite::Options::default()).unwrap()).await;
        let (from, to) = (source(&path), destination(&database).await);
        let mut report = |part, rows| {
            if part == Part::Events && rows == 0 {
                database.sql("UPDATE runwright.events SET chain = '' WHERE position = 5");
            }
        };
        let refused = copy(&from, &to, &mut report).await.unwrap_err();
        assert!(matches!(refused, CopyError::Differs("events")), "{refused}");
        let why = database.refusal(Access::Create).await;
        assert!(why.contains("unfinished destination"), "{why}");
    });
}

#[test]
fn a_store_that_a_server_uses_is_no_source() {
    on_database(async |database| {
        let store = database.store().await;
        Log::new("run-1").append(&store, "a").await.unwrap();
        let (run, me) = ("run-1".into(), HolderId::new("me"));
        store
            .claim(&run, &me, Duration::from_secs(600))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let options = store_sqlite::Options::default();
        let to = SqliteStore::open_destination(&path, options).await.unwrap();
        let refused = copy(&store, &to, &mut |_, _| {}).await.unwrap_err();
        assert!(matches!(refused, CopyError::SourceIsLive(_)), "{refused}");
        let status = store.status().await.unwrap();
        assert_eq!(
            (status.streams, status.events, status.servers[0].leases),
            (1, 1, 1)
        );
        let events = status.tables.iter().find(|table| table.name == "events");
        assert!(events.unwrap().bytes > 0);
    });
}
