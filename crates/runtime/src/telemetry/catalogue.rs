//! The metrics of runs, with the names of OpenWOP v1 `observability.md`.

kernel::words! {
    /// The kind of a metric.
    pub enum Kind {
        /// A sum that only grows.
        Counter = "counter",
        /// A value that rises and falls.
        Gauge = "gauge",
        /// A distribution of durations in seconds.
        Seconds = "histogram, seconds",
        /// A distribution of counts.
        Counts = "histogram",
    }
}

/// A metric. Run ids are never among its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of its attributes, without the prefix that OTLP adds.
    pub attributes: &'static [&'static str],
    /// A description in one sentence.
    pub about: &'static str,
}

const fn metric(
    name: &'static str,
    kind: Kind,
    attributes: &'static [&'static str],
    about: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        attributes,
        about,
    }
}

/// All metrics of runs, by name.
pub const METRICS: [Metric; 20] = [
    metric(
        "openwop.activity.duration",
        Kind::Seconds,
        &["provider", "run_status"],
        "Duration of a call to a model or a tool, and of an attempt of an HTTP request or a process",
    ),
    metric(
        "openwop.activity.invocations",
        Kind::Counter,
        &["provider", "run_status"],
        "Calls to models that answered, tools, HTTP requests and processes",
    ),
    metric(
        "openwop.activity.tokens",
        Kind::Counter,
        &["provider", "direction"],
        "Tokens of model calls",
    ),
    metric(
        "openwop.cap.exceeded",
        Kind::Counter,
        &["cap_kind"],
        "Limits that runs exceeded",
    ),
    metric(
        "openwop.cost.usd",
        Kind::Counter,
        &["provider", "cost.estimated"],
        "Estimated cost of model calls in US dollars",
    ),
    metric(
        "openwop.interrupt.duration",
        Kind::Seconds,
        &["interrupt_kind", "run_status"],
        "Time from an interrupt to its answer, timeout or cancellation",
    ),
    metric(
        "openwop.interrupt.requested",
        Kind::Counter,
        &["interrupt_kind"],
        "Interrupts that runs requested",
    ),
    metric(
        "openwop.node.attempts",
        Kind::Counter,
        &["node_type"],
        "Retries of nodes; first attempts are not counted",
    ),
    metric(
        "openwop.node.completed",
        Kind::Counter,
        &["node_type", "run_status"],
        "Nodes that reached a terminal status",
    ),
    metric(
        "openwop.node.duration",
        Kind::Seconds,
        &["node_type", "run_status"],
        "Duration of an attempt that completed or failed",
    ),
    metric(
        "openwop.orchestrator.decisions",
        Kind::Counter,
        &["orchestrator.decision_kind", "workflow_id", "tenant_id"],
        "Decisions of supervisors",
    ),
    metric(
        "openwop.orchestrator.iterations",
        Kind::Counts,
        &["workflow_id", "tenant_id"],
        "Decisions of supervisors in a run that ended",
    ),
    metric(
        "openwop.queue.depth",
        Kind::Gauge,
        &["tenant_id", "queue_name"],
        "Runs that wait for a worker, up to 1,000; sent by OTLP only, with the tenant `all`",
    ),
    metric(
        "openwop.queue.enqueued",
        Kind::Counter,
        &["tenant_id"],
        "Runs that were created and wait for a worker",
    ),
    metric(
        "openwop.run.active",
        Kind::Gauge,
        &["tenant_id"],
        "Runs that have not ended, including those from before the process started",
    ),
    metric(
        "openwop.run.backlog",
        Kind::Seconds,
        &["workflow_id", "tenant_id"],
        "Time from creation to the first node; OTLP also sends a gauge of the latest run, in the \
         scope `runwright.latest`",
    ),
    metric(
        "openwop.run.claim.conflicts",
        Kind::Counter,
        &["transport", "tenant_id"],
        "Runs that `X-Dedup` refused",
    ),
    metric(
        "openwop.run.completed",
        Kind::Counter,
        &["run_status", "workflow_id", "tenant_id"],
        "Runs that ended",
    ),
    metric(
        "openwop.run.created",
        Kind::Counter,
        &["workflow_id", "tenant_id"],
        "Runs that were created",
    ),
    metric(
        "openwop.run.duration",
        Kind::Seconds,
        &["run_status", "workflow_id"],
        "Duration of a run that ended",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_sorted_by_name() {
        assert!(METRICS.is_sorted_by_key(|metric| metric.name));
    }
}
