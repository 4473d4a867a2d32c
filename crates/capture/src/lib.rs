//! Records what a command does, so that it can be done again: its calls of models and tools, and
//! what becomes of its working folder.
//!
//! Reading order: [`recorder`] (what a call is and what answers it), [`proxy`] (how models' calls
//! come to it), [`tool`] (how tools' calls do), [`scan`] (what changed), [`run`](mod@run) (a command from
//! its start to its end), [`nodes`] (a workflow done again). What is written down about it all is a document of
//! `faces::provenance` ([`document`]); where it lies is decided by a [`Keep`](call::Keep).

pub mod asked;
pub mod attempts;
pub mod beside;
pub mod call;
pub mod clean;
mod dialect;
pub mod document;
pub mod elsewhere;
pub mod environment;
pub mod family;
pub mod folder_keep;
mod headers;
pub mod ignored;
pub mod judge;
pub mod knobs;
pub mod leash;
mod multipart;
pub mod nodes;
pub mod preload;
pub mod proxy;
pub mod recorder;
mod redirected;
pub mod run;
pub mod scan;
pub mod scratch;
pub mod stop;
pub mod tape;
pub mod tool;
mod upstream;

pub use dialect::Route;
