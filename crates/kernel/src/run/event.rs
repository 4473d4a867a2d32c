//! The events of a run stream, as they are stored.
//!
//! One stored event is one event on the OpenWOP wire with the same sequence. The tags here are the
//! storage's own and stable; the faces render them. Events that OpenWOP does not define have the
//! vendor prefix `runwright.`. Changing this file is a change of the event format: see
//! `docs/design/event-format.md`, which quotes its hash.

mod kinds;
mod parts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::Reducer;
use crate::ids::{AttemptId, InterruptId, NodeId, Seq, StreamId, WorkflowId};
use crate::json::is_default;
use crate::run::InterruptKind;
use crate::run::cause::Cause;
use crate::run::report::{
    EnvelopeCoerced, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried, EnvelopeTruncated,
    EnvelopesExhausted, PromptComposed, ToolCalled, ToolReturned,
};
use crate::stream::DefinitionRef;
use crate::time::Timestamp;

pub use kinds::{About, Interest, KINDS};
pub use parts::{
    ApprovalAction, Artifact, BudgetScope, CapKind, ChainPhase, ChildStatus, DivergenceKind, Doubt,
    DrainPolicy, Ending, JoinOutcome, LogLevel, NodeError, OutputChannel, SkipReason, Usage, Vote,
};

/// An event with its place and time. Run id and event id are not stored: they are derived from the
/// stream and the sequence, so that a copied prefix has the same hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided; never before its predecessor.
    pub at: Timestamp,
    /// The command of the batch, on its first event only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The event.
    #[serde(flatten)]
    pub body: RunEvent,
}

/// The events of a run. The tags are stable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum RunEvent {
    /// Sequence 0 of every run: it was created.
    #[serde(rename = "run.started")]
    RunStarted {
        workflow_id: WorkflowId,
        /// Inputs as given, redacted; sensitive values are sealed references.
        inputs: Map<String, Value>,
        /// Inputs and defaults bound to the declared variables.
        variables: Map<String, Value>,
        /// The face that received the request (`rest`, `cli`, …).
        transport: String,
        /// The engine that created it.
        engine_version: u32,
        /// The caller's tags.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<String>,
        /// The caller's metadata.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
        /// The caller's overlay of settings.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        configurable: Map<String, Value>,
    },
    /// Every node settled and none failed unhandled.
    #[serde(rename = "run.completed")]
    RunCompleted {
        /// The outputs of the run.
        outputs: Map<String, Value>,
        /// Milliseconds since `run.started`.
        duration_ms: u64,
    },
    /// The run failed.
    #[serde(rename = "run.failed")]
    RunFailed {
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The actor.
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
        /// How it ends once nothing is in flight.
        ending: Ending,
    },
    /// A draining pause was requested while attempts were in flight.
    #[serde(rename = "runwright.run.draining")]
    RunDraining {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nothing new starts until `run.resumed`.
    #[serde(rename = "run.paused")]
    RunPaused {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How attempts in flight were treated.
        drain_policy: DrainPolicy,
    },
    /// A pause ended.
    #[serde(rename = "run.resumed")]
    RunResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another holder took over the run and found attempts in flight.
    #[serde(rename = "run.resuming")]
    RunResuming {
        /// The status it was found in.
        from_status: String,
    },
    /// A branch begins: the events before were copied from its source, the following ones are its
    /// own. Attempts in flight, delays and children start over; all other waits continue as if no
    /// time had passed since the event before.
    #[serde(rename = "runwright.run.forked")]
    RunForked {
        source_run_id: StreamId,
        /// The sequence the source was forked at.
        from_sequence: Seq,
        /// Tags that differ from the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
        /// Metadata that differs from the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        /// An overlay of settings that differs from the source's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        configurable: Option<Map<String, Value>>,
    },
    /// The run failed for good and awaits a person; `run.failed` follows.
    #[serde(rename = "run.dead_lettered")]
    RunDeadLettered {
        /// The node that exhausted its attempts.
        node_id: NodeId,
        reason: String,
        /// Number of its attempts.
        attempts: u32,
    },
    /// An attempt may now begin. No part of it ran before this was durable.
    #[serde(rename = "node.started")]
    NodeStarted {
        node_id: NodeId,
        type_id: String,
        /// Number of earlier visits of the node.
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// Number of earlier attempts of this visit.
        attempt: u32,
        /// The resolved values of its ports; later attempts of a visit use the first one's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Map<String, Value>>,
        /// When it ends by itself: the end of a delay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due_at: Option<Timestamp>,
        /// When it fails with `node_timeout`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_at: Option<Timestamp>,
    },
    /// An attempt that was in flight when its holder was lost restarts with the same key.
    #[serde(rename = "runwright.attempt.restarted")]
    AttemptRestarted {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The attempt, unchanged.
        attempt: u32,
        /// Number of restarts, including this one.
        restarts: u32,
    },
    /// A visit of a node completed.
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The attempt that succeeded.
        attempt: u32,
        /// Its outputs, for connected nodes.
        outputs: Map<String, Value>,
        /// The output port chosen by a choosing node (`true`, `false`, `body`, `done`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// Outgoing edges that are not followed (their condition was false, or another port was
        /// chosen).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        declined_edges: Vec<String>,
        /// Milliseconds since the visit's first `node.started`.
        duration_ms: u64,
    },
    /// A visit of a node failed; all attempts are used up.
    #[serde(rename = "node.failed")]
    NodeFailed {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The last error.
        error: NodeError,
        /// Number of attempts.
        attempts: u32,
        /// Outgoing edges that are not followed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        declined_edges: Vec<String>,
    },
    /// An attempt failed and another follows.
    #[serde(rename = "node.retried")]
    NodeRetried {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The next attempt.
        attempt: u32,
        /// The wait before it.
        delay_ms: u64,
        /// Why the last one failed.
        last_error: NodeError,
    },
    /// A node will not run in this visit.
    #[serde(rename = "node.skipped")]
    NodeSkipped {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        reason: SkipReason,
    },
    /// A node was stopped because the run ends.
    #[serde(rename = "node.cancelled")]
    NodeCancelled {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        reason: String,
    },
    /// A node waits for something outside.
    #[serde(rename = "node.suspended")]
    NodeSuspended {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The interrupt it waits for.
        interrupt_id: InterruptId,
        /// The interrupt's kind.
        kind: InterruptKind,
        /// The confidence and the threshold of a held decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        doubt: Option<Doubt>,
    },
    /// A suspended node continues.
    #[serde(rename = "node.resumed")]
    NodeResumed {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The interrupt that was resolved.
        interrupt_id: InterruptId,
    },
    /// A node started a run of another workflow.
    #[serde(rename = "node.dispatched")]
    NodeDispatched {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        child_run_id: StreamId,
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
        child_run_id: StreamId,
        /// How it ended.
        status: ChildStatus,
        /// Its variables at the end, for output mappings.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        variables: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
        /// Its spending from the budget it was given, by dimension.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spent: BTreeMap<String, u64>,
    },
    /// A child run reported its waiting status.
    #[serde(rename = "runwright.child.reported")]
    ChildReported {
        child_run_id: StreamId,
        /// Its status while it waits; `None` when it continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// The length of its log: the later one of two reports counts.
        child_sequence: Seq,
    },
    /// An agent decided, with this confidence.
    #[serde(rename = "agent.decided")]
    AgentDecided {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        agent_id: String,
        decision: Value,
        /// From 0 to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
    },
    /// One agent hands off the work to another.
    #[serde(rename = "agent.handoff")]
    AgentHandedOff {
        /// The node that hands off.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The agent that had the work.
        from_agent_id: String,
        /// The agent that has it now.
        to_agent_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run's orchestrator decided which workers run next; the nodes after it carry this out.
    #[serde(rename = "runOrchestrator.decided")]
    OrchestratorDecided {
        /// The supervisor.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The run's orchestrator.
        agent_id: String,
        /// The decision in the protocol's form.
        decision: Value,
        /// Number of decisions of the run so far.
        iteration: u64,
    },
    /// A step of a dispatch node with one of its workers.
    #[serde(rename = "core.workflowChain.event")]
    ChainStepped {
        /// The dispatch node.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The step.
        phase: ChainPhase,
        /// The worker: the id of its workflow.
        worker_id: String,
        /// Its place in the decision.
        #[serde(default, skip_serializing_if = "is_default")]
        worker: u32,
        /// Its run, once created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_run_id: Option<StreamId>,
        /// Variables of this run that received its outputs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        harvested_keys: Vec<String>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
        /// The step before it, or the decision that it carries out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follows: Option<Seq>,
    },
    /// The workers of a decision run concurrently from now on.
    #[serde(rename = "core.dispatch.fanOut")]
    FannedOut {
        /// The dispatch node.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// Number of workers.
        child_count: u32,
        /// Maximum number that run at a time.
        max_concurrency: u32,
        /// The join policy: `wait-all`, `quorum`, `first` or `race`.
        join_mode: String,
    },
    /// Concurrent workers are joined.
    #[serde(rename = "core.dispatch.join")]
    Joined {
        /// The dispatch node.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        join_outcome: JoinOutcome,
        /// Workers that completed.
        completed_count: u32,
        /// Workers that failed, or could not be started.
        failed_count: u32,
        /// Workers that were cancelled, including abandoned ones.
        cancelled_count: u32,
        /// Runs whose outputs were kept, in this order.
        merge_order: Vec<StreamId>,
    },
    /// A decision is below the floor of confidence; a person is asked.
    #[serde(rename = "core.workflowChain.confidence-escalated")]
    ConfidenceEscalated {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        confidence: f64,
        /// The required confidence.
        floor: f64,
        /// The first worker in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker_id: Option<String>,
        original_decision: Value,
        /// The event of the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follows: Option<Seq>,
    },
    /// A supervisor would dispatch more often than the definition allows.
    #[serde(rename = "workflow.loopback-limit")]
    LoopbackLimited {
        /// The supervisor.
        node_id: NodeId,
        /// Number of rounds so far.
        iterations: u64,
        /// Maximum number of rounds.
        limit: u64,
    },
    /// A question is asked outside.
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        /// Derived id.
        interrupt_id: InterruptId,
        /// The node that asks.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        kind: InterruptKind,
        /// The key a signal resolves it by.
        key: String,
        /// How often the run has asked with this key before.
        #[serde(default, skip_serializing_if = "is_default")]
        asked_before: u32,
        /// The question, in the form of its kind.
        data: Value,
        /// The schema of an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_schema: Option<Value>,
        /// When it expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_at: Option<Timestamp>,
    },
    /// An interrupt was answered; the first answer counts.
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved {
        interrupt_id: InterruptId,
        /// The node that asked.
        node_id: NodeId,
        kind: InterruptKind,
        /// The answer.
        resume_value: Value,
        /// The answering person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolved_by: Option<String>,
    },
    /// A gate asks people to decide; follows its `interrupt.requested`.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The artifact to approve.
        artifact_id: String,
        /// The kind of the artifact.
        artifact_type: String,
        /// The question in one line.
        title: String,
        /// The allowed answers.
        actions: Vec<ApprovalAction>,
        /// The people who may answer. If empty, everyone may who can answer interrupts of the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvers_list: Vec<String>,
        /// The required number of accepts.
        required_approvals: u32,
    },
    /// A gate is decided. Follows its `interrupt.resolved`, or is written alone when the gate timed
    /// out and fails.
    #[serde(rename = "approval.received")]
    ApprovalReceived {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The decision.
        action: ApprovalAction,
        /// The person who decided: of several, the one whose vote closed the gate. `None` for a
        /// timeout.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
        /// A remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Criticism in free words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
        /// The requested refinement: `scope` and more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refine_feedback: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited_artifact_data: Option<Value>,
    },
    /// One of several required people has accepted.
    #[serde(rename = "approval.granted")]
    ApprovalGranted {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The person.
        principal: String,
        /// Number of accepts so far.
        granted: u32,
        /// Number of required accepts.
        required: u32,
        /// Their answer, unless an `interrupt.resolved` contains it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// One of several required people has rejected.
    #[serde(rename = "approval.rejected")]
    ApprovalRejected {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The person.
        principal: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Their answer, unless an `interrupt.resolved` contains it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// A person with the role for it has overridden the regular deciders of a gate.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The person.
        principal: String,
        reason: String,
        /// Their answer, unless an `interrupt.resolved` contains it.
        #[serde(flatten)]
        vote: Vote,
    },
    /// A person has asked back; the gate stays open.
    #[serde(rename = "runwright.approval.asked")]
    ApprovalAsked {
        interrupt_id: InterruptId,
        /// The gate.
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// Their answer.
        #[serde(flatten)]
        vote: Vote,
    },
    /// A node asks for answers to questions; follows its `interrupt.requested`.
    #[serde(rename = "clarification.requested")]
    ClarificationRequested {
        interrupt_id: InterruptId,
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The questions: `id`, `question` and, if the answer has one, `schema`.
        questions: Vec<Value>,
    },
    /// Every question is answered; follows its `interrupt.resolved`.
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved {
        interrupt_id: InterruptId,
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        /// The answers by question.
        answers: Map<String, Value>,
        /// The answering person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
    },
    /// A signal arrived; kept until a node asks for it.
    #[serde(rename = "runwright.signal.received")]
    SignalReceived {
        /// The name that a node waits for.
        name: String,
        /// The sender's id of it: the same (name, id) counts once.
        id: String,
        /// Its content.
        payload: Value,
    },
    /// A write to a channel: the input of the write, not the state after it.
    #[serde(rename = "channel.written")]
    ChannelWritten {
        channel: String,
        /// The write input.
        value: Value,
        /// The reducer at the time of the write.
        reducer: Reducer,
        /// The time stamp of the write, for time-to-live.
        written_at: Timestamp,
        /// The channel's schema version at the time of the write.
        schema_version: u32,
        /// The channel's entries expire: they are kept with the time of their write.
        #[serde(default, skip_serializing_if = "is_default")]
        stamped: bool,
        /// The writing node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// A variable has a new value.
    #[serde(rename = "variable.changed")]
    VariableChanged {
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
        #[serde(flatten)]
        artifact: Artifact,
        node_id: NodeId,
    },
    /// A piece of an attempt's output, in the order of arrival.
    #[serde(rename = "output.chunk")]
    OutputChunk {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "is_default")]
        visit: u32,
        attempt: u32,
        /// How often the attempt had been restarted: a restart repeats the output of an earlier
        /// start.
        #[serde(default, skip_serializing_if = "is_default")]
        restart: u32,
        channel: OutputChannel,
        /// The text; invalid UTF-8 is replaced, the artifact has the bytes.
        chunk: String,
        /// The output ends here (in the log: it may be truncated).
        is_last: bool,
        /// Finish reason, usage and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    /// A log line of a node.
    #[serde(rename = "log.appended")]
    LogAppended {
        level: LogLevel,
        /// The line.
        message: String,
        /// The attempt that logged it; `None` for a line of the engine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<AttemptId>,
    },
    /// A limit was reached.
    #[serde(rename = "cap.breached")]
    CapBreached {
        /// The limit's kind.
        kind: CapKind,
        /// Its value.
        limit: u64,
        /// The requested amount; always greater.
        observed: u64,
        /// The rejected node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    },
    /// The usage of a call.
    #[serde(rename = "provider.usage")]
    ProviderUsage {
        #[serde(flatten)]
        usage: Usage,
        node_id: NodeId,
        /// The attempt that reported it before it ended; absent if it was part of the outcome.
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
    /// A model is asked again for an answer of the right shape.
    #[serde(rename = "envelope.retry.attempted")]
    EnvelopeRetried(EnvelopeRetried),
    /// No answer of a model had the right shape.
    #[serde(rename = "envelope.retry.exhausted")]
    EnvelopesExhausted(EnvelopesExhausted),
    /// An answer had its shape after surrounding text was removed.
    #[serde(rename = "envelope.recovery.applied")]
    EnvelopeRecovered(EnvelopeRecovered),
    /// A model is asked to put its words into the shape.
    #[serde(rename = "envelope.nlToFormat.engaged")]
    EnvelopeCoerced(EnvelopeCoerced),
    /// A named prompt was filled in.
    #[serde(rename = "prompt.composed")]
    PromptComposed(PromptComposed),
    /// Part of the run's budget was reserved for an attempt.
    #[serde(rename = "runwright.budget.reserved")]
    BudgetReserved {
        attempt: AttemptId,
        /// Amount by dimension.
        amounts: BTreeMap<String, u64>,
    },
    /// A reservation was settled: this much was spent, the rest is free again.
    #[serde(rename = "runwright.budget.settled")]
    BudgetSettled {
        attempt: AttemptId,
        /// Spent amount by dimension.
        spent: BTreeMap<String, u64>,
    },
    /// The limits of the run's budget, once, after the run's first event.
    #[serde(rename = "budget.reserved")]
    BudgetAnnounced {
        /// Limit by dimension.
        limits: BTreeMap<String, u64>,
        scope: BudgetScope,
    },
    /// The share of a limit that the run's creator named is spent.
    #[serde(rename = "budget.threshold.crossed")]
    BudgetThresholdCrossed {
        dimension: String,
        /// The spent amount.
        consumed: u64,
        limit: u64,
        /// The threshold, in percent of the limit.
        percent: Value,
    },
    /// The rest of a limit is not enough for the next step.
    #[serde(rename = "budget.exhausted")]
    BudgetExhausted {
        dimension: String,
        /// The spent amount.
        consumed: u64,
        limit: u64,
    },
    /// A replay decided differently from its source.
    #[serde(rename = "replay.diverged")]
    ReplayDiverged {
        source_run_id: StreamId,
        /// The first sequence that differs.
        at_sequence: Seq,
        /// The kind of difference.
        divergence_kind: DivergenceKind,
        /// The type of the differing event: the source's, or the replay's if the source has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        divergence_point: Option<String>,
    },
}
