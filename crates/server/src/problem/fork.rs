//! Errors of forking.

use hyper::StatusCode;
use kernel::fork::ForkError;
use kernel::replay::{Divergence, ReplayError};
use kernel::run::{Event, RunEvent};
use serde_json::{Value, json};

use super::Problem;

/// The source of a replay diverges at its first event under the rules of this build. A later
/// divergence yields a replay that reports it; at the first event no replay is made.
fn diverged(code: &'static str, left: &Divergence) -> Problem {
    let type_of = |event: &Option<Event>| {
        let stored = json!(event.as_ref().map(|event| &event.body));
        stored["type"].as_str().map(str::to_owned)
    };
    let wrote = match left.expected.as_ref().map(|event| &event.body) {
        Some(RunEvent::RunStarted { engine_version, .. }) => Some(*engine_version),
        _ => None,
    };
    let by = wrote.map_or_else(String::new, |version| {
        format!(" of engine version {version}")
    });
    let message = format!(
        "this build decides event {} of the run differently by the rules{by}, so the run cannot be \
         replayed; use the build that wrote it",
        left.seq
    );
    let problem = Problem::new(StatusCode::CONFLICT, code, message)
        .with("atSequence", left.seq)
        .with("divergenceKind", json!(left.kind));
    let more = [
        ("recordedType", type_of(&left.expected).map(Value::from)),
        ("decidedType", type_of(&left.actual).map(Value::from)),
        ("refusedWith", left.refused.map(Value::from)),
        ("engineVersion", wrote.map(Value::from)),
    ];
    more.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .fold(problem, |problem, (name, value)| problem.with(name, value))
}

impl From<ForkError> for Problem {
    fn from(refused: ForkError) -> Self {
        let message = refused.to_string();
        let code = refused.code();
        match refused {
            ForkError::BeyondLog { at, len } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
                    .with("fromSeq", at)
                    .with("events", len)
            }
            ForkError::Ended { seq } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message).with("endedAtSeq", seq)
            }
            ForkError::OverlayOnReplay => Self::invalid(message),
            ForkError::OtherWorkflow { .. }
            | ForkError::NodeMissing { .. }
            | ForkError::Unfit(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message),
            ForkError::Rejected(rejection) => Self::from(rejection),
            ForkError::Source(ReplayError::Diverged(left)) => diverged(code, &left),
            ForkError::Source(damage) => {
                tracing::error!(%damage, "the source of a fork is damaged");
                Self::damaged()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::run::event::DivergenceKind;

    use super::*;

    #[test]
    fn a_diverging_first_event_is_reported_as_such() {
        let started = json!({
            "seq": 0, "at": 1_000, "type": "run.started", "data": {
                "workflowId": "w", "inputs": {}, "variables": {}, "transport": "rest",
                "engineVersion": 4,
            },
        });
        let left = Divergence {
            seq: 0,
            kind: DivergenceKind::Missing,
            expected: serde_json::from_value(started).expect("an event"),
            actual: None,
            refused: Some("capability_required"),
        };
        let problem = Problem::from(ForkError::Source(ReplayError::Diverged(Box::new(left))));
        assert_eq!(
            (problem.status.as_u16(), problem.code),
            (409, "replay_diverged")
        );
        assert!(problem.message.contains("event 0"), "{}", problem.message);
        assert!(problem.message.contains("version 4"), "{}", problem.message);
        let details = problem.envelope()["details"].clone();
        assert_eq!(
            details,
            json!({
                "atSequence": 0, "divergenceKind": "missing", "recordedType": "run.started",
                "refusedWith": "capability_required", "engineVersion": 4,
            })
        );
        let damaged = Problem::from(ForkError::Source(ReplayError::Chain(3)));
        assert_eq!(
            (damaged.status.as_u16(), damaged.code),
            (500, "storage_damaged")
        );
    }
}
