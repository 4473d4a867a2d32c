//! The store with a pooler that gives each transaction another connection.

use std::sync::Arc;

use store::{Position, ReadFrom, Store};
use store_postgres::Hints;
use testkit::postgres::Pooler;

use crate::bed::{Database, on_database};
use crate::logs::Log;

#[test]
fn a_pooler_in_transaction_mode_is_found_and_used() {
    on_database(async |database| {
        let Some(pooler) = Pooler::start(&database.of_app()) else {
            return;
        };
        let pooled = Database(pooler.url.clone());
        let stores = [
            Arc::new(pooled.store().await),
            Arc::new(pooled.store().await),
        ];
        assert_eq!(stores[0].listen(|_| {}), Hints::Polled);
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..40 {
            let store = stores[n % 2].clone();
            tasks.spawn(async move {
                let mut log = Log::new(format!("run-{n}"));
                for content in ["a", "b", "c"] {
                    log.append(&*store, content).await.unwrap();
                }
                let stream = log.id.into();
                let loaded = store.load(&stream, ReadFrom::Checkpoint, 9).await.unwrap();
                assert_eq!(loaded.records.len(), 3);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(stores[0].feed(Position(0), 999).await.unwrap().len(), 120);
        // A direct connection has hints.
        let direct = database.store().await;
        assert_eq!(direct.listen(|_| {}), Hints::Pushed);
    });
}
