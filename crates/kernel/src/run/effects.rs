//! The ledger of a run's effects: a row for each attempt of each effect. A fold of the log.
//!
//! An effect is what a node does outside: a request, a program, a call of a model, or a tool call
//! that a model requested. Its key is the same in every attempt, so that its receiver recognises a
//! repetition. A replay has the rows of its source, whose log it decides again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::definition::{Plan, PlanNode};
use crate::ids::{AttemptId, EffectKey, NodeId};
use crate::run::event::{DrainPolicy, Event, RunEvent};
use crate::run::report::{ToolCalled, ToolReturned, ToolStatus};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

/// Errors that end an attempt without its outcome: its effect may have happened.
const UNKNOWN_OUTCOMES: [&str; 2] = ["outcome_unknown", "node_timeout"];

crate::words! {
    /// The source of an effect's key.
    pub enum Keying {
        /// A name of the operation that the workflow gives; equal in every run.
        BusinessIdentity = "business-identity",
        /// The run, the node and its visit.
        ActivityRecipe = "activity-recipe",
    }
}

crate::words! {
    /// The state of an attempt of an effect.
    pub enum EffectState {
        /// It is in flight; no other attempt of the effect is.
        Claimed = "claimed",
        /// Its outcome is recorded.
        Completed = "completed",
        /// It failed; another attempt may follow.
        Released = "released",
        /// It was stopped or lost before its outcome was known.
        Escaped = "escaped",
    }
}

/// How the receiver of an effect recognises its repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverKey {
    /// It receives no key.
    None,
    /// It receives the key of the effect.
    Effect,
    /// It receives a key that the workflow gives.
    Named {
        /// The operation that the key is for.
        operation: String,
        /// The key; `None` if the log does not contain it in clear.
        key: Option<String>,
    },
}

/// Knows the effects of nodes.
pub trait Effects: Sync {
    /// How the receiver of a node's effect recognises it. `None` for a node without effects.
    fn receiver_key(&self, node: &PlanNode, inputs: &Map<String, Value>) -> Option<ReceiverKey>;
}

/// An attempt of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectAttempt {
    /// The effect; equal in every attempt.
    pub effect: EffectKey,
    /// The node.
    pub node: NodeId,
    /// The attempt of the node, from 1.
    pub attempt: u32,
    /// The id of this attempt: the node's attempt key, or the id of a tool call.
    pub invocation: String,
    /// The source of the effect's key.
    pub keying: Keying,
    /// The key that the receiver was given.
    pub provider_key: Option<String>,
    /// Its state.
    pub state: EffectState,
    /// When it came into this state.
    pub at: Timestamp,
}

/// Folds the events of a run into its ledger.
pub struct Ledger<'a> {
    header: &'a StreamHeader,
    plan: &'a Plan,
    effects: &'a dyn Effects,
    rows: BTreeMap<usize, EffectAttempt>,
    next_row: usize,
    /// The rows of each node that are in flight.
    open: BTreeMap<NodeId, Vec<usize>>,
    suspended: BTreeSet<NodeId>,
    inputs: BTreeMap<NodeId, Map<String, Value>>,
    calls: BTreeMap<String, Call>,
    /// How often the same call of an attempt has returned.
    returned: BTreeMap<SameCall, u32>,
}

type SameCall = (AttemptId, String, String);

struct Call {
    row: usize,
    same: SameCall,
}

impl<'a> Ledger<'a> {
    /// The ledger of an empty log.
    pub fn new(header: &'a StreamHeader, plan: &'a Plan, effects: &'a dyn Effects) -> Self {
        Self {
            header,
            plan,
            effects,
            rows: BTreeMap::new(),
            next_row: 0,
            open: BTreeMap::new(),
            suspended: BTreeSet::new(),
            inputs: BTreeMap::new(),
            calls: BTreeMap::new(),
            returned: BTreeMap::new(),
        }
    }

    /// The attempts, in the order of their starts.
    pub fn into_attempts(self) -> Vec<EffectAttempt> {
        self.rows.into_values().collect()
    }

    /// Applies the next event of the log.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        match &event.body {
            // The attempts before belong to the source.
            RunEvent::RunForked { .. } => *self = Self::new(self.header, self.plan, self.effects),
            RunEvent::NodeStarted {
                node_id,
                visit,
                attempt,
                inputs,
                due_at: None,
                ..
            } => {
                if let Some(inputs) = inputs {
                    self.inputs.insert(node_id.clone(), inputs.clone());
                }
                let attempt = AttemptId {
                    node: node_id.clone(),
                    visit: *visit,
                    attempt: *attempt,
                };
                self.begin(&attempt, at);
            }
            RunEvent::ToolCalled(call) if call.round > 0 => self.call(call, at),
            RunEvent::ToolReturned(call) => self.end_call(call, at),
            RunEvent::NodeCompleted { node_id, .. } => {
                self.end(node_id, EffectState::Completed, at);
            }
            RunEvent::NodeFailed { node_id, error, .. }
            | RunEvent::NodeRetried {
                node_id,
                last_error: error,
                ..
            } => {
                let state = if UNKNOWN_OUTCOMES.contains(&error.code.as_str()) {
                    EffectState::Escaped
                } else {
                    EffectState::Released
                };
                self.end(node_id, state, at);
            }
            RunEvent::NodeCancelled { node_id, .. } => self.end(node_id, EffectState::Escaped, at),
            RunEvent::NodeSuspended { node_id, .. } => {
                self.suspended.insert(node_id.clone());
            }
            RunEvent::NodeResumed { node_id, .. } => {
                self.suspended.remove(node_id);
            }
            RunEvent::RunPaused {
                drain_policy: DrainPolicy::Immediate,
                ..
            } => {
                let is_cut = |node: &&NodeId| !self.suspended.contains(*node);
                let cut: Vec<NodeId> = self.open.keys().filter(is_cut).cloned().collect();
                for node in &cut {
                    self.end(node, EffectState::Escaped, at);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, attempt: &AttemptId, at: Timestamp) {
        let Some(ix) = self.plan.node_ix(attempt.node.as_str()) else {
            return;
        };
        let none = Map::new();
        let inputs = self.inputs.get(&attempt.node).unwrap_or(&none);
        let Some(receiver) = self.effects.receiver_key(self.plan.node(ix), inputs) else {
            return;
        };
        let origin = self.header.key_origin();
        let own = attempt.effect_key(&origin);
        let (effect, keying, provider_key) = match receiver {
            ReceiverKey::None => (own, Keying::ActivityRecipe, None),
            ReceiverKey::Effect => {
                let given = own.to_string();
                (own, Keying::ActivityRecipe, Some(given))
            }
            ReceiverKey::Named { operation, key } => {
                let effect = match &key {
                    Some(key) => EffectKey::named(self.header.tenant(), &operation, key),
                    None => own,
                };
                (effect, Keying::BusinessIdentity, key)
            }
        };
        self.push(EffectAttempt {
            effect,
            node: attempt.node.clone(),
            attempt: attempt.attempt.saturating_add(1),
            invocation: attempt.key(&origin).to_string(),
            keying,
            provider_key,
            state: EffectState::Claimed,
            at,
        });
    }

    /// A tool call that a model requested: an effect of its own.
    fn call(&mut self, call: &ToolCalled, at: Timestamp) {
        let attempt = AttemptId {
            node: call.node_id.clone(),
            visit: call.visit,
            attempt: call.attempt,
        };
        let same = (attempt, call.tool_name.clone(), call.args_hash.clone());
        let nth = self.returned.get(&same).copied().unwrap_or_default();
        let of_node = same.0.effect_key(&self.header.key_origin());
        let effect = of_node.of_call(&call.tool_name, &call.args_hash, nth);
        let open = self.open.get(&call.node_id).into_iter().flatten();
        // After a crash the same call is made again: it is the same attempt.
        let begun = open.copied().find(|row| self.rows[row].effect == effect);
        let row = begun.unwrap_or_else(|| {
            self.push(EffectAttempt {
                effect,
                node: call.node_id.clone(),
                attempt: call.attempt.saturating_add(1),
                invocation: call.call_id.clone(),
                keying: Keying::ActivityRecipe,
                provider_key: None,
                state: EffectState::Claimed,
                at,
            })
        });
        self.calls.insert(call.call_id.clone(), Call { row, same });
    }

    fn end_call(&mut self, returned: &ToolReturned, at: Timestamp) {
        let Some(Call { row, same }) = self.calls.remove(&returned.call_id) else {
            return;
        };
        if returned.status != ToolStatus::Forbidden {
            let times = self.returned.entry(same).or_default();
            *times = times.saturating_add(1);
        }
        if let Some(open) = self.open.get_mut(&returned.node_id) {
            open.retain(|other| *other != row);
        }
        let state = match returned.status {
            ToolStatus::Ok => EffectState::Completed,
            ToolStatus::Error => EffectState::Released,
            // It was never made.
            ToolStatus::Forbidden => {
                self.rows.remove(&row);
                return;
            }
        };
        self.set(row, state, at);
    }

    /// Ends the attempt of a node, and with it the calls that have not returned.
    fn end(&mut self, node: &NodeId, state: EffectState, at: Timestamp) {
        self.suspended.remove(node);
        for row in self.open.remove(node).unwrap_or_default() {
            let is_call = self.calls.values().any(|call| call.row == row);
            self.set(row, if is_call { EffectState::Escaped } else { state }, at);
        }
        self.calls.retain(|_, call| call.same.0.node != *node);
        self.returned
            .retain(|(attempt, ..), _| attempt.node != *node);
    }

    fn push(&mut self, row: EffectAttempt) -> usize {
        let at = self.next_row;
        self.next_row += 1;
        self.open.entry(row.node.clone()).or_default().push(at);
        self.rows.insert(at, row);
        at
    }

    fn set(&mut self, row: usize, state: EffectState, at: Timestamp) {
        if let Some(row) = self.rows.get_mut(&row) {
            row.state = state;
            row.at = at;
        }
    }
}
