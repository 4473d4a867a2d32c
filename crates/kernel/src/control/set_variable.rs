//! `core.setVariable`: sets variables of the run.
//!
//! Config `{ "name": "x", "value": … }` or `{ "name": "x", "expression": "<CEL>" }`, or `{
//! "variables": { "x": … } }`. An input port `value` overrides `config.value`.

use serde_json::{Map, Value};

use super::{
    Began, Context, ControlNode, Done, NAME_KEYS, PortSensitivity, Spec, misconfigured, names,
    setting, texts, without_value,
};
use crate::definition::config_keys::{OBJECT, TEXT, Takes};
use crate::definition::{Plan, PlanNode};
use crate::expr::Expression;

/// The node kind.
pub(crate) struct SetVariable;

const SPEC: Spec = Spec {
    type_id: "core.setVariable",
    summary: "Sets variables.",
    config_keys: &[
        key!("name" | "variableName": TEXT, "The variable to set."),
        key!("value": Takes::Anything, "The new value."),
        key!("expression": TEXT, "CEL for the value instead."),
        key!("variables": OBJECT, "Several variables: values by name."),
    ],
    expressions: &["expression"],
    needs: Some((
        &["name", "variableName", "variables"],
        "needs `name` with `value` or `expression`, or `variables`",
    )),
    ..Spec::DEFAULT
};

impl ControlNode for SetVariable {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        let set = self.sets(config).into_iter();
        Some(set.map(|(_, name)| name.to_owned()).collect())
    }

    fn sets<'c>(&self, config: &'c Value) -> Vec<(String, &'c str)> {
        let mut set = names(config, "/variables");
        set.extend(texts(config, &NAME_KEYS));
        set
    }

    fn sensitivity(&self, plan: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        PortSensitivity::hidden_if(plan.hides_variable(port))
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
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
}
