//! The spans of a run, from its log alone, with the names of OpenWOP v1 `observability.md`.
//!
//! Ids are derived from the run: reading a log twice gives the same spans, so a repeated export is
//! harmless. A run and the runs it starts share one trace.

mod appends;
mod calls;
mod shown;
mod span;

use std::collections::HashMap;

use kernel::ids::{AttemptId, InterruptId, NodeId};
use kernel::run::{Event, InterruptKind, RunEvent};
use kernel::stream::{ForkMode, StreamHeader};
use kernel::time::Timestamp;
use kernel::trace::{self, SpanId, TraceId, attempt_span, node_span, run_span};

use appends::MAX_APPENDS;
use calls::Calls;
pub(super) use calls::{provider_of, server_of};
pub use shown::shown;
pub use span::{Attribute, Family, Moment, Span};

/// The version of the protocol that defines the names.
const PROTOCOL: &str = "1.0";

/// The spans of a run. Events that a fork copied belong to its source; unfinished spans have no
/// end.
pub fn spans(header: &StreamHeader, family: &Family, events: &[Event]) -> Vec<Span> {
    let own_from = match &header.origin {
        Some(origin) if origin.mode == ForkMode::Replay => u64::MAX,
        Some(origin) => origin.seq,
        None => 0,
    };
    let mut walk = Walk {
        header,
        trace: family.context.trace,
        own_from,
        workflow: (header.definition.as_ref())
            .map_or_else(String::new, |definition| definition.workflow.to_string()),
        visits: HashMap::new(),
        asked: HashMap::new(),
        questions: HashMap::new(),
        calls: Calls::default(),
        appends: 0,
        append: None,
        tags: Vec::new(),
        run: Vec::new(),
        spans: Vec::new(),
    };
    for event in events {
        walk.read(event);
    }
    walk.finish(family, events)
}

/// An unfinished visit of a node.
struct Visit {
    type_id: String,
    start: Timestamp,
    attempt: u32,
    attempt_start: Timestamp,
    /// The sequence of its last event.
    seq: u64,
}

/// An open question.
struct OpenQuestion {
    node: NodeId,
    visit: u32,
    at: Timestamp,
    kind: InterruptKind,
    /// The number of earlier questions of its node.
    nth: u64,
}

struct Walk<'a> {
    header: &'a StreamHeader,
    trace: TraceId,
    /// The first sequence of the run's own events.
    own_from: u64,
    workflow: String,
    visits: HashMap<(NodeId, u32), Visit>,
    asked: HashMap<InterruptId, OpenQuestion>,
    /// The number of questions of each node.
    questions: HashMap<NodeId, u64>,
    calls: Calls,
    /// The number of appends seen.
    appends: usize,
    /// The index in `spans` of the current append.
    append: Option<usize>,
    /// The tags of the run.
    tags: Vec<String>,
    /// The attributes of the run's span.
    run: Vec<(&'static str, Attribute)>,
    spans: Vec<Span>,
}

impl Walk<'_> {
    fn read(&mut self, event: &Event) {
        let at = event.at;
        if event.seq >= self.own_from {
            self.append(event);
        }
        match &event.body {
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
                    seq: event.seq,
                });
                (going.attempt, going.attempt_start, going.seq) = (*attempt, at, event.seq);
            }
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
                node_id,
                visit,
                kind,
                ..
            } => {
                let questions = self.questions.entry(node_id.clone()).or_default();
                let asked = OpenQuestion {
                    node: node_id.clone(),
                    visit: *visit,
                    at,
                    kind: *kind,
                    nth: *questions,
                };
                *questions += 1;
                self.asked.insert(interrupt_id.clone(), asked);
            }
            RunEvent::InterruptResolved { interrupt_id, .. } => {
                if let Some(asked) = self.asked.remove(interrupt_id) {
                    self.interrupt(interrupt_id, &asked, Some(event));
                }
            }
            RunEvent::ProviderUsage { usage, node_id, .. } => self.calls.answered(node_id, usage),
            RunEvent::ToolCalled(called) => self.calls.called(called, at),
            RunEvent::ToolReturned(returned) if event.seq >= self.own_from => {
                if let Some(call) = self.calls.returned(returned, at)
                    && let Some(visit) =
                        self.visits.get(&(returned.node_id.clone(), returned.visit))
                {
                    let attributes = self.of_node(event.seq, &returned.node_id, visit);
                    let attempt = self.attempt_id(&returned.node_id, returned.visit, visit);
                    let span = call.span(self.trace, &self.header.stream, &attempt, attributes);
                    self.spans.push(span);
                }
            }
            RunEvent::RunStarted { tags, .. }
            | RunEvent::RunForked {
                tags: Some(tags), ..
            } => self.tags.clone_from(tags),
            RunEvent::CapBreached {
                kind,
                limit,
                observed,
                ..
            } if event.seq >= self.own_from => self.run.extend([
                ("openwop.cap_kind", super::cap(*kind).into()),
                ("openwop.cap_limit", (*limit).into()),
                ("openwop.cap_observed", (*observed).into()),
            ]),
            RunEvent::ReplayDiverged { .. } => {
                let yes = Attribute::Flag(true);
                self.run.push(("openwop.replay.diverged", yes));
            }
            _ => {}
        }
    }

    fn of_run(&self) -> Vec<(&'static str, Attribute)> {
        vec![
            ("openwop.run_id", self.header.stream.as_str().into()),
            ("openwop.workflow_id", self.workflow.as_str().into()),
        ]
    }

    /// The attributes of every span of a node.
    fn of_node(&self, seq: u64, node: &NodeId, visit: &Visit) -> Vec<(&'static str, Attribute)> {
        let mut attributes = self.of_run();
        attributes.extend([
            ("openwop.node_id", node.as_str().into()),
            ("openwop.node_type", visit.type_id.as_str().into()),
            ("openwop.node_attempt", u64::from(visit.attempt).into()),
            ("openwop.event_seq", seq.into()),
        ]);
        attributes
    }

    fn attempt_id(&self, node: &NodeId, number: u32, visit: &Visit) -> AttemptId {
        AttemptId {
            node: node.clone(),
            visit: number,
            attempt: visit.attempt,
        }
    }

    /// Closes an attempt.
    fn attempt(&mut self, event: &Event, node: &NodeId, number: u32, error: Option<&str>) {
        let Some(visit) = self.visits.get(&(node.clone(), number)) else {
            return;
        };
        let is_own = event.seq >= self.own_from;
        let id = self.attempt_id(node, number, visit);
        let (run, attributes) = (&self.header.stream, self.of_node(event.seq, node, visit));
        let calls = self.calls.of_attempt(&id, visit, event.at, error);
        let calls = calls
            .into_iter()
            .map(|call| call.span(self.trace, run, &id, attributes.clone()));
        let calls: Vec<Span> = calls.collect();
        if !is_own {
            return;
        }
        self.spans.extend(calls);
        self.spans.push(Span {
            name: format!("openwop.node.{}.attempt", visit.type_id),
            trace: self.trace,
            id: attempt_span(run, &id),
            parent: Some(node_span(run, node, number)),
            start: visit.attempt_start,
            end: Some(event.at),
            is_call: false,
            attributes,
            events: Vec::new(),
            error: error.map(str::to_owned),
            link: None,
        });
    }

    /// Closes a visit and its questions.
    fn node(&mut self, event: &Event, node: &NodeId, number: u32, error: Option<&str>) {
        self.attempt(event, node, number, error);
        let over = |asked: &OpenQuestion| asked.node == *node && asked.visit == number;
        let ids: Vec<InterruptId> = (self.asked.iter())
            .filter(|(_, asked)| over(asked))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            if let Some(asked) = self.asked.remove(&id) {
                self.interrupt(&id, &asked, Some(event));
            }
        }
        if let Some(visit) = self.visits.remove(&(node.clone(), number))
            && event.seq >= self.own_from
        {
            self.visit(node, number, &visit, Some(event), error);
        }
    }

    fn visit(
        &mut self,
        node: &NodeId,
        number: u32,
        visit: &Visit,
        end: Option<&Event>,
        error: Option<&str>,
    ) {
        let run = &self.header.stream;
        self.spans.push(Span {
            name: format!("openwop.node.{}", visit.type_id),
            trace: self.trace,
            id: node_span(run, node, number),
            parent: Some(run_span(run)),
            start: visit.start,
            end: end.map(|event| event.at),
            is_call: false,
            attributes: self.of_node(end.map_or(visit.seq, |event| event.seq), node, visit),
            events: Vec::new(),
            error: error.map(str::to_owned),
            link: None,
        });
    }

    fn interrupt(&mut self, id: &InterruptId, asked: &OpenQuestion, end: Option<&Event>) {
        if end.is_some_and(|event| event.seq < self.own_from) {
            return;
        }
        let run = &self.header.stream;
        let mut attributes = self.of_run();
        attributes.extend([
            ("openwop.node_id", asked.node.as_str().into()),
            ("openwop.interrupt_kind", asked.kind.as_str().into()),
            ("openwop.interrupt_id", id.as_str().into()),
            ("openwop.interrupt_count", asked.nth.into()),
        ]);
        self.spans.push(Span {
            name: "openwop.interrupt".into(),
            trace: self.trace,
            id: trace::span(&format!("interrupt\0{run}\0{id}")),
            parent: Some(node_span(run, &asked.node, asked.visit)),
            start: asked.at,
            end: end.map(|event| event.at),
            is_call: false,
            attributes,
            events: Vec::new(),
            error: None,
            link: None,
        });
    }

    /// Adds the unfinished spans.
    fn open(&mut self) {
        for ((node, number), visit) in std::mem::take(&mut self.visits) {
            self.visit(&node, number, &visit, None, None);
        }
        for (id, asked) in std::mem::take(&mut self.asked) {
            self.interrupt(&id, &asked, None);
        }
    }

    fn finish(mut self, family: &Family, events: &[Event]) -> Vec<Span> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return self.spans;
        };
        let (error, is_over) = match &last.body {
            RunEvent::RunFailed { error, .. } => (Some(error.code.clone()), true),
            RunEvent::RunCancelled { .. } => (Some("cancelled".to_owned()), true),
            RunEvent::RunCompleted { .. } => (None, true),
            _ => (None, false),
        };
        let header = self.header;
        let is_replay = self.own_from == u64::MAX;
        if !is_over && !is_replay {
            self.open();
        }
        let mut attributes = self.of_run();
        attributes.push(("openwop.protocol_version", PROTOCOL.into()));
        attributes.push(("openwop.tenant_id", header.tenant().as_str().into()));
        if let Some(workspace) = &header.owner.workspace {
            attributes.push(("openwop.scope_id", workspace.as_str().into()));
        }
        let has_sensitive = family.has_sensitive.map(Attribute::Flag);
        attributes.extend(has_sensitive.map(|has| ("openwop.pii_present", has)));
        let class = family.class.as_deref().map(Attribute::from);
        attributes.extend(class.map(|class| ("openwop.compliance_class", class)));
        if !self.tags.is_empty() {
            let tags = Attribute::Texts(std::mem::take(&mut self.tags));
            attributes.push(("openwop.run.tags", tags));
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
        if self.appends > MAX_APPENDS {
            let left_out = self.appends - MAX_APPENDS;
            attributes.push(("runwright.appends_left_out", (left_out as u64).into()));
        }
        let origin = header.origin.as_ref();
        self.spans.push(Span {
            name: "openwop.run".into(),
            trace: self.trace,
            id: run_span(&header.stream),
            parent: above(header),
            start: origin.map_or(first.at, |_| header.created_at),
            end: is_over.then_some(last.at),
            is_call: false,
            attributes,
            events: Vec::new(),
            error,
            link: (family.source.as_ref()).map(|source| (source.trace, source.span)),
        });
        self.spans
    }
}

/// The parent span of a run. A fork is not part of its source's cause.
fn above(header: &StreamHeader) -> Option<SpanId> {
    let caller = header.trace.as_ref().map(|context| context.span);
    let parent = header.parent.as_ref().filter(|_| header.origin.is_none());
    caller.or(parent.map(|parent| node_span(&parent.run, &parent.node, parent.visit)))
}
