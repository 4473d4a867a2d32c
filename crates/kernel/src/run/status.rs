//! The status of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::InterruptKind;

/// The status of a run, as named on the wire and in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Created, or a branch that is still copied; nothing has started.
    Pending,
    /// Work is being done, or is about to be.
    Running,
    /// Paused by a person; nothing starts.
    Paused,
    /// Waits for an approval.
    WaitingApproval,
    /// Waits for an answer.
    WaitingInput,
    /// Waits for an event from outside.
    WaitingExternal,
    /// Ended well.
    Completed,
    /// Ended in an error.
    Failed,
    /// About to end, once what is in flight has stopped.
    Cancelling,
    /// Ended by a request.
    Cancelled,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Completed,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// The statuses of runs that have not ended.
    pub const ACTIVE: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Cancelling,
    ];

    /// The statuses of runs that an engine works on.
    pub const IN_FLIGHT: [Self; 3] = [Self::Pending, Self::Running, Self::Cancelling];

    /// The status as named on the wire and in the index.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingApproval => "waiting-approval",
            Self::WaitingInput => "waiting-input",
            Self::WaitingExternal => "waiting-external",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// The status of a run that waits on an interrupt of a kind.
    pub fn for_interrupt(kind: InterruptKind) -> Self {
        match kind {
            InterruptKind::Approval | InterruptKind::LowConfidence => Self::WaitingApproval,
            InterruptKind::ExternalEvent => Self::WaitingExternal,
            InterruptKind::Clarification | InterruptKind::Custom => Self::WaitingInput,
        }
    }

    /// Whether the run waits for something outside.
    pub fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal
        )
    }

    /// Whether an engine works on the run.
    pub fn is_in_flight(self) -> bool {
        Self::IN_FLIGHT.contains(&self)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::parse(status.as_str()), Some(status));
            let json = serde_json::to_value(status).expect("a status is JSON");
            assert_eq!(json, status.as_str());
        }
        assert_eq!(RunStatus::parse("ended"), None);
    }
}
