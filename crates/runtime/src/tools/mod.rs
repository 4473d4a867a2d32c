//! MCP clients: the configured servers, and sessions with them.
//!
//! The protocol itself is implemented by the official SDK (`rmcp`). The transports are ours:
//! requests go through the guarded [`crate::outbound`], processes are started by the supervisor and
//! end with the engine. A session lasts for one attempt.

mod http;
mod options;
mod session;
mod stdio;

pub(crate) use options::ServerEntry;
pub use options::{TenantTools, ToolServer, ToolServers};
pub(crate) use session::{Session, ToolAnswer, patience_over};
