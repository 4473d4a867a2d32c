//! Agents that nodes pin, and capabilities that a definition needs and this engine lacks.

use serde_json::Value;

use super::Compiler;
use crate::definition::document::Definition;
use crate::definition::plan::Unmet;
use crate::problem::{Path, ProblemCode};

/// The protocol's classes of models.
const MODEL_CLASSES: [&str; 9] = [
    "reasoning",
    "tool-using",
    "chat",
    "code",
    "vision",
    "multimodal",
    "embedding",
    "classification",
    "retrieval",
];

/// Text fields of an agent, with their least and greatest length in characters.
const TEXTS: [(&str, usize, usize); 6] = [
    ("agentId", 3, 256),
    ("name", 0, 256),
    ("memoryRef", 1, 256),
    ("version", 0, 64),
    ("channel", 1, 64),
    ("sourceManifestId", 0, 256),
];

impl Compiler<'_> {
    /// A run shows the agent that a node pins in the protocol's form. Agents that do not fit it are
    /// rejected here.
    pub(super) fn check_agents(&mut self) {
        let definition = self.definition;
        let list = Path::Key(&Path::Root, "nodes");
        for (index, node) in definition.nodes.iter().enumerate() {
            let Some(agent) = &node.agent else { continue };
            let node = Path::Index(&list, index);
            let path = Path::Key(&node, "agent");
            for (name, least, most) in TEXTS {
                let place = Path::Key(&path, name);
                let length = match agent.get(name) {
                    None if name == "agentId" => {
                        let what = "is missing: it names the agent";
                        self.problem(&place, ProblemCode::MissingField, what.to_owned());
                        continue;
                    }
                    None => continue,
                    Some(value) => value.as_str().map(|text| text.chars().count()),
                };
                if !length.is_some_and(|length| (least..=most).contains(&length)) {
                    let what = format!("must be a text of {least} to {most} characters");
                    self.problem(&place, ProblemCode::InvalidValue, what);
                }
            }
            let class = agent.get("modelClass");
            if class.is_some_and(|class| !class.as_str().is_some_and(is_model_class)) {
                let what = format!("must be one of {}", MODEL_CLASSES.join(", "));
                let place = Path::Key(&path, "modelClass");
                self.problem(&place, ProblemCode::InvalidValue, what);
            }
            if agent.get("version").is_some() && agent.get("channel").is_some() {
                let what = "has both `version` and `channel`; name one of them";
                self.problem(&path, ProblemCode::InvalidValue, what.to_owned());
            }
        }
    }

    /// A definition that needs a missing capability can be registered, but its runs cannot be
    /// created.
    pub(super) fn warn_of_unmet(&mut self) {
        if let Some(unmet) = unmet(self.definition) {
            let code = ProblemCode::InvalidValue;
            self.warnings
                .add(unmet.place.clone(), code, unmet.to_string());
        }
    }
}

/// Whether the protocol has this class of models.
pub fn is_model_class(word: &str) -> bool {
    MODEL_CLASSES.contains(&word)
}

/// The first capability that a definition needs and this engine lacks.
pub(super) fn unmet(definition: &Definition) -> Option<Unmet> {
    if let Some(place) = &definition.compensation {
        return Some(Unmet {
            code: "capability_required",
            capability: "compensation",
            place: place.clone(),
        });
    }
    let has_channel = |agent: &Option<Value>| {
        agent
            .as_ref()
            .is_some_and(|agent| agent.get("channel").is_some())
    };
    let mut nodes = definition.nodes.iter();
    let index = nodes.position(|node| has_channel(&node.agent))?;
    Some(Unmet {
        code: "validation_error",
        capability: "agents.deployment",
        place: format!("/nodes/{index}/agent/channel"),
    })
}
