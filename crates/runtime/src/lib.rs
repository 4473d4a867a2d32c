//! The imperative shell of the kernel: the one door, leases, the worker, ports, the process
//! supervisor and the work nodes.
//!
//! Reading order: [`door`] (load, fold, decide, append), [`engine`] (one process), `drive` (one
//! run), [`nodes`] (one attempt). Separately [`access`]: authorisation.

pub mod access;
pub mod api;
pub mod authority;
mod created_record;
pub mod definitions;
pub mod door;
mod drive;
pub mod engine;
pub mod erase;
pub mod executors;
pub mod hints;
pub mod holder;
pub mod keyring;
mod logs;
pub mod models;
pub mod named_file;
pub mod nodes;
pub mod outbound;
mod output_progress;
pub mod plans;
mod ports;
pub mod private;
pub mod programs;
pub mod redact;
mod run_redactor;
mod schema_words;
mod seal;
pub mod secrets;
pub mod servers;
mod sinks;
pub mod supervisor;
mod tail;
pub mod telemetry;
mod toml_words;
pub mod tools;
mod trace_context;
pub mod webhooks;

pub use door::{Done, Door, DoorError, ForkFailed, ForkSpec, Forked, RegistryError};
pub use engine::{Engine, EngineOptions, NewRun, Scope};
pub use plans::{PlanError, Prepared};
