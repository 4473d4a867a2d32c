//! Pure conversion between the kernel and its external representations for people and programs.
//!
//! - [`openwop`]: JSON of the OpenWOP protocol, one folder per major version.
//! - [`graph`]: a workflow, or a run of it, as a picture.
//! - [`player`]: workflow templates and the files of their sessions.
//! - [`provenance`]: execution snapshots: their content, comparison and retention.
//! - [`workbench`]: documents of browser apps, saved over the LLM Workbench REST API.
//! - [`transcript`]: an event as one line for a terminal.
//!
//! **Architecture invariant:** no HTTP, no storage, no clock. Every function here depends on its
//! arguments only, so that reading a run twice gives the same bytes, and none of them has side
//! effects.

pub mod coordinator;
pub mod graph;
mod mask;
pub mod openwop;
pub mod player;
pub mod provenance;
pub mod transcript;
pub mod workbench;

pub use mask::{Mask, apply_mask};
