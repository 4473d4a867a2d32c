//! Whether a cost limit can be enforced: every model that a workflow names needs a price.

use kernel::definition::{Plan, PlanNode};
use kernel::problem::{Problem, ProblemCode};
use kernel::run::ModelSettings;
use serde_json::{Map, Value};

use super::estimate::no_price;
use super::providers::{CUSTOM, Providers};

/// The node type for chats.
pub(crate) const CHAT: &str = "core.ai.chatCompletion";
/// The node type for prompts.
pub(crate) const PROMPT: &str = "core.ai.callPrompt";
/// The node type whose answers always have a schema.
pub(crate) const STRUCTURED: &str = "core.ai.structuredOutput";
/// The node types that call models.
pub(crate) const MODEL_NODES: [&str; 3] = [CHAT, PROMPT, STRUCTURED];

impl Providers {
    /// The problems of a cost limit in a run of a workflow: a model without a price for each node
    /// that calls one. Models known only when a node starts are checked then. The problems are at a
    /// path, or at the nodes of the document.
    pub fn check_prices(
        &self,
        plan: &Plan,
        configurable: &Map<String, Value>,
        path: Option<&str>,
    ) -> Vec<Problem> {
        let is_mocked = configurable
            .get("mockProvider")
            .is_some_and(|of| !of.is_null());
        if is_mocked {
            return Vec::new();
        }
        let settings = ModelSettings::new(configurable);
        let asking = plan.nodes.iter().enumerate();
        let asking = asking.filter(|(_, node)| !node.disabled);
        let unpriced = asking.filter_map(|(at, node)| {
            let what = self.unpriced(node, &settings)?;
            let path = path.map_or_else(|| format!("/nodes/{at}"), str::to_owned);
            Some(Problem::new(path, ProblemCode::InvalidValue, what))
        });
        unpriced.collect()
    }

    fn unpriced(&self, node: &PlanNode, settings: &ModelSettings<'_>) -> Option<String> {
        let text = |key: &str| node.config.get(key).and_then(Value::as_str);
        let calls_a_tool = node.config.get("mcp").is_some_and(|call| !call.is_null());
        if !MODEL_NODES.contains(&node.type_id.as_str()) || calls_a_tool {
            return None;
        }
        let what = match text("baseUrl") {
            Some(_) => no_price(
                CUSTOM,
                text("model").or_else(|| settings.model()).unwrap_or(""),
            ),
            None => {
                let named = text("provider").or_else(|| settings.provider());
                let provider = self.named(named).ok()?;
                let model = text("model").or_else(|| settings.model());
                let model = model.or(provider.model.as_deref())?;
                if model.contains("${") || provider.has_price_of(model) {
                    return None;
                }
                no_price(&provider.name, model)
            }
        };
        Some(format!("node {}: {what}", node.id))
    }
}
