//! Tools behind the Model Context Protocol: which servers there are, and how they are spoken to.
//!
//! The protocol itself is the official SDK's (`rmcp`). Ours is what lies below it: requests go
//! through the guarded [`crate::outbound`], processes are started by the supervisor and end with
//! the engine. A session lasts for one attempt.

mod http;
mod options;
mod session;
mod stdio;

pub(crate) use options::ServerEntry;
pub use options::{TenantTools, ToolServer, ToolServers};
pub(crate) use session::{Session, ToolAnswer, patience_over};
