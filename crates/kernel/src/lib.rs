//! The pure core of Runwright.
//!
//! Every run is an append-only log of events; everything else is a fold of it. This crate holds
//! the rules: which events exist, what state they fold to, what a command makes of a state, how
//! a log is forked and re-decided, and how it is checked.
//!
//! **Architecture invariant:** nothing here performs IO, reads a clock, draws randomness or waits.
//! Time and outcomes come in as arguments ([`time::Timestamp`], [`run::Command`]); the only output
//! is a [`batch::Batch`] that the caller makes durable.
//!
//! Reading order: [`ids`], [`stream`], [`run`] (`event` -> `state` -> `fold` -> `decide`),
//! [`definition`], [`batch`], [`fork`], [`replay`].

pub mod audit;
pub mod batch;
pub mod check;
pub mod control;
pub mod coordinator;
pub mod definition;
pub mod delivery;
pub mod digest;
pub mod document;
pub mod expr;
pub mod fork;
pub mod ids;
pub mod json;
pub mod limits;
pub mod log;
pub mod notes;
pub mod problem;
pub mod recompute;
pub mod registry;
pub mod replay;
pub mod run;
pub mod sealed;
pub mod stream;
pub mod time;
pub mod trace;
pub mod usage;
mod words;

/// The version of this engine, as events and snapshots show it. A run persisted by a newer
/// engine is not driven by an older one.
pub const ENGINE_VERSION: u32 = 1;

/// The versions whose rules this engine knows. Version 2 is the next one: it decides as version 1
/// does until a rule changes, so that a forced version can be tested before there are two.
pub const ENGINE_VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
