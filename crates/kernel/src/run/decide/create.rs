//! Creating a run.

use serde_json::{Map, Value};

use super::Decision;
use crate::definition::Plan;
use crate::limits;
use crate::problem::{ProblemCode, Problems, pointer};
use crate::run::cause::Start;
use crate::run::command::Create;
use crate::run::event::RunEvent;
use crate::run::rejection::Rejection;
use crate::run::size::json_size;

impl Decision {
    pub(super) fn create(&mut self, create: &Create) -> Result<(), Rejection> {
        let plan = &self.run.plan;
        let mut variables = plan.begin_with(&create.inputs)?;
        if self.run.header.parent.is_none() {
            // An undeclared input does not become a variable; one that a parent maps was meant for
            // the child.
            let declared = |name: &str| plan.variables.iter().any(|known| known.name == name);
            variables.retain(|name, _| declared(name));
        }
        check_bounds(
            &create.tags,
            Some(&create.metadata),
            Some(&create.configurable),
        )?;
        self.emit(RunEvent::RunStarted {
            workflow_id: self.run.plan.workflow.clone(),
            inputs: create.inputs.clone(),
            variables,
            transport: create.transport.clone(),
            engine_version: create.engine_version,
            tags: create.tags.clone(),
            metadata: create.metadata.clone(),
            configurable: create.configurable.clone(),
        });
        if create.announces_budget {
            self.announce_budget();
        }
        if create.start == Start::Now {
            self.schedule_everything();
            self.conclude();
        }
        Ok(())
    }
}

impl Plan {
    /// The initial variables of a run with these inputs.
    ///
    /// # Errors
    /// Why a run cannot be created with them.
    pub fn begin_with(&self, inputs: &Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
        if let Some(unmet) = self.unmet.clone() {
            return Err(Rejection::Unmet { unmet });
        }
        let variables = self.bind_inputs(inputs).map_err(Rejection::InvalidInputs)?;
        check_names(self, inputs)?;
        if json_size(inputs) > limits::MAX_VALUE_BYTES {
            return Err(Rejection::TooLarge {
                what: "the object of inputs",
            });
        }
        Ok(variables)
    }
}

/// Rejects inputs with the name of a channel: such an input would become a variable and bypass the
/// channel's reducer.
fn check_names(plan: &Plan, inputs: &Map<String, Value>) -> Result<(), Rejection> {
    let mut problems = Problems::new();
    for name in inputs.keys().filter(|name| plan.declares_channel(name)) {
        let what =
            "is a channel of the workflow, which takes no input; give the input another name";
        problems.add(pointer("", name), ProblemCode::InvalidValue, what);
    }
    problems.or(()).map_err(Rejection::InvalidInputs)
}

/// Rejects settings of a run, other than its inputs, that are too large.
pub(super) fn check_bounds(
    tags: &[String],
    metadata: Option<&Map<String, Value>>,
    configurable: Option<&Map<String, Value>>,
) -> Result<(), Rejection> {
    let too_large = |what| Err(Rejection::TooLarge { what });
    if configurable.is_some_and(|fields| json_size(fields) > limits::MAX_VALUE_BYTES) {
        return too_large("the configurable overlay");
    }
    if tags.len() > limits::MAX_TAGS {
        return too_large("the list of tags");
    }
    if tags
        .iter()
        .any(|tag| tag.chars().count() > limits::MAX_TAG_CHARS)
    {
        return too_large("a tag");
    }
    if let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) {
        let metadata = Value::Object(metadata.clone());
        if metadata.to_string().len() > limits::MAX_METADATA_BYTES {
            return too_large("the metadata");
        }
        if depth(&metadata) > limits::MAX_METADATA_DEPTH {
            return too_large("the nesting of the metadata");
        }
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
