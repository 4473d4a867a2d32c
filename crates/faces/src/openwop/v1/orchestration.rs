//! The payloads of events of supervisors, agents and dispatch nodes.
//!
//! Those of `runOrchestrator.decided`, `core.workflowChain.*` and `core.dispatch.*` are closed: the
//! node is next to the payload. In them, a replay names the same run as its source does.

use kernel::run::{Event, RunEvent};
use kernel::stream::StreamHeader;

use super::fields::Fields;
use super::payload::failure;

/// The payload of one of these events; empty for any other.
pub(super) fn orchestration(header: &StreamHeader, event: &Event) -> Fields {
    match &event.body {
        RunEvent::AgentDecided {
            node_id,
            visit,
            agent_id,
            decision,
            confidence,
        } => Fields::new()
            .with("agentId", agent_id)
            .with("decision", decision)
            .maybe("confidence", *confidence)
            .text("nodeId", node_id)
            .with("visit", visit),
        RunEvent::AgentHandedOff {
            node_id,
            visit,
            from_agent_id,
            to_agent_id,
            reason,
        } => Fields::new()
            .with("fromAgentId", from_agent_id)
            .with("toAgentId", to_agent_id)
            .maybe("reason", reason.as_ref())
            .text("nodeId", node_id)
            .with("visit", visit),
        RunEvent::OrchestratorDecided {
            node_id: _,
            visit: _,
            agent_id,
            decision,
            iteration,
        } => Fields::new()
            .with("agentId", agent_id)
            .with("decision", decision)
            .with("iteration", iteration),
        RunEvent::ChainStepped {
            node_id: _,
            visit: _,
            phase,
            worker_id,
            worker: _,
            child_run_id,
            harvested_keys,
            error,
            follows: _,
        } => Fields::new()
            .with("phase", phase)
            .with("workerId", worker_id)
            .text("parentRunId", header.root())
            .maybe_text("childRunId", child_run_id.as_ref())
            .filled("harvestedKeys", harvested_keys)
            .maybe("error", error.as_ref().map(failure)),
        RunEvent::FannedOut {
            node_id: _,
            visit: _,
            child_count,
            max_concurrency,
            join_mode,
        } => Fields::new()
            .with("fanOutPolicy", "parallel")
            .with("childCount", child_count)
            .with("maxConcurrency", max_concurrency)
            .with("joinMode", join_mode),
        RunEvent::Joined {
            node_id: _,
            visit: _,
            join_outcome,
            completed_count,
            failed_count,
            cancelled_count,
            merge_order,
        } => Fields::new()
            .with("joinOutcome", join_outcome)
            .with("completedCount", completed_count)
            .with("failedCount", failed_count)
            .with("cancelledCount", cancelled_count)
            .with("mergeOrder", merge_order),
        RunEvent::ConfidenceEscalated {
            node_id: _,
            visit: _,
            confidence,
            floor,
            worker_id,
            original_decision,
            follows: _,
        } => Fields::new()
            .with("confidence", confidence)
            .with("floor", floor)
            .with("escalationKind", "clarify")
            .maybe("workerId", worker_id.as_ref())
            .text("parentRunId", header.root())
            .with("originalDecision", original_decision),
        RunEvent::LoopbackLimited {
            node_id,
            iterations,
            limit,
        } => Fields::new()
            .text("nodeId", node_id)
            .with("iterations", iterations)
            .with("limit", limit),
        _ => Fields::new(),
    }
}
