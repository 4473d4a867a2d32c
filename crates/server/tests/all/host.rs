//! A server on a store of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kernel::audit::Actor;
use kernel::document::Audited;
use kernel::ids::TenantId;
use runtime::access::{ApiKeys, AuthOptions, Authenticator, NewKey, Scopes, trail};
use runtime::api::{Api, ExpiryToken};
use runtime::authority::Authority;
use runtime::definitions::shared_tenant;
use runtime::keyring::FileKeyring;
use runtime::models::Providers;
use runtime::nodes::{Ports, Registry};
use runtime::outbound::{Allowed, Outbound};
use runtime::secrets::SecretSources;
use runtime::supervisor::Supervisor;
use runtime::webhooks::{Reach, Webhooks};
use runtime::{Engine, EngineOptions};
use serde_json::{Value, json};
use server::listen::Listening;
use server::{App, Gate, Limits};
use store::Store;
use store_sqlite::{Access, Options, SqliteStore};
use tokio::task::JoinHandle;

use crate::client::{Answer, Request};

/// The models of a server.
#[derive(Default)]
pub(crate) struct Models {
    pub(crate) providers: Providers,
    pub(crate) outbound: Outbound,
    pub(crate) test_provider: bool,
    /// The accepted JWTs.
    pub(crate) auth: AuthOptions,
    /// The document actions that audit trails record.
    pub(crate) audited: Audited,
    pub(crate) secrets: SecretSources,
    /// The token that ends the retention of runs.
    pub(crate) expiry: Option<ExpiryToken>,
}

/// A running server, with its engine.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    pub(crate) engine: Engine,
    /// A key of tenant `acme` with every scope.
    pub(crate) key: String,
    serving: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Host {
    /// The folder of the tenants' snapshots.
    pub(crate) fn snapshots(&self) -> std::path::PathBuf {
        self.folder.path().join("snapshots")
    }

    /// The file of its store.
    pub(crate) fn store_file(&self) -> std::path::PathBuf {
        self.folder.path().join("store.db")
    }

    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::reaching(limits, Reach::Public).await
    }

    /// With this reach of webhooks.
    pub(crate) async fn reaching(limits: Limits, reach: Reach) -> Self {
        Self::with_models(limits, reach, Models::default()).await
    }

    /// With HTTP nodes that may reach these addresses of this machine.
    pub(crate) async fn asking(places: &[String]) -> Self {
        let allowed = Allowed::parse(places.iter().map(String::as_str)).unwrap();
        let models = Models {
            outbound: Outbound::new(allowed),
            ..Models::default()
        };
        Self::with_models(Limits::default(), Reach::Public, models).await
    }

    /// With models, and this reach of nodes.
    pub(crate) async fn with_models(limits: Limits, reach: Reach, models: Models) -> Self {
        Self::with_nodes(limits, reach, models, Registry::standard()).await
    }

    /// With work nodes of its own.
    pub(crate) async fn with_nodes(
        limits: Limits,
        reach: Reach,
        models: Models,
        nodes: Registry,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            access: Access::Create,
            ..Options::default()
        };
        let store = SqliteStore::open(folder.path().join("store.db"), options).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let ports = Ports {
            supervisor: supervisor(&folder),
            outbound: models.outbound,
            secrets: Arc::new(models.secrets),
            models: Arc::new(models.providers),
            keyring: Arc::new(FileKeyring::new(folder.path().join("keyring.json"))),
            workdir: folder.path().to_owned(),
            programs: Arc::default(),
        };
        let options = EngineOptions {
            poll: Duration::from_millis(50),
            authority: Some(Authority::default()),
            ..EngineOptions::default()
        };
        let engine = Engine::new(store.clone(), Arc::new(nodes), ports, options);
        for definition in definitions() {
            let document = definition.to_string();
            let by = Actor::operator();
            let door = engine.door();
            let registered = door
                .register(&shared_tenant(), document.as_bytes(), &by)
                .await;
            registered.expect("a definition");
        }
        let key = create_key(&engine, "acme", everything()).await;
        let gate = Gate::Bearer(Arc::new(Authenticator::new(store, models.auth)));
        let app = App::new(
            Api::new(engine.clone())
                .with_webhooks(Webhooks::new(reach))
                .with_test_provider(models.test_provider)
                .with_expiry(models.expiry)
                .with_document_audit(models.audited),
            gate,
            limits,
        )
        .with_snapshots(folder.path().join("snapshots"));
        let listening = Listening::at(([127, 0, 0, 1], 0).into(), app.clone());
        let listening = listening.await.unwrap();
        let address = listening.address();
        engine.start();
        server::deliver_webhooks(&app);
        runtime::access::checkpoints::keep(&engine);
        app.ready();
        Self {
            address,
            app,
            engine,
            key,
            serving: tokio::spawn(listening.serve()),
            folder,
        }
    }

    /// A key of a tenant.
    pub(crate) async fn key_of(
        &self,
        tenant: &str,
        workspace: Option<&str>,
        scopes: Scopes,
    ) -> String {
        let new = NewKey {
            workspace: workspace.map(str::to_owned),
            scopes,
            ..everything()
        };
        create_key(&self.engine, tenant, new).await
    }

    /// A key of tenant `acme` with this description.
    pub(crate) async fn key(&self, new: NewKey) -> String {
        create_key(&self.engine, "acme", new).await
    }

    /// The audit trail of tenant `acme`, oldest first.
    pub(crate) async fn trail(&self) -> Vec<Value> {
        let (store, tenant) = (self.engine.door().store(), TenantId::new("acme"));
        trail::deliver(&**store).await.expect("delivered");
        let events = trail::read(&**store, &tenant, 0, 1_000).await;
        let events = events.expect("a trail").into_iter();
        events
            .filter_map(|event| match event.body {
                kernel::audit::AuditEvent::Recorded(entry) => Some(json!(entry)),
                kernel::audit::AuditEvent::Checkpointed(_) => None,
            })
            .collect()
    }

    /// The supervisor, without files of attempts.
    pub(crate) fn supervisor(&self) -> Supervisor {
        supervisor(&self.folder)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = Request::new("GET", path).key(&self.key);
        request.send(self.address).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = Request::new("POST", path).key(&self.key).json(body);
        request.send(self.address).await
    }

    /// Creates a run and returns its id.
    pub(crate) async fn create(&self, body: &Value) -> String {
        let answer = self.post("/v1/runs", body).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        answer.json()["runId"].as_str().unwrap().to_owned()
    }

    /// Creates a run and waits for its end.
    pub(crate) async fn completed(&self, body: &Value) -> String {
        let run = self.create(body).await;
        self.engine.settled(&run.as_str().into()).await.unwrap();
        run
    }

    /// Registers workflows of tenant `acme`.
    pub(crate) async fn put(&self, definitions: &[Value]) {
        for definition in definitions {
            let answer = self.post("/v1/workflows", definition).await;
            assert!(answer.status < 300, "{}", answer.json());
        }
    }

    /// Registers a workflow of the operator, which every tenant may run.
    pub(crate) async fn offers(&self, definition: &Value) {
        let (document, by) = (definition.to_string(), Actor::operator());
        let (door, tenant) = (self.engine.door(), shared_tenant());
        let registered = door.register(&tenant, document.as_bytes(), &by).await;
        registered.expect("a definition");
    }

    /// Stores a definition of tenant `acme` as an earlier version left it, without the rules of
    /// registration.
    pub(crate) async fn has_stored(&self, definition: &Value) {
        let (door, tenant) = (self.engine.door(), TenantId::new("acme"));
        let document = kernel::json::canonical(definition);
        let digest = door.store().put_blob(&tenant, document).await;
        let text = |name: &str| definition[name].as_str().expect("a text").to_owned();
        let stored = kernel::stream::DefinitionRef {
            workflow: text("id").into(),
            version: text("version"),
            digest: digest.expect("stored"),
            put_by: Default::default(),
        };
        let by = Actor::operator();
        let put = door.put_workflow(&tenant, &stored, &by).await;
        put.expect("named");
    }

    pub(crate) async fn snapshot(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.json()
    }

    /// Waits, event by event, until a run's snapshot satisfies a condition.
    pub(crate) async fn shows(&self, run: &str, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let next = self.events(run).await.len();
            let snapshot = self.snapshot(run).await;
            if what(&snapshot) {
                return snapshot;
            }
            assert_eq!(snapshot.get("completedAt"), None, "too late: {snapshot}");
            let path = format!("/v1/runs/{run}/events/poll?lastSequence={}", next - 1);
            let news = self.get(&path).await.json();
            let events = news["events"].as_array().map(Vec::len);
            assert_ne!(events, Some(0), "nothing happens any more: {snapshot}");
        }
    }

    /// Answers the oldest question of a run, whichever node asks it.
    pub(crate) async fn settle(&self, run: &str, value: Value) {
        let snapshot = self.snapshot(run).await;
        let node = snapshot["interrupt"]["nodeId"].as_str();
        let answer = self.answer(run, node.expect("a question"), value).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
    }

    /// Drains, and waits until serving has ended.
    pub(crate) async fn stop(self) {
        self.app.drain();
        self.serving.await.unwrap();
        self.engine.drain(Duration::from_secs(5)).await;
    }
}

fn supervisor(folder: &tempfile::TempDir) -> Supervisor {
    Supervisor {
        program: std::env::current_exe().unwrap(),
        dir: folder.path().join("attempts"),
    }
}

/// A key with every scope, without groups and roles.
pub(crate) fn everything() -> NewKey {
    NewKey {
        principal: Some("somebody".into()),
        workspace: None,
        scopes: Scopes::Everything,
        groups: BTreeSet::new(),
        roles: BTreeSet::new(),
        name: None,
        expires_at: None,
    }
}

async fn create_key(engine: &Engine, tenant: &str, new: NewKey) -> String {
    let keys = ApiKeys::new(engine.door().clone());
    let by = Actor::operator();
    let issued = keys.create(&TenantId::new(tenant), new, &by).await;
    issued.expect("a key").token.reveal().to_owned()
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {},
    })
}

/// A definition of nodes in sequence.
pub(crate) fn chain(id: &str, nodes: &[Value]) -> Value {
    let pairs = nodes.windows(2).enumerate().map(|(n, pair)| {
        json!({
            "id": format!("e{n}"),
            "sourceNodeId": pair[0]["id"], "targetNodeId": pair[1]["id"],
        })
    });
    json!({
        "id": id, "name": id, "version": "1.0.0", "nodes": nodes,
        "edges": pairs.collect::<Vec<_>>(),
        "triggers": [{ "id": "t", "type": "manual", "name": "t", "config": {}, "enabled": true }],
        "variables": [], "metadata": {}, "settings": {},
    })
}

/// The workflows of the tests.
fn definitions() -> Vec<Value> {
    let three = [
        node("a", "core.noop", json!({})),
        node("b", "core.noop", json!({})),
        node("c", "core.noop", json!({})),
    ];
    let mut greets = chain("greets", &three[..1]);
    greets["variables"] = json!([{ "name": "who", "type": "string", "required": true }]);
    let mut closed = chain("closed", &three[..1]);
    closed["configurableSchema"] = json!({
        "type": "object", "additionalProperties": false,
        "properties": { "recursionLimit": { "type": "integer", "minimum": 1 } },
    });
    vec![
        chain("three", &three),
        chain(
            "waits",
            &[node("wait", "core.delay", json!({ "delayMs": 3_600_000 }))],
        ),
        chain(
            "fails",
            &[node(
                "fail",
                "core.fail",
                json!({ "message": "as it should" }),
            )],
        ),
        chain("unknown", &[node("odd", "acme.unheard-of", json!({}))]),
        greets,
        closed,
    ]
}
