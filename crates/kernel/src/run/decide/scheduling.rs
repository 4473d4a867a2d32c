//! Consequences: starting, skipping and completing nodes until nothing more follows.

use serde_json::{Map, Value, json};

use super::{Decision, MAX_BATCH_EVENTS};
use crate::control::{self, Began};
use crate::definition::{ControlKind, EdgeIx, NodeIx, NodeKind, OnFailure, TriggerRule};
use crate::ids::NodeId;
use crate::limits;
use crate::run::budget::{self, Amounts, Exhausted};
use crate::run::cause::Driving;
use crate::run::event::{CapKind, Ending, NodeError, RunEvent, SkipReason};
use crate::run::rejection::Rejection;
use crate::run::schedule::{self, Round, Verdict};
use crate::run::scope::{Just, RunScope, read_denied, resolve_inputs};
use crate::run::size::{json_size, size};
use crate::run::state::{NodeStatus, Phase};

/// Edges of a node that are not followed, by position, and the first failed condition.
pub(super) type Declined = (Vec<EdgeIx>, Option<NodeError>);

impl Decision {
    pub(super) fn advance(&mut self) -> Result<(), Rejection> {
        match self.run.phase() {
            Some(Phase::Pending | Phase::Running) => {}
            _ => return Err(Rejection::Idle),
        }
        self.schedule_everything();
        self.conclude();
        if self.events.is_empty() {
            Err(Rejection::Idle)
        } else {
            Ok(())
        }
    }

    /// Judges every node: at the start of a run, after a pause, and after a batch that was cut off.
    pub(super) fn schedule_everything(&mut self) {
        self.frontier = self.run.plan.node_ixs().collect();
        self.run_frontier();
    }

    /// Judges the successors of a settled node.
    pub(super) fn schedule_after(&mut self, ix: NodeIx) {
        if self.run.header.policy.max_parallel.is_some() {
            // A freed slot may let any waiting node start, not only a successor.
            self.frontier = self.run.plan.node_ixs().collect();
        } else {
            self.push_successors(ix);
        }
        self.run_frontier();
    }

    fn push_successors(&mut self, ix: NodeIx) {
        let plan = self.run.plan.clone();
        let targets = plan
            .node(ix)
            .outgoing
            .iter()
            .map(|edge| plan.edge(*edge).target);
        self.frontier.extend(targets);
        // Rounds of every loop around the node may be over now, the innermost first.
        let mut within = plan.node(ix).within;
        while let Some(head) = within {
            self.frontier.push_back(head);
            within = plan.node(head).within;
        }
    }

    fn run_frontier(&mut self) {
        while let Some(ix) = self.frontier.pop_front() {
            if !self.is_running() || self.events.len() >= MAX_BATCH_EVENTS {
                self.frontier.clear();
                return;
            }
            let facts = self.facts();
            match facts.nodes[ix.index()].status {
                NodeStatus::Idle => match schedule::judge(&self.run.plan, facts, ix) {
                    Verdict::Fire => self.enter(ix),
                    Verdict::Never => self.skip(ix, SkipReason::RuleNotMet),
                    Verdict::Wait => {}
                },
                NodeStatus::Ready { attempt } => self.begin_attempt(ix, attempt, None),
                NodeStatus::Completed { .. } => {
                    match schedule::judge_round(&self.run.plan, facts, ix) {
                        Round::Open => {}
                        Round::Again => self.next_round(ix, control::loop_head::Left::No),
                        Round::Broken => self.next_round(ix, control::loop_head::Left::ByBreak),
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.run.phase(), Some(Phase::Pending | Phase::Running))
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.run.phase(), Some(Phase::Stopping { .. }))
    }

    /// Starts or skips a node whose rule is met.
    fn enter(&mut self, ix: NodeIx) {
        if self.run.plan.node(ix).disabled {
            self.skip(ix, SkipReason::Disabled);
        } else {
            self.begin_attempt(ix, 0, None);
        }
    }

    pub(super) fn skip(&mut self, ix: NodeIx, reason: SkipReason) {
        let node_id = self.node_id(ix);
        let visit = self.facts().nodes[ix.index()].visit;
        self.emit(RunEvent::NodeSkipped {
            node_id,
            visit,
            reason,
        });
        self.push_successors(ix);
    }

    /// Enters a loop's head again: one visit later, with the round it was in.
    fn next_round(&mut self, ix: NodeIx, left: control::loop_head::Left) {
        let previous = match &self.facts().nodes[ix.index()].status {
            NodeStatus::Completed { outputs, .. } => outputs.get("index").and_then(Value::as_u64),
            _ => None,
        };
        self.begin_attempt(ix, 0, Some((previous, left)));
    }

    /// Starts an attempt, unless a limit or the number of slots forbids it. `round` is given when a
    /// loop's head is entered again.
    pub(super) fn begin_attempt(
        &mut self,
        ix: NodeIx,
        attempt: u32,
        round: Option<(Option<u64>, control::loop_head::Left)>,
    ) {
        let plan = self.run.plan.clone();
        let node = plan.node(ix);
        if node.kind == NodeKind::Work && self.driving == Driving::Elsewhere {
            return;
        }
        // A node that was started before has kept its slot.
        if attempt == 0 && schedule::takes_slot(node.kind) && !schedule::has_free_slot(&self.run) {
            return;
        }
        let limit = self.run.header.policy.max_node_executions;
        let limit = limit.unwrap_or(u64::MAX).min(limits::MAX_NODE_EXECUTIONS);
        if self.facts().executions >= limit {
            self.breach(CapKind::NodeExecutions, limit, Some(node.id.clone()));
            return;
        }
        let run_id = self.run.header.root().clone();
        let state = &self.facts().nodes[ix.index()];
        let is_next_round = state.status.is_settled();
        let visit = state.visit + u32::from(is_next_round);
        // If a fork cut off a head's start, the head is still between the same two rounds.
        let round = round.or_else(|| {
            let left = if schedule::leads_back(&plan, self.facts(), ix) {
                control::loop_head::Left::No
            } else {
                control::loop_head::Left::ByBreak
            };
            state.round.map(|previous| (Some(previous), left))
        });
        let known = state.inputs.clone().filter(|_| !is_next_round);
        let resolved = match &known {
            Some(inputs) => Ok(inputs.clone()),
            None => resolve_inputs(&plan, self.facts(), run_id.as_str(), ix)
                .map(|inputs| self.with_decision(ix, inputs))
                .and_then(fitting),
        };
        let due = match (&resolved, node.kind.control()) {
            (Ok(inputs), Some(control)) => control.due(&node.config, inputs, self.now),
            _ => Ok(None),
        };
        let inputs = resolved.as_ref().cloned().unwrap_or_default();
        let due_at = *due.as_ref().unwrap_or(&None);
        let resolved = resolved.and(due);
        self.emit(RunEvent::NodeStarted {
            node_id: node.id.clone(),
            type_id: node.type_id.clone(),
            visit,
            attempt,
            inputs: if known.is_some() {
                None
            } else {
                Some(inputs.clone())
            },
            due_at,
            timeout_at: node
                .timeout_ms
                .map(|ms| self.now.plus_ms(ms.min(limits::MAX_WAIT_MS))),
        });
        if let Err(error) = resolved {
            self.fail_attempt(ix, error);
            return;
        }
        // A node with a due time waits for its timer.
        if let NodeKind::Control(kind) = node.kind
            && due_at.is_none()
        {
            self.begin_control(ix, kind, &inputs, round);
        }
    }

    pub(super) fn begin_control(
        &mut self,
        ix: NodeIx,
        kind: ControlKind,
        inputs: &Map<String, Value>,
        round: Option<(Option<u64>, control::loop_head::Left)>,
    ) {
        let plan = self.run.plan.clone();
        let began = {
            let scope = RunScope::of_node(&plan, self.facts(), self.run.header.root().as_str(), ix);
            let cx = control::Context {
                node: plan.node(ix),
                inputs,
                scope: &scope,
                policy: &self.run.header.policy,
                round,
            };
            kind.node().begin(&cx)
        };
        match began {
            Began::Completed(done) => {
                let names = done.variables.iter().map(|(name, _)| name.as_str());
                if let Err(error) = self.check_variables(names) {
                    self.fail_attempt(ix, error);
                    return;
                }
                for (name, next) in done.variables {
                    let node_id = Some(self.node_id(ix));
                    self.emit(RunEvent::VariableChanged {
                        name,
                        next,
                        node_id,
                    });
                }
                for write in done.channel_writes {
                    if let Err(error) = self.write_channel(ix, &write) {
                        self.fail_attempt(ix, error);
                        return;
                    }
                }
                self.complete(ix, done.outputs, done.port);
            }
            Began::Failed(error) => self.fail_attempt(ix, error),
            Began::LoopLimit { limit } => {
                self.breach(CapKind::LoopIterations, limit, Some(self.node_id(ix)));
            }
            Began::Supervises => self.supervise(ix, inputs, round),
            Began::Dispatches => self.carry_out(ix, inputs),
            Began::Asks(ask) => self.ask(ix, ask),
            // The timer was set with the start, or the definition is looked up outside.
            Began::Waits => {}
        }
    }

    /// Completes a visit and follows its edges.
    pub(super) fn complete(
        &mut self,
        ix: NodeIx,
        outputs: Map<String, Value>,
        port: Option<String>,
    ) {
        let outputs = Value::Object(outputs);
        let (declined, broken) = self.decline(ix, port.as_deref(), Just::Gave(&outputs));
        let Value::Object(outputs) = outputs else {
            unreachable!("built as an object above")
        };
        let node = &self.facts().nodes[ix.index()];
        let attempt = match node.status {
            NodeStatus::InFlight { attempt, .. }
            | NodeStatus::Delayed { attempt }
            | NodeStatus::Dispatched { attempt, .. }
            | NodeStatus::FannedOut { attempt, .. }
            | NodeStatus::Suspended { attempt, .. } => attempt,
            _ => 0,
        };
        let body = RunEvent::NodeCompleted {
            node_id: self.node_id(ix),
            visit: node.visit,
            attempt,
            outputs,
            port,
            declined_edges: self.edge_ids(&declined),
            duration_ms: self.now.ms_since(node.started_at.unwrap_or(self.now)),
        };
        self.emit(body);
        self.end_observation_once();
        match broken {
            Some(error) => self.stop(Ending::Failed {
                error,
                node_id: Some(self.node_id(ix)),
            }),
            None if self.is_running() => self.schedule_after(ix),
            None => {}
        }
    }

    /// An attempt failed: retry, route the failure, or end the run.
    pub(super) fn fail_attempt(&mut self, ix: NodeIx, error: NodeError) {
        let plan = self.run.plan.clone();
        let node = plan.node(ix);
        let error = bounded(error);
        let state = &self.facts().nodes[ix.index()];
        let (visit, retries) = (state.visit, state.retries);
        let mut error = error;
        let mut may_retry = error.retryable != Some(false)
            && retries < node.retry.max_retries.min(limits::MAX_ATTEMPTS)
            && !self.is_stopping();
        if may_retry {
            let one = Amounts::from([(budget::RETRIES.to_owned(), 1)]);
            if let Err(exhausted) = self.facts().budget.fits(&one) {
                error = no_retry_left(&exhausted, &error);
                may_retry = false;
            }
        }
        if may_retry {
            let asked = error
                .details
                .as_ref()
                .and_then(|d| d.get("retryAfterMs")?.as_u64());
            let delay_ms = node.retry.backoff.delay_ms(retries).max(asked.unwrap_or(0));
            let next = self.current_attempt(ix) + 1;
            self.emit(RunEvent::NodeRetried {
                node_id: node.id.clone(),
                visit,
                attempt: next,
                delay_ms: delay_ms.min(limits::MAX_WAIT_MS),
                last_error: error,
            });
            self.end_observation_once();
            if delay_ms == 0 && self.is_running() {
                self.begin_attempt(ix, next, None);
            }
            return;
        }
        self.tell_of_exhaustion(ix, &error);
        let asks = match node.on_failure {
            OnFailure::Ask => true,
            OnFailure::Fail if error.host_lacks => {
                let (declined, _) = self.decline(ix, None, Just::Failed(&error));
                !schedule::is_handled(&plan, ix, &declined)
            }
            OnFailure::Fail | OnFailure::Skip => false,
        };
        if asks && node.kind == NodeKind::Work && !self.is_stopping() {
            return self.ask_about_failure(ix, error);
        }
        self.fail_node(ix, error);
    }

    /// Records the reached limit if a node fails because the run's budget is used up.
    fn tell_of_exhaustion(&mut self, ix: NodeIx, error: &NodeError) {
        let Some(exhausted) = Exhausted::from_error(error) else {
            return;
        };
        let limit = self.facts().budget.limits.get(&exhausted.dimension);
        let is_true = limit == Some(&exhausted.limit) && exhausted.observed > exhausted.limit;
        if let Some(kind) = exhausted.cap()
            && is_true
            && !self.is_stopping()
        {
            self.exhaust(&exhausted.dimension, exhausted.limit);
            self.emit(RunEvent::CapBreached {
                kind,
                limit: exhausted.limit,
                observed: exhausted.observed,
                node_id: Some(self.node_id(ix)),
            });
        }
    }

    /// Ends a visit in an error without a further attempt.
    pub(super) fn fail_node(&mut self, ix: NodeIx, error: NodeError) {
        let plan = self.run.plan.clone();
        let node = plan.node(ix);
        let state = &self.facts().nodes[ix.index()];
        let (visit, attempts) = (state.visit, state.attempts);
        let (declined, broken) = self.decline(ix, None, Just::Failed(&error));
        self.emit(RunEvent::NodeFailed {
            node_id: node.id.clone(),
            visit,
            error: error.clone(),
            attempts,
            declined_edges: self.edge_ids(&declined),
        });
        self.end_observation_once();
        if self.is_stopping() {
            return;
        }
        if let Some(error) = broken {
            self.stop(Ending::Failed {
                error,
                node_id: Some(node.id.clone()),
            });
        } else if node.on_failure == OnFailure::Skip {
            self.skip(ix, SkipReason::OnFailure);
            self.schedule_after(ix);
        } else if schedule::is_handled(&plan, ix, &declined) {
            self.schedule_after(ix);
        } else {
            self.give_up(ix, error);
        }
    }

    /// Outgoing edges that are not followed. A condition that fails to evaluate declines its edge
    /// and is reported.
    pub(super) fn decline(&self, ix: NodeIx, port: Option<&str>, just: Just<'_>) -> Declined {
        let plan = &self.run.plan;
        let node = plan.node(ix);
        let open_exits: &[EdgeIx] = match &node.body {
            Some(body) if node.begins_round(port) => &body.exits,
            _ => &[],
        };
        let mut declined = Vec::new();
        let mut broken = None;
        for &edge_ix in &node.outgoing {
            let edge = plan.edge(edge_ix);
            if open_exits.contains(&edge_ix) {
                continue;
            }
            let from = control::port_of_edge(plan, ix, edge_ix);
            if let (Some(port), Some(from)) = (port, from)
                && from != port
            {
                declined.push(edge_ix);
                continue;
            }
            let Some(condition) = &edge.condition else {
                continue;
            };
            // Its rule already declines it; its condition may read data of the other outcome only.
            let may_follow = match just {
                Just::Gave(_) => edge.rule != TriggerRule::AnyFailed,
                Just::Failed(_) => schedule::takes_failures(edge.rule),
            };
            if !may_follow {
                continue;
            }
            let run_id = self.run.header.root().as_str();
            let scope = RunScope::of_node(plan, self.facts(), run_id, ix).after(ix, just);
            match condition.holds(&scope) {
                Ok(true) => {}
                Ok(false) => declined.push(edge_ix),
                Err(error) => {
                    declined.push(edge_ix);
                    broken.get_or_insert_with(|| {
                        if let Some(denied) = read_denied(plan, ix, &error) {
                            return denied;
                        }
                        NodeError::new(
                            "condition_failed",
                            format!("the condition of edge {} has no value: {error}", edge.id),
                        )
                        .fatal()
                    });
                }
            }
        }
        (declined, broken)
    }

    pub(super) fn node_id(&self, ix: NodeIx) -> NodeId {
        self.run.plan.node(ix).id.clone()
    }

    fn edge_ids(&self, edges: &[EdgeIx]) -> Vec<String> {
        edges
            .iter()
            .map(|edge| self.run.plan.edge(*edge).id.clone())
            .collect()
    }

    pub(super) fn current_attempt(&self, ix: NodeIx) -> u32 {
        match self.facts().nodes[ix.index()].status {
            NodeStatus::InFlight { attempt, .. }
            | NodeStatus::Delayed { attempt }
            | NodeStatus::Dispatched { attempt, .. }
            | NodeStatus::FannedOut { attempt, .. }
            | NodeStatus::Suspended { attempt, .. }
            | NodeStatus::Backoff { attempt, .. }
            | NodeStatus::Ready { attempt } => attempt,
            _ => 0,
        }
    }

    /// The first outcome of a batch is observed; later ones are consequences.
    pub(super) fn end_observation_once(&mut self) {
        if self.observed == 0 {
            self.end_observation();
        }
    }
}

/// The inputs, if they fit into an event.
fn fitting(inputs: Map<String, Value>) -> Result<Map<String, Value>, NodeError> {
    if json_size(&inputs) <= limits::MAX_EVENT_BYTES / 2 {
        return Ok(inputs);
    }
    Err(NodeError::new(
        "input_too_large",
        "the inputs of the node are more than an event holds; connect fewer outputs, or pass \
         an artifact",
    )
    .fatal())
}

/// An error with a message short enough for the log.
fn bounded(mut error: NodeError) -> NodeError {
    if error.message.len() > limits::MAX_ERROR_MESSAGE_BYTES {
        let limit = limits::MAX_ERROR_MESSAGE_BYTES;
        let end = error.message.floor_char_boundary(limit);
        error.message.truncate(end);
        error.message.push('…');
    }
    if error
        .details
        .as_ref()
        .is_some_and(|details| size(details) > limits::MAX_CHUNK_BYTES)
    {
        error.details = None;
    }
    error
}

/// The error of an attempt whose retry exceeds the run's budget of retries.
fn no_retry_left(exhausted: &Exhausted, last: &NodeError) -> NodeError {
    let mut error = exhausted.error();
    if let Some(details) = &mut error.details {
        details["lastError"] = json!(last);
    }
    error
}
