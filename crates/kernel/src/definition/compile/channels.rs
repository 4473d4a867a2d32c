//! What may not be said of declared channels.
//!
//! Earlier versions took definitions that are refused here, and such a definition may lie in a
//! store with runs of its own. So these are objections to a definition that is registered, and
//! not to one that is read again.

use serde_json::Value;

use super::Compiler;
use crate::control::schema;
use crate::definition::control::ControlKind;
use crate::definition::document::{Definition, Node};
use crate::problem::{ProblemCode, Problems, pointer, quoted};

/// Node types of the library that set variables which their definition names.
const TRANSFORM: &str = "runwright.transform";
const IDENTITY: &str = "core.identity";

/// The variables that a config sets with what children give back, each with its place.
pub(crate) fn mapped_variables(config: &Value) -> Vec<(String, &str)> {
    let mut mapped = keys(config, "/outputMapping");
    let workers = keys(config, "/perWorkerOutputMappings");
    for (place, _) in workers {
        mapped.extend(keys(config, &place));
    }
    mapped
}

/// The variables that a node sets by what its definition says, each with its place in the node.
/// What children give back may also go into channels, so it is not among them.
fn set_variables(node: &Node) -> Vec<(String, &str)> {
    let config = &node.config;
    let in_config = |(place, name): (String, _)| (format!("/config{place}"), name);
    match (ControlKind::of(&node.type_id), node.type_id.as_str()) {
        (Some(ControlKind::SetVariable), _) => {
            let mut set = keys(config, "/variables");
            for key in ["name", "variableName"] {
                let name = config.get(key).and_then(Value::as_str);
                set.extend(name.map(|name| (format!("/{key}"), name)));
            }
            set.into_iter().map(in_config).collect()
        }
        (_, TRANSFORM) => keys(config, "/variables")
            .into_iter()
            .map(in_config)
            .collect(),
        (_, IDENTITY) => {
            let ports = node.inputs.iter();
            ports
                .map(|(port, _)| (pointer("/inputs", port), port.as_str()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The names in an object of a config, each with its place.
fn keys<'a>(config: &'a Value, of: &str) -> Vec<(String, &'a str)> {
    let fields = config.pointer(of).and_then(Value::as_object);
    let names = fields.into_iter().flat_map(|fields| fields.keys());
    names
        .map(|name| (pointer(of, name), name.as_str()))
        .collect()
}

/// Everything that is objected to.
fn objections(definition: &Definition) -> Problems {
    let mut problems = Problems::new();
    for (name, channel) in &definition.channels {
        let path = pointer(&pointer("/channels", name), "schema");
        if let Some(Err(what)) = channel.schema.as_ref().map(|of| schema::check(of, "")) {
            problems.add(path, ProblemCode::InvalidValue, what);
        }
    }
    let mut is_channel = |place: String, name: &str| {
        if definition.channels.contains_key(name) {
            let message = format!(
                "{} is a channel, which no variable may be called; write it with \
                 `core.channelWrite`, or choose another name",
                quoted(name)
            );
            problems.add(place, ProblemCode::DuplicateId, message);
        }
    };
    for (index, variable) in definition.variables.iter().enumerate() {
        is_channel(format!("/variables/{index}/name"), &variable.name);
    }
    for (index, node) in definition.nodes.iter().enumerate() {
        for (place, name) in set_variables(node) {
            is_channel(format!("/nodes/{index}{place}"), name);
        }
    }
    problems
}

impl Compiler<'_> {
    /// Refuses what no new definition may say of its channels.
    pub(super) fn check_channels(&mut self) {
        let objections = objections(self.definition);
        self.problems.extend(objections.listed);
        self.problems.more += objections.more;
    }
}
