//! Answers with a schema, by a scripted model over HTTP: repaired, found in prose, refused,
//! truncated. Also the protocol's own definitions, if they are installed.

use serde_json::{Value, json};

use crate::fixtures;
use crate::host::{Host, chain, node};
use crate::model::{Model, Says};

/// The result of a workflow's run: its snapshot and its reports about envelopes.
async fn ran(host: &Host, workflow: &str) -> (Value, Vec<Value>) {
    let run = host.completed(&json!({ "workflowId": workflow })).await;
    crate::schemas::check_log(host, &run).await;
    let mut events = host.events(&run).await;
    events.retain(|event| event["type"].as_str().unwrap().starts_with("envelope."));
    (host.snapshot(&run).await, events)
}

fn said(events: &[Value]) -> Vec<String> {
    let said = events.iter().map(|event| {
        let payload = &event["payload"];
        let about = ["attempt", "finalReason", "path", "originalEnvelopeType"]
            .iter()
            .find_map(|name| payload.get(*name))
            .map(|value| format!(" {}", value.to_string().trim_matches('"')));
        let kind = event["type"].as_str().unwrap();
        format!("{kind}{}", about.unwrap_or_default())
    });
    said.collect()
}

/// A workflow of our own with one request for a schema.
fn shaped() -> Value {
    let config = json!({
        "provider": "mock", "prompt": "Is it so?", "maxTokens": 50,
        "outputSchema": { "title": "Verdict", "type": "object", "required": ["valid"],
            "properties": { "valid": { "type": "boolean" } } },
    });
    chain(
        "verdict",
        &[node("ask", "core.ai.structuredOutput", config)],
    )
}

const GOOD: Says = Says::Text("{\"valid\": true}");
const WORDS: Says = Says::Text("I do think that it is so.");

/// Every possible course of an answer, with its log entries and the end of the run.
const WAYS: [(&[Says], &[&str], &str); 8] = [
    (
        &[Says::Text("```json\n{\"valid\": true}\n```")],
        &["envelope.recovery.applied markdown-fence"],
        "completed",
    ),
    (
        &[Says::Text("{\"valid\": 1}"), GOOD],
        &["envelope.retry.attempted 2"],
        "completed",
    ),
    (
        &[Says::Text("{\"valid\": \"planted words\"}")],
        &[
            "envelope.retry.attempted 2",
            "envelope.retry.attempted 3",
            "envelope.retry.exhausted schema-violation",
        ],
        "envelope_invalid",
    ),
    (
        &[Says::Cut("{\"va"), GOOD],
        &["envelope.truncated", "envelope.retry.attempted 2"],
        "completed",
    ),
    (
        &[Says::Cut("{\"va")],
        &[
            "envelope.truncated",
            "envelope.retry.attempted 2",
            "envelope.truncated",
            "envelope.retry.attempted 3",
            "envelope.truncated",
            "envelope.retry.exhausted truncation",
        ],
        "envelope_truncation_unrecoverable",
    ),
    (
        &[WORDS, WORDS, GOOD],
        &[
            "envelope.retry.attempted 2",
            "envelope.nlToFormat.engaged Verdict",
        ],
        "completed",
    ),
    (
        &[WORDS, WORDS, WORDS, GOOD],
        &[
            "envelope.retry.attempted 2",
            "envelope.nlToFormat.engaged Verdict",
            "envelope.retry.exhausted parse-error",
        ],
        "envelope_invalid",
    ),
    (&[Says::Refuses], &["envelope.refusal"], "envelope_refusal"),
];

#[tokio::test]
async fn every_path_of_an_answer_is_recorded() {
    for (answers, told, end) in WAYS {
        let model = Model::saying(answers);
        let host = model.host().await;
        host.put(&[shaped()]).await;
        let (snapshot, events) = ran(&host, "verdict").await;
        assert_eq!(said(&events), told);
        let ended = match snapshot["error"]["code"].as_str() {
            Some(code) => code,
            None => snapshot["status"].as_str().unwrap(),
        };
        assert_eq!(ended, end, "{snapshot}");
        // Reports about an answer do not quote it.
        let about = format!("{} {events:?}", snapshot["error"]);
        assert!(!about.contains("planted words"), "{about}");
        let asked = model.asked();
        match end {
            "envelope_truncation_unrecoverable" => {
                let room: Vec<_> = asked.iter().map(|asked| &asked["max_tokens"]).collect();
                assert_eq!(room, [50, 100, 200], "asked so often and no more");
            }
            "envelope_refusal" => assert_eq!(asked.len(), 1, "a refusal is one"),
            _ => {}
        }
        let discovery = host.get("/.well-known/openwop").await.json();
        let rounds = discovery["limits"]["schemaRounds"].as_u64();
        assert!(Some(asked.len() as u64) <= rounds, "{told:?}: {asked:?}");
        let claimed = &discovery["envelopes"]["reliability"];
        assert_eq!(claimed["maxRetryAttempts"], 3);
        for event in &events {
            let listed = claimed["events"].as_array().unwrap();
            assert!(listed.contains(&event["type"]), "{event} in {claimed}");
        }
    }
}

#[tokio::test]
async fn model_calls_stay_within_the_advertised_rate() {
    let model = Model::saying(&[Says::Text("{\"valid\": 1}")]);
    let host = model.host().await;
    let discovery = host.get("/.well-known/openwop").await.json();
    let limit = &discovery["limits"]["schemaRounds"];
    assert_eq!(*limit, 3);
    let mut more = shaped();
    more["nodes"][0]["config"]["maxAsks"] = json!(4);
    let answer = host.post("/v1/workflows", &more).await;
    assert_eq!(answer.refusal(400), "validation_error");
    host.put(&[shaped()]).await;
    let (snapshot, _) = ran(&host, "verdict").await;
    assert_eq!(snapshot["error"]["code"], "envelope_invalid", "{snapshot}");
    assert_eq!(json!(model.asked().len()), *limit);
    let run = snapshot["runId"].as_str().unwrap();
    let breached = host.payload(run, "cap.breached").await;
    let expected = json!({ "kind": "schema", "limit": 3, "observed": 4, "nodeId": "ask" });
    assert_eq!(breached, expected);
}

/// Accepted at registration by an earlier version.
#[tokio::test]
async fn a_stored_definition_over_the_call_bound_is_limited() {
    const WRONG: &[Says] = &[Says::Text("{\"valid\": 1}")];
    for says in [WRONG, &[WORDS]] {
        let model = Model::saying(says);
        let host = model.host().await;
        let mut more = shaped();
        more["nodes"][0]["config"]["maxAsks"] = json!(9);
        host.has_stored(&more).await;
        assert_eq!(host.get("/v1/workflows/verdict").await.json(), more);
        let (snapshot, _) = ran(&host, "verdict").await;
        assert_eq!(snapshot["error"]["code"], "envelope_invalid", "{snapshot}");
        assert_eq!(model.asked().len(), 3);
        let run = snapshot["runId"].as_str().unwrap();
        let breached = host.payload(run, "cap.breached").await;
        assert_eq!(
            (&breached["limit"], &breached["observed"]),
            (&json!(3), &json!(4))
        );
    }
}

#[tokio::test]
async fn the_protocols_own_definitions_go_these_ways() {
    let test = "the_protocols_own_definitions_go_these_ways";
    let Some(definitions) = fixtures::definitions(test) else {
        return;
    };
    const RESULT: Says = Says::Text("{\"result\": \"ok\"}");
    const FENCED: Says = Says::Text("```json\n{\"result\": \"ok\"}\n```");
    let cases: [(&str, &'static [Says], &str, &str); 8] = [
        (
            "recovery-applied",
            &[FENCED],
            "envelope.recovery.applied",
            "",
        ),
        (
            "refusal",
            &[Says::Refuses],
            "envelope.refusal",
            "envelope_refusal",
        ),
        (
            "retry-attempted",
            &[Says::Text("{"), GOOD],
            "envelope.retry.attempted",
            "",
        ),
        (
            "retry-exhausted",
            &[Says::Text("{")],
            "envelope.retry.exhausted",
            "envelope_invalid",
        ),
        (
            "truncated",
            &[Says::Cut("{"), GOOD],
            "envelope.truncated",
            "",
        ),
        (
            "truncation-cap-exhaustion",
            &[Says::Cut("{")],
            "envelope.retry.exhausted",
            "envelope_truncation_unrecoverable",
        ),
        (
            "nl-to-format-engaged",
            &[WORDS, WORDS, RESULT],
            "envelope.nlToFormat.engaged",
            "",
        ),
        ("", &[GOOD], "", ""),
    ];
    for (name, answers, event, code) in cases {
        let id = match name {
            "" => "conformance-phase4-nondet-tool".to_owned(),
            name => format!("conformance-envelope-{name}"),
        };
        let model = Model::saying(answers);
        let host = model.host().await;
        host.put(&[definitions[&id].clone()]).await;
        let (snapshot, events) = ran(&host, &id).await;
        let found = events.iter().filter(|found| found["type"] == event);
        assert_eq!(
            found.count(),
            usize::from(!event.is_empty()),
            "{id}: {events:?}"
        );
        let ended = snapshot["error"]["code"].as_str().unwrap_or_default();
        assert_eq!(ended, code, "{id}: {snapshot}");
    }
}

/// A copy of one of the protocol's definitions with another name: nothing depends on its id.
fn renamed(definition: &Value, id: &str) -> Value {
    let mut copy = definition.clone();
    copy["id"] = id.into();
    copy
}

#[tokio::test]
async fn replays_of_protocol_fixtures_match_without_model_calls() {
    let test = "replays_of_protocol_fixtures_match_without_model_calls";
    let Some(definitions) = fixtures::definitions(test) else {
        return;
    };
    for id in [
        "conformance-phase4-replay-divergence",
        "conformance-phase4-nondet-tool",
    ] {
        // Called once more, it would refuse.
        let model = Model::saying(&[GOOD, Says::Refuses]);
        let host = model.host().await;
        host.put(&[renamed(&definitions[id], "asked-once")]).await;
        let (snapshot, _) = ran(&host, "asked-once").await;
        assert_eq!(snapshot["status"], "completed", "{id}: {snapshot}");
        let given = &snapshot["nodeStates"]["structured-call"]["outputs"]["json"];
        assert_eq!(*given, json!({ "valid": true }), "{id}");
        let source = snapshot["runId"].as_str().unwrap();
        let replay = json!({ "mode": "replay", "fromSeq": 0 });
        let made = host.post(&format!("/v1/runs/{source}:fork"), &replay).await;
        assert_eq!(made.status, 201, "{id}: {}", made.json());
        let replay = made.json()["runId"].as_str().unwrap().to_owned();
        crate::schemas::check_log(&host, &replay).await;
        let told = |events: Vec<Value>| -> Vec<Value> {
            let of = |event: &Value| json!([event["type"], event["nodeId"], event["payload"]]);
            events.iter().map(of).collect()
        };
        assert_eq!(
            told(host.events(&replay).await),
            told(host.events(source).await),
            "{id}"
        );
        assert_eq!(model.asked().len(), 1, "{id}: the replay asked nobody");
    }
}
