//! Child runs: started by outbox, told back by outbox.

use serde_json::{Map, Value};

use super::Decision;
use crate::control::sub_workflow::{OnChildFailure, SubWorkflow};
use crate::definition::NodeIx;
use crate::ids::{AttemptId, StreamId, child_stream};
use crate::limits::MAX_RUN_DEPTH;
use crate::run::budget;
use crate::run::cause::{Found, Start};
use crate::run::command::{Command, Create};
use crate::run::event::{ChildStatus, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::state::{NodeStatus, Phase};
use crate::stream::{DefinitionRef, Parent, Policy, StreamHeader, StreamKind};

impl Decision {
    /// The definition of a child was looked up: create the child, or fail the node.
    pub(super) fn dispatch_child(
        &mut self,
        attempt: &AttemptId,
        found: &Found,
    ) -> Result<(), Rejection> {
        let live = self.run.undispatched().find(|live| live.id == *attempt);
        let ix = live.map(|live| live.node).ok_or(Rejection::StaleAttempt)?;
        if !matches!(
            self.run.phase(),
            Some(Phase::Running | Phase::Draining { .. })
        ) {
            return Err(Rejection::StaleAttempt);
        }
        match found {
            Found::Not(error) => self.fail_attempt(ix, error.clone()),
            Found::Definition(definition) => self.create_child(ix, attempt, definition),
        }
        self.conclude();
        Ok(())
    }

    fn create_child(&mut self, ix: NodeIx, attempt: &AttemptId, definition: &DefinitionRef) {
        let plan = self.run.plan.clone();
        let config = SubWorkflow::of(&plan.node(ix).config);
        let header = self.run.header.clone();
        let depth = header.parent.as_ref().map_or(0, |parent| parent.depth) + 1;
        if depth > MAX_RUN_DEPTH {
            let error = NodeError::new(
                "run_depth_exceeded",
                format!(
                    "runs may start runs {MAX_RUN_DEPTH} deep; look for a workflow that starts itself"
                ),
            );
            return self.fail_attempt(ix, error.fatal());
        }
        if let Err(exhausted) = self.facts().budget.fits(&config.budget) {
            let error = NodeError::new(
                "budget_exhausted",
                format!(
                    "the child wants more {} than the {} the run may spend",
                    exhausted.dimension, exhausted.limit
                ),
            );
            return self.fail_attempt(ix, error.fatal());
        }
        let inputs = config.child_inputs(&self.facts().variables);
        let child = child_stream(header.root(), &attempt.node, attempt.visit, attempt.attempt);
        self.emit(RunEvent::NodeDispatched {
            node_id: attempt.node.clone(),
            visit: attempt.visit,
            child_run_id: child.clone(),
            child_workflow_id: definition.workflow.clone(),
            definition: definition.clone(),
            inputs: inputs.clone(),
            budget: config.budget.clone(),
        });
        let child_header = StreamHeader {
            stream: child.clone(),
            kind: StreamKind::Run,
            owner: header.owner.clone(),
            format: header.format,
            created_at: self.now,
            definition: Some(definition.clone()),
            origin: None,
            parent: Some(Parent {
                run: header.stream.clone(),
                node: attempt.node.clone(),
                visit: attempt.visit,
                depth,
            }),
            policy: Policy {
                queue: header.policy.queue.clone(),
                priority: header.policy.priority,
                budget: config.budget.clone(),
                ..Policy::default()
            },
            genesis: header.genesis,
            predecessor: None,
        }
        .seal_genesis();
        let create = Create::new(inputs, "run", Start::WhenClaimed);
        self.send(&child, Some(child_header), Command::Create(create));
        if !config.wait_for_completion {
            let outputs = child_outputs(&child, "pending", Map::new());
            self.complete(ix, outputs, None);
        }
    }

    pub(super) fn child_settled(&mut self, command: &Command) -> Result<(), Rejection> {
        let Command::ChildSettled {
            child,
            status,
            variables,
            outputs,
            error,
            spent,
        } = command
        else {
            return Err(Rejection::NoChild);
        };
        let known = self
            .facts()
            .children
            .get(child)
            .cloned()
            .ok_or(Rejection::NoChild)?;
        if known.status.is_some() {
            return Err(Rejection::Duplicate);
        }
        self.emit(RunEvent::ChildSettled {
            child_run_id: child.clone(),
            status: *status,
            variables: variables.clone(),
            outputs: outputs.clone(),
            error: error.clone(),
            spent: budget::countable(spent),
        });
        let ix = NodeIx(known.node);
        let waits = match &self.facts().nodes[ix.index()].status {
            NodeStatus::Dispatched { child: awaited, .. } => awaited == child,
            _ => false,
        };
        if !waits {
            return Ok(());
        }
        let plan = self.run.plan.clone();
        let config = SubWorkflow::of(&plan.node(ix).config);
        if *status == ChildStatus::Completed {
            for (name, next) in config.parent_variables(variables) {
                let node_id = Some(self.node_id(ix));
                self.emit(RunEvent::VariableChanged {
                    name,
                    next,
                    node_id,
                });
            }
        }
        let word = match status {
            ChildStatus::Completed => "completed",
            ChildStatus::Failed => "failed",
            ChildStatus::Cancelled => "cancelled",
        };
        let failed = *status != ChildStatus::Completed;
        if failed && config.on_child_failure == OnChildFailure::FailParent {
            let mut cause = NodeError::new("child_failed", format!("the child run has {word}"));
            cause.details = Some(serde_json::json!({ "childRunId": child, "error": error }));
            self.fail_attempt(ix, cause);
        } else {
            self.complete(ix, child_outputs(child, word, outputs.clone()), None);
        }
        self.conclude();
        Ok(())
    }

    /// Tells every child that still runs to stop.
    pub(super) fn cancel_children(&mut self, reason: &str) {
        let running: Vec<StreamId> = self
            .facts()
            .children
            .iter()
            .filter(|(_, child)| child.status.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for child in running {
            let reason = if reason == "run_failed" {
                "parent-failed"
            } else {
                "parent-cancelled"
            };
            self.cancel_child(&child, reason);
        }
    }

    /// Tells a child that nobody waits for it any more.
    pub(super) fn cancel_child(&mut self, child: &StreamId, reason: &str) {
        let command = Command::Cancel {
            reason: Some(reason.to_owned()),
            by: None,
            parent: Some(self.run.header.stream.clone()),
        };
        self.send(child, None, command);
    }
}

fn child_outputs(
    child: &StreamId,
    status: &str,
    outputs: Map<String, Value>,
) -> Map<String, Value> {
    Map::from_iter([
        ("childRunId".to_owned(), Value::from(child.as_str())),
        ("childStatus".to_owned(), Value::from(status)),
        ("outputs".to_owned(), Value::Object(outputs)),
    ])
}
