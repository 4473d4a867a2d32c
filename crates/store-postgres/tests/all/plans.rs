//! The plans of the statements that a store with many runs repeats, as the database makes them for the
//! store itself: each reads the rows it returns, by an index.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use kernel::batch::{KeyClaim, Message, TimerChange};
use kernel::ids::{HolderId, TenantId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{DueQuery, Guard, LeaseChange, ListQuery, Position, ReadFrom, Store};
use store_postgres::PostgresStore;

use crate::bed::{Database, on_database};
use crate::logs::Log;

/// Settled streams, and a few that wait in a queue, with their rows in every table.
const FILL: &str = "
  INSERT INTO runwright.streams (name, tenant, next_seq, chain, settled, runnable, queue, priority,
      created_at, updated_at, kind, subject, status, tags, index_row)
    SELECT 's' || n, 't' || n % 50, 2, h.chain, n > 8000, n <= 7000, 'default', 0, n, n, 'run', 'w',
      CASE WHEN n > 8000 THEN 'completed' ELSE 'running' END, '{}', h.index_row
    FROM runwright.streams AS h, generate_series(1, 10000) AS n;
  UPDATE runwright.streams SET timer = 1000 + id WHERE id BETWEEN 7001 AND 8000;
  UPDATE runwright.streams SET holder = 'h', expires_at = 2000 WHERE id BETWEEN 100 AND 150;
  INSERT INTO runwright.headers SELECT s.id, h.header
    FROM runwright.headers AS h, runwright.streams AS s WHERE s.id <> h.stream;
  INSERT INTO runwright.events
    SELECT nextval('runwright.positions'), s.id, n, NULL, e.chain, e.content
    FROM runwright.events AS e, runwright.streams AS s, generate_series(0, 1) AS n
    WHERE s.id <> e.stream;
  INSERT INTO runwright.checkpoints SELECT id, 1, chain, '\\x0000' FROM runwright.streams
    WHERE id > 1;
  INSERT INTO runwright.timers SELECT id, 't', 1000 + id FROM runwright.streams WHERE id > 1;
  INSERT INTO runwright.keys SELECT tenant, 'requests', name, id, NULL, NULL, NULL
    FROM runwright.streams WHERE id > 1;
  INSERT INTO runwright.outbox (source, message, target, command)
    SELECT id, 'm', 's1', '' FROM runwright.streams WHERE id > 1;
  INSERT INTO runwright.blobs (tenant, digest, size, put_at, stored)
    SELECT tenant, sha256(name::bytea), 0, 0, '' FROM runwright.streams WHERE id > 1;
  INSERT INTO runwright.tombstones SELECT 'p' || n, 't', 1, '', '', 0
    FROM generate_series(1, 10000) AS n;
  ANALYZE runwright.streams, runwright.headers, runwright.events, runwright.checkpoints,
    runwright.timers, runwright.keys, runwright.outbox, runwright.blobs, runwright.tombstones;";

/// Makes the server report the plan of every statement to its client, also within functions.
const EXPLAIN: &str = "DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = auto_explain', current_database());
  EXECUTE format('ALTER DATABASE %I SET auto_explain.log_min_duration = 0', current_database());
  EXECUTE format('ALTER DATABASE %I SET auto_explain.log_nested_statements = on', current_database());
  EXECUTE format('ALTER DATABASE %I SET auto_explain.log_level = notice', current_database());
  END $$";

/// From then on a statement has the plan for any values.
const REPEATS: usize = 7;

/// Plans that the server reported. The driver passes notices on as messages of a log.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Notices;

impl log::Log for Notices {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        if let Some((_, plan)) = text.split_once("plan:\nQuery Text: ") {
            NOTICES.lock().unwrap().push(plan.to_owned());
        }
    }

    fn flush(&self) {}
}

/// The plans since the last call that read tables, each under the beginning of its statement.
fn plans() -> String {
    let mut text = String::new();
    for notice in std::mem::take(&mut *NOTICES.lock().unwrap()) {
        // The plan follows the text of the statement and is the first part with costs.
        let lines: Vec<_> = notice.lines().collect();
        let begin = lines.iter().position(|line| line.contains("  (cost="));
        let (statement, plan) = lines.split_at(begin.unwrap_or(lines.len()));
        let reads = |line: &&str| line.contains(" Scan") && !line.contains("Function Scan");
        if !plan.iter().any(reads) {
            continue;
        }
        let words: Vec<_> = statement
            .iter()
            .flat_map(|line| line.split_whitespace())
            .collect();
        let beginning: String = words.join(" ").chars().take(72).collect();
        writeln!(text, "-- {beginning}").unwrap();
        for line in plan {
            let line = line.split("  (cost=").next().unwrap_or(line);
            // A time is another one in each run, and the policies are the same everywhere.
            let digits = |c: char| c.is_ascii_digit();
            let time = line.split(|c| !digits(c)).find(|number| number.len() > 9);
            let line = line.replace(time.unwrap_or("no time"), "now");
            if !line.contains(
                "Filter: ((current_setting('runwright.scope'::text, true) <> ''::text) OR",
            ) {
                writeln!(text, "{line}").unwrap();
            }
        }
    }
    text
}

/// The plans of the last of several calls.
async fn repeat<T>(call: impl AsyncFn() -> T) -> String {
    for _ in 1..REPEATS {
        call().await;
    }
    plans();
    call().await;
    plans()
}

async fn hot(store: &PostgresStore) -> Vec<(&'static str, String)> {
    let (tenant, me) = (TenantId::new("t7"), HolderId::new("me"));
    let page = |statuses: &[&str]| ListQuery {
        tenant: Some(tenant.clone()),
        kind: Some(StreamKind::Run),
        statuses: statuses.iter().map(|&status| status.to_owned()).collect(),
        limit: 50,
        ..ListQuery::default()
    };
    let due = || DueQuery {
        queue: "default".into(),
        limit: 16,
    };
    let run = "s9000".into();
    let ttl = Duration::from_secs(9);
    let log = Mutex::new(Log::new("run-1"));
    let append = async || {
        let mut own = log.lock().unwrap().clone();
        let mut batch = own.next("event");
        let n = own.next_seq;
        batch.timers.push(TimerChange::Set {
            name: format!("t{n}"),
            due: Timestamp(5),
        });
        batch.keys.push(KeyClaim {
            namespace: "requests".into(),
            key: format!("k{n}"),
            digest: None,
            answer: None,
            expires_at: None,
        });
        batch.outbox.push(Message {
            id: "m".into(),
            target: "run-2".into(),
            command: Vec::new(),
        });
        let blob = store.put_blob(&"local".into(), vec![7; 9]).await.unwrap();
        batch.blobs.push(blob);
        let chain = batch.records[0].chain;
        let done = store.append(batch.into(), Guard::Outside, LeaseChange::Keep);
        done.await.unwrap();
        own.went(chain);
        *log.lock().unwrap() = own;
    };
    vec![
        (
            "list page",
            repeat(async || store.list(page(&[])).await.unwrap()).await,
        ),
        (
            "status filter",
            repeat(async || store.list(page(&["running"])).await.unwrap()).await,
        ),
        (
            "count",
            repeat(async || store.count(page(&[])).await.unwrap()).await,
        ),
        (
            "due",
            repeat(async || store.due(due()).await.unwrap()).await,
        ),
        (
            "claim",
            repeat(async || store.claim(&run, &me, ttl).await.unwrap()).await,
        ),
        (
            "feed page",
            repeat(async || store.feed(Position(9), 256).await.unwrap()).await,
        ),
        (
            "feed end",
            repeat(async || store.feed_end().await.unwrap()).await,
        ),
        (
            "outbox",
            repeat(async || store.outbox(64).await.unwrap()).await,
        ),
        (
            "key",
            repeat(async || store.key(&tenant, "requests", "s7").await.unwrap()).await,
        ),
        (
            "snapshot load",
            repeat(async || store.load(&run, ReadFrom::Checkpoint, 256).await.unwrap()).await,
        ),
        ("append", repeat(append).await),
    ]
}

#[test]
fn hot_statements_read_by_their_indexes() {
    on_database(async |database: Database| {
        Log::new("run-0")
            .append(&database.store().await, "a")
            .await
            .unwrap();
        database.sql(FILL);
        database.sql(EXPLAIN);
        log::set_logger(&Notices).unwrap();
        log::set_max_level(log::LevelFilter::Info);
        let plans = hot(&database.store().await).await;
        let mut text = String::new();
        for (name, plan) in plans {
            assert!(plan.contains("Index"), "{name} has no plan:\n{plan}");
            writeln!(text, "== {name}\n{plan}").unwrap();
        }
        assert!(!text.contains("Seq Scan"), "{text}");
        // Another version may choose other plans, as long as they read no whole table.
        if database
            .sql("SELECT current_setting('server_version_num')")
            .starts_with("15")
        {
            insta::assert_snapshot!("plans", text);
        }
    });
}
