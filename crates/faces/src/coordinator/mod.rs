//! The face of coordinators: the runtime contract of commands, events and snapshots, and the
//! files and texts of the program that published it.
//!
//! Words of this contract keep their authors' spelling: commands and most events in PascalCase
//! under `command` and `event`, six events with dots.

mod command;
mod event;
mod outcome;
mod overview;
mod published;
mod records;
mod schema;
mod snapshot;
mod task;
#[cfg(test)]
mod tests;

pub use command::CommandJson;
pub use event::EventJson;
pub use outcome::{Attempt, Outcome, Sight};
pub use overview::{OpenJson, Overview, OverviewJson, WorkerJson};
pub use published::{class, text};
pub use records::{DispatchRecord, MailRecord, Records};
pub use schema::{SCHEMA_VERSION, Schema, is_event, schema};
pub use snapshot::{
    AuthorityJson, BacklogJson, ReadinessJson, ReplayJson, SnapshotJson, snapshot_line,
};
pub use task::assignment;
