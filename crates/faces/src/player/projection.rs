//! Derives the files of a session from the log of its run.
//!
//! A [`Projection`] takes the events one after the other and returns which of them changed the
//! files. The same log always gives the same files, so that they may be deleted at any moment.

mod empty;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::definition::{NodeKind, Plan};
use kernel::ids::{AttemptId, NodeId, file_name, task_id};
use kernel::run::event::{Ending, SkipReason};
use kernel::run::{Event, InterruptKind, RunEvent};
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use super::foreign::Recorded;
use super::names;
use super::state::{
    Budget, CheckpointState, Extra, NodeState, NodeStates, NodeStatus, PlannedBatch, SessionState,
    Snapshot, Status, Used, WorkState,
};
pub use node::node_of;
use node::{Wait, adopt, complete, exit_code, said};

/// The key of a run's metadata for the data of a session that the log does not contain.
pub const METADATA: &str = "play";
/// The transport of runs that are sessions.
pub const TRANSPORT: &str = "play";

/// The effect of an event on the files.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// No visible change.
    Nothing,
    /// The state.
    State,
    /// The state, and a snapshot was taken.
    Checkpoint(Box<Snapshot>),
}

/// The part of the files that an event affects, before a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touched {
    Nothing,
    State,
    Snapshot,
}

/// The files of a session, up to the folded events.
#[derive(Clone, Debug)]
pub struct Projection {
    header: Arc<StreamHeader>,
    plan: Arc<Plan>,
    template_id: String,
    template_path: String,
    /// The time from another player's file, if one began the session.
    created_at: Option<String>,
    context: Map<String, Value>,
    batches: Vec<Vec<usize>>,
    nodes: Vec<Node>,
    by_id: BTreeMap<NodeId, usize>,
    last_checkpoint: Option<usize>,
    end: Option<(Status, Timestamp)>,
    is_paused: bool,
    is_archived: bool,
    updated_at: Timestamp,
    seq: u64,
}

/// A node of the session, in the order they run.
#[derive(Clone, Debug)]
struct Node {
    id: NodeId,
    name: String,
    batch: usize,
    cli_tool: Option<String>,
    state: NodeState,
    attempts: u32,
    restarts: u32,
    exit_code: Option<i64>,
    used: Used,
    wait: Wait,
    /// Whether the session was aborted at its question.
    is_refused: bool,
    /// Whether it is part of a loop.
    is_in_loop: bool,
    /// Whether its loop continues after a failure of it.
    may_fail: bool,
    /// The external name of its current attempt.
    task: Option<String>,
}

impl Projection {
    /// A session before the first event of its log. `None` when the run is not a session.
    pub fn new(header: Arc<StreamHeader>, plan: Arc<Plan>) -> Option<Self> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut batches: Vec<Vec<usize>> = Vec::new();
        for node in &plan.nodes {
            let Some(session) = node.config.get("session") else {
                continue;
            };
            let batch = usize::try_from(session.get("batch")?.as_u64()?).ok()?;
            let batch = batch.checked_sub(1)?;
            let is_work = node.type_id.starts_with("runwright.") && node.kind == NodeKind::Work;
            let mut state = if is_work {
                NodeState::Work(WorkState::default())
            } else {
                NodeState::Checkpoint(CheckpointState::default())
            };
            if let Some(recorded) = session.get("recorded").and_then(Recorded::of_json) {
                adopt(&mut state, &recorded);
            }
            while batches.len() <= batch {
                batches.push(Vec::new());
            }
            batches[batch].push(nodes.len());
            let tool = node.config.get("cliTool").and_then(Value::as_str);
            nodes.push(Node {
                id: node.id.clone(),
                name: node.name.clone(),
                batch,
                cli_tool: tool.map(str::to_owned),
                state,
                attempts: 0,
                restarts: 0,
                exit_code: None,
                used: Used::default(),
                wait: Wait::default(),
                is_refused: false,
                is_in_loop: session.get("round").is_some(),
                may_fail: node.config.get("failureIsResult") == Some(&json!(true)),
                task: None,
            });
        }
        if nodes.is_empty() || batches.iter().any(Vec::is_empty) {
            return None;
        }
        let by_id = nodes.iter().enumerate();
        let by_id = by_id.map(|(at, node)| (node.id.clone(), at)).collect();
        Some(Self {
            template_id: plan.workflow.to_string(),
            template_path: String::new(),
            created_at: None,
            context: Map::new(),
            updated_at: header.created_at,
            header,
            plan,
            batches,
            nodes,
            by_id,
            last_checkpoint: None,
            end: None,
            is_paused: false,
            is_archived: false,
            seq: 0,
        })
    }

    /// The session as archived: with the other folder and status.
    pub fn archived(self) -> Self {
        Self {
            is_archived: true,
            ..self
        }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        self.header.stream.as_str()
    }

    /// The folder of the session, from the project folder.
    pub fn folder(&self) -> String {
        let folder = if self.is_archived {
            names::ARCHIVE
        } else {
            names::SESSIONS
        };
        format!("{folder}/{}", self.header.stream)
    }

    /// The state of a node.
    pub fn node(&self, id: &str) -> Option<&NodeState> {
        Some(&self.nodes[*self.by_id.get(id)?].state)
    }

    /// The external names of the running attempts.
    pub fn tasks(&self) -> Vec<String> {
        let running = self
            .nodes
            .iter()
            .filter(|node| node.state.status() == NodeStatus::Running);
        running.filter_map(|node| node.task.clone()).collect()
    }

    /// The next event of the log.
    pub fn apply(&mut self, event: &Event) -> Change {
        let touched = self.change(event);
        if touched != Touched::Nothing {
            self.seq = event.seq;
            // A branch begins with the times of its source.
            self.updated_at = event.at.max(self.updated_at);
        }
        match touched {
            Touched::Nothing => Change::Nothing,
            Touched::State => Change::State,
            Touched::Snapshot => match self.checkpoint(event) {
                Some(snapshot) => Change::Checkpoint(Box::new(snapshot)),
                None => Change::State,
            },
        }
    }

    fn change(&mut self, event: &Event) -> Touched {
        let at = event.at;
        match &event.body {
            RunEvent::RunStarted {
                variables,
                metadata,
                ..
            } => {
                self.context.clone_from(variables);
                self.read_metadata(metadata);
            }
            RunEvent::RunForked { metadata, .. } => {
                if let Some(metadata) = metadata {
                    self.read_metadata(metadata);
                }
                self.start_over();
            }
            RunEvent::RunPaused { .. } => {
                self.is_paused = true;
                self.start_over();
            }
            RunEvent::RunResumed { .. } => self.is_paused = false,
            RunEvent::RunCompleted { .. } => self.end = Some((Status::Completed, at)),
            RunEvent::RunCancelled { .. } => self.end = Some((Status::Aborted, at)),
            RunEvent::RunFailed { failed_node_id, .. } => {
                // Refusing to continue at a checkpoint aborts the session.
                let failed = failed_node_id.as_ref().and_then(|id| self.by_id.get(id));
                let is_refused = failed
                    .is_some_and(|at| matches!(self.nodes[*at].state, NodeState::Checkpoint(_)));
                let status = if is_refused {
                    Status::Aborted
                } else {
                    Status::Failed
                };
                self.end = Some((status, at));
            }
            RunEvent::RunStopping { ending } => {
                if matches!(ending, Ending::Cancelled { .. }) {
                    self.is_paused = false;
                }
            }
            body => return self.node_change(body, at),
        }
        Touched::State
    }

    fn read_metadata(&mut self, metadata: &Map<String, Value>) {
        let Some(play) = metadata.get(METADATA) else {
            return;
        };
        let text = |key: &str| play.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(id) = text("templateId") {
            self.template_id = id;
        }
        if let Some(path) = text("templatePath") {
            self.template_path = path;
        }
        self.created_at = text("createdAt");
    }

    /// Nodes in progress begin again.
    fn start_over(&mut self) {
        for node in &mut self.nodes {
            if let NodeState::Work(state) = &mut node.state
                && state.status == NodeStatus::Running
                && node.wait == Wait::Nothing
            {
                state.status = NodeStatus::Pending;
            }
        }
    }

    fn node_mut(&mut self, id: &NodeId) -> Option<(usize, &mut Node)> {
        let at = *self.by_id.get(id)?;
        Some((at, &mut self.nodes[at]))
    }

    fn node_change(&mut self, body: &RunEvent, at: Timestamp) -> Touched {
        let header = self.header.clone();
        let Some((id, visit)) = node_of(body) else {
            return Touched::Nothing;
        };
        let Some((_, node)) = self.node_mut(id) else {
            return Touched::Nothing;
        };
        let time = names::time(at);
        if let NodeState::Checkpoint(_) = node.state {
            return match body {
                // A result of another player completes without a question.
                RunEvent::NodeCompleted { .. } if node.state.status() == NodeStatus::Completed => {
                    node.wait = Wait::Nothing;
                    Touched::State
                }
                RunEvent::NodeCompleted { .. } => Touched::Snapshot,
                RunEvent::NodeSuspended { .. } => {
                    node.wait = Wait::Continue;
                    Touched::Snapshot
                }
                RunEvent::NodeFailed { .. } | RunEvent::NodeCancelled { .. } => {
                    node.is_refused = std::mem::take(&mut node.wait) == Wait::Continue;
                    Touched::State
                }
                _ => Touched::Nothing,
            };
        }
        let cli_tool = node.cli_tool.clone();
        let is_in_loop = node.is_in_loop;
        let (attempts, restarts) = (&mut node.attempts, &mut node.restarts);
        let NodeState::Work(state) = &mut node.state else {
            return Touched::Nothing;
        };
        match body {
            RunEvent::NodeStarted { attempt, .. } => {
                if state.status == NodeStatus::Completed {
                    // Another player had done it.
                    return Touched::Nothing;
                }
                *attempts += 1;
                *state = WorkState {
                    status: NodeStatus::Running,
                    started_at: state.started_at.take().or(Some(time)),
                    ..WorkState::default()
                };
                let attempt = AttemptId {
                    node: id.clone(),
                    visit,
                    attempt: *attempt,
                };
                let tool = cli_tool.as_deref();
                let task = task_id(tool.unwrap_or_default(), &attempt.key(&header.key_origin()));
                state.cli_task_id = tool.map(|_| task.clone());
                node.task = Some(task);
            }
            RunEvent::AttemptRestarted { .. } => *restarts += 1,
            RunEvent::NodeRetried { last_error, .. } => {
                node.wait = Wait::Nothing;
                state.status = NodeStatus::Running;
                state.completed_at = None;
                state.error = Some(said(last_error));
            }
            RunEvent::NodeCompleted { outputs, .. } => {
                node.wait = Wait::Nothing;
                if state.status != NodeStatus::Completed {
                    node.exit_code = outputs.get("exit_code").and_then(Value::as_i64);
                    complete(state, outputs, time);
                }
                // The first node of a loop, in a round followed by others.
                if let Some(error) = outputs.get("error").and_then(Value::as_str) {
                    state.status = NodeStatus::Failed;
                    state.error = Some(error.to_owned());
                }
            }
            RunEvent::InterruptRequested {
                kind, key, data, ..
            } => match data.get("error").filter(|_| *kind == InterruptKind::Custom) {
                Some(error) => {
                    node.wait = Wait::Decision;
                    state.status = NodeStatus::Failed;
                    state.completed_at = Some(time);
                    let message = error.get("message").and_then(Value::as_str);
                    state.error = message.map(str::to_owned);
                    node.exit_code = exit_code(error.get("details"));
                }
                None => node.wait = Wait::Callback(key.clone()),
            },
            RunEvent::NodeFailed { error, .. } => {
                node.wait = Wait::Nothing;
                state.status = NodeStatus::Failed;
                state.completed_at.get_or_insert(time);
                state.error = Some(said(error));
                node.exit_code = exit_code(error.details.as_ref()).or(node.exit_code);
            }
            // The rest of a loop that needs no further rounds.
            RunEvent::NodeSkipped {
                reason: SkipReason::RuleNotMet,
                ..
            } if is_in_loop => state.status = NodeStatus::Skipped,
            RunEvent::NodeSkipped {
                reason: SkipReason::OnFailure | SkipReason::Disabled,
                ..
            } => {
                node.wait = Wait::Nothing;
                state.status = NodeStatus::Skipped;
                state.completed_at.get_or_insert(time);
            }
            RunEvent::NodeCancelled { .. } => {
                let was_waiting = std::mem::take(&mut node.wait) != Wait::Nothing;
                if state.status == NodeStatus::Running {
                    state.status = NodeStatus::Failed;
                    state.completed_at = Some(time);
                    state.error = Some("it was stopped because the session ended".to_owned());
                } else if !was_waiting {
                    return Touched::Nothing;
                }
            }
            RunEvent::ProviderUsage { usage, .. } => {
                node.used.add(
                    usage.cost_estimate_usd,
                    usage.input_tokens,
                    usage.output_tokens,
                );
            }
            _ => return Touched::Nothing,
        }
        Touched::State
    }

    /// Takes the snapshot of an event's checkpoint.
    fn checkpoint(&mut self, event: &Event) -> Option<Snapshot> {
        let (id, _) = node_of(&event.body)?;
        let folder = self.folder();
        let config = self
            .plan
            .node(self.plan.node_ix(id.as_str())?)
            .config
            .clone();
        let recorded = config
            .get("session")
            .and_then(|session| session.get("recorded"));
        let recorded = recorded.and_then(Recorded::of_json);
        let (at, node) = self.node_mut(id)?;
        // Another player may have taken it earlier.
        let saved_at = recorded.and_then(|recorded| recorded.completed_at);
        let saved_at = saved_at.unwrap_or_else(|| names::time(event.at));
        let NodeState::Checkpoint(state) = &mut node.state else {
            return None;
        };
        *state = CheckpointState {
            status: NodeStatus::Completed,
            saved_at: Some(saved_at.clone()),
            snapshot_path: Some(format!(
                "{folder}/checkpoints/{}.json",
                file_name(id.as_str())
            )),
            auto_continue: config.get("autoContinue").and_then(Value::as_bool),
        };
        let (checkpoint_id, checkpoint_name) = (id.to_string(), node.name.clone());
        let batch = node.batch;
        self.last_checkpoint = Some(at);
        let is_done = |node: &&Node| {
            matches!(node.state, NodeState::Work(_)) && node.state.status() == NodeStatus::Completed
        };
        let last = self.nodes.iter().rev().find(is_done);
        let next = self.batches.get(batch + 1).and_then(|batch| batch.first());
        Some(Snapshot {
            session_id: self.header.stream.to_string(),
            checkpoint_id,
            checkpoint_name,
            saved_at,
            context_snapshot: self.context.clone(),
            node_states_snapshot: self.node_states(),
            last_completed_node: last.map(|node| node.id.to_string()),
            next_node: next.map(|at| self.nodes[*at].id.to_string()),
        })
    }

    fn node_states(&self) -> NodeStates {
        let state = |node: &Node| (node.id.to_string(), node.state.clone());
        NodeStates(self.nodes.iter().map(state).collect())
    }

    /// The state of the session.
    pub fn status(&self) -> Status {
        if let Some((status, _)) = self.end {
            return if self.is_archived {
                Status::Archived
            } else {
                status
            };
        }
        let any = |of: &dyn Fn(&Node) -> bool| self.nodes.iter().any(of);
        let is_at_work = any(&|node| node.state.status() == NodeStatus::Running);
        match () {
            () if is_at_work => Status::Running,
            () if any(&|node| node.wait == Wait::Decision) => Status::Failed,
            () if self.is_paused || any(&|node| node.wait == Wait::Continue) => Status::Paused,
            () => Status::Running,
        }
    }

    /// The last event that the files show.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The state to write.
    pub fn state(&self) -> SessionState {
        let current = self.nodes.iter().find(|node| node.is_open());
        let current = current.or(self.nodes.last());
        let batch = current.map_or(0, |node| node.batch);
        let first = self.batches[batch][0];
        let planned = self
            .batches
            .iter()
            .enumerate()
            .map(|(n, nodes)| PlannedBatch {
                batch: n + 1,
                nodes: nodes
                    .iter()
                    .map(|at| self.nodes[*at].id.to_string())
                    .collect(),
                parallel: nodes.len() > 1,
            });
        SessionState {
            session_id: self.header.stream.to_string(),
            template_id: self.template_id.clone(),
            template_path: self.template_path.clone(),
            template_name: self.plan.name.clone(),
            status: self.status(),
            context: self.context.clone(),
            execution_plan: planned.collect(),
            current_batch: batch + 1,
            current_node: self.nodes[first].id.to_string(),
            last_checkpoint: self.last_checkpoint.map(|at| self.nodes[at].id.to_string()),
            node_states: self.node_states(),
            created_at: match &self.created_at {
                Some(at) => at.clone(),
                None => names::time(self.header.created_at),
            },
            updated_at: names::time(self.updated_at),
            completed_at: self.end.map(|(_, at)| names::time(at)),
            x_play: self.extra(),
        }
    }

    fn budget(&self) -> Budget {
        let limits = &self.header.policy.budget;
        Budget {
            usd: limits.get("costMicroUsd").map(|n| *n as f64 / 1e6),
            tokens: limits.get("tokens").copied(),
        }
    }

    fn extra(&self) -> Extra {
        let mut extra = Extra {
            seq: self.seq,
            workflow: self.plan.workflow.to_string(),
            budget: self.budget(),
            ..Extra::default()
        };
        for node in &self.nodes {
            if node.is_refused {
                extra.aborted_at = Some(node.id.to_string());
            }
            if node.has_failed_round() {
                extra.failed_rounds.push(node.id.to_string());
            }
            match &node.wait {
                Wait::Nothing => {}
                Wait::Continue => extra.waits_at = Some(node.id.to_string()),
                Wait::Decision => extra.undecided.push(node.id.to_string()),
                Wait::Callback(task) => {
                    extra.callbacks.insert(node.id.to_string(), json!(task));
                }
            }
            let used = node.used;
            extra
                .used
                .add(used.usd, used.input_tokens, used.output_tokens);
            if node.attempts == 0 {
                continue;
            }
            let mut more = json!({ "attempts": node.attempts });
            if node.restarts > 0 {
                more["restarts"] = json!(node.restarts);
            }
            if let Some(code) = node.exit_code {
                more["exit_code"] = json!(code);
            }
            if !used.is_nothing() {
                more["used"] = json!(used);
            }
            extra.nodes.insert(node.id.to_string(), more);
        }
        extra
    }
}
