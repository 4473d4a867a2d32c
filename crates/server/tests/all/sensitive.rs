//! Values that a workflow declares sensitive, on every exit of a server.

use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;
use store::ReadFrom;

use crate::host::{Host, chain, node};
use crate::receiver::Receiver;

/// The inputs, and the values that the workflow's own nodes write.
const CANARIES: [&str; 4] = [
    "canary-input",
    "canary-port",
    "canary-channel",
    "canary-set",
];

/// An input, a port, a channel and a variable that are sensitive, each written.
fn safe() -> Value {
    let mut copies = node(
        "copies",
        "runwright.transform",
        json!({ "outputs": { "same": "inputs.pin", "port": "'canary-port'" } }),
    );
    copies["inputs"] = json!({ "pin": { "type": "variable", "variableName": "pin" } });
    copies["outputSensitivity"] = json!({ "same": true, "port": true });
    let write = json!({ "channel": "found", "value": "canary-channel" });
    let set = json!({ "name": "kept", "value": "canary-set" });
    let mut safe = chain(
        "safe",
        &[
            copies,
            node("writes", "core.channelWrite", write),
            node("sets", "core.setVariable", set),
        ],
    );
    let sensitive = |name: &str| json!({ "name": name, "type": "string", "sensitive": true });
    safe["variables"] = json!([sensitive("pin"), sensitive("kept")]);
    safe["channels"] = json!({ "found": { "reducer": "append", "sensitive": true } });
    safe
}

/// No view of a run shows a text.
async fn shows_nobody(host: &Host, run: &str, text: &str) {
    for path in [
        "",
        "/events/poll",
        "/debug-bundle",
        "/events?streamMode=values",
    ] {
        let answer = host.get(&format!("/v1/runs/{run}{path}")).await;
        let shown = String::from_utf8(answer.body).expect("text");
        assert!(!shown.contains(text), "{path}: {shown}");
    }
}

#[tokio::test]
async fn no_face_shows_values_declared_sensitive() {
    let host = Host::reaching(Limits::default(), Reach::Private).await;
    host.put(&[safe()]).await;
    let receiver = Receiver::new().await;
    let order = json!({ "url": receiver.url(), "events": ["*"] });
    assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    let order = json!({ "workflowId": "safe", "inputs": { "pin": "canary-input" } });
    let run = host.completed(&order).await;
    assert_eq!(host.snapshot(&run).await["status"], "completed");
    let other = host.completed(&json!({ "workflowId": "three" })).await;
    let replay = json!({ "mode": "replay" });
    let replay = host.post(&format!("/v1/runs/{run}:fork"), &replay).await;
    let replay = replay.json()["runId"].as_str().expect("a run").to_owned();
    for (path, masks) in [
        (format!("/v1/runs/{run}"), 8),
        (format!("/v1/runs/{run}/events/poll"), 8),
        (format!("/v1/runs/{run}/events?streamMode=debug"), 8),
        (format!("/v1/runs/{run}/events?streamMode=updates"), 4),
        (format!("/v1/runs/{run}/events?streamMode=values"), 8),
        (format!("/v1/runs/{run}/debug-bundle"), 16),
        (format!("/v1/runs/{run}:diff?against={other}"), 8),
        (format!("/v1/runs/{replay}"), 8),
        (format!("/v1/runs/{replay}/events/poll"), 8),
    ] {
        let answer = host.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = String::from_utf8(answer.body).expect("text");
        for hidden in CANARIES.iter().chain(&["$sealed"]) {
            assert!(!text.contains(hidden), "{path} has {hidden}: {text}");
        }
        let shown = text.matches("[REDACTED]").count();
        assert!(shown >= masks, "{path} has {shown} masks: {text}");
    }
    // Masks do not make equal runs differ.
    let same = format!("/v1/runs/{run}:diff?against={replay}");
    assert_eq!(host.get(&same).await.json()["eventDiffs"], json!([]));
    let events = host.events(&run).await.len();
    for _ in 0..events {
        let told = receiver.next().await;
        let told = String::from_utf8(told.body).expect("text");
        assert!(
            !CANARIES.iter().any(|hidden| told.contains(hidden)),
            "{told}"
        );
    }
    host.stop().await;
}

#[tokio::test]
async fn child_results_in_a_sensitive_variable_are_sealed_and_masked() {
    let host = Host::new().await;
    let mut below = chain("below", &[node("a", "core.noop", json!({}))]);
    below["variables"] =
        json!([{ "name": "out", "type": "string", "defaultValue": "canary-child" }]);
    let config = json!({ "workflowId": "below", "outputMapping": { "back": "out" } });
    let mut above = chain("above", &[node("start", "core.subWorkflow", config)]);
    above["variables"] = json!([{ "name": "back", "type": "string", "sensitive": true }]);
    host.put(&[below, above]).await;
    let run = host.completed(&json!({ "workflowId": "above" })).await;
    let shown = host.snapshot(&run).await;
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["variables"]["back"], "[REDACTED]");
    for path in ["", "/events/poll", "/debug-bundle"] {
        let answer = host.get(&format!("/v1/runs/{run}{path}")).await;
        let text = String::from_utf8(answer.body).expect("text");
        assert!(
            !text.contains("canary-child") && !text.contains("$sealed"),
            "{path}: {text}"
        );
    }
    let store = host.engine.door().store();
    let log = store
        .load(&run.as_str().into(), ReadFrom::Seq(0), usize::MAX)
        .await;
    for record in log.expect("a log").records {
        let row = String::from_utf8(record.content).expect("text");
        assert!(!row.contains("canary-child"), "{row}");
    }
    host.stop().await;
}

/// Values that a child hides but cannot seal, as its own nodes write them; its parent's question to
/// people contains them.
fn family(id: &str, child: Value) -> [Value; 2] {
    let below = child["id"].as_str().expect("an id").to_owned();
    let config = json!({ "workflowId": below, "outputMapping": { "back": "kept" } });
    let call = node("call", "core.subWorkflow", config);
    let variable = json!({ "type": "variable", "variableName": "back" });
    let mut gate = node(
        "gate",
        "core.approvalGate",
        json!({ "title": "Shall it go?" }),
    );
    gate["inputs"] = json!({ "artifactData": variable, "description": variable });
    let mut all = node("all", "core.identity", json!({}));
    let outputs = json!({ "type": "connection", "nodeId": "call", "outputKey": "outputs" });
    all["inputs"] = json!({ "outputs": outputs });
    let mut above = chain(id, &[call, gate, all]);
    above["variables"] = json!([{ "name": "back", "type": "string" }]);
    [child, above]
}

#[tokio::test]
async fn values_hidden_by_a_child_are_hidden_by_its_parent() {
    let host = Host::reaching(Limits::default(), Reach::Private).await;
    let receiver = Receiver::new().await;
    let order = json!({ "url": receiver.url(), "events": ["*"] });
    assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    let set = json!({ "name": "kept", "value": "canary-below" });
    let mut declared = chain("declared", &[node("sets", "core.setVariable", set.clone())]);
    declared["variables"] = json!([{ "name": "kept", "type": "string", "sensitive": true }]);
    let mut classed = chain("classed", &[node("sets", "core.setVariable", set)]);
    classed["variables"] = json!([{ "name": "kept", "type": "string" }]);
    classed["metadata"] = json!({ "complianceClass": "pii" });
    for (id, child) in [("of-declared", declared), ("of-classed", classed)] {
        host.put(&family(id, child)).await;
        let run = host.waiting(&json!({ "workflowId": id })).await;
        let token = host.token(&run).await;
        let shown = host.look_by(&token).await.json();
        assert_eq!(shown["data"]["title"], "Shall it go?", "{shown}");
        assert_eq!(shown["data"]["artifactData"], "[REDACTED]", "{shown}");
        let paths = |run: &str| {
            let of_run = [
                "",
                "/interrupts",
                "/events/poll",
                "/debug-bundle",
                "/events?streamMode=values",
                "/events?streamMode=updates",
                "/events?streamMode=debug",
            ];
            of_run.map(|path| format!("/v1/runs/{run}{path}"))
        };
        let mut seen = vec![shown.to_string()];
        for path in &paths(&run)[..4] {
            seen.push(host.get(path).await.json().to_string());
        }
        seen.push(host.get("/v1/interrupts").await.json().to_string());
        let answer = host
            .answer(&run, "gate", json!({ "action": "accept" }))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        assert_eq!(host.ended(&run).await["status"], "completed");
        for path in paths(&run) {
            let answer = host.get(&path).await;
            seen.push(String::from_utf8(answer.body).expect("text"));
        }
        for text in &seen {
            assert!(!text.contains("canary-below"), "{id}: {text}");
            assert!(!text.contains("$sealed"), "{id}: {text}");
        }
        let events = host.events(&run).await.len();
        let log = host.engine.door().store();
        let log = log
            .load(&run.as_str().into(), ReadFrom::Seq(0), usize::MAX)
            .await;
        for record in log.expect("a log").records {
            let row = String::from_utf8(record.content).expect("text");
            assert!(!row.contains("canary-below"), "{id}: {row}");
        }
        let mut told = 0;
        while told < events {
            let body = String::from_utf8(receiver.next().await.body).expect("text");
            assert!(!body.contains("canary-below"), "{id}: {body}");
            told += usize::from(body.contains(&run));
        }
    }
    host.stop().await;
}

/// A node that reports whether it received a text, at a place of its input `it`.
fn tells_whether(id: &str, place: &str, text: &str, given: Value) -> Value {
    let outputs = json!({ "same": format!("{place} == '{text}'") });
    let mut tells = node(id, "runwright.transform", json!({ "outputs": outputs }));
    tells["inputs"] = json!({ "it": given });
    tells
}

#[tokio::test]
async fn a_sealed_value_in_hidden_child_output_is_clear_to_nodes() {
    let host = Host::new().await;
    // A node of the engine does not receive sealed values in plain text: the enclosing value is
    // sealed.
    let mut last = node("last", "core.setVariable", json!({ "name": "x" }));
    let within = json!({ "type": "expression", "expression": "{'pin': variables.pin}" });
    last["inputs"] = json!({ "value": within });
    let mut below = chain("below", &[last]);
    below["variables"] = json!([
        { "name": "pin", "type": "string", "sensitive": true },
        { "name": "x", "type": "object" },
    ]);
    below["metadata"] = json!({ "complianceClass": "pii" });
    let config = json!({ "workflowId": "below", "inputMapping": { "pin": "own" } });
    let given = json!({ "type": "connection", "nodeId": "call", "outputKey": "outputs" });
    let mut above = chain(
        "above",
        &[
            node("call", "core.subWorkflow", config),
            tells_whether("tells", "inputs.it.last.x.pin", "canary-within", given),
        ],
    );
    above["variables"] = json!([{ "name": "own", "type": "string", "sensitive": true }]);
    host.put(&[below, above]).await;
    let order = json!({ "workflowId": "above", "inputs": { "own": "canary-within" } });
    let run = host.completed(&order).await;
    let shown = host.snapshot(&run).await;
    assert_eq!(shown["nodeStates"]["tells"]["outputs"]["same"], true);
    assert!(!shown.to_string().contains("canary-within"), "{shown}");
    host.stop().await;
}

#[tokio::test]
async fn a_value_goes_from_one_child_of_a_class_to_another() {
    let host = Host::new().await;
    let of_class = |id: &str, variable: &str, only: Value| {
        let mut child = chain(id, &[only]);
        child["variables"] = json!([{ "name": variable, "type": "string" }]);
        child["metadata"] = json!({ "complianceClass": "pii" });
        child
    };
    let set = json!({ "name": "made", "value": "canary-made" });
    let makes = of_class("makes", "made", node("sets", "core.setVariable", set));
    let given = json!({ "type": "variable", "variableName": "given" });
    let tells = tells_whether("tells", "inputs.it", "canary-made", given);
    let takes = of_class("takes", "given", tells);
    let first = json!({ "workflowId": "makes", "outputMapping": { "between": "made" } });
    let second = json!({ "workflowId": "takes", "inputMapping": { "given": "between" } });
    let outputs = json!({ "type": "connection", "nodeId": "second", "outputKey": "outputs" });
    let mut parent = chain(
        "between-them",
        &[
            node("first", "core.subWorkflow", first),
            node("second", "core.subWorkflow", second),
            tells_whether("told", "string(inputs.it.tells.same)", "true", outputs),
        ],
    );
    parent["variables"] = json!([{ "name": "between", "type": "string" }]);
    host.put(&[makes, takes, parent]).await;
    let run = host
        .completed(&json!({ "workflowId": "between-them" }))
        .await;
    let shown = host.snapshot(&run).await;
    assert_eq!(shown["status"], "completed", "{shown}");
    assert_eq!(shown["nodeStates"]["told"]["outputs"]["same"], true);
    assert!(!shown.to_string().contains("canary-made"), "{shown}");
    host.stop().await;
}

#[tokio::test]
async fn text_about_a_hidden_value_is_hidden() {
    let host = Host::new().await;
    let variable = json!({ "type": "variable", "variableName": "pin" });
    let mut gate = node(
        "gate",
        "core.approvalGate",
        json!({ "requiredApprovals": 2, "actions": ["accept", "reject", "ask", "edit-accept"] }),
    );
    gate["inputs"] = json!({ "artifactData": variable, "title": variable });
    let mut asks = node(
        "asks",
        "core.interrupt",
        json!({ "kind": "external-event" }),
    );
    let data = json!({ "type": "variable", "variableName": "about" });
    asks["inputs"] = json!({ "data": data });
    let mut told = chain("told", &[gate, asks]);
    let sensitive =
        |name: &str, kind: &str| json!({ "name": name, "type": kind, "sensitive": true });
    told["variables"] = json!([sensitive("pin", "string"), sensitive("about", "object")]);
    // A default is not sealed.
    told["variables"][0]["defaultValue"] = json!("canary-asked");
    told["variables"][1]["defaultValue"] =
        json!({ "eventType": "canary-type", "correlation": { "of": "canary-of" } });
    host.put(&[told]).await;
    let run = host.waiting(&json!({ "workflowId": "told" })).await;
    let asked = host.snapshot(&run).await["interrupt"]["payload"].clone();
    crate::schemas::check_question(&asked);
    for (voter, answer) in [
        (
            "ada",
            json!({ "action": "ask", "comment": "canary-question" }),
        ),
        (
            "ada",
            json!({ "action": "accept", "comment": "canary-comment" }),
        ),
        (
            "bob",
            json!({ "action": "edit-accept", "editedArtifactData": "canary-edit",
                "comment": "canary-last" }),
        ),
    ] {
        let mut answer = answer;
        answer["voter"] = json!(voter);
        let answered = host.answer(&run, "gate", answer).await;
        assert_eq!(answered.status, 200, "{}", answered.json());
    }
    let waiting = host
        .until(&run, |status| status == "waiting-external")
        .await;
    crate::schemas::check_question(&waiting["interrupt"]["payload"]);
    let event = json!({ "of": "canary-of", "more": "canary-event" });
    assert_eq!(host.answer(&run, "asks", event).await.status, 200);
    assert_eq!(host.ended(&run).await["status"], "completed");
    shows_nobody(&host, &run, "canary").await;
    let received = host.payload(&run, "approval.received").await;
    assert_eq!(
        (&received["action"], &received["comment"]),
        (&json!("edit-accept"), &json!("[REDACTED]"),)
    );
    crate::schemas::check_log(&host, &run).await;

    let run = host.waiting(&json!({ "workflowId": "told" })).await;
    let no = json!({ "action": "reject", "feedback": "canary-no", "comment": "canary-why" });
    assert_eq!(host.answer(&run, "gate", no).await.status, 200);
    let failed = host.ended(&run).await;
    assert_eq!(failed["error"]["code"], "interrupt_rejected", "{failed}");
    shows_nobody(&host, &run, "canary").await;
    host.stop().await;
}

#[tokio::test]
async fn a_classed_parent_calls_only_children_that_hide_their_inputs() {
    let host = Host::new().await;
    let takes = |id: &str, sensitive: bool| {
        let mut child = chain(id, &[node("n", "core.noop", json!({}))]);
        child["variables"] = json!([{ "name": "s", "type": "string", "sensitive": sensitive }]);
        child
    };
    for (child, sensitive) in [("shows", false), ("hides", true)] {
        let config = json!({ "workflowId": child, "inputMapping": { "s": "own" } });
        let id = format!("calls-{child}");
        let mut parent = chain(&id, &[node("call", "core.subWorkflow", config)]);
        parent["variables"] = json!([{ "name": "own", "type": "string", "defaultValue": "x7" }]);
        parent["metadata"] = json!({ "complianceClass": "phi" });
        host.put(&[takes(child, sensitive), parent]).await;
        let run = host.completed(&json!({ "workflowId": id })).await;
        let snapshot = host.snapshot(&run).await;
        if sensitive {
            assert_eq!(snapshot["status"], "completed", "{snapshot}")
        } else {
            assert_eq!(
                snapshot["error"]["code"], "invalid_child_inputs",
                "{snapshot}"
            )
        }
    }
    host.stop().await;
}
