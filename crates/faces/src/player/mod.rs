//! Workflow templates of coding agents, and the sessions that play them, as files on disk.
//!
//! A template ([`template`]) becomes a list of batches ([`plan`]) and then an ordinary workflow
//! definition ([`compile`]). A session is a run of it. The files in its folder, the session state
//! and a snapshot for each checkpoint, are a fold of the run's log ([`projection`]).
//!
//! The words of the files are those of the players that these templates were written for; our own
//! additions are under one key, `x_play`.

pub mod compile;
mod fields;
pub mod foreign;
pub mod names;
pub mod plan;
pub mod projection;
pub mod reference;
pub mod state;
pub mod template;
