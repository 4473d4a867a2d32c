//! Legal predecessors of each event of a node.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Log;
use super::rules::Judgement;
use super::run::Child;
use crate::definition::{ControlKind, EdgeIx, NodeIx, NodeKind, OnFailure, PlanNode};
use crate::ids::{AttemptId, NodeId, Seq};
use crate::run::event::{About, ApprovalAction, JoinOutcome, NodeError, SkipReason};
use crate::run::{InterruptKind, RunEvent};

/// A node in its current visit.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The number of the next or current visit.
    pub(super) visit: u32,
    pub(super) place: Place,
    /// `node.started` events of this visit.
    pub(super) starts: u32,
    /// `node.retried` events of this visit.
    pub(super) retries: u32,
    /// Restarts of the current attempt.
    restarts: u32,
    /// The current worker of a dispatch node.
    pub(super) worker: Option<u32>,
    /// The sequence of the last step of each worker of a dispatch node.
    pub(super) steps: BTreeMap<u32, Seq>,
}

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Place {
    /// Not entered in this visit.
    #[default]
    Before,
    /// An attempt is active: at work, delayed, dispatched or suspended.
    Attempt { attempt: u32, waits_for: WaitsFor },
    /// Another attempt follows, with this number.
    Between { next: u32 },
    /// The visit is over.
    Ended(Ended),
}

/// The event that an active attempt waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WaitsFor {
    /// Its own outcome.
    Work,
    /// A point in time.
    Time,
    /// A child run.
    Child(String),
    /// Several concurrent child runs.
    Workers(Workers),
    /// An interrupt that was requested.
    Answer(Question),
}

/// Concurrent child runs of one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workers {
    pub(super) total: u32,
    pub(super) at_a_time: u32,
    /// A worker has begun and has no run yet.
    pub(super) begun: bool,
    pub(super) runs: BTreeSet<String>,
    /// Those that were abandoned.
    pub(super) abandoned: BTreeSet<u32>,
    pub(super) joined: Option<JoinOutcome>,
}

/// An interrupt that was requested.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) interrupt: String,
    /// Its kind and its data.
    pub(super) kind: InterruptKind,
    pub(super) data: Value,
    /// It was resolved.
    pub(super) answered: bool,
    /// The event of its kind was written.
    pub(super) announced: bool,
    /// The decision at a gate.
    pub(super) decided: Option<ApprovalAction>,
    /// The voters and their votes.
    pub(super) votes: BTreeMap<String, ApprovalAction>,
}

impl WaitsFor {
    /// Whether its question is answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Self::Answer(question) if question.answered)
    }
}

/// How a visit ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    Completed {
        declined: Vec<EdgeIx>,
        /// A loop's head began a round.
        in_body: bool,
    },
    Failed {
        declined: Vec<EdgeIx>,
    },
    Skipped,
    Cancelled,
}

impl Ended {
    /// A loop's head that chose another round is not final.
    pub(super) fn is_in_body(&self) -> bool {
        matches!(self, Self::Completed { in_body: true, .. })
    }
}

impl Log<'_> {
    /// Checks an event of a node.
    pub(super) fn node_event(&mut self, body: &RunEvent) {
        let (id, visit) = match body.about() {
            About::Run => return,
            About::Node(id) => (id, None),
            About::Visit(id, visit) => (id, Some(visit)),
        };
        let Some(ix) = self.plan.node_ix(id.as_str()) else {
            return self.violation(format!("the definition has no node {id}"));
        };
        let expected = if self.is_next_round(ix, body) {
            self.nodes[ix.index()].visit + 1
        } else {
            self.nodes[ix.index()].visit
        };
        if let Some(visit) = visit {
            self.require(visit == expected, || {
                format!("{id} is in visit {expected}, not {visit}")
            });
        }
        match body {
            RunEvent::NodeStarted { attempt, .. } => self.started(ix, *attempt, body),
            RunEvent::NodeSkipped { reason, .. } => self.skipped(ix, *reason),
            RunEvent::NodeCompleted {
                attempt,
                port,
                declined_edges,
                ..
            } => self.completed(ix, *attempt, port.as_deref(), declined_edges),
            RunEvent::NodeFailed {
                attempts,
                error,
                declined_edges,
                ..
            } => self.failed(ix, *attempts, error, declined_edges),
            RunEvent::NodeRetried {
                attempt,
                last_error,
                ..
            } => self.retried(ix, *attempt, last_error),
            RunEvent::NodeCancelled { .. } => {
                let open = matches!(
                    self.place(ix),
                    Place::Attempt { .. } | Place::Between { .. }
                );
                self.require(open, || format!("{id} is cancelled but is not under way"));
                self.end(ix, Ended::Cancelled);
            }
            RunEvent::AttemptRestarted {
                attempt, restarts, ..
            } => self.restarted(ix, *attempt, *restarts),
            RunEvent::InterruptRequested {
                interrupt_id,
                kind,
                data,
                ..
            } => self.asks(ix, interrupt_id.to_string(), *kind, data),
            RunEvent::NodeSuspended { interrupt_id, .. } => {
                let question = self.question(ix, interrupt_id.as_str());
                let (asked, announced) = match question {
                    Some(question) => (!question.answered, question.announced),
                    None => (false, false),
                };
                self.require(asked, || format!("{id} suspends without an interrupt"));
                let is_gate = self.is_gate(ix);
                self.require(announced || !is_gate, || {
                    format!("{id} suspends before its question")
                });
            }
            RunEvent::InterruptResolved { interrupt_id, .. } => {
                self.answered(ix, interrupt_id.as_str());
            }
            RunEvent::NodeResumed { interrupt_id, .. } => {
                let answered = self
                    .question(ix, interrupt_id.as_str())
                    .is_some_and(|question| question.answered);
                self.require(answered, || format!("{id} continues without an answer"));
            }
            RunEvent::NodeDispatched { child_run_id, .. } => {
                self.dispatched(ix, child_run_id.to_string());
            }
            RunEvent::OutputChunk { attempt, .. } => {
                let attempt = AttemptId {
                    node: id.clone(),
                    visit: expected,
                    attempt: *attempt,
                };
                self.require_live(&attempt);
            }
            RunEvent::AgentDecided { .. }
            | RunEvent::AgentHandedOff { .. }
            | RunEvent::OrchestratorDecided { .. }
            | RunEvent::ChainStepped { .. }
            | RunEvent::FannedOut { .. }
            | RunEvent::Joined { .. }
            | RunEvent::ConfidenceEscalated { .. }
            | RunEvent::LoopbackLimited { .. } => self.orchestrator_event(ix, body),
            body => self.gate_event(ix, body),
        }
    }

    pub(super) fn place(&self, ix: NodeIx) -> &Place {
        &self.nodes[ix.index()].place
    }

    pub(super) fn id(&self, ix: NodeIx) -> &NodeId {
        &self.plan.node(ix).id
    }

    fn is_next_round(&self, ix: NodeIx, body: &RunEvent) -> bool {
        let between_rounds = matches!(self.place(ix), Place::Ended(ended) if ended.is_in_body());
        between_rounds && matches!(body, RunEvent::NodeStarted { .. })
    }

    fn started(&mut self, ix: NodeIx, attempt: u32, body: &RunEvent) {
        let RunEvent::NodeStarted {
            type_id,
            inputs,
            due_at,
            ..
        } = body
        else {
            return;
        };
        let id = self.id(ix).clone();
        let node = self.plan.node(ix);
        self.require(self.run.may_start(), || {
            format!("{id} starts although the run is not running")
        });
        self.require(*type_id == node.type_id, || {
            format!("{id} starts with another type than in the definition")
        });
        self.run.executions += 1;
        let expected = match self.place(ix).clone() {
            Place::Before => {
                self.require(!node.disabled, || format!("{id} starts but is disabled"));
                let judgement = self.judge(ix);
                self.require(judgement == Judgement::Starts, || {
                    format!("{id} starts but its trigger rules are {judgement:?}")
                });
                0
            }
            Place::Between { next } => next,
            Place::Ended(ended) if ended.is_in_body() => {
                self.require(self.is_round_over(ix), || {
                    format!("{id} starts a round before the last one has ended")
                });
                let visit = self.nodes[ix.index()].visit + 1;
                self.nodes[ix.index()] = Node {
                    visit,
                    ..Node::default()
                };
                0
            }
            place => {
                self.violation(format!("{id} starts but is {place:?}"));
                attempt
            }
        };
        self.require(attempt == expected, || {
            format!("{id} starts attempt {attempt}, not {expected}")
        });
        let is_first = self.nodes[ix.index()].starts == 0;
        self.require(inputs.is_some() == is_first, || {
            format!("{id} must have its inputs at the first start of a visit and only there")
        });
        let state = &mut self.nodes[ix.index()];
        state.starts += 1;
        state.restarts = 0;
        state.place = Place::Attempt {
            attempt,
            waits_for: match due_at {
                Some(_) => WaitsFor::Time,
                None => WaitsFor::Work,
            },
        };
        self.check_slots();
        self.check_executions();
    }

    fn check_slots(&mut self) {
        let Some(slots) = self.header.policy.max_parallel else {
            return;
        };
        let live = self.live_work();
        self.require(live <= slots.max(1) as usize, || {
            format!("{live} attempts are in flight, allowed are {slots}")
        });
    }

    /// The number of attempts that a drained pause waits for: running attempts and delays. Waits
    /// for an answer, including a worker's, may be endless and do not delay a pause.
    pub(super) fn unfinished(&self) -> usize {
        let is_unfinished = |(node, plan): &(&Node, &crate::definition::PlanNode)| {
            let Place::Attempt { waits_for, .. } = &node.place else {
                return false;
            };
            match waits_for {
                WaitsFor::Work => plan.kind == NodeKind::Work,
                WaitsFor::Time => true,
                WaitsFor::Child(_) | WaitsFor::Workers(_) | WaitsFor::Answer(_) => false,
            }
        };
        self.nodes
            .iter()
            .zip(&self.plan.nodes)
            .filter(is_unfinished)
            .count()
    }

    /// Number of active attempts of work nodes, including those that wait for a worker.
    pub(super) fn live_work(&self) -> usize {
        let is_live = |(node, plan): &(&Node, &crate::definition::PlanNode)| {
            plan.kind == NodeKind::Work && matches!(node.place, Place::Attempt { .. })
        };
        self.nodes
            .iter()
            .zip(&self.plan.nodes)
            .filter(is_live)
            .count()
    }

    fn skipped(&mut self, ix: NodeIx, reason: SkipReason) {
        let id = self.id(ix).clone();
        let node = self.plan.node(ix);
        if reason == SkipReason::OnFailure {
            let fits = match node.on_failure {
                OnFailure::Skip => matches!(self.place(ix), Place::Ended(Ended::Failed { .. })),
                OnFailure::Ask | OnFailure::Fail => self.is_decided_about(ix),
            };
            self.require(fits, || {
                format!("{id} is skipped for a failure that does not count as a skip")
            });
            self.run.unhandled = None;
        } else {
            self.require(self.run.may_start(), || {
                format!("{id} is skipped although the run is not running")
            });
            self.require(*self.place(ix) == Place::Before, || {
                format!("{id} is skipped after it was entered")
            });
            let judgement = self.judge(ix);
            let fits = match reason {
                SkipReason::Disabled => node.disabled && judgement == Judgement::Starts,
                _ => judgement == Judgement::Never,
            };
            self.require(fits, || {
                format!("{id} is skipped but its trigger rules are {judgement:?}")
            });
        }
        self.end(ix, Ended::Skipped);
    }

    fn completed(&mut self, ix: NodeIx, attempt: u32, port: Option<&str>, declined: &[String]) {
        let id = self.id(ix).clone();
        match self.place(ix).clone() {
            Place::Attempt {
                attempt: current,
                waits_for,
            } => {
                self.require(current == attempt, || {
                    format!("{id} completes attempt {attempt}, under way is {current}")
                });
                let unanswered = matches!(
                    waits_for,
                    WaitsFor::Answer(Question {
                        answered: false,
                        ..
                    })
                );
                self.require(!unanswered, || format!("{id} completes without an answer"));
                let child = match (&waits_for, self.is_dispatch(ix)) {
                    (WaitsFor::Child(child), true) => self.run.children.get(child),
                    _ => None,
                };
                self.require(child.is_none_or(|child| child.settled), || {
                    format!("{id} completes before its worker")
                });
                self.left_as_joined(ix, &waits_for, true);
            }
            place => self.violation(format!("{id} completes but is {place:?}")),
        }
        let ports: &[&str] = match self.plan.node(ix).kind {
            NodeKind::Control(ControlKind::Conditional) => &["true", "false"],
            NodeKind::Control(ControlKind::Loop) => &["body", "done"],
            NodeKind::Control(ControlKind::ApprovalGate) => &["accept", "reject", "refine"],
            NodeKind::Control(ControlKind::GovernanceGate) => &["accept", "reject"],
            NodeKind::Control(ControlKind::Supervisor) => &["dispatch", "terminate"],
            _ => &[],
        };
        self.left_as_decided(ix, port);
        let fits = match port {
            Some(port) => ports.contains(&port),
            None => ports.is_empty(),
        };
        self.require(fits, || format!("{id} leaves by a port it does not have"));
        let declined = self.declined(ix, declined);
        let body = self.plan.node(ix).body.as_ref();
        let in_body = body.filter(|_| matches!(port, Some("body" | "dispatch")));
        let open_exits = in_body.map(|body| body.exits.clone()).unwrap_or_default();
        for edge in &self.plan.node(ix).outgoing {
            let named = self.plan.edge(*edge).source_output.as_deref();
            let from = match named.filter(|from| ports.contains(from)) {
                None if self.is_approval(ix) => Some("accept"),
                None => self.supervisor_port(ix, *edge),
                from => from,
            };
            let other = from.is_some_and(|from| Some(from) != port);
            if other && !open_exits.contains(edge) {
                self.require(declined.contains(edge), || {
                    format!("{id} follows an edge of another port than it chose")
                });
            }
        }
        let in_body = in_body.is_some();
        self.end(ix, Ended::Completed { declined, in_body });
        if in_body {
            self.begin_round(ix);
        }
    }

    /// The body of a loop is entered once more: a visit later, unless it was never entered.
    fn begin_round(&mut self, head: NodeIx) {
        let Some(body) = &self.plan.node(head).body else {
            return;
        };
        for inner in &body.nodes {
            let node = &mut self.nodes[inner.index()];
            if node.place != Place::Before {
                let visit = node.visit + 1;
                *node = Node {
                    visit,
                    ..Node::default()
                };
            }
        }
    }

    fn failed(&mut self, ix: NodeIx, attempts: u32, error: &NodeError, declined: &[String]) {
        let id = self.id(ix).clone();
        let under_way = matches!(self.place(ix), Place::Attempt { .. });
        self.require(under_way, || format!("{id} fails but is not under way"));
        if let Place::Attempt { waits_for, .. } = self.place(ix).clone()
            && error.code != "node_timeout"
        {
            self.left_as_joined(ix, &waits_for, false);
        }
        let starts = self.nodes[ix.index()].starts;
        self.require(attempts == starts, || {
            format!("{id} fails after {attempts} attempts, started were {starts}")
        });
        let declined = self.declined(ix, declined);
        let is_skip = self.plan.node(ix).on_failure == OnFailure::Skip;
        if !self.run.is_stopping() && (is_skip || !self.is_taken(ix, &declined)) {
            self.run.unhandled = Some(error.code.clone());
        }
        self.end(ix, Ended::Failed { declined });
    }

    fn retried(&mut self, ix: NodeIx, next: u32, error: &NodeError) {
        let id = self.id(ix).clone();
        self.require(!self.run.is_stopping(), || {
            format!("{id} is tried again although the run is stopping")
        });
        let is_asked_for = self.is_decided_about(ix);
        match self.place(ix).clone() {
            Place::Attempt { attempt, .. } => self.require(next == attempt + 1, || {
                format!("{id} is tried again as attempt {next} after {attempt}")
            }),
            place => self.violation(format!("{id} is tried again but is {place:?}")),
        }
        let is_by_itself = !is_asked_for;
        self.require(error.retryable != Some(false) || !is_by_itself, || {
            format!("{id} is tried again after an error that no retry can help")
        });
        let node = &mut self.nodes[ix.index()];
        node.retries += 1;
        node.place = Place::Between { next };
        let (retries, max) = (node.retries, self.plan.node(ix).retry.max_retries);
        self.require(retries <= max || !is_by_itself, || {
            format!("{id} is tried again {retries} times, allowed are {max}")
        });
    }

    /// Whether the question about a failure of the active attempt was answered.
    fn is_decided_about(&self, ix: NodeIx) -> bool {
        matches!(self.place(ix), Place::Attempt { waits_for: WaitsFor::Answer(question), .. }
            if question.answered
                && question.kind == InterruptKind::Custom
                && asks_about_failure(self.plan.node(ix), &question.data))
    }

    fn restarted(&mut self, ix: NodeIx, attempt: u32, restarts: u32) {
        let id = self.id(ix).clone();
        let live = self.plan.node(ix).kind == NodeKind::Work
            && matches!(self.place(ix), Place::Attempt { attempt: current, .. } if *current == attempt);
        self.require(live, || {
            format!("{id} restarts attempt {attempt}, which is not in flight")
        });
        let node = &mut self.nodes[ix.index()];
        node.restarts += 1;
        let counted = node.restarts;
        self.require(counted == restarts, || {
            format!("{id} counts {restarts} restarts, there were {counted}")
        });
    }

    fn asks(&mut self, ix: NodeIx, interrupt: String, kind: InterruptKind, data: &Value) {
        let id = self.id(ix).clone();
        let fresh = self.run.interrupts.insert(interrupt.clone());
        self.require(fresh, || format!("{id} asks with a used id"));
        let question = WaitsFor::Answer(Question {
            interrupt,
            kind,
            data: data.clone(),
            answered: false,
            announced: false,
            decided: None,
            votes: BTreeMap::new(),
        });
        let again = self.is_approval(ix) || self.is_general(ix, InterruptKind::Approval);
        let about_failure = kind == InterruptKind::Custom && self.may_ask_about_failure(ix, data);
        match &mut self.nodes[ix.index()].place {
            Place::Attempt { waits_for, .. }
                if *waits_for == WaitsFor::Work
                    || again && waits_for.is_answered()
                    || about_failure =>
            {
                *waits_for = question;
            }
            _ => self.violation(format!("{id} asks but is not under way")),
        }
    }

    /// Whether a question about a failure of the active attempt is allowed: it was at work, or an
    /// outside party has answered or took too long.
    fn may_ask_about_failure(&self, ix: NodeIx, data: &Value) -> bool {
        let node = self.plan.node(ix);
        if !asks_about_failure(node, data) {
            return false;
        }
        match self.place(ix) {
            Place::Attempt {
                waits_for: WaitsFor::Answer(before),
                ..
            } => {
                before.kind == InterruptKind::ExternalEvent
                    && (before.answered || node.timeout_ms.is_some())
            }
            Place::Attempt { waits_for, .. } => *waits_for == WaitsFor::Work,
            _ => false,
        }
    }

    fn answered(&mut self, ix: NodeIx, of: &str) {
        let id = self.id(ix).clone();
        match self.question_mut(ix, of) {
            Some(question) if !question.answered => question.answered = true,
            _ => self.violation(format!(
                "{id} is answered but does not wait for this answer"
            )),
        }
    }

    fn dispatched(&mut self, ix: NodeIx, child: String) {
        let id = self.id(ix).clone();
        let is_sub = self.plan.node(ix).kind == NodeKind::Control(ControlKind::SubWorkflow);
        let has_worker = self.nodes[ix.index()].worker.is_some();
        self.require(is_sub || self.is_dispatch(ix) && has_worker, || {
            format!("{id} is not a node that starts runs")
        });
        let before = self.run.children.insert(child.clone(), Child::new(ix));
        self.require(before.is_none(), || {
            format!("{id} starts a child that was started before")
        });
        match &mut self.nodes[ix.index()].place {
            Place::Attempt { waits_for, .. } if *waits_for == WaitsFor::Work => {
                *waits_for = WaitsFor::Child(child);
            }
            Place::Attempt {
                waits_for: WaitsFor::Workers(workers),
                ..
            } if workers.begun => {
                workers.begun = false;
                workers.runs.insert(child);
            }
            _ => self.violation(format!("{id} starts a child but is not under way")),
        }
    }

    /// The edges of a list of ids, all of which must leave the node.
    fn declined(&mut self, ix: NodeIx, ids: &[String]) -> Vec<EdgeIx> {
        let outgoing = &self.plan.node(ix).outgoing;
        let by_id: BTreeMap<&str, EdgeIx> = outgoing
            .iter()
            .map(|edge| (self.plan.edge(*edge).id.as_str(), *edge))
            .collect();
        let found: Vec<EdgeIx> = ids
            .iter()
            .filter_map(|id| by_id.get(id.as_str()).copied())
            .collect();
        let id = self.id(ix).clone();
        self.require(found.len() == ids.len(), || {
            format!("{id} declines an edge that does not lead away from it")
        });
        found
    }

    fn end(&mut self, ix: NodeIx, how: Ended) {
        self.nodes[ix.index()].place = Place::Ended(how);
    }

    /// A reporting attempt must be in flight.
    pub(super) fn require_live(&mut self, attempt: &AttemptId) {
        let live = self
            .plan
            .node_ix(attempt.node.as_str())
            .is_some_and(|ix| {
                let node = &self.nodes[ix.index()];
                node.visit == attempt.visit
                    && matches!(node.place, Place::Attempt { attempt: current, .. } if current == attempt.attempt)
            });
        self.require(live, || format!("the attempt {attempt} is not in flight"));
    }

    /// Attempts that a pause or a fork abandons start over as the next attempt.
    pub(super) fn abandon(&mut self, abandons: impl Fn(&PlanNode, &WaitsFor) -> bool) {
        for (node, planned) in self.nodes.iter_mut().zip(&self.plan.nodes) {
            if let Place::Attempt { attempt, waits_for } = &node.place
                && abandons(planned, waits_for)
            {
                node.place = Place::Between { next: attempt + 1 };
            }
        }
    }

    /// Number of active nodes.
    pub(super) fn open_nodes(&self) -> usize {
        let is_open =
            |node: &&Node| matches!(node.place, Place::Attempt { .. } | Place::Between { .. });
        self.nodes.iter().filter(is_open).count()
    }
}

/// Whether a person decides about a failure of the node: the definition requires it, or the host
/// lacked something that the node needs.
fn asks_about_failure(node: &PlanNode, data: &Value) -> bool {
    node.kind == NodeKind::Work
        && match node.on_failure {
            OnFailure::Ask => true,
            OnFailure::Fail => data["error"]["hostLacks"] == true,
            OnFailure::Skip => false,
        }
}
