//! The child runs that a control node starts, parsed once with its plan.

use super::dispatch::Dispatch;
use super::sub_workflow::SubWorkflow;
use crate::definition::PlanNode;

/// The child runs that a config starts.
#[derive(Clone, Debug, Default)]
pub(crate) enum Children {
    /// None.
    #[default]
    None,
    /// One of a workflow.
    One(SubWorkflow),
    /// Those of a decision.
    Workers(Dispatch),
}

impl PlanNode {
    /// The child run without the settings of a worker; `None` for a node that starts none.
    pub(crate) fn child(&self) -> Option<&SubWorkflow> {
        match &self.children {
            Children::None => None,
            Children::One(child) => Some(child),
            Children::Workers(dispatch) => Some(&dispatch.child),
        }
    }

    /// The child run of a worker, as if a sub-workflow node started it.
    pub(crate) fn worker(&self, id: &str) -> Option<SubWorkflow> {
        match &self.children {
            Children::Workers(dispatch) => Some(dispatch.worker(id)),
            _ => self.child().cloned(),
        }
    }

    /// The config of a dispatch node.
    pub(crate) fn dispatch(&self) -> Option<&Dispatch> {
        match &self.children {
            Children::Workers(dispatch) => Some(dispatch),
            _ => None,
        }
    }

    /// Whether its children end with this run.
    pub(crate) fn propagates_cancellation(&self) -> bool {
        self.child()
            .is_none_or(|child| child.propagates_cancellation)
    }
}
