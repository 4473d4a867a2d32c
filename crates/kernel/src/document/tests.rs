//! Sequences of saves, and the content that is kept of each.

mod put_back;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::audit::Actor;
use crate::ids::TenantId;
use crate::json;
use crate::limits;
use crate::usage::ModelUse;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// A document as a client records one, event by event.
fn opened() -> Body {
    let steps = json!([
        { "id": "draft", "gatePolicy": "AUTO", "inputs": [], "outputs": [] },
        { "id": "review", "gatePolicy": "PAUSE_AFTER", "inputs": [], "outputs": [] },
    ]);
    let edges = json!([{ "id": "e", "from": "draft", "to": "review" }]);
    let workflow = json!({ "id": "letter", "version": 2, "steps": steps, "edges": edges });
    let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
    Body::from_value(json!({
        "revision": 0,
        "run": {
            "id": "run_a", "workflowId": "letter", "workflowVersion": 2, "status": "running",
            "workflowSnapshot": workflow, "startedAt": "2027-01-15T08:00:00.000Z",
            "tags": ["blue"],
        },
        "trace": [], "artifactsByKey": [], "ruleSetsById": [], "idempotency": [],
        "stepStatus": [["draft", "pending"], ["review", "pending"]],
        "gateState": [["draft", gate], ["review", gate]],
    }))
    .unwrap()
}

fn then(mut body: Body, kind: &str, more: Value) -> Body {
    let n = body.trace.len();
    let mut event = json!({
        "id": format!("evt_{n}"), "type": kind, "runId": "run_a", "ts": "2027-01-15T08:00:01.000Z",
    });
    event
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body.derived.fold(&event);
    body.trace.push(Arc::new(event));
    body.revision += 1;
    body
}

fn drafted() -> Body {
    let body = then(opened(), "step_started", json!({ "stepId": "draft" }));
    let artifact = json!({
        "artifactKey": "text", "typeId": "t", "version": 1, "createdAt": "x", "data": { "a": [1] },
    });
    let body = then(
        body,
        "artifact_written",
        json!({ "artifact": artifact, "idempotencyKey": "k" }),
    );
    let patch = json!([{ "op": "add", "path": "/a/-", "value": 2 }]);
    let patch = json!({ "artifactKey": "text", "fromVersion": 1, "toVersion": 2, "patch": patch });
    let body = then(body, "artifact_patch", patch);
    then(
        body,
        "step_completed",
        json!({ "stepId": "draft", "ok": true }),
    )
}

/// A step followed by a waiting gate.
fn reviewed() -> Body {
    let body = then(drafted(), "step_started", json!({ "stepId": "review" }));
    let gate = json!({ "stepId": "review", "gate": "PAUSE_AFTER", "reason": "look" });
    let body = then(body, "human_gate_requested", gate);
    then(
        body,
        "step_completed",
        json!({ "stepId": "review", "ok": true }),
    )
}

fn ann() -> Attribution {
    Attribution {
        by: Actor::new("ann"),
        audited: Audited::Decisions,
    }
}

/// A log in memory.
struct Log {
    document: Document,
    contents: Vec<Vec<u8>>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    /// One after each save.
    checkpoints: Vec<(Seq, Digest, Vec<u8>)>,
}

impl Log {
    fn new() -> Self {
        let owner = Owner::tenant(TenantId::new("acme"));
        Self {
            document: Document::unborn("doc-1".into(), owner, NOW),
            contents: Vec::new(),
            blobs: BTreeMap::new(),
            checkpoints: Vec::new(),
        }
    }

    fn tell(&mut self, command: DocumentCommand) -> Result<(), DocumentRejection> {
        let decided = self.document.decide(command, &ann(), NOW)?;
        for blob in decided.blobs {
            self.blobs.insert(Digest::compute(&blob), blob);
        }
        for digest in decided.batch.blobs() {
            assert!(self.blobs.contains_key(digest));
        }
        let records = decided.batch.records().iter();
        self.contents
            .extend(records.map(|record| record.content.clone()));
        assert_eq!(&decided.document.index(), decided.batch.index());
        self.document = decided.document;
        self.check();
        Ok(())
    }

    fn save(&mut self, body: &Body) -> Result<(), DocumentRejection> {
        self.save_if(body, Expected::Anything)
    }

    fn save_if(&mut self, body: &Body, expected: Expected) -> Result<(), DocumentRejection> {
        let (body, via) = (Arc::new(body.clone()), Via::Client);
        self.tell(DocumentCommand::Save(Box::new(Save {
            body,
            text: None,
            via,
            expected,
        })))
    }

    /// Saves a document as received.
    fn save_text(&mut self, sent: &str) -> Result<(), DocumentRejection> {
        let mut value = serde_json::from_str(sent).unwrap();
        json::as_doubles(&mut value);
        self.tell(DocumentCommand::Save(Box::new(Save {
            body: Arc::new(Body::from_value(value).unwrap()),
            text: Text::of_sent(sent.as_bytes(), None),
            via: Via::Client,
            expected: Expected::Anything,
        })))
    }

    fn text(&self, number: u64) -> String {
        let text = self.history().text(number, &self.blobs).unwrap();
        String::from_utf8(text.as_ref().to_vec()).unwrap()
    }

    fn history(&self) -> History {
        let mut history = History::at_start(self.document.header().clone());
        for content in &self.contents {
            history
                .fold_content(content)
                .expect("it was written as it is read");
        }
        history
    }

    /// The fold of the log equals the state that a decision returned, also from any checkpoint.
    fn check(&mut self) {
        let state = self.document.checkpoint().expect("something was saved");
        let document = &self.document;
        self.checkpoints
            .push((document.next_seq(), document.chain(), state.clone()));
        let resumed = self.checkpoints.iter().map(|(seq, chain, state)| {
            let header = self.document.header().clone();
            let mut history = History::from_checkpoint(header, *seq, *chain, state).unwrap();
            for content in &self.contents[usize::try_from(*seq).unwrap()..] {
                history.fold_content(content).expect("it is as written");
            }
            history
        });
        for history in resumed.chain([self.history()]) {
            let read = history.open(&self.blobs).expect("every blob is there");
            assert_eq!(read.head(), self.document.head());
            assert_eq!(read.index(), self.document.index());
            assert_eq!(read.chain(), self.document.chain());
            assert_eq!(read.saves(), self.document.saves());
            assert_eq!(read.checkpoint().as_ref(), Some(&state));
        }
    }

    fn body(&self, number: u64) -> Body {
        self.history()
            .body(number, &self.blobs)
            .expect("a save can be read again")
    }

    fn head(&self) -> &Body {
        self.document.head().unwrap()
    }

    fn types(&self) -> Vec<String> {
        let types = self.contents.iter().map(|content| {
            let event: Value = serde_json::from_slice(content).unwrap();
            event["type"].as_str().unwrap().to_owned()
        });
        types.collect()
    }

    fn last_form(&self) -> Value {
        let saves = self
            .contents
            .iter()
            .map(|content| serde_json::from_slice::<Value>(content).unwrap());
        let mut saves = saves.filter(|event| event["type"] == "runwright.document.saved");
        saves.next_back().unwrap()["data"]["form"].take()
    }
}

#[test]
fn every_save_is_kept_as_a_difference_and_is_readable() {
    let whole = reviewed();
    let mut log = Log::new();
    let mut bodies = Vec::new();
    let mut body = opened();
    for event in &whole.trace {
        log.save(&body).unwrap();
        assert_eq!(
            log.last_form()["residual"],
            Value::Null,
            "the trace says everything"
        );
        bodies.push(body.clone());
        body.derived.fold(event);
        body.trace.push(event.clone());
        body.revision += 1;
    }
    assert_eq!(body, whole);
    log.save(&body).unwrap();
    bodies.push(body);
    for (number, body) in (1..).zip(&bodies) {
        assert_eq!(&log.body(number), body, "save {number}");
        assert_eq!(log.document.save_of(body.revision).unwrap().number, number);
    }
    let written: usize = log.contents.iter().map(Vec::len).sum();
    let copies: usize = bodies
        .iter()
        .map(|body| body.canonical().as_ref().len())
        .sum();
    assert!(written < copies, "{written} {copies}");
    assert!(log.blobs.is_empty());
}

/// A document as a client sends it, with unsorted members.
fn sent(revision: u64, events: &[&str]) -> String {
    let trace = events.join(",");
    format!(
        r#"{{"revision":{revision},"run":{{"workflowId":"letter","id":"run_a","status":"running","zeta":1.0,"alpha":[{{"y":1,"x":2}}]}},"trace":[{trace}],"artifactsByKey":[],"ruleSetsById":[],"stepStatus":[],"gateState":[],"idempotency":[]}}"#
    )
}

const FIRST: &str = r#"{"type":"annotation","id":"evt_0","text":"b\u00e4r","runId":"run_a"}"#;
const SECOND: &str = r#"{"text":"then","runId":"run_a","id":"evt_1","type":"annotation"}"#;

#[test]
fn members_keep_the_order_they_came_in() {
    let mut log = Log::new();
    let texts = [
        sent(0, &[]),
        sent(1, &[FIRST]),
        sent(2, &[FIRST, SECOND]),
        sent(2, &[SECOND]),
    ];
    for text in &texts {
        log.save_text(text).unwrap();
        assert_eq!(log.document.canonical().unwrap().as_ref(), text.as_bytes());
    }
    for (number, text) in (1..).zip(&texts) {
        assert_eq!(&log.text(number), text, "save {number}");
    }
    assert!(log.document.is_branch(3));
    assert_eq!(log.last_form()["as"], "edited");
    assert!(log.blobs.is_empty());
    // The same members in another order are the same document.
    let sorted = String::from_utf8(log.head().canonical().as_ref().to_vec()).unwrap();
    assert_eq!(log.save_text(&sorted), Err(DocumentRejection::Unchanged));
}

#[test]
fn texts_and_decisions_made_here_follow_each_other() {
    let mut log = Log::new();
    log.save_text(&sent(1, &[FIRST])).unwrap();
    log.tell(DocumentCommand::Cancel { reason: None }).unwrap();
    let cancelled = log.head().clone();
    assert_eq!(cancelled.derived.run["status"], "cancelled");
    // The client does not know it, and then has loaded it.
    log.save_text(&sent(2, &[FIRST, SECOND])).unwrap();
    assert_eq!(log.head().derived.run["status"], "cancelled");
    assert_eq!(log.head().trace.len(), 3);
    let loaded = String::from_utf8(log.head().canonical().as_ref().to_vec()).unwrap();
    let more = loaded.replace(r#""revision":3"#, r#""revision":4"#);
    log.save_text(&more).unwrap();
    assert_eq!(log.head().revision, 4);
}

#[test]
fn a_long_text_lies_in_a_blob() {
    let mut log = Log::new();
    let long = FIRST.replace("b\\u00e4r", &"x".repeat(limits::MAX_INLINE_TEXT_BYTES));
    let texts = [sent(1, &[&long]), sent(2, &[&long, SECOND])];
    log.save_text(&texts[0]).unwrap();
    assert_eq!(log.last_form()["as"], "whole");
    log.save_text(&texts[1]).unwrap();
    assert_eq!(log.last_form()["as"], "edited");
    assert_eq!(log.blobs.len(), 1);
    assert_eq!(log.text(1), texts[0]);
    assert_eq!(log.text(2), texts[1]);
}

#[test]
fn the_run_of_the_document_is_kept_next_to_the_saves() {
    let mut log = Log::new();
    log.save(&opened()).unwrap();
    log.save(&reviewed()).unwrap();
    log.tell(DocumentCommand::Decide {
        step: "review".into(),
        gate: "PAUSE_AFTER".into(),
        decision: GateDecision::Approved,
        note: None,
    })
    .unwrap();
    let done = then(
        log.head().clone(),
        "run_status_changed",
        json!({ "status": "completed" }),
    );
    log.save(&done).unwrap();
    let after = then(done, "span_ended", json!({ "spanId": "s" }));
    log.save(&after).unwrap();
    let saved = "runwright.document.saved";
    let expected = [
        "run.started",
        saved,
        saved,
        "node.started",
        "artifact.created",
        "node.completed",
        "node.started",
        "interrupt.requested",
        "node.completed",
        saved,
        "interrupt.resolved",
        saved,
        "run.completed",
        saved,
    ];
    assert_eq!(log.types(), expected);
    assert!(log.document.view().has_ended());
}

#[test]
fn the_same_document_again_writes_nothing() {
    let mut log = Log::new();
    log.save(&drafted()).unwrap();
    assert_eq!(log.save(&drafted()), Err(DocumentRejection::Unchanged));
}

#[test]
fn changes_without_an_event_are_kept_with_the_events() {
    let mut log = Log::new();
    log.save(&drafted()).unwrap();
    let mut edited = drafted();
    edited
        .derived
        .run
        .insert("tags".into(), json!(["red", "green"]));
    edited.derived.run.remove("startedAt");
    edited.derived.steps.set("draft".into(), json!("failed"));
    edited.derived.artifacts = Entries::default();
    log.save(&edited).unwrap();
    assert_eq!(log.last_form()["appended"], Value::Null);
    assert_eq!(log.body(2), edited);
    assert_eq!(log.document.index().tags, ["red", "green"]);
}

#[test]
fn the_last_writer_counts_and_the_other_is_a_branch() {
    let mut log = Log::new();
    log.save(&opened()).unwrap();
    let ours = then(opened(), "annotation", json!({ "text": "ours" }));
    let theirs = then(opened(), "annotation", json!({ "text": "theirs" }));
    log.save(&ours).unwrap();
    log.save(&theirs).unwrap();
    assert_eq!(*log.head(), theirs);
    assert!(log.document.is_branch(2) && !log.document.is_branch(3));
    assert_eq!(log.body(2), ours);
    assert_eq!(log.document.save_of(1).unwrap().number, 3);
    assert_eq!(log.document.index().summary["branches"], 1);
    assert_eq!(log.last_form()["as"], "whole");
    // A save that continues it is short again.
    let next = then(theirs, "annotation", json!({ "text": "more" }));
    log.save(&next).unwrap();
    assert_eq!(log.last_form()["as"], "extended");
    assert_eq!(log.body(4), next);
}

#[test]
fn a_stale_save_is_rejected_on_request() {
    let mut log = Log::new();
    log.save_if(&opened(), Expected::Nothing).unwrap();
    assert_eq!(
        log.save_if(&drafted(), Expected::Nothing),
        Err(DocumentRejection::Stale)
    );
    let digest = log.document.saves()[0].digest;
    log.save_if(&drafted(), Expected::Digest(digest)).unwrap();
    assert_eq!(
        log.save_if(&reviewed(), Expected::Digest(digest)),
        Err(DocumentRejection::Stale)
    );
    assert_eq!(
        log.save_if(&opened(), Expected::Continuation),
        Err(DocumentRejection::Stale)
    );
    log.save_if(&reviewed(), Expected::Continuation).unwrap();
}

fn decide(gate: &str, decision: GateDecision) -> DocumentCommand {
    DocumentCommand::Decide {
        step: "review".into(),
        gate: gate.into(),
        decision,
        note: None,
    }
}

#[test]
fn a_decision_made_here_is_put_back_onto_saves_that_lack_it() {
    let mut log = Log::new();
    let before = reviewed();
    log.save(&before).unwrap();
    assert_eq!(before.pending_gates().len(), 1);
    assert_eq!(before.pending_gates()[0].reason.as_deref(), Some("look"));
    assert_eq!(log.document.index().tags, ["blue", GATE_MARK]);
    log.tell(decide("PAUSE_AFTER", GateDecision::Approved))
        .unwrap();
    let made = log.head().trace.last().unwrap().clone();
    assert_eq!(
        log.head().derived.gates.get("review").unwrap()["after"],
        "approved"
    );
    assert!(log.head().pending_gates().is_empty());

    // The client does not know it and continues, twice.
    let mut body = before;
    for text in ["one", "two"] {
        body = then(body, "annotation", json!({ "text": text }));
        log.save(&body).unwrap();
        let head = log.head();
        assert_eq!(
            head.derived.gates.get("review").unwrap()["after"],
            "approved"
        );
        assert_eq!(head.revision, body.revision + 1);
        assert_eq!(head.trace.iter().filter(|event| **event == made).count(), 1);
        assert_eq!(log.last_form()["as"], "extended", "nobody lost anything");
        assert_eq!(log.save(&body), Err(DocumentRejection::Unchanged));
    }
    assert!(
        log.document
            .saves()
            .iter()
            .all(|save| save.replaced.is_none())
    );
    // It has loaded it meanwhile.
    let body = then(log.head().clone(), "annotation", json!({ "text": "three" }));
    log.save(&body).unwrap();
    assert_eq!(*log.head(), body);
    // Even an old save from the beginning does not lose it.
    log.save(&opened()).unwrap();
    assert!(log.head().trace.contains(&made));
}

#[test]
fn a_gate_is_decided_while_it_waits_and_a_rejected_one_waits_on() {
    let mut log = Log::new();
    let refused = |log: &mut Log, command| log.tell(command).unwrap_err();
    let approve = || decide("PAUSE_AFTER", GateDecision::Approved);
    assert_eq!(refused(&mut log, approve()), DocumentRejection::Unborn);
    log.save(&drafted()).unwrap();
    assert_eq!(refused(&mut log, approve()), DocumentRejection::NotPending);
    log.save(&reviewed()).unwrap();
    log.tell(decide("PAUSE_AFTER", GateDecision::Rejected))
        .unwrap();
    assert_eq!(log.head().pending_gates().len(), 1);
    log.tell(approve()).unwrap();
    assert_eq!(refused(&mut log, approve()), DocumentRejection::NotPending);
    assert_eq!(
        refused(&mut log, decide("PAUSE_BEFORE", GateDecision::Edited)),
        DocumentRejection::NotPending
    );
    let unknown = DocumentCommand::Decide {
        step: "nowhere".into(),
        gate: "PAUSE_AFTER".into(),
        decision: GateDecision::Approved,
        note: None,
    };
    assert_eq!(refused(&mut log, unknown), DocumentRejection::UnknownStep);
}

#[test]
fn a_cancellation_made_here_outlives_saves_that_do_not_know_it() {
    let mut log = Log::new();
    let running = then(opened(), "step_started", json!({ "stepId": "draft" }));
    log.save(&running).unwrap();
    let cancel = || DocumentCommand::Cancel {
        reason: Some("enough".into()),
    };
    assert_eq!(log.tell(cancel()), Err(DocumentRejection::StepRunning));
    log.save(&drafted()).unwrap();
    log.tell(cancel()).unwrap();
    assert_eq!(log.tell(cancel()), Err(DocumentRejection::NotRunning));
    let later = then(drafted(), "annotation", json!({ "text": "still here" }));
    log.save(&later).unwrap();
    assert_eq!(log.head().derived.run["status"], "cancelled");
    assert_eq!(log.document.index().status, "cancelled");
}

#[test]
fn large_data_of_artifacts_lies_in_blobs_once() {
    let artifact = json!({
        "artifactKey": "big", "typeId": "t", "version": 1, "createdAt": "x",
        "data": "x".repeat(limits::MAX_INLINE_ARTIFACT_BYTES),
    });
    let mut log = Log::new();
    log.save(&opened()).unwrap();
    let body = then(
        opened(),
        "artifact_written",
        json!({ "artifact": artifact }),
    );
    log.save(&body).unwrap();
    let mut again = artifact;
    again["version"] = json!(2);
    let body = then(body, "artifact_written", json!({ "artifact": again }));
    log.save(&body).unwrap();
    assert_eq!(log.blobs.len(), 1);
    assert!(log.contents.iter().all(|content| content.len() < 4_096));
    assert_eq!(log.body(3), body);
    let missing = log.history().open(&BTreeMap::new());
    assert!(missing.is_none(), "what is missing is not made up");
}

#[test]
fn unknown_events_and_odd_members_are_kept_and_counted() {
    let mut body = then(
        opened(),
        "moon_phase",
        json!({ "phase": 3, "x": { "y": [null] } }),
    );
    body.derived.run.insert("startedAt".into(), json!(17));
    body.derived.run.insert("tags".into(), json!("none"));
    body.derived
        .run
        .insert("own".into(), json!({ "deep": [1.5] }));
    let mut log = Log::new();
    log.save(&body).unwrap();
    assert_eq!(log.body(1), body);
    let index = log.document.index();
    assert_eq!(index.summary["unknownEvents"], 1);
    assert_eq!((index.created_at, index.tags.len()), (NOW, 0));
}

#[test]
fn a_patch_that_does_not_fit_leaves_the_rest_to_the_residual() {
    let body = drafted();
    let copy = json!([{ "op": "copy", "from": "/a", "path": "/b" }]);
    let wrong = json!([{ "op": "remove", "path": "/nothing" }]);
    for patch in [copy, wrong, json!("no patch")] {
        let more =
            json!({ "artifactKey": "text", "fromVersion": 2, "toVersion": 3, "patch": patch });
        let mut body = then(body.clone(), "artifact_patch", more);
        let artifact = body.derived.artifacts.get_mut("text").unwrap();
        artifact["version"] = json!(3);
        artifact["data"] = json!({ "as": "the client has it" });
        let mut log = Log::new();
        log.save(&body).unwrap();
        assert_eq!(log.body(1), body);
    }
}

#[test]
fn model_usage_is_summed_by_model_and_currency() {
    let answer = |cost: f64| {
        json!({
            "direction": "response", "provider": "p", "model": "m", "stepId": "draft",
            "usage": { "inputTokens": 10, "outputTokens": 5 },
            "cost": { "amount": cost, "currency": "usd" },
        })
    };
    let body = then(
        opened(),
        "model_io",
        json!({ "direction": "request", "model": "m" }),
    );
    let body = then(then(body, "model_io", answer(0.1)), "model_io", answer(0.2));
    let used = &body.model_use()["p/m"];
    let told = used.to_json();
    let expected = json!({
        "calls": 2, "inputTokens": 20, "outputTokens": 10, "totalTokens": 30,
        "cost": { "USD": 0.3 },
    });
    assert_eq!(told, expected);
    assert_eq!(ModelUse::from_json(&told).to_json(), told);
}

#[test]
fn canonical_json_is_that_of_the_whole_document() {
    let body = reviewed();
    let canonical = body.canonical();
    let bytes = canonical.as_ref();
    let value: Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(json::canonical(&value), *bytes);
    assert_eq!(Body::read(bytes), Some(body.clone()));
    assert_eq!(
        Body::from_value(value).map(Arc::new).as_deref(),
        Some(&body)
    );
}

#[test]
fn damaged_or_foreign_checkpoints_are_recognised() {
    let mut log = Log::new();
    log.save(&reviewed()).unwrap();
    let (seq, chain, state) = log.checkpoints.pop().unwrap();
    let resume = |seq, chain, state: &[u8]| {
        let header = log.document.header().clone();
        History::from_checkpoint(header, seq, chain, state).err()
    };
    assert_eq!(resume(seq, chain, &state), None);
    for at in 2..state.len() {
        let mut damaged = state.clone();
        damaged[at] ^= 1;
        assert_eq!(
            resume(seq, chain, &damaged),
            Some(Unusable::Damaged),
            "{at}"
        );
        assert_eq!(resume(seq, chain, &state[..at]), Some(Unusable::Damaged));
    }
    // For another length of the log, or for another log.
    assert_eq!(resume(seq + 1, chain, &state), Some(Unusable::Damaged));
    let other = Digest([7; 32]);
    assert_eq!(resume(seq, other, &state), Some(Unusable::Damaged));
    let later = [b"2 ", &state[2..]].concat();
    assert_eq!(resume(seq, chain, &later), Some(Unusable::OtherBuild));
    for none in [&b""[..], b" ", b"1", b"one "] {
        assert_eq!(resume(seq, chain, none), Some(Unusable::Damaged));
    }
}
