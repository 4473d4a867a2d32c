//! Fold: from events to state.
//!
//! Deterministic and total: `fold(a + b) = fold(fold(a), b)`, and an event that cannot follow
//! the state before it is an error that names its sequence, never a panic.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::{NodeIx, Plan, Reducer};
use crate::digest::Digest;
use crate::ids::{InterruptId, NodeId, Seq};
use crate::run::budget::Budget;
use crate::run::channel;
use crate::run::event::{ApprovalAction, DrainPolicy, Event, RunEvent};
use crate::run::state::{
    Ballot, Child, Closed, End, Facts, Head, Inbox, NodeRun, NodeStatus, OpenInterrupt, Phase, Run,
    RunState, Signal, UsageTotal, timer,
};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// The code of a node that failed because nobody answered in time.
const EXPIRED: &str = "interrupt_expired";

/// An event that cannot stand where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} cannot follow the events before it: {what}")]
pub struct BadEvent {
    /// The event's sequence.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

impl Run {
    /// Folds one event that is stored as `content` into the state and extends the hash chain.
    ///
    /// # Errors
    /// When the content is not an event of this format, or cannot follow.
    pub fn fold_content(&mut self, content: &[u8]) -> Result<Event, BadEvent> {
        let event: Event = serde_json::from_slice(content).map_err(|error| BadEvent {
            seq: self.head.next_seq,
            what: format!(
                "not an event of format {}: {error}",
                crate::stream::FORMAT_VERSION
            ),
        })?;
        self.fold(&event)?;
        self.head.chain = self.head.chain.chain(content);
        Ok(event)
    }

    /// Folds one event; the hash chain is extended by whoever has its bytes.
    ///
    /// # Errors
    /// When the event cannot follow. The state is then unusable and must be dropped.
    pub fn fold(&mut self, event: &Event) -> Result<(), BadEvent> {
        let bad = |what: &str| BadEvent {
            seq: event.seq,
            what: what.to_owned(),
        };
        if event.seq != self.head.next_seq {
            return Err(bad("its sequence is not the next one"));
        }
        if event.at < self.head.at {
            return Err(bad("it is older than the event before it"));
        }
        self.apply(event).map_err(|what| bad(&what))?;
        self.head.next_seq += 1;
        self.head.at = event.at;
        Ok(())
    }

    fn apply(&mut self, event: &Event) -> Result<(), String> {
        let at = event.at;
        if let RunState::Unborn = self.state {
            return self.begin(event);
        }
        let RunState::Active { facts, .. } = &mut self.state else {
            return Err("the run has settled".into());
        };
        if let Some(message) = event
            .cause
            .as_ref()
            .and_then(|cause| cause.message.as_ref())
        {
            facts.seen.insert(message.clone());
        }
        match &event.body {
            RunEvent::RunStarted { .. } => return Err("the run has started before".into()),
            RunEvent::RunCompleted { outputs, .. } => {
                self.settle(
                    End::Completed {
                        outputs: outputs.clone(),
                    },
                    at,
                );
            }
            RunEvent::RunFailed {
                error,
                failed_node_id,
                ..
            } => {
                let end = End::Failed {
                    error: error.clone(),
                    node: failed_node_id.clone(),
                };
                self.settle(end, at);
            }
            RunEvent::RunCancelled { reason, .. } => {
                self.settle(
                    End::Cancelled {
                        reason: reason.clone(),
                    },
                    at,
                );
            }
            RunEvent::RunStopping { ending } => {
                self.set_phase(Phase::Stopping {
                    ending: ending.clone(),
                });
            }
            RunEvent::RunDraining { reason } => {
                self.set_phase(Phase::Draining {
                    reason: reason.clone(),
                });
            }
            RunEvent::RunPaused {
                reason,
                drain_policy,
            } => {
                if *drain_policy == DrainPolicy::Immediate {
                    self.abandon_in_flight();
                }
                self.set_phase(Phase::Paused {
                    reason: reason.clone(),
                    at,
                });
            }
            RunEvent::RunResumed { .. } => self.set_phase(Phase::Running),
            RunEvent::RunResuming { .. } => facts.takeovers = facts.takeovers.saturating_add(1),
            RunEvent::RunForked {
                source_run_id,
                tags,
                metadata,
                configurable,
                ..
            } => {
                facts.forked_from = Some(source_run_id.clone());
                if let Some(tags) = tags {
                    facts.tags.clone_from(tags);
                }
                if let Some(metadata) = metadata {
                    facts.metadata.clone_from(metadata);
                }
                if let Some(configurable) = configurable {
                    facts.configurable.clone_from(configurable);
                }
                self.leave_the_source_behind(at);
            }
            RunEvent::ReplayDiverged { .. }
            | RunEvent::CapBreached { .. }
            | RunEvent::RunDeadLettered { .. }
            | RunEvent::OutputChunk { .. }
            | RunEvent::LogAppended { .. } => {}
            RunEvent::VariableChanged { name, next, .. } => {
                if let Some(variables) = facts.variables.as_object_mut() {
                    variables.insert(name.clone(), next.clone());
                }
            }
            RunEvent::ChannelWritten {
                channel,
                value,
                reducer,
                written_at,
                ..
            } => {
                let reducer = Reducer::of(reducer).unwrap_or(Reducer::Replace);
                let declared = self.plan.channels.get(channel);
                if let Some(channels) = facts.channels.as_object_mut() {
                    let slot = channels
                        .entry(channel.clone())
                        .or_insert_with(|| channel::initial(&reducer, declared));
                    channel::reduce_in_place(&reducer, declared, slot, value, *written_at);
                    if declared.is_some_and(|channel| channel.in_variable)
                        && let Some(variables) = facts.variables.as_object_mut()
                    {
                        variables.insert(channel.clone(), slot.clone());
                    }
                }
            }
            RunEvent::ArtifactCreated { artifact, node_id } => {
                facts.artifacts.push((node_id.clone(), artifact.clone()));
            }
            RunEvent::ProviderUsage { usage, .. } => UsageTotal::add(&mut facts.usage, usage),
            RunEvent::BudgetReserved { attempt, amounts } => {
                facts.budget.reserve(&attempt.to_string(), amounts);
            }
            RunEvent::BudgetSettled { attempt, spent } => {
                facts.budget.settle(&attempt.to_string(), spent);
            }
            RunEvent::SignalReceived { name, id, payload } => {
                facts.inbox.seen.insert((name.clone(), id.clone()));
                let signal = Signal {
                    id: id.clone(),
                    payload: payload.clone(),
                };
                facts
                    .inbox
                    .waiting
                    .entry(name.clone())
                    .or_default()
                    .push(signal);
            }
            RunEvent::ChildSettled {
                child_run_id,
                status,
                spent,
                ..
            } => {
                facts.budget.settle(child_run_id.as_str(), spent);
                let Some(child) = facts.children.get_mut(child_run_id) else {
                    return Err("no such child run was started".into());
                };
                child.status = Some(*status);
            }
            body => self.apply_to_node(body, at)?,
        }
        Ok(())
    }

    fn apply_to_node(&mut self, body: &RunEvent, at: Timestamp) -> Result<(), String> {
        match body {
            RunEvent::NodeStarted {
                node_id,
                visit,
                attempt,
                inputs,
                due_at,
                timeout_at,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.executions += 1;
                facts.active.insert(ix.0);
                facts.timers.remove(&timer::retry(node_id));
                set_timer(facts, timer::delay(node_id), *due_at);
                set_timer(facts, timer::timeout(node_id), *timeout_at);
                let node = &mut facts.nodes[ix.index()];
                if *visit != node.visit {
                    *node = NodeRun {
                        visit: *visit,
                        round: round_of(&node.status),
                        ..NodeRun::default()
                    };
                }
                node.attempts += 1;
                node.asked = 0;
                node.started_at.get_or_insert(at);
                if let Some(inputs) = inputs {
                    node.inputs = Some(inputs.clone());
                }
                node.status = match due_at {
                    Some(_) => NodeStatus::Delayed { attempt: *attempt },
                    None => NodeStatus::InFlight {
                        attempt: *attempt,
                        restarts: 0,
                    },
                };
            }
            RunEvent::AttemptRestarted {
                node_id,
                restarts: n,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                if let NodeStatus::InFlight { restarts, .. } = &mut facts.nodes[ix.index()].status {
                    *restarts = *n;
                }
            }
            RunEvent::NodeCompleted {
                node_id,
                outputs,
                port,
                declined_edges,
                ..
            } => {
                let declined = self.edges(node_id, declined_edges)?;
                let status = NodeStatus::Completed {
                    outputs: Value::Object(outputs.clone()),
                    port: port.clone(),
                    declined,
                };
                self.settle_node(node_id, status, at)?;
                if port.as_deref() == Some("body") {
                    self.begin_round(node_id)?;
                }
            }
            RunEvent::NodeFailed {
                node_id,
                error,
                declined_edges,
                ..
            } => {
                if error.code == EXPIRED {
                    self.expire_question(node_id)?;
                }
                let declined = self.edges(node_id, declined_edges)?;
                self.settle_node(
                    node_id,
                    NodeStatus::Failed {
                        error: error.clone(),
                        declined,
                    },
                    at,
                )?;
            }
            RunEvent::NodeSkipped {
                node_id, reason, ..
            } => {
                self.settle_node(node_id, NodeStatus::Skipped { reason: *reason }, at)?;
            }
            RunEvent::NodeCancelled { node_id, .. } => {
                self.settle_node(node_id, NodeStatus::Cancelled, at)?;
            }
            RunEvent::NodeRetried {
                node_id,
                attempt,
                delay_ms,
                last_error,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.timers.remove(&timer::timeout(node_id));
                facts.timers.remove(&timer::delay(node_id));
                let due = (*delay_ms > 0).then(|| at.plus_ms(*delay_ms));
                set_timer(facts, timer::retry(node_id), due);
                withdraw_question(facts, ix);
                let node = &mut facts.nodes[ix.index()];
                node.retries += 1;
                node.status = match due {
                    Some(_) => NodeStatus::Backoff {
                        attempt: *attempt,
                        last_error: last_error.clone(),
                    },
                    None => NodeStatus::Ready { attempt: *attempt },
                };
            }
            RunEvent::InterruptRequested {
                interrupt_id,
                node_id,
                kind,
                key,
                data,
                resume_schema,
                timeout_at,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                set_timer(facts, timer::interrupt(interrupt_id), *timeout_at);
                facts.nodes[ix.index()].asked += 1;
                facts.interrupts.push(OpenInterrupt {
                    id: interrupt_id.clone(),
                    node: ix.0,
                    kind: kind.clone(),
                    key: key.clone(),
                    data: data.clone(),
                    resume_schema: resume_schema.clone(),
                    requested_at: at,
                    timeout_at: *timeout_at,
                    announced: false,
                    votes: Vec::new(),
                });
            }
            RunEvent::ApprovalRequested { interrupt_id, .. }
            | RunEvent::ClarificationRequested { interrupt_id, .. } => {
                if let Some(open) = self.open_interrupt(interrupt_id) {
                    open.announced = true;
                }
            }
            RunEvent::ApprovalGranted {
                interrupt_id,
                principal,
                vote,
                ..
            } => {
                let edited = vote
                    .resume_value
                    .as_ref()
                    .and_then(|value| value.get("editedArtifactData"))
                    .cloned();
                self.count_vote(interrupt_id, principal, ApprovalAction::Accept, edited);
            }
            RunEvent::ApprovalRejected {
                interrupt_id,
                principal,
                ..
            } => self.count_vote(interrupt_id, principal, ApprovalAction::Reject, None),
            RunEvent::ApprovalReceived {
                interrupt_id,
                action: ApprovalAction::Timeout,
                ..
            } => self.close_interrupt(interrupt_id, Closed::Expired),
            RunEvent::ApprovalReceived { .. }
            | RunEvent::ApprovalAsked { .. }
            | RunEvent::ClarificationResolved { .. } => {}
            RunEvent::NodeSuspended {
                node_id,
                interrupt_id,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                let node = &mut facts.nodes[ix.index()];
                if let NodeStatus::InFlight { attempt, .. } = node.status {
                    let interrupt = interrupt_id.clone();
                    node.status = NodeStatus::Suspended { attempt, interrupt };
                }
            }
            RunEvent::InterruptResolved {
                interrupt_id,
                node_id,
                resume_value,
                ..
            } => {
                let (_, facts) = self.node(node_id)?;
                facts.timers.remove(&timer::interrupt(interrupt_id));
                let Some(at) = facts
                    .interrupts
                    .iter()
                    .position(|open| open.id == *interrupt_id)
                else {
                    return Err("no such interrupt is open".into());
                };
                let open = facts.interrupts.remove(at);
                facts
                    .closed_interrupts
                    .entry(open.id)
                    .or_insert(Closed::Answered);
                take_signal(&mut facts.inbox, &open.key, resume_value);
            }
            RunEvent::NodeResumed { node_id, .. } => {
                let (ix, facts) = self.node(node_id)?;
                let node = &mut facts.nodes[ix.index()];
                if let NodeStatus::Suspended { attempt, .. } = node.status {
                    node.status = NodeStatus::InFlight {
                        attempt,
                        restarts: 0,
                    };
                }
            }
            RunEvent::NodeDispatched {
                node_id,
                child_run_id,
                child_workflow_id,
                visit,
                budget,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                if !budget.is_empty() {
                    facts.budget.reserve(child_run_id.as_str(), budget);
                }
                let child = Child {
                    node: ix.0,
                    visit: *visit,
                    workflow: child_workflow_id.clone(),
                    status: None,
                };
                facts.children.insert(child_run_id.clone(), child);
                let node = &mut facts.nodes[ix.index()];
                if let NodeStatus::InFlight { attempt, .. } = node.status {
                    let child = child_run_id.clone();
                    node.status = NodeStatus::Dispatched { attempt, child };
                }
            }
            _ => return Err("an event of the run, not of a node".into()),
        }
        Ok(())
    }

    fn begin(&mut self, event: &Event) -> Result<(), String> {
        let RunEvent::RunStarted {
            inputs,
            variables,
            transport,
            engine_version,
            tags,
            metadata,
            configurable,
            ..
        } = &event.body
        else {
            return Err("the first event of a run is run.started".into());
        };
        let policy = &self.header.policy;
        let mut facts = Facts {
            started_at: event.at,
            engine_version: *engine_version,
            transport: transport.clone(),
            inputs: Value::Object(inputs.clone()),
            variables: Value::Object(variables.clone()),
            channels: Value::Object(Map::new()),
            tags: tags.clone(),
            metadata: metadata.clone(),
            configurable: configurable.clone(),
            nodes: vec![NodeRun::default(); self.plan.nodes.len()],
            active: Default::default(),
            executions: 0,
            interrupts: Vec::new(),
            closed_interrupts: Default::default(),
            inbox: Inbox::default(),
            children: Default::default(),
            timers: Default::default(),
            budget: Budget {
                limits: policy.budget.clone(),
                ..Budget::default()
            },
            usage: None,
            artifacts: Vec::new(),
            seen: Default::default(),
            takeovers: 0,
            forked_from: None,
        };
        if let Some(message) = event
            .cause
            .as_ref()
            .and_then(|cause| cause.message.as_ref())
        {
            facts.seen.insert(message.clone());
        }
        let timeout = [policy.run_timeout_ms, self.plan.settings.timeout_ms];
        let due = timeout
            .into_iter()
            .flatten()
            .min()
            .map(|ms| event.at.plus_ms(ms));
        set_timer(&mut facts, timer::RUN.to_owned(), due);
        let phase = match event.cause.as_ref().map(|cause| &cause.command) {
            Some(crate::run::CausedBy::Create {
                start: crate::run::Start::Now,
            }) => Phase::Running,
            _ => Phase::Pending,
        };
        self.state = RunState::Active {
            phase,
            facts: Box::new(facts),
        };
        Ok(())
    }

    fn node(&mut self, id: &NodeId) -> Result<(NodeIx, &mut Facts), String> {
        let ix = self
            .plan
            .node_ix(id.as_str())
            .ok_or("its node is not in the definition")?;
        let RunState::Active { phase, facts } = &mut self.state else {
            return Err("the run has settled".into());
        };
        // A pending run leaves its queue with the first event of a node.
        if *phase == Phase::Pending {
            *phase = Phase::Running;
        }
        Ok((ix, facts))
    }

    fn open_interrupt(&mut self, id: &InterruptId) -> Option<&mut OpenInterrupt> {
        match &mut self.state {
            RunState::Active { facts, .. } => {
                facts.interrupts.iter_mut().find(|open| open.id == *id)
            }
            RunState::Unborn | RunState::Settled { .. } => None,
        }
    }

    /// A vote counts as long as its gate is open; the one that closes it is counted no more.
    fn count_vote(
        &mut self,
        id: &InterruptId,
        by: &str,
        action: ApprovalAction,
        edited: Option<Value>,
    ) {
        if let Some(open) = self.open_interrupt(id) {
            open.votes.push(Ballot {
                by: by.to_owned(),
                action,
                edited,
            });
        }
    }

    /// Says why an interrupt will take no answer, whatever closes it.
    fn close_interrupt(&mut self, id: &InterruptId, why: Closed) {
        if let RunState::Active { facts, .. } = &mut self.state {
            facts.closed_interrupts.insert(id.clone(), why);
        }
    }

    fn expire_question(&mut self, node: &NodeId) -> Result<(), String> {
        let (ix, facts) = self.node(node)?;
        if let NodeStatus::Suspended { interrupt, .. } = &facts.nodes[ix.index()].status {
            let interrupt = interrupt.clone();
            facts.closed_interrupts.insert(interrupt, Closed::Expired);
        }
        Ok(())
    }

    fn edges(&self, node: &NodeId, ids: &[String]) -> Result<Vec<u32>, String> {
        let ix = self
            .plan
            .node_ix(node.as_str())
            .ok_or("its node is not in the definition")?;
        let outgoing = &self.plan.node(ix).outgoing;
        ids.iter()
            .map(|id| {
                outgoing
                    .iter()
                    .find(|edge| self.plan.edge(**edge).id == *id)
            })
            .map(|edge| {
                edge.map(|edge| edge.0)
                    .ok_or_else(|| "an edge its node lacks".to_owned())
            })
            .collect()
    }

    fn settle_node(
        &mut self,
        id: &NodeId,
        status: NodeStatus,
        at: Timestamp,
    ) -> Result<(), String> {
        let (ix, facts) = self.node(id)?;
        facts.active.remove(&ix.0);
        for name in [timer::delay(id), timer::timeout(id), timer::retry(id)] {
            facts.timers.remove(&name);
        }
        withdraw_question(facts, ix);
        let node = &mut facts.nodes[ix.index()];
        node.inputs = None;
        node.settled_at = Some(at);
        node.status = status;
        Ok(())
    }

    /// A loop's head chose another round: its body is idle again, one visit later.
    fn begin_round(&mut self, head: &NodeId) -> Result<(), String> {
        let plan = self.plan.clone();
        let (ix, facts) = self.node(head)?;
        let Some(body) = &plan.node(ix).body else {
            return Ok(());
        };
        for inner in &body.nodes {
            let node = &mut facts.nodes[inner.index()];
            if node.status != NodeStatus::Idle {
                *node = NodeRun {
                    visit: node.visit.saturating_add(1),
                    ..NodeRun::default()
                };
            }
        }
        Ok(())
    }

    /// An immediate pause: attempts in flight and delays start over as new attempts.
    fn abandon_in_flight(&mut self) {
        self.abandon(|_, status| match status {
            NodeStatus::InFlight { attempt, .. } | NodeStatus::Delayed { attempt } => {
                Some(*attempt)
            }
            _ => None,
        });
    }

    /// A branch: what is in flight belongs to the source and starts over here as new attempts,
    /// children as other runs. Every other wait goes on as if no time had passed. Where the cut
    /// went through an interrupt, an open question stays open and an answered one is asked anew.
    fn leave_the_source_behind(&mut self, at: Timestamp) {
        let open: BTreeSet<InterruptId> = match self.facts() {
            Some(facts) => facts
                .interrupts
                .iter()
                .map(|open| open.id.clone())
                .collect(),
            None => BTreeSet::new(),
        };
        let asking: BTreeSet<u32> = match self.facts() {
            Some(facts) => facts.interrupts.iter().map(|open| open.node).collect(),
            None => BTreeSet::new(),
        };
        self.abandon(|ix, status| match status {
            NodeStatus::InFlight { .. } if asking.contains(&ix) => None,
            NodeStatus::Suspended { interrupt, .. } if open.contains(interrupt) => None,
            NodeStatus::InFlight { attempt, .. }
            | NodeStatus::Delayed { attempt }
            | NodeStatus::Suspended { attempt, .. }
            | NodeStatus::Dispatched { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let passed = at.ms_since(self.head.at);
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        facts.children.retain(|_, child| child.status.is_some());
        facts.budget.reserved.clear();
        for due in facts.timers.values_mut() {
            *due = due.plus_ms(passed);
        }
        for open in &mut facts.interrupts {
            open.timeout_at = open.timeout_at.map(|due| due.plus_ms(passed));
        }
    }

    /// Makes the next attempt ready of every node whose current one is chosen.
    fn abandon(&mut self, chosen: impl Fn(u32, &NodeStatus) -> Option<u32>) {
        let plan = self.plan.clone();
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        for &ix in &facts.active {
            let node = &mut facts.nodes[ix as usize];
            let Some(attempt) = chosen(ix, &node.status) else {
                continue;
            };
            let id = &plan.nodes[ix as usize].id;
            facts.timers.remove(&timer::delay(id));
            facts.timers.remove(&timer::timeout(id));
            node.status = NodeStatus::Ready {
                attempt: attempt.saturating_add(1),
            };
        }
    }

    fn set_phase(&mut self, to: Phase) {
        if let RunState::Active { phase, .. } = &mut self.state {
            *phase = to;
        }
    }

    fn settle(&mut self, end: End, at: Timestamp) {
        let before = std::mem::replace(&mut self.state, RunState::Unborn);
        if let RunState::Active { mut facts, .. } = before {
            facts.timers.clear();
            for open in std::mem::take(&mut facts.interrupts) {
                facts.closed_interrupts.insert(open.id, Closed::Withdrawn);
            }
            facts.active.clear();
            self.state = RunState::Settled { end, at, facts };
        }
    }

    /// The state as bytes, for a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        let saved = SavedRef {
            version: STATE_VERSION,
            at: self.head.at,
            state: &self.state,
        };
        serde_json::to_vec(&saved).expect("a state is always JSON")
    }

    /// A run at the place a checkpoint was taken: after `next_seq` events, the last of which has
    /// this link of the hash chain. `None` when the bytes are not a state of this build: the log
    /// is then folded from its start.
    pub fn from_checkpoint(
        header: Arc<StreamHeader>,
        plan: Arc<Plan>,
        next_seq: Seq,
        chain: Digest,
        state: &[u8],
    ) -> Option<Self> {
        let Saved { version, at, state } = serde_json::from_slice(state).ok()?;
        let run = Self {
            header,
            plan,
            head: Head {
                next_seq,
                chain,
                at,
            },
            state,
        };
        let nodes = run.facts().map(|facts| facts.nodes.len());
        (version == STATE_VERSION && nodes == Some(run.plan.nodes.len())).then_some(run)
    }
}

/// Raised whenever a checkpoint of an earlier build would be read wrongly.
const STATE_VERSION: u32 = 2;

#[derive(Serialize)]
struct SavedRef<'a> {
    version: u32,
    at: Timestamp,
    state: &'a RunState,
}

#[derive(Deserialize)]
struct Saved {
    version: u32,
    at: Timestamp,
    state: RunState,
}

fn set_timer(facts: &mut Facts, name: String, due: Option<Timestamp>) {
    match due {
        Some(due) => drop(facts.timers.insert(name, due)),
        None => drop(facts.timers.remove(&name)),
    }
}

/// The index of the round that a loop's head has begun.
fn round_of(status: &NodeStatus) -> Option<u64> {
    match status {
        NodeStatus::Completed { outputs, port, .. } if port.as_deref() == Some("body") => {
            outputs.get("index").and_then(Value::as_u64)
        }
        _ => None,
    }
}

/// A node that no longer waits has no open interrupt.
fn withdraw_question(facts: &mut Facts, ix: NodeIx) {
    if let NodeStatus::Suspended { interrupt, .. } = &facts.nodes[ix.index()].status {
        facts.timers.remove(&timer::interrupt(interrupt));
        facts.interrupts.retain(|open| open.id != *interrupt);
        facts
            .closed_interrupts
            .entry(interrupt.clone())
            .or_insert(Closed::Withdrawn);
    }
}

/// The signal that was the answer, if one was. Others that do not fit stay.
fn take_signal(inbox: &mut Inbox, name: &str, answer: &Value) {
    let Some(waiting) = inbox.waiting.get_mut(name) else {
        return;
    };
    if let Some(at) = waiting.iter().position(|signal| signal.payload == *answer) {
        waiting.remove(at);
        if waiting.is_empty() {
            inbox.waiting.remove(name);
        }
    }
}
