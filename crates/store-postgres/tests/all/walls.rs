//! Tenants are walls in the database too.

use kernel::batch::{KeyClaim, Message, TimerChange};
use kernel::digest::Digest;
use kernel::ids::TenantId;
use kernel::time::Timestamp;
use store::{Checkpoint, Guard, LeaseChange, ListQuery, Position, Store};

use crate::bed::{Database, on_database};
use crate::logs::Log;

/// The tables that have rows of tenants.
const TABLES: &str = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
    WHERE relnamespace = 'runwright'::regnamespace AND relkind = 'r' AND relname <> 'migrations'";

/// A row of the tenant `local` in every table.
async fn fill(store: &dyn Store) -> Digest {
    let tenant = TenantId::new("local");
    let blob = store.put_blob(&tenant, vec![7; 99]).await.unwrap();
    let log = Log::new("run-1");
    let mut batch = log.next("a");
    batch.blobs.push(blob);
    batch.timers.push(TimerChange::Set {
        name: "t".into(),
        due: Timestamp(5),
    });
    batch.keys.push(claim("k1"));
    batch.outbox.push(Message {
        id: "m".into(),
        target: "run-2".into(),
        command: b"{}".to_vec(),
    });
    let chain = batch.records[0].chain;
    store
        .append(batch.into(), Guard::Outside, LeaseChange::Keep)
        .await
        .unwrap();
    let checkpoint = Checkpoint {
        next_seq: 1,
        chain,
        state: b"state".to_vec(),
    };
    store
        .put_checkpoint(&"run-1".into(), checkpoint)
        .await
        .unwrap();
    Log::new("run-9").append(store, "a").await.unwrap();
    store.purge(&"run-9".into(), "asked for").await.unwrap();
    blob
}

fn claim(key: &str) -> KeyClaim {
    KeyClaim {
        namespace: "requests".into(),
        key: key.into(),
        digest: None,
        answer: None,
        expires_at: None,
    }
}

/// The rows of a table that a session of the store's role sees with these settings.
fn count(app: &Database, settings: &str, table: &str) -> u32 {
    let sql = format!("{settings} SELECT count(*) FROM runwright.{table}");
    app.sql(&sql).parse().unwrap()
}

#[test]
fn a_session_of_another_tenant_sees_and_changes_nothing() {
    on_database(async |database| {
        fill(&database.store().await).await;
        let app = Database(database.of_app());
        let tables = database.sql(TABLES);
        let tables: Vec<_> = tables.split(' ').collect();
        assert_eq!(tables.len(), 10, "{tables:?}");
        let other = "SET runwright.tenant = 'globex';";
        for table in tables {
            assert!(count(&database, "", table) > 0, "{table} is empty");
            assert!(
                count(&app, "SET runwright.scope = 'all';", table) > 0,
                "{table}"
            );
            assert!(
                count(&app, "SET runwright.tenant = 'local';", table) > 0,
                "{table}"
            );
            assert_eq!(count(&app, other, table), 0, "{table}");
            assert_eq!(count(&app, "", table), 0, "{table}");
            let column = format!(
                "SELECT attname FROM pg_attribute WHERE attrelid = 'runwright.{table}'::regclass
                 AND attnum > 0 AND attidentity = '' AND attgenerated = '' LIMIT 1"
            );
            let column = database.sql(&column);
            for change in [
                format!("UPDATE runwright.{table} SET {column} = {column} RETURNING 1"),
                format!("DELETE FROM runwright.{table} RETURNING 1"),
            ] {
                assert_eq!(app.sql(&format!("{other} {change}")), "", "{change}");
            }
            let before = count(&database, "", table);
            // A row of another tenant cannot be written either.
            let copied = format!(
                "CREATE TEMP TABLE copied AS SELECT * FROM runwright.{table};
                 SET runwright.scope = ''; {other}
                 DO $$ BEGIN
                   INSERT INTO runwright.{table} OVERRIDING SYSTEM VALUE SELECT * FROM copied;
                   RAISE 'a row was written';
                 EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
            );
            if table != "streams" {
                app.sql(&format!("SET runwright.scope = 'all'; {copied}"));
            }
            assert_eq!(count(&database, "", table), before);
        }
        let insert =
            "INSERT INTO runwright.streams (name, tenant, next_seq, chain, settled, runnable,
            queue, priority, created_at, updated_at, kind, subject, status, tags, index_row)
            VALUES ('x', 'local', 1, '', true, true, '', 0, 0, 0, '', '', '', '{}', '')";
        app.sql(&format!(
            "{other} DO $$ BEGIN {insert}; RAISE 'a row was written';
             EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
        ));
    });
}

#[test]
fn statements_of_a_tenant_see_that_tenant_only() {
    on_database(async |database| {
        let store = database.store().await;
        let blob = fill(&store).await;
        // Only a statement that names its tenant to the database sees a row now.
        for table in ["streams", "keys", "blobs", "events"] {
            database.sql(&format!(
                "CREATE POLICY narrow ON runwright.{table} AS RESTRICTIVE
                 USING (coalesce(current_setting('runwright.scope', true), '') = '')"
            ));
        }
        assert_eq!(store.feed(Position(0), 9).await, Ok(vec![]));
        let (own, other) = (TenantId::new("local"), TenantId::new("globex"));
        assert!(store.blob(&own, &blob).await.is_ok());
        assert!(store.key(&own, "requests", "k1").await.unwrap().is_some());
        assert!(store.key(&other, "requests", "k1").await.unwrap().is_none());
        store.put_key(&own, claim("k2"), None).await.unwrap();
        store.put_blob(&own, vec![8; 99]).await.unwrap();
        let of = |tenant: &TenantId| ListQuery {
            tenant: Some(tenant.clone()),
            limit: 9,
            ..ListQuery::default()
        };
        assert_eq!(store.list(of(&own)).await.unwrap().len(), 1);
        assert_eq!(store.count(of(&own)).await.unwrap()["running"], 1);
        assert_eq!(store.list(of(&other)).await, Ok(vec![]));
        // The next statement over the same connections is the store's own work again.
        database
            .sql("DROP POLICY narrow ON runwright.streams; DROP POLICY narrow ON runwright.events");
        assert_eq!(store.feed(Position(0), 9).await.unwrap().len(), 1);
    });
}
