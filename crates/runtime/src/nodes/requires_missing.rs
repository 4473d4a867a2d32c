//! `conformance.requiresMissing`: needs a capability that no host has.

use async_trait::async_trait;
use kernel::run::{NodeError, Outcome};
use serde_json::{Map, Value, json};

use super::{Given, NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Its type id.
pub(crate) const TYPE_ID: &str = "conformance.requiresMissing";
/// The capability it needs. No host provides it.
const CAPABILITY: &str = "conformance.never-provided";

/// Fails like a node whose host lacks a capability, as an example for clients.
pub(super) struct RequiresMissing;

#[async_trait]
impl WorkNode for RequiresMissing {
    fn type_id(&self) -> &'static str {
        TYPE_ID
    }

    fn summary(&self) -> &'static str {
        "Fails because it needs a capability that no host provides."
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

    fn compute(&self, _given: &Given<'_>) -> Option<Outcome> {
        Some(refuse())
    }

    async fn run(&self, _started: Started, _cx: NodeContext) -> Outcome {
        refuse()
    }
}

fn refuse() -> Outcome {
    let error = NodeError::new(
        "capability_not_provided",
        format!("this host does not provide the capability {CAPABILITY}"),
    );
    let details = json!({ "requiredCapability": CAPABILITY });
    Outcome::failed(error.fatal().with_details(details))
}
