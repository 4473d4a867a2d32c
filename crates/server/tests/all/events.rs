//! Events: polling, streams in every mode, resuming, batches.

use serde_json::{Value, json};

use crate::client::{Conn, Request};
use crate::host::{Host, chain, node};

/// A frame of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) id: u64,
    pub(crate) event: String,
    pub(crate) data: Value,
}

pub(crate) fn frames(text: &[u8]) -> Vec<Frame> {
    let text = std::str::from_utf8(text).unwrap();
    let blocks = text
        .split("\n\n")
        .filter(|block| !block.is_empty() && !block.starts_with(':'));
    let read = |block: &str| {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {block}"))
                .to_owned()
        };
        Frame {
            id: field("id: ").parse().unwrap(),
            event: field("event: "),
            data: serde_json::from_str(&field("data: ")).unwrap(),
        }
    };
    blocks.map(read).collect()
}

/// The whole stream of a run that has ended.
pub(crate) async fn stream(host: &Host, run: &str, query: &str, last: Option<&str>) -> Vec<Frame> {
    let mut request = Request::new("GET", &format!("/v1/runs/{run}/events{query}")).key(&host.key);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let answer = request
        .header("accept", "text/event-stream")
        .send(host.address)
        .await;
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    frames(&answer.body)
}

fn types(frames: &[Frame]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame.data["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_mode_shows_its_part_of_the_log() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let all = stream(&host, &run, "?streamMode=debug", None).await;
    let expected = [
        "run.started",
        "node.started",
        "node.completed",
        "node.started",
        "node.completed",
        "node.started",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(types(&all), expected);
    assert!(all.iter().all(|frame| frame.event == frame.data["type"]));
    let ids: Vec<u64> = all.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, (0..8).collect::<Vec<_>>());

    let updates = stream(&host, &run, "", None).await;
    assert!(!types(&updates).contains(&"node.started"));
    assert_eq!(types(&updates).last(), Some(&"run.completed"));
    for update in &updates {
        assert_eq!(update.data, all[update.id as usize].data);
    }
    let values = stream(&host, &run, "?streamMode=values", None).await;
    assert!(values.iter().all(|frame| frame.event == "state.snapshot"));
    assert_eq!(
        values.last().unwrap().data["payload"]["status"],
        "completed"
    );
    assert_eq!(values[0].data["payload"]["atSeq"], 0);

    assert!(
        stream(&host, &run, "?streamMode=messages", None)
            .await
            .is_empty()
    );
    let mixed = stream(&host, &run, "?streamMode=updates,messages", None).await;
    assert_eq!(types(&mixed), types(&updates));
    assert!(mixed.iter().all(|frame| frame.event == frame.data["type"]));
    let mixed = stream(&host, &run, "?streamMode=updates,debug,updates", None).await;
    assert_eq!(types(&mixed), expected, "a union, each once");
    assert!(mixed.iter().all(|frame| frame.event == frame.data["type"]));
}

#[tokio::test]
async fn progress_shows_starts_of_nodes() {
    let host = Host::new().await;
    let config = json!({ "variableName": "n", "value": 1 });
    let mut sets = chain("sets", &[node("set", "core.setVariable", config)]);
    sets["variables"] = json!([{ "name": "n", "type": "number" }]);
    host.put(&[sets]).await;
    let run = host.completed(&json!({ "workflowId": "sets" })).await;
    let all = stream(&host, &run, "?streamMode=debug", None).await;
    assert!(types(&all).contains(&"variable.changed"));
    let progress = stream(&host, &run, "?streamMode=progress", None).await;
    let expected = [
        "run.started",
        "node.started",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(types(&progress), expected);
    let mixed = stream(&host, &run, "?streamMode=progress,messages", None).await;
    assert_eq!(types(&mixed), expected);
}

#[tokio::test]
async fn a_stream_continues_after_the_last_id() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let all = stream(&host, &run, "?streamMode=debug", None).await;
    for last in 0..8 {
        let rest = stream(&host, &run, "?streamMode=debug", Some(&last.to_string())).await;
        let behind: Vec<_> = all.iter().filter(|frame| frame.id > last).collect();
        assert_eq!(rest.len(), behind.len());
        for (got, expected) in rest.iter().zip(behind) {
            assert_eq!(
                got.data, expected.data,
                "the same event, wherever reading began"
            );
        }
    }
    assert!(stream(&host, &run, "", Some("99999")).await.is_empty());
    assert_eq!(
        stream(&host, &run, "?streamMode=debug", Some("rubbish"))
            .await
            .len(),
        8
    );
    let values = stream(&host, &run, "?streamMode=values", Some("3")).await;
    assert_eq!(
        (values[0].id, values[0].event.as_str()),
        (3, "state.snapshot")
    );
    assert_eq!(
        stream(&host, &run, "?streamMode=values", Some("99"))
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn frames_gather_in_batches_and_the_end_does_not_wait() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let batches = stream(&host, &run, "?streamMode=debug&bufferMs=5000", None).await;
    assert!(batches.iter().all(|frame| frame.event == "batch"));
    let docs: Vec<&Value> = batches
        .iter()
        .flat_map(|frame| frame.data.as_array().unwrap())
        .collect();
    assert_eq!(docs.len(), 8);
    assert_eq!(batches.last().unwrap().id, 7);
    assert!(
        docs.iter()
            .zip(0..)
            .all(|(doc, seq)| doc["sequence"] == seq)
    );
}

#[tokio::test]
async fn a_live_stream_shows_new_events_and_ends_with_the_run() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let mut conn = Conn::to(host.address).await;
    let request = Request::new("GET", &format!("/v1/runs/{run}/events?streamMode=debug"));
    conn.send(&request.key(&host.key).bytes()).await;
    assert_eq!(conn.head().await.unwrap().0, 200);
    let mut seen = frames(&conn.chunk().await.unwrap());
    host.post(
        &format!("/v1/runs/{run}/cancel"),
        &json!({ "reason": "enough" }),
    )
    .await;
    while let Some(chunk) = conn.chunk().await {
        seen.extend(frames(&chunk));
    }
    assert_eq!(types(&seen).last(), Some(&"run.cancelled"));
    assert!(
        seen.iter().zip(0..).all(|(frame, seq)| frame.id == seq),
        "no gap, nothing twice"
    );
}

#[tokio::test]
async fn invalid_subscriptions_are_rejected() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}/events");
    for modes in ["all", "values,debug", "debug,", "UPDATES", ""] {
        let answer = host.get(&format!("{path}?streamMode={modes}")).await;
        assert_eq!(answer.refusal(400), "unsupported_stream_mode", "{modes}");
        let supported = &answer.json()["details"]["supported"];
        assert_eq!(
            supported,
            &json!(["updates", "values", "messages", "progress", "debug"])
        );
    }
    for buffer in ["-1", "5001", "999999", "1.5", "x", ""] {
        let answer = host.get(&format!("{path}?bufferMs={buffer}")).await;
        assert_eq!(answer.refusal(400), "validation_error", "{buffer}");
    }
    let as_json = Request::new("GET", &path)
        .key(&host.key)
        .header("accept", "application/json");
    let as_json = as_json.send(host.address).await.json();
    assert_eq!(as_json["isComplete"], true);
    let as_text = Request::new("GET", &path)
        .key(&host.key)
        .header("accept", "text/html");
    assert_eq!(
        as_text.send(host.address).await.refusal(406),
        "not_acceptable"
    );
}

#[tokio::test]
async fn a_poll_returns_events_after_the_cursor() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    let path = format!("/v1/runs/{run}/events/poll");
    let first = host.get(&path).await;
    let page = first.json();
    assert_eq!(page["events"].as_array().unwrap().len(), 8);
    assert_eq!(page["isComplete"], true);
    assert_eq!(page["isTerminal"], true);
    assert_eq!(page["lastEventSeq"], 7);
    assert_eq!(page["runStatus"], "completed");
    assert_eq!(
        host.get(&path).await.body,
        first.body,
        "the same poll, the same bytes"
    );
    for name in ["lastSequence", "since"] {
        let rest = host.get(&format!("{path}?{name}=5")).await.json();
        assert_eq!(
            rest["events"],
            json!(page["events"].as_array().unwrap()[6..])
        );
    }
    for past in ["7", "100", "18446744073709551615"] {
        let end = host
            .get(&format!("{path}?lastSequence={past}"))
            .await
            .json();
        assert_eq!(end["events"], json!([]), "{past}");
        assert_eq!(end["isComplete"], true, "{past}");
    }
    // `timeout=0` never holds, even for a run that continues.
    let at_once = host.get(&format!("{path}?timeout=0")).await;
    assert_eq!(at_once.status, 200, "{at_once:?}");
    for bad in [
        "lastSequence=-1",
        "lastSequence=x",
        "lastSequence=1.5",
        "lastSequence=",
        "timeout=61",
        "timeout=-1",
        "timeout=x",
        "lastSequence=99999999999999999999",
    ] {
        let answer = host.get(&format!("{path}?{bad}")).await;
        assert_eq!(answer.refusal(400), "validation_error", "{bad}");
    }
}

#[tokio::test]
async fn a_poll_is_held_until_something_happens() {
    let host = Host::new().await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let path = format!("/v1/runs/{run}/events/poll");
    let page = host.get(&path).await.json();
    assert_eq!(page["isTerminal"], false);
    let last = page["lastEventSeq"].as_u64().unwrap();
    let held = Request::new("GET", &format!("{path}?lastSequence={last}&timeout=60"));
    let held = tokio::spawn(held.key(&host.key).send(host.address));
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    let page = held.await.unwrap().json();
    assert_eq!(page["events"][0]["sequence"], last + 1);
    let waited = host
        .get(&format!("{path}?lastSequence=1000&timeout=1"))
        .await
        .json();
    assert_eq!(waited["events"], json!([]));
}

#[tokio::test]
async fn questions_and_answers_are_shown_by_the_documented_modes() {
    let host = Host::new().await;
    let gate = json!({ "title": "Ship it?", "requiredApprovals": 2 });
    let ask = json!({ "questions": [{ "id": "q", "question": "Which?" }] });
    let asking = chain(
        "asking",
        &[
            node("gate", "core.approvalGate", gate),
            node("ask", "core.clarificationGate", ask),
        ],
    );
    host.put(&[asking]).await;
    let run = host.create(&json!({ "workflowId": "asking" })).await;
    host.until(&run, |status| status == "waiting-approval")
        .await;
    for voter in ["ann", "bob"] {
        let vote = json!({ "action": "accept", "voter": voter });
        assert_eq!(host.answer(&run, "gate", vote).await.status, 200);
    }
    host.until(&run, |status| status == "waiting-input").await;
    let answers = json!({ "answers": { "q": "this" } });
    assert_eq!(host.answer(&run, "ask", answers).await.status, 200);
    host.ended(&run).await;

    let all = stream(&host, &run, "?streamMode=debug", None).await;
    let updates = stream(&host, &run, "?streamMode=updates", None).await;
    let expected: Vec<&str> = types(&all)
        .into_iter()
        .filter(|kind| *kind != "node.started")
        .collect();
    assert_eq!(types(&updates), expected);
    for kind in [
        "approval.requested",
        "approval.granted",
        "approval.received",
        "clarification.requested",
        "clarification.resolved",
    ] {
        assert!(expected.contains(&kind), "{kind}");
    }
    let values = stream(&host, &run, "?streamMode=values", None).await;
    let at: Vec<u64> = values.iter().map(|frame| frame.id).collect();
    assert_eq!(at, (0..all.len() as u64).collect::<Vec<_>>());
    let messages = stream(&host, &run, "?streamMode=messages", None).await;
    assert!(messages.is_empty(), "nobody asked a model");
}

#[tokio::test]
async fn an_unknown_query_parameter_gets_a_warning() {
    let host = Host::new().await;
    let run = host.completed(&json!({ "workflowId": "three" })).await;
    // Clients may send parameters that a host of the protocol does not know.
    let typed = format!("/v1/runs/{run}/events/poll?streammode=debug");
    let answer = host.get(&typed).await;
    assert_eq!(answer.status, 200);
    let warning = answer.header("runwright-warning").unwrap();
    assert!(warning.contains("lastSequence"), "{warning}");
    assert!(!warning.contains("streammode"), "nothing of it is repeated");
    let known = format!("/v1/runs/{run}/events?streamMode=debug");
    assert_eq!(host.get(&known).await.header("runwright-warning"), None);
    // Routes outside the protocol reject unknown parameters.
    let of_run = ["artifacts", "interrupts"].map(|of| format!("/v1/runs/{run}/{of}?kind=x"));
    for list in [
        &*of_run[0],
        &*of_run[1],
        "/v1/coordinator/q/workers?state=idle",
        "/v1/coordinator/q/events?type=x",
        "/v1/runs?workflow=three",
        "/v1/workflows?limit=3",
        "/v1/interrupts?status=open",
        "/v1/webhooks?cursor=1",
        "/v1/snapshots?run=1",
    ] {
        let answer = host.get(list).await;
        assert_eq!(answer.refusal(400), "validation_error", "{list}");
    }
    assert_eq!(host.get("/v1/runs?workflowId=three").await.status, 200);
}
