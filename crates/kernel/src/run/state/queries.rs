//! Questions to the state of a run.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Closed, End, Facts, Head, NodeStatus, OpenInterrupt, Phase, Run, RunState, timer};
use crate::control::decision::WORKER_INPUTS;
use crate::definition::{NodeIx, NodeKind, Plan};
use crate::ids::{AttemptId, InterruptId, NodeId, StreamId};
use crate::run::RunStatus;
use crate::run::event::{ChildStatus, Ending};
use crate::stream::{ForkMode, StreamHeader};
use crate::time::Timestamp;

/// An attempt that the holder must be running now.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveAttempt<'a> {
    /// The node's position.
    pub node: NodeIx,
    /// The attempt.
    pub id: AttemptId,
    /// How often it was restarted.
    pub restarts: u32,
    /// The resolved values of its ports.
    pub inputs: &'a Map<String, Value>,
    /// When it must have ended.
    pub timeout_at: Option<Timestamp>,
}

impl Run {
    /// A run before its first event.
    pub fn unborn(header: Arc<StreamHeader>, plan: Arc<Plan>) -> Self {
        let head = Head {
            next_seq: 0,
            chain: header.genesis,
            // The copied events of a fork are older than the fork.
            at: match header.origin {
                None => header.created_at,
                Some(_) => Timestamp(i64::MIN),
            },
        };
        Self {
            header,
            plan,
            head,
            state: RunState::Unborn,
        }
    }

    /// The facts, once there are any.
    pub fn facts(&self) -> Option<&Facts> {
        match &self.state {
            RunState::Unborn => None,
            RunState::Active { facts, .. } | RunState::Settled { facts, .. } => Some(facts),
        }
    }

    /// The phase, while active.
    pub fn phase(&self) -> Option<&Phase> {
        match &self.state {
            RunState::Active { phase, .. } => Some(phase),
            RunState::Unborn | RunState::Settled { .. } => None,
        }
    }

    /// The end, if it has ended.
    pub fn end(&self) -> Option<&End> {
        match &self.state {
            RunState::Settled { end, .. } => Some(end),
            RunState::Unborn | RunState::Active { .. } => None,
        }
    }

    /// Whether the run has ended: no event will be appended.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, RunState::Settled { .. })
    }

    /// Whether this is a replay: it repeats its source's records.
    pub fn is_replay(&self) -> bool {
        let origin = self.header.origin.as_ref();
        origin.is_some_and(|origin| origin.mode == ForkMode::Replay)
    }

    /// Whether this is a branch whose copied beginning does not yet end in `RunForked`. It is not
    /// driven, and only its fork may be decided on it.
    pub fn is_copying(&self) -> bool {
        let Some(origin) = &self.header.origin else {
            return false;
        };
        let forked_from = self.facts().and_then(|facts| facts.forked_from.as_ref());
        origin.mode == ForkMode::Branch && origin.seq > 0 && forked_from != Some(&origin.source)
    }

    /// The version of a newer engine that has decided on it, if one has: its rules are unknown
    /// here.
    pub fn newer_engine(&self) -> Option<u32> {
        let told = self.facts().map(|facts| facts.engine_version);
        let wrote = self.header.engine_version.max(told);
        wrote.filter(|wrote| wrote > crate::ENGINE_VERSIONS.end())
    }

    /// Whether this is an unfinished fork: a branch that is still copied, or a replay that has not
    /// ended.
    pub fn is_forking(&self) -> bool {
        self.is_copying() || (self.is_replay() && !self.is_settled())
    }

    /// The status of the run.
    pub fn status(&self) -> RunStatus {
        if self.is_copying() {
            return RunStatus::Pending;
        }
        match &self.state {
            RunState::Unborn => RunStatus::Pending,
            RunState::Settled { end, .. } => match end {
                End::Completed { .. } => RunStatus::Completed,
                End::Failed { .. } => RunStatus::Failed,
                End::Cancelled { .. } => RunStatus::Cancelled,
            },
            RunState::Active { phase, facts } => match phase {
                Phase::Pending => RunStatus::Pending,
                Phase::Draining { .. } => RunStatus::Running,
                Phase::Paused { .. } => RunStatus::Paused,
                Phase::Stopping {
                    ending: Ending::Cancelled { .. },
                } => RunStatus::Cancelling,
                Phase::Stopping {
                    ending: Ending::Failed { .. },
                } => RunStatus::Running,
                Phase::Running if self.has_live_work() => RunStatus::Running,
                Phase::Running => match facts.interrupts.first() {
                    Some(open) => RunStatus::for_interrupt(open.kind),
                    None => self.awaited_status(facts).unwrap_or(RunStatus::Running),
                },
            },
        }
    }

    /// The status of the awaited child, while the child itself waits.
    fn awaited_status(&self, facts: &Facts) -> Option<RunStatus> {
        let waits = |child: &StreamId| {
            let status = RunStatus::parse(facts.children.get(child)?.waits()?);
            status.filter(|status| status.is_waiting())
        };
        facts.active.iter().find_map(|ix| {
            match &facts.nodes[*ix as usize].status {
                NodeStatus::Dispatched { child, .. } => waits(child),
                // As long as one of them works, the node does.
                NodeStatus::FannedOut { fan, .. } if fan.pending.is_none() => {
                    let all: Option<Vec<_>> = fan.running.keys().map(waits).collect();
                    all?.first().copied()
                }
                _ => None,
            }
        })
    }

    /// Running children that end with this run, unless it completes.
    pub(crate) fn children_to_stop(&self) -> Vec<StreamId> {
        let Some(facts) = self.facts().filter(|_| !self.is_settled()) else {
            return Vec::new();
        };
        let ends = |node: u32| self.plan.node(NodeIx(node)).propagates_cancellation();
        let children = facts.children.iter();
        let running = children.filter(|(_, child)| child.status.is_none() && ends(child.node));
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a question's deadline has passed although its log does not show it yet, because the
    /// timer has not fired. A paused run has no such timer until it is resumed.
    pub fn is_past_deadline(&self, open: &OpenInterrupt, now: Timestamp) -> bool {
        open.timeout_at.is_some_and(|deadline| deadline <= now)
    }

    /// Children whose end comes after that of this run, whose log is closed and cannot record it.
    pub fn untold_children(&self) -> Vec<StreamId> {
        let facts = self.facts().filter(|_| self.is_settled());
        let children = facts.into_iter().flat_map(|facts| &facts.children);
        let untold = children.filter(|(_, child)| child.status.is_none());
        untold.map(|(id, _)| id.clone()).collect()
    }

    /// Sets the status of such a child from its own log. Only for showing the run: afterwards the
    /// state is not the fold of its log alone.
    pub fn tell_of_child(&mut self, child: &StreamId, status: &str) {
        let RunState::Settled { facts, .. } = &mut self.state else {
            return;
        };
        if let Some(known) = facts.children.get_mut(child) {
            match ChildStatus::parse(status) {
                Some(end) => known.status = Some(end),
                None => known.reported = Some((Some(status.to_owned()), 0)),
            }
        }
    }

    /// The workflow that a node wants to run as a child now, if it names one.
    pub fn wanted_child(&self, ix: NodeIx) -> Option<String> {
        let node = self.plan.node(ix);
        if node.dispatch().is_none() {
            return node.child()?.workflow_id.clone();
        }
        let state = &self.facts()?.nodes[ix.index()];
        let decision = state.inputs.as_ref()?.get("decision")?;
        let workers = decision.get("nextWorkerIds")?;
        Some(workers.get(state.worker as usize)?.as_str()?.to_owned())
    }

    /// The current inputs for such a child.
    pub fn child_inputs(&self, ix: NodeIx) -> Map<String, Value> {
        let node = self.plan.node(ix);
        let child = match self.wanted_child(ix) {
            Some(worker) => node.worker(&worker),
            None => node.child().cloned(),
        };
        let Some(facts) = self.facts() else {
            return Map::new();
        };
        let mapped = child.map(|child| child.child_inputs(&facts.variables));
        let mut inputs = mapped.unwrap_or_default();
        inputs.extend(
            self.brought_for_child(facts, ix)
                .cloned()
                .unwrap_or_default(),
        );
        inputs
    }

    /// The decision's inputs for the current worker of a dispatch node. They override the mapped
    /// inputs for all workers of that workflow.
    fn brought_for_child<'a>(
        &self,
        facts: &'a Facts,
        ix: NodeIx,
    ) -> Option<&'a Map<String, Value>> {
        self.plan.node(ix).dispatch()?;
        let state = &facts.nodes[ix.index()];
        let brought = state.inputs.as_ref()?.get("decision")?.get(WORKER_INPUTS)?;
        brought.get(state.worker as usize)?.as_object()
    }

    /// Attempts of work nodes whose start is durable and whose outcome is not: the holder must be
    /// running exactly these. While the run is stopping they must be stopped.
    pub fn live_attempts(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind == NodeKind::Work)
    }

    /// Started nodes whose child's definition has to be looked up.
    pub fn undispatched(&self) -> impl Iterator<Item = LiveAttempt<'_>> {
        self.in_flight(|kind| kind != NodeKind::Work)
    }

    fn in_flight(&self, of: impl Fn(NodeKind) -> bool) -> impl Iterator<Item = LiveAttempt<'_>> {
        let facts = match &self.state {
            RunState::Active { facts, .. } => Some(facts),
            RunState::Unborn | RunState::Settled { .. } => None,
        };
        facts
            .into_iter()
            .flat_map(move |facts| facts.active.iter().map(move |&ix| (facts, NodeIx(ix))))
            .filter_map(move |(facts, ix)| {
                let node = self.plan.node(ix);
                let run = &facts.nodes[ix.index()];
                let (attempt, restarts) = match &run.status {
                    NodeStatus::InFlight { attempt, restarts } => (*attempt, *restarts),
                    NodeStatus::FannedOut { attempt, fan } if fan.pending.is_some() => {
                        (*attempt, 0)
                    }
                    _ => return None,
                };
                let inputs = run.inputs.as_ref()?;
                of(node.kind).then(|| LiveAttempt {
                    node: ix,
                    id: AttemptId {
                        node: node.id.clone(),
                        visit: run.visit,
                        attempt,
                    },
                    restarts,
                    inputs,
                    timeout_at: facts.timers.get(&timer::timeout(&node.id)).copied(),
                })
            })
    }

    /// Whether any attempt of a work node is in flight.
    pub fn has_live_work(&self) -> bool {
        self.live_attempts().next().is_some()
    }

    /// Whether a node is at work that a drained pause lets finish: an attempt in flight, or a
    /// delay. Waits for outside events may be endless and do not delay a pause.
    pub fn has_unfinished_nodes(&self) -> bool {
        let is_delayed = |facts: &Facts| {
            let active = facts.active.iter();
            let mut statuses = active.map(|ix| &facts.nodes[*ix as usize].status);
            statuses.any(|status| matches!(status, NodeStatus::Delayed { .. }))
        };
        self.has_live_work() || self.facts().is_some_and(is_delayed)
    }

    /// The latest interrupt of a node, and why it is closed, if it is.
    pub fn last_question(&self, node: &NodeId) -> Option<(&InterruptId, Option<Closed>)> {
        let facts = self.facts()?;
        let id = facts.last_asked.get(node)?;
        Some((id, facts.closed_interrupts.get(id).copied()))
    }

    /// Timers that count in the run's phase: a paused run keeps only its own timeout, and a
    /// stopping run none, so that no due timer would be rejected.
    pub fn timers(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let active = match &self.state {
            RunState::Active { phase, facts } if !self.is_copying() => Some((phase, facts)),
            _ => None,
        };
        active.into_iter().flat_map(|(phase, facts)| {
            let counts = move |name: &str| match phase {
                Phase::Pending | Phase::Running => true,
                Phase::Draining { .. } => !name.starts_with("retry/"),
                Phase::Paused { .. } => name == timer::RUN,
                Phase::Stopping { .. } => false,
            };
            facts
                .timers
                .iter()
                .filter(move |(name, _)| counts(name))
                .map(|(name, due)| (name.as_str(), *due))
        })
    }

    /// The earliest timer.
    pub fn next_timer(&self) -> Option<(&str, Timestamp)> {
        self.timers().min_by_key(|(_, due)| *due)
    }

    /// The node of the oldest open interrupt.
    pub fn current_node(&self) -> Option<&NodeId> {
        let open = self.facts()?.interrupts.first()?;
        Some(&self.plan.node(NodeIx(open.node)).id)
    }
}
