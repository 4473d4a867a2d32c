//! Which databases are opened, created and refused, and with what rights.

use std::time::Duration;

use kernel::ids::HolderId;
use store::{DueQuery, ListQuery, Position, ReadFrom, Store};
use store_postgres::{Access, Options};

use crate::bed::{Database, on_database};
use crate::logs::Log;

/// The rights that `docs/reference/postgres.md` lists.
const GRANTS: &str = "
    GRANT USAGE ON SCHEMA runwright TO plain;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA runwright TO plain;
    GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA runwright TO plain;";

#[test]
fn processes_that_open_an_empty_database_agree() {
    on_database(async |database| {
        let opened = (0..6).map(|_| database.store());
        futures_util::future::join_all(opened).await;
        assert_eq!(
            database.sql("SELECT version FROM runwright.migrations"),
            "1"
        );
    });
}

#[test]
fn a_newer_store_is_refused_with_both_versions() {
    on_database(async |database| {
        database.store().await;
        database.sql("INSERT INTO runwright.migrations VALUES (99)");
        for access in [Access::Create, Access::Write, Access::Read] {
            let why = database.refusal(access).await;
            assert!(
                why.contains("99") && why.contains("update runwright"),
                "{why}"
            );
        }
    });
}

#[test]
fn a_store_from_before_the_first_release_is_refused() {
    on_database(async |database| {
        database.sql(
            "CREATE SCHEMA runwright AUTHORIZATION app;
             CREATE TABLE runwright.versions (version bigint PRIMARY KEY);
             INSERT INTO runwright.versions VALUES (1), (2)",
        );
        for access in [Access::Create, Access::Write, Access::Read] {
            let why = database.refusal(access).await;
            assert!(
                why.contains("older than the first release") && why.contains("new database"),
                "{why}"
            );
        }
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'runwright'";
        assert_eq!(database.sql(tables), "1");
    });
}

#[test]
fn an_empty_database_is_no_store_to_read() {
    on_database(async |database| {
        for access in [Access::Write, Access::Read] {
            let why = database.refusal(access).await;
            assert!(why.contains("has no store"), "{why}");
        }
        assert_eq!(
            database.sql("SELECT to_regnamespace('runwright') IS NULL"),
            "t"
        );
    });
}

#[test]
fn a_store_opened_to_read_refuses_writes() {
    on_database(async |database| {
        database.store().await;
        let options = Options {
            access: Access::Read,
            ..Options::default()
        };
        let store = database.open(options).await.unwrap();
        assert_eq!(store.feed(Position(0), 9).await, Ok(vec![]));
        let why = Log::new("run-1").append(&store, "a").await.unwrap_err();
        assert!(why.to_string().contains("reading only"), "{why}");
    });
}

#[test]
fn settings_that_lose_writes_are_refused_by_name() {
    on_database(async |database| {
        let name = database.sql("SELECT current_database()");
        database.sql(&format!(
            "ALTER DATABASE {name} SET synchronous_commit = off"
        ));
        let why = database.refusal(Access::Create).await;
        assert!(why.contains("synchronous_commit = off"), "{why}");
    });
}

#[test]
fn a_role_that_owns_nothing_can_use_the_store() {
    on_database(async |database| {
        database.store().await;
        // All tests share the roles of the server.
        database.sql(
            "DO $$ BEGIN CREATE ROLE plain LOGIN;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
        );
        let plain = Database(database.0.replace("user=runwright", "user=plain"));
        let why = plain.refusal(Access::Create).await;
        assert!(
            why.contains("permission denied") && why.contains("grant"),
            "{why}"
        );
        database.sql(GRANTS);
        let store = plain.store().await;
        let mut log = Log::new("run-1");
        log.append(&store, "a").await.unwrap();
        let lease = store
            .claim(
                &"run-1".into(),
                &HolderId::new("me"),
                Duration::from_secs(9),
            )
            .await
            .unwrap();
        store
            .renew(std::slice::from_ref(&lease), Duration::from_secs(9))
            .await
            .unwrap();
        store.release(&lease).await.unwrap();
        log.append(&store, &"large ".repeat(9_000)).await.unwrap();
        store.put_blob(&"local".into(), vec![7; 99]).await.unwrap();
        let loaded = store
            .load(&"run-1".into(), ReadFrom::Seq(0), 9)
            .await
            .unwrap();
        assert_eq!(loaded.next_seq, 2);
        let queue = "default".into();
        assert_eq!(
            store
                .due(DueQuery { queue, limit: 9 })
                .await
                .unwrap()
                .ready
                .len(),
            1
        );
        let everything = ListQuery {
            limit: 9,
            ..ListQuery::default()
        };
        assert_eq!(store.list(everything).await.unwrap().len(), 1);
        store.purge(&"run-1".into(), "asked for").await.unwrap();
        while store.maintain().await.unwrap() {}
        assert_eq!(store.inspect().await, Ok(vec![]));
    });
}

#[test]
fn the_database_s_clock_decides() {
    on_database(async |database| {
        let store = database.store().await;
        let clock = || {
            database
                .sql("SELECT runwright.clock(NULL)")
                .parse::<i64>()
                .unwrap()
        };
        Log::new("run-1").append(&store, "a").await.unwrap();
        let (before, ttl) = (clock(), Duration::from_secs(60));
        let lease = store
            .claim(&"run-1".into(), &HolderId::new("me"), ttl)
            .await
            .unwrap();
        let after = clock();
        let granted_at = lease.expires_at.0 - 60_000;
        assert!(
            (before..=after).contains(&granted_at),
            "{before} {granted_at} {after}"
        );
        // The estimate never runs ahead.
        let estimate = store.now().0;
        assert!((before..=clock()).contains(&estimate));
    });
}
