//! Legal predecessors of each event of a supervisor and of a dispatch node.

use std::collections::BTreeSet;

use super::Log;
use super::nodes::{Place, WaitsFor, Workers};
use crate::definition::{ControlKind, EdgeIx, NodeIx, NodeKind};
use crate::ids::{Seq, StreamId};
use crate::run::RunEvent;
use crate::run::event::{ChainPhase, JoinOutcome};

impl Log<'_> {
    pub(super) fn is_dispatch(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch)
    }

    pub(super) fn is_supervisor(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::Supervisor)
    }

    /// The default port of an edge: into a supervisor's loop, or out of it. Without a loop only an
    /// edge to a dispatch node has one.
    pub(super) fn supervisor_port(&self, ix: NodeIx, edge: EdgeIx) -> Option<&'static str> {
        if !self.is_supervisor(ix) {
            return None;
        }
        match &self.plan.node(ix).body {
            Some(body) if body.starts.contains(&edge) => Some("dispatch"),
            Some(_) => Some("terminate"),
            None if self.is_dispatch(self.plan.edge(edge).target) => Some("dispatch"),
            None => None,
        }
    }

    pub(super) fn orchestrator_event(&mut self, ix: NodeIx, body: &RunEvent) {
        let id = self.id(ix).clone();
        let under_way = matches!(self.place(ix), Place::Attempt { .. });
        self.require(under_way, || format!("{id} decides but is not under way"));
        match body {
            RunEvent::AgentDecided { .. } => {
                let decides = self.is_supervisor(ix);
                self.require(decides, || format!("{id} does not decide"));
            }
            RunEvent::OrchestratorDecided {
                agent_id,
                iteration,
                ..
            } => {
                let decides = self.is_supervisor(ix) && !self.is_waiting(ix);
                self.require(decides, || format!("{id} has nothing to decide"));
                let known = self
                    .run
                    .orchestrator
                    .get_or_insert_with(|| agent_id.clone());
                let same = known == agent_id;
                self.require(same, || "the run has another orchestrator".into());
                self.run.decisions += 1;
                self.run.decided_at = Some(self.seq);
                let counted = self.run.decisions;
                self.require(counted == *iteration, || {
                    format!("decision {counted} is counted as {iteration}")
                });
            }
            RunEvent::ConfidenceEscalated {
                confidence,
                floor,
                follows,
                ..
            } => {
                self.require(confidence < floor, || {
                    format!("{id} asks about a decision with enough confidence")
                });
                self.follows_decision(*follows);
            }
            RunEvent::LoopbackLimited {
                iterations, limit, ..
            } => {
                self.require(iterations >= limit, || {
                    "a limit is reported as exceeded, but it was not exceeded".into()
                });
                self.run.breached = true;
            }
            RunEvent::FannedOut { .. } | RunEvent::Joined { .. } => self.fan_event(ix, body),
            RunEvent::ChainStepped {
                phase,
                worker,
                child_run_id,
                follows,
                ..
            } => {
                self.follows_step(ix, *phase, *worker, *follows);
                let is_dispatch = self.is_dispatch(ix);
                self.require(is_dispatch, || format!("{id} has no workers"));
                let child = child_run_id.as_ref().map(|child| child.as_str());
                if !self.stepped_among(ix, *phase, *worker, child) {
                    self.stepped(ix, *phase, *worker, child);
                }
            }
            _ => {}
        }
    }

    /// An event that names the decision it carries out must name the last one.
    fn follows_decision(&mut self, follows: Option<Seq>) {
        let fits = follows.is_none() || follows == self.run.decided_at;
        self.require(fits, || {
            "a step follows another than the last decision".into()
        });
    }

    /// A step of a worker that names its predecessor must name the step before it.
    fn follows_step(&mut self, ix: NodeIx, phase: ChainPhase, worker: u32, follows: Option<Seq>) {
        let seq = self.seq;
        let before = self.nodes[ix.index()].steps.insert(worker, seq);
        if phase == ChainPhase::DispatchBegan {
            return self.follows_decision(follows);
        }
        self.require(follows == before, || {
            format!("a step of worker {worker} follows another than the one before it")
        });
    }

    /// Whether concurrent workers were joined before their node is left.
    pub(super) fn left_as_joined(&mut self, ix: NodeIx, waits_for: &WaitsFor, completes: bool) {
        let WaitsFor::Workers(workers) = waits_for else {
            return;
        };
        let id = self.id(ix).clone();
        let fits = match workers.joined {
            Some(JoinOutcome::Failed) => !completes,
            Some(JoinOutcome::Satisfied | JoinOutcome::Partial) => completes,
            None => false,
        };
        self.require(fits, || {
            format!("{id} is left otherwise than its workers were joined")
        });
    }

    /// Concurrent workers begin one by one, within their limit, and are joined once.
    fn fan_event(&mut self, ix: NodeIx, body: &RunEvent) {
        let id = self.id(ix).clone();
        let is_dispatch = self.is_dispatch(ix);
        let merged: &[StreamId] = match body {
            RunEvent::Joined { merge_order, .. } => merge_order,
            _ => &[],
        };
        let has_ended = |run: &StreamId| {
            let child = self.run.children.get(run.as_str());
            child.is_some_and(|child| child.node == ix && child.settled)
        };
        let mut legal = is_dispatch && merged.iter().all(has_ended);
        let node = &mut self.nodes[ix.index()];
        match (&mut node.place, body) {
            (
                Place::Attempt { waits_for, .. },
                RunEvent::FannedOut {
                    child_count,
                    max_concurrency,
                    ..
                },
            ) => {
                legal &= *waits_for == WaitsFor::Work || waits_for.is_answered();
                legal &= *child_count > 1 && *max_concurrency > 0;
                node.worker = None;
                *waits_for = WaitsFor::Workers(Workers {
                    total: *child_count,
                    at_a_time: *max_concurrency,
                    begun: false,
                    runs: BTreeSet::new(),
                    abandoned: BTreeSet::new(),
                    joined: None,
                });
            }
            (
                Place::Attempt {
                    waits_for: WaitsFor::Workers(workers),
                    ..
                },
                RunEvent::Joined { join_outcome, .. },
            ) => {
                legal &= workers.joined.is_none();
                let is_running = |run: &&String| {
                    let child = self.run.children.get(*run);
                    child.is_some_and(|child| !child.settled)
                };
                let running = workers.runs.iter().filter(is_running).count();
                let open = running + usize::from(workers.begun);
                // Each worker that was dropped must have been recorded as cancelled.
                legal &= workers.abandoned.len() == open;
                workers.joined = Some(*join_outcome);
            }
            _ => legal = false,
        }
        self.require(legal, || format!("{id} has no such workers to join"));
    }

    /// A step of one of several concurrent workers. Returns whether it was one.
    fn stepped_among(
        &mut self,
        ix: NodeIx,
        phase: ChainPhase,
        worker: u32,
        child: Option<&str>,
    ) -> bool {
        let id = self.id(ix).clone();
        let children = &self.run.children;
        let has_ended = |run: &String| children.get(run).is_none_or(|child| child.settled);
        let settled = child
            .and_then(|child| children.get(child))
            .filter(|child| child.node == ix)
            .map(|child| child.settled);
        let node = &mut self.nodes[ix.index()];
        let Place::Attempt {
            waits_for: WaitsFor::Workers(workers),
            ..
        } = &mut node.place
        else {
            return false;
        };
        let fits = match phase {
            ChainPhase::DispatchBegan => {
                let follows = node.worker.map_or(0, |before| before + 1) == worker;
                let running = workers.runs.iter().filter(|run| !has_ended(run)).count();
                let has_room = running < workers.at_a_time as usize;
                let fits = follows && has_room && !workers.begun && worker < workers.total;
                node.worker = Some(worker);
                workers.begun = true;
                fits
            }
            ChainPhase::DispatchSucceeded => node.worker == Some(worker) && settled == Some(false),
            ChainPhase::DispatchFailed => {
                node.worker == Some(worker) && std::mem::take(&mut workers.begun)
            }
            ChainPhase::ChildCancelled if settled != Some(true) => {
                let is_one = child.is_none_or(|child| workers.runs.contains(child));
                let has_begun = child.is_some() || workers.begun;
                let fresh = workers.abandoned.insert(worker);
                is_one && has_begun && fresh && workers.joined.is_none()
            }
            ChainPhase::ChildCompleted | ChainPhase::ChildFailed | ChainPhase::ChildCancelled => {
                workers.joined.is_none() && settled == Some(true)
            }
            ChainPhase::OutputHarvested => settled == Some(true),
        };
        self.require(fits, || {
            format!("{id} reports {phase:?} for a worker too early")
        });
        true
    }

    fn is_waiting(&self, ix: NodeIx) -> bool {
        match self.place(ix) {
            Place::Attempt { waits_for, .. } => {
                matches!(waits_for, WaitsFor::Answer(_)) && !waits_for.is_answered()
            }
            _ => false,
        }
    }

    fn stepped(&mut self, ix: NodeIx, phase: ChainPhase, worker: u32, child: Option<&str>) {
        let id = self.id(ix).clone();
        if phase == ChainPhase::DispatchBegan {
            let before = self.nodes[ix.index()].worker;
            let follows = match before {
                None => worker == 0,
                Some(before) => worker == before || worker == before + 1,
            };
            self.require(follows, || format!("{id} leaves a worker out"));
            let is_free = match self.place(ix) {
                Place::Attempt { waits_for, .. } => match waits_for {
                    WaitsFor::Work => true,
                    WaitsFor::Child(child) => {
                        let child = self.run.children.get(child);
                        child.is_some_and(|child| child.settled)
                    }
                    waits_for => waits_for.is_answered(),
                },
                _ => false,
            };
            self.require(is_free, || {
                format!("{id} starts a worker before the previous one has ended")
            });
            let node = &mut self.nodes[ix.index()];
            node.worker = Some(worker);
            if let Place::Attempt { waits_for, .. } = &mut node.place {
                *waits_for = WaitsFor::Work;
            }
            return;
        }
        let current = self.nodes[ix.index()].worker;
        self.require(current == Some(worker), || {
            format!("{id} reports a worker that is not the current one")
        });
        let settled = match (self.place(ix), child) {
            (
                Place::Attempt {
                    waits_for: WaitsFor::Child(current),
                    ..
                },
                Some(child),
            ) if current == child => self.run.children.get(child).map(|child| child.settled),
            _ => None,
        };
        let is_looked_up = child.is_none()
            && matches!(
                self.place(ix),
                Place::Attempt {
                    waits_for: WaitsFor::Work,
                    ..
                }
            );
        let fits = match phase {
            // An abandoned worker.
            ChainPhase::ChildCancelled if settled != Some(true) => {
                is_looked_up || settled == Some(false)
            }
            ChainPhase::DispatchBegan => true,
            ChainPhase::DispatchSucceeded => settled == Some(false),
            ChainPhase::DispatchFailed => child.is_none(),
            ChainPhase::ChildCompleted
            | ChainPhase::ChildFailed
            | ChainPhase::ChildCancelled
            | ChainPhase::OutputHarvested => settled == Some(true),
        };
        self.require(fits, || format!("{id} reports {phase:?} for another child"));
    }
}
