//! `conformance.secret.echo`: shows that a secret is resolved, without showing it.

use async_trait::async_trait;
use kernel::digest::Digest;
use kernel::run::{Completion, NodeError, Outcome};
use serde_json::{Map, Value, json};

use super::{NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Resolves the secret of `secretId` and returns its SHA-256 and its length in bytes, as outputs
/// and as a variable of the node's name (OpenWOP v1, `openwop-smoke-byok-roundtrip`). A reader of
/// the run can check a guess by the digest, so it is for secrets that cannot be guessed.
pub(super) struct SecretEcho;

#[async_trait]
impl WorkNode for SecretEcho {
    fn type_id(&self) -> &'static str {
        "conformance.secret.echo"
    }

    fn summary(&self) -> &'static str {
        "Resolves a secret and gives its digest and length, never itself."
    }

    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        None
    }

    fn config_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "secretId": {
                    "type": "string", "minLength": 1, "maxLength": 256,
                    "description": "The reference of the secret.",
                },
            },
            "required": ["secretId"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        match echo(&started, &cx).await {
            Ok(outputs) => {
                let node = started.attempt().node.to_string();
                let shown = Value::Object(outputs.clone());
                Outcome::Completed(Completion {
                    outputs,
                    variables: Map::from_iter([(node, shown)]),
                    ..Completion::default()
                })
            }
            Err(error) => Outcome::failed(error),
        }
    }
}

async fn echo(started: &Started, cx: &NodeContext) -> Result<Map<String, Value>, NodeError> {
    let reference = started.config()["secretId"].as_str().unwrap_or_default();
    let secret = cx.ports.secrets.resolve(started.owner(), reference).await?;
    let digest = Digest::compute(secret.as_bytes()).to_string();
    Ok(Map::from_iter([
        ("secretSha256".to_owned(), digest.into()),
        ("secretLength".to_owned(), secret.len().into()),
    ]))
}
