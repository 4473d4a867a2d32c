//! The feed is in commit order, also next to a transaction that hangs.

use store::{Position, Store};
use store_postgres::Hints;
use tokio_postgres::{Client, NoTls};

use crate::bed::{Database, on_database};
use crate::logs::Log;

/// Makes the append of an event `stall` wait, after it has its position, for lock 77.
const STALL: &str = "
    CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF convert_from(substring(NEW.content FROM 3), 'UTF8') = 'stall' THEN
        PERFORM pg_advisory_xact_lock(77);
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER stall AFTER INSERT ON runwright.events FOR EACH ROW EXECUTE FUNCTION stall();";
/// Positions are drawn in any order, as from a plain sequence.
const NO_ORDER: &str = "CREATE OR REPLACE FUNCTION runwright.lock_feed() RETURNS void
    LANGUAGE sql AS ''";

async fn session(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.0, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn waiting(session: &Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    session.query_one(sql, &[]).await.unwrap().get(0)
}

/// The streams whose events a reader sees that follows the feed while one of two appends hangs.
async fn seen_by_a_reader(database: &Database) -> Vec<String> {
    let (first, second) = (database.store().await, database.store().await);
    let reader = database.store().await;
    let (blocker, observer) = (session(database).await, session(database).await);
    blocker
        .batch_execute("SELECT pg_advisory_lock(77)")
        .await
        .unwrap();

    let hangs = async move { Log::new("run-1").append(&first, "stall").await };
    let hangs = tokio::spawn(hangs);
    while waiting(&observer).await < 1 {}
    let follows = async move { Log::new("run-2").append(&second, "event").await };
    let follows = tokio::spawn(follows);
    while !follows.is_finished() && waiting(&observer).await < 2 {}

    let mut events = reader.feed(Position(0), 9).await.unwrap();
    blocker
        .batch_execute("SELECT pg_advisory_unlock(77)")
        .await
        .unwrap();
    hangs.await.unwrap().unwrap();
    follows.await.unwrap().unwrap();
    let last = events.last().map_or(Position(0), |event| event.position);
    events.extend(reader.feed(last, 9).await.unwrap());
    let streams = events.iter().map(|event| event.stream.to_string());
    streams.collect()
}

#[test]
fn a_reader_skips_no_event_of_a_stalled_append() {
    on_database(async |database| {
        database.store().await;
        database.sql(STALL);
        assert_eq!(seen_by_a_reader(&database).await, ["run-1", "run-2"]);
    });
}

#[test]
fn a_reader_of_a_plain_sequence_skips_events() {
    on_database(async |database| {
        database.store().await;
        database.sql(STALL);
        database.sql(NO_ORDER);
        assert_eq!(seen_by_a_reader(&database).await, ["run-2"]);
    });
}

#[test]
fn appends_that_wait_share_a_commit() {
    on_database(async |database| {
        let store = std::sync::Arc::new(database.store().await);
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..200 {
            let store = store.clone();
            tasks.spawn(async move { Log::new(format!("run-{n}")).append(&*store, "a").await });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        let commits = database.sql("SELECT count(DISTINCT xmin::text) FROM runwright.events");
        let commits: u32 = commits.parse().unwrap();
        assert!(commits < 50, "200 appends took {commits} commits");
    });
}

#[test]
fn an_append_breaks_alone() {
    on_database(async |database| {
        let store = std::sync::Arc::new(database.store().await);
        database.sql(
            "ALTER TABLE runwright.events ADD CHECK (content <> '\\x0000'::bytea || 'bad'::bytea)",
        );
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..20 {
            let store = store.clone();
            let content = if n == 7 { "bad" } else { "good" };
            tasks.spawn(async move {
                let done = Log::new(format!("run-{n}")).append(&*store, content).await;
                (content, done.is_ok())
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (content, is_done) = done.unwrap();
            assert_eq!(content == "good", is_done);
        }
        assert_eq!(store.feed(Position(0), 99).await.unwrap().len(), 19);
    });
}

#[test]
fn other_processes_get_a_hint_of_each_append() {
    on_database(async |database| {
        let (one, two) = (database.store().await, database.store().await);
        let (said, mut hints) = tokio::sync::mpsc::unbounded_channel();
        let own = said.clone();
        let listens = two.listen(move |hint| said.send(hint).unwrap());
        assert_eq!(listens, Hints::Pushed);
        let begun = hints.recv().await.unwrap();
        assert!(begun.queue && begun.outbox && begun.streams.is_empty());
        let mut log = Log::new("run-1");
        log.append(&one, "a").await.unwrap();
        let hint = hints.recv().await.unwrap();
        assert_eq!(hint.streams, [("run-1".into(), 1)]);
        assert!(hint.queue && !hint.outbox);
        // A process gets no hints of its own appends.
        one.listen(move |hint| own.send(hint).unwrap());
        hints.recv().await.unwrap();
        log.append(&one, "b").await.unwrap();
        log.append(&two, "c").await.unwrap();
        let streams = [hints.recv().await, hints.recv().await];
        let streams = streams.map(|hint| hint.unwrap().streams[0].1);
        assert_eq!(streams, [2, 3]);
    });
}
