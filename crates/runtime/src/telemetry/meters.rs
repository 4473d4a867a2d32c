//! What an engine counts of runs, with the names of OpenWOP v1 `observability.md`.
//!
//! Run ids are never among the attributes. Series are bounded: when there are too many, further
//! ones are counted under `other`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use kernel::ids::{NodeId, StreamId};
use kernel::run::{Event, Run, RunEvent, Usage};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Series that are kept apart.
const MAX_SERIES: usize = 10_000;
/// Attributes that name a tenant's things: they leave by OTLP alone.
const OF_TENANTS: [&str; 2] = ["tenant_id", "workflow_id"];

const RUN_SECONDS: &[f64] = &[
    0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0,
];
const NODE_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
];
const ACTIVITY_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// The name of a metric and what tells its series apart.
pub(crate) type Series = (&'static str, Vec<(&'static str, String)>);

/// A histogram.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    pub(crate) bounds: &'static [f64],
    /// One more than there are bounds.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    pub(crate) counters: BTreeMap<Series, f64>,
    pub(crate) histograms: BTreeMap<Series, Histogram>,
    /// Grows with each observation.
    pub(crate) changes: u64,
}

/// Counts what is appended to runs.
#[derive(Default)]
pub struct Meters {
    values: Mutex<Values>,
    ended: OnceLock<mpsc::Sender<StreamId>>,
}

impl Meters {
    /// Runs that end are told here from now on; those that do not fit are left out.
    pub(super) fn tell(&self, ended: mpsc::Sender<StreamId>) {
        let _ = self.ended.set(ended);
    }

    pub(super) fn values(&self) -> Values {
        self.values.lock().clone()
    }

    /// Events were appended to a run.
    pub(crate) fn observe(&self, run: &Run, events: &[Event]) {
        if events.iter().any(|event| is_end(&event.body))
            && let Some(ended) = self.ended.get()
        {
            let _ = ended.try_send(run.header.stream.clone());
        }
        // A replay does nothing that could be counted.
        if run.is_replay() || !events.iter().any(|event| counts(&event.body)) {
            return;
        }
        let mut values = self.values.lock();
        for event in events {
            values.event(run, event);
        }
    }

    /// Everything for Prometheus, without what names a tenant's things.
    pub fn text(&self) -> String {
        let values = self.values();
        let mut text = String::new();
        let mut last = "";
        for ((name, labels), value) in plain(values.counters, |sum: &mut f64, one| *sum += one) {
            let metric = name.replace('.', "_");
            if name != last {
                let _ = writeln!(text, "# TYPE {metric} counter");
                last = name;
            }
            let _ = writeln!(text, "{metric}_total{} {value}", braces(&labels, None));
        }
        let add = |sum: &mut Histogram, one: Histogram| {
            sum.sum += one.sum;
            let pairs = sum.counts.iter_mut().zip(one.counts);
            pairs.for_each(|(sum, one)| *sum += one);
        };
        for ((name, labels), value) in plain(values.histograms, add) {
            let metric = format!("{}_seconds", name.replace('.', "_"));
            if name != last {
                let _ = writeln!(text, "# TYPE {metric} histogram");
                last = name;
            }
            let mut count = 0;
            for (n, of_bucket) in value.counts.iter().enumerate() {
                count += of_bucket;
                let bound = value
                    .bounds
                    .get(n)
                    .map_or("+Inf".to_owned(), f64::to_string);
                let labels = braces(&labels, Some(&bound));
                let _ = writeln!(text, "{metric}_bucket{labels} {count}");
            }
            let labels = braces(&labels, None);
            let _ = writeln!(text, "{metric}_sum{labels} {}", value.sum);
            let _ = writeln!(text, "{metric}_count{labels} {count}");
        }
        text
    }
}

/// The series without what names a tenant's things, added up.
fn plain<V>(series: BTreeMap<Series, V>, mut add: impl FnMut(&mut V, V)) -> BTreeMap<Series, V> {
    let mut sums: BTreeMap<Series, V> = BTreeMap::new();
    for ((name, mut labels), value) in series {
        labels.retain(|(label, _)| !OF_TENANTS.contains(label));
        match sums.get_mut(&(name, labels.clone())) {
            Some(sum) => add(sum, value),
            None => {
                sums.insert((name, labels), value);
            }
        }
    }
    sums
}

fn braces(labels: &[(&'static str, String)], bound: Option<&str>) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let mut parts: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    parts.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    match parts.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", parts.join(",")),
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
        )
}

impl Values {
    fn event(&mut self, run: &Run, event: &Event) {
        match &event.body {
            RunEvent::RunStarted { .. } => self.add("openwop.run.created", of_run(run), 1.0),
            RunEvent::RunCompleted { duration_ms, .. } => self.end(run, "completed", *duration_ms),
            RunEvent::RunFailed { duration_ms, .. } => self.end(run, "failed", *duration_ms),
            RunEvent::RunCancelled { duration_ms, .. } => self.end(run, "cancelled", *duration_ms),
            RunEvent::NodeCompleted {
                node_id,
                duration_ms,
                ..
            } => {
                self.node(run, node_id, "completed");
                let labels = of_node(run, node_id, "completed");
                self.seconds("openwop.node.duration", labels, NODE_SECONDS, *duration_ms);
            }
            RunEvent::NodeFailed { node_id, .. } => self.node(run, node_id, "failed"),
            RunEvent::NodeSkipped { node_id, .. } => self.node(run, node_id, "skipped"),
            RunEvent::NodeCancelled { node_id, .. } => self.node(run, node_id, "cancelled"),
            RunEvent::NodeRetried { node_id, .. } => {
                let labels = vec![("node_type", type_of(run, node_id))];
                self.add("openwop.node.attempts", labels, 1.0);
            }
            RunEvent::CapBreached { kind, .. } => {
                let labels = vec![("cap_kind", super::cap(*kind).to_owned())];
                self.add("openwop.cap.exceeded", labels, 1.0);
            }
            RunEvent::InterruptRequested { kind, .. } => {
                let labels = vec![("interrupt_kind", kind.clone())];
                self.add("openwop.interrupt.requested", labels, 1.0);
            }
            RunEvent::ProviderUsage { usage, .. } => self.usage(usage),
            _ => {}
        }
    }

    fn end(&mut self, run: &Run, status: &str, ms: u64) {
        let mut labels = of_run(run);
        labels.push(("run_status", status.to_owned()));
        self.add("openwop.run.completed", labels.clone(), 1.0);
        labels.retain(|(label, _)| *label != "tenant_id");
        self.seconds("openwop.run.duration", labels, RUN_SECONDS, ms);
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
        let is_full = self.histograms.len() >= MAX_SERIES;
        let series = bounded(&self.histograms, (name, labels), is_full);
        let histogram = self.histograms.entry(series).or_insert_with(|| Histogram {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        });
        #[expect(clippy::cast_precision_loss, reason = "a duration is exact enough")]
        let seconds = ms as f64 / 1_000.0;
        let bucket = bounds.iter().take_while(|bound| seconds > **bound).count();
        if let Some(count) = histogram.counts.get_mut(bucket) {
            *count += 1;
        }
        histogram.sum += seconds;
        self.changes += 1;
    }
}

/// The series itself, or where there are too many the one for all others.
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
