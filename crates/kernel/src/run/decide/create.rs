//! Creating a run.

use serde_json::Value;

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
        check_bounds(create)?;
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

fn check_bounds(create: &Create) -> Result<(), Rejection> {
    let too_large = |what| Err(Rejection::TooLarge { what });
    for (fields, what) in [
        (&create.inputs, "the object of inputs"),
        (&create.configurable, "the configurable overlay"),
    ] {
        if json_size(fields) > limits::MAX_VALUE_BYTES {
            return too_large(what);
        }
    }
    if create.tags.len() > limits::MAX_TAGS {
        return too_large("the list of tags");
    }
    if create
        .tags
        .iter()
        .any(|tag| tag.len() > limits::MAX_TAG_BYTES)
    {
        return too_large("a tag");
    }
    if !create.metadata.is_empty() {
        let metadata = Value::Object(create.metadata.clone());
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
