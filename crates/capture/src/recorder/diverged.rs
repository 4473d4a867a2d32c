//! Where a replay leaves its recording, in words and with both sides.

use serde_json::{Value, json};

use super::{Recorder, State};
use crate::call::Call;
use crate::tape::{Divergence, Reason, Side, first_difference};

impl Recorder {
    pub(super) fn divergence(
        &self,
        state: &State,
        call: &Call,
        input: &Value,
        expected: Option<usize>,
        found: Option<usize>,
    ) -> Divergence {
        let step = state.tape.as_ref().map_or(0, |tape| tape.step(expected));
        let recorded = |place: usize| state.tape.as_ref().map(|tape| tape.calls()[place].clone());
        let actual = Side {
            kind: call.kind.as_str(),
            name: call.name.clone(),
            input: input.clone(),
        };
        let expected = expected.and_then(recorded).map(|call| self.side(&call));
        let found = found.and_then(recorded);
        let (reason, at, message) = match (&expected, &found) {
            (None, _) => (
                Reason::Added,
                None,
                format!(
                    "step {step}: {} came after the end of the recording",
                    told(&actual)
                ),
            ),
            (Some(expected), Some(found)) => (
                Reason::OutOfOrder,
                None,
                format!(
                    "step {step}: {} came, which was recorded later (call {}); {} was recorded here",
                    told(&actual),
                    found.seq,
                    told(expected)
                ),
            ),
            (Some(expected), None)
                if expected.kind == actual.kind && expected.name == actual.name =>
            {
                let at = first_difference(&expected.input, &actual.input);
                let place = match at.as_deref() {
                    Some("") | None => String::new(),
                    Some(at) => format!(" at {at}"),
                };
                let message = format!("step {step}: {}: the input differs{place}", told(&actual));
                (Reason::Changed, at, message)
            }
            (Some(expected), None) => (
                Reason::Changed,
                None,
                format!(
                    "step {step}: {} came, and {} was recorded here",
                    told(&actual),
                    told(expected)
                ),
            ),
        };
        Divergence {
            step,
            reason,
            at,
            recorded_step: found.map(|call| call.seq),
            expected,
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

/// A side in words.
pub(super) fn told(side: &Side) -> String {
    format!("{} {}", side.kind, side.name)
}
