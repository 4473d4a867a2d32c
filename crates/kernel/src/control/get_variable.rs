//! `core.getVariable`: reads a variable of the run.
//!
//! Config `{ "name": "x", "default": … }` (or `variableName`). Outputs: `value`, and the same by
//! the variable's name. The value of an unset variable is the default, else null.

use serde_json::{Map, Value};

use super::{
    Began, Context, ControlNode, Done, NAME_KEYS, PortSensitivity, Spec, misconfigured, setting,
    texts,
};
use crate::definition::config_keys::{TEXT, Takes};
use crate::definition::{Plan, PlanNode};

/// The node kind.
pub(crate) struct GetVariable;

const SPEC: Spec = Spec {
    type_id: "core.getVariable",
    summary: "Reads a variable.",
    config_keys: &[
        key!("name" | "variableName": TEXT, "The variable to read."),
        key!("default": Takes::Anything,
            "The value of a variable that was never set; default: null."),
    ],
    expects: Some((
        &NAME_KEYS,
        "fails when it starts: it needs `name`, the variable to read",
    )),
    ..Spec::DEFAULT
};

impl ControlNode for GetVariable {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        let name = texts(config, &NAME_KEYS).first()?.1.to_owned();
        Some(vec![name, "value".to_owned()])
    }

    fn reads<'c>(&self, config: &'c Value) -> Vec<(String, &'c str)> {
        if config.get("default").is_some() {
            return Vec::new();
        }
        texts(config, &NAME_KEYS)
    }

    fn sensitivity(&self, plan: &Plan, node: &PlanNode, _: &str) -> PortSensitivity {
        PortSensitivity::hidden_if(match node.config_text(NAME_KEYS) {
            Some(name) => plan.hides_variable(name),
            // The variable is only known at run time.
            None => plan.variables.iter().any(|variable| variable.sensitive),
        })
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let name = NAME_KEYS.iter().find_map(|key| setting(cx, key)?.as_str());
        let Some(name) = name else {
            return misconfigured(cx, "needs config.name, the variable to read");
        };
        let variables = cx.scope.root("variables");
        let value = variables
            .as_ref()
            .and_then(|variables| variables.get(name))
            .or_else(|| cx.node.config.get("default"))
            .cloned()
            .unwrap_or(Value::Null);
        let outputs = [
            (name.to_owned(), value.clone()),
            ("value".to_owned(), value),
        ];
        Began::Completed(Done {
            outputs: Map::from_iter(outputs),
            ..Done::default()
        })
    }
}
