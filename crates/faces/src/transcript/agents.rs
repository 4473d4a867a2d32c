//! The texts of events of supervisors, agents and dispatch nodes.

use kernel::run::RunEvent;

use super::words::{failure, join, names, round, said, value, why, word};

/// The text of one of these events; empty for any other.
pub(super) fn text(event: &RunEvent) -> String {
    use RunEvent as E;
    match event {
        E::ChildReported {
            child_run_id,
            status,
            ..
        } => match status {
            Some(status) => format!("{child_run_id} is {status}"),
            None => format!("{child_run_id} continues"),
        },
        E::AgentDecided {
            visit,
            agent_id,
            decision,
            confidence,
            ..
        } => join([
            round(*visit),
            agent_id.clone(),
            value(decision),
            said("confidence", *confidence),
        ]),
        E::AgentHandedOff {
            visit,
            from_agent_id,
            to_agent_id,
            reason,
            ..
        } => join([
            round(*visit),
            format!("{from_agent_id} to {to_agent_id}"),
            why(reason.as_deref()),
        ]),
        E::OrchestratorDecided {
            visit,
            agent_id,
            decision,
            ..
        } => join([round(*visit), agent_id.clone(), value(decision)]),
        E::ChainStepped {
            visit,
            phase,
            worker_id,
            child_run_id,
            harvested_keys,
            error,
            ..
        } => join([
            round(*visit),
            format!("{} {worker_id}", word(phase)),
            said("as", child_run_id.as_ref()),
            names("kept in", harvested_keys),
            error.as_ref().map(failure).unwrap_or_default(),
        ]),
        E::FannedOut {
            visit,
            child_count,
            max_concurrency,
            join_mode,
            ..
        } => join([
            round(*visit),
            format!("{child_count} at the same time, {max_concurrency} at most"),
            join_mode.clone(),
        ]),
        E::Joined {
            visit,
            join_outcome,
            completed_count,
            failed_count,
            cancelled_count,
            ..
        } => join([
            round(*visit),
            word(join_outcome),
            format!(
                "{completed_count} completed, {failed_count} failed, {cancelled_count} cancelled"
            ),
        ]),
        E::ConfidenceEscalated {
            visit,
            confidence,
            floor,
            ..
        } => join([
            round(*visit),
            format!("{confidence} is below {floor}: a person is asked"),
        ]),
        E::LoopbackLimited {
            iterations, limit, ..
        } => format!("{iterations} rounds of {limit}"),
        _ => String::new(),
    }
}
