//! Work nodes: one file each, one line each in [`Registry::standard`].
//!
//! A work node executes one attempt of one visit of a node. It may have effects because its start
//! is durable: [`WorkNode::run`] takes a [`Started`], and only the driver makes one, after the
//! append of `node.started` has returned. How to add one: `docs/adding-a-node.md`.

mod called;
mod cost_emit;
mod fail;
mod http;
mod identity;
mod mcp;
mod model;
mod noop;
mod play;
mod process;
mod registry;
pub(crate) mod requires_missing;
mod secret_echo;
mod template;
mod transform;
mod worker;

use kernel::run::NodeError;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::ports::*;
pub use kernel::run::effects::ReceiverKey;
pub use play::{ARCHIVE, SESSIONS, paths as play_paths, result as play_result};
pub use process::{Cwd, ProcessHost};
pub use registry::Registry;

/// How often `core.ai.structuredOutput` calls a model by default.
pub const ASKS: u32 = model::ASKS;

/// The documented test providers of model nodes, for runs that request one.
pub const TEST_PROVIDERS: [&str; 4] = model::TEST_PROVIDERS;

pub(crate) use model::check_mock;

/// Parses the config of a node.
///
/// # Errors
/// `invalid_config`.
fn parsed<T: DeserializeOwned>(config: &Value) -> Result<T, NodeError> {
    T::deserialize(config)
        .map_err(|error| NodeError::new("invalid_config", error.to_string()).fatal())
}
