//! Creating a run.

use serde_json::{Map, Value};

use super::Decision;
use crate::limits;
use crate::run::cause::Start;
use crate::run::command::Create;
use crate::run::event::RunEvent;
use crate::run::rejection::Rejection;
use crate::run::size::json_size;

impl Decision {
    pub(super) fn create(&mut self, create: &Create) -> Result<(), Rejection> {
        let variables = self
            .run
            .plan
            .bind_inputs(&create.inputs)
            .map_err(Rejection::InvalidInputs)?;
        if json_size(&create.inputs) > limits::MAX_VALUE_BYTES {
            return Err(Rejection::TooLarge {
                what: "the object of inputs",
            });
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
        if create.start == Start::Now {
            self.schedule_everything();
            self.conclude();
        }
        Ok(())
    }
}

/// Refuses what a caller says about a run beside its inputs when it is too large.
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
