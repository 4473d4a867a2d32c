//! The LLM Workbench REST API: documents that a browser app records and saves as a whole.
//!
//! [`document`] reads and checks client documents, [`bundle`] is the export form of runs,
//! [`compare`] the difference between two saves, [`list`] the rows of lists, and [`run_view`] a
//! document's run in OpenWOP's words.

pub mod bundle;
mod check;
pub mod compare;
pub mod document;
pub mod fork;
pub mod list;
mod payload_hash;
pub mod run_events;
pub mod run_view;
mod strip;
#[cfg(test)]
mod tests;
mod text;

use kernel::problem::Position;

/// An error in a client's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Bad {
    /// Stable, for programs.
    pub code: &'static str,
    /// For a person. Never repeats sent data.
    pub message: &'static str,
    /// The place in the sent data, if it is known.
    pub at: Option<Position>,
}

impl Bad {
    fn new(code: &'static str, message: &'static str) -> Self {
        Self {
            code,
            message,
            at: None,
        }
    }
}

fn bad<T>(code: &'static str, message: &'static str) -> Result<T, Bad> {
    Err(Bad::new(code, message))
}
