//! Execution snapshots: portable evidence of one execution, as a file.
//!
//! A snapshot has the shape of the schema in [`schema`]: the request, the settings, the results,
//! and the outcomes of replays. Additions are under `extensions` only. Its core never changes once
//! it is written: [`seal`] puts a hash over it, and only `replay_status` is outside of that hash.
//!
//! - [`document`], [`read`], [`seal`]: the types, the tolerant reader, and the hash over them.
//! - [`capture`]: the snapshot of a run, as a fold of its events; [`document_capture`]: of a run
//!   that a browser recorded.
//! - [`calls`]: the sidecar files of a snapshot: recorded calls, attempts to replay; [`chain`]: how
//!   their lines are chained.
//! - [`hash`], [`naming`], [`retention`]: hashes of texts and values, file names, and the retention
//!   rules.
//! - [`compare`]: compares two of them; [`export`]: converts one to other formats.
//! - [`ladder`]: derives the status of a comparison from its fields.
//!
//! Files, blobs, models and networks belong to the crate `provenance`.

pub mod calls;
pub mod capture;
pub mod chain;
pub mod compare;
pub mod document;
pub mod document_capture;
pub mod export;
pub mod hash;
pub mod ladder;
pub mod naming;
pub mod read;
pub mod retention;
pub mod schema;
pub mod seal;

#[cfg(test)]
mod tests;
