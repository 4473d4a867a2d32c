//! The content of a picture of a workflow, without positions and style.

use std::collections::BTreeMap;

use kernel::definition::{
    Condition, ControlKind, EdgeIx, NodeIx, NodeKind, Plan, PlanEdge, PlanNode, TriggerRule,
};
use kernel::run::state::NodeRun;
use kernel::run::{NodeStatus, Run, RunState};

/// A workflow, perhaps with the state of a run.
pub(super) struct Picture {
    /// The workflow's name.
    pub(super) title: String,
    /// Further text about the workflow as a whole.
    pub(super) subtitle: String,
    /// In document order.
    pub(super) nodes: Vec<Node>,
    /// In document order.
    pub(super) edges: Vec<Edge>,
    /// Outer loops before the loops in them.
    pub(super) loops: Vec<Loop>,
}

/// A node.
pub(super) struct Node {
    pub(super) id: String,
    /// The display name; by default the id.
    pub(super) name: String,
    pub(super) type_id: String,
    pub(super) kind: Kind,
    /// Skipped whenever it is reached.
    pub(super) disabled: bool,
    /// Its state in the run, when there is one.
    pub(super) progress: Option<Progress>,
    /// The innermost loop it is drawn in; a loop's head is drawn in its own loop.
    pub(super) within: Option<usize>,
}

/// The state of a node in a run.
pub(super) struct Progress {
    pub(super) state: State,
    /// The number of visits, the current one included; 0 before the first.
    pub(super) visits: u32,
    /// Attempts of this visit.
    pub(super) attempts: u32,
    /// The duration of the visit, once it is over.
    pub(super) took_ms: Option<u64>,
}

/// The visible kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Calls something.
    Work,
    /// Chooses an edge.
    Choice,
    /// Repeats rounds.
    Loop,
    /// Waits for a time.
    Delay,
    /// Waits for a person.
    Gate,
    /// Starts another workflow.
    SubWorkflow,
    /// Sets values.
    Data,
    /// Decides on, or starts, workers.
    Agent,
}

/// The state of a node, in the words of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Pending,
    Running,
    Suspended,
    Retrying,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl State {
    pub(super) const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Retrying,
        Self::Completed,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    fn from_status(status: &NodeStatus) -> Self {
        match status {
            NodeStatus::Idle => Self::Pending,
            NodeStatus::InFlight { .. }
            | NodeStatus::Delayed { .. }
            | NodeStatus::Dispatched { .. }
            | NodeStatus::FannedOut { .. } => Self::Running,
            NodeStatus::Suspended { .. } => Self::Suspended,
            NodeStatus::Backoff { .. } | NodeStatus::Ready { .. } => Self::Retrying,
            NodeStatus::Completed { .. } => Self::Completed,
            NodeStatus::Failed { .. } => Self::Failed,
            NodeStatus::Skipped { .. } => Self::Skipped,
            NodeStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// An edge.
pub(super) struct Edge {
    pub(super) source: usize,
    pub(super) target: usize,
    /// Port, condition and rule, where they differ from the default; may be empty.
    pub(super) label: String,
    /// It leads to a node that starts after a failure.
    pub(super) on_failure: bool,
    /// It closes a loop.
    pub(super) back: bool,
    pub(super) flow: Flow,
}

/// Whether an edge was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Without a run, or not reached yet.
    Open,
    /// It was.
    Taken,
    /// It was not taken and, in this visit, will not be.
    Declined,
}

/// A loop: its head and its body.
pub(super) struct Loop {
    /// The name of its head.
    pub(super) name: String,
    /// Rounds before the run fails.
    pub(super) max_rounds: u32,
    /// The enclosing loop, by position.
    pub(super) parent: Option<usize>,
    /// The edges that leave it from its head, by position.
    pub(super) exits: Vec<usize>,
}

impl Picture {
    /// The picture of a plan, and of a run of it.
    pub(super) fn new(plan: &Plan, run: Option<&Run>) -> Self {
        let facts = run.and_then(Run::facts);
        let progress = |ix: NodeIx| facts.map(|facts| &facts.nodes[ix.index()]);
        let (loops, by_head) = loops(plan);
        let nodes = plan.node_ixs().map(|ix| {
            let node = plan.node(ix);
            let own = by_head.get(&ix).copied();
            let outer = node.within.and_then(|head| by_head.get(&head).copied());
            Node {
                id: node.id.to_string(),
                name: name(node),
                type_id: node.type_id.clone(),
                kind: kind(node.kind),
                disabled: node.disabled,
                progress: run.map(|run| {
                    progress(ix).map_or(Progress::NONE, |state| {
                        Progress::new(run, plan.node(ix), state)
                    })
                }),
                within: own.or(outer),
            }
        });
        let edges = (0..).zip(&plan.edges).map(|(position, edge)| Edge {
            source: edge.source.index(),
            target: edge.target.index(),
            label: label(edge),
            on_failure: edge.rule == TriggerRule::AnyFailed,
            back: edge.back,
            flow: progress(edge.source).map_or(Flow::Open, |source| {
                match plan.node(edge.source).body.as_ref() {
                    // The state of a loop's head only shows whether its last visit began a round.
                    Some(body) if body.starts.contains(&EdgeIx(position)) => {
                        began(plan.node(edge.source), source)
                    }
                    Some(body)
                        if body.exits.contains(&EdgeIx(position))
                            && is_in_round(plan.node(edge.source), source) =>
                    {
                        Flow::Open
                    }
                    _ => flow(edge, position, source),
                }
            }),
        });
        Self {
            title: if plan.name.is_empty() {
                plan.workflow.to_string()
            } else {
                plan.name.clone()
            },
            subtitle: subtitle(plan, run),
            nodes: nodes.collect(),
            edges: edges.collect(),
            loops,
        }
    }
}

impl Progress {
    /// Before anything happened.
    const NONE: Self = Self {
        state: State::Pending,
        visits: 0,
        attempts: 0,
        took_ms: None,
    };

    fn new(run: &Run, planned: &PlanNode, node: &NodeRun) -> Self {
        let state = if is_in_round(planned, node) && !run.is_settled() {
            State::Running
        } else {
            State::from_status(&node.status)
        };
        let took = node.settled_at.zip(node.started_at);
        Self {
            state,
            visits: match state {
                State::Pending => node.visit,
                _ => node.visit + 1,
            },
            attempts: node.attempts,
            took_ms: took.map(|(end, start)| end.ms_since(start)),
        }
    }
}

/// Whether a loop's head has begun a round and will be visited again.
fn is_in_round(head: &PlanNode, node: &NodeRun) -> bool {
    match &node.status {
        NodeStatus::Completed { port, .. } => head.begins_round(port.as_deref()),
        _ => false,
    }
}

/// Whether a loop's head ever began a round.
fn began(planned: &PlanNode, head: &NodeRun) -> Flow {
    match &head.status {
        _ if head.visit > 0 || is_in_round(planned, head) => Flow::Taken,
        status if status.is_settled() => Flow::Declined,
        _ => Flow::Open,
    }
}

/// The loops, outer ones first, and their positions by head.
fn loops(plan: &Plan) -> (Vec<Loop>, BTreeMap<NodeIx, usize>) {
    let mut heads: Vec<_> = plan
        .node_ixs()
        .filter_map(|ix| plan.node(ix).body.as_ref().map(|body| (ix, body)))
        .collect();
    heads.sort_by_key(|(_, body)| std::cmp::Reverse(body.nodes.len()));
    let by_head: BTreeMap<_, _> = heads
        .iter()
        .zip(0..)
        .map(|((ix, _), at)| (*ix, at))
        .collect();
    let loops = heads.iter().map(|(ix, body)| Loop {
        name: name(plan.node(*ix)),
        max_rounds: body.max_iterations,
        parent: plan
            .node(*ix)
            .within
            .and_then(|head| by_head.get(&head).copied()),
        exits: body.exits.iter().map(|edge| edge.index()).collect(),
    });
    (loops.collect(), by_head)
}

fn name(node: &PlanNode) -> String {
    if node.name.trim().is_empty() {
        node.id.to_string()
    } else {
        node.name.clone()
    }
}

fn kind(kind: NodeKind) -> Kind {
    use ControlKind as C;
    match kind {
        NodeKind::Control(C::Conditional) => Kind::Choice,
        NodeKind::Control(C::Loop) => Kind::Loop,
        NodeKind::Control(C::Delay) => Kind::Delay,
        NodeKind::Control(
            C::Interrupt | C::ApprovalGate | C::GovernanceGate | C::ClarificationGate,
        ) => Kind::Gate,
        NodeKind::Control(C::SubWorkflow) => Kind::SubWorkflow,
        NodeKind::Control(C::ChannelWrite | C::SetVariable | C::GetVariable) => Kind::Data,
        NodeKind::Control(C::Supervisor | C::Dispatch) => Kind::Agent,
        NodeKind::Control(_) | NodeKind::Work => Kind::Work,
    }
}

/// Whether an edge was taken, from the state of its source.
fn flow(edge: &PlanEdge, position: u32, source: &NodeRun) -> Flow {
    let followed = |declined: &[u32], by_rule: bool| {
        if by_rule && !declined.contains(&position) {
            Flow::Taken
        } else {
            Flow::Declined
        }
    };
    match &source.status {
        NodeStatus::Completed { declined, .. } => {
            followed(declined, edge.rule != TriggerRule::AnyFailed)
        }
        NodeStatus::Failed { declined, .. } => followed(
            declined,
            matches!(edge.rule, TriggerRule::AnyFailed | TriggerRule::AllComplete),
        ),
        NodeStatus::Skipped { .. } | NodeStatus::Cancelled => Flow::Declined,
        _ => Flow::Open,
    }
}

/// The text that distinguishes an edge from a plain one.
fn label(edge: &PlanEdge) -> String {
    let port = edge
        .source_output
        .as_deref()
        .filter(|port| !port.is_empty() && *port != "output");
    let rule = match edge.rule {
        TriggerRule::AllSuccess => None,
        TriggerRule::AnySuccess => Some("any success"),
        TriggerRule::AllComplete => Some("all complete"),
        TriggerRule::NoneFailed => Some("none failed"),
        TriggerRule::AnyFailed => Some("any failed"),
    };
    let condition = edge.condition.as_ref().map(condition);
    let parts: Vec<_> = [port, condition.as_deref(), rule]
        .into_iter()
        .flatten()
        .collect();
    parts.join(" · ")
}

fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Expression(expression) => expression.text().to_owned(),
        Condition::Equals(left, right) => format!("{} = {right}", left.text()),
        Condition::NotEquals(left, right) => format!("{} ≠ {right}", left.text()),
        Condition::Contains(left, right) => format!("{} contains {right}", left.text()),
        Condition::Regex(left, pattern) => format!("{} ~ /{}/", left.text(), pattern.as_str()),
        Condition::Truthy(operand) => operand.text().to_owned(),
        Condition::Falsy(operand) => format!("not {}", operand.text()),
    }
}

fn subtitle(plan: &Plan, run: Option<&Run>) -> String {
    let Some(run) = run else {
        return format!(
            "{} {} · {}, {}",
            plan.workflow,
            plan.version,
            count(plan.nodes.len(), "node"),
            count(plan.edges.len(), "edge"),
        );
    };
    let took = match (&run.state, run.facts()) {
        (RunState::Settled { at, .. }, Some(facts)) => {
            format!(" · took {}", duration(at.ms_since(facts.started_at)))
        }
        _ => String::new(),
    };
    format!("{} · {}{took}", run.header.stream, run.status())
}

fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// A readable duration from milliseconds, in at most six characters up to a day.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms / 100 % 10),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}
