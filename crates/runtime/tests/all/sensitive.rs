//! Sensitive variables: clear to the nodes, sealed in the log.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::run::{Completion, Create, End, Outcome, Rejection, Start};
use kernel::sealed::Sealed;
use kernel::stream::{Owner, Policy};
use parking_lot::Mutex;
use runtime::nodes::{NodeContext, Ports, Registry, Repeat, Started, WorkNode};
use runtime::outbound::Outbound;
use runtime::{DoorError, Engine, EngineOptions, NewRun};
use serde_json::{Map, Value, json};
use store::memory::MemoryStore;
use store::{ReadFrom, Store, SystemClock};

use crate::recorder::OneSecret;
use crate::support::Lab;

const TOKEN: &str = "correct-horse-battery-staple";

/// Notes what it is given, gives it back, and keeps it in a sensitive variable.
struct Copy(Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl WorkNode for Copy {
    fn type_id(&self) -> &'static str {
        "test.copy"
    }

    fn summary(&self) -> &'static str {
        "Copies its input."
    }

    fn repeat(&self, _: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    async fn run(&self, started: Started, _: NodeContext) -> Outcome {
        let given = started.inputs()["it"].clone();
        self.0.lock().push(given.clone());
        let fields = |name: &str| Map::from_iter([(name.to_owned(), given.clone())]);
        Outcome::Completed(Completion {
            outputs: fields("copied"),
            variables: fields("kept"),
            ..Completion::default()
        })
    }
}

struct Bed {
    lab: Lab,
    store: Arc<dyn Store>,
    engine: Engine,
    given: Arc<Mutex<Vec<Value>>>,
}

fn bed() -> Bed {
    let lab = Lab::new();
    let given = Arc::new(Mutex::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let ports = Ports {
        supervisor: lab.supervisor.clone(),
        outbound: Outbound::default(),
        secrets: Arc::new(OneSecret),
        models: Default::default(),
        keyring: Arc::new(lab.keyring()),
        workdir: lab.work(),
    };
    let copy: Arc<dyn WorkNode> = Arc::new(Copy(Arc::clone(&given)));
    let registry = Arc::new(Registry::of([copy]));
    let engine = Engine::new(store.clone(), registry, ports, EngineOptions::default());
    Bed {
        lab,
        store,
        engine,
        given,
    }
}

async fn create(
    bed: &Bed,
    inputs: Value,
    start: Start,
) -> Result<kernel::ids::StreamId, DoorError> {
    let input = |name: &str| json!({ "it": { "type": "variable", "variableName": name } });
    let node = |id: &str, name: &str| {
        json!({ "id": id, "typeId": "test.copy", "name": id, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": input(name) })
    };
    let sensitive = |name: &str| json!({ "name": name, "type": "string", "sensitive": true });
    let document = json!({
        "id": "w", "name": "W", "version": "1.0", "triggers": [], "metadata": {}, "settings": {},
        "nodes": [node("first", "token"), node("second", "kept")],
        "edges": [{ "id": "e", "sourceNodeId": "first", "targetNodeId": "second" }],
        "variables": [sensitive("token"), sensitive("kept")],
    });
    let door = bed.engine.door();
    let prepared = door
        .plans()
        .prepare(
            &**door.store(),
            &"local".into(),
            document.to_string().as_bytes(),
        )
        .await
        .expect("a valid document");
    let inputs: Map<String, Value> = serde_json::from_value(inputs).expect("an object");
    let new = NewRun {
        owner: Owner::tenant("local"),
        prepared,
        create: Create::new(inputs, "test", start),
        policy: Policy::default(),
        trace: None,
        id: None,
        keys: Vec::new(),
    };
    let done = bed.engine.create(new).await?;
    Ok(done.run.header.stream.clone())
}

#[tokio::test]
async fn nodes_see_the_value_and_the_log_does_not() {
    let bed = bed();
    bed.engine.start();
    let id = create(&bed, json!({ "token": TOKEN }), Start::Now)
        .await
        .expect("created");
    let run = bed.engine.settled(&id).await.expect("settled");
    assert_eq!(run.status(), "completed");
    assert_eq!(*bed.given.lock(), [json!(TOKEN), json!(TOKEN)]);
    let facts = run.facts().expect("facts");
    for place in [
        &facts.inputs["token"],
        &facts.variables["token"],
        &facts.variables["kept"],
    ] {
        assert!(Sealed::of(place).is_some(), "{place}");
    }
    let log = bed.store.load(&id, ReadFrom::Seq(0), usize::MAX).await;
    for record in log.expect("a log").records {
        let text = String::from_utf8(record.content).expect("text");
        assert!(!text.contains(TOKEN), "{text}");
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_value_is_checked_before_it_is_sealed_and_a_sealed_one_is_refused() {
    let bed = bed();
    let forged = Sealed {
        key: "k".into(),
        nonce: "bg==".into(),
        body: "Yg==".into(),
    };
    for (inputs, why) in [
        (json!({ "token": 7 }), "must be of type string"),
        (json!({ "token": forged.into_value() }), "not a sealed one"),
    ] {
        match create(&bed, inputs, Start::Now).await {
            Err(DoorError::Rejected(Rejection::InvalidInputs(problems))) => {
                let text = problems.to_string();
                assert!(text.contains(why) && text.contains("/token"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn without_its_key_a_node_fails_with_a_reason_and_nothing_runs() {
    let bed = bed();
    let id = create(&bed, json!({ "token": TOKEN }), Start::WhenClaimed)
        .await
        .expect("created");
    std::fs::remove_file(bed.lab.keyring_path()).expect("the keyring is lost");
    bed.engine.start();
    let run = bed.engine.settled(&id).await.expect("settled");
    let Some(End::Failed { error, .. }) = run.end() else {
        panic!("{:?}", run.end());
    };
    assert_eq!(error.code, "seal_key_unknown");
    assert!(bed.given.lock().is_empty());
    bed.engine.drain(Duration::from_secs(5)).await;
}
