//! Errors of the API.

use kernel::coordinator;
use kernel::document::DocumentRejection;
use kernel::fork::ForkError;
use kernel::ids::StreamId;
use kernel::problem::Problems;
use kernel::registry;
use kernel::run::Rejection;
use kernel::run::RunStatus;
use kernel::time::Timestamp;
use store::{StoreError, Tombstone};

use crate::access::{Denied, Scope};
use crate::door::{CoordinatorError, DoorError, ForkFailed, RegistryError};
use crate::plans::PlanError;
use crate::webhooks::BadAddress;

/// Why a node's output is hidden from every reader.
pub const HIDDEN: &str = "hidden: the workflow declares the output of this node sensitive; only \
                          steps that receive it can read it";

/// The kind of a resource that was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A run.
    Run,
    /// A workflow.
    Workflow,
    /// A webhook.
    Webhook,
    /// A question of a run.
    Interrupt,
    /// An audit trail.
    Trail,
    /// An artifact of a run.
    Artifact,
    /// A queue.
    Queue,
    /// An API key.
    Key,
}

impl ResourceKind {
    fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Workflow => "workflow",
            Self::Artifact => "artifact",
            Self::Webhook => "webhook",
            Self::Interrupt => "interrupt",
            Self::Trail => "audit trail",
            Self::Queue => "queue",
            Self::Key => "key",
        }
    }
}

/// Why a request failed. Nothing was written, except where a store error leaves that unknown.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum ApiError {
    /// The credential lacks a scope.
    #[error("the credential lacks the scope {needs}")]
    Scope {
        /// The scope that is missing.
        needs: Scope,
    },
    /// The request names a tenant or workspace other than the caller's.
    #[error("the tenant or scope differs from the credential's")]
    NotTheirs,
    /// Missing, or not visible to the caller: the two are indistinguishable.
    #[error("unknown {}", .0.word())]
    NotFound(ResourceKind),
    /// It exists, but its workflow hides it from every reader.
    #[error("{HIDDEN}")]
    Hidden,
    /// It was erased.
    #[error("the run was erased")]
    Erased { grave: Box<Tombstone> },
    /// A browser app executes the run and saves its results.
    #[error("a browser app executes this run")]
    ReadOnly,
    /// Rejected by the rules of documents.
    #[error(transparent)]
    Document(#[from] DocumentRejection),
    /// A limit is reached.
    #[error("there are already the most {what} allowed")]
    Full {
        /// The limited resource.
        what: &'static str,
    },
    /// The input is invalid.
    #[error("{what} cannot be used")]
    Invalid {
        /// The invalid input.
        what: &'static str,
        /// All problems of the input.
        problems: Problems,
    },
    /// The workflow needs a node type this engine does not have.
    #[error("the workflow needs a node type that this engine does not have")]
    UnknownType { node: String, type_id: String },
    /// The engine does not support this part of the protocol.
    #[error("this engine does not provide {capability}")]
    NotProvided { capability: &'static str },
    /// A test provider was requested without a test key.
    #[error("test providers are for test keys only")]
    TestsOnly,
    /// The requested test provider does not exist.
    #[error("unknown test provider")]
    UnknownTestProvider,
    /// An engine version was requested without a test key.
    #[error("engine versions are chosen with test keys only")]
    EngineForTestsOnly,
    /// The engine does not know the rules of the requested version.
    #[error("this engine does not know the rules of that version")]
    NoSuchEngine,
    /// Another run of the same workflow is active.
    #[error("a run of this workflow is active")]
    Active { run: StreamId },
    /// The run's state does not allow it.
    #[error(transparent)]
    NotNow(Box<NotNow>),
    /// The question ended because its run was cancelled.
    #[error("the run was cancelled, and its questions with it")]
    InterruptCancelled,
    /// The token has expired.
    #[error("the token has expired; request a new one")]
    TokenExpired,
    /// An answer by token names a person other than the token's subject.
    #[error(
        "an answer by token is an answer of the token's subject, but this one names another \
             person"
    )]
    NotTheSubject,
    /// The token allows inspection only.
    #[error("this token can only read")]
    InspectOnly,
    /// The node waits for a worker of a queue, not for an answer.
    #[error("the node waits for a worker of the queue {queue}, not for an answer; {BY_HAND}")]
    AwaitsWorker { queue: String },
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used for another request")]
    KeyMismatch,
    /// The first request with the same idempotency key is still in progress.
    #[error("the first request with this idempotency key is still in progress")]
    KeyInFlight,
    /// The address is not allowed for webhooks.
    #[error("the webhook is refused: {0}")]
    WebhookAddress(BadAddress),
    /// The address is not allowed for notices of a run's questions.
    #[error("the callbackUrl is refused: {0}")]
    NoticeAddress(BadAddress),
    /// The endpoint failed the verification challenge.
    #[error("the endpoint did not answer the verification request with its challenge")]
    WebhookUnverified,
    /// The webhook's input is invalid.
    #[error("{0}")]
    WebhookInvalid(&'static str),
    /// Rejected by the rules of a registry.
    #[error(transparent)]
    Registry(registry::Rejection),
    /// Rejected by the rules of runs.
    #[error(transparent)]
    Rejected(Rejection),
    /// Rejected by the rules of a coordinator.
    #[error(transparent)]
    Coordinator(coordinator::Rejection),
    /// The run cannot be forked there.
    #[error(transparent)]
    Fork(ForkError),
    /// The definition may not run programs.
    #[error(transparent)]
    Programs(#[from] crate::programs::Refused),
    /// A store error.
    #[error(transparent)]
    Store(StoreError),
}

/// The remedy for a task without a worker.
pub const BY_HAND: &str = "start a worker, or settle the task by a command to the queue \
                           (docs/reference/workers.md, By hand)";

/// A command that the run's state does not allow.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{rejection}")]
pub struct NotNow {
    /// The reason.
    pub rejection: Rejection,
    /// The run's status.
    pub status: RunStatus,
    /// When it was paused, if it is paused.
    pub paused_at: Option<Timestamp>,
}

impl ApiError {
    /// The error for a denied action.
    pub(super) fn denied(denied: Denied, thing: ResourceKind) -> Self {
        match denied {
            Denied::NotFound => Self::NotFound(thing),
            Denied::Scope { needs } => Self::Scope { needs },
        }
    }
}

impl ApiError {
    /// Whether the question was already answered.
    pub fn is_answered(&self) -> bool {
        matches!(self, Self::Rejected(Rejection::InterruptAnswered))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<DoorError> for ApiError {
    fn from(error: DoorError) -> Self {
        match error {
            DoorError::Rejected(Rejection::InvalidInputs(problems)) => Self::Invalid {
                what: "inputs",
                problems,
            },
            DoorError::Rejected(rejection) => Self::Rejected(rejection),
            // Creations and commands claim keys only after they looked them up.
            DoorError::KeyTaken { .. } => Self::KeyInFlight,
            DoorError::Store(error) => Self::Store(error),
        }
    }
}

impl From<CoordinatorError> for ApiError {
    fn from(error: CoordinatorError) -> Self {
        match error {
            CoordinatorError::Rejected(rejection) => Self::Coordinator(rejection),
            CoordinatorError::Store(error) => Self::Store(error),
        }
    }
}

impl From<ForkFailed> for ApiError {
    fn from(failed: ForkFailed) -> Self {
        match failed {
            ForkFailed::Refused(ForkError::Rejected(rejection)) => Self::Rejected(rejection),
            ForkFailed::Refused(refused) => Self::Fork(refused),
            ForkFailed::Door(error) => error.into(),
        }
    }
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Rejected(registry::Rejection::UnknownWebhook) => {
                Self::NotFound(ResourceKind::Webhook)
            }
            RegistryError::Rejected(rejection) => Self::Registry(rejection),
            RegistryError::Store(error) => Self::Store(error),
        }
    }
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Invalid(problems) => Self::Invalid {
                what: "workflow",
                problems,
            },
            PlanError::VersionTaken => Self::Registry(registry::Rejection::VersionTaken),
            PlanError::Store(error) => Self::Store(error),
        }
    }
}
