//! Concurrent workers of one decision, and their join.
//!
//! Their outputs are applied at the join in the order in which they ended: the later of two values
//! for one variable counts. The log contains that order, so that a replay repeats it.

use serde_json::{Map, Value, json};

use super::Decision;
use super::orchestrate::Step;
use crate::control::dispatch::FanOut;
use crate::definition::NodeIx;
use crate::ids::StreamId;
use crate::limits::{MAX_EVENT_BYTES, MAX_FAN_OUT};
use crate::run::command::ChannelWrite;
use crate::run::event::{ChainPhase, ChildStatus, JoinOutcome, NodeError, RunEvent};
use crate::run::fan::{EndedWorker, Fan};
use crate::run::size::size;
use crate::run::state::NodeStatus;

impl Decision {
    /// Starts the workers of a decision: one after another, or concurrently.
    pub(super) fn begin_workers(&mut self, ix: NodeIx) {
        let plan = self.run.plan.clone();
        let Some(config) = plan.node(ix).dispatch() else {
            return;
        };
        // An invalid policy in a stored definition must not be read as another one.
        if let Some((key, what)) = &config.fault {
            let error = NodeError::new("invalid_config", format!("config.{key} {what}"));
            return self.fail_attempt(ix, error.fatal());
        }
        let total = self.workers_of(ix);
        if config.fan_out != FanOut::Parallel || total < 2 {
            return self.begin_worker(ix, self.facts().nodes[ix.index()].worker);
        }
        if !config.join.fits(total) {
            let what = format!("{total} workers were chosen, and the quorum is more than that");
            return self.fail_attempt(ix, NodeError::new("join_unsatisfied", what).fatal());
        }
        self.emit(RunEvent::FannedOut {
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            child_count: total,
            max_concurrency: config.max_concurrency.min(MAX_FAN_OUT),
            join_mode: config.join.mode.as_str().to_owned(),
        });
        self.fan_on(ix);
    }

    pub(super) fn fan(&self, ix: NodeIx) -> Option<&Fan> {
        match &self.facts().nodes[ix.index()].status {
            NodeStatus::FannedOut { fan, .. } => Some(fan),
            _ => None,
        }
    }

    /// Joins the workers of a node if enough have ended, or begins the next one.
    pub(super) fn fan_on(&mut self, ix: NodeIx) {
        let dispatch = self.run.plan.node(ix).dispatch();
        let (Some(fan), Some(dispatch)) = (self.fan(ix), dispatch) else {
            return;
        };
        match dispatch.join.verdict(fan) {
            Some(outcome) => {
                let fan = fan.clone();
                self.join(ix, &fan, outcome);
            }
            None if fan.may_begin() => self.begin_worker(ix, fan.next),
            None => {}
        }
    }

    /// The run of a worker has ended.
    pub(super) fn worker_ended(
        &mut self,
        ix: NodeIx,
        (worker, child): (u32, &StreamId),
        status: ChildStatus,
        error: Option<&NodeError>,
    ) {
        let step = Step {
            child: Some(child.clone()),
            error: error.cloned(),
            ..Step::default()
        };
        self.step_of(ix, worker, ChainPhase::of_end(status), step);
        self.fan_on(ix);
    }

    fn join(&mut self, ix: NodeIx, fan: &Fan, outcome: JoinOutcome) {
        for child in fan.running.keys() {
            self.cancel_child(child, "parent-cancelled");
        }
        let dropped = self.tell_of_abandoned(ix);
        let mut merged = Vec::new();
        let writes = match outcome {
            JoinOutcome::Failed => Vec::new(),
            _ => self.writes_of(fan),
        };
        let mut refused = self.check_writes(ix, &writes).err();
        if outcome != JoinOutcome::Failed && refused.is_none() {
            for ended in &fan.ended {
                if let (ChildStatus::Completed, Some(run)) = (ended.status, &ended.run) {
                    merged.push(run.clone());
                    self.keep(ix, ended);
                }
            }
            refused = self.write_channels(ix, &writes).err();
        }
        let count = |status| {
            let ended = fan.ended.iter().filter(|ended| ended.status == status);
            u32::try_from(ended.count()).unwrap_or(u32::MAX)
        };
        let still = u32::try_from(dropped.len()).unwrap_or(u32::MAX);
        self.emit(RunEvent::Joined {
            node_id: self.node_id(ix),
            visit: self.visit(ix),
            join_outcome: outcome,
            completed_count: count(ChildStatus::Completed),
            failed_count: count(ChildStatus::Failed),
            cancelled_count: count(ChildStatus::Cancelled).saturating_add(still),
            merge_order: merged,
        });
        if let Some(error) = refused {
            return self.fail_attempt(ix, error);
        }
        let children = fan.children(&dropped, Telling::Ends);
        if outcome == JoinOutcome::Failed {
            let error = NodeError::new("join_unsatisfied", "too few workers have completed");
            return self.fail_attempt(ix, error.with_details(json!({ "children": children })));
        }
        let mut outputs = Map::from_iter([
            ("joinOutcome".to_owned(), json!(outcome)),
            ("children".to_owned(), children),
        ]);
        let whole = fan.children(&dropped, Telling::EndsAndOutputs);
        if size(&whole) <= MAX_EVENT_BYTES / 2 {
            outputs.insert("children".to_owned(), whole);
        } else {
            outputs.insert("outputsTooLarge".to_owned(), json!(true));
        }
        self.complete(ix, outputs, None);
    }

    /// Records each begun worker that a node stops waiting for as cancelled, and returns them. An
    /// abandoned run may still end differently; its own log shows how.
    pub(super) fn tell_of_abandoned(&mut self, ix: NodeIx) -> Vec<Abandoned> {
        let mut abandoned = Vec::new();
        let mut add = |worker: u32, run: Option<StreamId>| {
            if let Some(workflow) = self.worker_at(ix, worker) {
                abandoned.push(Abandoned {
                    worker,
                    workflow,
                    run,
                });
            }
        };
        let node = &self.facts().nodes[ix.index()];
        match &node.status {
            NodeStatus::FannedOut { fan, .. } => {
                for (run, worker) in &fan.running {
                    add(*worker, Some(run.clone()));
                }
                fan.pending.into_iter().for_each(|worker| add(worker, None));
            }
            NodeStatus::Dispatched { child, .. } => add(node.worker, Some(child.clone())),
            // Its definition is being looked up. A node with an open question has begun none.
            NodeStatus::InFlight { .. } if node.last_step(node.worker).is_some() => {
                add(node.worker, None);
            }
            _ => {}
        }
        abandoned.sort_by_key(|one| one.worker);
        for one in &abandoned {
            let step = Step {
                child: one.run.clone(),
                ..Step::default()
            };
            self.step_of(ix, one.worker, ChainPhase::ChildCancelled, step);
        }
        abandoned
    }

    /// The channel writes of completed workers, in the order of the decision.
    fn writes_of(&self, fan: &Fan) -> Vec<ChannelWrite> {
        let mut ended: Vec<&EndedWorker> = fan.ended.iter().collect();
        ended.sort_by_key(|worker| worker.worker);
        let gave = ended.into_iter().flat_map(|worker| &worker.gave);
        let gave = gave.filter(|(name, _)| self.is_channel(name));
        let writes = gave.map(|(name, value)| ChannelWrite {
            channel: name.clone(),
            value: value.clone(),
        });
        writes.collect()
    }

    /// Whether a child's value of this name is written to a channel.
    pub(super) fn is_channel(&self, name: &str) -> bool {
        self.run.plan.declares_channel(name)
    }

    /// Stores a worker's values in variables.
    fn keep(&mut self, ix: NodeIx, ended: &EndedWorker) {
        let mut harvested = Vec::new();
        for (name, next) in &ended.gave {
            harvested.push(name.clone());
            if self.is_channel(name) {
                continue;
            }
            let node_id = Some(self.node_id(ix));
            self.emit(RunEvent::VariableChanged {
                name: name.clone(),
                next: next.clone(),
                node_id,
            });
        }
        if !harvested.is_empty() {
            let step = Step {
                child: ended.run.clone(),
                harvested,
                error: None,
            };
            self.step_of(ix, ended.worker, ChainPhase::OutputHarvested, step);
        }
    }
}

/// The contents of a joined node's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    /// The statuses of its workers.
    Ends,
    /// The statuses, and the outputs of completed workers.
    EndsAndOutputs,
}

/// A begun worker that its node stopped waiting for.
pub(super) struct Abandoned {
    worker: u32,
    workflow: String,
    /// Its run; `None` while its definition was looked up.
    run: Option<StreamId>,
}

impl Fan {
    /// A joined node's report on its workers, in the order of the decision. Abandoned ones count as
    /// cancelled, also while their definition was looked up.
    fn children(&self, abandoned: &[Abandoned], telling: Telling) -> Value {
        let mut all = std::collections::BTreeMap::new();
        for ended in &self.ended {
            let mut child = json!({
                "workflowId": ended.workflow,
                "childStatus": ended.status,
            });
            if let Some(run) = &ended.run {
                child["childRunId"] = json!(run);
            }
            if let Some(error) = &ended.error {
                child["error"] = json!(error);
            }
            if telling == Telling::EndsAndOutputs && ended.status == ChildStatus::Completed {
                child["outputs"] = json!(ended.outputs);
            }
            all.insert(ended.worker, child);
        }
        for (run, worker) in &self.running {
            let child = json!({ "childRunId": run, "childStatus": ChildStatus::Cancelled });
            all.insert(*worker, child);
        }
        for one in abandoned {
            let child = all
                .entry(one.worker)
                .or_insert_with(|| json!({ "childStatus": ChildStatus::Cancelled }));
            child["workflowId"] = json!(one.workflow);
        }
        Value::Array(all.into_values().collect())
    }
}
