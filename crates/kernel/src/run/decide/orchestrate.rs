//! Supervisors, and dispatch nodes that carry out their decisions.
//!
//! A supervisor decides (`runOrchestrator.decided`). A dispatch node runs the chosen workers, one
//! after another, each as a child run. Neither continues with a decision below the floor of
//! confidence before a person has confirmed it.

use serde_json::{Map, Value, json};

use super::Decision;
use crate::control::decision::{Choice, Decided};
use crate::control::dispatch::{self, FanOut};
use crate::control::loop_head::Left;
use crate::control::{Context, supervisor};
use crate::definition::{ControlKind, NodeIx, NodeKind};
use crate::ids::{Seq, StreamId};
use crate::run::event::{CapKind, ChainPhase, ChildStatus, Ending, NodeError, RunEvent};
use crate::run::scope::RunScope;
use crate::run::state::NodeStatus;

/// A step of a worker and its details.
#[derive(Default)]
pub(super) struct Step {
    pub(super) child: Option<StreamId>,
    pub(super) harvested: Vec<String>,
    pub(super) error: Option<NodeError>,
}

impl Decision {
    /// A supervisor's turn.
    pub(super) fn supervise(
        &mut self,
        ix: NodeIx,
        inputs: &Map<String, Value>,
        round: Option<(Option<u64>, Left)>,
    ) {
        if matches!(round, Some((_, Left::ByBreak))) {
            let left = Decided::terminate("loop-left");
            let outputs = self.outputs_of_turn(ix, left.value);
            return self.complete(ix, outputs, Some(supervisor::TERMINATE.to_owned()));
        }
        let plan = self.run.plan.clone();
        let visit = self.facts().nodes[ix.index()].visit;
        let (decided, confidence) = {
            let scope = RunScope::of_node(&plan, self.facts(), self.run.header.root().as_str(), ix);
            let cx = Context {
                node: plan.node(ix),
                inputs,
                scope: &scope,
                policy: &self.run.header.policy,
                round,
            };
            (supervisor::decide(&cx, visit), supervisor::confidence(&cx))
        };
        let decided = match decided {
            Ok(decided) => decided,
            Err(why) => {
                let what = format!("the decision of the supervisor {why}");
                let error = NodeError::new("invalid_decision", what);
                return self.fail_attempt(ix, error.fatal());
            }
        };
        let threshold = self.facts().model_settings().escalation_threshold();
        if let Some(observed) = confidence {
            let agent_id = self.orchestrator();
            self.emit(RunEvent::AgentDecided {
                node_id: self.node_id(ix),
                visit,
                agent_id,
                decision: decided.value.clone(),
                confidence: Some(observed),
            });
            if observed < threshold {
                return self.doubt(ix, &decided.value, threshold, observed);
            }
        }
        match (&decided.choice, decided.below_floor()) {
            // A dispatch holds back its own decision; a supervisor holds back the end.
            (Choice::Terminate, Some(observed)) => self.escalate(ix, &decided, observed),
            _ => self.decided(ix, &decided),
        }
    }

    /// The decision takes effect.
    pub(super) fn decided(&mut self, ix: NodeIx, decided: &Decided) {
        let plan = self.run.plan.clone();
        let (node, is_last) = (plan.node(ix), decided.choice == Choice::Terminate);
        let rounds = self.round(ix);
        let own = node
            .body
            .as_ref()
            .map(|body| u64::from(body.max_iterations));
        let of_run = self.run.header.policy.max_loop_iterations.map(u64::from);
        let is_reached = |limit: &u64| !is_last && node.body.is_some() && rounds >= *limit;
        if let Some(limit) = of_run.filter(is_reached) {
            return self.breach(CapKind::LoopIterations, limit, Some(node.id.clone()));
        }
        if let Some(limit) = own.filter(is_reached) {
            self.emit(RunEvent::LoopbackLimited {
                node_id: node.id.clone(),
                iterations: rounds,
                limit,
            });
            let error = NodeError::new(
                "loop_limit_exceeded",
                format!(
                    "the supervisor may dispatch {limit} times; raise maxLoopbackIterations or \
                     let it terminate earlier"
                ),
            );
            return self.stop(Ending::Failed {
                error: error.fatal(),
                node_id: Some(node.id.clone()),
            });
        }
        let agent_id = self.orchestrator();
        self.emit(RunEvent::OrchestratorDecided {
            node_id: node.id.clone(),
            visit: self.facts().nodes[ix.index()].visit,
            agent_id,
            decision: decided.value.clone(),
            iteration: self.facts().decisions.saturating_add(1),
        });
        let port = if is_last {
            supervisor::TERMINATE
        } else {
            supervisor::DISPATCH
        };
        let outputs = self.outputs_of_turn(ix, decided.value.clone());
        self.complete(ix, outputs, Some(port.to_owned()));
    }

    fn outputs_of_turn(&self, ix: NodeIx, decision: Value) -> Map<String, Value> {
        Map::from_iter([
            ("decision".to_owned(), decision),
            ("index".to_owned(), Value::from(self.round(ix))),
        ])
    }

    /// The index of the round that a supervisor is about to begin.
    fn round(&self, ix: NodeIx) -> u64 {
        let before = self.facts().nodes[ix.index()].round;
        before.map_or(0, |index| index.saturating_add(1))
    }

    /// A dispatch node reads the decision when it starts, so that it carries out one.
    pub(super) fn with_decision(
        &self,
        ix: NodeIx,
        mut inputs: Map<String, Value>,
    ) -> Map<String, Value> {
        let is_dispatch = self.run.plan.node(ix).kind == NodeKind::Control(ControlKind::Dispatch);
        let is_given = inputs.get("decision").is_some_and(|value| !value.is_null());
        if let (true, false, Some(decision)) = (is_dispatch, is_given, &self.facts().decision) {
            inputs.insert("decision".into(), decision.clone());
        }
        // A decision as text is parsed once.
        if is_dispatch
            && let Some(given @ Value::String(_)) = inputs.get("decision")
            && let Ok(decided) = Decided::parse(given)
        {
            inputs.insert("decision".into(), decided.value);
        }
        inputs
    }

    /// Starts a dispatch node.
    pub(super) fn carry_out(&mut self, ix: NodeIx, inputs: &Map<String, Value>) {
        let plan = self.run.plan.clone();
        let Some(config) = plan.node(ix).dispatch() else {
            return;
        };
        let decided = match inputs.get("decision").map(Decided::parse) {
            Some(Ok(decided)) => decided,
            Some(Err(why)) => {
                let error = NodeError::new("invalid_decision", format!("the decision {why}"));
                return self.fail_attempt(ix, error.fatal());
            }
            None => {
                let what = "nothing was decided yet; put a core.orchestrator.supervisor before it, \
                            or connect its port `decision`";
                return self.fail_attempt(ix, NodeError::new("invalid_decision", what).fatal());
            }
        };
        if let Some(why) = decided.misfit() {
            let error = NodeError::new("validation_error", why);
            return self.fail_attempt(ix, error.fatal());
        }
        if let Some(cap) = config.iteration_cap.filter(|cap| self.dispatches() > *cap) {
            return self.breach(CapKind::LoopIterations, cap, Some(self.node_id(ix)));
        }
        match &decided.choice {
            Choice::Terminate => {
                let outputs = Map::from_iter([("decision".to_owned(), decided.value.clone())]);
                self.complete(ix, outputs, None);
            }
            Choice::AskUser(prompt) => {
                let key = self.node_id(ix).to_string();
                self.ask(ix, dispatch::question(&key, prompt));
            }
            Choice::NextWorker(workers)
                if workers.len() > 1 && config.fan_out == FanOut::Reject =>
            {
                let error = NodeError::new(
                    "fan_out_unsupported",
                    format!(
                        "{} workers were chosen and the node takes one at a time",
                        workers.len()
                    ),
                );
                self.fail_attempt(ix, error.fatal());
            }
            Choice::NextWorker(_) => match decided.below_floor() {
                Some(observed) => self.escalate(ix, &decided, observed),
                None => self.begin_workers(ix),
            },
        }
    }

    /// How often dispatch nodes of the run were entered.
    fn dispatches(&self) -> u64 {
        let nodes = self.run.plan.nodes.iter().zip(&self.facts().nodes);
        let of_kind =
            nodes.filter(|(node, _)| node.kind == NodeKind::Control(ControlKind::Dispatch));
        of_kind
            .map(|(_, state)| u64::from(state.visit) + u64::from(state.status != NodeStatus::Idle))
            .sum()
    }

    /// Begins the worker at a place of the decision: its definition is looked up outside.
    pub(super) fn begin_worker(&mut self, ix: NodeIx, worker: u32) {
        if let Some(id) = self.worker_at(ix, worker) {
            self.emit(RunEvent::ChainStepped {
                node_id: self.node_id(ix),
                visit: self.facts().nodes[ix.index()].visit,
                phase: ChainPhase::DispatchBegan,
                worker_id: id,
                worker,
                child_run_id: None,
                harvested_keys: Vec::new(),
                error: None,
                follows: self.decision_behind(ix),
            });
        }
    }

    /// The event in which the run's orchestrator decided what a dispatch node carries out. `None`
    /// if the decision came from a port or a person.
    fn decision_behind(&self, ix: NodeIx) -> Option<Seq> {
        let inputs = self.facts().nodes[ix.index()].inputs.as_ref()?;
        self.decided_at(inputs.get("decision")?)
    }

    /// The event of the orchestrator's latest decision, if that is this one.
    pub(super) fn decided_at(&self, decision: &Value) -> Option<Seq> {
        let facts = self.facts();
        let is_last = facts.decision.as_ref() == Some(decision);
        facts.decided_at.filter(|_| is_last)
    }

    /// The worker at a place of a dispatch node's decision.
    pub(super) fn worker_at(&self, ix: NodeIx, worker: u32) -> Option<String> {
        if self.run.plan.node(ix).kind != NodeKind::Control(ControlKind::Dispatch) {
            return None;
        }
        let inputs = self.facts().nodes[ix.index()].inputs.as_ref()?;
        let workers = inputs.get("decision")?.get("nextWorkerIds")?;
        Some(workers.get(worker as usize)?.as_str()?.to_owned())
    }

    /// Number of workers in a dispatch node's decision.
    pub(super) fn workers_of(&self, ix: NodeIx) -> u32 {
        let inputs = self.facts().nodes[ix.index()].inputs.as_ref();
        let workers =
            inputs.and_then(|inputs| inputs.get("decision")?.get("nextWorkerIds")?.as_array());
        workers.map_or(0, |workers| {
            u32::try_from(workers.len()).unwrap_or(u32::MAX)
        })
    }

    /// The current worker of a dispatch node.
    pub(super) fn current_worker(&self, ix: NodeIx) -> Option<(u32, String)> {
        let worker = self.facts().nodes[ix.index()].worker;
        Some((worker, self.worker_at(ix, worker)?))
    }

    /// Records a step of the current worker of a dispatch node. Other nodes have no workers.
    pub(super) fn step(&mut self, ix: NodeIx, phase: ChainPhase, step: Step) {
        if let Some((worker, _)) = self.current_worker(ix) {
            self.step_of(ix, worker, phase, step);
        }
    }

    /// Records a step of one of the workers of a dispatch node.
    pub(super) fn step_of(&mut self, ix: NodeIx, worker: u32, phase: ChainPhase, step: Step) {
        if let Some(worker_id) = self.worker_at(ix, worker) {
            self.emit(RunEvent::ChainStepped {
                node_id: self.node_id(ix),
                visit: self.facts().nodes[ix.index()].visit,
                phase,
                worker_id,
                worker,
                child_run_id: step.child,
                harvested_keys: step.harvested,
                error: step.error,
                follows: self.facts().nodes[ix.index()].last_step(worker),
            });
        }
    }

    /// Hands the work to the current worker of a dispatch node.
    pub(super) fn hand_off(&mut self, ix: NodeIx) {
        let Some((_, worker)) = self.current_worker(ix) else {
            return;
        };
        let id_of = |agent: &Value| Some(agent.get("agentId")?.as_str()?.to_owned());
        let from = self.facts().agent.as_ref().and_then(id_of);
        self.emit(RunEvent::AgentHandedOff {
            node_id: self.node_id(ix),
            visit: self.facts().nodes[ix.index()].visit,
            from_agent_id: from.unwrap_or_else(|| format!("host:{}", self.node_id(ix))),
            to_agent_id: format!("host:{worker}"),
            reason: Some("dispatch".to_owned()),
        });
    }

    /// The outputs of a dispatch node after its last worker.
    pub(super) fn outputs_of_workers(
        &self,
        ix: NodeIx,
        last: Map<String, Value>,
    ) -> Map<String, Value> {
        let visit = self.facts().nodes[ix.index()].visit;
        let children = self.facts().children.iter();
        let mut ran: Vec<_> = children
            .filter(|(_, child)| child.node == ix.0 && child.visit == visit)
            .collect();
        ran.sort_by_key(|(id, child)| (child.worker, (*id).clone()));
        let workers = ran.into_iter().map(|(id, child)| {
            json!({
                "workerId": child.workflow,
                "childRunId": id,
                "childStatus": child.status.map_or("running", ChildStatus::as_str),
            })
        });
        dispatch::outputs(workers.collect(), last)
    }

    /// The id of the run's orchestrator.
    pub(super) fn orchestrator(&self) -> String {
        let of = |agent: &Option<Value>| {
            let agent = agent.as_ref()?;
            Some(agent.get("agentId")?.as_str()?.to_owned())
        };
        let facts = self.facts();
        let known = of(&facts.orchestrator).or_else(|| of(&facts.agent));
        known.unwrap_or_else(|| "host:dispatch".to_owned())
    }
}
