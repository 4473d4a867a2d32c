//! `core.setVariable`: sets variables of the run.
//!
//! Config `{ "name": "x", "value": … }` or `{ "name": "x", "expression": "<CEL>" }`, or `{
//! "variables": { "x": … } }`. An input port `value` overrides `config.value`.

use serde_json::{Map, Value};

use super::{Began, Context, Done, misconfigured, setting, without_value};
use crate::expr::Expression;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let config = &cx.node.config;
    let mut variables = Vec::new();
    if let Some(several) = config.get("variables").and_then(Value::as_object) {
        variables.extend(
            several
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    if let Some(name) = config.get("name").or_else(|| config.get("variableName")) {
        let Some(name) = name.as_str() else {
            return misconfigured(cx, "config.name must be a text");
        };
        let value = match config.get("expression").and_then(Value::as_str) {
            Some(text) => Expression::parse(text).and_then(|e| e.eval(cx.scope)),
            None => Ok(setting(cx, "value").cloned().unwrap_or(Value::Null)),
        };
        match value {
            Ok(value) => variables.push((name.to_owned(), value)),
            Err(error) => return without_value(cx, "config.expression", &error),
        }
    }
    if variables.is_empty() {
        return misconfigured(cx, "needs config.name with a value, or config.variables");
    }
    let outputs: Map<String, Value> = variables.iter().cloned().collect();
    Began::Completed(Done {
        outputs,
        variables,
        ..Done::default()
    })
}
