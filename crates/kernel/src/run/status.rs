//! The status of a run.

use super::InterruptKind;

crate::words! {
    /// The status of a run, as named on the wire and in the index.
    pub enum RunStatus {
        /// Created, or a branch that is still copied; nothing has started.
        Pending = "pending",
        /// Work is being done, or is about to be.
        Running = "running",
        /// Paused by a person; nothing starts.
        Paused = "paused",
        /// Waits for an approval.
        WaitingApproval = "waiting-approval",
        /// Waits for an answer.
        WaitingInput = "waiting-input",
        /// Waits for an event from outside.
        WaitingExternal = "waiting-external",
        /// Ended well.
        Completed = "completed",
        /// Ended in an error.
        Failed = "failed",
        /// About to end, once what is in flight has stopped.
        Cancelling = "cancelling",
        /// Ended by a request.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
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
