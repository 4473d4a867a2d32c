//! `conformance.cost.emit`: shows which parts of a cost reach spans.

use async_trait::async_trait;
use kernel::run::{Completion, Outcome, Usage};
use serde_json::{Map, Value, json};

use super::{NodeContext, ReceiverKey, Repeat, Started, WorkNode};

/// Reports a cost like a model node, with the attributes of its config's `attrs` (OpenWOP v1,
/// `openwop-smoke-cost-emit`). Attributes that the protocol does not list are dropped: a cost has
/// no fields for them.
pub(super) struct CostEmit;

#[async_trait]
impl WorkNode for CostEmit {
    fn type_id(&self) -> &'static str {
        "conformance.cost.emit"
    }

    fn summary(&self) -> &'static str {
        "Reports a cost: the fields of its config that a cost may have."
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
                "attrs": {
                    "type": "object",
                    "description": "Attributes by name; those of the protocol start with \
                                    openwop.cost.",
                },
            },
            "required": ["attrs"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        Outcome::Completed(Completion {
            usage: vec![usage(&started.config()["attrs"])],
            ..Completion::default()
        })
    }
}

/// The usage that the attributes describe.
fn usage(attrs: &Value) -> Usage {
    let of = |name: &str| attrs.get(format!("openwop.cost.{name}"));
    let tokens = |name: &str| of(name).and_then(Value::as_u64).unwrap_or(0);
    let provider = of("provider").and_then(Value::as_str);
    Usage {
        provider: provider.unwrap_or("unknown").chars().take(64).collect(),
        model: "unknown".to_owned(),
        input_tokens: tokens("tokens.input"),
        output_tokens: tokens("tokens.output"),
        cost_estimate_usd: of("usd").and_then(Value::as_f64).filter(|usd| *usd >= 0.0),
        duration_ms: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
    }
}
