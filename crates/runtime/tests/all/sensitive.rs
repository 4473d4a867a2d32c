//! Sensitive variables: in plain text for the nodes, sealed in the log.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::run::command::ChannelWrite;
use kernel::run::event::OutputChannel;
use kernel::run::{Completion, Create, End, NodeError, Outcome, Rejection, Start};
use kernel::sealed::Sealed;
use kernel::stream::{ForkMode, Owner, Policy};
use parking_lot::Mutex;
use runtime::door::ForkSpec;
use runtime::nodes::{NodeContext, Ports, Registry, Repeat, Started, WorkNode};
use runtime::outbound::Outbound;
use runtime::{DoorError, Engine, EngineOptions, NewRun};
use serde_json::{Map, Value, json};
use store::memory::MemoryStore;
use store::{ReadFrom, Store, SystemClock};

use crate::recorder::OneSecret;
use crate::support::Lab;

const TOKEN: &str = "correct-horse-battery-staple";

/// Records its inputs, returns them, and stores them in a sensitive variable.
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

/// Returns, streams, writes and fails with a value that must stay sealed.
struct Tell;

#[async_trait]
impl WorkNode for Tell {
    fn type_id(&self) -> &'static str {
        "test.tell"
    }

    fn summary(&self) -> &'static str {
        "Tells a secret in every way there is."
    }

    fn repeat(&self, _: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn config_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let chunk = cx
            .output
            .chunk(OutputChannel::Stdout, TOKEN.into(), true, None);
        if chunk.await.is_err() {
            return Outcome::Stopped;
        }
        if started.config()["fails"] == true {
            let error = NodeError::new("told", format!("it failed; it said:\n{TOKEN}"));
            return Outcome::failed(error.with_details(json!({ "said": TOKEN })).fatal());
        }
        let write = |channel: &str, value: Value| ChannelWrite {
            channel: channel.into(),
            value,
        };
        Outcome::Completed(Completion {
            outputs: Map::from_iter([
                ("told".into(), TOKEN.into()),
                ("length".into(), TOKEN.len().into()),
            ]),
            channel_writes: vec![
                write("last", TOKEN.into()),
                write("all", TOKEN.into()),
                write("merged", json!({ "one": TOKEN })),
                write(
                    "votes",
                    json!({ "userId": "ada", "action": "accept", "why": TOKEN }),
                ),
            ],
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
        programs: Arc::default(),
    };
    let copy: Arc<dyn WorkNode> = Arc::new(Copy(Arc::clone(&given)));
    let registry = Arc::new(Registry::from_nodes([copy, Arc::new(Tell)]));
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
    create_of(bed, copies(), inputs, start).await
}

/// Two nodes that each receive a sensitive variable.
fn copies() -> Value {
    let input = |name: &str| json!({ "it": { "type": "variable", "variableName": name } });
    let node = |id: &str, name: &str| {
        json!({ "id": id, "typeId": "test.copy", "name": id, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": input(name) })
    };
    let sensitive = |name: &str| json!({ "name": name, "type": "string", "sensitive": true });
    json!({
        "id": "w", "name": "W", "version": "1.0", "triggers": [], "metadata": {}, "settings": {},
        "nodes": [node("first", "token"), node("second", "kept")],
        "edges": [{ "id": "e", "sourceNodeId": "first", "targetNodeId": "second" }],
        "variables": [sensitive("token"), sensitive("kept")],
    })
}

async fn create_of(
    bed: &Bed,
    document: Value,
    inputs: Value,
    start: Start,
) -> Result<kernel::ids::StreamId, DoorError> {
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
        nonce: None,
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
    assert_eq!(run.status().as_str(), "completed");
    assert_eq!(*bed.given.lock(), [json!(TOKEN), json!(TOKEN)]);
    let facts = run.facts().expect("facts");
    for place in [
        &facts.inputs["token"],
        &facts.variables["token"],
        &facts.variables["kept"],
    ] {
        assert!(Sealed::from_value(place).is_some(), "{place}");
    }
    let log = bed.store.load(&id, ReadFrom::Seq(0), usize::MAX).await;
    for record in log.expect("a log").records {
        let text = String::from_utf8(record.content).expect("text");
        assert!(!text.contains(TOKEN), "{text}");
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_value_is_checked_before_sealing_and_sealed_ones_rejected() {
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

/// A node that emits a secret at a port, in its output and in channels, all declared sensitive, and
/// one that receives it.
fn tells(config: Value) -> Value {
    let mut document = copies();
    let node = |id: &str, type_id: &str, config: Value, inputs: Value| {
        json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
            "config": config, "inputs": inputs })
    };
    let mut tells = node("first", "test.tell", config, json!({}));
    tells["outputSensitivity"] = json!({ "told": true });
    let given = json!({ "it": { "type": "connection", "nodeId": "first", "outputKey": "told" } });
    document["nodes"] = json!([tells, node("second", "test.copy", json!({}), given)]);
    let channel = |reducer: &str| json!({ "reducer": reducer, "sensitive": true });
    document["channels"] = json!({
        "last": channel("replace"), "all": channel("append"), "merged": channel("merge"),
        "votes": channel("votes"),
    });
    document
}

async fn rows(bed: &Bed, id: &kernel::ids::StreamId) -> Vec<String> {
    let log = bed.store.load(id, ReadFrom::Seq(0), usize::MAX).await;
    let records = log.expect("a log").records.into_iter();
    let text = |record: kernel::batch::Record| String::from_utf8(record.content).expect("text");
    records.map(text).collect()
}

#[tokio::test]
async fn declared_outputs_are_sealed_in_the_log_and_clear_to_nodes() {
    let bed = bed();
    bed.engine.start();
    let id = create_of(&bed, tells(json!({})), json!({}), Start::Now);
    let id = id.await.expect("created");
    let run = bed.engine.settled(&id).await.expect("settled");
    assert_eq!(run.status().as_str(), "completed", "{:?}", run.end());
    assert_eq!(*bed.given.lock(), [json!(TOKEN)]);
    for row in rows(&bed, &id).await {
        assert!(!row.contains(TOKEN), "{row}");
    }
    let facts = run.facts().expect("facts");
    let channels = &facts.channels;
    for sealed in [
        &channels["last"],
        &channels["all"][0],
        &channels["merged"]["one"],
    ] {
        assert!(Sealed::from_value(sealed).is_some(), "{sealed}");
    }
    // The parts that a reducer needs stay readable.
    assert_eq!(channels["votes"][0]["userId"], "ada");
    assert!(Sealed::from_value(&channels["votes"][0]["why"]).is_some());
    let kernel::run::NodeStatus::Completed { outputs, .. } = &facts.nodes[0].status else {
        panic!("{:?}", facts.nodes[0].status);
    };
    assert_eq!(outputs["length"], TOKEN.len());
    // A replay uses the recorded value.
    let order = ForkSpec::new(ForkMode::Replay, None);
    let replay = bed.engine.fork(&id, order).await.expect("a replay");
    assert_eq!(replay.answer.diverged_at, None);
    for row in rows(&bed, &replay.run.header.stream).await {
        assert!(!row.contains(TOKEN), "{row}");
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_failure_of_a_node_with_a_declared_port_quotes_nothing() {
    let bed = bed();
    bed.engine.start();
    let id = create_of(&bed, tells(json!({ "fails": true })), json!({}), Start::Now);
    let id = id.await.expect("created");
    let run = bed.engine.settled(&id).await.expect("settled");
    let Some(End::Failed { error, .. }) = run.end() else {
        panic!("{:?}", run.end());
    };
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("told", "it failed; it said: [REDACTED]")
    );
    for row in rows(&bed, &id).await {
        assert!(!row.contains(TOKEN), "{row}");
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}
