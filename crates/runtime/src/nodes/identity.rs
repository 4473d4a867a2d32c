//! `core.identity`: copies inputs to outputs.

use async_trait::async_trait;
use kernel::run::{ChannelWrite, Completion, Outcome};
use serde_json::{Map, Value, json};

use super::{Given, NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Returns its resolved inputs as outputs and sets a variable of each bound input's name. Any
/// config is accepted. With `emitDuplicateMessageId: true` it also writes one message twice to the
/// channel `messages`, under one id, to exercise a host's `message` reducer.
pub(super) struct Identity;

#[async_trait]
impl WorkNode for Identity {
    fn type_id(&self) -> &'static str {
        "core.identity"
    }

    fn summary(&self) -> &'static str {
        "Gives its inputs as outputs and keeps each as a variable of that name."
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

    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        Some(repeat(given))
    }

    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        repeat(&started.given())
    }
}

fn repeat(given: &Given<'_>) -> Outcome {
    Outcome::Completed(Completion {
        variables: given.inputs.clone(),
        outputs: given.inputs.clone(),
        channel_writes: messages(given),
        ..Completion::default()
    })
}

fn messages(given: &Given<'_>) -> Vec<ChannelWrite> {
    if given.config.get("emitDuplicateMessageId") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let write = |content: &str| ChannelWrite {
        channel: "messages".into(),
        value: json!({
            "messageId": given.key,
            "role": "assistant",
            "content": content,
        }),
    };
    vec![write("first"), write("second")]
}
