//! Conditions on edges.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{check, graph, plan};
use crate::expr::Scope;

struct Data(Value);

impl Scope for Data {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.0.get(name).map(Cow::Borrowed)
    }

    fn node(&self, id: &str) -> Option<Cow<'_, Value>> {
        self.0.get("nodes")?.get(id).map(Cow::Borrowed)
    }

    fn hides_channel(&self, name: &str) -> bool {
        name == "secret"
    }
}

fn document(condition: &Value) -> Value {
    let mut document = graph("a-b c", "a-b>c");
    document["edges"][0]["condition"] = condition.clone();
    document
}

/// Whether a condition holds; `None` when it fails.
#[track_caller]
fn holds(condition: Value, expected: Option<bool>) {
    let data = Data(json!({
        "variables": {"n": 1, "x": 1.0, "text": "abc", "list": [1, {"a": 2}], "empty": [], "no": false},
        "nodes": {"a-b": {"outputs": {"ok": true, "rows": [{"id": 7}]}}},
        "output": {"status": "done"},
        "channels": {},
    }));
    let plan = plan(&document(&condition));
    let condition = plan.edges[0].condition.as_ref();
    let holds = condition.and_then(|condition| condition.holds(&data).ok());
    assert_eq!(holds, expected);
}

/// A comparison reads an absent channel as `null` and fails on an unreadable one.
#[test]
fn a_channel_that_may_not_be_read_is_not_null() {
    for kind in ["equals", "notEquals", "contains", "regex"] {
        let compare = |left: &str| json!({"type": kind, "left": left, "right": "x"});
        holds(compare("channels.absent"), Some(kind == "notEquals"));
        holds(compare("channels.secret"), None);
        holds(compare("channels.secret.deep"), None);
    }
    for kind in ["truthy", "falsy"] {
        holds(json!({"type": kind, "left": "channels.secret"}), None);
    }
}

#[test]
fn comparisons() {
    let compare =
        |kind: &str, left: &str, right: Value| json!({"type": kind, "left": left, "right": right});
    holds(compare("equals", "variables.n", json!(1.0)), Some(true));
    holds(compare("equals", "variables.x", json!(1)), Some(true));
    holds(
        compare("equals", "variables.list", json!([1.0, {"a": 2}])),
        Some(true),
    );
    holds(
        compare("equals", "variables.gone.deep", json!(null)),
        Some(true),
    );
    holds(compare("notEquals", "variables.gone", json!(1)), Some(true));
    holds(compare("equals", "status", json!("done")), Some(true));
    holds(
        compare("equals", "nodes.a-b.outputs.rows.0.id", json!(7)),
        Some(true),
    );
    holds(
        compare("equals", "size(variables.list)", json!(2)),
        Some(true),
    );
    holds(
        compare("contains", "variables.text", json!("bc")),
        Some(true),
    );
    holds(
        compare("contains", "variables.list", json!({"a": 2.0})),
        Some(true),
    );
    holds(compare("contains", "output", json!("status")), Some(true));
    holds(compare("contains", "variables.n", json!(1)), Some(false));
    holds(
        compare("contains", "variables.gone", json!("x")),
        Some(false),
    );
    holds(
        compare("regex", "variables.text", json!("^a.c$")),
        Some(true),
    );
    holds(compare("regex", "variables.n", json!("1")), Some(false));
    holds(compare("equals", "variables.n / 0", json!(1)), None);
}

#[test]
fn truth() {
    let truthy = |left: &str| json!({"type": "truthy", "left": left});
    for left in [
        "variables.n",
        "variables.text",
        "variables.list",
        "output",
        "nodes.a-b.outputs.ok",
    ] {
        holds(truthy(left), Some(true));
        holds(json!({"type": "falsy", "left": left}), Some(false));
    }
    for left in [
        "variables.no",
        "variables.empty",
        "variables.gone",
        "null",
        "0.0",
        "''",
        "nodes.a-b.outputs.x.y",
    ] {
        holds(truthy(left), Some(false));
        holds(json!({"type": "falsy", "left": left}), Some(true));
    }
}

#[test]
fn expressions_are_strict() {
    let expression = |text: &str| json!({"type": "expression", "expression": text});
    holds(
        expression("variables.n == 1 && nodes['a-b'].outputs.ok"),
        Some(true),
    );
    holds(expression("has(variables.gone)"), Some(false));
    holds(expression("variables.gone"), None);
    holds(expression("variables.n"), None);
}

#[test]
fn invalid_conditions_are_reported() {
    check(
        &document(&json!({"type": "expression", "expression": "a-b == 1"})),
        &[
            "/edges/0/condition/expression: invalid_expression: `a` is not known; an expression reads variables, inputs, nodes, channels, run, item, output; for a variable write `variables.a`",
        ],
    );
    check(
        &document(&json!({"type": "regex", "left": "variables.x", "right": "["})),
        &[
            "/edges/0/condition/right: invalid_expression: the pattern cannot be read: unclosed character class",
        ],
    );
    check(
        &document(&json!({"type": "truthy", "left": "nodes.a.outputs.ok"})),
        &[
            "/edges/0/condition/left: unknown_reference: unknown node `a`; did you mean `c`? There \
             are `a-b`, `c`",
        ],
    );
    check(
        &document(&json!({"type": "truthy", "left": ""})),
        &[
            "/edges/0/condition/left: invalid_expression: at column 1: the expression is empty; write one, such as `variables.count > 3`",
        ],
    );
}
