//! The routes, one file per group.

mod annotations;
mod artifacts;
mod audit;
mod bundle;
mod changes;
pub(crate) mod console;
pub(crate) mod coordinator;
pub(crate) mod costs;
mod create;
mod events;
mod expiry;
pub(crate) mod forks;
mod graphs;
mod health;
mod host;
pub(crate) mod interrupts;
mod keys;
pub(crate) mod runs;
mod snapshots;
mod steering;
pub(crate) mod v2;
mod webhooks;
pub(crate) mod workbench;
mod workflows;

use std::collections::HashSet;

use hyper::Method;

use crate::contract::Contract;
use crate::route::Route;

/// Every route.
pub fn all() -> Vec<Route> {
    let mut all: Vec<Route> = [
        host::routes(),
        health::routes(),
        workflows::routes(),
        create::routes(),
        runs::routes(),
        events::routes(),
        forks::routes(),
        graphs::routes(),
        changes::routes(),
        costs::routes(),
        keys::routes(),
        webhooks::routes(),
        interrupts::routes(),
        steering::routes(),
        audit::routes(),
        artifacts::routes(),
        annotations::routes(),
        bundle::routes(),
        expiry::routes(),
        snapshots::routes(),
        coordinator::routes(),
        workbench::routes(),
        v2::routes(),
        console::routes(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let newer = all.iter().filter(|route| route.contract == Contract::Two);
    let newer: HashSet<(Method, &str)> = newer
        .map(|route| (route.method.clone(), route.path))
        .collect();
    for route in &mut all {
        let path = route.path.strip_prefix("/v1");
        route.has_successor =
            path.is_some_and(|path| newer.contains(&(route.method.clone(), path)));
    }
    all
}
