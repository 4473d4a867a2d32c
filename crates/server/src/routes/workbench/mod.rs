//! The LLM Workbench REST API: `/api/…`, with its own checks, limits and errors.
//!
//! After the rate limit and the credential each handler checks in this order: the run's id, the
//! body's size, its JSON, its structure, that its id equals that of the path, and then writes.

mod answer;
mod body;
mod bundles;
mod costs;
mod documents;
mod events;
mod gates;
mod history;
pub(crate) mod openapi;
mod query;
mod session;
mod tree;
pub(crate) mod view;

pub(crate) use answer::{envelope, refusal};
pub(crate) use session::admit_session;

use crate::route::Route;

/// The common prefix of this face's paths.
pub(crate) const ROOT: &str = crate::contract::WORKBENCH_ROOT;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    [
        openapi::routes(),
        documents::routes(),
        history::routes(),
        events::routes(),
        gates::routes(),
        tree::routes(),
        bundles::routes(),
        costs::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
