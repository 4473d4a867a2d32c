//! The content of a view, from any source: a fold of logs in a store, or a server's events.

use kernel::coordinator::awaited_queue;
use kernel::ids::{InterruptId, NodeId, StreamId};
use kernel::run::RunStatus;
use kernel::run::state::{Facts, NodeRun, NodeStatus, Phase};
use kernel::run::{Event, Run};
use kernel::time::Timestamp;

use crate::follow::{Follower, Parent};
use crate::text;

/// Watched runs, by their place.
pub(crate) trait RunsView {
    /// The id of a run.
    fn id(&self, of: usize) -> &StreamId;
    /// The parent node of a run, if another watched run started it.
    fn parent(&self, of: usize) -> Option<&Parent>;
    /// When a run began.
    fn began(&self, of: usize) -> Option<Timestamp>;
    /// The active nodes.
    fn open_nodes(&self) -> Vec<OpenNode<'_>>;
    /// The requested runs that have not ended.
    fn open_runs(&self) -> Vec<OpenRun<'_>>;
}

/// An active node.
pub(crate) struct OpenNode<'a> {
    /// The place of its run.
    pub of: usize,
    /// The node.
    pub id: &'a NodeId,
    /// Its state.
    pub activity: Activity,
    /// The start of this visit.
    pub since: Option<Timestamp>,
}

/// The state of an open node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// An attempt runs.
    InFlight,
    /// It waits for a timer.
    Delayed,
    /// It waits for an answer from outside.
    Suspended,
    /// It waits for a worker.
    WithWorker,
    /// It failed and will be retried.
    Backoff,
    /// It may continue at any moment.
    Next,
}

/// An unfinished run.
pub(crate) struct OpenRun<'a> {
    /// Its id.
    pub id: &'a StreamId,
    /// Its workflow.
    pub workflow: &'a str,
    /// Its settled nodes.
    pub settled: usize,
    /// Nodes it has.
    pub total: usize,
    /// When it began.
    pub began: Timestamp,
    /// Its state.
    pub going: Going,
}

/// The state of an open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// Something of it runs.
    On,
    /// It waits.
    Waiting,
    /// It was paused.
    Paused,
    /// It pauses when running work has ended.
    Pausing,
    /// It ends when running work has ended.
    Stopping,
}

/// A node by its path through the watched runs.
pub(crate) fn name(runs_view: &dyn RunsView, of: usize, node: &str) -> String {
    let mut name = text::one_line(node, 60);
    let mut parent = runs_view.parent(of);
    while let Some(above) = parent {
        name = format!("{}/{name}", text::one_line(above.node.as_str(), 60));
        parent = runs_view.parent(above.of);
    }
    name
}

/// The beginning of a run, as far as this event shows it.
pub(super) fn began(runs_view: &dyn RunsView, of: usize, event: &Event) -> Timestamp {
    runs_view.began(of).unwrap_or(event.at)
}

impl RunsView for Follower {
    fn id(&self, of: usize) -> &StreamId {
        &self.runs()[of].run.header.stream
    }

    fn parent(&self, of: usize) -> Option<&Parent> {
        self.runs()[of].parent.as_ref()
    }

    fn began(&self, of: usize) -> Option<Timestamp> {
        let run = &self.runs()[of].run;
        Some(begun(run, run.facts()?))
    }

    fn open_nodes(&self) -> Vec<OpenNode<'_>> {
        let mut nodes = Vec::new();
        for (of, followed) in self.runs().iter().enumerate() {
            let Some(facts) = followed.run.facts() else {
                continue;
            };
            nodes.extend(facts.active.iter().filter_map(|&ix| {
                let node = &facts.nodes[ix as usize];
                Some(OpenNode {
                    of,
                    id: &followed.run.plan.nodes[ix as usize].id,
                    activity: activity(facts, node)?,
                    since: node.started_at,
                })
            }));
        }
        nodes
    }

    fn open_runs(&self) -> Vec<OpenRun<'_>> {
        let open = self.roots().filter(|run| !run.is_settled());
        open.map(open_run).collect()
    }
}

fn activity(facts: &Facts, node: &NodeRun) -> Option<Activity> {
    let is_task = |interrupt: &InterruptId| {
        let mut open = facts.interrupts.iter();
        open.any(|open| open.id == *interrupt && awaited_queue(&open.data).is_some())
    };
    Some(match &node.status {
        NodeStatus::Idle | NodeStatus::Dispatched { .. } | NodeStatus::FannedOut { .. } => {
            return None;
        }
        status if status.is_settled() => return None,
        NodeStatus::InFlight { .. } => Activity::InFlight,
        NodeStatus::Delayed { .. } => Activity::Delayed,
        NodeStatus::Suspended { interrupt, .. } if is_task(interrupt) => Activity::WithWorker,
        NodeStatus::Suspended { .. } => Activity::Suspended,
        NodeStatus::Backoff { .. } => Activity::Backoff,
        _ => Activity::Next,
    })
}

/// A fork keeps the events of its source with their times; its own time begins at its creation.
fn begun(run: &Run, facts: &Facts) -> Timestamp {
    facts.started_at.max(run.header.created_at)
}

fn open_run(run: &Run) -> OpenRun<'_> {
    let facts = run.facts();
    let nodes = facts.into_iter().flat_map(|facts| &facts.nodes);
    OpenRun {
        id: &run.header.stream,
        workflow: run.plan.workflow.as_str(),
        settled: nodes.filter(|node| node.status.is_settled()).count(),
        total: run.plan.nodes.len(),
        began: facts.map_or(run.header.created_at, |facts| begun(run, facts)),
        going: match run.phase() {
            Some(Phase::Paused { .. }) => Going::Paused,
            Some(Phase::Stopping { .. }) => Going::Stopping,
            Some(Phase::Draining { .. }) => Going::Pausing,
            _ if run.has_live_work() || run.status() == RunStatus::Running => Going::On,
            _ => Going::Waiting,
        },
    }
}
