//! From JSON to a [`Definition`].

use serde_json::Value;

use super::document::Definition;
use crate::problem::{Problem, ProblemCode, Problems};

impl Definition {
    /// Checks the shape of a document.
    ///
    /// # Errors
    /// Everything that is wrong, with paths into the document.
    pub fn parse(_document: &Value) -> Result<Self, Problems> {
        Err(Problem::new("", ProblemCode::InvalidValue, "not built yet").into())
    }
}
