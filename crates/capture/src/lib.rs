//! Records a command so that it can be replayed: its calls of models and tools, and the changes of
//! its working folder.
//!
//! Reading order: [`recorder`] (calls and their answers), [`proxy`] (calls of models), [`tool`]
//! (calls of tools), [`scan`] (changes of the folder), [`run`](mod@run) (a command from its start
//! to its end), [`nodes`] (a workflow replayed). The record is a document of `faces::provenance`
//! ([`document`]); a [`Keep`](call::Keep) decides its storage.

pub mod attempts;
pub mod call;
pub mod call_groups;
pub mod clean;
mod dialect;
pub mod document;
pub mod elsewhere;
pub mod environment;
pub mod folder_keep;
pub mod folder_metadata;
mod headers;
pub mod ignored;
pub mod judge;
pub mod model_params;
mod multipart;
pub mod nodes;
#[cfg(target_os = "linux")]
mod observer;
#[cfg(not(target_os = "linux"))]
#[path = "observer/elsewhere.rs"]
mod observer;
pub mod preload;
pub mod proxy;
pub mod recorder;
mod redirected;
pub mod replayer;
pub mod run;
pub mod scan;
pub mod scratch;
pub mod server_requests;
pub mod stop;
pub mod tool;
mod upstream;
pub mod wall;
pub mod watchdog;

pub use dialect::Route;
