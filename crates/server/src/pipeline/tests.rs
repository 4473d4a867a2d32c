use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::{Method, Request};
use runtime::access::Action;
use runtime::api::Api;
use runtime::keyring::FileKeyring;
use runtime::nodes::{Ports, Registry};
use runtime::outbound::Outbound;
use runtime::secrets::SecretSources;
use runtime::supervisor::Supervisor;
use runtime::{Engine, EngineOptions};
use serde_json::Value;
use store::SystemClock;
use store::memory::MemoryStore;
use tower::ServiceExt as _;
use tracing_subscriber::fmt::MakeWriter;

use crate::app::{App, router};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::{Gate, Limits};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn panics(cx: Cx) -> Result<Reply, Problem> {
    panic!("of {}", cx.param("runId"));
}

async fn answers(_: Cx) -> Result<Reply, Problem> {
    Ok(Reply::ok(&serde_json::json!({})))
}

fn app(limits: Limits) -> App {
    let nowhere = std::path::PathBuf::from("nowhere");
    let ports = Ports {
        supervisor: Supervisor {
            program: nowhere.clone(),
            dir: nowhere.clone(),
        },
        outbound: Outbound::default(),
        secrets: Arc::new(SecretSources::none()),
        models: Default::default(),
        keyring: Arc::new(FileKeyring::new(nowhere.join("keyring.json"))),
        workdir: nowhere,
        programs: Arc::default(),
    };
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let nodes = Arc::new(Registry::standard());
    let engine = Engine::new(store, nodes, ports, EngineOptions::default());
    let gate = Gate::open_to("acme".into());
    App::new(Api::new(engine), gate, limits)
}

fn route<F, A>(handler: F) -> Route
where
    F: Fn(Cx) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    let doc = Doc {
        operation: "panics",
        summary: "panics",
        parameters: &[],
        request: None,
        responses: &[],
    };
    let access = Access::May(Action::ReadRun);
    Route::new(Method::GET, "/v1/runs/{runId}", access, handler, doc)
}

/// Calls the only route; returns the response and the server's log lines.
async fn ask(route: Route, limits: Limits) -> (Response, Vec<Value>) {
    let lines = Lines::default();
    let reports = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    let listening = tracing::subscriber::set_default(reports);
    let request = Request::get("/v1/runs/canary-of-address?query=canary-of-query")
        .header("host", "localhost")
        .header("authorization", "Bearer canary-of-token")
        .header("x-request-id", "request-0001")
        .header("traceparent", TRACE)
        .body(Body::empty())
        .expect("a request");
    let answer = router(app(limits), vec![route]).oneshot(request).await;
    drop(listening);
    let text = String::from_utf8(lines.0.lock().expect("nobody panicked").clone());
    let text = text.expect("text");
    assert!(!text.contains("canary"), "{text}");
    let lines = text.lines();
    let lines = lines.map(|line| serde_json::from_str(line).expect("each line is an object"));
    (answer.expect("an answer"), lines.collect())
}

/// The line of a log with a message.
fn line_of(lines: &[Value], message: &str) -> Value {
    let found = lines
        .iter()
        .find(|line| line["fields"]["message"] == message);
    found.expect("the line").clone()
}

/// Lines of a log, as a server writes them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_panicking_handler_gets_an_envelope_and_logs_no_secrets() {
    let (answer, lines) = ask(route(panics), Limits::default()).await;
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.headers()["x-request-id"], "request-0001");
    assert_eq!(answer.headers()["traceparent"], TRACE);
    let body = answer.into_body().collect().await.expect("a body");
    let envelope: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
    let object = envelope.as_object().expect("an object");
    assert_eq!(object.len(), 3, "error, message and details: {envelope}");
    assert_eq!(envelope["error"], "internal_error");
    assert_eq!(envelope["details"]["correlationId"], "request-0001");

    assert_eq!(line_of(&lines, "answered")["level"], "WARN");
    let fields = |message: &str| line_of(&lines, message)["fields"].clone();
    assert_eq!(fields("a handler panicked")["request_id"], "request-0001");
    let answered = fields("answered");
    for (name, value) in [
        ("request_id", "request-0001"),
        ("traceparent", TRACE),
        ("method", "GET"),
        ("route", "/v1/runs/{runId}"),
        ("tenant", "acme"),
    ] {
        assert_eq!(answered[name], value, "{name}");
    }
    assert_eq!(answered["status"], 500);
}

#[tokio::test]
async fn a_slow_answer_is_a_warning_and_a_held_one_is_not() {
    let level = async |route: Route, limits: Limits| {
        let (_, lines) = ask(route, limits).await;
        line_of(&lines, "answered")["level"].clone()
    };
    let slow = || Limits {
        slow_answer: Duration::ZERO,
        ..Limits::default()
    };
    assert_eq!(level(route(answers), Limits::default()).await, "DEBUG");
    assert_eq!(level(route(answers), slow()).await, "WARN");
    assert_eq!(level(route(answers).held(), slow()).await, "DEBUG");
}
