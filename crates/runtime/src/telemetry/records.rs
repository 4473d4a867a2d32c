//! Events of runs as log lines with the names of OpenWOP v1 `observability.md` (structured-log
//! metric records): for operators who have a log and no collector.
//!
//! The target of all lines is `openwop`, for filters.

use kernel::ids::{NodeId, StreamId, TenantId};
use kernel::run::report::ToolStatus;
use kernel::run::{Event, Run, RunEvent, Usage};
use kernel::stream::StreamHeader;
use kernel::trace::{TraceContext, hex};

use super::spans::{provider_of, server_of};

/// The host of an active run, as a rejection names it.
pub const ACTIVE_HOST: &str = "cloud";
/// Seconds after which a run that another one blocks may be created.
pub const ACTIVE_RETRY_SECONDS: u64 = 5;

/// The ids that connect log lines and traces.
struct Named {
    trace: String,
    span: String,
}

impl Named {
    fn from_context(context: &TraceContext) -> Self {
        Self {
            trace: hex(&context.trace),
            span: hex(&context.span),
        }
    }
}

/// The span of log lines about a run: with the run's id and its trace context.
pub(crate) fn of_run(header: &StreamHeader) -> tracing::Span {
    let span = tracing::info_span!(
        "run",
        run = %header.stream,
        trace_id = tracing::field::Empty,
        span_id = tracing::field::Empty
    );
    if !span.is_disabled() {
        let Named { trace, span: id } = Named::from_context(&header.span_context());
        span.record("trace_id", trace).record("span_id", id);
    }
    span
}

/// Logs an event, if it is of interest. `took` is the duration of the attempt that the event ends.
pub(super) fn tell(run: &Run, event: &Event, took: Option<u64>) {
    if !tracing::enabled!(target: "openwop", tracing::Level::ERROR) {
        return;
    }
    let header = &run.header;
    let named = || Named::from_context(&header.span_context());
    match &event.body {
        RunEvent::RunStarted { workflow_id, .. } => {
            let Named { trace, span } = named();
            let request = request_of(run);
            tracing::debug!(
                target: "openwop", metricKind = "openwop.run.created", runId = %header.stream,
                workflowId = %workflow_id, tenantId = %header.tenant(), request_id = request,
                trace_id = trace, span_id = span, "created"
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
            tracing::warn!(
                target: "openwop", metricKind = "openwop.cap.exceeded", runId = %header.stream,
                kind = super::cap(*kind), limit, observed, trace_id = trace, span_id = span,
                "a limit was reached"
            );
        }
        RunEvent::NodeCompleted {
            node_id,
            duration_ms,
            attempt,
            ..
        } => {
            let type_id = type_of(run, node_id);
            tracing::debug!(
                target: "openwop", metricKind = "openwop.node.completed", runId = %header.stream,
                nodeId = %node_id, nodeType = type_id, status = "completed",
                durationMs = duration_ms, attempt, trace_id = named().trace, "a node completed"
            );
            one_call(run, node_id, "success", took);
        }
        RunEvent::NodeFailed {
            node_id, attempts, ..
        } if *attempts > 0 => one_call(run, node_id, "error", took),
        RunEvent::NodeRetried { node_id, .. } => one_call(run, node_id, "error", took),
        RunEvent::ToolReturned(returned) => {
            let status = match returned.status {
                ToolStatus::Ok => "success",
                ToolStatus::Error => "error",
                // No call was made.
                ToolStatus::Forbidden => return,
            };
            let (server, _) = server_of(&returned.tool_name);
            invoked(run, &returned.node_id, server, status, returned.duration_ms);
        }
        RunEvent::ProviderUsage { usage, node_id, .. } => {
            invoked(run, node_id, &usage.provider, "success", usage.duration_ms);
            cost(run, node_id, usage);
        }
        _ => {}
    }
}

fn type_of<'a>(run: &'a Run, node: &NodeId) -> Option<&'a str> {
    let ix = run.plan.node_ix(node.as_str())?;
    Some(run.plan.node(ix).type_id.as_str())
}

/// Logs the end of an attempt that is one call.
fn one_call(run: &Run, node: &NodeId, status: &str, took: Option<u64>) {
    if let Some(provider) = type_of(run, node).and_then(provider_of) {
        invoked(run, node, provider, status, took);
    }
}

/// Logs a call to an external service.
fn invoked(run: &Run, node: &NodeId, provider: &str, status: &str, took: Option<u64>) {
    let Named { trace, .. } = Named::from_context(&run.header.span_context());
    tracing::debug!(
        target: "openwop", metricKind = "openwop.activity.invoked", runId = %run.header.stream,
        nodeId = %node, provider, status, latencyMs = took, trace_id = trace, "a call ended"
    );
}

fn cost(run: &Run, node: &NodeId, usage: &Usage) {
    let Named { trace, .. } = Named::from_context(&run.header.span_context());
    tracing::debug!(
        target: "openwop", metricKind = "openwop.cost.recorded", runId = %run.header.stream,
        nodeId = %node, provider = usage.provider, tokensInput = usage.input_tokens,
        tokensOutput = usage.output_tokens, usd = usage.cost_estimate_usd, trace_id = trace,
        "a model answered"
    );
}

fn ended(run: &Run, status: &str, code: Option<&str>, took: u64) {
    let header = &run.header;
    // With the id of the creating request, so that its caller finds the end of the run.
    let request = request_of(run);
    let Named { trace, span } = Named::from_context(&header.span_context());
    macro_rules! ended {
        ($level:expr) => {
            tracing::event!(
                target: "openwop", $level, metricKind = "openwop.run.completed",
                runId = %header.stream, workflowId = %run.plan.workflow,
                tenantId = %header.tenant(), status, errorCode = code, durationMs = took,
                request_id = request, trace_id = trace, span_id = span, "ended"
            )
        };
    }
    // A line for each run is too much under load; a line for each failed run is not.
    match code {
        Some(_) => ended!(tracing::Level::INFO),
        None => ended!(tracing::Level::DEBUG),
    }
}

/// The request that created a run. A fork's copied events name the request of its source.
fn request_of(run: &Run) -> Option<&str> {
    let facts = run.facts().filter(|_| run.header.origin.is_none());
    facts?.request_id.as_deref()
}

/// Logs that a run was rejected because of another.
pub(crate) fn conflict(tenant: &TenantId, transport: &str, active: &StreamId) {
    tracing::info!(
        target: "openwop", metricKind = "openwop.run.claim.conflict", transport,
        projectId = %tenant, activeRunId = %active, activeHost = ACTIVE_HOST,
        retryAfterSeconds = ACTIVE_RETRY_SECONDS, "another run is active"
    );
}
