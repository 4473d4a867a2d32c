//! The runs for golden files and schema checks.

use kernel::run::cause::Found;
use kernel::run::event::{DrainPolicy, OutputChannel};
use kernel::run::{ChannelWrite, Command, Completion, Create, NodeError, NodeStatus, Start, Usage};
use kernel::stream::DefinitionRef;
use serde_json::{Map, Value, json};

use crate::samples;
use crate::world::{World, definition, edge, node};

/// Every scenario by name.
pub(crate) fn all() -> Vec<(&'static str, World)> {
    vec![
        ("unborn", World::unborn(&letters())),
        ("pending", pending()),
        ("completed", completed()),
        ("retrying", retrying()),
        ("retried", retrying().fire().complete("print", json!({}))),
        ("stopping", stopping()),
        ("failed", failed()),
        ("looped", looped()),
        ("asked", asked()),
        ("answered", answered()),
        ("voted", voted()),
        ("approved", approved()),
        ("clarified", clarified()),
        ("delayed", delayed()),
        ("paused", paused()),
        ("dispatched", dispatched()),
        ("cancelled", cancelled()),
        ("secretive", secretive()),
    ]
}

/// Draft, then print unless it is too long; a refusal is posted when printing fails.
pub(crate) fn letters() -> Value {
    let mut print = node("print", "work.print", json!({}));
    print["settings"] = json!({
        "retry": { "maxRetries": 1, "backoff": { "initialMs": 500 } }
    });
    definition(
        "letters",
        json!([
            node("draft", "work.draft", json!({})),
            print,
            node("shorten", "work.shorten", json!({})),
            node("refuse", "work.refuse", json!({})),
            node(
                "count",
                "core.channelWrite",
                json!({ "channel": "pages", "value": 2 })
            ),
        ]),
        json!([
            edge(
                "draft",
                "print",
                json!({
                    "condition": { "type": "expression", "expression": "nodes.draft.outputs.pages < 3" }
                })
            ),
            edge(
                "draft",
                "shorten",
                json!({
                    "condition": { "type": "expression", "expression": "nodes.draft.outputs.pages >= 3" }
                })
            ),
            edge("print", "refuse", json!({ "triggerRule": "any_failed" })),
            edge("print", "count", json!({})),
        ]),
        json!({
            "variables": [
                { "name": "to", "type": "string", "required": true },
                { "name": "copies", "type": "number", "defaultValue": 1 },
            ],
            "channels": { "pages": { "reducer": "counter" } },
        }),
    )
}

fn pending() -> World {
    let mut create = Create::new(
        samples::object(json!({ "to": "Ada" })),
        "cli",
        Start::WhenClaimed,
    );
    create.tags = vec!["nightly".into()];
    create.metadata = samples::object(json!({ "ticket": "L-1" }));
    create.configurable = samples::object(json!({ "recursionLimit": 40 }));
    World::unborn(&letters()).tell(Command::Create(create))
}

fn drafted() -> World {
    let world = World::start(&letters(), json!({ "to": "Ada" }));
    let attempt = world.run.live_attempts().next().expect("a draft").id;
    world
        .tell(Command::Output {
            attempt,
            channel: OutputChannel::Text,
            chunk: "Dear Ada,".into(),
            is_last: true,
            meta: Some(json!({ "finishReason": "stop" })),
        })
        .complete_with(
            "draft",
            Completion {
                outputs: samples::object(json!({ "pages": 2 })),
                variables: samples::object(json!({ "copies": 2 })),
                channel_writes: vec![ChannelWrite {
                    channel: "pages".into(),
                    value: json!(1),
                }],
                usage: vec![Usage {
                    provider: "example".into(),
                    model: "m-1".into(),
                    input_tokens: 120,
                    output_tokens: 30,
                    cost_estimate_usd: Some(0.0125),
                    duration_ms: Some(900),
                    cache_read_tokens: None,
                    cache_write_tokens: None,
                }],
                ..Completion::default()
            },
        )
}

fn completed() -> World {
    drafted().complete("print", json!({ "sheets": 1 }))
}

fn jam() -> NodeError {
    NodeError::new("printer_jam", "the printer is jammed").with_details(json!({ "tray": 2 }))
}

fn retrying() -> World {
    drafted().fail("print", jam())
}

/// Two at once, and an unhandled failure.
fn two() -> Value {
    definition(
        "two",
        json!([
            node("left", "work.left", json!({})),
            node("right", "work.right", json!({})),
            node("after", "work.after", json!({})),
        ]),
        json!([
            edge("left", "after", json!({})),
            edge("right", "after", json!({})),
        ]),
        json!({}),
    )
}

fn stopping() -> World {
    World::start(&two(), json!({})).fail("left", jam().fatal())
}

fn failed() -> World {
    stopping().finish("right", kernel::run::Outcome::Stopped)
}

fn looped() -> World {
    let document = definition(
        "rounds",
        json!([
            node("each", "core.loop", json!({ "items": ["a", "b"] })),
            node("work", "work.one", json!({})),
            node(
                "after",
                "core.setVariable",
                json!({ "name": "done", "value": true })
            ),
        ]),
        json!([
            edge("each", "work", json!({ "sourceOutput": "body" })),
            edge("work", "each", json!({})),
            edge("each", "after", json!({ "sourceOutput": "done" })),
        ]),
        json!({}),
    );
    World::start(&document, json!({}))
        .complete("work", json!({ "seen": "a" }))
        .complete("work", json!({ "seen": "b" }))
}

fn asked() -> World {
    let document = definition(
        "ask-first",
        json!([
            node(
                "ask",
                "core.interrupt",
                json!({
                    "kind": "approval",
                    "timeoutMs": 60_000,
                    "data": {
                        "artifactId": "letter",
                        "artifactType": "text",
                        "title": "Send this letter?",
                        "actions": ["accept", "reject"],
                    },
                })
            ),
            node("send", "work.send", json!({})),
        ]),
        json!([edge("ask", "send", json!({}))]),
        json!({}),
    );
    World::start(&document, json!({}))
}

fn answered() -> World {
    let world = asked();
    let interrupt = world.run.facts().expect("facts").interrupts[0].id.clone();
    world
        .tell(Command::Resolve {
            interrupt,
            value: json!({ "action": "accept" }),
            by: Some("user-8".into()),
            capacity: Default::default(),
        })
        .complete("send", json!({}))
}

fn answer(world: World, by: &str, value: Value) -> World {
    let interrupt = world.run.facts().expect("facts").interrupts[0].id.clone();
    world.tell(Command::Resolve {
        interrupt,
        value,
        by: Some(by.into()),
        capacity: Default::default(),
    })
}

/// A gate with a vote and a question back.
fn voted() -> World {
    let document = definition(
        "gate",
        json!([
            node(
                "gate",
                "core.approvalGate",
                json!({
                    "title": "Send these letters?",
                    "actions": ["accept", "reject", "edit-accept", "ask"],
                    "requiredApprovals": 2,
                    "rejectionPolicy": "majority",
                    "artifactData": { "letters": 2 },
                })
            ),
            node("send", "work.send", json!({})),
        ]),
        json!([edge("gate", "send", json!({}))]),
        json!({}),
    );
    let world = World::start(&document, json!({}));
    let world = answer(
        world,
        "user-7",
        json!({ "action": "ask", "comment": "to whom?" }),
    );
    answer(world, "user-8", json!({ "action": "accept" }))
}

fn approved() -> World {
    let edited = json!({ "action": "edit-accept", "editedArtifactData": { "letters": 1 } });
    answer(voted(), "user-9", edited).complete("send", json!({}))
}

fn clarified() -> World {
    let document = definition(
        "questions",
        json!([node(
            "ask",
            "core.clarificationGate",
            json!({ "questions": [{ "id": "paper", "question": "Which paper?" }] })
        )]),
        json!([]),
        json!({}),
    );
    let world = World::start(&document, json!({}));
    answer(
        world,
        "user-8",
        json!({ "answers": [{ "id": "paper", "answer": "blue" }] }),
    )
}

fn delayed() -> World {
    let document = definition(
        "wait",
        json!([node("wait", "core.delay", json!({ "ms": 5_000 }))]),
        json!([]),
        json!({}),
    );
    World::start(&document, json!({}))
}

fn paused() -> World {
    World::start(&two(), json!({})).tell(Command::Pause {
        reason: Some("maintenance".into()),
        policy: DrainPolicy::Immediate,
    })
}

fn dispatched() -> World {
    let document = definition(
        "parent",
        json!([node(
            "post",
            "core.subWorkflow",
            json!({ "workflowId": "letters" })
        )]),
        json!([]),
        json!({}),
    );
    let world = World::start(&document, json!({}));
    let attempt = world.run.undispatched().next().expect("a dispatch").id;
    let world = world.tell(Command::Dispatch {
        attempt,
        found: Found::Definition(DefinitionRef {
            workflow: "letters".into(),
            version: "1.2.0".into(),
            digest: kernel::digest::Digest::compute(b"letters"),
            put_by: Default::default(),
        }),
    });
    let facts = world.run.facts().expect("facts");
    assert!(matches!(
        facts.nodes[0].status,
        NodeStatus::Dispatched { .. }
    ));
    world
}

fn cancelled() -> World {
    asked().tell(Command::Cancel {
        reason: Some("no longer needed".into()),
        by: Some(kernel::audit::Actor::new("user-7")),
        parent: None,
    })
}

/// Values that a definition declares sensitive and that are not sealed.
fn secretive() -> World {
    let mut open = node("open", "work.open", json!({}));
    open["outputSensitivity"] = json!({ "inside": true });
    let document = definition(
        "safe",
        json!([open]),
        json!([]),
        json!({
            "variables": [
                { "name": "pin", "type": "string", "sensitive": true },
                { "name": "owner", "type": "string" },
            ],
            "channels": { "found": { "reducer": "append", "sensitive": true } },
        }),
    );
    World::start(&document, json!({ "pin": "canary-1234", "owner": "Ada" })).complete_with(
        "open",
        Completion {
            outputs: samples::object(json!({ "inside": "canary-gold", "weight": 3 })),
            channel_writes: vec![ChannelWrite {
                channel: "found".into(),
                value: json!("canary-gold"),
            }],
            variables: Map::new(),
            ..Completion::default()
        },
    )
}
