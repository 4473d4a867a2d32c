//! Assignments as JSON.

use kernel::coordinator::{HandedOut, TaskTerms, assignment_name};
use serde_json::{Value, json};

/// Heartbeats within the allowed silence of a worker.
const BEATS: u64 = 3;
/// The longest time between two heartbeats, in milliseconds. It bounds how long a worker keeps
/// working on a cancelled task.
const MAX_BEAT_MS: u64 = 800;

/// An assignment in its worker's form: its ids, the allowed silence, and the task.
pub fn assignment(
    queue: &str,
    handed: &HandedOut,
    task: &Value,
    terms: Option<&TaskTerms>,
) -> Value {
    let run = terms.map(|terms| {
        json!({
            "run_id": terms.run,
            "node_id": terms.attempt.node,
            "visit": terms.attempt.visit,
            "attempt": terms.attempt.attempt,
        })
    });
    json!({
        "assignment_id": assignment_name(handed.assignment),
        "request_id": handed.request,
        "queue": queue,
        "worker": handed.worker,
        "fence": handed.fence,
        "assigned_at": handed.at.to_string(),
        "heartbeat_ms": (handed.handing.heartbeat_timeout_ms / BEATS).min(MAX_BEAT_MS),
        "heartbeat_timeout_ms": handed.handing.heartbeat_timeout_ms,
        "begin_ms": handed.offered.then(|| handed.patience_ms()),
        "repeat": handed.handing.repeat.as_str(),
        "task": task,
        "run": run,
    })
}
