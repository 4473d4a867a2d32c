//! Questions, answers and signals.

use kernel::run::event::{DrainPolicy, RunEvent};
use kernel::run::{Command, Create, Driving, End, Envelope, Event, Start};
use kernel::stream::Policy;
use serde_json::{Map, Value, json};

use crate::flow;
use crate::world::{World, started};

const ASK: &str = "ask: core.interrupt {\"config\":{\"kind\":\"custom\",\"key\":\"go\",\
                   \"data\":{\"customKind\":\"q\"},\"timeoutMs\":100}}\nask -> b";
const ANSWERED: &str =
    "interrupt.resolved ask = true; node.resumed ask; node.completed ask; node.started b";

/// A start in the log would mean that work may have begun, and it has not.
#[test]
fn an_outside_answer_leaves_work_to_the_driver() {
    let mut run = started("q: core.interrupt {\"config\":{\"key\":\"k\"}}\nq -> a");
    let signal = Command::Signal {
        name: "k".into(),
        id: "1".into(),
        payload: json!({}),
    };
    let envelope = Envelope {
        driving: Driving::Elsewhere,
        ..signal.into()
    };
    let events = run.when(envelope).decided();
    let is_start = |event: &Event| matches!(event.body, RunEvent::NodeStarted { .. });
    assert!(!events.iter().any(is_start), "{events:?}");
    assert_eq!(run.run.live_attempts().count(), 0);
    run.advance().then("node.started a");
    run.completes("a").then("node.completed a; run.completed");
}

#[test]
fn an_answer_lets_the_node_continue() {
    let mut run = started(ASK);
    assert_eq!(run.run.status().as_str(), "waiting-input");
    let interrupt = run.interrupt("ask");
    let events = run.resolve("ask", json!(true)).then(ANSWERED);
    assert!(matches!(
        &events[2].body,
        RunEvent::NodeCompleted { outputs, .. } if outputs["value"] == json!(true)
    ));
    assert!(run.timers.is_empty());
    run.when(Command::Resolve {
        interrupt,
        value: json!(false),
        by: None,
        capacity: Default::default(),
    })
    .refused("interrupt_already_resolved");
}

#[test]
fn a_signal_answers_by_key_and_counts_once() {
    let mut run = started(ASK);
    run.signal("other", "1", json!(0))
        .then("signal.received other 1");
    run.signal("go", "1", json!(true))
        .then(&format!("signal.received go 1; {ANSWERED}"));
    run.signal("go", "1", json!(true)).refused("duplicate");
    run.signal("go", "2", json!(true))
        .then("signal.received go 2");
}

#[test]
fn an_early_signal_waits_for_the_question() {
    let mut run = started(&format!("a -> ask\n{ASK}"));
    for id in ["1", "2"] {
        run.signal("go", id, json!(id))
            .then(&format!("signal.received go {id}"));
    }
    run.completes("a").then(
        "node.completed a; node.started ask; interrupt.requested ask; node.suspended ask; \
         interrupt.resolved ask = \"1\"; node.resumed ask; node.completed ask; node.started b",
    );
    let inbox = &run.run.facts().expect("facts").inbox;
    assert_eq!(inbox.waiting["go"].len(), 1, "the second still waits");
}

#[test]
fn questions_with_one_key_are_answered_in_order() {
    let mut run = started(
        "x: core.interrupt {\"config\":{\"key\":\"k\"}}\ny: core.interrupt {\"config\":{\"key\":\"k\"}}",
    );
    run.signal("k", "1", json!(1)).then(
        "signal.received k 1; interrupt.resolved x = 1; node.resumed x; \
         node.completed x",
    );
    run.signal("k", "2", json!(2)).then(
        "signal.received k 2; interrupt.resolved y = 2; node.resumed y; \
         node.completed y; run.completed",
    );
}

#[test]
fn a_question_without_an_answer_expires() {
    let mut run = started(ASK);
    run.next_timer()
        .then("node.failed ask interrupt_expired; run.failed interrupt_expired");

    let mut run = started(&format!("{ASK}\nask -> h any_failed"));
    run.next_timer()
        .then("node.failed ask interrupt_expired; node.skipped b; node.started h");
    run.signal("go", "1", json!(1)).then("signal.received go 1");
}

/// The node's own timeout used to leave its question open, so that a late answer completed a
/// node that was waiting for its next attempt.
#[test]
fn a_question_is_withdrawn_when_its_node_is_tried_again() {
    let mut run = started(
        "ask: core.interrupt {\"settings\":{\"timeout\":50,\
         \"retry\":{\"maxRetries\":1,\"initialDelayMs\":10}}}",
    );
    let first = run.interrupt("ask");
    run.next_timer()
        .then("node.retried ask/1 +10ms node_timeout");
    run.when(Command::Resolve {
        interrupt: first.clone(),
        value: json!(1),
        by: None,
        capacity: Default::default(),
    })
    .refused("interrupt_gone");
    run.next_timer()
        .then("node.started ask/1; interrupt.requested ask; node.suspended ask");
    assert_ne!(run.interrupt("ask"), first, "another question, another id");
    run.resolve("ask", json!(1))
        .then("interrupt.resolved ask = 1; node.resumed ask; node.completed ask/1; run.completed");
}

#[test]
fn only_signals_that_wait_fill_the_inbox() {
    let mut run = started(
        "head: core.loop {\"config\":{\"times\":3}}\nhead.body -> ask\n\
         ask: core.interrupt {\"config\":{\"key\":\"go\"}}\nask -> head",
    );
    for id in ["1", "2", "3"] {
        run.signal("go", id, json!(id)).decided();
    }
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn the_oldest_question_names_the_status() {
    let run = started(
        "x: core.interrupt {\"config\":{\"kind\":\"external-event\",\
         \"data\":{\"eventType\":\"e\",\"correlation\":{}}}}\n\
         y: core.interrupt {\"config\":{\"kind\":\"approval\"}}",
    );
    assert_eq!(run.run.status().as_str(), "waiting-external");
    assert_eq!(run.run.current_node().map(|id| id.as_str()), Some("x"));
}

/// The data of a node's question, or the code that it failed with.
fn asked(run: &World) -> Value {
    let facts = run.run.facts().expect("facts");
    match (facts.interrupts.first(), run.run.end()) {
        (Some(open), _) => open.data.clone(),
        (None, Some(End::Failed { error, .. })) => json!(error.code),
        (None, end) => panic!("nothing is asked: {end:?}"),
    }
}

#[test]
fn a_question_has_the_protocol_fields_of_its_kind() {
    let of = |data: &str| {
        let text = format!(
            "workflow: {{\"variables\":[{{\"name\":\"d\",\"type\":\"object\",\"defaultValue\":{data}}}]}}\n\
             q: core.interrupt {{\"config\":{{KIND}},\"inputs\":{{\"data\":{{\"type\":\"variable\",\"variableName\":\"d\"}}}}}}"
        );
        move |kind: &str| {
            asked(&started(
                &text.replace("KIND", &format!("\"kind\":\"{kind}\"")),
            ))
        }
    };
    // Input from a port is checked when it arrives.
    let event = json!({ "eventType": "paid", "correlation": { "n": 1 } });
    assert_eq!(of(&event.to_string())("external-event"), event);
    let custom = json!({ "customKind": "vote", "payload": [1] });
    assert_eq!(of(&custom.to_string())("custom"), custom);
    for (kind, data) in [
        ("external-event", json!({})),
        ("external-event", json!({ "eventType": "paid" })),
        (
            "external-event",
            json!({ "eventType": "", "correlation": {} }),
        ),
        (
            "external-event",
            json!({ "eventType": "paid", "correlation": 1 }),
        ),
        (
            "external-event",
            json!({ "eventType": "paid", "correlation": {}, "more": 1 }),
        ),
        ("custom", json!({})),
        ("custom", json!({ "customKind": "vote", "more": 1 })),
        ("clarification", json!({})),
        ("clarification", json!({ "questions": [] })),
        ("approval", json!({ "actions": ["dance"] })),
    ] {
        assert_eq!(
            of(&data.to_string())(kind),
            "invalid_config",
            "{kind} {data}"
        );
    }
    // Without data, a general question has its own kind; the others require data.
    let bare = |config: &str| {
        asked(&started(&format!(
            "q: core.interrupt {{\"config\":{config}}}"
        )))
    };
    assert_eq!(bare("{}"), json!({ "customKind": "q" }));
    assert_eq!(bare("{\"key\":\"go\"}"), json!({ "customKind": "go" }));
    assert_eq!(bare("{\"kind\":\"external-event\"}"), "invalid_config");
    assert_eq!(bare("{\"kind\":\"clarification\"}"), "invalid_config");
    assert_eq!(
        bare("{\"kind\":\"approval\"}")["actions"],
        json!(["accept", "reject"])
    );
}

#[test]
fn a_kind_that_comes_by_a_port_wins_over_the_config() {
    let given = |kind: &str, config: &str| {
        let mut run = started(&format!(
            "workflow: {{\"variables\":[{{\"name\":\"k\",\"type\":\"string\",\"defaultValue\":\"{kind}\"}}]}}\n\
             q: core.interrupt {{\"config\":{config},\
             \"inputs\":{{\"kind\":{{\"type\":\"variable\",\"variableName\":\"k\"}}}}}}"
        ));
        let asked = asked(&run);
        if let Some(open) = run.run.facts().and_then(|facts| facts.interrupts.first()) {
            assert_eq!(open.kind.as_str(), kind);
            run.when(Command::Cancel {
                reason: None,
                by: None,
                parent: None,
            })
            .decided();
        }
        asked
    };
    let event = r#"{"kind":"custom","data":{"eventType":"paid","correlation":{}}}"#;
    assert_eq!(given("external-event", event)["eventType"], "paid");
    assert_eq!(given("custom", event), "invalid_config");
    assert_eq!(
        given("approval", "{}")["actions"],
        json!(["accept", "reject"])
    );
    assert_eq!(given("zap", r#"{"kind":"approval"}"#), "invalid_config");
}

#[test]
fn an_impossible_question_is_rejected_at_registration() {
    for config in [
        json!({ "kind": "zap" }),
        json!({ "kind": 7 }),
        json!({ "kind": "low-confidence" }),
        json!({ "kind": "conversation.start", "data": { "conversationId": "c" } }),
        json!({ "kind": "external-event", "data": {} }),
        json!({ "kind": "custom", "data": {} }),
        json!({ "data": 1 }),
        json!({ "kind": "clarification", "data": { "questions": [{ "id": "n" }] } }),
        json!({ "kind": "approval", "data": { "actions": ["dance"] } }),
    ] {
        let text = format!("q: core.interrupt {{\"config\":{config}}}");
        let problems = flow::problems(&flow::document(&text)).to_string();
        assert!(
            problems.contains("/nodes/0/config/"),
            "{config}: {problems}"
        );
        // A stored one is read; a run of it fails there.
        let mut run = World::new(flow::stored(&text), Policy::default());
        let create = Create::new(Map::new(), "test", Start::Now);
        run.when(Command::Create(create)).decided();
        assert_eq!(asked(&run), "invalid_config", "{config}");
    }
}

const EVENT: &str = r#"wait: core.interrupt {"config":{"kind":"external-event","data":{"eventType":"paid",
    "correlation":{"order":"7","items":[1,{"n":2.0}]}},"timeoutMs":100}}"#;

#[test]
fn only_an_event_that_matches_is_taken() {
    let event = EVENT.replace('\n', "");
    let matching = json!({ "order": "7", "items": [1, { "n": 2 }], "more": true });
    for (value, code) in [
        (
            json!({ "order": "8", "items": [1, { "n": 2 }] }),
            "correlation_mismatch",
        ),
        (json!({ "order": "7" }), "correlation_mismatch"),
        (
            json!({ "order": "7", "items": [1, { "n": 2, "m": 3 }] }),
            "correlation_mismatch",
        ),
        (
            json!({ "eventPayload": { "order": "7" } }),
            "correlation_mismatch",
        ),
        (json!("7"), "correlation_mismatch"),
    ] {
        let mut run = started(&event);
        assert_eq!(run.run.status().as_str(), "waiting-external");
        run.resolve("wait", value).refused(code);
        assert_eq!(run.run.status().as_str(), "waiting-external");
    }
    for value in [matching.clone(), json!({ "eventPayload": matching })] {
        let mut run = started(&event);
        run.resolve("wait", value).decided();
        assert_eq!(run.run.status().as_str(), "completed");
    }
}

#[test]
fn an_event_that_does_not_match_is_kept_until_it_is_asked_for() {
    let mut run = started(&EVENT.replace('\n', ""));
    run.signal("wait", "1", json!({ "order": "8" }))
        .then("signal.received wait 1");
    run.signal(
        "wait",
        "2",
        json!({ "order": "7", "items": [1, { "n": 2 }] }),
    )
    .decided();
    assert_eq!(run.run.status().as_str(), "completed");
    let inbox = &run.run.facts().expect("facts").inbox;
    assert_eq!(
        inbox.waiting["wait"][0].id, "1",
        "the other one still waits"
    );
}

#[test]
fn an_answer_must_fit_its_schema() {
    let ask = r#"ask: core.interrupt {"config":{"resumeSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1}}}}}"#;
    for value in [
        json!(true),
        json!({}),
        json!({ "n": 0 }),
        json!({ "n": "secret-7" }),
    ] {
        let rejection = started(ask)
            .resolve("ask", value)
            .refused("invalid_resume_value");
        assert!(!rejection.to_string().contains("secret-7"), "{rejection}");
    }
    started(ask).resolve("ask", json!({ "n": 1 })).decided();
}

#[test]
fn a_late_answer_gets_the_reason() {
    let mut run = started(&format!("{ASK}\nask -> h any_failed"));
    let interrupt = run.interrupt("ask");
    run.next_timer().decided();
    run.when(Command::Resolve {
        interrupt,
        value: json!(true),
        by: None,
        capacity: Default::default(),
    })
    .refused("interrupt_expired");
}

/// The timer of a deadline may fire late: its run is paused, or has no holder. The answer is still
/// judged by the deadline.
#[test]
fn an_answer_after_the_deadline_does_not_count_before_expiry() {
    let asked = || {
        let mut run = crate::world::unborn(&format!("{ASK}\nask -> h any_failed"));
        let create = Create::new(Map::new(), "test", Start::Now);
        run.when(Command::Create(create)).decided();
        run
    };
    let mut run = asked();
    run.at(99)
        .resolve("ask", json!(true))
        .then(&format!("{ANSWERED}; node.skipped h"));

    let mut run = asked();
    run.at(100)
        .resolve("ask", json!(true))
        .refused("interrupt_expired");
    // A signal is kept for the next question of its name.
    run.signal("go", "1", json!(true))
        .then("signal.received go 1");
    run.next_timer()
        .then("node.failed ask interrupt_expired; node.skipped b; node.started h");

    let mut run = asked();
    run.pause(DrainPolicy::DrainCurrentNode)
        .then("run.paused drained");
    run.at(250)
        .resolve("ask", json!(true))
        .refused("interrupt_expired");
    run.signal("go", "1", json!(true))
        .then("signal.received go 1");
    run.resume().then("run.resumed");
    run.next_timer()
        .then("node.failed ask interrupt_expired; node.skipped b; node.started h");
}
