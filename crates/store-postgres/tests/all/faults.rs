//! Connections and locks that hang, settings that changed, hosts that are silent.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use kernel::ids::HolderId;
use store::Store;
use store_postgres::{Access, Address, Options, PostgresStore};
use testkit::cluster::{Node, Proxy, Upstream};

use crate::bed::{Database, on_database};
use crate::logs::Log;

#[test]
fn a_silent_host_does_not_hide_the_next() {
    let Some(mut node) = Node::create() else {
        return;
    };
    node.start();
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://runwright@{},127.0.0.1:{}/postgres?connect_timeout=1",
        silent.local_addr().unwrap(),
        node.port()
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = Address::parse(&url).unwrap();
    let opened = runtime.block_on(PostgresStore::open(&address, Options::default()));
    assert!(opened.is_ok(), "{:?}", opened.err());
}

#[test]
fn a_locked_row_fails_an_append_in_time() {
    on_database(async |database| {
        let store = std::sync::Arc::new(database.store().await);
        let (mut locked, mut other) = (Log::new("run-1"), Log::new("run-2"));
        locked.append(&*store, "a").await.unwrap();
        other.append(&*store, "a").await.unwrap();
        let (client, connection) = tokio_postgres::connect(&database.0, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("BEGIN; SELECT FROM runwright.streams WHERE name = 'run-1' FOR UPDATE")
            .await
            .unwrap();
        let refused = locked.append(&*store, "b").await.unwrap_err();
        assert!(
            refused.to_string().contains("keeps rows locked"),
            "{refused}"
        );
        let (run, me) = ("run-1".into(), HolderId::new("me"));
        let claim = store.claim(&run, &me, Duration::from_secs(9));
        let refused = claim.await.unwrap_err();
        assert!(
            refused.to_string().contains("keeps rows locked"),
            "{refused}"
        );
        other.append(&*store, "b").await.unwrap();
    });
}

#[test]
fn a_locked_row_stops_no_other_append() {
    on_database(async |database| {
        let store = std::sync::Arc::new(database.store().await);
        let mut logs: Vec<_> = (0..9).map(|n| Log::new(format!("run-{n}"))).collect();
        for log in &mut logs {
            log.append(&*store, "a").await.unwrap();
        }
        let session = async || {
            let connected = tokio_postgres::connect(&database.0, tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            tokio::spawn(connection);
            client
        };
        let (rows, feed, observer) = (session().await, session().await, session().await);
        let locks = "BEGIN; SELECT FROM runwright.streams WHERE name = 'run-3' FOR UPDATE;
            SELECT pg_advisory_xact_lock(1381446469, runwright.lock_of('local', 'keys', 'k'))";
        rows.batch_execute(locks).await.unwrap();
        // While an append waits for the feed, the next ones make one group.
        let lock_feed = "BEGIN; SELECT runwright.lock_feed()";
        feed.batch_execute(lock_feed).await.unwrap();
        let mut appends = Vec::new();
        for (n, log) in logs.into_iter().enumerate() {
            let store = store.clone();
            let mut batch = log.next("b");
            if n == 5 {
                batch.keys.push(kernel::batch::KeyClaim {
                    namespace: "keys".into(),
                    key: "k".into(),
                    digest: None,
                    answer: None,
                    expires_at: None,
                });
            }
            appends.push(tokio::spawn(async move {
                let (guard, keep) = (store::Guard::Outside, store::LeaseChange::Keep);
                store.append(batch.into(), guard, keep).await
            }));
            let waiting =
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            while observer
                .query_one(waiting, &[])
                .await
                .unwrap()
                .get::<_, i64>(0)
                == 0
            {}
        }
        feed.batch_execute("COMMIT").await.unwrap();
        for (n, append) in appends.into_iter().enumerate() {
            let done = append.await.unwrap();
            match n {
                3 | 5 => {
                    let refused = done.unwrap_err().to_string();
                    assert!(refused.contains("keeps rows locked"), "{n}: {refused}");
                }
                _ => assert!(done.is_ok(), "{n}: {done:?}"),
            }
        }
        rows.batch_execute("COMMIT").await.unwrap();
    });
}

#[test]
fn a_lock_that_is_released_lets_its_append_pass() {
    on_database(async |database| {
        let store = std::sync::Arc::new(database.store().await);
        let mut log = Log::new("run-1");
        log.append(&*store, "a").await.unwrap();
        let (client, connection) = tokio_postgres::connect(&database.0, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let lock = "BEGIN; SELECT FROM runwright.streams WHERE name = 'run-1' FOR UPDATE";
        client.batch_execute(lock).await.unwrap();
        let append = tokio::spawn(async move { log.append(&*store, "b").await });
        // It waits for the row in a transaction of its own.
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND datname = current_database()";
        while database.sql(waiting) == "0" {}
        client.batch_execute("COMMIT").await.unwrap();
        append.await.unwrap().unwrap();
    });
}

#[test]
fn a_server_that_is_silent_after_the_handshake_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://runwright@{}/postgres?connect_timeout=1&sslmode=disable",
        listener.local_addr().unwrap()
    );
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming().flatten() {
            let mut connection = connection;
            let mut length = [0; 4];
            connection.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            connection.read_exact(&mut startup).unwrap();
            // The client is let in, is told that the server takes writes, and nothing more.
            let ready = b"Z\0\0\0\x05I";
            let welcome = [&b"R\0\0\0\x08\0\0\0\0"[..], ready].concat();
            connection.write_all(&welcome).unwrap();
            connection.read_exact(&mut [0; 5]).unwrap();
            let answer = [
                b"T\0\0\0\x2e\0\x01transaction_read_only\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0",
                &b"D\0\0\0\x0d\0\x01\0\0\0\x03offC\0\0\0\x09SHOW\0"[..],
                ready,
            ]
            .concat();
            connection.write_all(&answer).unwrap();
            open.push(connection);
        }
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = Address::parse(&url).unwrap();
    let opened = runtime.block_on(PostgresStore::open(&address, Options::default()));
    let why = opened.err().unwrap().to_string();
    assert!(why.contains("does not answer in time"), "{why}");
}

#[test]
fn an_append_waits_for_the_disk_with_any_setting() {
    let Some(mut node) = Node::create() else {
        return;
    };
    node.start();
    let database = Database(node.url("postgres"));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = database.store().await;
        database.sql(
            "CREATE TABLE runwright.waited (setting text);
             CREATE FUNCTION waited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO runwright.waited VALUES (current_setting('synchronous_commit'));
               RETURN NULL;
             END $$;
             CREATE TRIGGER waited AFTER INSERT ON runwright.events
               FOR EACH ROW EXECUTE FUNCTION waited();",
        );
        database.sql("ALTER SYSTEM SET synchronous_commit = off");
        database.sql("SELECT pg_reload_conf()");
        while database.sql("SHOW synchronous_commit") != "off" {}
        Log::new("run-1").append(&store, "a").await.unwrap();
        assert_eq!(database.sql("SELECT * FROM runwright.waited"), "on");
    });
    let why = tokio::runtime::Runtime::new().unwrap();
    let why = why.block_on(database.refusal(Access::Write));
    assert!(why.contains("synchronous_commit = off"), "{why}");
}

#[test]
fn another_isolation_or_encoding_is_refused() {
    on_database(async |database| {
        let name = database.sql("SELECT current_database()");
        database.sql(&format!(
            "ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        ));
        // The session asks for the right one.
        database.store().await;
        let other = format!("{name}_latin");
        database.sql(&format!(
            "CREATE DATABASE {other} ENCODING 'LATIN1' TEMPLATE template0"
        ));
        let latin = Database(database.0.replace(&name, &other));
        let why = latin.refusal(Access::Create).await;
        assert!(why.contains("LATIN1") && why.contains("UTF8"), "{why}");
    });
}

#[test]
fn a_store_recovers_from_silent_connections() {
    let Some(mut node) = Node::create() else {
        return;
    };
    node.start();
    let upstream = Upstream::default();
    upstream.set([format!("127.0.0.1:{}", node.port()).as_str()]);
    let proxy = Proxy::start(upstream);
    let url = format!("postgres://runwright@{}/postgres", proxy.address());
    let address = Address::parse(&url).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = PostgresStore::open(&address, Options::default())
            .await
            .unwrap();
        let (heard, mut hints) = tokio::sync::mpsc::unbounded_channel();
        store.listen(move |hint| drop(heard.send(hint)));
        hints.recv().await.unwrap();
        let mut log = Log::new("run-1");
        log.append(&store, "a").await.unwrap();
        // Several connections are in the pool.
        let names: Vec<_> = (0..5).map(|n| format!("run-{n}").into()).collect();
        let loads = names
            .iter()
            .map(|name| store.load(name, store::ReadFrom::Seq(0), 9));
        futures_util::future::join_all(loads).await;
        proxy.half_open();
        let lost = log.append(&store, "b").await.unwrap_err();
        assert!(lost.to_string().contains("in time"), "{lost}");
        // No second statement meets a silent connection, and the listener has a new one too.
        let run = "run-1".into();
        let loaded = store.load(&run, store::ReadFrom::Seq(0), 9);
        assert_eq!(loaded.await.unwrap().next_seq, 1);
        log.append(&store, "b").await.unwrap();
        hints.recv().await.unwrap();
    });
}
