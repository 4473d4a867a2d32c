//! The payloads of supervisors, agents and dispatch nodes, which the protocol closes: the node is
//! named next to the payload. A replay names the run of its source in them, as its source does.

use kernel::run::RunEvent;
use kernel::stream::StreamHeader;

use super::fields::Fields;

/// The payload of one of these events, of the fields that are stored.
pub(super) fn orchestration(header: &StreamHeader, event: &RunEvent, fields: Fields) -> Fields {
    let fields = fields.without(&["nodeId", "visit", "worker", "follows"]);
    match event {
        RunEvent::ChainStepped { .. } => fields.text("parentRunId", header.root()),
        RunEvent::FannedOut { .. } => fields.with("fanOutPolicy", "parallel"),
        RunEvent::ConfidenceEscalated { .. } => fields
            .with("escalationKind", "clarify")
            .text("parentRunId", header.root()),
        _ => fields,
    }
}
