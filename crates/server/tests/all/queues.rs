//! Queues over HTTP: the requests of workers, the state of a queue, and its events.

use serde_json::{Value, json};

use crate::client::{Answer, Conn, Request};
use crate::host::Host;

const QUEUE: &str = "/v1/coordinator/render";

async fn host() -> Host {
    let host = Host::new().await;
    let node = json!({
        "id": "w", "typeId": "runwright.worker", "name": "w", "position": { "x": 0, "y": 0 },
        "config": { "queue": "render", "repeat": "repeatable" },
        "inputs": { "page": { "type": "expression", "expression": "1 + 2" } },
    });
    let mut workflow = crate::host::chain("renders", &[]);
    workflow["nodes"] = json!([node]);
    workflow["edges"] = json!([]);
    host.put(&[workflow]).await;
    host
}

async fn take(host: &Host, worker: &str) -> Value {
    let body = json!({ "worker": worker, "wait_ms": 20_000 });
    let answer = host.post(&format!("{QUEUE}/take"), &body).await;
    assert_eq!(answer.status, 200);
    answer.json()
}

async fn say(host: &Host, taken: &Value, what: &str, mut body: Value) -> Answer {
    let id = taken["assignment_id"].as_str().unwrap();
    body["fence"] = taken["fence"].clone();
    host.post(&format!("{QUEUE}/assignments/{id}/{what}"), &body)
        .await
}

#[tokio::test]
async fn a_worker_takes_a_task_and_its_result_ends_the_run() {
    let host = host().await;
    let run = host.create(&json!({ "workflowId": "renders" })).await;
    let answer = take(&host, "w-1").await;
    assert_eq!(answer["ready"], true, "{answer}");
    let taken = answer["assignments"][0].clone();
    assert_eq!(taken["task"], json!({ "page": 3 }));
    assert_eq!(taken["run"]["run_id"], run.as_str());
    assert_eq!(taken["run"]["node_id"], "w");
    assert_eq!(
        (&taken["fence"], &taken["worker"]),
        (&json!(1), &json!("w-1"))
    );
    assert_eq!(taken["heartbeat_ms"], 800);

    let heartbeat = say(&host, &taken, "heartbeat", json!({})).await;
    assert_eq!(heartbeat.json(), json!({ "expires_in_ms": 30_000 }));
    let blocked = json!({ "blocked_on": "user", "reason": "which printer?" });
    assert_eq!(say(&host, &taken, "heartbeat", blocked).await.status, 200);
    let output = json!({ "stream": "stdout", "seq": 0, "chunk": "page 3\n" });
    let kept = say(&host, &taken, "output", output).await;
    assert_eq!(kept.json(), json!({ "kept": true }));
    let workers = host.get(&format!("{QUEUE}/workers")).await.json();
    assert_eq!(workers["workers"][0]["worker"], "w-1");
    assert!(workers["workers"][0]["last_seen"].is_string());
    assert!(workers["assignments"][0]["last_heartbeat"].is_string());

    let result = json!({ "outputs": { "pages": 3 } });
    let told = say(&host, &taken, "result", result.clone()).await.json();
    assert_eq!(
        (&told["status"], &told["repeated"]),
        (&json!("delivered"), &json!(false))
    );
    let again = say(&host, &taken, "result", result).await.json();
    assert_eq!(again["repeated"], true);
    let error = json!({ "error": { "code": "late", "message": "" } });
    let otherwise = say(&host, &taken, "failure", error).await;
    assert_eq!(otherwise.refusal(409), "assignment_settled");

    host.engine.settled(&run.as_str().into()).await.unwrap();
    let snapshot = host.snapshot(&run).await;
    assert_eq!(snapshot["status"], "completed", "{snapshot}");
    let events = host.events(&run).await;
    let chunk = events.iter().find(|event| event["type"] == "output.chunk");
    assert_eq!(chunk.expect("output")["payload"]["chunk"], "page 3\n");

    let stands = host.get(&format!("{QUEUE}/snapshot")).await.json();
    assert_eq!(stands["backlog"]["delivered"], 1, "{stands}");
    assert_eq!(stands["readiness"]["ready"], true);
    let readiness = host.get(&format!("{QUEUE}/readiness")).await.json();
    assert_eq!(readiness, json!({ "ready": true, "reasons": [] }));

    let page = host.get(&format!("{QUEUE}/events?limit=1000")).await.json();
    assert_eq!(page["complete"], true);
    let kinds: Vec<&str> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["event"]["event"].as_str())
        .filter(|kind| *kind != "run.heartbeat")
        .collect();
    assert_eq!(
        kinds,
        [
            "AuthorityAcquired",
            "DispatchQueued",
            "DispatchNotified",
            "worker.assigned",
            "run.blocked_on_user",
            "DispatchDelivered"
        ]
    );
    // Each event has its fields in the contract's order.
    let text = host.get(&format!("{QUEUE}/events?limit=1000")).await;
    let text = String::from_utf8(text.body.to_vec()).unwrap();
    let request = page["events"][1]["event"]["request_id"].as_str().unwrap();
    let notified = format!(
        r#""event":{{"event":"DispatchNotified","request_id":"{request}","channel":"worker"}}"#
    );
    assert!(text.contains(&notified), "{text}");
    let next = page["next"].as_str().unwrap();
    let none = host
        .get(&format!("{QUEUE}/events?after={next}"))
        .await
        .json();
    assert_eq!(none["next"], next);
}

/// The waiting run receives the reason of a failed request.
#[tokio::test]
async fn credentials_in_the_reason_of_a_failure_do_not_reach_the_run() {
    let host = host().await;
    let run = host.create(&json!({ "workflowId": "renders" })).await;
    let taken = take(&host, "w-1").await["assignments"][0].clone();
    let token = format!("Bearer {}", "a1B2".repeat(9));
    let failed = json!({
        "command": "MarkFailed", "request_id": taken["request_id"],
        "reason": format!("curl -H 'Authorization: {token}' failed"),
    });
    let answer = host.post(&format!("{QUEUE}/commands"), &failed).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    host.until(&run, |status| status == "failed").await;
    let told = host
        .get(&format!("/v1/runs/{run}/events/poll"))
        .await
        .json();
    assert!(told.to_string().contains("failed"), "{told}");
    assert!(!told.to_string().contains(&token), "{told}");
}

#[tokio::test]
async fn a_released_task_is_reassigned_under_the_next_fence() {
    let host = host().await;
    host.create(&json!({ "workflowId": "renders" })).await;
    let first = take(&host, "w-1").await["assignments"][0].clone();
    let given = say(&host, &first, "release", json!({})).await;
    assert_eq!(given.json()["status"], "notified");
    let second = take(&host, "w-2").await["assignments"][0].clone();
    assert_eq!(second["fence"], 2);
    assert_eq!(second["request_id"], first["request_id"]);
    let late = say(&host, &first, "result", json!({ "outputs": {} })).await;
    assert_eq!(late.refusal(409), "assignment_released");
    let zombie = say(
        &host,
        &first,
        "output",
        json!({ "stream": "stdout", "chunk": "x" }),
    )
    .await;
    assert_eq!(zombie.refusal(409), "assignment_released");
    // Another fence is rejected.
    let mut guessed = second.clone();
    guessed["fence"] = json!(1);
    let refused = say(&host, &guessed, "heartbeat", json!({})).await;
    assert_eq!(refused.refusal(404), "assignment_not_found");
}

#[tokio::test]
async fn commands_follow_the_contract_and_command_requests_are_tasks() {
    let host = host().await;
    let commands = format!("{QUEUE}/commands");
    let queue = json!({
        "command": "QueueDispatch", "request_id": "r-1", "target": "render",
        "metadata": { "b": 1, "a": 2 },
    });
    let queued = host.post(&commands, &queue).await;
    assert_eq!(
        String::from_utf8(queued.body).unwrap(),
        r#"{"event":"DispatchQueued","request_id":"r-1","target":"render","metadata":{"a":2,"b":1}}"#
    );
    let twice = host.post(&commands, &queue).await;
    assert_eq!(twice.refusal(409), "duplicate_request");
    let acquire = json!({
        "command": "AcquireAuthority", "owner": "me", "lease_id": "l",
        "leased_until": "2099-01-01T00:00:00Z",
    });
    let held = host.post(&commands, &acquire).await;
    assert_eq!(held.refusal(409), "lease_held");
    for wrong in [
        json!({}),
        json!({ "command": "No" }),
        json!({ "command": "MarkNotified" }),
    ] {
        let refused = host.post(&commands, &wrong).await;
        assert_eq!(refused.refusal(400), "validation_error");
    }
    let unknown = json!({ "command": "MarkDelivered", "request_id": "r-9" });
    let unknown = host.post(&commands, &unknown).await;
    assert_eq!(unknown.refusal(404), "request_not_found");
    let taken = take(&host, "w-1").await["assignments"][0].clone();
    assert_eq!(taken["task"], json!({ "a": 2, "b": 1 }));
    assert_eq!(taken["run"], Value::Null);
    let output = json!({ "stream": "stderr", "chunk": "x" });
    let kept = say(&host, &taken, "output", output).await;
    assert_eq!(kept.json(), json!({ "kept": false }));
    let done = say(&host, &taken, "result", json!({ "outputs": {} })).await;
    assert_eq!(done.json()["request_id"], "r-1");
}

#[tokio::test]
async fn invalid_requests_are_rejected_by_name() {
    let host = host().await;
    host.create(&json!({ "workflowId": "renders" })).await;
    let taken = take(&host, "w-1").await["assignments"][0].clone();
    let large = "x".repeat(1 << 20);
    for (what, body, status, code) in [
        (
            "heartbeat",
            json!({ "blocked_on": "god" }),
            400,
            "validation_error",
        ),
        (
            "heartbeat",
            json!({ "blocked_on": "user" }),
            400,
            "validation_error",
        ),
        (
            "output",
            json!({ "stream": "stdin", "chunk": "" }),
            400,
            "validation_error",
        ),
        (
            "output",
            json!({ "stream": "stdout", "chunk": large }),
            413,
            "payload_too_large",
        ),
        (
            "output",
            json!({ "stream": "stdout", "chunk": 7 }),
            400,
            "validation_error",
        ),
        ("result", json!({ "outputs": [] }), 400, "validation_error"),
        (
            "result",
            json!({ "outputs": { "x": large } }),
            413,
            "payload_too_large",
        ),
        (
            "failure",
            json!({ "error": { "code": "No!", "message": "" } }),
            400,
            "validation_error",
        ),
        (
            "failure",
            json!({ "error": { "code": "no" } }),
            400,
            "validation_error",
        ),
    ] {
        let refused = say(&host, &taken, what, body).await;
        assert_eq!(refused.refusal(status), code, "{what}");
    }
    for body in [
        json!({}),
        json!({ "worker": "" }),
        json!({ "worker": "w", "max": 65 }),
        json!({ "worker": "w", "wait_ms": 25_001 }),
    ] {
        let refused = host.post(&format!("{QUEUE}/take"), &body).await;
        assert!(["validation_error", "invalid_field"].contains(&refused.refusal(400).as_str()));
    }
    for id in ["a-0", "a-99", "a-x", "7", "a-07"] {
        let path = format!("{QUEUE}/assignments/{id}/heartbeat");
        let refused = host.post(&path, &json!({ "fence": 1 })).await;
        assert_eq!(refused.refusal(404), "assignment_not_found", "{id}");
    }
    for after in ["x", "e99999", "e-1", "e01"] {
        let refused = host.get(&format!("{QUEUE}/events?after={after}")).await;
        assert_eq!(refused.refusal(400), "unknown_cursor", "{after}");
    }
    let odd = host.get("/v1/coordinator/no%20queue/snapshot").await;
    assert_eq!(odd.refusal(404), "not_found");
}

#[tokio::test]
async fn another_tenant_has_its_own_queue_without_access_to_this_one() {
    let host = host().await;
    host.create(&json!({ "workflowId": "renders" })).await;
    let taken = take(&host, "w-1").await["assignments"][0].clone();
    let everything = runtime::access::Scopes::Everything;
    let stranger = host.key_of("umbrella", None, everything.clone()).await;
    let id = taken["assignment_id"].as_str().unwrap();
    for what in ["heartbeat", "output", "result", "failure", "release"] {
        let path = format!("{QUEUE}/assignments/{id}/{what}");
        let body = json!({
            "fence": 1, "outputs": {}, "stream": "stdout", "chunk": "",
            "error": { "code": "x", "message": "" },
        });
        let request = Request::new("POST", &path).key(&stranger).json(&body);
        let refused = request.send(host.address).await;
        assert_eq!(refused.refusal(404), "assignment_not_found", "{what}");
    }
    let request = Request::new("GET", &format!("{QUEUE}/snapshot")).key(&stranger);
    let empty = request.send(host.address).await.json();
    assert_eq!(empty["backlog"]["notified"], 0);
    assert_eq!(empty["authority"]["owner"], Value::Null);
    let bound = host.key_of("acme", Some("red"), everything).await;
    let request = Request::new("GET", &format!("{QUEUE}/snapshot")).key(&bound);
    assert_eq!(request.send(host.address).await.refusal(404), "not_found");
}

#[tokio::test]
async fn events_are_streamed_and_resume_after_the_last_one_seen() {
    let host = host().await;
    let commands = format!("{QUEUE}/commands");
    let queue = |id: &str| json!({ "command": "QueueDispatch", "request_id": id, "target": "t" });
    host.post(&commands, &queue("r-1")).await;
    let mut conn = Conn::to(host.address).await;
    let request = Request::new("GET", &format!("{QUEUE}/events?after=e1"))
        .key(&host.key)
        .header("accept", "text/event-stream");
    conn.send(&request.bytes()).await;
    assert_eq!(conn.head().await.expect("a head").0, 200);
    let mut lines = Frames::default();
    let first = lines.next(&mut conn).await;
    assert_eq!(
        first,
        [
            "id: e2",
            "event: DispatchQueued",
            r#"data: {"event":"DispatchQueued","request_id":"r-1","target":"t"}"#
        ]
    );
    host.post(&commands, &queue("r-2")).await;
    loop {
        let frame = lines.next(&mut conn).await;
        if frame[1] == "event: DispatchQueued" {
            assert!(frame[2].contains("r-2"), "{frame:?}");
            break;
        }
    }
}

/// Frames of a stream, line by line.
#[derive(Default)]
struct Frames(String);

impl Frames {
    /// The next frame that is not a heartbeat.
    async fn next(&mut self, conn: &mut Conn) -> Vec<String> {
        loop {
            if let Some((frame, rest)) = self.0.split_once("\n\n") {
                let lines: Vec<String> = frame.lines().map(str::to_owned).collect();
                self.0 = rest.to_owned();
                if !lines[0].starts_with(':') {
                    return lines;
                }
                continue;
            }
            let chunk = conn.chunk().await.expect("the stream goes on");
            self.0.push_str(&String::from_utf8(chunk).unwrap());
        }
    }
}

#[tokio::test]
async fn a_take_and_a_result_with_a_key_are_answered_again() {
    let host = host().await;
    let run = host.create(&json!({ "workflowId": "renders" })).await;
    let keyed = async |path: &str, key: &str, body: &Value| {
        let request = Request::new("POST", path).key(&host.key);
        let request = request.header("idempotency-key", key).json(body);
        request.send(host.address).await
    };
    let replayed = |answer: &Answer| {
        let told = answer.header("openwop-idempotent-replay");
        told.map(str::to_owned)
    };
    let path = format!("{QUEUE}/take");
    let body = json!({ "worker": "w-1", "wait_ms": 20_000 });
    let first = keyed(&path, "t", &body).await;
    let again = keyed(&path, "t", &body).await;
    assert_eq!(replayed(&first).as_deref(), Some("false"));
    assert_eq!(replayed(&again).as_deref(), Some("true"));
    assert_eq!(first.body, again.body);
    let other = keyed(&path, "t", &json!({ "worker": "w-2" })).await;
    assert_eq!(other.refusal(409), "idempotency_key_mismatch");

    let taken = first.json()["assignments"][0].clone();
    let id = taken["assignment_id"].as_str().unwrap();
    let path = format!("{QUEUE}/assignments/{id}/result");
    let body = json!({ "fence": taken["fence"], "outputs": { "pages": 3 } });
    let first = keyed(&path, "r", &body).await;
    let again = keyed(&path, "r", &body).await;
    assert_eq!(first.json()["repeated"], false);
    assert_eq!(first.body, again.body);
    assert_eq!(replayed(&again).as_deref(), Some("true"));
    host.engine.settled(&run.as_str().into()).await.unwrap();
    assert_eq!(host.snapshot(&run).await["status"], "completed");
}
