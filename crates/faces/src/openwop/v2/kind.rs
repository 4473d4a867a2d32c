//! Names of event types: the rows of the protocol's codemap that this engine emits.

use std::borrow::Cow;

use super::super::v1;

/// Types whose name differs: as stored, and as v2 spells it.
const RENAMED: [(&str, &str); 14] = [
    ("run.resuming", "run.resume-started"),
    ("run.dead_lettered", "run.dead-lettered"),
    ("envelope.retry.attempted", "envelope.retry-attempted"),
    ("envelope.retry.exhausted", "envelope.retry-exhausted"),
    (
        "envelope.nlToFormat.engaged",
        "envelope.nl-to-format-engaged",
    ),
    ("envelope.recovery.applied", "envelope.recovery-applied"),
    ("budget.threshold.crossed", "budget.threshold-crossed"),
    ("agent.toolCalled", "agent.tool-called"),
    ("agent.toolReturned", "agent.tool-returned"),
    ("runOrchestrator.decided", "orchestrator.decided"),
    ("core.dispatch.fanOut", "dispatch.fanned-out"),
    ("core.dispatch.join", "dispatch.joined"),
    ("core.workflowChain.event", "workflow-chain.event"),
    (
        "core.workflowChain.confidence-escalated",
        "workflow-chain.confidence-escalated",
    ),
];

/// The v2 name of a type.
pub fn wire_kind(native: &str) -> &str {
    let row = RENAMED.iter().find(|(name, _)| *name == native);
    row.map_or(native, |(_, wire)| wire)
}

/// The stored type of a v2 name. A v1 spelling that v2 has renamed is unknown.
pub fn native_kind(wire: &str) -> Option<&'static str> {
    let row = RENAMED.iter().find(|(_, name)| *name == wire);
    let native = row.map_or(wire, |(native, _)| native);
    let is_old = RENAMED.iter().any(|(name, _)| *name == wire);
    let known = v1::EVENT_TYPES.iter().find(|kind| **kind == native);
    known.copied().filter(|_| !is_old)
}

/// The v2 names of all types this engine emits.
pub fn wire_kinds() -> Vec<&'static str> {
    v1::EVENT_TYPES.iter().map(|kind| wire_kind(kind)).collect()
}

/// The v2 name of a type that may be owned.
pub(super) fn owned_kind(native: &str) -> Cow<'static, str> {
    let known = v1::EVENT_TYPES.iter().find(|kind| **kind == native);
    match known {
        Some(kind) => Cow::Borrowed(wire_kind(kind)),
        None => Cow::Owned(wire_kind(native).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `domain.verb-ed`, or `runwright.` with one or two more segments.
    fn is_v2(kind: &str) -> bool {
        let is_kebab = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_lowercase())
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let parts: Vec<&str> = kind.split('.').collect();
        let fits = match parts.first() {
            Some(&"runwright") => (2..=3).contains(&parts.len()),
            _ => parts.len() == 2,
        };
        fits && parts.into_iter().all(is_kebab)
    }

    #[test]
    fn every_type_has_a_v2_name_that_leads_back() {
        for native in v1::EVENT_TYPES {
            let wire = wire_kind(native);
            assert!(is_v2(wire), "{native}: {wire}");
            assert_eq!(native_kind(wire), Some(*native));
        }
        assert_eq!(native_kind("run.dead_lettered"), None);
        assert_eq!(native_kind("run.startd"), None);
    }
}
