//! The command API: operations on runs and workflows, with authorisation.
//!
//! Every face over HTTP, the console among them, calls these methods, so that authorisation is
//! decided once: each method begins with [`authorise`](crate::access::authorise). The command line
//! on a store of its own has no principal; it calls the engine and the door.
//!
//! **Architecture invariant:** this module knows no wire format. Inputs are checked for their
//! meaning, and results are the kernel's own types.

mod answered;
mod artifacts;
mod audit;
mod bundle;
mod cancel;
mod changes;
mod coordinator;
mod create;
mod dead_letters;
mod documents;
mod effects;
mod error;
mod expiry;
mod follow;
mod follow_notes;
mod fork;
mod idempotency;
mod interrupt_token;
mod interrupts;
mod keys;
mod list;
mod notes;
mod open_questions;
mod options;
mod outside;
mod pause;
mod programs;
mod question_notices;
mod read;
mod read_token;
mod session;
mod task_output;
mod webhooks;
mod workflows;

pub use crate::engine::maintenance::Expired;
pub use crate::tail::{LogPage, Tail};
pub use answered::Bearer;
pub use artifacts::ArtifactBytes;
pub use audit::Verified;
pub use bundle::BundledRun;
pub use cancel::CancelledOne;
pub use changes::{ChangedRuns, RunChanges};
pub use coordinator::{
    Assignment, Heartbeat, QueueEvents, QueueWatch, Reported, SeenWorker, Taking, Workers,
};
pub use create::{CreateRunRequest, Created, DuplicateRuns};
pub use dead_letters::DeadLetterPage;
pub use documents::{
    Cascade, DocumentError, DocumentFilter, DocumentPage, DocumentSave, DocumentTail,
    DocumentViewTail, Held, Outcome,
};
pub use error::{ApiError, BY_HAND, HIDDEN, NotNow, ResourceKind};
pub use expiry::ExpiryToken;
pub use follow_notes::NotesTail;
pub use fork::{ForkRequest, ForkedRun, Lineage};
pub use idempotency::{
    ACK_TIMEOUT, Effect, Finish, IdempotencyState, InProgress, KeptAnswer, KeyedBy, Replayed,
};
pub use interrupt_token::{InterruptToken, TokenScope};
pub use interrupts::{Question, ShownToken, TokenOrder};
pub use list::{RunCounts, RunFilter, RunPage};
pub use notes::NewAnnotation;
pub use open_questions::{Asking, QuestionFilter, QuestionPage};
pub use outside::TakenEvent;
pub(crate) use question_notices::{open_question, owner_token};
pub use read::Version;
pub use read_token::ReadToken;
pub use session::{SESSION_LIFE, Session};
pub use task_output::TaskOutput;
pub use webhooks::{DeliveryReport, NewWebhook, RegisteredWebhook, Rotated};
pub use workflows::{CheckedWorkflow, Described, Registered};

use std::sync::Arc;

use kernel::document::Audited;

use crate::door::Door;
use crate::engine::Engine;
use crate::webhooks::{Reach, Webhooks};
use options::Schemas;

/// The command API over the engine of this process.
#[derive(Clone)]
pub struct Api {
    engine: Engine,
    schemas: Arc<Schemas>,
    /// Locked from the search for an active run of the same kind to the creation of this one.
    duplicate_runs: Arc<tokio::sync::Mutex<()>>,
    webhooks: Webhooks,
    documents: Arc<documents::Cache>,
    recent_feed: Arc<changes::RecentFeed>,
    document_audit: Audited,
    /// Whether runs may use the test provider instead of a model.
    test_provider: bool,
    /// The token that ends the retention of runs.
    expiry: Option<ExpiryToken>,
}

impl Api {
    /// The API of an engine. An engine that is not started can be read.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            schemas: Arc::default(),
            duplicate_runs: Arc::default(),
            webhooks: Webhooks::new(Reach::Public),
            documents: Arc::default(),
            recent_feed: Arc::default(),
            document_audit: Audited::default(),
            test_provider: false,
            expiry: None,
        }
    }

    /// The same with other webhook settings.
    pub fn with_webhooks(self, webhooks: Webhooks) -> Self {
        Self { webhooks, ..self }
    }

    /// The same where every key is a test key: runs may use the test provider instead of a model.
    pub fn with_test_provider(self, test_provider: bool) -> Self {
        Self {
            test_provider,
            ..self
        }
    }

    /// The same with the document actions that audit trails record.
    pub fn with_document_audit(self, document_audit: Audited) -> Self {
        Self {
            document_audit,
            ..self
        }
    }

    /// Whether runs may use the test provider.
    pub fn has_test_provider(&self) -> bool {
        self.test_provider
    }

    /// The shared webhook service of this process.
    pub fn webhook_service(&self) -> &Webhooks {
        &self.webhooks
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn door(&self) -> &Door {
        self.engine.door()
    }
}
