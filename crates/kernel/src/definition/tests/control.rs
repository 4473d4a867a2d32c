//! Configs of control nodes, and the source ports of their edges.

use serde_json::{Value, json};

use super::{check, check_warnings, node};

/// A conditional (or another control node) followed by a step.
fn choosing(type_id: &str, config: Value, output: Option<&str>) -> Value {
    let mut first = node("first", type_id);
    first["config"] = config;
    let mut edge = json!({ "id": "e", "sourceNodeId": "first", "targetNodeId": "then" });
    if let Some(output) = output {
        edge["sourceOutput"] = json!(output);
    }
    super::with(&[
        ("/nodes", json!([first, node("then", "core.noop")])),
        ("/edges", json!([edge])),
    ])
}

fn conditional(output: Option<&str>) -> Value {
    choosing("core.conditional", json!({ "expression": "true" }), output)
}

#[test]
fn an_edge_leaves_a_conditional_by_one_of_its_ports() {
    for port in ["true", "false", "result"] {
        check_warnings(&conditional(Some(port)), &[]);
    }
    check(
        &conditional(Some("trve")),
        &[
            "/edges/0/sourceOutput: invalid_value: a conditional has no port `trve`; it leaves by `true` or `false`; did you mean `true`?",
        ],
    );
    check_warnings(
        &conditional(None),
        &[
            "/edges/0: missing_field: is followed for both results of the conditional; set \
             `sourceOutput` to `true` or `false` to follow it for one",
        ],
    );
}

#[test]
fn a_control_node_that_can_do_nothing_is_a_problem() {
    check(
        &choosing(
            "core.conditional",
            json!({ "expresion": "true" }),
            Some("true"),
        ),
        &[
            "/nodes/0/config/expresion: unknown_field: the field `expresion` is not read; did you mean `expression`?",
            "/nodes/0/config: missing_field: needs `expression`, a text that gives true or false",
        ],
    );
    check(
        &choosing("core.setVariable", json!({ "value": 1 }), None),
        &[
            "/nodes/0/config: missing_field: needs `name` with `value` or `expression`, or `variables`",
        ],
    );
}

#[test]
fn unknown_control_node_config_is_reported() {
    check(
        &choosing("core.setVariable", json!({ "name": "x", "vaule": 1 }), None),
        &[
            "/nodes/0/config/vaule: unknown_field: the field `vaule` is not read; did you mean `value`?",
        ],
    );
    check_warnings(
        &choosing("core.delay", json!({ "ms": 5, "seconds": 1 }), None),
        &[
            "/nodes/0/config/seconds: unknown_field: the field `seconds` is not read; this node reads `ms`, `durationMs` or `delayMs`",
        ],
    );
}

#[test]
fn a_delay_has_one_duration() {
    let delay = |config| choosing("core.delay", config, None);
    check(&delay(json!({ "ms": 5 })), &[]);
    for config in [json!({}), json!({ "seconds": 5 })] {
        check(
            &delay(config),
            &[
                "/nodes/0/config/ms: invalid_value: has no duration: set `ms` to the milliseconds \
                 to wait, or bind an input `ms`",
            ],
        );
    }
    check(
        &delay(json!({ "ms": 10, "durationMs": 20 })),
        &["/nodes/0/config/durationMs: invalid_value: the duration is given twice; keep one key"],
    );
    let mut bound = delay(json!({}));
    bound["nodes"][0]["inputs"] = json!({"delayMs": {"type": "static", "value": 5}});
    check(&bound, &[]);
}

#[test]
fn a_set_variable_with_nearly_a_declared_name_is_a_warning() {
    let mut document = choosing(
        "core.setVariable",
        json!({ "name": "naem", "value": 1 }),
        None,
    );
    document["variables"] = json!([{"name": "name", "type": "string"}]);
    check_warnings(
        &document,
        &["/nodes/0/config/name: unknown_reference: unknown variable `naem`; did you mean `name`?"],
    );
    document["nodes"][0]["config"]["name"] = json!("other");
    check_warnings(&document, &[]);
}
