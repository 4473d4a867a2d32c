//! `core.conditional`: leaves by port `true` or `false`.
//!
//! Config `{ "expression": "<CEL>" }`. An edge names its port with `sourceOutput`; an edge without
//! one is always followed. Output: `result`.

use serde_json::{Map, Value};

use super::{Began, Context, Done, misconfigured, without_value};
use crate::expr::Expression;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let text = ["expression", "condition"]
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
