//! The facts of an event that every rendering needs: its kind and its node.

use kernel::ids::NodeId;
use kernel::run::RunEvent;
use kernel::run::report::{
    EnvelopeCoerced, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried, EnvelopeTruncated,
    EnvelopesExhausted, PromptComposed, ToolCalled, ToolReturned,
};

/// One table for the names and the match, so that neither can lack a kind.
macro_rules! kinds {
    ($($variant:ident => $kind:literal,)+) => {
        /// Every kind of event, in the order of the storage format.
        pub(crate) const KINDS: &[&str] = &[$($kind),+];

        /// The kind of an event: its tag in the log, which is also its type on the wire.
        pub(crate) fn kind(event: &RunEvent) -> &'static str {
            match event {
                $(RunEvent::$variant { .. } => $kind,)+
            }
        }
    };
}

kinds! {
    RunStarted => "run.started",
    RunCompleted => "run.completed",
    RunFailed => "run.failed",
    RunCancelled => "run.cancelled",
    RunStopping => "runwright.run.stopping",
    RunDraining => "runwright.run.draining",
    RunPaused => "run.paused",
    RunResumed => "run.resumed",
    RunResuming => "run.resuming",
    RunForked => "runwright.run.forked",
    RunDeadLettered => "run.dead_lettered",
    NodeStarted => "node.started",
    AttemptRestarted => "runwright.attempt.restarted",
    NodeCompleted => "node.completed",
    NodeFailed => "node.failed",
    NodeRetried => "node.retried",
    NodeSkipped => "node.skipped",
    NodeCancelled => "node.cancelled",
    NodeSuspended => "node.suspended",
    NodeResumed => "node.resumed",
    NodeDispatched => "node.dispatched",
    ChildSettled => "runwright.child.settled",
    ChildReported => "runwright.child.reported",
    AgentDecided => "agent.decided",
    AgentHandedOff => "agent.handoff",
    OrchestratorDecided => "runOrchestrator.decided",
    ChainStepped => "core.workflowChain.event",
    FannedOut => "core.dispatch.fanOut",
    Joined => "core.dispatch.join",
    ConfidenceEscalated => "core.workflowChain.confidence-escalated",
    LoopbackLimited => "workflow.loopback-limit",
    InterruptRequested => "interrupt.requested",
    InterruptResolved => "interrupt.resolved",
    ApprovalRequested => "approval.requested",
    ApprovalReceived => "approval.received",
    ApprovalGranted => "approval.granted",
    ApprovalRejected => "approval.rejected",
    ApprovalOverridden => "approval.overridden",
    ApprovalAsked => "runwright.approval.asked",
    ClarificationRequested => "clarification.requested",
    ClarificationResolved => "clarification.resolved",
    SignalReceived => "runwright.signal.received",
    ChannelWritten => "channel.written",
    VariableChanged => "variable.changed",
    ArtifactCreated => "artifact.created",
    OutputChunk => "output.chunk",
    LogAppended => "log.appended",
    CapBreached => "cap.breached",
    ProviderUsage => "provider.usage",
    ToolCalled => "agent.toolCalled",
    ToolReturned => "agent.toolReturned",
    EnvelopeRefused => "envelope.refusal",
    EnvelopeTruncated => "envelope.truncated",
    EnvelopeRetried => "envelope.retry.attempted",
    EnvelopesExhausted => "envelope.retry.exhausted",
    EnvelopeRecovered => "envelope.recovery.applied",
    EnvelopeCoerced => "envelope.nlToFormat.engaged",
    PromptComposed => "prompt.composed",
    BudgetReserved => "runwright.budget.reserved",
    BudgetSettled => "runwright.budget.settled",
    ReplayDiverged => "replay.diverged",
}

/// The node of an event, if it has one.
pub(crate) fn node(event: &RunEvent) -> Option<&NodeId> {
    // An event of a document's trace may lack its step.
    said_node(event).filter(|node| !node.as_str().is_empty())
}

fn said_node(event: &RunEvent) -> Option<&NodeId> {
    use RunEvent as E;
    match event {
        E::RunFailed {
            failed_node_id: node_id,
            ..
        }
        | E::ChannelWritten { node_id, .. }
        | E::VariableChanged { node_id, .. }
        | E::CapBreached { node_id, .. } => node_id.as_ref(),
        E::LogAppended { attempt, .. } => attempt.as_ref().map(|attempt| &attempt.node),
        E::BudgetReserved { attempt, .. } | E::BudgetSettled { attempt, .. } => Some(&attempt.node),
        E::ToolCalled(ToolCalled { node_id, .. })
        | E::ToolReturned(ToolReturned { node_id, .. })
        | E::EnvelopeRefused(EnvelopeRefused { node_id, .. })
        | E::EnvelopeTruncated(EnvelopeTruncated { node_id, .. })
        | E::EnvelopeRetried(EnvelopeRetried { node_id, .. })
        | E::EnvelopesExhausted(EnvelopesExhausted { node_id, .. })
        | E::EnvelopeRecovered(EnvelopeRecovered { node_id, .. })
        | E::EnvelopeCoerced(EnvelopeCoerced { node_id, .. })
        | E::PromptComposed(PromptComposed { node_id, .. })
        | E::RunDeadLettered { node_id, .. }
        | E::NodeStarted { node_id, .. }
        | E::AttemptRestarted { node_id, .. }
        | E::NodeCompleted { node_id, .. }
        | E::NodeFailed { node_id, .. }
        | E::NodeRetried { node_id, .. }
        | E::NodeSkipped { node_id, .. }
        | E::NodeCancelled { node_id, .. }
        | E::NodeSuspended { node_id, .. }
        | E::NodeResumed { node_id, .. }
        | E::NodeDispatched { node_id, .. }
        | E::InterruptRequested { node_id, .. }
        | E::InterruptResolved { node_id, .. }
        | E::ApprovalRequested { node_id, .. }
        | E::ApprovalReceived { node_id, .. }
        | E::ApprovalGranted { node_id, .. }
        | E::ApprovalRejected { node_id, .. }
        | E::ApprovalOverridden { node_id, .. }
        | E::ApprovalAsked { node_id, .. }
        | E::ClarificationRequested { node_id, .. }
        | E::ClarificationResolved { node_id, .. }
        | E::AgentDecided { node_id, .. }
        | E::AgentHandedOff { node_id, .. }
        | E::OrchestratorDecided { node_id, .. }
        | E::ChainStepped { node_id, .. }
        | E::FannedOut { node_id, .. }
        | E::Joined { node_id, .. }
        | E::ConfidenceEscalated { node_id, .. }
        | E::LoopbackLimited { node_id, .. }
        | E::ArtifactCreated { node_id, .. }
        | E::OutputChunk { node_id, .. }
        | E::ProviderUsage { node_id, .. } => Some(node_id),
        E::RunStarted { .. }
        | E::RunCompleted { .. }
        | E::RunCancelled { .. }
        | E::RunStopping { .. }
        | E::RunDraining { .. }
        | E::RunPaused { .. }
        | E::RunResumed { .. }
        | E::RunResuming { .. }
        | E::RunForked { .. }
        | E::ChildSettled { .. }
        | E::ChildReported { .. }
        | E::SignalReceived { .. }
        | E::ReplayDiverged { .. } => None,
    }
}
