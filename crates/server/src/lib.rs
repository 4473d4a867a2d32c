//! HTTP over the command API.
//!
//! A tour: [`listen`] takes connections and gives them to the router of `app`; each request
//! passes `pipeline` (identity of the request, credentials, scope, time, panics), one handler
//! in [`routes`], and, where it is refused, [`problem`], the one table from a refusal to a status
//! and an envelope. Nothing is decided here: what a run may do is the kernel's affair, who may
//! ask for it the runtime's.
//!
//! **Architecture invariant:** every route says in the table of [`route::Route`] who may call it;
//! there is no way to add one without.

pub mod admission;
mod app;
pub mod auth;
mod body;
mod cors;
mod discovery;
mod encode;
mod fixtures;
pub mod idempotency;
mod limits;
pub mod listen;
mod memory;
pub mod metrics;
mod openapi;
mod origin;
mod params;
mod pass;
mod pipeline;
pub mod problem;
mod reply;
mod rest;
pub mod route;
pub mod routes;
mod sse;
mod trace;
pub mod webhooks;
mod wire;

pub use app::{App, Phase, app};
pub use auth::Gate;
pub use limits::{Limits, Saves};
pub use webhooks::deliver_webhooks;
