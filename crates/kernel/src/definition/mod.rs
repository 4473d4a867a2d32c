//! Workflow definitions: from bytes to a checked [`Plan`].
//!
//! [`json::parse`](crate::json::parse) reads the text, [`Definition::parse`] checks the shape of
//! the document, [`Plan::compile`] resolves every reference and checks the graph. Each step lists
//! all of its problems at once.

mod channel;
mod compile;
mod condition;
pub(crate) mod config_keys;
mod cycles;
mod document;
mod fitting;
mod graph;
mod loops;
mod parse;
mod plan;
mod reader;
mod sensitivity;
mod undeclared_channels;
mod upstream;
mod validation_mode;
mod variable;

pub use crate::control::ControlKind;
pub use channel::{Access, Channel, Reducer};
pub use compile::{NodeTypes, Reads, UnknownTypes, is_model_class};
pub use condition::Condition;
pub use config_keys::{ConfigKey, Takes};
pub use document::{
    Comparison, ConditionText, Definition, DocumentSettings, Edge, Node, NodeSettings, Port,
    Trigger, TriggerRule,
};
pub use fitting::{Misfit, Unit, mistimed};
pub use parse::FIELD_NAMES;
pub use plan::{
    Backoff, EdgeIx, LoopBody, NodeIx, NodeKind, OnFailure, Plan, PlanEdge, PlanNode, PortValue,
    RetryPolicy, Settings, Unmet,
};
pub use sensitivity::Sensitivity;
pub(crate) use variable::type_name;
pub use variable::{Type, Variable};

#[cfg(test)]
mod tests;
