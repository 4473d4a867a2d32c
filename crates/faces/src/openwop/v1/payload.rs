//! The payload of each event type.
//!
//! Objects that the protocol closes get its fields only: `node.dispatched`, `channel.written`,
//! `runOrchestrator.decided`, `core.workflowChain.*`, `envelope.*`, `approval.granted`,
//! `approval.rejected`, `provider.usage`, `run.dead_lettered`, `interrupt.requested` and the `meta`
//! of `output.chunk`. The others also have the visit and attempt of their node.

use std::borrow::Cow;

use kernel::coordinator::awaited_queue;
use kernel::run::budget::{Amounts, COST, RETRIES, TOKENS, TOOL_CALLS};
use kernel::run::event::{CapKind, DivergenceKind, Ending};
use kernel::run::{Event, InterruptKind, RunEvent};
use kernel::stream::{Owner, StreamHeader};
use serde_json::{Map, Value, json};

use super::fields::{Fields, failure};
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

/// The payload of an event: the fields that are stored, but for the kinds that the protocol closes
/// or shapes in its own way.
pub(super) fn payload(header: &StreamHeader, event: &Event) -> Value {
    let fields = || Fields::stored(&event.body);
    let fields = match &event.body {
        RunEvent::RunStarted {
            transport,
            engine_version,
            configurable,
            ..
        } => {
            let is_known = TRANSPORTS.contains(&transport.as_str());
            // A reader gets the variables from the snapshot; here they would repeat the inputs.
            fields()
                .without(&["variables", "transport"])
                .maybe("transport", is_known.then_some(transport))
                .text("engineVersion", engine_version)
                .with("owner", owner(&header.owner))
                .filled("configurable", settings(configurable))
        }
        RunEvent::RunStopping { ending } => Fields::new().with("ending", stopping(ending)),
        RunEvent::RunForked { configurable, .. } => fields()
            .renamed("fromSequence", "fromSeq")
            .maybe("configurable", configurable.as_ref().map(settings)),
        RunEvent::RunDeadLettered { .. } => fields().text("runId", header.root()),
        // None when the node failed before its first attempt; the protocol counts from 1.
        RunEvent::NodeFailed { attempts: 0, .. } => fields().without(&["attempts"]),
        RunEvent::NodeSuspended {
            kind,
            doubt: Some(doubt),
            ..
        } => fields()
            .without(&["doubt"])
            .with("reason", kind)
            .with("agentId", &doubt.agent_id)
            .with("threshold", doubt.threshold)
            .with("observed", doubt.observed),
        RunEvent::NodeDispatched { .. } => {
            fields().without(&["nodeId", "visit", "definition", "inputs", "budget"])
        }
        RunEvent::OrchestratorDecided { .. }
        | RunEvent::ChainStepped { .. }
        | RunEvent::FannedOut { .. }
        | RunEvent::Joined { .. }
        | RunEvent::ConfidenceEscalated { .. } => orchestration(header, &event.body, fields()),
        RunEvent::InterruptRequested {
            kind,
            key,
            asked_before,
            data,
            resume_schema,
            timeout_at,
            ..
        } => {
            let timeout_ms = timeout_at.map(|due| due.ms_since(event.at));
            let key = counted(key, *asked_before);
            interrupt(*kind, &key, data, resume_schema.as_ref(), timeout_ms)
        }
        RunEvent::InterruptResolved {
            kind, resume_value, ..
        } => {
            let outcome = outcome(*kind, resume_value);
            let reason = outcome.and_then(|_| resume_value.get("reason"));
            fields()
                .maybe("outcome", outcome)
                .maybe("reason", reason)
                .text("resolvedAt", event.at)
                .text("runId", header.root())
        }
        RunEvent::ApprovalRequested { .. }
        | RunEvent::ApprovalReceived { .. }
        | RunEvent::ApprovalGranted { .. }
        | RunEvent::ApprovalRejected { .. }
        | RunEvent::ApprovalOverridden { .. }
        | RunEvent::ApprovalAsked { .. } => gate(event, fields()),
        RunEvent::ChannelWritten {
            value,
            written_at,
            stamped: true,
            ..
        } => {
            // As the entry is kept in the channel.
            let entry = json!({ "value": value, "_ts": written_at.0 });
            fields().without(&["stamped"]).with("value", entry)
        }
        RunEvent::ArtifactCreated { artifact, .. } => fields()
            .without(&["parts", "digest"])
            .text("sha256", artifact.digest),
        RunEvent::OutputChunk { meta, .. } => fields()
            .without(&["meta"])
            .text("runId", header.root())
            .maybe("meta", meta.as_ref().and_then(chunk_meta)),
        RunEvent::LogAppended {
            attempt: Some(attempt),
            ..
        } => {
            let (visit, number) = (attempt.visit, attempt.attempt);
            fields()
                .without(&["attempt"])
                .text("nodeId", &attempt.node)
                .with("fields", json!({ "visit": visit, "attempt": number }))
        }
        RunEvent::CapBreached {
            kind,
            limit,
            observed,
            ..
        } => fields()
            .with("limit", cap_amount(*kind, *limit))
            .with("observed", cap_amount(*kind, *observed)),
        RunEvent::BudgetAnnounced { limits, .. } => fields()
            .without(&["limits"])
            .with("effectiveBudget", budget(limits)),
        RunEvent::BudgetThresholdCrossed {
            dimension,
            consumed,
            limit,
            ..
        }
        | RunEvent::BudgetExhausted {
            dimension,
            consumed,
            limit,
        } => fields()
            .with("dimension", dimension_name(dimension))
            .with("consumed", spent_amount(dimension, *consumed))
            .with("limit", spent_amount(dimension, *limit)),
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
        RunEvent::ReplayDiverged {
            source_run_id,
            at_sequence,
            divergence_kind,
            ..
        } => {
            // An event that the replay decides beyond its source has no original.
            let original = (*divergence_kind != DivergenceKind::Extra)
                .then(|| source_run_id.event(*at_sequence));
            // This event precedes the first one that differs, where the replay has one.
            let replayed = (*divergence_kind != DivergenceKind::Missing)
                .then(|| header.stream.event(event.seq + 1));
            fields()
                .maybe_text("originalEventId", original)
                .maybe_text("replayEventId", replayed)
        }
        _ => fields(),
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
    kind: InterruptKind,
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
fn asked(kind: InterruptKind, key: &str, data: &Value) -> Value {
    let has = |name: &str| data.get(name).is_some();
    match kind {
        InterruptKind::Custom if !has("customKind") => {
            let mut payload = data.clone();
            let reason = payload
                .as_object_mut()
                .and_then(|fields| fields.remove("reason"));
            let kind = reason.as_ref().and_then(Value::as_str).unwrap_or(key);
            json!({ "customKind": kind, "payload": payload })
        }
        InterruptKind::ExternalEvent if !has("eventType") && !has("correlation") => {
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

/// A bound in the unit of its kind: money is stored in millionths of a dollar and rendered in
/// dollars.
fn cap_amount(kind: CapKind, amount: u64) -> Value {
    match kind {
        CapKind::BudgetCost => json!(amount as f64 / 1e6),
        _ => json!(amount),
    }
}

/// The dimensions of a budget, with the protocol's names of their limits.
pub(super) const LIMITS: [(&str, &str); 4] = [
    (TOKENS, "maxTokens"),
    (COST, "maxCostUsd"),
    (TOOL_CALLS, "maxToolCalls"),
    (RETRIES, "maxRetries"),
];

/// The limits of a budget, by the protocol's names.
fn budget(limits: &Amounts) -> Value {
    let known = LIMITS.into_iter().filter_map(|(dimension, name)| {
        let limit = limits.get(dimension)?;
        Some((name.to_owned(), spent_amount(dimension, *limit)))
    });
    Value::Object(known.collect())
}

/// The protocol's name of a dimension.
fn dimension_name(dimension: &str) -> &str {
    if dimension == COST {
        COST_NAME
    } else {
        dimension
    }
}

/// The protocol's name of the dimension of money.
pub(super) const COST_NAME: &str = "cost";

/// An amount of a dimension; money is rendered in dollars.
fn spent_amount(dimension: &str, amount: u64) -> Value {
    match dimension {
        COST => cap_amount(CapKind::BudgetCost, amount),
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
