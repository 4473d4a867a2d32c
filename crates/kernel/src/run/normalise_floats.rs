//! Numbers as read back from the log.
//!
//! Canonical JSON writes `1.0` as `1` and `1e20` digit by digit. A state folded from the event as
//! decided would differ from one folded from its record, and the same log could be decided in two
//! ways. So every event is converted to the form that is read back before it is used.

use serde_json::{Map, Number, Value};

use crate::json;
use crate::run::event::{NodeError, RunEvent};

/// Converts every number of an event to the form that is read back.
pub(super) fn as_read_back(event: &mut RunEvent) {
    match event {
        RunEvent::RunStarted {
            inputs,
            variables,
            metadata,
            configurable,
            ..
        } => {
            for fields in [inputs, variables, metadata, configurable] {
                object(fields);
            }
        }
        RunEvent::RunCompleted { outputs, .. } | RunEvent::NodeCompleted { outputs, .. } => {
            object(outputs);
        }
        RunEvent::NodeStarted {
            inputs: Some(inputs),
            ..
        }
        | RunEvent::NodeDispatched { inputs, .. } => object(inputs),
        RunEvent::RunFailed { error, .. }
        | RunEvent::NodeFailed { error, .. }
        | RunEvent::NodeRetried {
            last_error: error, ..
        } => of_error(error),
        RunEvent::RunStopping {
            ending: crate::run::event::Ending::Failed { error, .. },
        } => of_error(error),
        RunEvent::ChildSettled {
            variables,
            outputs,
            error,
            ..
        } => {
            object(variables);
            object(outputs);
            error.iter_mut().for_each(of_error);
        }
        RunEvent::InterruptRequested {
            data,
            resume_schema,
            ..
        } => {
            value(data);
            resume_schema.iter_mut().for_each(value);
        }
        RunEvent::InterruptResolved {
            resume_value: of, ..
        }
        | RunEvent::SignalReceived { payload: of, .. }
        | RunEvent::ChannelWritten { value: of, .. }
        | RunEvent::VariableChanged { next: of, .. }
        | RunEvent::BudgetThresholdCrossed { percent: of, .. } => value(of),
        RunEvent::ApprovalReceived {
            refine_feedback,
            edited_artifact_data,
            ..
        } => refine_feedback
            .iter_mut()
            .chain(edited_artifact_data)
            .for_each(value),
        RunEvent::ApprovalGranted { vote, .. }
        | RunEvent::ApprovalRejected { vote, .. }
        | RunEvent::ApprovalOverridden { vote, .. }
        | RunEvent::ApprovalAsked { vote, .. } => vote.resume_value.iter_mut().for_each(value),
        RunEvent::ClarificationRequested { questions, .. } => questions.iter_mut().for_each(value),
        RunEvent::ClarificationResolved { answers, .. } => object(answers),
        RunEvent::AgentDecided { decision: of, .. }
        | RunEvent::OrchestratorDecided { decision: of, .. }
        | RunEvent::ConfidenceEscalated {
            original_decision: of,
            ..
        } => value(of),
        RunEvent::ChainStepped {
            error: Some(error), ..
        } => of_error(error),
        RunEvent::RunForked {
            metadata,
            configurable,
            ..
        } => metadata.iter_mut().chain(configurable).for_each(object),
        RunEvent::OutputChunk { meta, .. } => meta.iter_mut().for_each(value),
        RunEvent::ToolCalled(call) => call.inputs.iter_mut().for_each(value),
        RunEvent::ToolReturned(call) => {
            call.outcome.iter_mut().for_each(value);
            call.error.iter_mut().for_each(of_error);
        }
        _ => {}
    }
}

fn of_error(error: &mut NodeError) {
    error.details.iter_mut().for_each(value);
}

fn object(fields: &mut Map<String, Value>) {
    fields.values_mut().for_each(value);
}

/// Converts a value from outside to the form that is read back, before it is compared.
pub(super) fn value_as_read_back(of: &mut Value) {
    value(of);
}

fn value(of: &mut Value) {
    match of {
        Value::Number(number) => {
            if let Some(read) = read_back(number) {
                *number = read;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(value),
        Value::Object(fields) => object(fields),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The other form that a number is read back in, if there is one.
fn read_back(number: &Number) -> Option<Number> {
    let is_whole = number.is_f64() && number.as_f64().is_some_and(|x| x.fract() == 0.0);
    let read = || serde_json::from_slice(&json::canonical(number)).ok();
    is_whole.then(read).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value) -> Value {
        serde_json::from_slice(&json::canonical(value)).expect("canonical JSON is JSON")
    }

    #[test]
    fn a_number_equals_its_logged_form() {
        for number in [
            json!(1.0),
            json!(-0.0),
            json!(1e20),
            json!(1e21),
            json!(9_007_199_254_740_993_u64),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(18_446_744_073_709_551_616.0),
            json!(0.1),
        ] {
            let mut read = number.clone();
            value(&mut read);
            assert_eq!(read, round_trip(&number), "{number}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read_back_unchanged(bits in any::<u64>(), whole in any::<i64>()) {
            let double = f64::from_bits(bits);
            for number in [json!(double), json!(whole), json!(whole as f64), json!(bits)] {
                let mut read = number.clone();
                value(&mut read);
                prop_assert_eq!(&read, &round_trip(&number));
                prop_assert_eq!(&round_trip(&read), &read);
            }
        }
    }
}
