//! What happens to runs, as lines of the log with the names of OpenWOP v1 `observability.md`
//! (structured-log metric records): for whoever has a log and no collector.
//!
//! The target is `openwop`, so that a filter takes or leaves them all.

use kernel::ids::StreamId;
use kernel::ids::TenantId;
use kernel::run::{Event, Run, RunEvent};
use kernel::stream::StreamHeader;
use kernel::trace::{TraceContext, hex};

/// The names by which lines of a log are found from a trace, and the other way round.
struct Named {
    trace: String,
    span: String,
}

impl Named {
    fn of(context: &TraceContext) -> Self {
        Self {
            trace: hex(&context.trace),
            span: hex(&context.span),
        }
    }
}

/// The span of log lines about a run: each says the run and its place in a trace.
pub(crate) fn of_run(header: &StreamHeader) -> tracing::Span {
    let span = tracing::info_span!(
        "run",
        run = %header.stream,
        trace_id = tracing::field::Empty,
        span_id = tracing::field::Empty
    );
    if !span.is_disabled() {
        let Named { trace, span: id } = Named::of(&super::context::at_hand(header));
        span.record("trace_id", trace).record("span_id", id);
    }
    span
}

/// Says that something happened, where it is something to say.
pub(super) fn tell(run: &Run, event: &Event) {
    if !tracing::enabled!(target: "openwop", tracing::Level::ERROR) {
        return;
    }
    let header = &run.header;
    let named = || Named::of(&super::context::at_hand(header));
    match &event.body {
        RunEvent::RunStarted { workflow_id, .. } => {
            let Named { trace, span } = named();
            tracing::info!(
                target: "openwop", metricKind = "openwop.run.created", runId = %header.stream,
                workflowId = %workflow_id, tenantId = %header.tenant(), trace_id = trace,
                span_id = span, "created"
            );
        }
        RunEvent::RunCompleted { duration_ms, .. } => ended(run, "completed", None, *duration_ms),
        RunEvent::RunFailed {
            error, duration_ms, ..
        } => ended(run, "failed", Some(&error.code), *duration_ms),
        RunEvent::RunCancelled { duration_ms, .. } => ended(run, "cancelled", None, *duration_ms),
        RunEvent::CapBreached {
            kind,
            limit,
            observed,
            ..
        } => {
            let Named { trace, span } = named();
            tracing::error!(
                target: "openwop", metricKind = "openwop.cap.exceeded", runId = %header.stream,
                kind = super::cap(*kind), limit, observed, trace_id = trace, span_id = span,
                "a bound was reached"
            );
        }
        RunEvent::NodeCompleted {
            node_id,
            duration_ms,
            ..
        } => {
            let type_id = run.plan.node_ix(node_id.as_str());
            let type_id = type_id.map(|ix| run.plan.node(ix).type_id.as_str());
            tracing::debug!(
                target: "openwop", metricKind = "openwop.node.completed", runId = %header.stream,
                nodeId = %node_id, nodeType = type_id, status = "completed",
                durationMs = duration_ms, trace_id = named().trace, "a node completed"
            );
        }
        RunEvent::ProviderUsage { usage, node_id, .. } => tracing::debug!(
            target: "openwop", metricKind = "openwop.cost.recorded", runId = %header.stream,
            nodeId = %node_id, provider = usage.provider, tokensInput = usage.input_tokens,
            tokensOutput = usage.output_tokens, usd = usage.cost_estimate_usd,
            trace_id = named().trace, "a model answered"
        ),
        _ => {}
    }
}

fn ended(run: &Run, status: &str, code: Option<&str>, took: u64) {
    let header = &run.header;
    let Named { trace, span } = Named::of(&super::context::at_hand(header));
    tracing::info!(
        target: "openwop", metricKind = "openwop.run.completed", runId = %header.stream,
        workflowId = %run.plan.workflow, tenantId = %header.tenant(), status, errorCode = code,
        durationMs = took, trace_id = trace, span_id = span, "ended"
    );
}

/// A run was refused because of another.
pub(crate) fn conflict(tenant: &TenantId, transport: &str, active: &StreamId) {
    tracing::info!(
        target: "openwop", metricKind = "openwop.run.claim.conflict", transport,
        projectId = %tenant, activeRunId = %active, "another run is active"
    );
}
