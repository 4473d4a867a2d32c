//! HTTP over the command API.
//!
//! A tour: [`listen`] accepts connections and passes them to the router of `app`; each request goes
//! through `pipeline` (request id, credentials, scope, time limit, panics), one handler in
//! [`routes`], and, if it is rejected, [`problem`], the one table from an error to a status and an
//! envelope. This crate decides nothing: the kernel decides what a run may do, the runtime who may
//! ask for it.
//!
//! **Architecture invariant:** every route declares in the table of [`route::Route`] who may call
//! it; a route without that cannot be constructed.

pub mod admission;
mod app;
pub mod auth;
mod body;
mod contract;
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
mod pipeline;
pub mod problem;
mod recheck;
mod reply;
pub mod route;
pub mod routes;
mod session;
mod sse;
mod sunset;
mod token;
mod trace;
mod unread_body;
pub mod webhooks;
mod wire;

pub use app::{App, Phase, app};
pub use auth::Gate;
pub use limits::{Limits, Saves};
pub use routes::console::offline_page;
pub use webhooks::deliver_webhooks;
