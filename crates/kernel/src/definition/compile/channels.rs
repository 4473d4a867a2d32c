//! Rules for declared channels.
//!
//! Earlier versions accepted definitions that are rejected here, and a store may have such
//! definitions with runs. So these rules apply to newly registered definitions only.

use serde_json::Value;

use super::Compiler;
use crate::control::{ControlKind, names, schema};
use crate::definition::document::{Definition, Node};
use crate::problem::{ProblemCode, Problems, pointer, quoted};

/// Node types of the library that set variables named in their config.
const TRANSFORM: &str = "runwright.transform";
pub(super) const IDENTITY: &str = "core.identity";

/// The variables that a config sets from the outputs of children, each with its place.
pub(crate) fn mapped_variables(config: &Value) -> Vec<(String, &str)> {
    let mut mapped = names(config, "/outputMapping");
    let workers = names(config, "/perWorkerOutputMappings");
    for (place, _) in workers {
        mapped.extend(names(config, &place));
    }
    mapped
}

/// The variables that a node's config sets, each with its place in the node. Outputs of children
/// may also go into channels, so they are not included.
fn set_variables(node: &Node) -> Vec<(String, &str)> {
    let config = &node.config;
    let in_config = |(place, name): (String, _)| (format!("/config{place}"), name);
    match (ControlKind::parse(&node.type_id), node.type_id.as_str()) {
        (Some(kind), _) => kind
            .node()
            .sets(config)
            .into_iter()
            .map(in_config)
            .collect(),
        (None, TRANSFORM) => names(config, "/variables")
            .into_iter()
            .map(in_config)
            .collect(),
        (None, IDENTITY) => {
            let ports = node.inputs.iter();
            ports
                .map(|(port, _)| (pointer("/inputs", port), port.as_str()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// All breaches of the rules.
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
                "{} is a channel, and a variable cannot have the same name; write it with \
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
    /// Applies the rules for channels of new definitions.
    pub(super) fn check_channels(&mut self) {
        let objections = objections(self.definition);
        self.problems.extend(objections.listed);
        self.problems.more += objections.more;
    }
}
