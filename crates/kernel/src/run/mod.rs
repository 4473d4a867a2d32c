//! Runs of workflows: events, commands, state, fold, decide.

pub mod budget;
pub mod capacity;
pub mod cause;
pub mod channel;
pub mod command;
pub mod decide;
pub mod effects;
pub mod event;
pub mod fan;
pub mod fold;
pub mod index;
mod interrupt_kind;
pub mod message;
mod model_settings;
mod normalise_floats;
pub mod rejection;
pub mod report;
pub mod schedule;
pub(crate) mod scope;
mod size;
pub mod state;
mod status;

pub use capacity::Capacity;
pub use cause::{Cause, CausedBy, Driving, Found, Start};
pub use command::{ChannelWrite, Command, Completion, Create, Envelope, Outcome, Overlay};
pub use decide::{Decided, Refused, decide};
pub use event::{Artifact, CapKind, Event, NodeError, RunEvent, Usage};
pub use fold::BadEvent;
pub use index::{FORKING, RunIndex};
pub use interrupt_kind::InterruptKind;
pub use message::RunMessage;
pub use model_settings::ModelSettings;
pub use rejection::Rejection;
pub use report::Report;
pub use state::{End, Facts, Head, NodeStatus, Phase, Run, RunState};
pub use status::RunStatus;
