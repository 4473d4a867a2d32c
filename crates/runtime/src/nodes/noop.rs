//! `core.noop` and the nodes that only mark a position in the graph.

use async_trait::async_trait;
use kernel::run::{Completion, Outcome};
use serde_json::{Map, Value, json};

use super::{Given, NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Completes at once, under a given type id. Any config is accepted: these nodes carry notes of
/// other programs.
pub(super) struct Noop {
    type_id: &'static str,
    summary: &'static str,
}

impl Noop {
    /// One node per type id.
    pub(super) fn all() -> [Self; 5] {
        [
            Self {
                type_id: "core.noop",
                summary: "Does nothing and completes.",
            },
            Self {
                type_id: "core.start",
                summary: "Marks the start of a workflow.",
            },
            Self {
                type_id: "core.end",
                summary: "Marks the end of a workflow.",
            },
            Self {
                type_id: "core.parallel",
                summary: "Marks a fork of branches.",
            },
            Self {
                type_id: "core.merge",
                summary: "Marks a join of branches.",
            },
        ]
    }
}

#[async_trait]
impl WorkNode for Noop {
    fn type_id(&self) -> &'static str {
        self.type_id
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        None
    }

    fn config_schema(&self) -> Value {
        json!({ "type": "object", "additionalProperties": true })
    }

    fn outputs(&self, _config: &Value) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn compute(&self, _given: &Given<'_>) -> Option<Outcome> {
        Some(Outcome::Completed(Completion::default()))
    }

    async fn run(&self, _started: Started, _cx: NodeContext) -> Outcome {
        Outcome::Completed(Completion::default())
    }
}
