//! Fold: from events to state.
//!
//! Deterministic and total: `fold(a + b) = fold(fold(a), b)`. An event that cannot follow the state
//! before it is an error with its sequence, never a panic.

mod abandon;
mod checkpoint;
mod node;

use crate::run::RunStatus;
use serde_json::{Map, Value};

use crate::definition::{NodeIx, PlanNode};
use crate::ids::NodeId;
use crate::run::budget::Budget;
use crate::run::cause::CausedBy;
use crate::run::channel;
use crate::run::event::{DrainPolicy, Event, RunEvent};
use crate::run::state::{
    Closed, End, Facts, Inbox, NodeRun, NodeStatus, Phase, Run, RunState, Signal, UsageTotal, Work,
    timer,
};
use crate::stream::ForkMode;
use crate::time::Timestamp;

/// The error code of a node whose question was not answered in time.
const EXPIRED: &str = "interrupt_expired";

/// An event that cannot follow the events before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} cannot follow the events before it: {what}")]
pub struct BadEvent {
    /// The event's sequence.
    pub seq: u64,
    /// The fault.
    pub what: String,
}

impl Run {
    /// Folds one stored event into the state and extends the hash chain.
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

    /// Folds one event. The caller, which has its bytes, extends the hash chain.
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
        self.count_work(event.at);
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
            | RunEvent::BudgetThresholdCrossed { .. }
            | RunEvent::BudgetExhausted { .. }
            | RunEvent::RunDeadLettered { .. }
            | RunEvent::LoopbackLimited { .. }
            | RunEvent::OutputChunk { .. }
            | RunEvent::LogAppended { .. }
            | RunEvent::ToolCalled(_)
            | RunEvent::ToolReturned(_)
            | RunEvent::EnvelopeRefused(_)
            | RunEvent::EnvelopeTruncated(_)
            | RunEvent::EnvelopeRetried(_)
            | RunEvent::EnvelopeRecovered(_)
            | RunEvent::EnvelopeCoerced(_)
            | RunEvent::PromptComposed(_)
            | RunEvent::EnvelopesExhausted(_) => {}
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
                let declared = self.plan.channels.get(channel);
                if let Some(channels) = facts.channels.as_object_mut() {
                    let slot = channels
                        .entry(channel.clone())
                        .or_insert_with(|| channel::initial(reducer, declared));
                    channel::reduce_in_place(reducer, declared, slot, value, *written_at);
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
            RunEvent::ProviderUsage { usage, .. } => {
                UsageTotal::add(&mut facts.usage, usage);
                let origin = self.header.origin.as_ref();
                // Copied and repeated calls were paid for by the source.
                if origin.is_none_or(|it| it.mode == ForkMode::Branch && event.seq >= it.seq) {
                    facts.count_use(usage);
                }
            }
            RunEvent::BudgetReserved { attempt, amounts } => {
                facts.budget.reserve(&attempt.to_string(), amounts);
            }
            RunEvent::BudgetAnnounced { .. } => facts.budget.is_announced = true,
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
                variables,
                outputs,
                error,
                spent,
            } => {
                facts.budget.settle(child_run_id.as_str(), spent);
                let Some(child) = facts.children.get_mut(child_run_id) else {
                    return Err("no such child run was started".into());
                };
                child.status = Some(*status);
                let ix = child.node as usize;
                if let NodeStatus::FannedOut { fan, .. } = &mut facts.nodes[ix].status {
                    let of = (child.workflow.as_str(), &self.plan.nodes[ix]);
                    let gave = (variables, outputs);
                    fan.settled(child_run_id, of, *status, gave, error.as_ref());
                }
            }
            RunEvent::ChildReported {
                child_run_id,
                status,
                child_sequence,
            } => {
                let Some(child) = facts.children.get_mut(child_run_id) else {
                    return Err("no such child run was started".into());
                };
                child.reported = Some((status.clone(), *child_sequence));
            }
            body => self.apply_to_node(body, at)?,
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
            request_id: match event.cause.as_ref().map(|cause| &cause.command) {
                Some(CausedBy::Create { request_id, .. }) => request_id.clone(),
                _ => None,
            },
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
            taken_events: Default::default(),
            last_asked: Default::default(),
            asked_keys: Default::default(),
            inbox: Inbox::default(),
            children: Default::default(),
            timers: Default::default(),
            work: self.plan.settings.work_timeout_ms.map(|_| Work::default()),
            budget: Budget {
                limits: self.plan.limits_of_runs(&policy.budget),
                ..Budget::default()
            },
            usage: None,
            usage_by_model: Default::default(),
            artifacts: Vec::new(),
            seen: Default::default(),
            takeovers: 0,
            forked_from: None,
            agent: None,
            orchestrator: None,
            decision: None,
            decisions: 0,
            decided_at: None,
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
            Some(CausedBy::Create {
                start: crate::run::Start::Now,
                ..
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

    /// Measures the working time of a run with a limit: the clock stops while the run is paused or
    /// only waits for outside events.
    fn count_work(&mut self, at: Timestamp) {
        let work = self.facts().and_then(|facts| facts.work);
        let (Some(limit), Some(work)) = (self.plan.settings.work_timeout_ms, work) else {
            return;
        };
        let works = matches!(self.status(), RunStatus::Running | RunStatus::Cancelling);
        let RunState::Active { facts, .. } = &mut self.state else {
            return;
        };
        let work = match (works, work.since) {
            (true, None) => Work {
                since: Some(at),
                ..work
            },
            (false, Some(since)) => Work {
                done_ms: work.done_ms.saturating_add(at.ms_since(since)),
                since: None,
            },
            _ => return,
        };
        facts.work = Some(work);
        let left = limit.saturating_sub(work.done_ms);
        let due = work.since.map(|since| since.plus_ms(left));
        set_timer(facts, timer::WORK.to_owned(), due);
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
}

fn set_timer(facts: &mut Facts, name: String, due: Option<Timestamp>) {
    match due {
        Some(due) => drop(facts.timers.insert(name, due)),
        None => drop(facts.timers.remove(&name)),
    }
}

/// The index of the round that a loop's head has begun.
fn round_of(head: &PlanNode, status: &NodeStatus) -> Option<u64> {
    match status {
        NodeStatus::Completed { outputs, port, .. } if head.begins_round(port.as_deref()) => {
            outputs.get("index").and_then(Value::as_u64)
        }
        _ => None,
    }
}

/// Withdraws the open interrupt of a node that no longer waits.
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

/// Removes the signal that was the answer, if one was. Signals that do not fit stay.
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
