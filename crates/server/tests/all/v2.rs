//! OpenWOP 2 next to 1: the same runs, by the addresses and in the shapes of version 2.

use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::client::{Answer, Request};
use crate::gates::signoff;
use crate::host::{Host, everything};
use crate::receiver::Receiver;

/// The fields of the closed envelope of an event.
const EVENT: [&str; 10] = [
    "eventId",
    "runId",
    "type",
    "payload",
    "timestamp",
    "sequence",
    "schemaVersion",
    "nodeId",
    "engineVersion",
    "causationId",
];
/// The fields of the closed snapshot.
const SNAPSHOT: [&str; 23] = [
    "runId",
    "workflowId",
    "status",
    "compensationStatus",
    "owner",
    "currentNodeId",
    "startedAt",
    "completedAt",
    "agent",
    "runOrchestrator",
    "nodeStates",
    "variables",
    "channels",
    "error",
    "engineVersion",
    "eventLogSchemaVersion",
    "tags",
    "metadata",
    "configurable",
    "metrics",
    "parentRunId",
    "inputs",
    "extensions",
];
/// A key that cannot be guessed.
pub(crate) const KEY: &str = "3f0c6c1e-9a3b-4f0e-8d51-6f4c1f6b2a77";

/// Whether a path of the table of routes is one of OpenWOP 2.
pub(crate) fn is_v2(path: &str) -> bool {
    let others = [
        "/v1/",
        "/api/",
        "/console",
        "/.well-known/",
        "/healthz",
        "/readyz",
        "/metrics",
    ];
    !others.iter().any(|other| path.starts_with(other))
}

pub(crate) async fn ask(host: &Host, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let request = Request::new(method, path)
        .key(&host.key)
        .header("openwop-version", "2");
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let answer = request.send(host.address).await;
    assert_eq!(answer.header("openwop-version"), Some("2.0"), "{path}");
    answer
}

pub(crate) async fn get(host: &Host, path: &str) -> Answer {
    ask(host, "GET", path, None).await
}

pub(crate) async fn post(host: &Host, path: &str, body: &Value) -> Answer {
    ask(host, "POST", path, Some(body)).await
}

/// An id of tenant `acme` in an address.
pub(crate) fn at(run: &str) -> String {
    let id = run.strip_prefix("acme/").unwrap_or(run);
    format!("/runs/acme~2F{id}")
}

/// Creates a run and answers its v2 id.
pub(crate) async fn create(host: &Host, body: &Value) -> String {
    let answer = post(host, "/runs", body).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()["runId"].as_str().unwrap().to_owned()
}

async fn settled(host: &Host, run: &str) {
    let id = run.strip_prefix("acme/").unwrap();
    host.engine.settled(&id.into()).await.unwrap();
}

async fn events(host: &Host, run: &str) -> Vec<Value> {
    let page = get(host, &format!("{}/events/poll?timeout=1", at(run))).await;
    let page = page.json();
    let names: Vec<&str> = page
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for name in names {
        assert!(
            ["runId", "events", "lastSequence", "status", "isTerminal"].contains(&name),
            "{name}"
        );
    }
    let events = page["events"].as_array().unwrap().clone();
    events.iter().for_each(check_event);
    events
}

pub(crate) fn check_event(event: &Value) {
    for name in event.as_object().unwrap().keys() {
        assert!(EVENT.contains(&name.as_str()), "{name}: {event:#}");
    }
    let run = event["runId"].as_str().unwrap();
    assert!(
        ["acme/run-", "acme/doc-"]
            .iter()
            .any(|start| run.starts_with(start)),
        "{run}"
    );
    assert!(event["schemaVersion"].is_u64() && event["engineVersion"].is_u64());
    let kind = event["type"].as_str().unwrap();
    let parts: Vec<&str> = kind.split('.').collect();
    let most = if kind.starts_with("runwright.") { 3 } else { 2 };
    assert!((2..=most).contains(&parts.len()), "{kind}");
    assert!(
        !kind.contains(char::is_uppercase) && !kind.contains('_'),
        "{kind}"
    );
}

fn check_snapshot(snapshot: &Value) {
    for name in snapshot.as_object().unwrap().keys() {
        assert!(SNAPSHOT.contains(&name.as_str()), "{name}: {snapshot:#}");
    }
    let subject = &snapshot["owner"]["subject"];
    for name in ["issuer", "subjectId", "tenant", "lane", "kind"] {
        assert!(subject[name].is_string(), "{name}: {snapshot:#}");
    }
    assert_eq!(snapshot["owner"].get("principal"), None);
    assert_eq!(snapshot["eventLogSchemaVersion"], 3);
    assert!(snapshot["engineVersion"].is_u64(), "{snapshot:#}");
}

#[tokio::test]
async fn the_header_selects_the_version() {
    let host = Host::new().await;
    let ask = |path: &str, version: Option<&str>| {
        let request = Request::new("GET", path).key(&host.key);
        let request = match version {
            Some(version) => request.header("openwop-version", version),
            None => request,
        };
        request.send(host.address)
    };
    let unversioned = ask("/runs", None).await;
    assert_eq!(unversioned.status, 200);
    assert_eq!(unversioned.header("openwop-version"), Some("2.0"));
    let older = ask("/runs", Some("1")).await;
    assert_eq!(older.refusal(400), "validation_error");
    let unknown = ask("/runs", Some("3.0")).await;
    assert_eq!(unknown.refusal(406), "protocol_version_unsupported");
    let served = &unknown.json()["details"]["protocolVersions"];
    assert_eq!(served, &json!(["1.0", "2.0"]));
    let mixed = ask("/v1/runs", Some("2.0")).await;
    assert_eq!(mixed.refusal(400), "protocol_version_mismatch");
    assert_eq!(mixed.header("openwop-version"), Some("1.0"));
    assert_eq!(ask("/v1/runs", Some("1")).await.status, 200);
    assert_eq!(ask("/runs", Some("2.7")).await.status, 200);
    let nothing = ask("/prompts", Some("2")).await;
    assert_eq!(nothing.refusal(404), "not_found");
    assert_eq!(
        ask("/healthz", Some("2")).await.header("openwop-version"),
        None
    );
}

#[tokio::test]
async fn discovery_has_a_document_for_each_version() {
    let host = Host::new().await;
    let older = host.get("/.well-known/openwop").await;
    let newer = get(&host, "/.well-known/openwop").await;
    for document in [older.json(), newer.json()] {
        assert_eq!(document["protocolVersions"], json!(["1.0", "2.0"]));
        assert_eq!(document["preferredVersion"], "1.0");
    }
    assert_eq!(older.header("openwop-version"), Some("1.0"));
    let root = newer.json();
    // The root is closed: it has no such keys.
    for gone in [
        "capabilities",
        "supportedTransports",
        "profiles",
        "dispatch",
    ] {
        assert_eq!(root.get(gone), None);
    }
    for family in [
        "limits",
        "runList",
        "eventLog",
        "replay",
        "interrupt",
        "webhooks",
        "feedback",
        "auth",
        "agents",
        "multiAgent",
        "envelopes",
        "supportedEnvelopes",
    ] {
        let record = &root[family];
        assert!(
            record["since"].is_string() && record["witness"].is_string(),
            "{family}"
        );
        assert_eq!(record.get("supported"), None, "{family}");
        let is_stable = record["status"] == "stable";
        assert_eq!(is_stable, record.get("until").is_none(), "{family}");
    }
    assert!(!root.to_string().contains("\"supported\":"), "{root:#}");
    let tag = newer.header("etag").unwrap();
    assert_ne!(Some(tag), older.header("etag"));
    let request = Request::new("GET", "/.well-known/openwop")
        .header("openwop-version", "2")
        .header("if-none-match", tag);
    assert_eq!(request.send(host.address).await.status, 304);
    let openapi = get(&host, "/openapi.json").await.json();
    assert!(openapi["paths"]["/runs/{runId}:fork"]["post"].is_object());
    assert_eq!(openapi["paths"].get("/v1/runs"), None);
}

#[tokio::test]
async fn a_run_is_the_same_in_both_versions() {
    let host = Host::new().await;
    let order = json!({
        "workflowId": "three", "tags": ["t"],
        "configurable": { "version": 1, "run": { "recursionLimit": 50 } },
    });
    let created = post(&host, "/runs", &order).await.json();
    let run = created["runId"].as_str().unwrap().to_owned();
    assert_eq!(created["eventsUrl"], format!("{}/events", at(&run)));
    assert_eq!(created["statusUrl"], at(&run));
    settled(&host, &run).await;
    let snapshot = get(&host, &at(&run)).await;
    let tag = snapshot.header("etag").unwrap().to_owned();
    let snapshot = snapshot.json();
    check_snapshot(&snapshot);
    assert_eq!(snapshot["runId"], run);
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(
        snapshot["configurable"],
        json!({ "version": 1, "run": { "recursionLimit": 50 } })
    );
    assert_eq!(snapshot["owner"]["subject"]["lane"], "api-key");
    let again = Request::new("GET", &at(&run))
        .key(&host.key)
        .header("openwop-version", "2")
        .header("if-none-match", &tag);
    assert_eq!(again.send(host.address).await.status, 304);

    let shown = events(&host, &run).await;
    let id = run.strip_prefix("acme/").unwrap();
    let older = host.events(id).await;
    assert_eq!(shown.len(), older.len());
    for (newer, older) in shown.iter().zip(&older) {
        assert_eq!(newer["eventId"], older["eventId"]);
        assert_eq!(newer["sequence"], older["sequence"]);
    }
    let started = &shown[0]["payload"];
    assert_eq!(started["owner"], snapshot["owner"]);
    assert!(started["engineVersion"].is_u64() && started.get("configurable").is_none());
    let node = shown.iter().find(|event| event["type"] == "node.started");
    let node = node.unwrap()["payload"].as_object().unwrap();
    assert_eq!(
        node.keys().collect::<Vec<_>>(),
        [
            "attempt",
            "nodeId",
            "typeId",
            "x-runwright-inputs",
            "x-runwright-visit"
        ]
    );
    // The v1 id is a v2 id as well, while both are served.
    assert_eq!(get(&host, &format!("/runs/{id}")).await.json(), snapshot);
    let page = get(&host, &format!("{}/events/poll?afterSequence=99", at(&run)))
        .await
        .json();
    assert_eq!(page["events"], json!([]));
    assert_eq!(page["lastSequence"], older.len() - 1);
    assert_eq!(page["isTerminal"], true);
}

#[tokio::test]
async fn ids_are_read_once_and_for_their_tenant() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    let id = run.strip_prefix("acme/").unwrap();
    assert_eq!(get(&host, &format!("/runs/acme%2F{id}")).await.status, 200);
    let foreign = get(&host, &format!("/runs/umbrella~2F{id}")).await;
    assert_eq!(foreign.refusal(403), "id_tenant_mismatch");
    let malformed = get(&host, "/runs/acme~2").await;
    assert_eq!(malformed.refusal(400), "validation_error");
    let twice = get(&host, &format!("/runs/acme~7E2F{id}")).await;
    assert_eq!(twice.refusal(404), "not_found");
    let missing = get(&host, "/runs/acme~2Frun-none").await;
    assert_eq!(missing.refusal(404), "not_found");
    let unknown = post(&host, "/runs", &json!({ "workflowId": "none" })).await;
    assert_eq!(unknown.refusal(404), "not_found");
    let stranger = host.key_of("umbrella", None, everything().scopes).await;
    let request = Request::new("GET", &at(&run))
        .key(&stranger)
        .header("openwop-version", "2");
    assert_eq!(
        request.send(host.address).await.refusal(403),
        "id_tenant_mismatch"
    );
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_cancelled_once() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "waits" })).await;
    let at = at(&run);
    let paused = post(
        &host,
        &format!("{at}:pause"),
        &json!({ "drainPolicy": "immediate" }),
    )
    .await;
    assert_eq!(paused.status, 202, "{}", paused.json());
    assert_eq!(paused.json()["runId"], run);
    let again = post(&host, &format!("{at}:pause"), &json!({})).await;
    assert_eq!(again.refusal(409), "run_state_conflict");
    assert_eq!(again.json()["details"]["runStatus"], "paused");
    let resumed = post(&host, &format!("{at}:resume"), &json!({})).await;
    assert_eq!(resumed.json()["status"], "running");
    let odd = post(&host, &format!("{at}/cancel"), &json!({ "because": "x" })).await;
    assert_eq!(odd.refusal(400), "validation_error");
    let cancelled = post(
        &host,
        &format!("{at}/cancel"),
        &json!({ "reason": "enough" }),
    )
    .await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.json());
    settled(&host, &run).await;
    let again = post(&host, &format!("{at}/cancel"), &json!({})).await;
    assert_eq!(again.refusal(409), "run_terminal");
    let other = create(&host, &json!({ "workflowId": "waits" })).await;
    let ids = json!({ "runIds": [other, run, "umbrella/run-0000000000000000", "acme/run-none"] });
    let results = post(&host, "/runs:bulk-cancel", &ids).await.json();
    let told: Vec<Value> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            one.get("error")
                .map_or(json!(true), |error| error["error"].clone())
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(true),
            json!("run_terminal"),
            json!("id_tenant_mismatch"),
            json!("not_found")
        ]
    );
    let many = json!({ "runIds": vec!["acme/run-none"; 101] });
    let many = post(&host, "/runs:bulk-cancel", &many).await;
    assert_eq!(many.refusal(400), "validation_error");
    assert_eq!(many.json()["details"]["maxRunIds"], 100);
}

#[tokio::test]
async fn forks_name_their_source_as_parent() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    settled(&host, &run).await;
    let order = json!({
        "mode": "branch", "fromSeq": 3,
        "runOptionsOverlay": { "configurable": { "version": 1, "ai": { "model": "m" } } },
    });
    let forked = post(&host, &format!("{}:fork", at(&run)), &order).await;
    assert_eq!(forked.status, 201, "{}", forked.json());
    let forked = forked.json();
    assert_eq!(forked["sourceRunId"], run);
    let branch = forked["runId"].as_str().unwrap().to_owned();
    settled(&host, &branch).await;
    let snapshot = get(&host, &at(&branch)).await.json();
    check_snapshot(&snapshot);
    assert_eq!(snapshot["parentRunId"], run);
    assert_eq!(snapshot["configurable"]["ai"]["model"], "m");
    let beyond = json!({ "mode": "branch", "fromSeq": 99 });
    let beyond = post(&host, &format!("{}:fork", at(&run)), &beyond).await;
    assert_eq!(beyond.refusal(422), "fork_point_invalid");
    let replay = json!({ "mode": "replay", "fromSeq": 0 });
    let replay = post(&host, &format!("{}:fork", at(&run)), &replay)
        .await
        .json();
    let replay = replay["runId"].as_str().unwrap();
    let against = format!(
        "{}:diff?against=acme~2F{}",
        at(&run),
        &replay["acme/".len()..]
    );
    let diff = get(&host, &against).await.json();
    assert_eq!((&diff["a"], &diff["b"]), (&json!(run), &json!(replay)));
    assert_eq!(diff["eventDiffs"], json!([]));
    let bound = format!("{}:diff?against={replay}", at(&run));
    assert_eq!(get(&host, &bound).await.json(), diff);
    let ancestry = get(&host, &format!("{}/ancestry", at(&run))).await.json();
    assert_eq!(
        (&ancestry["runId"], &ancestry["parent"]),
        (&json!(run), &Value::Null)
    );
}

#[tokio::test]
async fn questions_are_answered_by_node_and_by_token() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let run = create(&host, &json!({ "workflowId": "signoff" })).await;
    let id = run.strip_prefix("acme/").unwrap();
    host.until(id, |status| status == "waiting-approval").await;
    let snapshot = get(&host, &at(&run)).await.json();
    check_snapshot(&snapshot);
    let open = &snapshot["extensions"]["runwright.run"]["interrupts"][0];
    let node = open["nodeId"].as_str().unwrap();
    assert!(
        open["interruptId"].as_str().unwrap().starts_with("acme/"),
        "{open}"
    );
    let callback = open["callbackUrl"].as_str().unwrap();
    assert!(callback.starts_with("/interrupts/ow2.hs256."), "{callback}");
    let older = host.get(&format!("/v1/runs/{id}")).await.json();
    let older = older["interrupt"]["interruptToken"].as_str().unwrap();
    let same = get(&host, &format!("/interrupts/{older}")).await;
    assert_eq!(same.status, 200, "{}", same.json());
    let question = get(&host, callback).await.json();
    let names: Vec<&String> = question.as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| {
        ["kind", "key", "data", "resumeSchema", "timeoutMs"].contains(&name.as_str())
    }));
    let forged = get(&host, "/interrupts/nothing").await;
    assert_eq!(forged.refusal(401), "interrupt_token_invalid");
    let algorithm = callback.replacen("hs256", "hs512", 1);
    let algorithm = get(&host, &algorithm).await;
    assert_eq!(algorithm.refusal(401), "interrupt_token_invalid");
    let wrong = json!({ "resumeValue": { "action": "explode" } });
    let address = format!("{}/interrupts/{node}", at(&run));
    assert_eq!(
        post(&host, &address, &wrong).await.refusal(400),
        "validation_error"
    );
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let answered = post(&host, callback, &accept).await;
    assert_eq!(answered.status, 200, "{}", answered.json());
    assert_eq!(answered.json()["runId"], run);
    settled(&host, &run).await;
    let again = post(&host, &address, &accept).await;
    assert_eq!(again.refusal(409), "interrupt_already_resolved");
    let shown = events(&host, &run).await;
    let of = |kind: &str| {
        let found = shown.iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind}"))["payload"].clone()
    };
    let asked = of("approval.requested");
    assert_eq!(asked["kind"], "approval");
    assert!(asked["key"].is_string() && asked["data"]["actions"].is_array());
    let resolved = of("interrupt.resolved");
    assert_eq!(resolved["decision"], "granted");
    assert!(
        resolved["resolvedBy"]["subjectId"].is_string(),
        "{resolved}"
    );
    assert_eq!(resolved["interruptId"], of("node.suspended")["interruptId"]);
}

#[tokio::test]
async fn streams_are_framed_as_version_2_has_them() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    settled(&host, &run).await;
    let frames = async |query: &str, last: Option<&str>| -> Vec<(String, Value)> {
        let path = format!("{}/events{query}", at(&run));
        let mut request = Request::new("GET", &path)
            .key(&host.key)
            .header("openwop-version", "2")
            .header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send(host.address).await;
        assert_eq!(answer.status, 200, "{query}");
        let text = String::from_utf8(answer.body).unwrap();
        let frames = text.split("\n\n").filter(|frame| frame.contains("data: "));
        frames
            .map(|frame| {
                let line = |name: &str| {
                    let found = frame.lines().find_map(|line| line.strip_prefix(name));
                    found.unwrap_or_default().to_owned()
                };
                (
                    line("event: "),
                    serde_json::from_str(&line("data: ")).unwrap(),
                )
            })
            .collect()
    };
    let single = frames("?resumable=true", None).await;
    for (name, event) in &single {
        check_event(event);
        assert_eq!(event["type"], name.as_str());
    }
    assert_eq!(single.last().unwrap().0, "run.completed");
    let raw = async |query: &str| {
        let path = format!("{}/events?{query}", at(&run));
        let request = Request::new("GET", &path).key(&host.key);
        request
            .header("accept", "text/event-stream")
            .send(host.address)
            .await
    };
    let resumable = String::from_utf8(raw("resumable=true").await.body).unwrap();
    assert!(
        resumable.starts_with("retry: 1000\n\nid: 0\n"),
        "{resumable}"
    );
    let plain = String::from_utf8(raw("resumable=false").await.body).unwrap();
    assert!(plain.starts_with("id: 0\n"), "{plain}");
    assert_eq!(raw("resumable=1").await.refusal(400), "validation_error");
    let mixed = frames("?streamMode=updates,debug", None).await;
    assert!(
        mixed
            .iter()
            .all(|(name, _)| name == "updates" || name == "debug")
    );
    assert_eq!(mixed.len(), events(&host, &run).await.len());
    let values = frames("?streamMode=values", None).await;
    for (name, snapshot) in &values {
        assert_eq!(name, "state.snapshot");
        check_snapshot(snapshot);
    }
    let rest = frames("?streamMode=debug", Some("5")).await;
    assert_eq!(rest[0].1["sequence"], 6);
    let batch = frames("?streamMode=debug&bufferMs=100", None).await;
    assert_eq!(batch[0].0, "batch");
    batch[0].1.as_array().unwrap().iter().for_each(check_event);
    let progress = get(&host, &format!("{}/events?streamMode=progress", at(&run))).await;
    assert_eq!(progress.refusal(400), "unsupported_stream_mode");
    let supported = &progress.json()["details"]["supported"];
    assert_eq!(
        supported,
        &json!(["updates", "values", "messages", "debug"])
    );
}

#[tokio::test]
async fn keys_follow_the_grammar_of_their_version() {
    let host = Host::new().await;
    let keyed = |key: &'static str| {
        let request = Request::new("POST", "/runs")
            .key(&host.key)
            .header("openwop-version", "2")
            .header("idempotency-key", key)
            .json(&json!({ "workflowId": "three" }));
        request.send(host.address)
    };
    assert_eq!(keyed("short").await.refusal(400), "idempotency_key_invalid");
    let first = keyed(KEY).await;
    assert_eq!(first.header("openwop-idempotent-replay"), Some("false"));
    let again = keyed(KEY).await;
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(first.json(), again.json());
    let run = create(&host, &json!({ "workflowId": "waits" })).await;
    let cancel = || {
        let request = Request::new("POST", &format!("{}/cancel", at(&run)))
            .key(&host.key)
            .header("openwop-version", "2")
            .header("idempotency-key", KEY)
            .json(&json!({}));
        request.send(host.address)
    };
    let (first, again) = (cancel().await, cancel().await);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.json(), again.json());
}

#[tokio::test]
async fn lists_are_pages_of_snapshots() {
    let host = Host::new().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = create(&host, &json!({ "workflowId": "three" })).await;
        settled(&host, &run).await;
        runs.insert(0, run);
    }
    let page = get(&host, "/runs?limit=2&status=completed").await.json();
    let listed = page["runs"].as_array().unwrap();
    listed.iter().for_each(check_snapshot);
    let ids: Vec<&Value> = listed.iter().map(|run| &run["runId"]).collect();
    assert_eq!(ids, [&json!(runs[0]), &json!(runs[1])]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = get(&host, &format!("/runs?limit=2&cursor={cursor}"))
        .await
        .json();
    assert_eq!(rest["runs"][0]["runId"], runs[2]);
    assert_eq!(rest.get("nextCursor"), None);
    assert_eq!(
        get(&host, "/runs?cursor=forged").await.refusal(400),
        "validation_error"
    );
    assert_eq!(
        get(&host, "/runs?limit=101").await.refusal(400),
        "validation_error"
    );
}

#[tokio::test]
async fn options_that_are_not_served_are_refused_by_name() {
    let host = Host::new().await;
    let order = |more: Value| {
        let mut order = json!({ "workflowId": "three" });
        order
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        order
    };
    for (more, status, code, field) in [
        (
            json!({ "residency": { "region": "eu" } }),
            422,
            "residency_unavailable",
            "residency",
        ),
        (
            json!({ "configurable": { "recursionLimit": 5 } }),
            400,
            "validation_error",
            "configurable.version",
        ),
        (
            json!({ "configurable": { "version": 1, "ai": { "maxRefusals": 1 } } }),
            400,
            "validation_error",
            "configurable.ai.maxRefusals",
        ),
    ] {
        let answer = post(&host, "/runs", &order(more.clone())).await;
        assert_eq!(answer.refusal(status), code, "{more}");
        assert_eq!(answer.json()["details"]["field"], field, "{more}");
    }
    let unknown = post(&host, "/runs", &order(json!({ "evalModes": [] }))).await;
    assert_eq!(unknown.refusal(400), "validation_error");
    let eval = post(&host, "/runs", &json!({ "mode": "eval", "agentId": "a" })).await;
    assert_eq!(eval.refusal(422), "capability_not_provided");
}

#[tokio::test]
async fn deliveries_keep_the_contract_of_their_webhook() {
    let host = Host::reaching(Limits::default(), Reach::Private).await;
    let (older, newer) = (Receiver::new().await, Receiver::new().await);
    let order = json!({ "url": older.url(), "events": ["run.completed"] });
    assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    let order = json!({ "url": newer.url(), "events": ["run.completed", "run.dead-lettered"] });
    let made = post(&host, "/webhooks", &order).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let made = made.json();
    let id = made["subscriptionId"].as_str().unwrap();
    assert!(id.starts_with("acme/wh_") && id.len() > 20, "{id}");
    assert_eq!(
        made["events"],
        json!(["run.completed", "run.dead-lettered"])
    );
    assert!(made["secret"].is_string() && made["createdAt"].is_string());
    let odd = json!({ "url": newer.url(), "events": ["run.dead_lettered"] });
    let odd = post(&host, "/webhooks", &odd).await;
    assert_eq!(odd.refusal(400), "validation_error");
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    settled(&host, &run).await;
    let plain = run.strip_prefix("acme/").unwrap();
    let first = older.next().await;
    assert_eq!(first.json()["runId"], plain);
    assert_eq!(first.json()["event"]["runId"], plain);
    let second = newer.next().await;
    let body = second.json();
    check_event(&body["event"]);
    assert_eq!(
        (&body["runId"], &body["event"]["runId"]),
        (&json!(run), &json!(run))
    );
    assert_eq!(body.get("workspaceId"), None);
    assert_eq!(second.header("openwop-webhook-id"), id);
    for received in [&first, &second] {
        for name in [
            "webhook-id",
            "event-type",
            "timestamp",
            "signature",
            "signature-algorithm",
        ] {
            let value = received.header(&format!("openwop-{name}"));
            assert_eq!(
                value,
                received.header(&format!("x-openwop-{name}")),
                "{name}"
            );
            assert!(!value.is_empty(), "{name}");
        }
    }
    let at = format!("/webhooks/acme~2F{}", id.strip_prefix("acme/").unwrap());
    let dead = get(&host, &format!("{at}/dead-letters")).await;
    assert_eq!(dead.json(), json!({ "deliveries": [] }));
    let forged = get(&host, &format!("{at}/dead-letters?cursor=x")).await;
    assert_eq!(forged.refusal(400), "validation_error");
    let foreign = ask(&host, "DELETE", &at.replacen("acme", "umbrella", 1), None).await;
    assert_eq!(foreign.refusal(403), "id_tenant_mismatch");
    assert_eq!(ask(&host, "DELETE", &at, None).await.status, 204);
    assert_eq!(
        ask(&host, "DELETE", &at, None).await.refusal(404),
        "not_found"
    );
    host.stop().await;
}

#[tokio::test]
async fn effect_seams_are_all_guarded() {
    let host = Host::new().await;
    let manifest = get(&host, "/host/effect-seams").await.json();
    assert_eq!(manifest["manifestVersion"], "1");
    assert_eq!(manifest["host"]["build"]["id"].as_str().unwrap().len(), 64);
    let seams = manifest["seams"].as_array().unwrap();
    assert!(!seams.is_empty());
    assert!(seams.iter().all(|seam| seam["guarded"] == true));
    let is_named = |seam: &Value| seam["kind"] != "other" || seam["note"].is_string();
    assert!(seams.iter().all(is_named), "{seams:#?}");
}

#[tokio::test]
async fn annotations_name_their_run_with_its_tenant() {
    let host = Host::new().await;
    let run = create(&host, &json!({ "workflowId": "three" })).await;
    settled(&host, &run).await;
    let path = format!("{}/annotations", at(&run));
    let said = json!({ "signal": { "kind": "flag" }, "target": { "runId": run, "nodeId": "a" } });
    let made = post(&host, &path, &said).await;
    assert_eq!(made.status, 201, "{}", made.json());
    assert_eq!(made.json()["target"]["runId"], run);
    let listed = get(&host, &path).await.json();
    assert_eq!(listed["annotations"][0], made.json());
    let stranger = Request::new("GET", &path).header("openwop-version", "2");
    let refused = stranger.send(host.address).await;
    assert_eq!(refused.refusal(401), "unauthenticated");
    let trail = get(&host, "/audit/verify?fromSeq=0&toSeq=3").await;
    assert_eq!(trail.status, 200, "{}", trail.json());
    let bounds = get(&host, "/audit/verify?fromSeq=0").await;
    assert_eq!(bounds.refusal(400), "validation_error");
    let workflow = get(&host, "/workflows/three").await;
    assert_eq!(workflow.json()["id"], "three");
}
