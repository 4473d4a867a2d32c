//! The allowed values of the parameters of the protocol's routes. A test checks each bound against
//! the server.

use faces::openwop::v1::StreamMode;
use kernel::ENGINE_VERSIONS;
use kernel::run::InterruptKind;
use kernel::run::RunStatus;
use serde_json::{Value, json};

use crate::route::Route;

/// A parameter of a route.
pub(super) fn parameter(route: &Route, place: &str, name: &str, what: &str) -> Value {
    let mut parameter = json!({
        "in": place, "name": name, "description": what, "schema": schema(route, name),
    });
    if place == "query" && REQUIRED.contains(&(route.path, name)) {
        parameter["required"] = json!(true);
    }
    parameter
}

/// Required query parameters.
const REQUIRED: [(&str, &str); 3] = [
    ("/v1/runs/{runId}:diff", "against"),
    ("/v1/snapshots/{snapshotId}/comparison", "with"),
    ("/v1/test/runs/{runId}/expire", "token"),
];

fn schema(route: &Route, name: &str) -> Value {
    if !route.path.starts_with("/v1/") {
        return json!({ "type": "string" });
    }
    match (route.path, name) {
        ("/v1/runs", "limit") => whole(1, 500),
        ("/v1/interrupts", "limit") => whole(1, 100),
        (_, "limit") => whole(1, 1_000),
        (_, "wait_ms") => whole(0, 25_000),
        (_, "timeout") => whole(0, 60),
        (_, "bufferMs") => whole(0, 5_000),
        (_, "lastSequence" | "since" | "fromSeq" | "toSeq" | "maxEvents" | "before") => {
            whole(0, u64::MAX)
        }
        (_, "status") => json!({
            "type": "array", "maxItems": 16, "items": { "type": "string", "enum": RunStatus::ALL },
        }),
        (_, "kind") => json!({ "type": "string", "enum": InterruptKind::ALL }),
        (_, "streamMode") => json!({ "type": "string", "pattern": stream_modes() }),
        ("/v1/costs", "by") => one_of(&crate::routes::costs::GROUPS),
        (_, "createdAfter" | "createdBefore") => {
            json!({ "type": "string", "format": "date-time" })
        }
        (_, "attribute") => json!({
            "type": "array", "maxItems": 8,
            "items": { "type": "string", "maxLength": 512, "pattern": "^[^=]+=" },
        }),
        (_, "workflowId" | "tag" | "text" | "principal") => {
            json!({ "type": "string", "maxLength": 256 })
        }
        (_, "parentRunId" | "against") => {
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$" })
        }
        (_, "cursor") => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" }),
        (_, "strategy") => one_of(&["exact", "semantic", "structural"]),
        (_, "similarity") => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        (_, "fields") => json!({
            "type": "string",
            "pattern": "^(artifacts|tool_calls|none)(,(artifacts|tool_calls|none))*$",
        }),
        (_, "format") => one_of(&["prov-json", "openlineage", "bundle"]),
        (_, "X-Dedup") => one_of(&["enforce"]),
        (_, "X-Force-Engine-Version") => whole(
            u64::from(*ENGINE_VERSIONS.start()),
            u64::from(*ENGINE_VERSIONS.end()),
        ),
        (_, "Idempotency-Key") => json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
        _ => json!({ "type": "string" }),
    }
}

fn whole(from: u64, to: u64) -> Value {
    json!({ "type": "integer", "minimum": from, "maximum": to })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// One mode, or some that may be combined.
fn stream_modes() -> String {
    let alone = |mode: &StreamMode| matches!(mode, StreamMode::Values);
    let (alone, combined): (Vec<_>, Vec<_>) =
        StreamMode::ALL.iter().partition(|(_, mode)| alone(mode));
    let names = |modes: Vec<&(&'static str, StreamMode)>| {
        let names: Vec<&str> = modes.into_iter().map(|(name, _)| *name).collect();
        names.join("|")
    };
    let (alone, combined) = (names(alone), names(combined));
    format!("^({alone}|({combined})(,({combined}))*)$")
}
