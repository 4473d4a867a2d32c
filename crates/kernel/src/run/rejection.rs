//! Why a command is rejected. A rejection writes nothing.

use crate::definition::Unmet;
use crate::problem::Problems;
use crate::run::RunStatus;

/// Why a command is rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// The stream has no run yet.
    #[error("unknown run")]
    Unborn,
    /// The stream has a run already.
    #[error("the run exists already")]
    Existing,
    /// The run has ended.
    #[error("the run has {status} already")]
    Settled {
        /// Its final status.
        status: RunStatus,
    },
    /// The inputs do not fit the workflow.
    #[error("the inputs do not fit the workflow")]
    InvalidInputs(Problems),
    /// The workflow needs a capability that this engine lacks.
    #[error("{} of the workflow {unmet}", unmet.place)]
    Unmet {
        /// The missing capability.
        unmet: Unmet,
    },
    /// A given value is larger than allowed.
    #[error("{what} is larger than allowed")]
    TooLarge {
        /// The value.
        what: &'static str,
    },
    /// The attempt is not in flight: it ended, was superseded, or never started.
    #[error("the attempt is no longer in flight")]
    StaleAttempt,
    /// There is nothing to do.
    #[error("there is nothing to do")]
    Idle,
    /// The timer is not set, or not due yet.
    #[error("the timer is not due")]
    NotDue,
    /// The run is paused already.
    #[error("the run is paused already")]
    AlreadyPaused,
    /// The run will pause as soon as its attempts have finished.
    #[error("the run is pausing already")]
    AlreadyDraining,
    /// The run is not paused.
    #[error("the run is not paused")]
    NotPaused,
    /// The run is being stopped.
    #[error("the run is being stopped")]
    Stopping,
    /// No such interrupt is open.
    #[error("no such interrupt waits for an answer")]
    NoInterrupt,
    /// The interrupt was answered before; the first answer counts.
    #[error("the interrupt was answered before")]
    InterruptAnswered,
    /// The interrupt's time to answer has passed.
    #[error("the interrupt has expired")]
    InterruptExpired,
    /// The node no longer waits for the answer.
    #[error("the run no longer waits for this answer")]
    InterruptGone,
    /// The answer does not fit the question.
    #[error("the answer does not fit the question: {what}")]
    InvalidAnswer {
        /// Message for people. Never contains the answer, which may be secret.
        what: String,
    },
    /// The decision at a governance gate is invalid.
    #[error("the decision cannot be read: {what}")]
    InvalidDecision {
        /// Message for people. Never contains the answer, which may be secret.
        what: String,
    },
    /// The event's correlation differs from the expected one.
    #[error("the event does not match the awaited correlation")]
    CorrelationMismatch,
    /// The voter has already cast another vote.
    #[error("this voter has already voted")]
    AlreadyVoted,
    /// The caller is not an approver of the gate.
    #[error("only the approvers of this gate may answer it")]
    NotAnApprover,
    /// Only an authenticated person may answer.
    #[error("this gate needs an answer by a signed-in person")]
    AuthRequired,
    /// The signal or outbox message was received before. Its sender may drop it.
    #[error("the message was received before")]
    Duplicate,
    /// Too many signals are in the inbox.
    #[error("too many signals wait to be consumed")]
    InboxFull,
    /// The budget does not allow it.
    #[error("the budget for {dimension} is {limit}, and {observed} would be committed")]
    BudgetExhausted {
        /// The dimension.
        dimension: String,
        /// The amount that would be committed.
        observed: u64,
        /// The limit.
        limit: u64,
    },
    /// The budget may allow it after others have returned unused reservations.
    #[error("the rest of the budget is reserved by other steps; try again when they have ended")]
    BudgetHeld,
    /// No such child run was started, or it has already ended.
    #[error("the run does not wait for such a child run")]
    NoChild,
    /// A newer engine has decided on the run.
    #[error(
        "the run was written by engine version {wrote}; this engine knows the rules up to {}",
        crate::ENGINE_VERSIONS.end()
    )]
    NewerEngine {
        /// The engine version that decided on it.
        wrote: u32,
    },
    /// A replay repeats its source's records. The door rejects outside commands with it; the
    /// source's commands are decided like in any run.
    #[error("the run is a replay: it repeats its source and takes no commands")]
    Replay,
}

impl Rejection {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unborn => "run_not_found",
            Self::Existing => "run_exists",
            Self::Settled { .. } => "run_terminal",
            Self::InvalidInputs(_) => "validation_error",
            Self::Unmet { unmet } => unmet.code,
            Self::TooLarge { .. } => "too_large",
            Self::StaleAttempt => "stale_attempt",
            Self::Idle => "nothing_to_do",
            Self::NotDue => "timer_not_due",
            Self::AlreadyPaused => "already_paused",
            Self::AlreadyDraining => "already_draining",
            Self::NotPaused => "not_paused",
            Self::Stopping => "run_stopping",
            Self::NoInterrupt => "interrupt_not_found",
            Self::InterruptAnswered => "interrupt_already_resolved",
            Self::InterruptExpired => "interrupt_expired",
            Self::InterruptGone => "interrupt_gone",
            Self::InvalidAnswer { .. } => "invalid_resume_value",
            // The protocol's own spelling, capitals included.
            Self::InvalidDecision { .. } => "INVALID_RESUME_VALUE",
            Self::CorrelationMismatch => "correlation_mismatch",
            Self::AlreadyVoted => "already_voted",
            Self::NotAnApprover => "not_an_approver",
            Self::AuthRequired => "auth_elevation_required",
            Self::Duplicate => "duplicate",
            Self::InboxFull => "inbox_full",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::BudgetHeld => "budget_held",
            Self::NoChild => "child_not_found",
            Self::NewerEngine { .. } => "engine_version_mismatch",
            Self::Replay => "run_is_replay",
        }
    }
}
