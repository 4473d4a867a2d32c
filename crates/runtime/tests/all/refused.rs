//! Nodes whose output the log rejects.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::limits::MAX_CHUNK_BYTES;
use kernel::run::{End, Outcome, Start};
use parking_lot::Mutex;
use runtime::nodes::{NodeContext, Ports, Registry, Repeat, Started, WorkNode};
use runtime::outbound::Outbound;
use runtime::{Engine, EngineOptions};
use serde_json::{Value, json};

use crate::engine::{create, definition, kinds, memory};
use crate::recorder::OneSecret;
use crate::support::Lab;

/// Writes a line to the log that is too long for it, and stops when it is rejected.
struct Shouter(Arc<Mutex<usize>>);

#[async_trait]
impl WorkNode for Shouter {
    fn type_id(&self) -> &'static str {
        "test.shouter"
    }

    fn summary(&self) -> &'static str {
        "Says too much."
    }

    fn repeat(&self, _: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    async fn run(&self, _: Started, cx: NodeContext) -> Outcome {
        *self.0.lock() += 1;
        let line = "x".repeat(MAX_CHUNK_BYTES + 1);
        match cx
            .output
            .log(kernel::run::event::LogLevel::Info, line)
            .await
        {
            Ok(()) => Outcome::Completed(Default::default()),
            Err(_) => Outcome::Stopped,
        }
    }
}

#[tokio::test]
async fn output_the_log_rejects_fails_its_node_without_restarts() {
    let lab = Lab::new();
    let starts = Arc::new(Mutex::new(0));
    let store = memory();
    let ports = Ports {
        supervisor: lab.supervisor.clone(),
        outbound: Outbound::default(),
        secrets: Arc::new(OneSecret),
        models: Default::default(),
        keyring: Arc::new(lab.keyring()),
        workdir: lab.work(),
        programs: Arc::default(),
    };
    let shouter: Arc<dyn WorkNode> = Arc::new(Shouter(Arc::clone(&starts)));
    let registry = Arc::new(Registry::from_nodes([shouter]));
    let engine = Engine::new(store.clone(), registry, ports, EngineOptions::default());
    engine.start();

    let nodes = json!([{ "id": "shout", "typeId": "test.shouter" }]);
    let run = create(&engine, &definition(nodes, json!([])), Start::Now).await;
    let settled = engine.settled(&run.header.stream).await.expect("a run");
    let Some(End::Failed { error, .. }) = settled.end() else {
        panic!("{:?}", settled.end());
    };
    assert_eq!(error.code, "output_refused");
    assert_eq!(*starts.lock(), 1);
    let kinds = kinds(&store, &run).await;
    assert!(kinds.contains(&"node.failed shout".to_owned()), "{kinds:?}");
    engine.drain(Duration::from_secs(5)).await;
}
