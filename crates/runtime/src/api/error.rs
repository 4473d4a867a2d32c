//! Why the API did not do what was asked.

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

/// Why what a node said is shown to nobody.
pub const HIDDEN: &str = "the workflow declares what this node says sensitive, and this is what it \
                          said; the steps that are given it see it";

/// What somebody asked for that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
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
}

impl Thing {
    fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Workflow => "workflow",
            Self::Artifact => "artifact",
            Self::Webhook => "webhook",
            Self::Interrupt => "interrupt",
            Self::Trail => "audit trail",
            Self::Queue => "queue",
        }
    }
}

/// Why the API did not do what was asked. Nothing was written, except where a store error says
/// that nobody knows.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The caller's credential does not reach so far.
    #[error("the credential lacks the scope {needs}")]
    Scope {
        /// The scope that is missing.
        needs: Scope,
    },
    /// The caller named a tenant or workspace that is not theirs.
    #[error("the tenant or scope is not that of the credential")]
    NotTheirs,
    /// Not there, or behind a wall: both look the same.
    #[error("there is no such {}", .0.word())]
    NotFound(Thing),
    /// It is there, and its workflow hides it from every reader.
    #[error("{HIDDEN}")]
    Hidden,
    /// It was there and has been erased.
    #[error("the run was erased")]
    Erased {
        /// What is left of it.
        grave: Box<Tombstone>,
    },
    /// A browser app executes the run and saves what it did.
    #[error("a browser app executes this run")]
    ReadOnly,
    /// The rules of documents refuse it.
    #[error(transparent)]
    Document(#[from] DocumentRejection),
    /// There is as much of it as there may be.
    #[error("there are as many {what} as there may be")]
    Full {
        /// Of what.
        what: &'static str,
    },
    /// What was given does not fit.
    #[error("{what} cannot be used")]
    Invalid {
        /// What.
        what: &'static str,
        /// Everything that is wrong with it.
        problems: Problems,
    },
    /// The workflow needs a node type this engine does not have.
    #[error("the workflow needs a node type that this engine does not have")]
    UnknownType {
        /// The node.
        node: String,
        /// Its type.
        type_id: String,
    },
    /// A part of the protocol that this engine does not have.
    #[error("this engine does not provide {capability}")]
    NotProvided {
        /// The capability.
        capability: &'static str,
    },
    /// A test provider was asked for, where keys are not for tests.
    #[error("test providers are for test keys only")]
    TestsOnly,
    /// A test provider was asked for that there is not.
    #[error("there is no such test provider")]
    UnknownTestProvider,
    /// Another engine version was asked for, where keys are not for tests.
    #[error("engine versions are chosen with test keys only")]
    EngineForTestsOnly,
    /// This engine does not know the rules of the version asked for.
    #[error("this engine does not know the rules of that version")]
    NoSuchEngine,
    /// Another run of the same workflow is active.
    #[error("a run of this workflow is active")]
    Active {
        /// The run.
        run: StreamId,
    },
    /// The run is not in a state for this.
    #[error(transparent)]
    NotNow(Box<NotNow>),
    /// The question went with its run, which somebody cancelled.
    #[error("the run was cancelled, and its questions with it")]
    InterruptCancelled,
    /// The token has expired.
    #[error("the token has expired; ask for a new one")]
    TokenExpired,
    /// An answer by token names somebody else than the token is of.
    #[error("an answer by token is that of the token's subject, and this one names somebody else")]
    NotTheSubject,
    /// The token allows only to look.
    #[error("this token is for looking only")]
    InspectOnly,
    /// The node asks nobody anything: a worker of a queue does its work.
    #[error("the node waits for a worker of the queue {queue}, not for an answer; {BY_HAND}")]
    AwaitsWorker {
        /// The queue.
        queue: String,
    },
    /// The idempotency key came with another request before.
    #[error("the idempotency key was used for another request")]
    KeyMismatch,
    /// The request with the same idempotency key is not done yet.
    #[error("the first request with this idempotency key is still under way")]
    KeyInFlight,
    /// The address is no webhook's.
    #[error("the webhook is refused: {0}")]
    WebhookAddress(BadAddress),
    /// The endpoint did not say that it wants deliveries.
    #[error("the endpoint did not answer the verification request with its challenge")]
    WebhookUnverified,
    /// What was given for a webhook does not fit.
    #[error("{0}")]
    WebhookInvalid(&'static str),
    /// The rules of a registry refuse it.
    #[error(transparent)]
    Registry(registry::Rejection),
    /// The rules refuse it.
    #[error(transparent)]
    Rejected(Rejection),
    /// The rules of a coordinator refuse it.
    #[error(transparent)]
    Coordinator(coordinator::Rejection),
    /// The run cannot be forked there.
    #[error(transparent)]
    Fork(ForkError),
    /// The definition may not run programs.
    #[error(transparent)]
    Programs(#[from] crate::programs::Refused),
    /// The store.
    #[error(transparent)]
    Store(StoreError),
}

/// What to do about a task that no worker will do.
pub const BY_HAND: &str = "start a worker, or settle the task by a command to the queue \
                           (docs/guide/workers.md, By hand)";

/// What a run's state does not allow.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{rejection}")]
pub struct NotNow {
    /// Why.
    pub rejection: Rejection,
    /// The run's status.
    pub status: RunStatus,
    /// Since when it is paused, if it is.
    pub paused_at: Option<Timestamp>,
}

impl ApiError {
    /// What a wall or a missing scope looks like to somebody who asked for a thing.
    pub(super) fn denied(denied: Denied, thing: Thing) -> Self {
        match denied {
            Denied::NotFound => Self::NotFound(thing),
            Denied::Scope { needs } => Self::Scope { needs },
        }
    }
}

impl ApiError {
    /// Whether a question takes no answer because it has one.
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
            // Keys are claimed by creations and commands that look at them first.
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
                Self::NotFound(Thing::Webhook)
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
