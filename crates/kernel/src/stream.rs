//! Stream headers: the immutable facts of a log.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{NodeId, Seq, StreamId, TenantId, WorkflowId};
use crate::json;
use crate::json::is_default;
use crate::time::Timestamp;
use crate::trace::{TraceContext, run_span};

/// The version of the event format this build writes.
pub const FORMAT_VERSION: u32 = 1;

/// The major of OpenWOP that a webhook was registered in, and is served in for its lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookContract {
    /// OpenWOP 1.
    #[default]
    V1,
    /// OpenWOP 2.
    V2,
}

impl WebhookContract {
    pub(crate) fn is_first(&self) -> bool {
        *self == Self::V1
    }
}

crate::words! {
    /// The kind of a stream.
    pub enum StreamKind {
        /// One run of a workflow.
        Run = "run",
        /// A workbench document and its saves.
        Document = "document",
        /// An authority lease and a dispatch backlog.
        Coordinator = "coordinator",
        /// Actions on a tenant's resources, and their actors.
        Audit = "audit",
        /// Workflows, keys, webhooks of a tenant.
        Registry = "registry",
        /// Additions to a settled run.
        Notes = "notes",
        /// The progress of a webhook's deliveries.
        Deliveries = "deliveries",
    }
}

/// The owner of a stream, in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The tenant.
    pub tenant: TenantId,
    /// A part of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The acting principal; opaque, never personal data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The issuer of the principal's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

impl Owner {
    /// An owner that is a tenant without a workspace.
    pub fn tenant(tenant: impl Into<TenantId>) -> Self {
        Self {
            tenant: tenant.into(),
            workspace: None,
            principal: None,
            issuer: None,
        }
    }
}

/// The origin of a definition. It decides whether the definition may run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PutBy {
    /// A tenant, over the API.
    #[default]
    Tenant,
    /// The operator of the server: from the command line, or from the folders it serves.
    Operator,
}

impl PutBy {
    fn is_tenant(&self) -> bool {
        *self == Self::Tenant
    }
}

/// The definition of a run. The document is in the blob store under its digest, so that putting a
/// workflow again never changes an existing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionRef {
    /// The workflow's id.
    pub workflow: WorkflowId,
    /// The version stated in the document.
    pub version: String,
    /// The digest of the document's canonical JSON, under the owner's tenant.
    pub digest: Digest,
    /// Who put it; the tenant if the log does not name it.
    #[serde(default, skip_serializing_if = "PutBy::is_tenant")]
    pub put_by: PutBy,
}

/// How a fork relates to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// Recorded outcomes are reused and nothing outside is touched.
    Replay,
    /// A fresh execution from the fork point.
    Branch,
}

/// Where a fork comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The run that was forked.
    pub source: StreamId,
    /// Events below this sequence were copied.
    pub seq: Seq,
    /// Replay or branch.
    pub mode: ForkMode,
    /// The run whose id derived ids are made from: for a replay the source's root, for a branch the
    /// fork itself.
    pub root: StreamId,
}

/// The node of another run that started this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent run.
    pub run: StreamId,
    /// The node that started this run.
    pub node: NodeId,
    /// The visit of that node.
    pub visit: u32,
    /// The number of ancestors of this run.
    pub depth: u32,
}

/// The creator's settings for driving a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Policy {
    /// The queue whose workers drive this run.
    pub queue: String,
    /// Greater priorities go first within a queue.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: i32,
    /// At most one run with the same key (per tenant) is held at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// Attempts of this run that may be in flight at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Node executions before `cap.breached` (`recursionLimit`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_executions: Option<u64>,
    /// Milliseconds from creation before the run fails with `run_timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// Rounds of any loop before the run fails with `loop_limit_exceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_loop_iterations: Option<u32>,
    /// The contract of a coordinator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// Maximum spending of the run, by dimension; other dimensions are unlimited.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub budget: BTreeMap<String, u64>,
    /// Whether the budget is only a part of the parent's: a call has to fit into it, as far as that
    /// can be estimated. At most one of several concurrent runs may exceed the whole.
    #[serde(skip_serializing_if = "is_default")]
    pub part_of_budget: bool,
    /// Where notices of the run's questions go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_notices: Option<QuestionNotices>,
}

/// The address that receives a notice of each question of a run and of its child runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionNotices {
    /// The address.
    pub url: String,
    /// The major of the protocol that notices are in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contract: WebhookContract,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            queue: "default".into(),
            priority: 0,
            concurrency_key: None,
            max_parallel: None,
            max_node_executions: None,
            run_timeout_ms: None,
            max_loop_iterations: None,
            contract: None,
            budget: BTreeMap::new(),
            part_of_budget: false,
            question_notices: None,
        }
    }
}

/// The link from a rolled-over stream to its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predecessor {
    /// The earlier part of the log.
    pub stream: StreamId,
    /// Its last chain value.
    pub chain: Digest,
}

/// The immutable header of a stream, written with its first batch and part of the fold's input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct StreamHeader {
    pub stream: StreamId,
    pub kind: StreamKind,
    pub owner: Owner,
    /// The event format its events were written in.
    pub format: u32,
    /// The engine version whose rules decide the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<u32>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The definition of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRef>,
    /// Where a fork comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Who started a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The span that a run continues in: its creator's, or that of the node which started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// How it is driven.
    #[serde(default)]
    pub policy: Policy,
    /// `chain[-1]`. A fork keeps its source's, so that the copied prefix verifies.
    pub genesis: Digest,
    /// The earlier part of a log that rolled over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<Predecessor>,
    /// A random text that distinguishes this run from a run of the same id in another store.
    /// Required when the id was not drawn at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

impl StreamHeader {
    /// The header of a new stream. Seal its genesis once everything else is set.
    pub fn new(stream: StreamId, kind: StreamKind, owner: Owner, created_at: Timestamp) -> Self {
        Self {
            stream,
            kind,
            owner,
            format: FORMAT_VERSION,
            engine_version: None,
            created_at,
            definition: None,
            origin: None,
            parent: None,
            trace: None,
            policy: Policy::default(),
            genesis: Digest([0; 32]),
            predecessor: None,
            nonce: None,
        }
    }

    /// The origin of attempt keys: the root run, and the nonce if there is one.
    pub fn key_origin(&self) -> Cow<'_, StreamId> {
        match &self.nonce {
            None => Cow::Borrowed(self.root()),
            Some(nonce) => Cow::Owned(StreamId::new(format!("{}@{nonce}", self.root()))),
        }
    }

    /// The run whose id derived ids are made from.
    pub fn root(&self) -> &StreamId {
        self.origin
            .as_ref()
            .map_or(&self.stream, |origin| &origin.root)
    }

    /// The span of the run: within the trace of the header, else in a trace that begins with it.
    pub fn span_context(&self) -> TraceContext {
        match &self.trace {
            Some(context) => context.within(run_span(&self.stream)),
            None => TraceContext::named_after(&self.stream),
        }
    }

    /// The tenant that owns the stream.
    pub fn tenant(&self) -> &TenantId {
        &self.owner.tenant
    }

    /// The genesis of a stream that is not a fork: a digest of the header without the stream's id.
    pub fn seal_genesis(mut self) -> Self {
        let mut value = serde_json::to_value(&self).expect("a header is always JSON");
        let object = value.as_object_mut().expect("a header is an object");
        object.remove("stream");
        object.remove("genesis");
        self.genesis = Digest::compute(&json::canonical(&value));
        self
    }
}

/// The rules of a coordinator, fixed in the header of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contract {
    /// Leases expire and can then be taken over. Without a live authority no task is assigned. A
    /// request can only fail after its target was notified.
    #[default]
    Native,
    /// The behaviour of the published program: leases expire only if the caller enforces them, and
    /// any pending request may fail.
    Published,
}

impl std::fmt::Display for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Published => "published",
        })
    }
}
