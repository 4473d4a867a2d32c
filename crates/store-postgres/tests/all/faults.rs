//! Connections and locks that hang, settings that changed, hosts that are silent.

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
