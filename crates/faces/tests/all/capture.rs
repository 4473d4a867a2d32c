//! Runs as execution snapshots.

use faces::Mask;
use faces::provenance::capture::{Captured, RunCapture};
use faces::provenance::hash::{hash_json, hash_text};
use faces::provenance::read;
use faces::provenance::seal::{check, seal};
use kernel::ids::NodeId;
use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus, ToolTransport};
use kernel::run::{Event, RunEvent, Usage};
use serde_json::{Value, json};

use crate::scenarios;
use crate::world::{World, definition, node};

fn captured(world: &World, log: &[Event], redact: &mut dyn FnMut(&mut Value)) -> Captured {
    let mut capture = RunCapture::default();
    for event in log {
        capture.take(Mask::from_plan(&world.run.plan), event, redact);
    }
    capture.build(&world.run).unwrap()
}

#[test]
fn every_run_is_a_valid_snapshot_and_the_same_one_twice() {
    for (name, world) in scenarios::all() {
        if world.log.is_empty() {
            continue;
        }
        let keep = &mut |_: &mut Value| {};
        let once = captured(&world, &world.log, keep);
        let sealed = seal(once.snapshot.clone(), keep).unwrap();
        let document = read::document(serde_json::to_value(&sealed).unwrap()).unwrap();
        assert_eq!(check(&document), [], "{name}");
        let again = captured(&world, &world.log, keep);
        assert_eq!(seal(again.snapshot, keep).unwrap(), sealed, "{name}");
        assert_eq!(
            sealed.config.model.id == "none",
            sealed.metrics.unwrap().iterations == Some(0)
        );
        let extensions = sealed.extensions.unwrap();
        let has_ended = extensions.run_status.as_deref() != Some("running");
        assert_eq!(sealed.outputs.response.is_some(), has_ended, "{name}");
    }
}

/// The events of a node that called two models and a tool.
fn log_of(world: &World) -> Vec<Event> {
    let node_id = NodeId::new("ask");
    let usage = |model: &str, output_tokens| RunEvent::ProviderUsage {
        usage: Usage {
            provider: "acme".into(),
            model: model.into(),
            input_tokens: 10,
            output_tokens,
            cost_estimate_usd: None,
            duration_ms: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
        },
        node_id: node_id.clone(),
        attempt: None,
    };
    let called = |call_id: &str, inputs: Value| {
        RunEvent::ToolCalled(ToolCalled {
            node_id: node_id.clone(),
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name: "shed.find".into(),
            call_id: call_id.into(),
            args_hash: hash_json(&inputs).trim_start_matches("sha256:").to_owned(),
            inputs: Some(inputs),
            transport: ToolTransport::Mcp,
            round: 1,
        })
    };
    let returned = RunEvent::ToolReturned(ToolReturned {
        node_id: node_id.clone(),
        visit: 0,
        attempt: 0,
        agent_id: String::new(),
        tool_name: "shed.find".into(),
        call_id: "c1".into(),
        status: ToolStatus::Ok,
        outcome: Some(json!("the rake of Ada")),
        error: None,
        duration_ms: Some(3),
    });
    let bodies = [
        usage("first-1", 5),
        called("c1", json!({ "who": "Ada" })),
        returned,
        called("c2", json!({ "who": "Bob" })),
        usage("second-2", 7),
    ];
    let mut log = world.log.clone();
    for body in bodies {
        let last = log.last().unwrap().clone();
        log.push(Event {
            seq: last.seq + 1,
            cause: None,
            body,
            ..last
        });
    }
    log
}

#[test]
fn of_several_models_the_one_that_answered_last_is_named() {
    let config = json!({ "systemPrompt": "Be brief.", "temperature": 0, "seed": 7, "maxTokens": 64,
                         "topP": 1.0, "stop": ["END"] });
    let document = definition(
        "shed",
        json!([node("ask", "work.ask", config)]),
        json!([]),
        json!({}),
    );
    let world = World::start(&document, json!({}));
    let captured = captured(&world, &log_of(&world), &mut |value| {
        let text = value.to_string().replace("Ada", "[REDACTED]");
        *value = serde_json::from_str(&text).unwrap();
    });
    let snapshot = captured.snapshot;
    let config = &snapshot.config;
    assert_eq!(
        (config.model.id.as_str(), config.model.provider.as_deref()),
        ("second-2", Some("acme"))
    );
    assert_eq!(
        (config.temperature, config.seed, config.max_tokens),
        (Some(0.0), Some(7), Some(64))
    );
    assert_eq!(config.system_prompt_hash, Some(hash_text("Be brief.")));
    let metrics = snapshot.metrics.unwrap();
    assert_eq!(
        (
            metrics.iterations,
            metrics.tokens_input,
            metrics.tokens_output
        ),
        (Some(2), Some(20), Some(12))
    );
    assert_eq!(metrics.tool_calls_count, Some(2));
    let models = &snapshot.extensions.unwrap().other["models"];
    assert_eq!(models.as_array().unwrap().len(), 2);
    let calls = snapshot.outputs.tool_calls.unwrap();
    // The hash covers the redacted value; a call in flight has no output.
    assert_eq!(
        calls[0].input_hash,
        Some(hash_json(&json!({ "who": "[REDACTED]" })))
    );
    assert_eq!(
        calls[0].output_hash,
        Some(hash_json(&json!("the rake of [REDACTED]")))
    );
    assert_eq!(calls[1].output_hash, None);
    assert_eq!(
        captured.calls[0].key_hash,
        calls[0].input_hash.clone().unwrap()
    );
    assert!(captured.bodies.iter().all(|body| !body.contains("Ada")));
    assert_eq!(captured.bodies.len(), 3);
}

#[test]
fn hidden_workflow_values_are_in_no_snapshot() {
    let mut scenarios = scenarios::all().into_iter();
    let (_, world) = scenarios.find(|(name, _)| *name == "secretive").unwrap();
    let captured = captured(&world, &world.log, &mut |_| {});
    let text = format!("{:?} {:?}", captured.snapshot, captured.bodies);
    assert!(!text.contains("canary"), "{text}");
    assert!(
        text.contains("[REDACTED]") && text.contains("Ada"),
        "{text}"
    );
}
