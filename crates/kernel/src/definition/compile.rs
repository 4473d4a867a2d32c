//! From a definition to a plan: references resolved, the graph checked.

use serde_json::Value;

use super::document::Definition;
use super::plan::{NodeKind, Plan};
use crate::problem::{Problem, ProblemCode, Problems};

/// Which node types exist besides the kernel's own.
pub trait NodeTypes {
    /// Who carries out nodes of a type; `None` when the type does not exist.
    fn kind(&self, type_id: &str) -> Option<NodeKind>;

    /// Every type id there is, for suggestions.
    fn type_ids(&self) -> Vec<String>;

    /// What is wrong with a node's config, with paths into the config.
    fn check_config(&self, type_id: &str, config: &Value) -> Vec<Problem>;
}

/// What becomes of a definition that uses a node type that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTypes {
    /// It does not compile.
    Refuse,
    /// It compiles with a warning; the node counts as work and fails when it is reached.
    Warn,
}

impl Plan {
    /// Resolves every reference of a definition and checks its graph.
    ///
    /// # Errors
    /// Everything that is wrong, with paths into the document.
    pub fn compile(
        _definition: &Definition,
        _types: &dyn NodeTypes,
        _unknown: UnknownTypes,
    ) -> Result<Self, Problems> {
        Err(Problem::new("", ProblemCode::InvalidValue, "not built yet").into())
    }
}
