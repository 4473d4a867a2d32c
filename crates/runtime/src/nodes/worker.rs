//! `runwright.worker`: assigns its work to a worker, a process that takes tasks from a queue.
//!
//! Config `{ "queue": …, "repeat": "repeatable" | "once", "heartbeatTimeoutMs": 30000,
//! "maxAssignments": 5 }`. Its inputs are the task. The request leaves with the events by which the
//! node begins to wait (`kernel/src/run/decide/workers.rs`), so nothing is sent here; the run is
//! parked until its worker reports the result. See `docs/reference/workers.md`.

use async_trait::async_trait;
use kernel::coordinator::{WORKER_NODE, WorkerConfig, awaiting_worker, is_queue_name};
use kernel::run::{NodeError, Outcome};
use serde_json::{Value, json};

use super::{NodeContext, Repeat, Started, WorkNode};

/// The node.
pub(super) struct Worker;

#[async_trait]
impl WorkNode for Worker {
    fn type_id(&self) -> &'static str {
        WORKER_NODE
    }

    fn summary(&self) -> &'static str {
        "Gives its inputs as a task to a worker of a queue, and waits for the result."
    }

    /// Waiting again requests the same task, by the same id.
    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn config_schema(&self) -> Value {
        json!({
            "type": "object",
            "required": ["queue", "repeat"],
            "properties": {
                "queue": {
                    "type": "string",
                    "maxLength": 64,
                    "pattern": "^[.]*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
                    "$comment": "a name of letters, digits, `.`, `_` and `-`, not only dots",
                    "description": "The queue of its workers.",
                },
                "repeat": {
                    "enum": ["repeatable", "once"],
                    "description": "Whether the task may be assigned again after its worker was \
                                    lost.",
                },
                "heartbeatTimeoutMs": {
                    "type": "integer",
                    "minimum": 1_000,
                    "maximum": 3_600_000,
                    "default": 30_000,
                    "description": "The longest time without a heartbeat.",
                },
                "maxAssignments": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 100,
                    "default": 5,
                    "description": "The most assignments of a repeatable task.",
                },
            },
            "additionalProperties": false,
        })
    }

    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        let config = WorkerConfig::from_config(started.config());
        // Runs of earlier versions may wait for queues with invalid names.
        let Some(config) = config.filter(|config| is_queue_name(&config.queue)) else {
            let text = "the config needs a queue and a repeat policy";
            return Outcome::failed(NodeError::new("invalid_config", text).fatal());
        };
        let request = started.key().to_string();
        Outcome::Waits {
            data: awaiting_worker(&config.queue, &request),
            key: request,
        }
    }
}
