//! The payloads of attempts' reports: tool calls, and answers without the required shape.

use std::collections::BTreeMap;

use kernel::run::report::{EnvelopeFault, PromptParts, ToolStatus};
use kernel::run::{Event, RunEvent};
use kernel::stream::StreamHeader;

use super::fields::{Fields, error};

/// Whether an event carries untrusted content from outside.
pub(super) fn is_untrusted(event: &RunEvent) -> bool {
    matches!(event, RunEvent::ToolReturned(_))
}

/// The principal of calls without a credential.
const NOBODY: &str = "core.system";

/// The payload of an event that a report makes; empty for any other.
pub(super) fn report(header: &StreamHeader, event: &Event) -> Fields {
    let fields = Fields::new();
    match &event.body {
        RunEvent::ToolCalled(call) => fields
            .text("nodeId", &call.node_id)
            .with("visit", call.visit)
            .with("attempt", call.attempt)
            .with("agentId", &call.agent_id)
            .with("toolName", &call.tool_name)
            .with("callId", &call.call_id)
            .maybe("inputs", call.inputs.as_ref())
            .with("argsHash", &call.args_hash)
            .with(
                "principal",
                header.owner.principal.as_deref().unwrap_or(NOBODY),
            )
            .with("transport", call.transport),
        RunEvent::ToolReturned(call) => fields
            .text("nodeId", &call.node_id)
            .with("visit", call.visit)
            .with("attempt", call.attempt)
            .with("agentId", &call.agent_id)
            .with("toolName", &call.tool_name)
            .with("callId", &call.call_id)
            .with("status", call.status)
            .maybe(
                "outcome",
                (call.status == ToolStatus::Ok)
                    .then_some(call.outcome.as_ref())
                    .flatten(),
            )
            .maybe("error", call.error.as_ref().map(|why| error(why).build()))
            .maybe("durationMs", call.duration_ms)
            .with("contentTrust", "untrusted"),
        RunEvent::EnvelopeRefused(of) => fields
            .text("nodeId", &of.node_id)
            .with("provider", &of.provider)
            .with("model", &of.model)
            .maybe("safetyCategory", of.safety_category.as_ref()),
        RunEvent::EnvelopeTruncated(of) => fields
            .text("nodeId", &of.node_id)
            .with("provider", &of.provider)
            .with("model", &of.model)
            .with("stopReason", "max_tokens")
            .with("partialPayloadAvailable", false)
            .maybe("outputTokenCount", of.output_token_count),
        RunEvent::EnvelopeRetried(of) => fields
            .text("nodeId", &of.node_id)
            .with("attempt", of.asked)
            .with("reason", fault(of.reason))
            .maybe("previousError", of.previous_error.as_ref()),
        RunEvent::EnvelopesExhausted(of) => fields
            .text("nodeId", &of.node_id)
            .with("totalAttempts", of.asked)
            .with("finalReason", fault(of.reason)),
        RunEvent::EnvelopeRecovered(of) => fields.text("nodeId", &of.node_id).with("path", of.path),
        RunEvent::EnvelopeCoerced(of) => fields
            .text("nodeId", &of.node_id)
            .with("originalEnvelopeType", &of.envelope)
            .with("fallbackCalls", of.calls),
        RunEvent::PromptComposed(of) => {
            let hashes = of.variable_hashes.iter();
            let hashes: BTreeMap<&str, String> = hashes
                .map(|(name, hash)| (name.as_str(), format!("sha256:{hash}")))
                .collect();
            fields
                .text("nodeId", &of.node_id)
                .with("refs", &of.refs)
                .with(
                    "kind",
                    match of.parts {
                        PromptParts::SystemAndUser => "system+user",
                        PromptParts::UserOnly => "user-only",
                    },
                )
                .with("hash", format!("sha256:{}", of.hash))
                .filled("variableHashes", hashes)
        }
        _ => fields,
    }
}

fn fault(fault: EnvelopeFault) -> &'static str {
    match fault {
        EnvelopeFault::ParseError => "parse-error",
        EnvelopeFault::SchemaViolation => "schema-violation",
        EnvelopeFault::Truncation => "truncation",
        EnvelopeFault::Refusal => "refusal",
    }
}
