//! Stream headers: what is said once about a log and never changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::coordinator::Contract;
use crate::digest::Digest;
use crate::ids::{NodeId, Seq, StreamId, TenantId, WorkflowId};
use crate::json;
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// The version of the event format this build writes.
pub const FORMAT_VERSION: u32 = 1;

/// What a stream is the log of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamKind {
    /// One run of a workflow.
    Run,
    /// A workbench document and its saves.
    Document,
    /// An authority lease and a dispatch backlog.
    Coordinator,
    /// What was done to a tenant's resources, and by whom.
    Audit,
    /// Workflows, keys, webhooks of a tenant.
    Registry,
    /// What may still be said about a settled run.
    Notes,
    /// How far a webhook's deliveries have come.
    Deliveries,
}

impl StreamKind {
    /// The stable name, as stores keep it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Document => "document",
            Self::Coordinator => "coordinator",
            Self::Audit => "audit",
            Self::Registry => "registry",
            Self::Notes => "notes",
            Self::Deliveries => "deliveries",
        }
    }
}

/// Who a stream belongs to, in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The wall.
    pub tenant: TenantId,
    /// A part of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Who acted; opaque, never personal data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Who vouches for the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

impl Owner {
    /// An owner that is a tenant and nothing finer.
    pub fn tenant(tenant: impl Into<TenantId>) -> Self {
        Self {
            tenant: tenant.into(),
            workspace: None,
            principal: None,
            issuer: None,
        }
    }
}

/// Who put a definition into the store. It decides whether the definition may run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PutBy {
    /// A tenant, over the API.
    #[default]
    Tenant,
    /// Whoever runs the server: from the command line, or from the folders it serves.
    Operator,
}

impl PutBy {
    fn is_tenant(&self) -> bool {
        *self == Self::Tenant
    }
}

/// Which definition a run runs. The document lies in the blob store under its digest, so that
/// putting a workflow again never changes an existing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionRef {
    /// The workflow's id.
    pub workflow: WorkflowId,
    /// The version the document claims.
    pub version: String,
    /// The digest of the document's canonical JSON, under the owner's tenant.
    pub digest: Digest,
    /// Who put it; a log that does not say it means the tenant.
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
    /// The run whose id derived ids are made from: for a replay the source's own root, for a
    /// branch the fork itself.
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
    /// How many runs stand above this one.
    pub depth: u32,
}

/// What the creator of a stream settled about how it is driven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Policy {
    /// The queue whose workers drive this run.
    pub queue: String,
    /// Higher goes first within a queue.
    #[serde(skip_serializing_if = "is_zero")]
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
    /// Which rules a coordinator keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// What the run may spend, by dimension; a dimension not named is unbounded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub budget: BTreeMap<String, u64>,
    /// Whether the budget is only a part of the parent's: a call has to fit into it, as far as
    /// that can be estimated. Of runs at the same time no more than one may go over the whole.
    #[serde(skip_serializing_if = "is_false")]
    pub part_of_budget: bool,
}

fn is_false(is: &bool) -> bool {
    !*is
}

fn is_zero(n: &i32) -> bool {
    *n == 0
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
pub struct StreamHeader {
    /// This stream.
    pub stream: StreamId,
    /// What it is the log of.
    pub kind: StreamKind,
    /// Whose it is.
    pub owner: Owner,
    /// The event format its events were written in.
    pub format: u32,
    /// The engine by whose rules a run is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<u32>,
    /// When it was created.
    pub created_at: Timestamp,
    /// What a run runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRef>,
    /// Where a fork comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Who started a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The span that a run goes on in: its creator's, or that of the node which started it.
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
    /// A random text that tells this run from a run of the same id in another store. A run needs
    /// one when its id was not drawn at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

impl StreamHeader {
    /// What the keys of attempts are made from: the root run, and the nonce where there is one.
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

    /// The tenant that owns the stream.
    pub fn tenant(&self) -> &TenantId {
        &self.owner.tenant
    }

    /// The genesis of a stream that is not a fork: a digest over everything the header says
    /// except the stream's id.
    pub fn seal_genesis(mut self) -> Self {
        let mut value = serde_json::to_value(&self).expect("a header is always JSON");
        let object = value.as_object_mut().expect("a header is an object");
        object.remove("stream");
        object.remove("genesis");
        self.genesis = Digest::of(&json::canonical(&value));
        self
    }
}
