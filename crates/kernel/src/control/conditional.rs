//! `core.conditional`: leaves by port `true` or `false`.
//!
//! Config `{ "expression": "<CEL>" }`. An edge names its port with `sourceOutput`; an edge without
//! one is always followed. Output: `result`.

use serde_json::{Map, Value};

use super::{Began, Context, ControlNode, Done, Spec, misconfigured, owned, without_value};
use crate::definition::config_keys::TEXT;
use crate::expr::Expression;

/// The keys of the condition.
const KEYS: [&str; 2] = ["expression", "condition"];

/// The node kind.
pub(crate) struct Conditional;

const SPEC: Spec = Spec {
    type_id: "core.conditional",
    noun: "a conditional",
    summary: "Chooses the port that the run continues by.",
    config_keys: &[key!("expression" | "condition": TEXT,
            "CEL that gives true or false; it selects the port.")],
    ports: &["true", "false"],
    expressions: &KEYS,
    needs: Some((&KEYS, "needs `expression`, a text that gives true or false")),
    ..Spec::DEFAULT
};

impl ControlNode for Conditional {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&["result"]))
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let text = KEYS
            .iter()
            .find_map(|key| cx.node.config.get(key)?.as_str());
        let Some(text) = text else {
            return misconfigured(
                cx,
                "needs config.expression, a text that comes to true or false",
            );
        };
        match Expression::parse(text).and_then(|expression| expression.eval_bool(cx.scope)) {
            Ok(result) => Began::Completed(Done {
                outputs: Map::from_iter([("result".to_owned(), Value::Bool(result))]),
                port: Some(result.to_string()),
                ..Done::default()
            }),
            Err(error) => without_value(cx, "config.expression", &error),
        }
    }
}
