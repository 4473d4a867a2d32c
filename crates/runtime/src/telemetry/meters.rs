//! Metrics of runs, with the names of OpenWOP v1 `observability.md`.
//!
//! Run ids are never among the attributes. The number of series is bounded: further ones are
//! counted as `other`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;

use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, NodeId, StreamId, TenantId};
use kernel::run::report::{ToolReturned, ToolStatus};
use kernel::run::state::OpenInterrupt;
use kernel::run::{CausedBy, Event, InterruptKind, Run, RunEvent, RunStatus, Usage};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::spans::{provider_of, server_of};

/// The most separate series.
const MAX_SERIES: usize = 10_000;
/// Runs whose attempts in flight are remembered.
const MAX_STARTS: usize = 100_000;

const RUN_SECONDS: &[f64] = &[
    0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0,
];
const NODE_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
];
const BACKLOG_SECONDS: &[f64] = &[0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1_800.0];
const INTERRUPT_SECONDS: &[f64] = &[
    60.0, 300.0, 900.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0,
];
const ITERATIONS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0];
const ACTIVITY_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// The only histogram of a count.
pub(super) const NOT_SECONDS: &str = "openwop.orchestrator.iterations";

/// The name of a metric and the attributes of a series.
pub(crate) type Series = (&'static str, Vec<(&'static str, String)>);

/// A question that was open before an append.
pub(crate) struct Asked {
    id: InterruptId,
    node: NodeId,
    kind: InterruptKind,
    at: Timestamp,
}

impl Asked {
    /// The questions of a run.
    pub(crate) fn from_run(run: &Run) -> Vec<Self> {
        let open = run.facts().into_iter().flat_map(|facts| &facts.interrupts);
        let of = |open: &OpenInterrupt| Self {
            id: open.id.clone(),
            node: run.plan.node(NodeIx(open.node)).id.clone(),
            kind: open.kind,
            at: open.requested_at,
        };
        open.map(of).collect()
    }
}

/// A histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub(super) bounds: &'static [f64],
    /// One more than the number of bounds.
    pub(super) counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    /// Without observations. The bounds are in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Counts an observation.
    pub fn observe(&mut self, number: f64) {
        let smaller = self.bounds.iter().take_while(|bound| number > **bound);
        let bucket = smaller.count();
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += number;
    }
}

/// The values of all series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    pub(crate) counters: BTreeMap<Series, f64>,
    pub(crate) histograms: BTreeMap<Series, Histogram>,
    /// Gauges by increments.
    pub(crate) levels: BTreeMap<Series, f64>,
    /// Gauges by their last observation.
    pub(crate) latest: BTreeMap<Series, f64>,
    /// Incremented by each observation.
    pub(crate) changes: u64,
}

/// Counts appends to runs.
#[derive(Default)]
pub struct Meters {
    values: Mutex<Values>,
    starts: Mutex<Starts>,
    in_flight: Mutex<HashSet<StreamId>>,
    ended: OnceLock<mpsc::Sender<StreamId>>,
}

impl Meters {
    /// Registers a channel for the ids of ended runs; ids are dropped while it is full.
    pub(super) fn tell(&self, ended: mpsc::Sender<StreamId>) {
        let _ = self.ended.set(ended);
    }

    /// Whether metrics are sent to a collector.
    pub fn is_exported(&self) -> bool {
        self.ended.get().is_some()
    }

    pub(super) fn values(&self) -> Values {
        self.values.lock().clone()
    }

    /// The number of runs in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.lock().len()
    }

    /// The runs in flight.
    pub(super) fn all_in_flight(&self) -> HashSet<StreamId> {
        self.in_flight.lock().clone()
    }

    /// Updates the count for a run's current status; `None` if this process cannot know it.
    pub(super) fn stands(&self, run: &StreamId, status: Option<RunStatus>) {
        let mut in_flight = self.in_flight.lock();
        if status.is_some_and(RunStatus::is_in_flight) {
            in_flight.insert(run.clone());
        } else {
            in_flight.remove(run);
        }
    }

    /// Counts events appended to a run that had these open questions before.
    pub(crate) fn observe(&self, run: &Run, events: &[Event], asked: &[Asked]) {
        if events.iter().any(|event| is_end(&event.body)) {
            self.ended(run);
        }
        if !run.is_replay() {
            self.stands(&run.header.stream, Some(run.status()));
        }
        // A replay has no effects to count.
        let counts = |event: &Event| counts(&event.body);
        if run.is_replay() || (asked.is_empty() && !events.iter().any(counts)) {
            return;
        }
        let mut all_took = Vec::with_capacity(events.len());
        let (mut values, mut starts) = (self.values.lock(), self.starts.lock());
        for event in events {
            let took = starts.took(run, event);
            values.event(run, event, took);
            all_took.push(took);
        }
        drop(starts);
        values.begun(run, events);
        for asked in asked {
            values.answered(run, events, asked);
        }
        drop(values);
        for (event, took) in events.iter().zip(all_took) {
            super::records::tell(run, event, took);
        }
    }

    /// A fork is complete. The events it copied were counted with its source.
    pub(crate) fn forked(&self, run: &Run) {
        if run.is_replay() {
            return self.ended(run);
        }
        self.stands(&run.header.stream, Some(run.status()));
        self.values.lock().created(run);
    }

    fn ended(&self, run: &Run) {
        if let Some(ended) = self.ended.get() {
            let _ = ended.try_send(run.header.stream.clone());
        }
    }

    /// Sets the number of a tenant's active runs when counting began.
    pub(super) fn active(&self, tenant: &TenantId, runs: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a count is exact enough")]
        let runs = runs as f64;
        self.values.lock().level(tenant, runs);
    }

    /// Counts a run rejected because another of the same workflow and scope is active.
    pub(crate) fn conflict(&self, tenant: &TenantId, transport: &'static str) {
        let labels = vec![
            ("transport", transport.to_owned()),
            ("tenant_id", tenant.to_string()),
        ];
        let mut values = self.values.lock();
        values.add("openwop.run.claim.conflicts", labels, 1.0);
    }
}

/// The start times of attempts in flight, by run.
#[derive(Default)]
struct Starts(HashMap<StreamId, HashMap<NodeId, Timestamp>>);

impl Starts {
    /// The duration of the attempt that an event ends. `None` if unknown: a retry that another
    /// process began.
    fn took(&mut self, run: &Run, event: &Event) -> Option<u64> {
        let stream = &run.header.stream;
        let (node, is_first) = match &event.body {
            RunEvent::NodeStarted { node_id, .. } => {
                if self.0.len() >= MAX_STARTS {
                    // They are of runs that other processes have finished since.
                    self.0.clear();
                }
                let of_run = self.0.entry(stream.clone()).or_default();
                of_run.insert(node_id.clone(), event.at);
                return None;
            }
            RunEvent::NodeCompleted {
                node_id, attempt, ..
            } => (node_id, *attempt == 0),
            RunEvent::NodeRetried {
                node_id, attempt, ..
            } => (node_id, *attempt == 1),
            RunEvent::NodeFailed {
                node_id, attempts, ..
            } => (node_id, *attempts == 1),
            body => {
                if is_end(body) {
                    self.0.remove(stream);
                }
                return None;
            }
        };
        // The state also has the start of a first attempt.
        let in_state = || {
            let ix = run.plan.node_ix(node.as_str()).filter(|_| is_first)?;
            run.facts()?.nodes.get(ix.index())?.started_at
        };
        let of_run = self.0.get_mut(stream);
        let start = of_run.and_then(|of_run| of_run.remove(node));
        let start = start.or_else(in_state)?;
        Some(event.at.ms_since(start))
    }
}

fn is_end(body: &RunEvent) -> bool {
    matches!(
        body,
        RunEvent::RunCompleted { .. } | RunEvent::RunFailed { .. } | RunEvent::RunCancelled { .. }
    )
}

fn counts(body: &RunEvent) -> bool {
    is_end(body)
        || matches!(
            body,
            RunEvent::RunStarted { .. }
                | RunEvent::NodeCompleted { .. }
                | RunEvent::NodeFailed { .. }
                | RunEvent::NodeSkipped { .. }
                | RunEvent::NodeCancelled { .. }
                | RunEvent::NodeRetried { .. }
                | RunEvent::CapBreached { .. }
                | RunEvent::InterruptRequested { .. }
                | RunEvent::ProviderUsage { .. }
                | RunEvent::ToolReturned(_)
                | RunEvent::OrchestratorDecided { .. }
                | RunEvent::NodeStarted { .. }
        )
}

impl Values {
    /// `took` is the duration in milliseconds of the attempt that the event ends.
    fn event(&mut self, run: &Run, event: &Event, took: Option<u64>) {
        match &event.body {
            RunEvent::RunStarted { .. } => self.created(run),
            RunEvent::RunCompleted { duration_ms, .. } => self.end(run, "completed", *duration_ms),
            RunEvent::RunFailed { duration_ms, .. } => self.end(run, "failed", *duration_ms),
            RunEvent::RunCancelled { duration_ms, .. } => self.end(run, "cancelled", *duration_ms),
            RunEvent::NodeCompleted { node_id, .. } => {
                self.node(run, node_id, "completed");
                self.attempt(run, node_id, "completed", took);
                self.one_call(run, node_id, "success", took);
            }
            RunEvent::NodeFailed {
                node_id, attempts, ..
            } => {
                self.node(run, node_id, "failed");
                // A node that failed before its first attempt has made no call.
                if *attempts > 0 {
                    self.attempt(run, node_id, "failed", took);
                    self.one_call(run, node_id, "error", took);
                }
            }
            RunEvent::NodeSkipped { node_id, .. } => self.node(run, node_id, "skipped"),
            RunEvent::NodeCancelled { node_id, .. } => self.node(run, node_id, "cancelled"),
            RunEvent::NodeRetried { node_id, .. } => {
                let labels = vec![("node_type", type_of(run, node_id))];
                self.add("openwop.node.attempts", labels, 1.0);
                self.attempt(run, node_id, "failed", took);
                self.one_call(run, node_id, "error", took);
            }
            RunEvent::CapBreached { kind, .. } => {
                let labels = vec![("cap_kind", super::cap(*kind).to_owned())];
                self.add("openwop.cap.exceeded", labels, 1.0);
            }
            RunEvent::InterruptRequested { kind, .. } => {
                let labels = vec![("interrupt_kind", kind.to_string())];
                self.add("openwop.interrupt.requested", labels, 1.0);
            }
            RunEvent::ProviderUsage { usage, .. } => self.usage(usage),
            RunEvent::ToolReturned(returned) => self.tool(returned),
            RunEvent::OrchestratorDecided { decision, .. } => {
                let kind = decision["kind"].as_str().unwrap_or("other").to_owned();
                let mut labels = of_run(run);
                labels.push(("orchestrator.decision_kind", kind));
                self.add("openwop.orchestrator.decisions", labels, 1.0);
            }
            _ => {}
        }
    }

    /// Counts a created run that waits to be driven.
    fn created(&mut self, run: &Run) {
        let tenant = run.header.tenant();
        self.add("openwop.run.created", of_run(run), 1.0);
        let labels = vec![("tenant_id", tenant.to_string())];
        self.add("openwop.queue.enqueued", labels, 1.0);
        self.level(tenant, 1.0);
    }

    /// Records how long a run waited for its first nodes.
    fn begun(&mut self, run: &Run, events: &[Event]) {
        let is_start = |event: &&Event| matches!(event.body, RunEvent::NodeStarted { .. });
        let started = events.iter().filter(is_start).count() as u64;
        let so_far = run.facts().map_or(0, |facts| facts.executions);
        if let Some(first) = events.first()
            && started > 0
            && so_far == started
        {
            let waited = first.at.ms_since(run.header.created_at);
            self.seconds("openwop.run.backlog", of_run(run), BACKLOG_SECONDS, waited);
            let is_full = self.latest.len() >= MAX_SERIES;
            let series = bounded(&self.latest, ("openwop.run.backlog", of_run(run)), is_full);
            #[expect(clippy::cast_precision_loss, reason = "a duration is exact enough")]
            self.latest.insert(series, waited as f64 / 1_000.0);
        }
    }

    /// Records an answer if a question has closed.
    fn answered(&mut self, run: &Run, events: &[Event], asked: &Asked) {
        let mut open = run.facts().into_iter().flat_map(|facts| &facts.interrupts);
        let Some(first) = events.first().filter(|_| !open.any(|it| it.id == asked.id)) else {
            return;
        };
        let is_cancelled = |event: &Event| match &event.body {
            RunEvent::NodeCancelled { node_id, .. } => *node_id == asked.node,
            _ => false,
        };
        let cause = first.cause.as_ref().map(|cause| &cause.command);
        let status = match cause {
            _ if events.iter().any(is_cancelled) => "cancelled",
            Some(CausedBy::Fire { .. }) => "timeout",
            _ => "resolved",
        };
        let labels = vec![
            ("interrupt_kind", asked.kind.to_string()),
            ("run_status", status.to_owned()),
        ];
        let took = first.at.ms_since(asked.at);
        self.seconds(
            "openwop.interrupt.duration",
            labels,
            INTERRUPT_SECONDS,
            took,
        );
    }

    /// Counts the end of an attempt.
    fn attempt(&mut self, run: &Run, node: &NodeId, status: &str, took: Option<u64>) {
        if let Some(ms) = took {
            let labels = of_node(run, node, status);
            self.seconds("openwop.node.duration", labels, NODE_SECONDS, ms);
        }
    }

    /// Counts the end of an attempt that is one call.
    fn one_call(&mut self, run: &Run, node: &NodeId, status: &str, took: Option<u64>) {
        if let Some(provider) = provider_of(&type_of(run, node)) {
            let labels = vec![
                ("provider", provider.to_owned()),
                ("run_status", status.to_owned()),
            ];
            self.add("openwop.activity.invocations", labels.clone(), 1.0);
            if let Some(ms) = took {
                self.seconds("openwop.activity.duration", labels, ACTIVITY_SECONDS, ms);
            }
        }
    }

    fn tool(&mut self, returned: &ToolReturned) {
        let status = match returned.status {
            ToolStatus::Ok => "success",
            ToolStatus::Error => "error",
            ToolStatus::Forbidden => return,
        };
        let (server, _) = server_of(&returned.tool_name);
        let labels = vec![
            ("provider", server.to_owned()),
            ("run_status", status.to_owned()),
        ];
        self.add("openwop.activity.invocations", labels.clone(), 1.0);
        if let Some(ms) = returned.duration_ms {
            self.seconds("openwop.activity.duration", labels, ACTIVITY_SECONDS, ms);
        }
    }

    /// Changes the number of a tenant's active runs.
    fn level(&mut self, tenant: &TenantId, by: f64) {
        let is_full = self.levels.len() >= MAX_SERIES;
        let labels = vec![("tenant_id", tenant.to_string())];
        let series = bounded(&self.levels, ("openwop.run.active", labels), is_full);
        *self.levels.entry(series).or_default() += by;
        self.changes += 1;
    }

    fn end(&mut self, run: &Run, status: &str, ms: u64) {
        let mut labels = of_run(run);
        labels.push(("run_status", status.to_owned()));
        self.add("openwop.run.completed", labels.clone(), 1.0);
        labels.retain(|(label, _)| *label != "tenant_id");
        self.seconds("openwop.run.duration", labels, RUN_SECONDS, ms);
        self.level(run.header.tenant(), -1.0);
        let decisions = run.facts().map_or(0, |facts| facts.decisions);
        if decisions > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a count is exact enough")]
            let decisions = decisions as f64;
            self.number(NOT_SECONDS, of_run(run), ITERATIONS, decisions);
        }
    }

    fn node(&mut self, run: &Run, node: &NodeId, status: &str) {
        let labels = of_node(run, node, status);
        self.add("openwop.node.completed", labels, 1.0);
    }

    fn usage(&mut self, usage: &Usage) {
        let provider = || ("provider", usage.provider.clone());
        let done = || vec![provider(), ("run_status", "success".to_owned())];
        self.add("openwop.activity.invocations", done(), 1.0);
        if let Some(ms) = usage.duration_ms {
            self.seconds("openwop.activity.duration", done(), ACTIVITY_SECONDS, ms);
        }
        for (direction, tokens) in [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
        ] {
            let labels = vec![provider(), ("direction", direction.to_owned())];
            #[expect(clippy::cast_precision_loss, reason = "a counter is exact enough")]
            self.add("openwop.activity.tokens", labels, tokens as f64);
        }
        if let Some(cost) = usage.cost_estimate_usd {
            let labels = vec![provider(), ("cost.estimated", "true".to_owned())];
            self.add("openwop.cost.usd", labels, cost);
        }
    }

    fn add(&mut self, name: &'static str, labels: Vec<(&'static str, String)>, by: f64) {
        let is_full = self.counters.len() >= MAX_SERIES;
        let series = bounded(&self.counters, (name, labels), is_full);
        *self.counters.entry(series).or_default() += by;
        self.changes += 1;
    }

    fn seconds(
        &mut self,
        name: &'static str,
        labels: Vec<(&'static str, String)>,
        bounds: &'static [f64],
        ms: u64,
    ) {
        #[expect(clippy::cast_precision_loss, reason = "a duration is exact enough")]
        self.number(name, labels, bounds, ms as f64 / 1_000.0);
    }

    fn number(
        &mut self,
        name: &'static str,
        labels: Vec<(&'static str, String)>,
        bounds: &'static [f64],
        number: f64,
    ) {
        let is_full = self.histograms.len() >= MAX_SERIES;
        let series = bounded(&self.histograms, (name, labels), is_full);
        let histogram = self.histograms.entry(series);
        let histogram = histogram.or_insert_with(|| Histogram::new(bounds));
        histogram.observe(number);
        self.changes += 1;
    }
}

/// The series itself, or above the limit the one for all others.
fn bounded<V>(known: &BTreeMap<Series, V>, series: Series, is_full: bool) -> Series {
    if !is_full || known.contains_key(&series) {
        return series;
    }
    let (name, labels) = series;
    let others = labels
        .into_iter()
        .map(|(label, _)| (label, "other".to_owned()));
    (name, others.collect())
}

fn of_run(run: &Run) -> Vec<(&'static str, String)> {
    vec![
        ("workflow_id", run.plan.workflow.as_str().to_owned()),
        ("tenant_id", run.header.tenant().as_str().to_owned()),
    ]
}

fn of_node(run: &Run, node: &NodeId, status: &str) -> Vec<(&'static str, String)> {
    vec![
        ("node_type", type_of(run, node)),
        ("run_status", status.to_owned()),
    ]
}

fn type_of(run: &Run, node: &NodeId) -> String {
    let found = run.plan.node_ix(node.as_str());
    found.map_or_else(String::new, |ix| run.plan.node(ix).type_id.clone())
}

/// Nanoseconds since 1970.
pub(super) fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}
