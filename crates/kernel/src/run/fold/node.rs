//! Folding the events of nodes.

use serde_json::{Value, json};

use super::{EXPIRED, round_of, set_timer, take_signal, withdraw_question};
use crate::control::answer;
use crate::definition::{ControlKind, NodeIx, NodeKind, PlanNode};
use crate::ids::{InterruptId, NodeId};
use crate::run::InterruptKind;
use crate::run::event::{ApprovalAction, ChainPhase, RunEvent};
use crate::run::fan::Fan;
use crate::run::state::{
    Ballot, Child, Closed, Facts, Held, NodeRun, NodeStatus, OpenInterrupt, Run, RunState, timer,
};
use crate::time::Timestamp;

impl Run {
    pub(super) fn apply_to_node(&mut self, body: &RunEvent, at: Timestamp) -> Result<(), String> {
        let seq = self.head.next_seq;
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
                let plan = self.plan.clone();
                let (ix, facts) = self.node(node_id)?;
                begin_agent(facts, plan.node(ix));
                facts.executions += 1;
                facts.active.insert(ix.0);
                facts.timers.remove(&timer::retry(node_id));
                set_timer(facts, timer::delay(node_id), *due_at);
                set_timer(facts, timer::timeout(node_id), *timeout_at);
                let node = &mut facts.nodes[ix.index()];
                if *visit != node.visit {
                    *node = NodeRun {
                        visit: *visit,
                        round: round_of(plan.node(ix), &node.status),
                        ..NodeRun::default()
                    };
                }
                node.attempts += 1;
                node.asked = 0;
                node.held = None;
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
                self.begin_round(node_id, port.as_deref())?;
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
                facts.budget.count_retry();
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
                asked_before,
                data,
                resume_schema,
                timeout_at,
                ..
            } => {
                let plan = self.plan.clone();
                let (ix, facts) = self.node(node_id)?;
                if plan.node(ix).kind == NodeKind::Work {
                    ask_anew(facts, ix);
                }
                set_timer(facts, timer::interrupt(interrupt_id), *timeout_at);
                facts.nodes[ix.index()].asked += 1;
                *facts.asked_keys.entry(key.clone()).or_default() += 1;
                facts
                    .last_asked
                    .insert(node_id.clone(), interrupt_id.clone());
                facts.interrupts.push(OpenInterrupt {
                    id: interrupt_id.clone(),
                    node: ix.0,
                    kind: *kind,
                    key: key.clone(),
                    asked_before: *asked_before,
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
            RunEvent::ApprovalOverridden {
                interrupt_id,
                principal,
                ..
            } => self.count_vote(interrupt_id, principal, ApprovalAction::Accept, None),
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
                kind,
                ..
            } => {
                let plan = self.plan.clone();
                let (ix, facts) = self.node(node_id)?;
                if plan.node(ix).kind == NodeKind::Work && *kind != InterruptKind::ExternalEvent {
                    // The attempt has ended; the node now waits for the choice after its failure.
                    facts.timers.remove(&timer::timeout(node_id));
                }
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
                let (ix, facts) = self.node(node_id)?;
                facts.nodes[ix.index()].held = None;
                facts.timers.remove(&timer::interrupt(interrupt_id));
                let Some(at) = facts
                    .interrupts
                    .iter()
                    .position(|open| open.id == *interrupt_id)
                else {
                    return Err("no such interrupt is open".into());
                };
                let open = facts.interrupts.remove(at);
                if let Some(id) = answer::event_id(resume_value)
                    && open.kind == InterruptKind::ExternalEvent
                {
                    facts.taken_events.insert(open.id.clone(), id.to_owned());
                }
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
                    worker: facts.nodes[ix.index()].worker,
                    reported: None,
                };
                facts.children.insert(child_run_id.clone(), child);
                let node = &mut facts.nodes[ix.index()];
                match &mut node.status {
                    NodeStatus::InFlight { attempt, .. } => {
                        let (attempt, child) = (*attempt, child_run_id.clone());
                        node.status = NodeStatus::Dispatched { attempt, child };
                    }
                    NodeStatus::FannedOut { fan, .. } => fan.started(child_run_id),
                    _ => {}
                }
            }
            RunEvent::ConfidenceEscalated {
                node_id,
                confidence,
                floor,
                original_decision,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.nodes[ix.index()].held = Some(Held {
                    decision: original_decision.clone(),
                    confidence: *confidence,
                    floor: *floor,
                });
            }
            RunEvent::AgentDecided { .. } => {}
            RunEvent::AgentHandedOff { to_agent_id, .. } => {
                let RunState::Active { facts, .. } = &mut self.state else {
                    return Err("the run has settled".into());
                };
                facts.agent = Some(json!({ "agentId": to_agent_id }));
            }
            RunEvent::OrchestratorDecided { decision, .. } => {
                let RunState::Active { facts, .. } = &mut self.state else {
                    return Err("the run has settled".into());
                };
                facts.decisions = facts.decisions.saturating_add(1);
                facts.decision = Some(decision.clone());
                facts.decided_at = Some(seq);
            }
            RunEvent::ChainStepped {
                node_id,
                phase: ChainPhase::DispatchBegan,
                worker,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.nodes[ix.index()].stepped(*worker, seq);
                let node = &mut facts.nodes[ix.index()];
                node.worker = *worker;
                match &mut node.status {
                    // The worker before it has ended.
                    NodeStatus::Dispatched { attempt, .. } => {
                        node.status = NodeStatus::InFlight {
                            attempt: *attempt,
                            restarts: 0,
                        };
                    }
                    NodeStatus::FannedOut { fan, .. } => fan.begin(*worker),
                    _ => {}
                }
            }
            RunEvent::ChainStepped {
                node_id,
                phase: ChainPhase::DispatchFailed,
                worker_id,
                worker,
                error,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.nodes[ix.index()].stepped(*worker, seq);
                if let NodeStatus::FannedOut { fan, .. } = &mut facts.nodes[ix.index()].status {
                    fan.refused(worker_id, error.clone());
                }
            }
            RunEvent::FannedOut {
                node_id,
                child_count,
                max_concurrency,
                ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                let node = &mut facts.nodes[ix.index()];
                if let NodeStatus::InFlight { attempt, .. } = node.status {
                    let fan = Box::new(Fan::new(*child_count, *max_concurrency));
                    node.status = NodeStatus::FannedOut { attempt, fan };
                }
            }
            RunEvent::ChainStepped {
                node_id, worker, ..
            } => {
                let (ix, facts) = self.node(node_id)?;
                facts.nodes[ix.index()].stepped(*worker, seq);
            }
            RunEvent::Joined { .. } => {}
            _ => return Err("an event of the run, not of a node".into()),
        }
        Ok(())
    }

    pub(super) fn settle_node(
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

    pub(super) fn edges(&self, node: &NodeId, ids: &[String]) -> Result<Vec<u32>, String> {
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

    /// A loop's head chose another round: its body is idle again, one visit later.
    pub(super) fn begin_round(&mut self, head: &NodeId, port: Option<&str>) -> Result<(), String> {
        let plan = self.plan.clone();
        let (ix, facts) = self.node(head)?;
        let node = plan.node(ix);
        let Some(body) = node.body.as_ref().filter(|_| node.begins_round(port)) else {
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

    pub(super) fn open_interrupt(&mut self, id: &InterruptId) -> Option<&mut OpenInterrupt> {
        match &mut self.state {
            RunState::Active { facts, .. } => {
                facts.interrupts.iter_mut().find(|open| open.id == *id)
            }
            RunState::Unborn | RunState::Settled { .. } => None,
        }
    }

    /// Counts a vote while its gate is open; the vote that closes the gate is not counted here.
    pub(super) fn count_vote(
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

    /// Records why an interrupt accepts no further answer.
    pub(super) fn close_interrupt(&mut self, id: &InterruptId, why: Closed) {
        if let RunState::Active { facts, .. } = &mut self.state {
            facts.closed_interrupts.insert(id.clone(), why);
        }
    }

    pub(super) fn expire_question(&mut self, node: &NodeId) -> Result<(), String> {
        let (ix, facts) = self.node(node)?;
        if let NodeStatus::Suspended { interrupt, .. } = &facts.nodes[ix.index()].status {
            let interrupt = interrupt.clone();
            facts.closed_interrupts.insert(interrupt, Closed::Expired);
        }
        Ok(())
    }
}

/// The agent pinned to a node has the work when the node starts. The first supervisor's is the
/// run's orchestrator.
fn begin_agent(facts: &mut Facts, node: &PlanNode) {
    let pinned = node.agent.clone().filter(|agent| {
        let id = agent.get("agentId").and_then(Value::as_str);
        id.is_some_and(|id| !id.is_empty())
    });
    let is_supervisor = node.kind == NodeKind::Control(ControlKind::Supervisor);
    let agent = match pinned {
        Some(agent) => agent,
        None if is_supervisor => json!({ "agentId": format!("host:{}", node.id) }),
        None => return,
    };
    if is_supervisor {
        facts.orchestrator.get_or_insert_with(|| agent.clone());
    }
    facts.agent = Some(agent);
}

/// Closes the question about outside work before the choice after its failure is asked.
fn ask_anew(facts: &mut Facts, ix: NodeIx) {
    withdraw_question(facts, ix);
    let node = &mut facts.nodes[ix.index()];
    if let NodeStatus::Suspended { attempt, .. } = node.status {
        node.status = NodeStatus::InFlight {
            attempt,
            restarts: 0,
        };
    }
}
