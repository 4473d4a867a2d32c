//! The table of the kinds of events: one row per variant of [`RunEvent`].
//!
//! A reader that treats kinds alike asks the table. It matches on the event only for the kinds it
//! treats in its own way.

use crate::ids::{AttemptId, NodeId};
use crate::run::event::RunEvent;

/// The part of a run that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'e> {
    /// The run as a whole.
    Run,
    /// A node.
    Node(&'e NodeId),
    /// A visit of a node.
    Visit(&'e NodeId, u32),
}

/// Who follows an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Everybody who follows a run: it changes the state of the run or of a node.
    Update,
    /// Only those who want every detail.
    Detail,
}

struct Row<'e> {
    kind: &'static str,
    about: About<'e>,
    interest: Interest,
}

macro_rules! kinds {
    ($($event:pat => $kind:literal, $about:expr, $interest:ident;)+) => {
        /// Every kind of event, in the order of the storage format.
        pub const KINDS: &[&str] = &[$($kind),+];

        fn row(event: &RunEvent) -> Row<'_> {
            use About::{Node, Run, Visit};
            use RunEvent as E;
            match event {
                $($event => Row {
                    kind: $kind,
                    about: $about,
                    interest: Interest::$interest,
                },)+
            }
        }
    };
}

kinds! {
    E::RunStarted { .. } => "run.started", Run, Update;
    E::RunCompleted { .. } => "run.completed", Run, Update;
    E::RunFailed { failed_node_id, .. } => "run.failed", maybe(failed_node_id), Update;
    E::RunCancelled { .. } => "run.cancelled", Run, Update;
    E::RunStopping { .. } => "runwright.run.stopping", Run, Detail;
    E::RunDraining { .. } => "runwright.run.draining", Run, Detail;
    E::RunPaused { .. } => "run.paused", Run, Update;
    E::RunResumed { .. } => "run.resumed", Run, Update;
    E::RunResuming { .. } => "run.resuming", Run, Detail;
    E::RunForked { .. } => "runwright.run.forked", Run, Detail;
    E::RunDeadLettered { node_id, .. } => "run.dead_lettered", Node(node_id), Detail;
    E::NodeStarted { node_id, visit, .. } => "node.started", Visit(node_id, *visit), Detail;
    E::AttemptRestarted { node_id, visit, .. } => "runwright.attempt.restarted", Visit(node_id, *visit), Detail;
    E::NodeCompleted { node_id, visit, .. } => "node.completed", Visit(node_id, *visit), Update;
    E::NodeFailed { node_id, visit, .. } => "node.failed", Visit(node_id, *visit), Update;
    E::NodeRetried { node_id, visit, .. } => "node.retried", Visit(node_id, *visit), Detail;
    E::NodeSkipped { node_id, visit, .. } => "node.skipped", Visit(node_id, *visit), Update;
    E::NodeCancelled { node_id, visit, .. } => "node.cancelled", Visit(node_id, *visit), Update;
    E::NodeSuspended { node_id, visit, .. } => "node.suspended", Visit(node_id, *visit), Update;
    E::NodeResumed { node_id, visit, .. } => "node.resumed", Visit(node_id, *visit), Update;
    E::NodeDispatched { node_id, visit, .. } => "node.dispatched", Visit(node_id, *visit), Update;
    E::ChildSettled { .. } => "runwright.child.settled", Run, Detail;
    E::ChildReported { .. } => "runwright.child.reported", Run, Detail;
    E::AgentDecided { node_id, visit, .. } => "agent.decided", Visit(node_id, *visit), Detail;
    E::AgentHandedOff { node_id, visit, .. } => "agent.handoff", Visit(node_id, *visit), Detail;
    E::OrchestratorDecided { node_id, visit, .. } => "runOrchestrator.decided", Visit(node_id, *visit), Detail;
    E::ChainStepped { node_id, visit, .. } => "core.workflowChain.event", Visit(node_id, *visit), Detail;
    E::FannedOut { node_id, visit, .. } => "core.dispatch.fanOut", Visit(node_id, *visit), Detail;
    E::Joined { node_id, visit, .. } => "core.dispatch.join", Visit(node_id, *visit), Detail;
    E::ConfidenceEscalated { node_id, visit, .. } => "core.workflowChain.confidence-escalated", Visit(node_id, *visit), Detail;
    E::LoopbackLimited { node_id, .. } => "workflow.loopback-limit", Node(node_id), Detail;
    E::InterruptRequested { node_id, visit, .. } => "interrupt.requested", Visit(node_id, *visit), Update;
    E::InterruptResolved { node_id, .. } => "interrupt.resolved", Node(node_id), Update;
    E::ApprovalRequested { node_id, visit, .. } => "approval.requested", Visit(node_id, *visit), Update;
    E::ApprovalReceived { node_id, visit, .. } => "approval.received", Visit(node_id, *visit), Update;
    E::ApprovalGranted { node_id, visit, .. } => "approval.granted", Visit(node_id, *visit), Update;
    E::ApprovalRejected { node_id, visit, .. } => "approval.rejected", Visit(node_id, *visit), Update;
    E::ApprovalOverridden { node_id, visit, .. } => "approval.overridden", Visit(node_id, *visit), Update;
    E::ApprovalAsked { node_id, visit, .. } => "runwright.approval.asked", Visit(node_id, *visit), Detail;
    E::ClarificationRequested { node_id, visit, .. } => "clarification.requested", Visit(node_id, *visit), Update;
    E::ClarificationResolved { node_id, visit, .. } => "clarification.resolved", Visit(node_id, *visit), Update;
    E::SignalReceived { .. } => "runwright.signal.received", Run, Detail;
    E::ChannelWritten { node_id, .. } => "channel.written", maybe(node_id), Detail;
    E::VariableChanged { node_id, .. } => "variable.changed", maybe(node_id), Detail;
    E::ArtifactCreated { node_id, .. } => "artifact.created", Node(node_id), Update;
    E::OutputChunk { node_id, visit, .. } => "output.chunk", Visit(node_id, *visit), Detail;
    E::LogAppended { attempt, .. } => "log.appended", attempt.as_ref().map_or(Run, attempt_of), Detail;
    E::CapBreached { node_id, .. } => "cap.breached", maybe(node_id), Detail;
    E::ProviderUsage { node_id, .. } => "provider.usage", Node(node_id), Detail;
    E::ToolCalled(report) => "agent.toolCalled", Visit(&report.node_id, report.visit), Detail;
    E::ToolReturned(report) => "agent.toolReturned", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopeRefused(report) => "envelope.refusal", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopeTruncated(report) => "envelope.truncated", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopeRetried(report) => "envelope.retry.attempted", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopesExhausted(report) => "envelope.retry.exhausted", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopeRecovered(report) => "envelope.recovery.applied", Visit(&report.node_id, report.visit), Detail;
    E::EnvelopeCoerced(report) => "envelope.nlToFormat.engaged", Visit(&report.node_id, report.visit), Detail;
    E::PromptComposed(report) => "prompt.composed", Visit(&report.node_id, report.visit), Detail;
    E::BudgetReserved { attempt, .. } => "runwright.budget.reserved", attempt_of(attempt), Detail;
    E::BudgetSettled { attempt, .. } => "runwright.budget.settled", attempt_of(attempt), Detail;
    E::BudgetAnnounced { .. } => "budget.reserved", Run, Detail;
    E::BudgetThresholdCrossed { .. } => "budget.threshold.crossed", Run, Detail;
    E::BudgetExhausted { .. } => "budget.exhausted", Run, Detail;
    E::ReplayDiverged { .. } => "replay.diverged", Run, Detail;
}

fn maybe(node: &Option<NodeId>) -> About<'_> {
    node.as_ref().map_or(About::Run, About::Node)
}

fn attempt_of(attempt: &AttemptId) -> About<'_> {
    About::Visit(&attempt.node, attempt.visit)
}

impl RunEvent {
    /// The name of its kind: its tag in the log, which is also its type on the wire.
    pub fn kind(&self) -> &'static str {
        row(self).kind
    }

    /// The part of the run it is about.
    pub fn about(&self) -> About<'_> {
        row(self).about
    }

    /// The node it is about. An event of a document's trace need not name one.
    pub fn node(&self) -> Option<&NodeId> {
        let node = match self.about() {
            About::Run => return None,
            About::Node(node) | About::Visit(node, _) => node,
        };
        Some(node).filter(|node| !node.as_str().is_empty())
    }

    /// Who follows it.
    pub fn interest(&self) -> Interest {
        row(self).interest
    }
}
