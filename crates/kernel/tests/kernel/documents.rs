//! Golden logs of documents: every build must read them and decide them in the same way.
//!
//! They are in `golden/v1/documents`: `NAME.jsonl` has the header and the blobs on its first line
//! and one event per further line; `NAME.state.json` is the folded state.

#![expect(
    clippy::disallowed_methods,
    reason = "golden logs lie in files; the kernel itself reads none"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::audit::Actor;
use kernel::digest::Digest;
use kernel::document::{
    Attribution, Audited, Body, Document, DocumentCommand, Expected, GateDecision, History, Save,
    Via,
};
use kernel::ids::TenantId;
use kernel::json;
use kernel::stream::{Owner, StreamHeader};
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000_000;

#[derive(Deserialize, Serialize)]
struct FirstLine {
    header: StreamHeader,
    /// Each is JSON text.
    blobs: Vec<String>,
}

/// A document that receives saves, and its log.
struct Scenario {
    document: Document,
    contents: Vec<Vec<u8>>,
    blobs: BTreeMap<Digest, Vec<u8>>,
}

impl Scenario {
    fn new() -> Self {
        let owner = Owner::tenant(TenantId::new("acme"));
        Self {
            document: Document::unborn("doc-golden".into(), owner, Timestamp(NOW)),
            contents: Vec::new(),
            blobs: BTreeMap::new(),
        }
    }

    fn tell(&mut self, command: DocumentCommand) {
        let told = Attribution {
            by: Actor::new("ann"),
            audited: Audited::Saves,
        };
        let at = Timestamp(NOW + 1_000 * self.contents.len() as i64);
        let decided = self.document.decide(command, &told, at).expect("it fits");
        assert_eq!(decided.batch.outbox().len(), 1, "the trail is told once");
        let blobs = decided.blobs.into_iter();
        self.blobs
            .extend(blobs.map(|blob| (Digest::compute(&blob), blob)));
        let records = decided.batch.records().iter();
        self.contents
            .extend(records.map(|record| record.content.clone()));
        self.document = decided.document;
    }

    fn save(&mut self, body: &Value, via: Via) {
        let body = Arc::new(Body::from_value(body.clone()).expect("a document"));
        self.tell(DocumentCommand::Save(Box::new(Save {
            body,
            text: None,
            via,
            expected: Expected::Anything,
        })));
    }
}

fn opened() -> Value {
    let step = |id: &str, policy: &str| json!({ "id": id, "gatePolicy": policy, "inputs": [], "outputs": [] });
    let gate = |before: &str| json!({ "before": before, "after": "approved", "checkpoints": {} });
    json!({
        "revision": 0,
        "run": {
            "id": "run_golden", "workflowId": "letter", "workflowVersion": 1, "status": "running",
            "workflowSnapshot": {
                "id": "letter", "version": 1, "title": "A letter",
                "steps": [step("write", "AUTO"), step("send", "CHECKPOINT")],
                "edges": [{ "id": "e", "from": "write", "to": "send" }],
            },
            "startedAt": "2027-01-15T08:00:00.000Z", "tags": ["blue"],
            "context": { "parentRunId": "run_parent" },
        },
        "trace": [], "artifactsByKey": [], "ruleSetsById": [["tone", { "id": "tone", "rules": [] }]],
        "stepStatus": [["write", "pending"], ["send", "pending"]],
        "gateState": [["write", gate("approved")], ["send", gate("pending")]],
        "idempotency": [],
    })
}

fn with(mut document: Value, kind: &str, more: Value) -> Value {
    let n = document["trace"].as_array().map_or(0, Vec::len);
    let mut event = json!({
        "id": format!("evt_{n}"), "type": kind, "runId": "run_golden",
        "ts": "2027-01-15T08:00:01.000Z",
    });
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    document["trace"]
        .as_array_mut()
        .expect("a trace")
        .push(event);
    document["revision"] = json!(n + 1);
    document
}

/// Every form of a save: opened, extended with and without a residual, data in a blob, a decision
/// made here and put back, a branch, an import, a cancellation.
fn letter() -> Scenario {
    let mut scene = Scenario::new();
    let first = opened();
    scene.save(&first, Via::Client);
    let mut written = with(first.clone(), "step_started", json!({ "stepId": "write" }));
    let artifact = json!({
        "artifactKey": "text", "typeId": "letter.v1", "version": 1,
        "createdAt": "2027-01-15T08:00:01.000Z", "data": "x".repeat(40_000),
    });
    let more = json!({ "stepId": "write", "artifact": artifact, "idempotencyKey": "k" });
    written = with(written, "artifact_written", more);
    let answer = json!({
        "stepId": "write", "direction": "response", "provider": "p", "model": "m",
        "usage": { "inputTokens": 7, "outputTokens": 3 }, "cost": { "amount": 0.5, "currency": "USD" },
    });
    written = with(written, "model_io", answer);
    written = with(
        written,
        "step_completed",
        json!({ "stepId": "write", "ok": true }),
    );
    written["artifactsByKey"] = json!([["text", artifact]]);
    written["idempotency"] = json!([["k", { "artifactKey": "text", "version": 1 }]]);
    written["stepStatus"][0][1] = json!("completed");
    scene.save(&written, Via::Client);
    // Data that is in no event.
    written["run"]["tags"] = json!(["blue", "late"]);
    written["run"]["metadata"] = json!({ "10": "ten", "9": 0.1 });
    scene.save(&written, Via::Client);
    let gate = json!({ "stepId": "send", "gate": "CHECKPOINT", "reason": "may we?" });
    let asked = with(written, "human_gate_requested", gate);
    scene.save(&asked, Via::Client);
    scene.tell(DocumentCommand::Decide {
        step: "send".into(),
        gate: "CHECKPOINT".into(),
        decision: GateDecision::Approved,
        note: None,
    });
    let noted = with(asked, "odd_kind", json!({ "text": "unknown" }));
    scene.save(&noted, Via::Client);
    // A client that knows only the beginning.
    scene.save(
        &with(first.clone(), "annotation", json!({ "text": "other" })),
        Via::Client,
    );
    scene.save(&first, Via::Import);
    scene.tell(DocumentCommand::Cancel {
        reason: Some("enough".into()),
    });
    scene
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/documents")
}

/// The state of a log.
fn state(history: &History, blobs: &BTreeMap<Digest, Vec<u8>>) -> Value {
    let document = history.document();
    let saves: Vec<Value> = document
        .saves()
        .iter()
        .map(|save| {
            let body = history
                .body(save.number, blobs)
                .expect("each save can be read again");
            json!({
                "number": save.number, "seq": save.seq, "at": save.at.to_string(),
                "revision": save.revision, "events": save.events, "via": save.via.as_str(),
                "by": save.by, "replaced": save.replaced, "putBack": save.put_back,
                "digest": body.digest(), "document": {
                    "run": body.derived.run, "trace": body.trace.len(),
                    "gates": body.derived.gates.iter().collect::<Vec<_>>(),
                    "steps": body.derived.steps.iter().collect::<Vec<_>>(),
                },
            })
        })
        .collect();
    let last = saves.len() as u64;
    let head = history.body(last, blobs).expect("the last save");
    let view: Vec<Value> = document
        .view()
        .events()
        .iter()
        .map(|event| json!({ "seq": event.0, "event": event.2 }))
        .collect();
    json!({
        "saves": saves, "index": document.index_with(&head), "view": view,
        "chain": document.chain(), "ended": document.view().has_ended(),
    })
}

#[test]
fn golden_documents_are_read_and_decided_as_they_were_written() {
    let scene = letter();
    let path = |ending: &str| folder().join(format!("letter.{ending}"));
    if std::env::var("RUNWRIGHT_GOLDEN").as_deref() == Ok("add") && !path("jsonl").exists() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("JSON");
        let first = FirstLine {
            header: scene.document.header().clone(),
            blobs: scene.blobs.values().map(|blob| text(blob)).collect(),
        };
        let mut log = serde_json::to_string(&first).expect("JSON") + "\n";
        for content in &scene.contents {
            log += &text(content);
            log.push('\n');
        }
        fs::create_dir_all(folder()).expect("a folder");
        fs::write(path("jsonl"), log).expect("a log");
    }
    let text = fs::read_to_string(path("jsonl")).expect("a golden log");
    let mut lines = text.lines();
    let first: FirstLine = serde_json::from_str(lines.next().expect("a line")).expect("a header");
    let blobs: BTreeMap<Digest, Vec<u8>> = first
        .blobs
        .into_iter()
        .map(|blob| (Digest::compute(blob.as_bytes()), blob.into_bytes()))
        .collect();
    let mut history = History::at_start(first.header);
    let mut written = Vec::new();
    for line in lines {
        history
            .fold_content(line.as_bytes())
            .expect("an event that folds");
        written.push(line.as_bytes().to_vec());
    }
    let state = state(&history, &blobs);
    if !path("state.json").exists() && std::env::var("RUNWRIGHT_GOLDEN").as_deref() == Ok("add") {
        let text = serde_json::to_string_pretty(&state).expect("JSON") + "\n";
        fs::write(path("state.json"), text).expect("a state");
    }
    let expected = fs::read_to_string(path("state.json")).expect("a golden state");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    assert_eq!(json::canonical(&state), json::canonical(&expected));
    // The same saves still give the same events.
    assert_eq!(scene.contents, written);
    assert_eq!(scene.document.chain(), history.document().chain());
    let opened = history.open(&blobs).expect("every blob is there");
    assert_eq!(opened.index(), scene.document.index());
}
