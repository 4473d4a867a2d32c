//! What each event of a supervisor and of a dispatch node may follow.

use super::Log;
use super::nodes::{Place, WaitsFor};
use crate::definition::{ControlKind, EdgeIx, NodeIx, NodeKind};
use crate::run::RunEvent;
use crate::run::event::ChainPhase;

impl Log<'_> {
    pub(super) fn is_dispatch(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch)
    }

    fn is_supervisor(&self, ix: NodeIx) -> bool {
        self.plan.node(ix).kind == NodeKind::Control(ControlKind::Supervisor)
    }

    /// The port that an edge belongs to which names none: into a supervisor's loop, or out of it.
    /// Without a loop only an edge to a dispatch node belongs to one.
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
                let counted = self.run.decisions;
                self.require(counted == *iteration, || {
                    format!("decision {counted} is counted as {iteration}")
                });
            }
            RunEvent::ConfidenceEscalated {
                confidence, floor, ..
            } => {
                self.require(confidence < floor, || {
                    format!("{id} asks about a decision that is sure enough")
                });
            }
            RunEvent::LoopbackLimited {
                iterations, limit, ..
            } => {
                self.require(iterations >= limit, || {
                    "a bound is breached that was kept".into()
                });
                self.run.breached = true;
            }
            RunEvent::ChainStepped {
                phase,
                worker,
                child_run_id,
                ..
            } => {
                let is_dispatch = self.is_dispatch(ix);
                self.require(is_dispatch, || format!("{id} has no workers"));
                let child = child_run_id.as_ref().map(|child| child.as_str());
                self.stepped(ix, *phase, *worker, child);
            }
            _ => {}
        }
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
                format!("{id} begins a worker before the one before it has ended")
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
            format!("{id} tells of a worker that it is not at")
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
        let fits = match phase {
            ChainPhase::DispatchBegan => true,
            ChainPhase::DispatchSucceeded => settled == Some(false),
            ChainPhase::DispatchFailed => child.is_none(),
            ChainPhase::ChildCompleted
            | ChainPhase::ChildFailed
            | ChainPhase::ChildCancelled
            | ChainPhase::OutputHarvested => settled == Some(true),
        };
        self.require(fits, || format!("{id} says {phase:?} of another child"));
    }
}
