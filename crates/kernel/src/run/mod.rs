//! Runs of workflows: events, commands, state, fold, decide.

pub mod cause;
pub mod command;
pub mod event;

pub use cause::{Cause, CausedBy, Found, Start};
pub use command::{ChannelWrite, Command, Completion, Create, Envelope, Outcome};
pub use event::{Artifact, Event, NodeError, RunEvent, Usage};
