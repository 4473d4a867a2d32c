//! The divergence of a replay, in words and with both sides.

use serde_json::{Value, json};

use super::{Recorder, State};
use crate::call::Call;
use crate::replayer::{Divergence, Reason, Side};

impl Recorder {
    /// The call that came.
    pub(super) fn actual(&self, call: &Call, input: &Value) -> Side {
        Side {
            kind: call.kind.as_str(),
            name: call.name.clone(),
            input: input.clone(),
        }
    }

    /// A call after the end of the recording.
    pub(super) fn beyond(&self, state: &State, actual: Side) -> Divergence {
        let step = state
            .replayer
            .as_ref()
            .map_or(0, |replayer| replayer.step(None));
        let message = format!(
            "step {step}: {} was made after the end of the recording",
            told(&actual)
        );
        Divergence {
            step,
            reason: Reason::Added,
            at: None,
            recorded_step: None,
            expected: None,
            actual: Some(actual),
            message,
        }
    }

    pub(super) fn side(&self, call: &Call) -> Side {
        let source = self.source.as_deref().unwrap_or(&*self.keep);
        let input = match source.get(call.input) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            _ => json!({ "hash": faces::provenance::hash::written(&call.input) }),
        };
        Side {
            kind: call.kind.as_str(),
            name: call.name.clone(),
            input,
        }
    }
}

/// The text for a side.
pub(super) fn told(side: &Side) -> String {
    format!("{} {}", side.kind, side.name)
}
