//! The events of a run stream, as they are stored.
//!
//! One stored event is one event on the OpenWOP wire with the same sequence; the tags here are
//! the storage's own and stable, the faces render them. What OpenWOP has no word for carries the
//! vendor prefix `runwright.`. Changing this file is a change of the event format: see
//! `docs/design/event-format.md`, which quotes its hash.

mod parts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AttemptId, InterruptId, NodeId, Seq, StreamId, WorkflowId};
use crate::run::cause::Cause;
use crate::run::report::{
    EnvelopeCoerced, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried, EnvelopeTruncated,
    EnvelopesExhausted, PromptComposed, ToolCalled, ToolReturned,
};
use crate::stream::DefinitionRef;
use crate::time::Timestamp;

pub use parts::{
    ApprovalAction, Artifact, CapKind, ChainPhase, ChildStatus, Doubt, JoinOutcome, OutputChannel,
    Usage, Vote,
};

/// An event with its place and time. Run id and event id are not stored: they follow from the
/// stream and the sequence, and a copied prefix hashes the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided; never before its predecessor.
    pub at: Timestamp,
    /// The command behind it, on the first event of a batch only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What happened.
    #[serde(flatten)]
    pub body: RunEvent,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeError {
    /// Stable, snake_case, for programs.
    pub code: String,
    /// For a person: what went wrong and what to do.
    pub message: String,
    /// More, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// `false` where trying again cannot help. Absent means: may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The host lacks what the node needs (a provider, a secret). Once somebody has provided it,
    /// another attempt can succeed, so the failure is never final by itself.
    #[serde(
        default,
        rename = "hostLacks",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub host_lacks: bool,
}

impl NodeError {
    /// An error by code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: None,
            retryable: None,
            host_lacks: false,
        }
    }

    /// The same error, marked as one that trying again cannot help.
    pub fn fatal(mut self) -> Self {
        self.retryable = Some(false);
        self
    }

    /// The same error, marked as one that only the host's operator can mend.
    pub fn lacking(mut self) -> Self {
        self.host_lacks = true;
        self.fatal()
    }

    /// The same error with details.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// How a pause treats what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// Abandon it; it starts over as a new attempt after the resume.
    Immediate,
    /// Let it finish and start nothing new.
    DrainCurrentNode,
}

/// What happened. The tags are stable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
pub enum RunEvent {
    /// Sequence 0 of every run: it was asked for.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The workflow.
        workflow_id: WorkflowId,
        /// Inputs as given, redacted; sensitive values are sealed references.
        inputs: Map<String, Value>,
        /// Inputs and defaults bound to the declared variables.
        variables: Map<String, Value>,
        /// Which face it came in by (`rest`, `cli`, …).
        transport: String,
        /// The engine that created it.
        engine_version: u32,
        /// Caller's tags.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<String>,
        /// Caller's metadata.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
        /// Caller's overlay of settings.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        configurable: Map<String, Value>,
    },
    /// Every node settled and none failed unhandled.
    #[serde(rename = "run.completed")]
    RunCompleted {
        /// What the run gives back.
        outputs: Map<String, Value>,
        /// Milliseconds since `run.started`.
        duration_ms: u64,
    },
    /// The run ended in an error.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// The error.
        error: NodeError,
        /// The node it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed_node_id: Option<NodeId>,
        /// Milliseconds since `run.started`.
        duration_ms: u64,
    },
    /// The run was cancelled and everything it had started has stopped.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<String>,
        /// The parent whose cancellation cascaded here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<StreamId>,
        /// Milliseconds since `run.started`.
        duration_ms: u64,
    },
    /// The run must end, but attempts in flight have to be stopped first.
    #[serde(rename = "runwright.run.stopping")]
    RunStopping {
        /// What it ends as once nothing is in flight.
        ending: Ending,
    },
    /// A draining pause was asked for while attempts were in flight.
    #[serde(rename = "runwright.run.draining")]
    RunDraining {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nothing new starts until `run.resumed`.
    #[serde(rename = "run.paused")]
    RunPaused {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What became of what was in flight.
        drain_policy: DrainPolicy,
    },
    /// A pause ended.
    #[serde(rename = "run.resumed")]
    RunResumed {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another holder took the run over and found attempts in flight.
    #[serde(rename = "run.resuming")]
    RunResuming {
        /// The status it was found in.
        from_status: String,
    },
    /// A branch begins: the events before were copied from its source, what follows is its own.
    /// Attempts in flight, delays and children start over, all other waits go on as if no time
    /// had passed since the event before.
    #[serde(rename = "runwright.run.forked")]
    RunForked {
        /// The source.
        source_run_id: StreamId,
        /// The sequence the source was forked at.
        from_sequence: Seq,
        /// Other tags than the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
        /// Other metadata than the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        /// Another overlay of settings than the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        configurable: Option<Map<String, Value>>,
    },
    /// The run is given up and set aside for a person; `run.failed` follows.
    #[serde(rename = "run.dead_lettered")]
    RunDeadLettered {
        /// The node that exhausted its attempts.
        node_id: NodeId,
        /// Why.
        reason: String,
        /// How many attempts it had.
        attempts: u32,
    },
    /// An attempt may now begin; nothing of it happened before this was durable.
    #[serde(rename = "node.started")]
    NodeStarted {
        /// The node.
        node_id: NodeId,
        /// Its type.
        type_id: String,
        /// How often the node was entered before.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// How many attempts of this visit came before.
        attempt: u32,
        /// What its ports resolved to; later attempts of a visit use the first one's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Map<String, Value>>,
        /// When it is over by itself: a delay's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due_at: Option<Timestamp>,
        /// When it fails with `node_timeout`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_at: Option<Timestamp>,
    },
    /// An attempt that was in flight when its holder was lost starts again, with the same key.
    #[serde(rename = "runwright.attempt.restarted")]
    AttemptRestarted {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The attempt, unchanged.
        attempt: u32,
        /// How often it has been restarted, this time included.
        restarts: u32,
    },
    /// A visit of a node ended well.
    #[serde(rename = "node.completed")]
    NodeCompleted {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The attempt that succeeded.
        attempt: u32,
        /// What it gives to nodes connected to it.
        outputs: Map<String, Value>,
        /// The output port a choosing node took (`true`, `false`, `body`, `done`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// Outgoing edges that are not followed (a condition was false, or another port chosen).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        declined_edges: Vec<String>,
        /// Milliseconds since the visit's first `node.started`.
        duration_ms: u64,
    },
    /// A visit of a node ended in an error, all attempts used.
    #[serde(rename = "node.failed")]
    NodeFailed {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The last error.
        error: NodeError,
        /// How many attempts there were.
        attempts: u32,
        /// Outgoing edges that are not followed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        declined_edges: Vec<String>,
    },
    /// An attempt failed and another follows.
    #[serde(rename = "node.retried")]
    NodeRetried {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The attempt to come.
        attempt: u32,
        /// The wait before it.
        delay_ms: u64,
        /// Why the last one failed.
        last_error: NodeError,
    },
    /// A node will not run in this visit.
    #[serde(rename = "node.skipped")]
    NodeSkipped {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Why.
        reason: SkipReason,
    },
    /// A node was stopped because the run ends.
    #[serde(rename = "node.cancelled")]
    NodeCancelled {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Why.
        reason: String,
    },
    /// A node waits for somebody or something outside.
    #[serde(rename = "node.suspended")]
    NodeSuspended {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The interrupt it waits on.
        interrupt_id: InterruptId,
        /// The interrupt's kind.
        kind: String,
        /// Of a decision that was not sure enough: how sure it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        doubt: Option<Doubt>,
    },
    /// A suspended node goes on.
    #[serde(rename = "node.resumed")]
    NodeResumed {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The interrupt that was resolved.
        interrupt_id: InterruptId,
    },
    /// A node started a run of another workflow.
    #[serde(rename = "node.dispatched")]
    NodeDispatched {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The child run.
        child_run_id: StreamId,
        /// Its workflow.
        child_workflow_id: WorkflowId,
        /// The definition it runs.
        definition: DefinitionRef,
        /// The inputs it was given.
        inputs: Map<String, Value>,
        /// The part of the run's budget it was given, by dimension.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        budget: BTreeMap<String, u64>,
    },
    /// A child run ended.
    #[serde(rename = "runwright.child.settled")]
    ChildSettled {
        /// The child run.
        child_run_id: StreamId,
        /// How it ended.
        status: ChildStatus,
        /// Its variables at the end, for output mappings.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        variables: Map<String, Value>,
        /// Its outputs.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
        /// Its error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
        /// What it used of the budget it was given, by dimension.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spent: BTreeMap<String, u64>,
    },
    /// A child run told what it waits for now.
    #[serde(rename = "runwright.child.reported")]
    ChildReported {
        /// The child run.
        child_run_id: StreamId,
        /// Its status while it waits; none when it goes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// How long its log was: of two reports the later one counts.
        child_sequence: Seq,
    },
    /// An agent decided, and how sure it was.
    #[serde(rename = "agent.decided")]
    AgentDecided {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The agent.
        agent_id: String,
        /// The decision.
        decision: Value,
        /// From 0 to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
    },
    /// One agent hands the work to another.
    #[serde(rename = "agent.handoff")]
    AgentHandedOff {
        /// The node that does.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Who had the work.
        from_agent_id: String,
        /// Who has it now.
        to_agent_id: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run's orchestrator decided who goes next; carried out by what follows its node.
    #[serde(rename = "runOrchestrator.decided")]
    OrchestratorDecided {
        /// The supervisor.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The run's orchestrator.
        agent_id: String,
        /// The decision, as the protocol shapes it.
        decision: Value,
        /// How many decisions of the run there are now.
        iteration: u64,
    },
    /// A step of a dispatch node with one of its workers.
    #[serde(rename = "core.workflowChain.event")]
    ChainStepped {
        /// The dispatch node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Which step.
        phase: ChainPhase,
        /// The worker: the id of its workflow.
        worker_id: String,
        /// Its place in the decision.
        #[serde(default, skip_serializing_if = "is_zero")]
        worker: u32,
        /// Its run, once there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<StreamId>,
        /// Variables of this run that its outputs were kept in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        harvested_keys: Vec<String>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
        /// The step before it, or the decision that it carries out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follows: Option<Seq>,
    },
    /// The workers of a decision run at the same time from now on.
    #[serde(rename = "core.dispatch.fanOut")]
    FannedOut {
        /// The dispatch node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// How many workers.
        child_count: u32,
        /// How many of them at a time.
        max_concurrency: u32,
        /// When they are enough: `wait-all`, `quorum`, `first` or `race`.
        join_mode: String,
    },
    /// Workers that ran at the same time are joined.
    #[serde(rename = "core.dispatch.join")]
    Joined {
        /// The dispatch node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// How.
        join_outcome: JoinOutcome,
        /// Workers that completed.
        completed_count: u32,
        /// Workers that failed, or could not be run.
        failed_count: u32,
        /// Workers that were cancelled, those included that were not needed any more.
        cancelled_count: u32,
        /// Runs whose outputs were kept, in this order.
        merge_order: Vec<StreamId>,
    },
    /// A decision is not sure enough to be carried out; a person is asked.
    #[serde(rename = "core.workflowChain.confidence-escalated")]
    ConfidenceEscalated {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// How sure it is.
        confidence: f64,
        /// How sure it must be.
        floor: f64,
        /// The first worker it names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker_id: Option<String>,
        /// The decision.
        original_decision: Value,
        /// Where it was decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follows: Option<Seq>,
    },
    /// A supervisor would dispatch once more than the definition allows.
    #[serde(rename = "workflow.loopback-limit")]
    LoopbackLimited {
        /// The supervisor.
        node_id: NodeId,
        /// Rounds there were.
        iterations: u64,
        /// Rounds there may be.
        limit: u64,
    },
    /// Somebody or something outside is asked.
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        /// Derived id.
        interrupt_id: InterruptId,
        /// The node that asks.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// `approval`, `clarification`, `external-event`, `custom`, …
        kind: String,
        /// The key a signal resolves it by.
        key: String,
        /// How often the run has asked with this key before.
        #[serde(default, skip_serializing_if = "is_zero")]
        asked_before: u32,
        /// What is asked, shaped by the kind.
        data: Value,
        /// What an answer must look like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_schema: Option<Value>,
        /// When it expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_at: Option<Timestamp>,
    },
    /// An interrupt got its answer; the first one counts.
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The node that asked.
        node_id: NodeId,
        /// Its kind.
        kind: String,
        /// The answer.
        resume_value: Value,
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolved_by: Option<String>,
    },
    /// A gate asks people to decide; stands behind its `interrupt.requested`.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// What is to be approved.
        artifact_id: String,
        /// What kind of thing that is.
        artifact_type: String,
        /// The question in one line.
        title: String,
        /// How it may be answered.
        actions: Vec<ApprovalAction>,
        /// Who may answer. Empty means whoever may answer interrupts of the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvers_list: Vec<String>,
        /// How many must accept.
        required_approvals: u32,
    },
    /// A gate is decided; stands behind its `interrupt.resolved`, or alone when the gate timed
    /// out and fails.
    #[serde(rename = "approval.received")]
    ApprovalReceived {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// What was decided.
        action: ApprovalAction,
        /// Who decided; of several, the one whose vote closed the gate. None for a timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
        /// A remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// What is wrong, in free words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
        /// What is to be refined: `scope` and more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refine_feedback: Option<Value>,
        /// What the artifact was changed to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited_artifact_data: Option<Value>,
    },
    /// One of several people a gate needs has accepted.
    #[serde(rename = "approval.granted")]
    ApprovalGranted {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Who.
        principal: String,
        /// How many have accepted now.
        granted: u32,
        /// How many must.
        required: u32,
        /// What they answered, unless an `interrupt.resolved` says it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// One of several people a gate needs has rejected.
    #[serde(rename = "approval.rejected")]
    ApprovalRejected {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Who.
        principal: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What they answered, unless an `interrupt.resolved` says it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// Somebody decided a gate past those who should have; they have the role for it.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// Who.
        principal: String,
        /// Why.
        reason: String,
        /// What they answered, unless an `interrupt.resolved` says it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// Somebody asked back; the gate stays open.
    #[serde(rename = "runwright.approval.asked")]
    ApprovalAsked {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// What they said.
        #[serde(flatten)]
        vote: Vote,
    },
    /// A node asks for answers to questions; stands behind its `interrupt.requested`.
    #[serde(rename = "clarification.requested")]
    ClarificationRequested {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The questions: `id`, `question` and, where the answer has a shape, `schema`.
        questions: Vec<Value>,
    },
    /// Every question has its answer; stands behind its `interrupt.resolved`.
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The answers by question.
        answers: Map<String, Value>,
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
    },
    /// Something arrived by name; kept until a node asks for it.
    #[serde(rename = "runwright.signal.received")]
    SignalReceived {
        /// The name a node waits for.
        name: String,
        /// The sender's id of it: the same (name, id) counts once.
        id: String,
        /// What it carries.
        payload: Value,
    },
    /// A write to a channel: the input of the write, not the state after it.
    #[serde(rename = "channel.written")]
    ChannelWritten {
        /// The channel.
        channel: String,
        /// The write input.
        value: Value,
        /// The reducer in force.
        reducer: String,
        /// The time stamp of the write, for time-to-live.
        written_at: Timestamp,
        /// The channel's schema version in force.
        schema_version: u32,
        /// The channel forgets: its entries are kept with the time of their write.
        #[serde(default, skip_serializing_if = "is_false")]
        stamped: bool,
        /// The writing node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// A variable has a new value.
    #[serde(rename = "variable.changed")]
    VariableChanged {
        /// Its name.
        name: String,
        /// The new value.
        next: Value,
        /// The node that changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// A node left an artifact.
    #[serde(rename = "artifact.created")]
    ArtifactCreated {
        /// The artifact.
        #[serde(flatten)]
        artifact: Artifact,
        /// The node.
        node_id: NodeId,
    },
    /// A piece of an attempt's output, as it came.
    #[serde(rename = "output.chunk")]
    OutputChunk {
        /// The node.
        node_id: NodeId,
        /// The visit.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
        /// The attempt.
        attempt: u32,
        /// How often the attempt had been started over: what an earlier start of it said is said
        /// again.
        #[serde(default, skip_serializing_if = "is_zero")]
        restart: u32,
        /// Which output.
        channel: OutputChannel,
        /// The text; invalid UTF-8 is replaced, the artifact has the bytes.
        chunk: String,
        /// Nothing more comes of this output (in the log: it may be capped).
        is_last: bool,
        /// Finish reason, usage and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A line a node wants kept.
    #[serde(rename = "log.appended")]
    LogAppended {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The line.
        message: String,
        /// The attempt that logged it; none for a line of the engine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<AttemptId>,
    },
    /// A bound was reached.
    #[serde(rename = "cap.breached")]
    CapBreached {
        /// Which bound.
        kind: CapKind,
        /// Its value.
        limit: u64,
        /// What was asked for; always greater.
        observed: u64,
        /// The node that was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// What a call used.
    #[serde(rename = "provider.usage")]
    ProviderUsage {
        /// The usage.
        #[serde(flatten)]
        usage: Usage,
        /// The node.
        node_id: NodeId,
        /// The attempt that reported it before it ended; absent where it came with the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<AttemptId>,
    },
    /// A tool is about to be called.
    #[serde(rename = "agent.toolCalled")]
    ToolCalled(ToolCalled),
    /// A tool call is over.
    #[serde(rename = "agent.toolReturned")]
    ToolReturned(ToolReturned),
    /// A model refused to answer.
    #[serde(rename = "envelope.refusal")]
    EnvelopeRefused(EnvelopeRefused),
    /// A model's answer was cut off.
    #[serde(rename = "envelope.truncated")]
    EnvelopeTruncated(EnvelopeTruncated),
    /// A model is asked once more for an answer of the right shape.
    #[serde(rename = "envelope.retry.attempted")]
    EnvelopeRetried(EnvelopeRetried),
    /// No answer of a model had the right shape.
    #[serde(rename = "envelope.retry.exhausted")]
    EnvelopesExhausted(EnvelopesExhausted),
    /// An answer had its shape once what stood around it was taken away.
    #[serde(rename = "envelope.recovery.applied")]
    EnvelopeRecovered(EnvelopeRecovered),
    /// A model is asked to put its words into the shape.
    #[serde(rename = "envelope.nlToFormat.engaged")]
    EnvelopeCoerced(EnvelopeCoerced),
    /// A named prompt was filled in.
    #[serde(rename = "prompt.composed")]
    PromptComposed(PromptComposed),
    /// Part of the run's budget was set aside for an attempt.
    #[serde(rename = "runwright.budget.reserved")]
    BudgetReserved {
        /// What for.
        attempt: AttemptId,
        /// Amount by dimension.
        amounts: BTreeMap<String, u64>,
    },
    /// A reservation was settled: this much was used, the rest is free again.
    #[serde(rename = "runwright.budget.settled")]
    BudgetSettled {
        /// What it was set aside for.
        attempt: AttemptId,
        /// Amount used by dimension.
        spent: BTreeMap<String, u64>,
    },
    /// A replay decided something else than its source.
    #[serde(rename = "replay.diverged")]
    ReplayDiverged {
        /// The source.
        source_run_id: StreamId,
        /// The first sequence that differs.
        at_sequence: Seq,
        /// How.
        divergence_kind: DivergenceKind,
        /// The type of the event there: the source's, or the replay's where the source has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        divergence_point: Option<String>,
    },
}

/// How a run will end once nothing is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Ending {
    /// Failed.
    Failed {
        /// The error.
        error: NodeError,
        /// The node it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// Cancelled.
    Cancelled {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The parent whose cancellation cascaded here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<StreamId>,
    },
}

/// Why a node did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its trigger rule can no longer be met.
    RuleNotMet,
    /// It is disabled in the definition.
    Disabled,
    /// It failed and the definition says to go on as if skipped.
    OnFailure,
}

/// How a replay differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// Same type of event, other content.
    Output,
    /// The source has an event the replay does not decide.
    Missing,
    /// The replay decides an event the source does not have.
    Extra,
    /// Another type of event.
    TypeMismatch,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}
