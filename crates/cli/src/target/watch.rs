//! Watches a run of a server, and its child runs, by the server's events.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kernel::coordinator::awaited_queue;
use kernel::ids::{NodeId, StreamId};
use kernel::run::{Event, RunEvent};
use kernel::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::server::{HOLD, poll};
use crate::exit::{Exit, Failure};
use crate::follow::{Parent, RunUpdate};
use crate::live::runs_view::{Activity, Going, OpenNode, OpenRun, RunsView};
use crate::remote::Remote;

/// The interval of redraws.
const FRAME: Duration = Duration::from_millis(100);
/// A child is announced before it is created; it is looked for again this often, at this interval.
const LOOKS: u32 = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The watched runs, as far as the server reported them.
pub(crate) struct Watched {
    runs: Vec<WatchedRun>,
}

/// A run, as far as the server reported it.
pub(crate) struct WatchedRun {
    id: StreamId,
    workflow: String,
    parent: Option<Parent>,
    nodes: BTreeMap<NodeId, Seen>,
    total: usize,
    began: Option<Timestamp>,
    going: Going,
    is_over: bool,
    /// How often another engine took it over.
    pub takeovers: u32,
    /// The node it was dead-lettered for, and the number of attempts.
    pub given_up: Option<(NodeId, u32)>,
}

struct Seen {
    state: NodeState,
    since: Option<Timestamp>,
}

#[derive(Clone, Copy)]
enum NodeState {
    Open(Activity),
    /// Its work is done by another run.
    Elsewhere,
    Settled,
}

impl Watched {
    /// Watches one run with `total` nodes.
    pub(crate) fn new(id: &str, workflow: &str, total: usize) -> Self {
        let run = WatchedRun::new(id.into(), workflow.to_owned(), None, total);
        Self { runs: vec![run] }
    }

    /// The requested run.
    pub(crate) fn root(&self) -> &WatchedRun {
        &self.runs[0]
    }

    /// Folds in a server's events of a run. Returns their news, and the places of newly watched
    /// runs.
    fn take(&mut self, of: usize, docs: &[Value]) -> (Vec<RunUpdate>, Vec<usize>) {
        let (mut news, mut children) = (Vec::new(), Vec::new());
        for event in docs.iter().filter_map(faces::openwop::v1::read) {
            if let RunEvent::NodeDispatched {
                node_id,
                child_run_id,
                child_workflow_id,
                ..
            } = &event.body
            {
                children.push(self.runs.len());
                let node = node_id.clone();
                self.runs.push(WatchedRun::new(
                    child_run_id.clone(),
                    child_workflow_id.to_string(),
                    Some(Parent { of, node }),
                    0,
                ));
            }
            self.runs[of].take(&event);
            news.push(RunUpdate {
                of,
                cause: None,
                event,
            });
        }
        (news, children)
    }
}

impl WatchedRun {
    fn new(id: StreamId, workflow: String, parent: Option<Parent>, total: usize) -> Self {
        Self {
            id,
            workflow,
            parent,
            nodes: BTreeMap::new(),
            total,
            began: None,
            going: Going::Waiting,
            is_over: false,
            takeovers: 0,
            given_up: None,
        }
    }

    fn take(&mut self, event: &Event) {
        use RunEvent as E;
        match &event.body {
            E::RunStarted { .. } => {
                self.began = Some(event.at);
                self.going = Going::On;
            }
            E::RunCompleted { .. } | E::RunFailed { .. } | E::RunCancelled { .. } => {
                self.is_over = true;
            }
            E::RunPaused { .. } => self.going = Going::Paused,
            E::RunDraining { .. } => self.going = Going::Pausing,
            E::RunStopping { .. } => self.going = Going::Stopping,
            E::RunResumed { .. } => self.going = Going::On,
            E::RunResuming { .. } => self.takeovers += 1,
            E::RunDeadLettered {
                node_id, attempts, ..
            } => self.given_up = Some((node_id.clone(), *attempts)),
            E::NodeStarted {
                node_id,
                attempt,
                due_at,
                ..
            } => {
                let activity = match due_at {
                    Some(_) => Activity::Delayed,
                    None => Activity::InFlight,
                };
                let node = self.stands(node_id, NodeState::Open(activity));
                if *attempt == 0 {
                    node.since = Some(event.at);
                }
            }
            E::AttemptRestarted { node_id, .. } => {
                self.stands(node_id, NodeState::Open(Activity::InFlight));
            }
            E::NodeRetried { node_id, .. } => {
                self.stands(node_id, NodeState::Open(Activity::Backoff));
            }
            E::InterruptRequested { node_id, data, .. } if awaited_queue(data).is_some() => {
                self.stands(node_id, NodeState::Open(Activity::WithWorker));
            }
            // Its reason was already reported.
            E::NodeSuspended { node_id, .. } if self.is_with_a_worker(node_id) => {}
            E::NodeSuspended { node_id, .. } => {
                self.stands(node_id, NodeState::Open(Activity::Suspended));
            }
            E::NodeResumed { node_id, .. } => {
                self.stands(node_id, NodeState::Open(Activity::Next));
            }
            E::NodeDispatched { node_id, .. } => {
                self.stands(node_id, NodeState::Elsewhere);
            }
            E::NodeCompleted { node_id, .. }
            | E::NodeFailed { node_id, .. }
            | E::NodeSkipped { node_id, .. }
            | E::NodeCancelled { node_id, .. } => {
                self.stands(node_id, NodeState::Settled);
            }
            _ => {}
        }
    }

    fn stands(&mut self, node: &NodeId, state: NodeState) -> &mut Seen {
        let seen = self
            .nodes
            .entry(node.clone())
            .or_insert(Seen { state, since: None });
        seen.state = state;
        seen
    }

    fn is_with_a_worker(&self, node: &NodeId) -> bool {
        let state = self.nodes.get(node).map(|seen| seen.state);
        matches!(state, Some(NodeState::Open(Activity::WithWorker)))
    }

    fn settled(&self) -> usize {
        let states = self.nodes.values();
        states
            .filter(|seen| matches!(seen.state, NodeState::Settled))
            .count()
    }

    fn going(&self) -> Going {
        let works = |seen: &Seen| {
            matches!(
                seen.state,
                NodeState::Elsewhere | NodeState::Open(Activity::InFlight | Activity::Next)
            )
        };
        let waits = |seen: &Seen| matches!(seen.state, NodeState::Open(_));
        match self.going {
            Going::On if self.nodes.values().any(works) => Going::On,
            Going::On if self.nodes.values().any(waits) => Going::Waiting,
            going => going,
        }
    }
}

impl RunsView for Watched {
    fn id(&self, of: usize) -> &StreamId {
        &self.runs[of].id
    }

    fn parent(&self, of: usize) -> Option<&Parent> {
        self.runs[of].parent.as_ref()
    }

    fn began(&self, of: usize) -> Option<Timestamp> {
        self.runs[of].began
    }

    fn open_nodes(&self) -> Vec<OpenNode<'_>> {
        let open = self.runs.iter().enumerate().filter(|(_, run)| !run.is_over);
        open.flat_map(|(of, run)| {
            run.nodes.iter().filter_map(move |(id, seen)| {
                let NodeState::Open(activity) = seen.state else {
                    return None;
                };
                Some(OpenNode {
                    of,
                    id,
                    activity,
                    since: seen.since,
                })
            })
        })
        .collect()
    }

    fn open_runs(&self) -> Vec<OpenRun<'_>> {
        let roots = self.runs.iter().filter(|run| run.parent.is_none());
        let open = roots.filter_map(|run| {
            Some(OpenRun {
                id: &run.id,
                workflow: &run.workflow,
                settled: run.settled(),
                total: run.total,
                began: run.began?,
                going: run.going(),
            })
        });
        open.filter(|_| !self.root().is_over).collect()
    }
}

/// Passes on a server's events of the runs, and the passing of time, until all of them have ended
/// or a signal interrupts.
pub(crate) async fn watch(
    remote: &Remote,
    watched: &mut Watched,
    mut show: impl FnMut(&Watched, &[Value], &[RunUpdate]) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pages = FuturesUnordered::new();
    pages.push(page(remote, 0, watched.id(0).clone(), None, 1));
    loop {
        let (of, told) = tokio::select! {
            told = pages.next() => match told {
                Some(told) => told,
                None => return Ok(Exit::Done),
            },
            _ = frames.tick() => {
                show(watched, &[], &[])?;
                continue;
            }
            _ = &mut interrupt => return Ok(Exit::Interrupted),
        };
        let told = match told {
            Ok(told) => told,
            // The run itself was requested; a missing child does not end the watch.
            Err(_) if of > 0 => continue,
            Err(failure) => return Err(failure),
        };
        let docs = told["events"].as_array().map(Vec::as_slice);
        let docs = docs.unwrap_or_default();
        let (news, children) = watched.take(of, docs);
        show(watched, docs, &news)?;
        for child in children {
            pages.push(page(remote, child, watched.id(child).clone(), None, LOOKS));
        }
        if told["isComplete"] != json!(true) {
            let after = told["lastEventSeq"].as_u64();
            pages.push(page(remote, of, watched.id(of).clone(), after, 1));
        }
    }
}

/// A server's next events of a run.
async fn page(
    remote: &Remote,
    of: usize,
    run: StreamId,
    after: Option<u64>,
    looks: u32,
) -> (usize, Result<Value, Failure>) {
    for _ in 1..looks {
        if let Ok(told) = poll(remote, &run, after, HOLD).await {
            return (of, Ok(told));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    (of, poll(remote, &run, after, HOLD).await)
}
