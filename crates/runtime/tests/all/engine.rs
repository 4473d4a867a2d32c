//! The engine over the in-memory store: runs are created, driven, parked, taken over and ended.

use std::sync::Arc;
use std::time::Duration;

use kernel::run::event::DrainPolicy;
use kernel::run::{Command, Create, End, Envelope, Event, NodeError, Rejection, Run, Start};
use kernel::stream::{Owner, Policy};
use runtime::hints::Hints;
use runtime::nodes::{Ports, Registry, Secrets};
use runtime::outbound::Outbound;
use runtime::{DoorError, Engine, EngineOptions, NewRun};
use serde_json::{Map, Value, json};
use store::faults::{FaultyStore, Method};
use store::memory::MemoryStore;
use store::{ReadFrom, Store, SystemClock};

use crate::support::{self, Lab};

pub(crate) fn engine_on(store: Arc<dyn Store>, holder: &str, lab: &Lab) -> Engine {
    let options = EngineOptions {
        holder: holder.into(),
        // Longer than a busy machine may delay a renewal.
        lease_ttl: support::DEADLINE,
        poll: Duration::from_millis(20),
        ..EngineOptions::default()
    };
    engine_with(store, options, lab)
}

pub(crate) fn engine_with(store: Arc<dyn Store>, options: EngineOptions, lab: &Lab) -> Engine {
    engine_with_hints((store, Hints::default()), options, lab)
}

fn engine_with_hints(store: (Arc<dyn Store>, Hints), options: EngineOptions, lab: &Lab) -> Engine {
    let ports = Ports {
        supervisor: lab.supervisor.clone(),
        outbound: Outbound::default(),
        secrets: Arc::new(OneSecret),
        models: Default::default(),
        keyring: Arc::new(lab.keyring()),
        workdir: lab.work(),
        programs: Arc::default(),
    };
    Engine::with_hints(store, Arc::new(Registry::standard()), ports, options)
}

/// Knows one secret.
struct OneSecret;

const SECRET: &str = "correct-horse-battery";

#[async_trait::async_trait]
impl Secrets for OneSecret {
    async fn resolve(&self, _: &Owner, reference: &str) -> Result<String, NodeError> {
        match reference {
            "test-token" => Ok(SECRET.to_owned()),
            _ => Err(NodeError::new(
                "credential_not_found",
                "there is one secret only",
            )),
        }
    }
}

/// Waits for a process's change of the file system.
async fn until(mut what: impl FnMut() -> bool) {
    let waiting = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::DEADLINE, waiting)
        .await
        .expect("it happens in time");
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock)))
}

pub(crate) fn definition(nodes: Value, edges: Value) -> Vec<u8> {
    let mut nodes = nodes;
    for node in nodes.as_array_mut().expect("a list") {
        let defaults = json!({
            "name": node["id"], "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {}
        });
        for (key, value) in defaults.as_object().expect("an object") {
            node.as_object_mut()
                .expect("an object")
                .entry(key)
                .or_insert(value.clone());
        }
    }
    let document = json!({
        "id": "w", "name": "W", "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {}
    });
    serde_json::to_vec(&document).expect("JSON")
}

pub(crate) fn chain() -> Vec<u8> {
    definition(
        json!([
            { "id": "a", "typeId": "core.noop" },
            { "id": "b", "typeId": "core.noop" },
            { "id": "c", "typeId": "core.noop" }
        ]),
        json!([
            { "id": "ab", "sourceNodeId": "a", "targetNodeId": "b" },
            { "id": "bc", "sourceNodeId": "b", "targetNodeId": "c" }
        ]),
    )
}

pub(crate) async fn create(engine: &Engine, document: &[u8], start: Start) -> Run {
    let new = new_run(engine, document, start).await;
    engine.create(new).await.expect("a created run").run
}

async fn new_run(engine: &Engine, document: &[u8], start: Start) -> NewRun {
    let door = engine.door();
    let tenant = "local".into();
    let prepared = door
        .plans()
        .prepare(&**door.store(), &tenant, document)
        .await
        .expect("a valid document");
    NewRun {
        owner: Owner::tenant("local"),
        prepared,
        create: Create::new(Map::new(), "test", start),
        policy: Policy::default(),
        trace: None,
        id: None,
        nonce: None,
        keys: Vec::new(),
    }
}

pub(crate) async fn kinds(store: &Arc<dyn Store>, run: &Run) -> Vec<String> {
    let loaded = store
        .load(&run.header.stream, ReadFrom::Seq(0), usize::MAX)
        .await
        .expect("a log");
    let kind = |content: &[u8]| -> String {
        let event: Event = serde_json::from_slice(content).expect("an event");
        let value = serde_json::to_value(&event).expect("JSON");
        let node = value["data"]["nodeId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        format!("{} {node}", value["type"].as_str().unwrap_or_default())
            .trim_end()
            .to_owned()
    };
    loaded
        .records
        .iter()
        .map(|record| kind(&record.content))
        .collect()
}

#[tokio::test]
async fn a_chain_runs_to_its_end_in_four_commits() {
    let faulty = Arc::new(FaultyStore::new(memory()));
    let store: Arc<dyn Store> = faulty.clone();
    let lab = Lab::new();
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let run = create(&engine, &chain(), Start::Now).await;
    let end = engine
        .settled(&run.header.stream)
        .await
        .expect("a settled run");
    assert!(
        matches!(end.end(), Some(End::Completed { .. })),
        "{:?}",
        end.end()
    );
    assert_eq!(
        kinds(&store, &run).await,
        [
            "run.started",
            "node.started a",
            "node.completed a",
            "node.started b",
            "node.completed b",
            "node.started c",
            "node.completed c",
            "run.completed"
        ]
    );
    let calls = faulty.calls().into_iter();
    assert_eq!(
        calls.filter(|call| call.method == Method::Append).count(),
        4
    );
    engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_queued_run_is_claimed_and_parks_on_a_delay_without_a_hold() {
    let store = memory();
    let lab = Lab::new();
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let document = definition(
        json!([{ "id": "d", "typeId": "core.delay", "config": { "ms": 3_600_000 } }]),
        json!([]),
    );
    let run = create(&engine, &document, Start::WhenClaimed).await;
    let id = run.header.stream.clone();
    loop {
        let loaded = store.load(&id, ReadFrom::Seq(0), 10).await.expect("a log");
        if loaded.next_seq == 2 && loaded.lease.is_none() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let cancel = Command::Cancel {
        reason: Some("enough".into()),
        by: None,
        parent: None,
    };
    engine
        .command(&id, Envelope::from(cancel))
        .await
        .expect("a cancel");
    let end = engine.settled(&id).await.expect("a settled run");
    assert_eq!(end.status().as_str(), "cancelled");
    engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_engine_hears_of_appends_by_other_processes() {
    let (hints, lab) = (Hints::default(), Lab::new());
    let engine = engine_with_hints((memory(), hints.clone()), EngineOptions::default(), &lab);
    let mut watch = engine.door().hints().watch(&"run-1".into());
    hints.appended_elsewhere(&"run-1".into(), 3);
    assert!(watch.has_changed());
    assert_eq!(watch.look().next_seq, 3);
}

#[tokio::test]
async fn another_engine_continues_the_attempt_of_a_drained_one() {
    let store = memory();
    let lab = Lab::new();
    let marker = lab.work().join("go");
    let script = format!(
        "echo $WF_ATTEMPT_KEY >> keys; while [ ! -e {} ]; do sleep 0.02; done",
        marker.display()
    );
    let document = definition(
        json!([{
            "id": "p", "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", script] }
        }]),
        json!([]),
    );
    let first = engine_on(store.clone(), "one", &lab);
    first.start();
    let run = create(&first, &document, Start::Now).await;
    let id = run.header.stream.clone();
    until(|| lab.work().join("keys").exists()).await;
    first.drain(Duration::ZERO).await;
    std::fs::write(&marker, "").expect("a marker");
    let second = engine_on(store.clone(), "two", &lab);
    second.start();
    let end = second.settled(&id).await.expect("a settled run");
    assert_eq!(end.status().as_str(), "completed", "{:?}", end.end());
    let keys = std::fs::read_to_string(lab.work().join("keys")).expect("keys");
    let keys: Vec<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    let kinds = kinds(&store, &run).await;
    assert!(
        kinds.contains(&"runwright.attempt.restarted p".to_owned()),
        "{kinds:?}"
    );
    second.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_resume_after_an_immediate_pause_starts_a_new_attempt() {
    let store = memory();
    let lab = Lab::new();
    let marker = lab.work().join("go");
    let script = format!(
        "echo $WF_ATTEMPT_KEY >> keys; while [ ! -e {} ]; do sleep 0.02; done",
        marker.display()
    );
    let document = definition(
        json!([{
            "id": "p", "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", script] }
        }]),
        json!([]),
    );
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let run = create(&engine, &document, Start::Now).await;
    let id = run.header.stream.clone();
    // The shell makes the file before it writes to it.
    until(|| std::fs::read(lab.work().join("keys")).is_ok_and(|keys| !keys.is_empty())).await;
    let pause = Command::Pause {
        reason: None,
        policy: DrainPolicy::Immediate,
    };
    engine.command(&id, pause.into()).await.expect("a pause");
    assert_eq!(
        engine
            .door()
            .load(&id)
            .await
            .expect("a run")
            .status()
            .as_str(),
        "paused"
    );
    std::fs::write(&marker, "").expect("a marker");
    engine
        .command(&id, Command::Resume { reason: None }.into())
        .await
        .expect("a resume");
    let end = engine.settled(&id).await.expect("a settled run");
    assert_eq!(end.status().as_str(), "completed", "{:?}", end.end());
    let keys = std::fs::read_to_string(lab.work().join("keys")).expect("keys");
    let keys: Vec<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
    engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_parent_starts_a_child_by_outbox_and_gets_its_variables() {
    let store = memory();
    let lab = Lab::new();
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let child = definition(
        json!([{ "id": "s", "typeId": "core.setVariable", "config": { "name": "answer", "expression": "variables.question + 1" } }]),
        json!([]),
    );
    let mut child: Value = serde_json::from_slice(&child).expect("JSON");
    child["id"] = json!("child");
    let child = serde_json::to_vec(&child).expect("JSON");
    let door = engine.door();
    let tenant = "local".into();
    let prepared = door
        .plans()
        .prepare(&**door.store(), &tenant, &child)
        .await
        .expect("valid");
    door.put_workflow(
        &tenant,
        &prepared.definition,
        &kernel::audit::Actor::operator(),
    )
    .await
    .expect("put");
    let parent = definition(
        json!([
            { "id": "v", "typeId": "core.setVariable", "config": { "name": "q", "value": 41 } },
            { "id": "sub", "typeId": "core.subWorkflow", "config": {
                "workflowId": "child", "inputMapping": { "question": "q" },
                "outputMapping": { "result": "answer" } } }
        ]),
        json!([{ "id": "e", "sourceNodeId": "v", "targetNodeId": "sub" }]),
    );
    let run = create(&engine, &parent, Start::Now).await;
    let end = engine
        .settled(&run.header.stream)
        .await
        .expect("a settled run");
    assert_eq!(end.status().as_str(), "completed", "{:?}", end.end());
    assert_eq!(end.facts().expect("facts").variables["result"], json!(42));
    engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_secret_a_process_prints_reaches_neither_log_nor_artifacts() {
    let store = memory();
    let lab = Lab::new();
    let engine = engine_on(store.clone(), "one", &lab);
    engine.start();
    let script = "printf 'a %s b' \"$TOKEN\"; printf '%s' \"$TOKEN\" >&2; exit 3";
    let document = definition(
        json!([{
            "id": "p", "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", script], "secretEnv": { "TOKEN": "test-token" } }
        }]),
        json!([]),
    );
    let run = create(&engine, &document, Start::Now).await;
    let end = engine
        .settled(&run.header.stream)
        .await
        .expect("a settled run");
    assert_eq!(end.status().as_str(), "failed");
    let loaded = store
        .load(&run.header.stream, ReadFrom::Seq(0), usize::MAX)
        .await
        .expect("a log");
    let log: Vec<String> = loaded
        .records
        .iter()
        .map(|record| String::from_utf8_lossy(&record.content).into_owned())
        .collect();
    assert!(
        log.iter()
            .any(|event| event.contains("[REDACTED:test-token]")),
        "{log:?}"
    );
    assert!(log.iter().all(|event| !event.contains(SECRET)), "{log:?}");
    for (_, artifact) in &end.facts().expect("facts").artifacts {
        for part in &artifact.parts {
            let bytes = store.blob(&"local".into(), part).await.expect("a part");
            assert!(!String::from_utf8_lossy(&bytes).contains(SECRET));
        }
    }
    engine.drain(Duration::from_secs(5)).await;
}

/// From its creation to its start no other engine takes a run that its creator holds.
#[tokio::test]
async fn a_run_created_with_a_lease_waits_for_its_engine() {
    let store = memory();
    let lab = Lab::new();
    let other = engine_on(store.clone(), "other", &lab);
    other.start();
    let own = engine_on(store.clone(), "own", &lab);
    let document = definition(json!([{ "id": "n", "typeId": "core.noop" }]), json!([]));
    let new = new_run(&own, &document, Start::WhenClaimed).await;
    let run = own.create_held(new).await.expect("a created run").run;
    let id = run.header.stream.clone();
    // The other engine polls the queue meanwhile, and finds a free run.
    let free = create(&other, &document, Start::WhenClaimed).await;
    let end = other.settled(&free.header.stream).await.expect("its end");
    assert_eq!(end.status().as_str(), "completed");
    let loaded = store.load(&id, ReadFrom::Seq(0), 10).await.expect("a log");
    assert_eq!(loaded.next_seq, 1, "nothing but its creation");
    assert_eq!(loaded.lease.expect("a hold").holder, "own".into());

    own.start();
    let end = own.settled(&id).await.expect("a settled run");
    assert_eq!(end.status().as_str(), "completed");
    for engine in [own, other] {
        engine.drain(Duration::from_secs(5)).await;
    }
}

/// Another process's append counts before a poll finds it: no rejection is based on a stale log.
#[tokio::test]
async fn commands_are_not_rejected_on_a_stale_log() {
    let store = memory();
    let lab = Lab::new();
    let marker = lab.work().join("go");
    let script = format!(
        "touch begun; while [ ! -e {} ]; do sleep 0.02; done",
        marker.display()
    );
    let document = definition(
        json!([{
            "id": "p", "typeId": "runwright.process",
            "config": { "argv": ["sh", "-c", script] }
        }]),
        json!([]),
    );
    let options = EngineOptions {
        holder: "one".into(),
        lease_ttl: support::DEADLINE,
        poll: support::DEADLINE,
        ..EngineOptions::default()
    };
    let engine = engine_with(store.clone(), options, &lab);
    engine.start();
    let run = create(&engine, &document, Start::Now).await;
    let id = run.header.stream.clone();
    until(|| lab.work().join("begun").exists()).await;
    let pause = Command::Pause {
        reason: None,
        policy: DrainPolicy::DrainCurrentNode,
    };
    let elsewhere = engine_on(store.clone(), "two", &lab);
    elsewhere.command(&id, pause.into()).await.expect("a pause");

    let resume = Command::Resume { reason: None };
    engine
        .command(&id, resume.clone().into())
        .await
        .expect("a resume");
    // A run that is not paused is still rejected.
    let again = engine.command(&id, resume.into()).await;
    assert!(
        matches!(again, Err(DoorError::Rejected(Rejection::NotPaused))),
        "{again:?}"
    );
    std::fs::write(&marker, "").expect("a marker");
    let end = engine.settled(&id).await.expect("a settled run");
    assert_eq!(end.status().as_str(), "completed", "{:?}", end.end());
    engine.drain(Duration::from_secs(5)).await;
}
