//! `runwright.transform`: values computed from values, by expressions.
//!
//! ```json
//! { "outputs": { "count": "size(inputs.items)" },
//!   "variables": { "customer": "inputs.order.customer" } }
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::expr::{ExprError, Expression, Scope};
use kernel::limits::MAX_EXPRESSION_BYTES;
use kernel::problem::{Problem, ProblemCode, pointer};
use kernel::run::{Completion, NodeError, Outcome};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Given, NodeContext, ReceiverKey, Repeat, Started, WorkNode, parsed};

/// Computes outputs and variables from its inputs. Pure.
pub(super) struct Transform;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    outputs: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
}

#[async_trait]
impl WorkNode for Transform {
    fn type_id(&self) -> &'static str {
        "runwright.transform"
    }

    fn summary(&self) -> &'static str {
        "Computes outputs and variables from its inputs, by expressions."
    }

    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        None
    }

    fn config_schema(&self) -> Value {
        let expressions = |description: &str| {
            json!({
                "type": "object",
                "additionalProperties": { "type": "string", "maxLength": MAX_EXPRESSION_BYTES },
                "description": description,
            })
        };
        json!({
            "type": "object",
            "properties": {
                "outputs": expressions("Output ports, each with an expression over `inputs`."),
                "variables": expressions("Variables to set, each with an expression over `inputs`."),
            },
            "additionalProperties": false,
        })
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        for part in ["outputs", "variables"] {
            for (name, text) in config[part].as_object().into_iter().flatten() {
                let path = pointer(&format!("/{part}"), name);
                if let Err(message) = parse(text.as_str().unwrap_or_default()) {
                    problems.push(Problem::new(path, ProblemCode::InvalidExpression, message));
                }
            }
        }
        problems
    }

    fn reads(&self, config: &Value) -> Reads {
        let mut reads = Reads::default();
        for part in ["outputs", "variables"] {
            for (name, text) in config[part].as_object().into_iter().flatten() {
                let path = pointer(&format!("/{part}"), name);
                let expression = text.as_str().map(parse);
                if let Some(Ok(expression)) = expression {
                    let names = expression.references().inputs.iter();
                    let read = names.map(|name| (path.clone(), name.clone()));
                    reads.inputs.extend(read);
                }
            }
        }
        reads
    }

    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        let outputs = config["outputs"].as_object().into_iter().flatten();
        Some(outputs.map(|(name, _)| name.clone()).collect())
    }

    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        Some(transform(given.config, given.inputs))
    }

    async fn run(&self, started: Started, _cx: NodeContext) -> Outcome {
        transform(started.config(), started.inputs())
    }
}

fn transform(config: &Value, inputs: &Map<String, Value>) -> Outcome {
    let inputs = Inputs(Value::Object(inputs.clone()));
    let computed = parsed(config).and_then(|config: Config| {
        let outputs = compute(&config.outputs, "output", &inputs)?;
        Ok((outputs, compute(&config.variables, "variable", &inputs)?))
    });
    match computed {
        Ok((outputs, variables)) => Outcome::Completed(Completion {
            outputs,
            variables,
            ..Completion::default()
        }),
        Err(error) => Outcome::failed(error),
    }
}

/// Parses an expression that reads only `inputs`; the error says what is wrong with it.
fn parse(text: &str) -> Result<Expression, String> {
    let expression = Expression::parse(text).map_err(|error| error.to_string())?;
    let references = expression.references();
    let roots = references.roots.iter().copied();
    let nodes = references.nodes.iter().map(|_| "nodes");
    match roots.chain(nodes).find(|&root| root != "inputs") {
        None => Ok(expression),
        Some(root) => Err(format!(
            "a transform reads only `inputs`; bind the value from `{root}` to an input port"
        )),
    }
}

fn compute(
    expressions: &BTreeMap<String, String>,
    what: &str,
    inputs: &Inputs,
) -> Result<Map<String, Value>, NodeError> {
    let mut values = Map::new();
    for (name, text) in expressions {
        let value = parse(text)
            .map_err(ExprError::Syntax)
            .and_then(|expression| expression.eval(inputs))
            // Deterministic: a retry fails the same way.
            .map_err(|error| {
                NodeError::new("expression_failed", format!("{what} `{name}`: {error}")).fatal()
            })?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

struct Inputs(Value);

impl Scope for Inputs {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        (name == "inputs").then_some(Cow::Borrowed(&self.0))
    }

    fn node(&self, _id: &str) -> Option<Cow<'_, Value>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problems(config: Value) -> Vec<(String, String)> {
        Transform
            .check(&config)
            .into_iter()
            .map(|p| (p.path, p.message))
            .collect()
    }

    #[test]
    fn expressions_are_checked_before_any_run() {
        let config = json!({
            "outputs": { "good": "inputs.a + 1", "bad": "inputs.a +" },
            "variables": { "a/b": "variables.x", "c": "nodes.fetch.outputs.body" },
        });
        let found = problems(config);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/outputs/bad", "/variables/a~1b", "/variables/c"]);
        assert!(
            found[1].1.contains("`variables`") && found[2].1.contains("`nodes`"),
            "{found:?}"
        );
    }

    fn computed(text: &str, inputs: Value) -> Result<Value, NodeError> {
        let expressions = BTreeMap::from([("x".to_owned(), text.to_owned())]);
        compute(&expressions, "output", &Inputs(inputs)).map(|mut values| values["x"].take())
    }

    #[test]
    fn values_come_from_the_inputs() {
        let inputs = json!({ "items": [{ "n": 1 }, { "n": 5 }], "name": "x" });
        let text = "{\"big\": inputs.items.filter(i, i.n > 2), \"name\": inputs.name + \"!\"}";
        let expected = json!({ "big": [{ "n": 5 }], "name": "x!" });
        assert_eq!(computed(text, inputs), Ok(expected));
    }

    #[test]
    fn a_missing_input_is_named_and_not_tried_again() {
        let error = computed("inputs.gone", json!({})).unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.retryable),
            ("expression_failed", Some(false))
        );
        assert!(error.message.starts_with("output `x`: ") && error.message.contains("inputs.gone"));
    }
}
