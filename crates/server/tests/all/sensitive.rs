//! Values that a workflow declares sensitive, on every way out of a server.

use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;
use store::ReadFrom;

use crate::host::{Host, chain, node};
use crate::receiver::Receiver;

/// What came in, and what the workflow's own nodes write.
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

#[tokio::test]
async fn no_face_tells_what_is_declared_sensitive() {
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
    // Nothing of it makes two runs differ that came to the same.
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
async fn what_a_child_gives_back_into_a_sensitive_variable_is_sealed_and_masked() {
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
