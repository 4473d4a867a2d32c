//! Documents that are nested as deep as allowed, through the real server.

use kernel::limits::MAX_DOCUMENT_DEPTH;
use serde_json::{Value, json};

use crate::saves::{Answer, ask, document, get};
use crate::serving::Serving;
use crate::support::*;

const PATH: &str = "/api/runs/run_deep";

/// Arrays and objects in turn.
fn nested(depth: usize) -> String {
    let (mut begin, mut end) = (String::new(), String::new());
    for level in 0..depth {
        let (open, close) = [("[", "]"), ("{\"a\":", "}")][level % 2];
        begin.push_str(open);
        end.insert_str(0, close);
    }
    format!("{begin}0{end}")
}

/// A run with values nested `extra` deeper than allowed: in the run, in an event and in an
/// artifact, which begin at these levels of the document.
fn deep(events: usize, extra: usize) -> String {
    let mut document = document("run_deep", "a", events);
    document["run"]["own"] = json!("@2");
    document["trace"][0]["own"] = json!("@3");
    let artifact = json!({
        "artifactKey": "tree", "typeId": "t", "version": 1,
        "createdAt": "2027-01-15T08:00:01.000Z", "data": "@4",
    });
    document["trace"][1] = json!({
        "id": "evt_tree", "type": "artifact_written", "runId": "run_deep", "stepId": "one",
        "ts": "2027-01-15T08:00:01.000Z", "artifact": artifact,
    });
    document["artifactsByKey"] = json!([["tree", artifact]]);
    let mut text = document.to_string();
    for around in [2, 3, 4] {
        let value = nested(MAX_DOCUMENT_DEPTH + extra - around);
        text = text.replace(&format!("\"@{around}\""), &value);
    }
    text
}

fn save(serving: &Serving, text: &str) -> Answer {
    ask(&serving.url, "PUT", PATH, text).expect("an answer")
}

fn without_limit(text: &str) -> Value {
    kernel::json::from_slice(text.as_bytes()).expect("JSON")
}

#[test]
fn documents_keep_values_512_deep_over_restarts() {
    let lab = Lab::new();
    let serving = Serving::at(&lab, "store", &["--dev"]);
    let texts = [deep(2, 0), deep(3, 0), deep(9, 0)];
    for text in &texts {
        let answer = save(&serving, text);
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    serving.kill();

    let serving = Serving::at(&lab, "store", &["--dev"]);
    for (place, text) in texts.iter().enumerate() {
        let answer = get(&serving, &format!("{PATH}?save={}", place + 1));
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(
            without_limit(&answer.body) == without_limit(text),
            "save {place}"
        );
    }
    let bundle = get(&serving, &format!("{PATH}/bundle"));
    assert_eq!(bundle.status, 200, "{}", bundle.body);
    let verified = ask(&serving.url, "POST", "/api/bundles/verify", &bundle.body).unwrap();
    assert_eq!(verified.status, 200, "{}", verified.body);
    let fork = json!({ "revision": 9 }).to_string();
    let forked = ask(&serving.url, "POST", &format!("{PATH}/fork"), &fork).unwrap();
    assert_eq!(forked.status, 201, "{}", forked.body);
    let id = without_limit(&forked.body)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for path in [
        format!("/api/runs/{id}"),
        format!("{PATH}/compare?fromSave=1&toSave=3"),
        format!("{PATH}/revisions"),
        "/api/runs?text=1".to_owned(),
        "/v1/runs/run_deep".to_owned(),
    ] {
        let answer = get(&serving, &path);
        assert_eq!(answer.status, 200, "{path} {}", answer.body);
        without_limit(&answer.body);
    }
    lab.call(&[
        "runs",
        "show",
        "run_deep",
        "--json",
        "--server",
        &serving.url,
    ])
    .with(0);
    serving.stop();
    lab.call(&["runs", "show", "run_deep", "--json", "--data", "store"])
        .with(0);
    lab.call(&["verify", "--data", "store"]).with(0);
}

#[test]
fn documents_deeper_than_512_are_refused_with_the_place() {
    let lab = Lab::new();
    let serving = Serving::at(&lab, "store", &["--dev"]);
    assert_eq!(save(&serving, &deep(2, 0)).status, 204);
    let mut text = deep(3, 0);
    // An event after those the server knows.
    let (known, last) = text.rsplit_once("\"direction\":").unwrap();
    let value = nested(MAX_DOCUMENT_DEPTH - 2);
    // The last bracket of the value.
    let column = 1 + known.len() + "\"own\":".len() + value.find("{\"a\":0").unwrap();
    text = format!("{known}\"own\":{value},\"direction\":{last}");
    let answer = save(&serving, &text);
    assert_eq!(answer.status, 400, "{}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["code"], "TOO_DEEP");
    let message = body["error"].as_str().unwrap();
    assert!(message.contains("nested more than 512 deep"), "{message}");
    assert!(
        message.contains(&format!("line 1, column {column}")),
        "{message} {column}"
    );
    serving.stop();
}
