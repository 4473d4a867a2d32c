//! A tool offered to a model, and its name.

use std::collections::BTreeMap;

use jsonschema::Validator;
use kernel::run::report::ToolTransport;
use rmcp::model::Tool as ServerTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::models::ask::Tool;
use crate::models::matches;

/// Violations of arguments that are quoted.
const MAX_FAULTS: usize = 4;
/// Characters of a tool's name in the interfaces of models.
const MAX_NAME: usize = 64;

/// A tool in the config: a program of the project.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in super::super) struct ProcessTool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub parameters: Value,
    /// The config of a `runwright.process`.
    pub process: Value,
}

/// A tool that may be called.
pub(super) struct Offer {
    /// Its name in the log, prefixed with its server's.
    pub full: String,
    pub shown: Tool,
    pub via: Via,
    validator: Option<Validator>,
}

/// How a tool is called.
pub(super) enum Via {
    Server { server: String, tool: String },
    Process(Value),
}

impl Offer {
    pub(super) fn of_server(server: &str, full: String, tool: ServerTool) -> Self {
        let parameters = Value::Object((*tool.input_schema).clone());
        Self {
            full,
            validator: jsonschema::draft202012::new(&parameters).ok(),
            shown: Tool {
                name: tool.name.to_string(),
                description: tool.description.unwrap_or_default().into_owned(),
                parameters,
            },
            via: Via::Server {
                server: server.to_owned(),
                tool: tool.name.into_owned(),
            },
        }
    }

    pub(super) fn of_process(tool: &ProcessTool) -> Self {
        let mut process = tool.process.clone();
        // Two calls would leave artifacts of the same name; the output is in the log anyway.
        process["keepOutput"] = json!("never");
        Self {
            full: format!("process.{}", tool.name),
            validator: jsonschema::draft202012::new(&tool.parameters).ok(),
            shown: Tool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
            },
            via: Via::Process(process),
        }
    }

    pub(super) fn transport(&self) -> ToolTransport {
        match self.via {
            Via::Server { .. } => ToolTransport::Mcp,
            Via::Process(_) => ToolTransport::Native,
        }
    }

    /// The arguments if they are valid; otherwise the violations, without quoting values.
    pub(super) fn check(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let Some(validator) = &self.validator else {
            return Ok(arguments);
        };
        let arguments = Value::Object(arguments);
        let faults: Vec<String> = validator
            .iter_errors(&arguments)
            .take(MAX_FAULTS)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { "/" } else { &path };
                format!("{} at {place}", error.kind().keyword())
            })
            .collect();
        match (faults.is_empty(), arguments) {
            (true, Value::Object(arguments)) => Ok(arguments),
            _ => Err(faults.join(", ")),
        }
    }
}

/// Whether one of the patterns matches a tool.
pub(in super::super) fn narrows(patterns: &[String], full: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, full))
}

/// Gives each tool a unique name that models' interfaces accept: its own if possible, else with its
/// server's as a prefix, else with a number as a suffix.
pub(super) fn name_them(offers: &mut [Offer]) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for offer in offers.iter() {
        *count.entry(plain(&offer.shown.name)).or_default() += 1;
    }
    let mut taken: Vec<String> = Vec::new();
    for offer in offers {
        let own = plain(&offer.shown.name);
        let mut name = match count.get(&own) {
            Some(1) => own,
            _ => plain(&offer.full.replacen('.', "__", 1)),
        };
        let mut nth = 1;
        while taken.contains(&name) {
            nth += 1;
            let end = format!("_{nth}");
            name.truncate(MAX_NAME - end.len());
            name.push_str(&end);
        }
        taken.push(name.clone());
        offer.shown.name = name;
    }
}

fn plain(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).take(MAX_NAME).collect();
    if name.is_empty() {
        "tool".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str) -> Offer {
        let parameters = json!({ "type": "object", "required": ["a"],
            "properties": { "a": { "type": "integer" } } });
        Offer::of_process(&ProcessTool {
            name: name.to_owned(),
            description: String::new(),
            parameters,
            process: json!({}),
        })
    }

    #[test]
    fn tool_names_are_plain_and_unique() {
        let long = "x".repeat(80);
        let mut offers: Vec<Offer> = ["read", "write.file", "read", "", &long, &long]
            .into_iter()
            .map(offer)
            .collect();
        name_them(&mut offers);
        let names: Vec<&str> = offers.iter().map(|o| o.shown.name.as_str()).collect();
        assert_eq!(
            &names[..4],
            ["process__read", "write_file", "process__read_2", "tool"]
        );
        assert!(names.iter().all(|name| name.len() <= MAX_NAME));
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }

    #[test]
    fn arguments_are_judged_without_being_quoted() {
        let check = |arguments: Value| {
            let object = arguments.as_object().unwrap().clone();
            offer("t").check(object).map(|_| ())
        };
        assert_eq!(check(json!({ "a": 1 })), Ok(()));
        assert_eq!(
            check(json!({ "a": "planted" })),
            Err("type at /a".to_owned())
        );
        assert_eq!(check(json!({})), Err("required at /".to_owned()));
    }
}
