//! Finds empty references: a node that was skipped, or produced nothing, leaves a gap in the inputs
//! of later nodes.

use kernel::run::RunEvent;
use serde_json::{Map, Value};

use super::{NodeStatus, Projection};

impl Projection {
    /// The empty references of a starting node to earlier nodes, with the reason where it is known:
    /// `{N-002.output} is empty: N-002 was skipped`. Later attempts of a node get the inputs of the
    /// first and are not reported again.
    pub fn empty_references(&self, body: &RunEvent) -> Vec<String> {
        let RunEvent::NodeStarted {
            node_id,
            attempt: 0,
            inputs,
            ..
        } = body
        else {
            return Vec::new();
        };
        let Some(ix) = self.plan.node_ix(node_id.as_str()) else {
            return Vec::new();
        };
        let nothing = Map::new();
        let inputs = inputs.as_ref().unwrap_or(&nothing);
        let args = self.plan.node(ix).config.get("args");
        let args = args.and_then(Value::as_array).into_iter().flatten();
        let mut told: Vec<String> = Vec::new();
        for empty in args.filter_map(|part| self.empty(part, inputs)) {
            if !told.contains(&empty) {
                told.push(empty);
            }
        }
        told
    }

    fn empty(&self, part: &Value, inputs: &Map<String, Value>) -> Option<String> {
        let port = part.get("input")?.as_str()?;
        let name = port.strip_prefix('{')?.strip_suffix('}')?;
        let source = name.rsplit_once('.').and_then(|(id, _)| self.node(id));
        // A variable may be empty.
        if source.is_none() && !name.starts_with("prev_") {
            return None;
        }
        let (value, shown) = match part.get("index").and_then(Value::as_u64) {
            Some(index) => {
                let value = inputs.get(port);
                let value = value.and_then(|list| list.get(usize::try_from(index).ok()?));
                (value, format!("{{{name}[{index}]}}"))
            }
            None => (inputs.get(port), port.to_owned()),
        };
        let is_empty = match value {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        let reason = match source.map(super::NodeState::status) {
            Some(NodeStatus::Skipped) => {
                let (id, _) = name.rsplit_once('.')?;
                format!(": {id} was skipped")
            }
            _ => String::new(),
        };
        is_empty.then(|| format!("{shown} is empty{reason}"))
    }
}
