//! An engine that is told to stop while a node runs whose successor must run only once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::run::{End, Outcome, Start};
use parking_lot::Mutex;
use runtime::nodes::{NodeContext, Ports, Registry, Repeat, Started, WorkNode};
use runtime::outbound::Outbound;
use runtime::{Engine, EngineOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::engine::{create, definition, memory};
use crate::recorder::OneSecret;
use crate::support::Lab;

/// Signals that it runs, and waits for release; the second time it is released at once.
#[derive(Default)]
struct Gate {
    runs: Mutex<Vec<String>>,
    begun: Notify,
    let_go: Notify,
}

struct Step(Arc<Gate>);

#[async_trait]
impl WorkNode for Step {
    fn type_id(&self) -> &'static str {
        "test.step"
    }

    fn summary(&self) -> &'static str {
        "Waits at a gate, where it is told to."
    }

    fn repeat(&self, config: &Value) -> Repeat {
        if config["once"] == true {
            Repeat::Once
        } else {
            Repeat::Repeatable
        }
    }

    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    async fn run(&self, started: Started, _: NodeContext) -> Outcome {
        let node = started.attempt().node.to_string();
        self.0.runs.lock().push(node);
        if started.config()["once"] != true {
            self.0.begun.notify_one();
            self.0.let_go.notified().await;
        }
        Outcome::Completed(Default::default())
    }
}

#[tokio::test]
async fn a_logged_start_of_a_once_node_runs_before_the_engine_stops() {
    let lab = Lab::new();
    let gate = Arc::new(Gate::default());
    let store = memory();
    let engine = |gate: &Arc<Gate>| {
        let ports = Ports {
            supervisor: lab.supervisor.clone(),
            outbound: Outbound::default(),
            secrets: Arc::new(OneSecret),
            models: Default::default(),
            keyring: Arc::new(lab.keyring()),
            workdir: lab.work(),
            programs: Arc::default(),
        };
        let step: Arc<dyn WorkNode> = Arc::new(Step(Arc::clone(gate)));
        let registry = Arc::new(Registry::from_nodes([step]));
        Engine::new(store.clone(), registry, ports, EngineOptions::default())
    };
    let first = engine(&gate);
    first.start();
    let nodes = json!([
        { "id": "slow", "typeId": "test.step" },
        { "id": "once", "typeId": "test.step", "config": { "once": true } }
    ]);
    let edges = json!([{ "id": "e", "sourceNodeId": "slow", "targetNodeId": "once" }]);
    let run = create(&first, &definition(nodes, edges), Start::Now).await;
    gate.begun.notified().await;

    // It drains from its first poll on, while the slow node still runs.
    let mut draining = Box::pin(first.drain(Duration::from_secs(60)));
    assert!(is_pending(&mut draining).await);
    gate.let_go.notify_one();
    draining.await;

    let next = engine(&gate);
    next.start();
    let settled = next.settled(&run.header.stream).await.expect("a run");
    assert!(
        matches!(settled.end(), Some(End::Completed { .. })),
        "{:?}",
        settled.end()
    );
    assert_eq!(*gate.runs.lock(), ["slow", "once"]);
    next.drain(Duration::from_secs(5)).await;
}

/// Polls once; whether it is still pending.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| {
        let pending = std::pin::Pin::new(&mut *future).poll(cx).is_pending();
        std::task::Poll::Ready(pending)
    })
    .await
}
