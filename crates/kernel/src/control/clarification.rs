//! `core.clarificationGate`: waits for answers to questions.
//!
//! Config: `questions` [{`id`, `question`, `schema`?}], `contextType`, `timeoutMs`, `key`,
//! `resumeSchema`. Every question must be answered, and the answer must fit the question's schema
//! if it has one. An answer is `{"answers": {id: answer}}` or `{"answers": [{"id": …, "answer":
//! …}]}`. Outputs: `value` (the whole answer) and `answers` by question.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::answer::{self, invalid};
use super::{Began, Context, interrupt, misconfigured, schema, setting};
use crate::definition::PlanNode;
use crate::run::capacity::Answerer;
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// Maximum number of questions of one gate.
const MAX_QUESTIONS: usize = 1_000;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let questions = match questions(setting(cx, "questions")) {
        Ok(questions) => questions,
        Err(what) => return misconfigured(cx, what),
    };
    let mut data = Map::from_iter([("questions".to_owned(), Value::Array(questions))]);
    if let Some(Value::String(context)) = setting(cx, "contextType") {
        data.insert("contextType".into(), json!(context));
    }
    interrupt::ask(cx, "clarification", Value::Object(data))
}

/// The questions of a config, reduced to the protocol's fields.
fn questions(configured: Option<&Value>) -> Result<Vec<Value>, String> {
    let items = match configured.and_then(Value::as_array) {
        Some(items) if (1..=MAX_QUESTIONS).contains(&items.len()) => items,
        _ => {
            return Err(format!(
                "needs config.questions, a list of 1 to {MAX_QUESTIONS}"
            ));
        }
    };
    let mut ids = BTreeSet::new();
    let mut questions = Vec::new();
    for item in items {
        let text = |key: &str| {
            let text = item.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
                .ok_or_else(|| format!("every question needs a text `{key}`"))
        };
        let id = text("id")?;
        if !ids.insert(id) {
            return Err("two questions have the same id".into());
        }
        let mut question = json!({ "id": id, "question": text("question")? });
        if let Some(of) = item.get("schema").filter(|of| !of.is_null()) {
            if !of.is_object() {
                return Err("the schema of a question must be an object".into());
            }
            schema::check(of, "").map_err(|error| format!("the schema of a question: {error}"))?;
            question["schema"] = of.clone();
        }
        questions.push(question);
    }
    Ok(questions)
}

/// Faults in the config of a gate, by its key.
pub(crate) fn check_config(config: &Value) -> Vec<(&'static str, String)> {
    match config.get("questions").map(|given| questions(Some(given))) {
        Some(Err(what)) => vec![("questions", what)],
        // The questions may come from an input port.
        _ => Vec::new(),
    }
}

/// The answers by question, if they are complete and fit.
pub(crate) fn judge(
    node: &PlanNode,
    open: &OpenInterrupt,
    value: &Value,
    who: Answerer<'_>,
) -> Result<Map<String, Value>, Rejection> {
    answer::check(node, open, value, who)?;
    let answers = given(value)?;
    let questions = open.data.get("questions").and_then(Value::as_array);
    for question in questions.into_iter().flatten() {
        let id = question
            .get("id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(answer) = answers.get(id) else {
            return Err(invalid(format!("the question `{id}` has no answer")));
        };
        if let Some(schema) = question.get("schema") {
            answer::fits(schema, answer, &format!("the answer to `{id}`"))?;
        }
    }
    Ok(answers)
}

/// The answers from either of the two forms.
fn given(value: &Value) -> Result<Map<String, Value>, Rejection> {
    match value.get("answers") {
        Some(Value::Object(answers)) => Ok(answers.clone()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| match (item.get("id"), item.get("answer")) {
                (Some(Value::String(id)), Some(answer)) => Ok((id.clone(), answer.clone())),
                _ => Err(invalid(
                    "each of `answers` must have an `id` and an `answer`",
                )),
            })
            .collect(),
        _ => Err(invalid("it must have `answers` by question")),
    }
}
