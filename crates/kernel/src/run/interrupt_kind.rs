//! The kinds of interrupts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a question of a run, as named on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptKind {
    /// A person accepts or rejects.
    Approval,
    /// A person answers questions by their ids.
    Clarification,
    /// An event from outside arrives, or an outside party ends the work of a node.
    ExternalEvent,
    /// A person judges a decision of low confidence.
    LowConfidence,
    /// Any other question, including the one about a failed node.
    Custom,
}

impl InterruptKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Approval,
        Self::Clarification,
        Self::ExternalEvent,
        Self::LowConfidence,
        Self::Custom,
    ];

    /// The kind as named on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Clarification => "clarification",
            Self::ExternalEvent => "external-event",
            Self::LowConfidence => "low-confidence",
            Self::Custom => "custom",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire() {
        for kind in InterruptKind::ALL {
            assert_eq!(InterruptKind::parse(kind.as_str()), Some(kind));
            let json = serde_json::to_value(kind).expect("a kind is JSON");
            assert_eq!(json, kind.as_str());
        }
        assert_eq!(InterruptKind::parse("question"), None);
    }
}
