//! All readable content of a store, for the comparison at the end.

use std::sync::Arc;

use kernel::digest::Digest;

use super::answer::{self, answer, debug, same};
use super::op::{BLOBS, KEYS, NAMESPACES, QUEUES, STREAMS, TENANTS};
use super::play::{blob, stream, tenant};
use crate::{DueQuery, ListQuery, Position, ReadFrom, Store};

/// Compares two stores part by part, then checks the health of both.
pub(super) async fn same_contents(a: &Arc<dyn Store>, b: &Arc<dyn Store>) -> Result<(), String> {
    let (left, right) = (parts(&**a).await, parts(&**b).await);
    for ((name, left), (_, right)) in left.into_iter().zip(right) {
        same(left, right).map_err(|difference| format!("{name}: {difference}"))?;
    }
    Ok(())
}

async fn parts(store: &dyn Store) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    let mut part = |name: String, text: String| parts.push((name, text));
    let everything = ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    };
    part(
        "list".into(),
        answer(store.list(everything).await, answer::listed),
    );
    part(
        "feed".into(),
        answer(store.feed(Position(0), usize::MAX).await, answer::feed),
    );
    part(
        "outbox".into(),
        answer(store.outbox(usize::MAX).await, answer::outbox),
    );
    for n in 0..STREAMS {
        let id = stream(n);
        for from in [ReadFrom::Seq(0), ReadFrom::Checkpoint] {
            let loaded = store.load(&id, from, usize::MAX).await;
            part(
                format!("{id} from {from:?}"),
                answer(loaded, answer::loaded),
            );
        }
        let tombstone = store.tombstone(&id).await;
        part(format!("tombstone of {id}"), answer(tombstone, debug));
    }
    for n in 0..TENANTS {
        let tenant = tenant(n);
        for (namespace, key) in (0..NAMESPACES).flat_map(|n| (0..KEYS).map(move |key| (n, key))) {
            let (namespace, key) = (format!("ns-{namespace}"), format!("key-{key}"));
            let row = store.key(&tenant, &namespace, &key).await;
            let name = format!("{tenant} {namespace} {key}");
            part(name, answer(row, debug));
        }
        for of in 0..BLOBS {
            let bytes = store.blob(&tenant, &Digest::compute(&blob(of))).await;
            let name = format!("{tenant} blob {of}");
            part(name, answer(bytes, |found| answer::bytes(&found)));
        }
    }
    for n in 0..QUEUES {
        let query = DueQuery {
            queue: format!("queue-{n}"),
            limit: usize::MAX,
        };
        let due = store.due(query).await;
        part(
            format!("queue {n}"),
            answer(due, |due| format!("{:?}", due.ready)),
        );
    }
    part("health".into(), answer(store.inspect().await, debug));
    parts
}
