//! The node types of this engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::Validator;
use kernel::definition::{NodeKind, NodeTypes, Reads};
use kernel::problem::Problem;
use kernel::recompute::{self, Recompute};
use kernel::run::Outcome;
use serde_json::Value;

use super::cost_emit::CostEmit;
use super::fail::Fail;
use super::http::Http;
use super::identity::Identity;
use super::mcp::Mcp;
use super::model::Model;
use super::noop::Noop;
use super::play::Play;
use super::process::{Process, ProcessHost};
use super::requires_missing::RequiresMissing;
use super::secret_echo::SecretEcho;
use super::transform::Transform;
use super::worker::Worker;
use super::{Given, Repeat, WorkNode};
use crate::run_redactor::RunRedactor;
use crate::schema_words;

/// The work nodes of an engine by type id, with the compiled schemas of their configs.
pub struct Registry {
    entries: BTreeMap<&'static str, Entry>,
}

struct Entry {
    node: Arc<dyn WorkNode>,
    schema: Validator,
}

impl Registry {
    /// The work nodes of the product, on a host with the default rules.
    pub fn standard() -> Self {
        Self::on(ProcessHost::of_this_process())
    }

    /// The work nodes of the product.
    pub fn on(host: ProcessHost) -> Self {
        let mut nodes: Vec<Arc<dyn WorkNode>> = Vec::new();
        nodes.extend(Noop::all().map(|node| Arc::new(node) as Arc<dyn WorkNode>));
        nodes.push(Arc::new(Identity));
        nodes.push(Arc::new(Fail));
        nodes.extend(Play::all(&host).map(|node| Arc::new(node) as Arc<dyn WorkNode>));
        nodes.push(Arc::new(RequiresMissing));
        nodes.push(Arc::new(SecretEcho));
        nodes.push(Arc::new(CostEmit));
        nodes.extend(Model::all(&host).map(|node| Arc::new(node) as Arc<dyn WorkNode>));
        nodes.push(Arc::new(Process::new(host)));
        nodes.push(Arc::new(Http));
        nodes.push(Arc::new(Mcp::Call));
        nodes.push(Arc::new(Mcp::List));
        nodes.push(Arc::new(Transform));
        nodes.push(Arc::new(Worker));
        Self::from_nodes(nodes)
    }

    /// A registry of given nodes.
    ///
    /// # Panics
    /// If two have the same type id or a schema is not a JSON Schema: a programming error in a
    /// node, caught by the test of all registered nodes.
    pub fn from_nodes(nodes: impl IntoIterator<Item = Arc<dyn WorkNode>>) -> Self {
        let mut entries = BTreeMap::new();
        for node in nodes {
            let type_id = node.type_id();
            let schema = jsonschema::draft202012::new(&node.config_schema())
                .unwrap_or_else(|error| panic!("the config schema of {type_id}: {error}"));
            let earlier = entries.insert(type_id, Entry { node, schema });
            assert!(earlier.is_none(), "{type_id} is registered twice");
        }
        Self { entries }
    }

    /// The node of a type id.
    pub fn get(&self, type_id: &str) -> Option<Arc<dyn WorkNode>> {
        self.entries.get(type_id).map(|entry| entry.node.clone())
    }

    /// The repeat policy of a node. Unknown types must not be repeated.
    pub fn repeat(&self, type_id: &str, config: &Value) -> Repeat {
        self.entries
            .get(type_id)
            .map_or(Repeat::Once, |entry| entry.node.repeat(config))
    }

    /// Every node, by type id.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<dyn WorkNode>> {
        self.entries.values().map(|entry| &entry.node)
    }
}

impl Recompute for Registry {
    fn outcome(&self, given: &recompute::Given<'_>) -> Option<Outcome> {
        let node = self.get(&given.node.type_id)?;
        let mut outcome = node.compute(&Given {
            config: &given.node.config,
            inputs: given.inputs,
            key: &given.key,
        })?;
        // As an outcome is written: credentials never reach a log.
        RunRedactor::default().outcome(&mut outcome);
        Some(outcome)
    }
}

impl NodeTypes for Registry {
    fn kind(&self, type_id: &str) -> Option<NodeKind> {
        self.entries.contains_key(type_id).then_some(NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        self.entries
            .keys()
            .map(|&type_id| type_id.to_owned())
            .collect()
    }

    fn check_config(&self, type_id: &str, config: &Value) -> Vec<Problem> {
        let Some(entry) = self.entries.get(type_id) else {
            return Vec::new();
        };
        let schema = entry.node.config_schema();
        let mut problems = Vec::new();
        for error in entry.schema.iter_errors(config) {
            problems.extend(schema_words::say(&error, &schema));
        }
        // A node's own checks may rely on the schema.
        if problems.is_empty() {
            problems = entry.node.check(config);
        }
        problems
    }

    fn reads(&self, type_id: &str, config: &Value) -> Reads {
        let entry = self.entries.get(type_id);
        entry.map_or_else(Reads::default, |entry| entry.node.reads(config))
    }

    fn outputs(&self, type_id: &str, config: &Value) -> Option<Vec<String>> {
        self.entries.get(type_id)?.node.outputs(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::problem::ProblemCode;
    use serde_json::json;

    #[test]
    fn every_node_has_a_summary_and_a_schema_for_objects() {
        for node in Registry::standard().nodes() {
            let schema = node.config_schema();
            assert_eq!(schema["type"], "object", "{}", node.type_id());
            assert!(
                schema["additionalProperties"].is_boolean(),
                "{}",
                node.type_id()
            );
            let summary = node.summary();
            assert!(
                summary.ends_with('.') && summary.len() > 10,
                "{}",
                node.type_id()
            );
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(
                    property["description"].is_string(),
                    "{}.{key}",
                    node.type_id()
                );
            }
        }
    }

    #[test]
    fn every_node_with_a_closed_config_refuses_other_keys() {
        let registry = Registry::standard();
        for node in registry.nodes() {
            let schema = node.config_schema();
            let problems = registry.check_config(node.type_id(), &json!({ "unheard-of": 1 }));
            let refused = problems
                .iter()
                .any(|p| p.path == "/unheard-of" && p.code == ProblemCode::UnknownField);
            assert_eq!(
                refused,
                schema["additionalProperties"] == false,
                "{}",
                node.type_id()
            );
        }
    }

    #[track_caller]
    fn check(type_id: &str, config: Value, path: &str, text: &str) {
        let problems = Registry::standard().check_config(type_id, &config);
        let [problem] = problems.as_slice() else {
            panic!("one problem: {problems:?}")
        };
        assert_eq!(problem.path, path);
        assert!(problem.message.contains(text), "{problem:?}");
    }

    #[test]
    fn problems_give_the_place_and_the_fix() {
        let process = "runwright.process";
        check(
            process,
            json!({ "argv": ["a"], "timeoutMS": 1 }),
            "/timeoutMS",
            "`timeoutMs`?",
        );
        check(
            process,
            json!({ "argv": ["a"], "xyz": 1 }),
            "/xyz",
            "the fields are argv, captureBytes",
        );
        check(process, json!({}), "/argv", "`argv` is required");
        check(
            process,
            json!({ "argv": [] }),
            "/argv",
            "at least 1 element",
        );
        check(
            process,
            json!({ "argv": ["a", 1] }),
            "/argv/1",
            "${inputs.NAME}",
        );
        check(process, json!({ "argv": ["${x}"] }), "/argv/0", "$${");
        check(
            process,
            json!({ "argv": ["a"], "repeat": "twice" }),
            "/repeat",
            "once",
        );
        check(
            process,
            json!({ "argv": ["a"], "env": { "A=B": "" } }),
            "/env/A=B",
            "name",
        );
        check(
            "runwright.http",
            json!({ "url": "https://a.example", "timeoutMs": 0 }),
            "/timeoutMs",
            "1",
        );
        check(
            "runwright.transform",
            json!({ "outputs": { "a": 1 } }),
            "/outputs/a",
            "string",
        );
        check("core.fail", json!("text"), "", "object");
        check(
            "core.fail",
            json!({ "message": "no ${inputs.x}" }),
            "/message",
            "not replaced",
        );
        check(
            process,
            json!({ "argv": ["a"], "env": { "A": "Bearer secret://x" } }),
            "/env/A",
            "`secretEnv`",
        );
        check(
            "runwright.http",
            json!({ "url": "https://a.example", "headers": { "A": "secret://x" } }),
            "/headers/A",
            "`secretHeaders`",
        );
    }

    #[test]
    fn a_problem_never_quotes_the_value() {
        let secret = "planted-secret";
        let registry = Registry::standard();
        for config in [
            json!(secret),
            json!({ "argv": secret }),
            json!({ "argv": ["a"], "repeat": secret }),
        ] {
            for problem in registry.check_config("runwright.process", &config) {
                assert!(!problem.message.contains(secret), "{problem:?}");
            }
        }
    }

    #[test]
    fn unknown_types_are_not_repeated() {
        let registry = Registry::standard();
        assert!(registry.get("x.y").is_none() && registry.kind("x.y").is_none());
        assert_eq!(registry.repeat("x.y", &json!({})), Repeat::Once);
    }
}
