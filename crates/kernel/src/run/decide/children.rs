//! Child runs: started and reported through the outbox.

use serde_json::{Map, Value};

use super::orchestrate::Step;
use super::{Decision, waits_in};
use crate::ENGINE_VERSION;
use crate::control::sub_workflow::{OnChildFailure, SubWorkflow};
use crate::definition::NodeIx;
use crate::ids::{AttemptId, Seq, StreamId, child_stream, worker_stream};
use crate::limits::MAX_RUN_DEPTH;
use crate::run::budget::{self, Amounts, Exhausted};
use crate::run::cause::{Found, Start};
use crate::run::command::{ChannelWrite, Command, Create};
use crate::run::event::{ChainPhase, ChildStatus, Ending, NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::state::{NodeStatus, Phase};
use crate::stream::{DefinitionRef, Parent, Policy, StreamHeader, StreamKind};
use crate::trace;

impl Decision {
    /// The definition of a child was looked up: creates the child, or fails the node.
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
            Found::Not(error) => self.refuse_child(ix, error.clone()),
            Found::Definition(definition) => self.create_child(ix, attempt, definition),
        }
        self.conclude();
        Ok(())
    }

    /// The node's child could not be created.
    fn refuse_child(&mut self, ix: NodeIx, error: NodeError) {
        let step = Step {
            error: Some(error.clone()),
            ..Step::default()
        };
        self.step(ix, ChainPhase::DispatchFailed, step);
        match self.fan(ix) {
            Some(_) => self.fan_on(ix),
            None => self.fail_attempt(ix, error),
        }
    }

    /// The config of the child that a node starts now.
    fn child_config(&self, ix: NodeIx) -> Option<SubWorkflow> {
        let node = self.run.plan.node(ix);
        match self.current_worker(ix) {
            Some((_, worker)) => node.worker(&worker),
            None => node.child().cloned(),
        }
    }

    fn create_child(&mut self, ix: NodeIx, attempt: &AttemptId, definition: &DefinitionRef) {
        let Some(config) = self.child_config(ix) else {
            return;
        };
        let header = self.run.header.clone();
        let depth = header.parent.as_ref().map_or(0, |parent| parent.depth) + 1;
        if depth > MAX_RUN_DEPTH {
            let error = NodeError::new(
                "run_depth_exceeded",
                format!(
                    "runs may start runs {MAX_RUN_DEPTH} deep; look for a workflow that starts itself"
                ),
            );
            return self.refuse_child(ix, error.fatal());
        }
        let (budget, part_of_budget) = match self.part_for_child(ix, &config.budget) {
            Ok(part) => part,
            Err(exhausted) => return self.refuse_child(ix, exhausted.error()),
        };
        let part_of_budget = part_of_budget || header.policy.part_of_budget;
        let inputs = self.run.child_inputs(ix);
        let worker = self.current_worker(ix).map(|(worker, _)| worker);
        let (node, visit) = (&attempt.node, attempt.visit);
        let child = match worker {
            Some(worker) => worker_stream(header.root(), node, visit, attempt.attempt, worker),
            None => child_stream(header.root(), node, visit, attempt.attempt),
        };
        self.emit(RunEvent::NodeDispatched {
            node_id: node.clone(),
            visit,
            child_run_id: child.clone(),
            child_workflow_id: definition.workflow.clone(),
            definition: definition.clone(),
            inputs: inputs.clone(),
            budget: budget.clone(),
        });
        let step = Step {
            child: Some(child.clone()),
            ..Step::default()
        };
        self.step(ix, ChainPhase::DispatchSucceeded, step);
        self.hand_off(ix);
        let (owner, kind) = (header.owner.clone(), StreamKind::Run);
        let child_header = StreamHeader {
            engine_version: Some(ENGINE_VERSION),
            definition: Some(definition.clone()),
            parent: Some(Parent {
                run: header.stream.clone(),
                node: node.clone(),
                visit,
                depth,
            }),
            trace: Some(header.span_context().within(trace::node_span(
                &header.stream,
                node,
                visit,
            ))),
            policy: Policy {
                queue: header.policy.queue.clone(),
                priority: header.policy.priority,
                max_node_executions: header.policy.max_node_executions,
                max_loop_iterations: header.policy.max_loop_iterations,
                part_of_budget: part_of_budget && !budget.is_empty(),
                budget,
                question_notices: header.policy.question_notices.clone(),
                ..Policy::default()
            },
            genesis: header.genesis,
            nonce: header.nonce.clone(),
            ..StreamHeader::new(child.clone(), kind, owner, self.now)
        }
        .seal_genesis();
        let mut create = Create::new(inputs, "run", Start::WhenClaimed);
        create.configurable = self.facts().settings_of_children();
        self.send(&child, Some(child_header), Command::Create(create));
        self.fan_on(ix);
        if !config.wait_for_completion {
            let outputs = child_outputs(&child, "pending", Map::new());
            self.complete(ix, outputs, None);
        }
    }

    /// The budget of the child that a node starts now, and whether it is only a part of the rest.
    fn part_for_child(&self, ix: NodeIx, own: &Amounts) -> Result<(Amounts, bool), Exhausted> {
        let counters = &self.facts().budget;
        let shares = if counters.is_announced {
            self.run.shares_of_budget(ix)
        } else {
            // Logs of older builds: a child got its own part or none, and only the workers of one
            // node shared.
            counters.fits(own)?;
            let fan = self.fan(ix);
            fan.map_or(1, |fan| u64::from(fan.total - fan.pending.unwrap_or(0)))
        };
        let part = counters.part(own, shares)?;
        let is_part = !own.is_empty() || shares > 1 || !counters.reserved.is_empty();
        Ok((part, is_part))
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
        let fan = self.fan(NodeIx(known.node));
        let is_joined = fan.is_some_and(|fan| fan.running.contains_key(child));
        self.emit(RunEvent::ChildSettled {
            child_run_id: child.clone(),
            status: *status,
            variables: variables.clone(),
            outputs: outputs.clone(),
            error: error.clone(),
            spent: budget::countable(spent),
        });
        let ix = NodeIx(known.node);
        if is_joined {
            let worker = (known.worker, child);
            self.worker_ended(ix, worker, *status, error.as_ref());
            self.conclude();
            return Ok(());
        }
        let waits = match &self.facts().nodes[ix.index()].status {
            NodeStatus::Dispatched { child: awaited, .. } => awaited == child,
            _ => false,
        };
        if waits {
            self.go_on_after(ix, child, *status, variables, outputs, error.as_ref());
        }
        self.conclude();
        Ok(())
    }

    /// The child that a node waits for has ended.
    fn go_on_after(
        &mut self,
        ix: NodeIx,
        child: &StreamId,
        status: ChildStatus,
        variables: &Map<String, Value>,
        outputs: &Map<String, Value>,
        error: Option<&NodeError>,
    ) {
        let Some(config) = self.child_config(ix) else {
            return;
        };
        let worker = self.current_worker(ix).map(|(worker, _)| worker);
        let phase = ChainPhase::of_end(status);
        let of_child = |harvested, error| Step {
            child: Some(child.clone()),
            harvested,
            error,
        };
        self.step(ix, phase, of_child(Vec::new(), error.cloned()));
        if status == ChildStatus::Completed {
            let mut harvested = Vec::new();
            let gave = config.parent_variables(variables);
            let written = gave.iter().filter(|(name, _)| self.is_channel(name));
            let writes = written.map(|(name, value)| ChannelWrite {
                channel: name.clone(),
                value: value.clone(),
            });
            let writes: Vec<ChannelWrite> = writes.collect();
            if let Err(error) = self.check_writes(ix, &writes) {
                return self.fail_attempt(ix, error);
            }
            for (name, next) in gave {
                harvested.push(name.clone());
                if self.is_channel(&name) {
                    continue;
                }
                let node_id = Some(self.node_id(ix));
                self.emit(RunEvent::VariableChanged {
                    name,
                    next,
                    node_id,
                });
            }
            if let Err(error) = self.write_channels(ix, &writes) {
                return self.fail_attempt(ix, error);
            }
            if !harvested.is_empty() {
                self.step(ix, ChainPhase::OutputHarvested, of_child(harvested, None));
            }
        }
        let failed = status != ChildStatus::Completed;
        if failed && config.on_child_failure == OnChildFailure::FailParent {
            let word = status.as_str();
            let mut cause = NodeError::new("child_failed", format!("the child run has {word}"));
            cause.details = Some(serde_json::json!({ "childRunId": child, "error": error }));
            return self.fail_attempt(ix, cause);
        }
        let outputs = child_outputs(child, status.as_str(), outputs.clone());
        match worker {
            None => self.complete(ix, outputs, None),
            Some(worker) if self.worker_at(ix, worker + 1).is_some() => {
                self.begin_worker(ix, worker + 1);
            }
            Some(_) => {
                let outputs = self.outputs_of_workers(ix, outputs);
                self.complete(ix, outputs, None);
            }
        }
    }

    /// A child started or stopped waiting for something outside.
    pub(super) fn child_reported(
        &mut self,
        child: &StreamId,
        status: Option<&str>,
        seq: Seq,
    ) -> Result<(), Rejection> {
        let known = self.facts().children.get(child).ok_or(Rejection::NoChild)?;
        let is_late = known.reported.as_ref().is_some_and(|(_, at)| *at >= seq);
        if known.status.is_some() || is_late {
            return Err(Rejection::Duplicate);
        }
        self.emit(RunEvent::ChildReported {
            child_run_id: child.clone(),
            status: status.map(str::to_owned),
            child_sequence: seq,
        });
        Ok(())
    }

    /// Reports a change of the run's waiting status to its parent.
    pub(super) fn report_to_parent(&mut self) {
        let Some(parent) = self.run.header.parent.clone() else {
            return;
        };
        let waits = waits_in(&self.run);
        if waits == self.waited_in || self.run.phase().is_none() {
            return;
        }
        let command = Command::ChildReported {
            child: self.run.header.stream.clone(),
            status: waits.map(|status| status.to_string()),
            seq: self.run.head.next_seq,
        };
        self.send(&parent.run, None, command);
    }

    /// Whether a run that is being cancelled still waits for children to stop.
    pub(super) fn awaits_children(&self, ending: &Ending) -> bool {
        matches!(ending, Ending::Cancelled { .. }) && !self.run.children_to_stop().is_empty()
    }

    /// Cancels every running child.
    pub(super) fn cancel_children(&mut self, reason: &str) {
        for child in self.run.children_to_stop() {
            let reason = if reason == "run_failed" {
                "parent-failed"
            } else {
                "parent-cancelled"
            };
            self.cancel_child(&child, reason);
        }
    }

    /// Cancels a child whose result is not needed.
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
