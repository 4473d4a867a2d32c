//! Queues of tasks: their state, their events, commands of the runtime contract, and the requests
//! of workers. The contract is described in `docs/reference/workers.md`.

mod batch;
mod events;
mod openapi;
mod refusal;
mod stand;
mod work;

pub(crate) use openapi::schemas;
pub(crate) use refusal::refused;

use crate::problem::Problem;
use crate::route::{Cx, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    [stand::routes(), events::routes(), work::routes()]
        .into_iter()
        .flatten()
        .map(Route::closed)
        .collect()
}

/// How long a request may be held, in milliseconds.
const MAX_WAIT_MS: u64 = 25_000;

fn queue(cx: &Cx) -> String {
    cx.param("queue").to_owned()
}

/// A number of a body.
fn number(
    body: &serde_json::Map<String, serde_json::Value>,
    name: &'static str,
    range: std::ops::RangeInclusive<u64>,
    default: Option<u64>,
) -> Result<u64, Problem> {
    let (from, to) = (*range.start(), *range.end());
    let wrong = || Problem::invalid(format!("{name} must be a whole number from {from} to {to}"));
    match body.get(name) {
        None | Some(serde_json::Value::Null) => default.ok_or_else(wrong),
        Some(value) => value
            .as_u64()
            .filter(|n| range.contains(n))
            .ok_or_else(wrong),
    }
}

/// A text of a body.
fn text<'a>(
    body: &'a serde_json::Map<String, serde_json::Value>,
    name: &'static str,
    max: usize,
) -> Result<&'a str, Problem> {
    let found = body.get(name).and_then(serde_json::Value::as_str);
    found
        .filter(|text| text.len() <= max)
        .ok_or_else(|| Problem::invalid(format!("{name} must be a text of at most {max} bytes")))
}
