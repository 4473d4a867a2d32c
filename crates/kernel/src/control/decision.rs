//! Decisions of an orchestrator: `next-worker`, `ask-user` or `terminate` (OpenWOP's
//! `OrchestratorDecision`, a closed object for each kind).
//!
//! `next-worker` may contain inputs for each worker (`nextWorkerInputs`, an object for each, in the
//! order of `nextWorkerIds`).

use serde_json::{Map, Value, json};

use crate::json::{self, Limits};
use crate::limits::{MAX_JSON_DEPTH, MAX_NAME_BYTES, MAX_VALUE_BYTES, MAX_WORKERS};

/// Below this confidence a person must confirm a decision before it is carried out.
pub(crate) const CONFIDENCE_FLOOR: f64 = 0.5;

/// The field with inputs for each worker.
pub(crate) const WORKER_INPUTS: &str = "nextWorkerInputs";

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// These workers run next, in this order; each is the id of a workflow.
    NextWorker(Vec<String>),
    /// Asks a person this question.
    AskUser(String),
    /// Ends the work.
    Terminate,
}

/// A decision with its confidence, and in its recorded form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) choice: Choice,
    /// From 0 to 1, if given.
    pub(crate) confidence: Option<f64>,
    /// The decision as shown in events: only the protocol's fields.
    pub(crate) value: Value,
}

impl Decided {
    /// Parses a decision: an object, or its JSON text as written by models and programs.
    pub(crate) fn parse(given: &Value) -> Result<Self, String> {
        let parsed;
        let fields = match given {
            Value::Object(fields) => fields,
            Value::String(text) => {
                let limits = Limits {
                    max_bytes: MAX_VALUE_BYTES,
                    max_depth: MAX_JSON_DEPTH,
                };
                parsed = json::parse(text.trim().as_bytes(), limits)
                    .map_err(|_| "is a text that is not JSON".to_owned())?;
                parsed.as_object().ok_or("is not an object")?
            }
            _ => return Err("is not an object".into()),
        };
        let kind = fields.get("kind").and_then(Value::as_str);
        let mut value = Map::new();
        let (choice, known): (Choice, &[&str]) = match kind {
            Some("next-worker") => {
                let workers = workers(fields.get("nextWorkerIds"))?;
                value.insert("nextWorkerIds".into(), json!(workers));
                if let Some(inputs) = inputs_of_workers(fields)? {
                    value.insert(WORKER_INPUTS.into(), inputs);
                }
                (Choice::NextWorker(workers), &["confidence"])
            }
            Some("ask-user") => match text(fields, "prompt")? {
                Some(prompt) => {
                    value.insert("prompt".into(), json!(prompt));
                    (Choice::AskUser(prompt), &[])
                }
                None => return Err("asks nothing: `prompt` is missing".into()),
            },
            Some("terminate") => {
                if let Some(reason) = text(fields, "reason")? {
                    value.insert("reason".into(), json!(reason));
                }
                if let Some(criteria) = fields.get("successCriteria") {
                    value.insert("successCriteria".into(), criteria_of(criteria)?);
                }
                (Choice::Terminate, &["confidence"])
            }
            _ => return Err("has none of the kinds next-worker, ask-user, terminate".into()),
        };
        let confidence = match fields.get("confidence") {
            Some(given) if known.contains(&"confidence") && !given.is_null() => {
                let sure = given.as_f64().filter(|n| (0.0..=1.0).contains(n));
                let sure = sure.ok_or("has a confidence that is not from 0 to 1")?;
                value.insert("confidence".into(), given.clone());
                Some(sure)
            }
            _ => None,
        };
        value.insert("kind".into(), json!(kind));
        Ok(Self {
            choice,
            confidence,
            value: Value::Object(value),
        })
    }

    /// The decision to end the work, with a reason.
    pub(crate) fn terminate(reason: &str) -> Self {
        Self {
            choice: Choice::Terminate,
            confidence: None,
            value: json!({ "kind": "terminate", "reason": reason }),
        }
    }

    /// Why its inputs cannot be assigned to its workers one by one.
    pub(crate) fn misfit(&self) -> Option<String> {
        let Choice::NextWorker(workers) = &self.choice else {
            return None;
        };
        let inputs = self.value.get(WORKER_INPUTS)?.as_array()?;
        (inputs.len() != workers.len()).then(|| {
            format!(
                "the decision names {} workers and brings {} `{WORKER_INPUTS}`; give one object \
                 for each worker, in the order of `nextWorkerIds`",
                workers.len(),
                inputs.len()
            )
        })
    }

    /// The confidence, if it is too low for carrying out the decision.
    pub(crate) fn below_floor(&self) -> Option<f64> {
        self.confidence.filter(|sure| *sure < CONFIDENCE_FLOOR)
    }
}

fn workers(given: Option<&Value>) -> Result<Vec<String>, String> {
    let items = given.and_then(Value::as_array);
    let items = items.filter(|items| (1..=MAX_WORKERS).contains(&items.len()));
    let Some(items) = items else {
        return Err(format!(
            "names no workers: `nextWorkerIds` is a list of 1 to {MAX_WORKERS}"
        ));
    };
    items
        .iter()
        .map(|item| match item.as_str() {
            Some(id) if (1..=MAX_NAME_BYTES).contains(&id.len()) => Ok(id.to_owned()),
            _ => Err("names a worker that is no workflow id".to_owned()),
        })
        .collect()
}

fn inputs_of_workers(fields: &Map<String, Value>) -> Result<Option<Value>, String> {
    match fields.get(WORKER_INPUTS) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(inputs)) if inputs.iter().all(Value::is_object) => {
            Ok(Some(Value::Array(inputs.clone())))
        }
        Some(_) => Err(format!("has `{WORKER_INPUTS}` that are no list of objects")),
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("has a `{key}` that is not a text")),
    }
}

fn criteria_of(given: &Value) -> Result<Value, String> {
    let wrong = || "has `successCriteria` that are not {key, met}".to_owned();
    let items = given.as_array().ok_or_else(wrong)?;
    items
        .iter()
        .map(|item| match (item.get("key"), item.get("met")) {
            (Some(Value::String(key)), Some(Value::Bool(met))) if !key.is_empty() => {
                Ok(json!({ "key": key, "met": met }))
            }
            _ => Err(wrong()),
        })
        .collect::<Result<_, _>>()
        .map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_read_from_an_object_or_its_text() {
        let given = json!({
            "kind": "next-worker", "nextWorkerIds": ["w"], "confidence": 0.4, "thought": "x",
        });
        for given in [given.clone(), Value::String(format!(" {given}\n"))] {
            let decided = Decided::parse(&given).expect("a decision");
            assert_eq!(decided.choice, Choice::NextWorker(vec!["w".into()]));
            assert_eq!(decided.below_floor(), Some(0.4));
            let shown = json!({ "kind": "next-worker", "nextWorkerIds": ["w"], "confidence": 0.4 });
            assert_eq!(decided.value, shown, "nothing the protocol does not know");
        }
        let sure = json!({ "kind": "terminate", "confidence": 0.5 });
        let sure = Decided::parse(&sure).expect("a decision");
        assert_eq!(sure.below_floor(), None);
    }

    #[test]
    fn worker_inputs_are_one_object_per_worker() {
        let brings = |inputs: Value| json!({ "kind": "next-worker", "nextWorkerIds": ["w", "w"], "nextWorkerInputs": inputs });
        let read = |inputs: Value| Decided::parse(&brings(inputs)).expect("a decision");
        let two = json!([{ "n": 1 }, { "n": [2] }]);
        let decided = read(two.clone());
        assert_eq!(
            (&decided.value["nextWorkerInputs"], decided.misfit()),
            (&two, None)
        );
        for (few, says) in [(json!([{ "n": 1 }]), "brings 1"), (json!([]), "brings 0")] {
            let why = read(few).misfit().expect("does not fit");
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(read(Value::Null).misfit(), None);
    }

    #[test]
    fn invalid_decisions_give_a_reason() {
        for (given, why) in [
            (json!(7), "not an object"),
            (json!("{"), "not JSON"),
            (json!({}), "none of the kinds"),
            (
                json!({ "kind": "next-worker", "nextWorkerIds": [] }),
                "no workers",
            ),
            (
                json!({ "kind": "next-worker", "nextWorkerIds": [1] }),
                "no workflow id",
            ),
            (
                json!({ "kind": "next-worker", "nextWorkerIds": ["w"], "nextWorkerInputs": [1] }),
                "no list of objects",
            ),
            (json!({ "kind": "ask-user" }), "asks nothing"),
            (
                json!({ "kind": "terminate", "confidence": 2 }),
                "from 0 to 1",
            ),
            (
                json!({ "kind": "terminate", "successCriteria": [1] }),
                "successCriteria",
            ),
        ] {
            let error = Decided::parse(&given).expect_err("no decision");
            assert!(error.contains(why), "{given}: {error}");
        }
    }
}
