//! The payload of each event type.
//!
//! Objects that the protocol closes get its fields only: `node.dispatched`, `channel.written`,
//! `runOrchestrator.decided`, `core.workflowChain.*`, `envelope.*`, `approval.granted`,
//! `approval.rejected`, `provider.usage`, `run.dead_lettered`, `interrupt.requested` and the `meta`
//! of `output.chunk`. The others also have the visit and attempt of their node.

use std::borrow::Cow;

use kernel::coordinator::awaited_queue;
use kernel::run::event::{CapKind, DivergenceKind, Ending};
use kernel::run::{Event, NodeError, RunEvent};
use kernel::stream::{Owner, StreamHeader};
use serde_json::{Map, Value, json};

use super::fields::{Fields, error};
use super::gate::{gate, outcome};
use super::orchestration::orchestration;
use super::report::report;
use crate::mask::MASK;

/// The protocol's transports. For a run of another origin (the command line) the member is left
/// out.
const TRANSPORTS: [&str; 4] = ["rest", "mcp", "a2a", "ui"];

/// The settings of a run's creator. The credential reference is masked for every reader.
pub(super) fn settings(configurable: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = configurable.clone();
    if let Some(reference) = shown.get_mut("ai.credentialRef") {
        *reference = MASK.into();
    }
    shown
}

/// A run's owner in every rendering. The identity provider of the principal is left out: the object
/// is closed.
pub(super) fn owner(owner: &Owner) -> Value {
    Fields::new()
        .text("tenant", &owner.tenant)
        .maybe("workspace", owner.workspace.as_ref())
        .maybe("principal", owner.principal.as_ref())
        .build()
}

/// The payload of an event.
pub(super) fn payload(header: &StreamHeader, event: &Event) -> Value {
    let fields = match &event.body {
        RunEvent::RunStarted {
            workflow_id,
            inputs,
            // Readers get them from the snapshot; here they would repeat the inputs.
            variables: _,
            transport,
            engine_version,
            tags,
            metadata,
            configurable,
        } => Fields::new()
            .text("workflowId", workflow_id)
            .with("inputs", inputs)
            .maybe(
                "transport",
                TRANSPORTS
                    .contains(&transport.as_str())
                    .then_some(transport),
            )
            .text("engineVersion", engine_version)
            .with("owner", owner(&header.owner))
            .filled("tags", tags)
            .filled("metadata", metadata)
            .filled("configurable", settings(configurable)),
        RunEvent::RunCompleted {
            outputs,
            duration_ms,
        } => Fields::new()
            .with("outputs", outputs)
            .with("durationMs", duration_ms),
        RunEvent::RunFailed {
            error,
            failed_node_id,
            duration_ms,
        } => Fields::new()
            .with("error", failure(error))
            .maybe_text("failedNodeId", failed_node_id.as_ref())
            .with("durationMs", duration_ms),
        RunEvent::RunCancelled {
            reason,
            cancelled_by,
            parent_run_id,
            duration_ms,
        } => Fields::new()
            .maybe("reason", reason.as_ref())
            .maybe("cancelledBy", cancelled_by.as_ref())
            .maybe_text("parentRunId", parent_run_id.as_ref())
            .with("durationMs", duration_ms),
        RunEvent::RunStopping { ending } => Fields::new().with("ending", stopping(ending)),
        RunEvent::RunDraining { reason } => Fields::new().maybe("reason", reason.as_ref()),
        RunEvent::RunPaused {
            reason,
            drain_policy,
        } => Fields::new()
            .maybe("reason", reason.as_ref())
            .with("drainPolicy", drain_policy),
        RunEvent::RunResumed { reason } => Fields::new().maybe("reason", reason.as_ref()),
        RunEvent::RunResuming { from_status } => Fields::new().with("fromStatus", from_status),
        RunEvent::RunForked {
            source_run_id,
            from_sequence,
            tags,
            metadata,
            configurable,
        } => Fields::new()
            .text("sourceRunId", source_run_id)
            .with("fromSeq", from_sequence)
            .maybe("tags", tags.as_ref())
            .maybe("metadata", metadata.as_ref())
            .maybe("configurable", configurable.as_ref().map(settings)),
        RunEvent::RunDeadLettered {
            node_id,
            reason,
            attempts,
        } => Fields::new()
            .text("runId", header.root())
            .text("nodeId", node_id)
            .with("reason", reason)
            .with("attempts", attempts),
        RunEvent::NodeStarted {
            node_id,
            type_id,
            visit,
            attempt,
            inputs,
            due_at,
            timeout_at,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("typeId", type_id)
            .with("visit", visit)
            .with("attempt", attempt)
            .maybe("inputs", inputs.as_ref())
            .maybe_text("dueAt", due_at.as_ref())
            .maybe_text("timeoutAt", timeout_at.as_ref()),
        RunEvent::AttemptRestarted {
            node_id,
            visit,
            attempt,
            restarts,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("attempt", attempt)
            .with("restarts", restarts),
        RunEvent::NodeCompleted {
            node_id,
            visit,
            attempt,
            outputs,
            port,
            declined_edges,
            duration_ms,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("attempt", attempt)
            .with("outputs", outputs)
            .maybe("port", port.as_ref())
            .filled("declinedEdges", declined_edges)
            .with("durationMs", duration_ms),
        RunEvent::NodeFailed {
            node_id,
            visit,
            error,
            attempts,
            declined_edges,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("error", failure(error))
            // None when the node failed before its first attempt; the protocol counts from 1.
            .maybe("attempts", (*attempts > 0).then_some(attempts))
            .filled("declinedEdges", declined_edges),
        RunEvent::NodeRetried {
            node_id,
            visit,
            attempt,
            delay_ms,
            last_error,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("attempt", attempt)
            .with("delayMs", delay_ms)
            .with("lastError", failure(last_error)),
        RunEvent::NodeSkipped {
            node_id,
            visit,
            reason,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("reason", reason),
        RunEvent::NodeCancelled {
            node_id,
            visit,
            reason,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .with("reason", reason),
        RunEvent::NodeSuspended {
            node_id,
            visit,
            interrupt_id,
            kind,
            doubt,
        } => {
            let fields = Fields::new()
                .text("nodeId", node_id)
                .with("visit", visit)
                .text("interruptId", interrupt_id)
                .with("kind", kind);
            match doubt {
                Some(doubt) => fields
                    .with("reason", kind)
                    .with("agentId", &doubt.agent_id)
                    .with("threshold", doubt.threshold)
                    .with("observed", doubt.observed),
                None => fields,
            }
        }
        RunEvent::NodeResumed {
            node_id,
            visit,
            interrupt_id,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("visit", visit)
            .text("interruptId", interrupt_id),
        RunEvent::NodeDispatched {
            node_id: _,
            visit: _,
            child_run_id,
            child_workflow_id,
            definition: _,
            inputs: _,
            budget: _,
        } => Fields::new()
            .text("childRunId", child_run_id)
            .text("childWorkflowId", child_workflow_id),
        RunEvent::ChildSettled {
            child_run_id,
            status,
            variables,
            outputs,
            error,
            spent,
        } => Fields::new()
            .text("childRunId", child_run_id)
            .with("status", status)
            .filled("variables", variables)
            .filled("outputs", outputs)
            .maybe("error", error.as_ref().map(failure))
            .filled("spent", spent),
        RunEvent::ChildReported {
            child_run_id,
            status,
            child_sequence,
        } => Fields::new()
            .text("childRunId", child_run_id)
            .maybe("status", status.as_ref())
            .with("childSequence", child_sequence),
        RunEvent::AgentDecided { .. }
        | RunEvent::AgentHandedOff { .. }
        | RunEvent::OrchestratorDecided { .. }
        | RunEvent::ChainStepped { .. }
        | RunEvent::FannedOut { .. }
        | RunEvent::Joined { .. }
        | RunEvent::ConfidenceEscalated { .. }
        | RunEvent::LoopbackLimited { .. } => orchestration(header, event),
        RunEvent::InterruptRequested {
            interrupt_id: _,
            node_id: _,
            visit: _,
            kind,
            key,
            asked_before,
            data,
            resume_schema,
            timeout_at,
        } => {
            let timeout_ms = timeout_at.map(|due| due.ms_since(event.at));
            let key = counted(key, *asked_before);
            interrupt(kind, &key, data, resume_schema.as_ref(), timeout_ms)
        }
        RunEvent::InterruptResolved {
            interrupt_id,
            node_id,
            kind,
            resume_value,
            resolved_by,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("interruptId", interrupt_id)
            .with("kind", kind)
            .with("resumeValue", resume_value)
            .maybe("outcome", outcome(kind, resume_value))
            .maybe(
                "reason",
                outcome(kind, resume_value).and_then(|_| resume_value.get("reason")),
            )
            .maybe("resolvedBy", resolved_by.as_ref())
            .text("resolvedAt", event.at)
            .text("runId", header.root()),
        RunEvent::ApprovalRequested { .. }
        | RunEvent::ApprovalReceived { .. }
        | RunEvent::ApprovalGranted { .. }
        | RunEvent::ApprovalRejected { .. }
        | RunEvent::ApprovalOverridden { .. }
        | RunEvent::ApprovalAsked { .. }
        | RunEvent::ClarificationRequested { .. }
        | RunEvent::ClarificationResolved { .. } => gate(event),
        RunEvent::SignalReceived { name, id, payload } => Fields::new()
            .with("name", name)
            .with("id", id)
            .with("payload", payload),
        RunEvent::ChannelWritten {
            channel,
            value,
            reducer,
            written_at,
            schema_version,
            stamped,
            node_id,
        } => Fields::new()
            .with("channel", channel)
            .with(
                "value",
                if *stamped {
                    // In the channel's stored form.
                    json!({ "value": value, "_ts": written_at.0 })
                } else {
                    value.clone()
                },
            )
            .with("reducer", reducer)
            .text("writtenAt", written_at)
            .with("schemaVersion", schema_version)
            .maybe_text("nodeId", node_id.as_ref()),
        RunEvent::VariableChanged {
            name,
            next,
            node_id,
        } => Fields::new()
            .with("name", name)
            .with("next", next)
            .maybe_text("nodeId", node_id.as_ref()),
        RunEvent::ArtifactCreated { artifact, node_id } => Fields::new()
            .with("artifactId", &artifact.artifact_id)
            .with("artifactType", &artifact.artifact_type)
            .text("nodeId", node_id)
            .with("mediaType", &artifact.media_type)
            .with("size", artifact.size)
            .text("sha256", artifact.digest),
        RunEvent::OutputChunk {
            node_id,
            visit,
            attempt,
            restart,
            channel,
            chunk,
            is_last,
            meta,
        } => Fields::new()
            .text("nodeId", node_id)
            .text("runId", header.root())
            .with("visit", visit)
            .with("attempt", attempt)
            .maybe("restart", (*restart > 0).then_some(restart))
            .with("channel", channel)
            .with("chunk", chunk)
            .with("isLast", is_last)
            .maybe("meta", meta.as_ref().and_then(chunk_meta)),
        RunEvent::LogAppended {
            level,
            message,
            attempt,
        } => Fields::new()
            .with("level", level)
            .with("message", message)
            .maybe_text("nodeId", attempt.as_ref().map(|attempt| &attempt.node))
            .maybe(
                "fields",
                attempt.as_ref().map(|attempt| {
                    Fields::new()
                        .with("visit", attempt.visit)
                        .with("attempt", attempt.attempt)
                        .build()
                }),
            ),
        RunEvent::CapBreached {
            kind,
            limit,
            observed,
            node_id,
        } => Fields::new()
            .with("kind", kind)
            .with("limit", cap_amount(*kind, *limit))
            .with("observed", cap_amount(*kind, *observed))
            .maybe_text("nodeId", node_id.as_ref()),
        RunEvent::ProviderUsage { usage, node_id, .. } => Fields::new()
            .with("provider", &usage.provider)
            .with("model", &usage.model)
            .with("inputTokens", usage.input_tokens)
            .with("outputTokens", usage.output_tokens)
            .with(
                "totalTokens",
                usage.input_tokens.saturating_add(usage.output_tokens),
            )
            .maybe("costEstimateUsd", usage.cost_estimate_usd)
            .maybe("currency", usage.cost_estimate_usd.map(|_| "USD"))
            .maybe("cacheReadTokens", usage.cache_read_tokens)
            .maybe("cacheWriteTokens", usage.cache_write_tokens)
            .text("nodeId", node_id),
        RunEvent::ToolCalled(_)
        | RunEvent::ToolReturned(_)
        | RunEvent::EnvelopeRefused(_)
        | RunEvent::EnvelopeTruncated(_)
        | RunEvent::EnvelopeRetried(_)
        | RunEvent::EnvelopesExhausted(_)
        | RunEvent::EnvelopeRecovered(_)
        | RunEvent::EnvelopeCoerced(_)
        | RunEvent::PromptComposed(_) => report(header, event),
        RunEvent::BudgetReserved { attempt, amounts } => Fields::new()
            .with("attempt", attempt)
            .with("amounts", amounts),
        RunEvent::BudgetSettled { attempt, spent } => {
            Fields::new().with("attempt", attempt).with("spent", spent)
        }
        RunEvent::ReplayDiverged {
            source_run_id,
            at_sequence,
            divergence_kind,
            divergence_point,
        } => Fields::new()
            .text("sourceRunId", source_run_id)
            .with("atSequence", at_sequence)
            .maybe_text(
                "originalEventId",
                // An extra decision of the replay has no original.
                (*divergence_kind != DivergenceKind::Extra)
                    .then(|| source_run_id.event(*at_sequence)),
            )
            .maybe_text(
                "replayEventId",
                // It precedes the first differing event, if the replay has one.
                (*divergence_kind != DivergenceKind::Missing)
                    .then(|| header.stream.event(event.seq + 1)),
            )
            .with("divergenceKind", divergence_kind)
            .maybe("divergencePoint", divergence_point.as_ref()),
    };
    fields.build()
}

/// The unique key of a question in its run: repeated keys get a number from the second one on.
pub(super) fn counted(key: &str, asked_before: u32) -> Cow<'_, str> {
    match asked_before {
        0 => Cow::Borrowed(key),
        before => Cow::Owned(format!("{key}:{}", u64::from(before) + 1)),
    }
}

/// A question, as the protocol's `InterruptPayload`.
pub(super) fn interrupt(
    kind: &str,
    key: &str,
    data: &Value,
    resume_schema: Option<&Value>,
    timeout_ms: Option<u64>,
) -> Fields {
    Fields::new()
        .with("kind", kind)
        .with("key", key)
        .with("data", asked(kind, key, data))
        .maybe("resumeSchema", resume_schema)
        .maybe("timeoutMs", timeout_ms)
}

/// The content of a question, in the closed shape that the protocol defines for its kind. A waiting
/// work node uses its own shape: it becomes the `payload` of a `custom`, and the `correlation` of
/// an `external-event`, by which the event is found.
fn asked(kind: &str, key: &str, data: &Value) -> Value {
    let has = |name: &str| data.get(name).is_some();
    match kind {
        "custom" if !has("customKind") => {
            let mut payload = data.clone();
            let reason = payload
                .as_object_mut()
                .and_then(|fields| fields.remove("reason"));
            let kind = reason.as_ref().and_then(Value::as_str).unwrap_or(key);
            json!({ "customKind": kind, "payload": payload })
        }
        "external-event" if !has("eventType") && !has("correlation") => {
            let kind = awaited_queue(data).map_or(key, |_| WORKER_EVENT);
            let correlation = match data {
                Value::Object(_) => data.clone(),
                Value::Null => json!({}),
                other => json!({ "data": other }),
            };
            json!({ "eventType": kind, "correlation": correlation })
        }
        _ => data.clone(),
    }
}

/// Reverses [`interrupt`]: the content in the work node's own shape.
pub(super) fn as_said(data: Value) -> Value {
    if let Some(payload) = failure_of_question(&data) {
        let mut said = payload.clone();
        said.insert("reason".into(), NODE_FAILED.into());
        return Value::Object(said);
    }
    match queue_of_question(&data) {
        Some(_) => data["correlation"].clone(),
        None => data,
    }
}

/// The event that a node with a task for the workers of a queue waits for.
const WORKER_EVENT: &str = "runwright.worker.result";

/// The kind of a question about a failed node.
const NODE_FAILED: &str = "node-failed";

/// The data of a rendered question about a failed node; `None` for other questions.
pub fn failure_of_question(data: &Value) -> Option<&Map<String, Value>> {
    let is_failure = data.get("customKind").and_then(Value::as_str) == Some(NODE_FAILED);
    let said = data.get("payload").filter(|_| is_failure)?.as_object()?;
    (said.contains_key("actions") && said.contains_key("error")).then_some(said)
}

/// The queue that a rendered question waits for, from its data. Such a question needs no answer
/// from a person.
pub fn queue_of_question(data: &Value) -> Option<&str> {
    let is_worker = data.get("eventType").and_then(Value::as_str) == Some(WORKER_EVENT);
    awaited_queue(data.get("correlation").filter(|_| is_worker)?)
}

/// An error of a node or run, with whether a retry may help.
pub(super) fn failure(node_error: &NodeError) -> Value {
    error(node_error)
        .maybe("retryable", node_error.retryable)
        .build()
}

/// A bound in the unit of its kind: money is stored in millionths of a dollar and rendered in
/// dollars.
fn cap_amount(kind: CapKind, amount: u64) -> Value {
    match kind {
        CapKind::BudgetCost => json!(amount as f64 / 1e6),
        _ => json!(amount),
    }
}

fn stopping(ending: &Ending) -> Value {
    match ending {
        Ending::Failed { error, node_id } => Fields::new()
            .with("as", "failed")
            .with("error", failure(error))
            .maybe_text("failedNodeId", node_id.as_ref()),
        Ending::Cancelled { reason, by, parent } => Fields::new()
            .with("as", "cancelled")
            .maybe("reason", reason.as_ref())
            .maybe("cancelledBy", by.as_ref())
            .maybe_text("parentRunId", parent.as_ref()),
    }
    .build()
}

/// The members of a chunk's metadata that the protocol types; others go to the provider's
/// extensions.
fn chunk_meta(meta: &Value) -> Option<Value> {
    const TYPED: [&str; 7] = [
        "finishReason",
        "logprobs",
        "toolCalls",
        "model",
        "usage",
        "provider",
        "providerExtensions",
    ];
    let meta = meta.as_object()?;
    let (mut typed, extra): (Map<_, _>, Map<_, _>) = meta
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .partition(|(name, _)| TYPED.contains(&name.as_str()));
    if !extra.is_empty() {
        let extensions = typed
            .entry("providerExtensions")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(extensions) = extensions.as_object_mut() {
            extensions.extend(extra);
        }
    }
    Some(Value::Object(typed))
}
