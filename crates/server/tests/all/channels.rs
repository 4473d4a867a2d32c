//! Channels on the wire: every reducer, time-to-live, and who may read and write.

use serde_json::{Value, json};

use crate::host::{Host, chain, node};

/// A workflow whose nodes write to one channel, one after another.
fn writes(id: &str, channel: Value, values: &[Value]) -> Value {
    let nodes: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            let config = json!({ "channel": "c", "value": value });
            node(&format!("w{n}"), "core.channelWrite", config)
        })
        .collect();
    let mut definition = chain(id, &nodes);
    definition["channels"] = json!({ "c": channel });
    definition
}

async fn played(host: &Host, definition: Value) -> (Value, Vec<Value>) {
    let id = definition["id"].clone();
    host.put(&[definition]).await;
    let run = host.completed(&json!({ "workflowId": id })).await;
    let events = host.events(&run).await;
    let written = events
        .into_iter()
        .filter(|event| event["type"] == "channel.written")
        .collect();
    (host.snapshot(&run).await, written)
}

#[tokio::test]
async fn each_reducer_folds_and_the_event_tells_the_write() {
    let host = Host::new().await;
    let vote = |user: &str, action: &str| json!({ "userId": user, "action": action });
    let message =
        |id: &str, text: &str| json!({ "messageId": id, "role": "assistant", "content": text });
    let told = |text: &str, n: u32| json!({ "feedback": text, "iteration": n });
    for (reducer, values, folded) in [
        (
            "replace",
            vec![json!(1), json!({ "a": 1 })],
            json!({ "a": 1 }),
        ),
        (
            "append",
            vec![json!(1), json!([2]), json!(null)],
            json!([1, [2], null]),
        ),
        (
            "merge",
            vec![json!({ "a": 1, "b": 1 }), json!({ "b": { "c": 2 } })],
            json!({ "a": 1, "b": { "c": 2 } }),
        ),
        (
            "counter",
            vec![json!(5), json!(-7), json!(0.5)],
            json!(-1.5),
        ),
        (
            "votes",
            vec![
                vote("u", "accept"),
                vote("v", "accept"),
                vote("u", "reject"),
            ],
            json!([vote("v", "accept"), vote("u", "reject")]),
        ),
        (
            "feedback",
            vec![told("x", 1), told("y", 2)],
            json!([told("x", 1), told("y", 2)]),
        ),
        (
            "message",
            vec![message("1", "a"), message("2", "b"), message("1", "c")],
            json!([message("1", "a"), message("2", "b")]),
        ),
    ] {
        let definition = writes(reducer, json!({ "reducer": reducer }), &values);
        let (snapshot, written) = played(&host, definition).await;
        assert_eq!(snapshot["channels"]["c"], folded, "{reducer}: {snapshot}");
        assert_eq!(written.len(), values.len());
        for (event, value) in written.iter().zip(&values) {
            let payload = &event["payload"];
            assert_eq!(payload["value"], *value, "{reducer}");
            assert_eq!(payload["reducer"], reducer);
            assert_eq!(payload["schemaVersion"], 1);
            assert_eq!(payload["writtenAt"], event["timestamp"]);
        }
    }
}

#[tokio::test]
async fn invalid_writes_are_rejected_and_excess_entries_dropped() {
    let host = Host::new().await;
    for (id, channel, values) in [
        (
            "no-number",
            json!({ "reducer": "counter" }),
            vec![json!("x")],
        ),
        ("no-object", json!({ "reducer": "merge" }), vec![json!(1)]),
        (
            "no-voter",
            json!({ "reducer": "votes" }),
            vec![json!({ "action": "accept" })],
        ),
        (
            "no-id",
            json!({ "reducer": "message" }),
            vec![json!({ "content": "x" })],
        ),
        (
            "no-sum",
            json!({ "reducer": "counter" }),
            vec![json!(1.5e308), json!(1.5e308)],
        ),
        (
            "no-text",
            json!({ "reducer": "append", "schema": { "items": { "type": "string" } } }),
            vec![json!("a"), json!(1)],
        ),
        (
            "too-large",
            json!({ "reducer": "merge", "maxSize": 1 }),
            vec![json!({ "a": 1 }), json!({ "b": 1 })],
        ),
    ] {
        let (snapshot, _) = played(&host, writes(id, channel, &values)).await;
        assert_eq!(
            snapshot["error"]["code"], "validation_error",
            "{id}: {snapshot}"
        );
    }
    for reducer in ["append", "votes", "feedback"] {
        let id = format!("last-{reducer}");
        let entry = |n: u32| json!({ "userId": n.to_string(), "action": "accept", "n": n });
        let channel = json!({ "reducer": reducer, "maxSize": 2 });
        let values = [entry(1), entry(2), entry(3)];
        let (snapshot, _) = played(&host, writes(&id, channel, &values)).await;
        assert_eq!(
            snapshot["channels"]["c"],
            json!([entry(2), entry(3)]),
            "{reducer}"
        );
    }
}

#[tokio::test]
async fn entries_with_a_ttl_are_stamped_and_dropped_at_a_later_write() {
    let host = Host::new().await;
    let channel = json!({ "reducer": "append", "ttlMs": 100 });
    let mut definition = writes("forgets", channel, &[json!("a"), json!("b"), json!("c")]);
    // The last write comes when the others have expired.
    let wait = node("wait", "core.delay", json!({ "ms": 150 }));
    definition["nodes"].as_array_mut().unwrap().insert(2, wait);
    definition["edges"] = json!([
        { "id": "1", "sourceNodeId": "w0", "targetNodeId": "w1" },
        { "id": "2", "sourceNodeId": "w1", "targetNodeId": "wait" },
        { "id": "3", "sourceNodeId": "wait", "targetNodeId": "w2" },
    ]);
    let (snapshot, written) = played(&host, definition).await;
    let entries = snapshot["channels"]["c"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{snapshot}");
    assert_eq!(entries[0]["value"], "c");
    assert_eq!(
        written[2]["payload"]["value"], entries[0],
        "the event has the stamp, too"
    );
}

#[tokio::test]
async fn a_channel_says_who_reads_and_writes_it() {
    let host = Host::new().await;
    let access = |list: &str, who: &str| {
        let mut access = json!({});
        access[list] = json!([who]);
        json!({ "reducer": "append", "access": access })
    };
    let (denied, _) = played(
        &host,
        writes("foreign", access("writers", "other"), &[json!(1)]),
    )
    .await;
    assert_eq!(denied["error"]["code"], "channel_access_denied");
    let details = json!({
        "channel": "c", "allowed": "writers",
        "requestedBy": { "nodeId": "w0", "typeId": "core.channelWrite" },
    });
    assert_eq!(denied["error"]["details"], details);
    let own = writes("own", access("writers", "core.channel*"), &[json!(1)]);
    let (allowed, _) = played(&host, own).await;
    assert_eq!(allowed["status"], "completed", "{allowed}");

    for (id, reader, may) in [("curious", "other", false), ("invited", "reads", true)] {
        let mut definition = writes(id, access("readers", reader), &[json!(1)]);
        let mut reads = node("reads", "core.identity", json!({}));
        reads["inputs"] = json!({ "seen": { "type": "expression", "expression": "channels.c" } });
        definition["nodes"].as_array_mut().unwrap().push(reads);
        definition["edges"] = json!([{ "id": "e", "sourceNodeId": "w0", "targetNodeId": "reads" }]);
        let (snapshot, _) = played(&host, definition).await;
        if may {
            assert_eq!(snapshot["variables"]["seen"], json!([1]), "{snapshot}")
        } else {
            assert_eq!(
                snapshot["error"]["code"], "channel_access_denied",
                "{snapshot}"
            );
            assert_eq!(snapshot["error"]["details"]["allowed"], "readers");
        }
    }
}

#[tokio::test]
async fn a_definition_says_nothing_of_its_channels_that_cannot_be() {
    let host = Host::new().await;
    let channel = |schema: Value| json!({ "reducer": "append", "schema": schema });
    let mut sets = writes("sets", channel(json!({})), &[]);
    let config = json!({ "variables": { "c": "inputs.x" } });
    sets["nodes"] = json!([node("t", "runwright.transform", config)]);
    let mut copies = writes("copies", channel(json!({})), &[]);
    let mut identity = node("i", "core.identity", json!({}));
    identity["inputs"] = json!({ "c": { "type": "static", "value": 1 } });
    copies["nodes"] = json!([identity]);
    let mut declares = writes("declares", channel(json!({})), &[json!(1)]);
    declares["variables"] = json!([{ "name": "c", "type": "array" }]);
    let schemaless = writes(
        "schemaless",
        channel(json!({ "type": "no-type" })),
        &[json!(1)],
    );
    for (definition, path) in [
        (sets, "/nodes/0/config/variables/…"),
        (copies, "/nodes/0/inputs/…"),
        (declares, "/variables/0/name"),
        (schemaless, "/channels/…/schema"),
    ] {
        let answer = host.post("/v1/workflows", &definition).await;
        let body = answer.json();
        assert_eq!(answer.refusal(400), "validation_error", "{body}");
        assert_eq!(body["details"]["errors"][0]["path"], path, "{body}");
    }
}

#[tokio::test]
async fn a_variable_with_a_legacy_name_is_shown_as_a_channel() {
    let host = Host::new().await;
    let sets = |id: &str, name: &str, value: Value| {
        node(
            id,
            "core.setVariable",
            json!({ "name": name, "value": value }),
        )
    };
    let flow = chain(
        "older",
        &[
            sets("a", "_loopbackCount:gate", json!(1)),
            sets("b", "_askExchanges:gate", json!(["why"])),
            sets("c", "plain", json!(3)),
        ],
    );
    let (snapshot, written) = played(&host, flow).await;
    let told = |event: &Value| {
        let payload = &event["payload"];
        json!([
            payload["channel"],
            payload["reducer"],
            payload["value"],
            payload["nodeId"]
        ])
    };
    let told: Vec<Value> = written.iter().map(told).collect();
    let expected = [
        json!(["loopbackCount:gate", "counter", 1, "a"]),
        json!(["askExchanges:gate", "append", ["why"], "b"]),
    ];
    assert_eq!(told, expected);
    assert_eq!(snapshot["variables"]["_loopbackCount:gate"], 1);
    let run = snapshot["runId"].as_str().unwrap();
    crate::schemas::check_log(&host, run).await;
    assert_eq!(host.payload(run, "variable.changed").await["name"], "plain");
}
