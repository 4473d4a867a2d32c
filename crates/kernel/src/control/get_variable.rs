//! `core.getVariable`: reads a variable of the run.
//!
//! Config `{ "name": "x", "default": … }` (or `variableName`). Outputs: `value`, and the same by
//! the variable's name. The value of an unset variable is the default, else null.

use serde_json::{Map, Value};

use super::{Began, Context, Done, misconfigured, setting};

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let name = ["name", "variableName"]
        .iter()
        .find_map(|key| setting(cx, key)?.as_str());
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
