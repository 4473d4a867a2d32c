//! The spans of a run, from its log alone, with the names of OpenWOP v1 `observability.md`.
//!
//! Ids are derived from the run: a log that is read twice gives the same spans, so that an export
//! that is done again does no harm. A run and the runs it starts share one trace.

use std::collections::HashMap;

use kernel::digest::Digest;
use kernel::ids::{InterruptId, NodeId, StreamId};
use kernel::run::{Event, RunEvent};
use kernel::stream::{ForkMode, StreamHeader};
use kernel::time::Timestamp;

/// The version of the protocol whose names these are.
const PROTOCOL: &str = "1.0";

/// A span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// The trace it belongs to.
    pub trace: [u8; 16],
    /// Its id.
    pub id: [u8; 8],
    /// The span it lies in.
    pub parent: Option<[u8; 8]>,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is said of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The code of the error it ended in.
    pub error: Option<String>,
    /// A span elsewhere that it comes from: trace and id.
    pub link: Option<([u8; 16], [u8; 8])>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Yes or no.
    Flag(bool),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// What lies around a run.
#[derive(Clone, Debug)]
pub struct Family {
    /// The run that was not started by another, whose trace this is.
    pub top: StreamId,
    /// The workflow of the run that started this one.
    pub parent_workflow: Option<String>,
}

fn id<const N: usize>(parts: &str) -> [u8; N] {
    let digest = Digest::of(format!("span\0{parts}").as_bytes());
    let mut id = [0; N];
    id.copy_from_slice(&digest.0[..N]);
    id
}

fn trace_of(top: &StreamId) -> [u8; 16] {
    id(&format!("trace\0{top}"))
}

fn run_span(run: &StreamId) -> [u8; 8] {
    id(&format!("run\0{run}"))
}

fn node_span(run: &StreamId, node: &NodeId, visit: u32) -> [u8; 8] {
    id(&format!("node\0{run}\0{node}\0{visit}"))
}

/// The W3C `traceparent` of a run's span.
pub(super) fn traceparent(top: &StreamId, run: &StreamId) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    format!("00-{}-{}-01", hex(&trace_of(top)), hex(&run_span(run)))
}

/// A visit of a node that is going on.
struct Visit {
    type_id: String,
    start: Timestamp,
    attempt: u32,
    attempt_start: Timestamp,
}

/// The spans of a run that has ended. What a fork copied from its source is the source's.
pub fn spans(header: &StreamHeader, family: &Family, events: &[Event]) -> Vec<Span> {
    let mut walk = Walk {
        header,
        trace: trace_of(&family.top),
        workflow: String::new(),
        visits: HashMap::new(),
        asked: HashMap::new(),
        run: Vec::new(),
        spans: Vec::new(),
    };
    let own_from = match &header.origin {
        Some(origin) if origin.mode == ForkMode::Replay => u64::MAX,
        Some(origin) => origin.seq,
        None => 0,
    };
    for event in events {
        walk.read(event, event.seq >= own_from);
    }
    walk.finish(family, events)
}

struct Walk<'a> {
    header: &'a StreamHeader,
    trace: [u8; 16],
    workflow: String,
    visits: HashMap<(NodeId, u32), Visit>,
    asked: HashMap<InterruptId, (u32, Timestamp)>,
    /// What is said of the run as a whole.
    run: Vec<(&'static str, Attribute)>,
    spans: Vec<Span>,
}

impl Walk<'_> {
    fn read(&mut self, event: &Event, is_own: bool) {
        let at = event.at;
        match &event.body {
            RunEvent::RunStarted { workflow_id, .. } => {
                self.workflow = workflow_id.as_str().to_owned();
            }
            RunEvent::NodeStarted {
                node_id,
                type_id,
                visit,
                attempt,
                ..
            } => {
                let entry = self.visits.entry((node_id.clone(), *visit));
                let going = entry.or_insert_with(|| Visit {
                    type_id: type_id.clone(),
                    start: at,
                    attempt: *attempt,
                    attempt_start: at,
                });
                (going.attempt, going.attempt_start) = (*attempt, at);
            }
            _ if !is_own => {}
            RunEvent::NodeRetried {
                node_id,
                visit,
                last_error,
                ..
            } => self.attempt(event, node_id, *visit, Some(&last_error.code)),
            RunEvent::NodeCompleted { node_id, visit, .. } => {
                self.node(event, node_id, *visit, None);
            }
            RunEvent::NodeFailed {
                node_id,
                visit,
                error,
                ..
            } => self.node(event, node_id, *visit, Some(&error.code)),
            RunEvent::NodeCancelled { node_id, visit, .. } => {
                self.node(event, node_id, *visit, Some("cancelled"));
            }
            RunEvent::InterruptRequested {
                interrupt_id,
                visit,
                ..
            } => {
                self.asked.insert(interrupt_id.clone(), (*visit, at));
            }
            RunEvent::InterruptResolved {
                interrupt_id,
                node_id,
                kind,
                ..
            } => self.interrupt(event, interrupt_id, node_id, kind),
            RunEvent::CapBreached {
                kind,
                limit,
                observed,
                ..
            } => self.run.extend([
                ("openwop.cap_kind", super::cap(*kind).into()),
                ("openwop.cap_limit", (*limit).into()),
                ("openwop.cap_observed", (*observed).into()),
            ]),
            _ => {}
        }
        if matches!(event.body, RunEvent::ReplayDiverged { .. }) {
            let yes = Attribute::Flag(true);
            self.run.push(("openwop.replay.diverged", yes));
        }
    }

    fn of_run(&self) -> Vec<(&'static str, Attribute)> {
        vec![
            ("openwop.run_id", self.header.stream.as_str().into()),
            ("openwop.workflow_id", self.workflow.as_str().into()),
        ]
    }

    /// What every span of a node says.
    fn of_node(
        &self,
        event: &Event,
        node: &NodeId,
        visit: &Visit,
    ) -> Vec<(&'static str, Attribute)> {
        let mut attributes = self.of_run();
        attributes.extend([
            ("openwop.node_id", node.as_str().into()),
            ("openwop.node_type", visit.type_id.as_str().into()),
            ("openwop.node_attempt", u64::from(visit.attempt).into()),
            ("openwop.event_seq", event.seq.into()),
        ]);
        attributes
    }

    fn attempt(&mut self, event: &Event, node: &NodeId, number: u32, error: Option<&str>) {
        let run = &self.header.stream;
        let Some(visit) = self.visits.get(&(node.clone(), number)) else {
            return;
        };
        let attempt = visit.attempt;
        let span = Span {
            name: format!("openwop.node.{}.attempt", visit.type_id),
            trace: self.trace,
            id: id(&format!("attempt\0{run}\0{node}\0{number}\0{attempt}")),
            parent: Some(node_span(run, node, number)),
            start: visit.attempt_start,
            end: event.at,
            attributes: self.of_node(event, node, visit),
            error: error.map(str::to_owned),
            link: None,
        };
        self.spans.push(span);
    }

    fn node(&mut self, event: &Event, node: &NodeId, number: u32, error: Option<&str>) {
        self.attempt(event, node, number, error);
        let run = &self.header.stream;
        let Some(visit) = self.visits.get(&(node.clone(), number)) else {
            return;
        };
        let span = Span {
            name: format!("openwop.node.{}", visit.type_id),
            trace: self.trace,
            id: node_span(run, node, number),
            parent: Some(run_span(run)),
            start: visit.start,
            end: event.at,
            attributes: self.of_node(event, node, visit),
            error: error.map(str::to_owned),
            link: None,
        };
        self.spans.push(span);
        self.visits.remove(&(node.clone(), number));
    }

    fn interrupt(&mut self, event: &Event, interrupt: &InterruptId, node: &NodeId, kind: &str) {
        let Some((visit, start)) = self.asked.remove(interrupt) else {
            return;
        };
        let run = &self.header.stream;
        let mut attributes = self.of_run();
        attributes.extend([
            ("openwop.node_id", node.as_str().into()),
            ("openwop.interrupt_kind", kind.into()),
            ("openwop.interrupt_id", interrupt.as_str().into()),
        ]);
        self.spans.push(Span {
            name: "openwop.interrupt".into(),
            trace: self.trace,
            id: id(&format!("interrupt\0{run}\0{interrupt}")),
            parent: Some(node_span(run, node, visit)),
            start,
            end: event.at,
            attributes,
            error: None,
            link: None,
        });
    }

    fn finish(mut self, family: &Family, events: &[Event]) -> Vec<Span> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return self.spans;
        };
        let header = self.header;
        let mut attributes = self.of_run();
        attributes.push(("openwop.protocol_version", PROTOCOL.into()));
        attributes.push(("openwop.tenant_id", header.tenant().as_str().into()));
        if let Some(workspace) = &header.owner.workspace {
            attributes.push(("openwop.scope_id", workspace.as_str().into()));
        }
        if let Some(parent) = &header.parent {
            attributes.push(("openwop.parent.run_id", parent.run.as_str().into()));
            attributes.push(("openwop.parent.node_id", parent.node.as_str().into()));
            let workflow = family.parent_workflow.as_deref().unwrap_or_default();
            attributes.push(("openwop.parent.workflow_id", workflow.into()));
        }
        if let Some(origin) = &header.origin {
            let mode = match origin.mode {
                ForkMode::Replay => "replay",
                ForkMode::Branch => "branch",
            };
            attributes.extend([
                (
                    "openwop.replay.source_run_id",
                    origin.source.as_str().into(),
                ),
                ("openwop.replay.from_seq", origin.seq.into()),
                ("openwop.replay.mode", mode.into()),
            ]);
        }
        attributes.append(&mut self.run);
        let error = match &last.body {
            RunEvent::RunFailed { error, .. } => Some(error.code.clone()),
            RunEvent::RunCancelled { .. } => Some("cancelled".to_owned()),
            _ => None,
        };
        let parent = header.parent.as_ref();
        let origin = header.origin.as_ref();
        self.spans.push(Span {
            name: "openwop.run".into(),
            trace: self.trace,
            id: run_span(&header.stream),
            parent: parent.map(|parent| node_span(&parent.run, &parent.node, parent.visit)),
            start: origin.map_or(first.at, |_| header.created_at),
            end: last.at,
            attributes,
            error,
            link: origin.map(|origin| (trace_of(&origin.source), run_span(&origin.source))),
        });
        self.spans
    }
}
