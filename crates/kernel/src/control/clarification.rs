//! `core.clarificationGate`: waits for answers to questions.
//!
//! Every question must be answered, and the answer must fit the question's schema
//! if it has one. An answer is `{"answers": {id: answer}}` or `{"answers": [{"id": …, "answer":
//! …}]}`. Outputs: `value` (the whole answer) and `answers` by question.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::answer::{self, invalid};
use super::{
    Began, ConfigProblems, Context, ControlNode, Given, PortSensitivity, Reply, Spec, Wait,
    interrupt, misconfigured, owned, schema, sensitivity_of_gate, setting, with_resume_schema,
};
use crate::definition::config_keys::{LIST, PROFILE, RESUME_SCHEMA, TEXT, TIMEOUT_MS};
use crate::definition::{Node, Plan, PlanNode};
use crate::ids::NodeId;
use crate::run::InterruptKind;
use crate::run::event::RunEvent;
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The node kind.
pub(crate) struct ClarificationGate;

const SPEC: Spec = Spec {
    type_id: "core.clarificationGate",
    summary: "Waits for answers to questions.",
    config_keys: &[
        key!("questions": LIST,
            "Objects of id, question and, optionally, a schema of the answer."),
        key!("contextType": TEXT, "The subject of the questions."),
        TIMEOUT_MS,
        RESUME_SCHEMA,
        key!("key": TEXT, "The key of an answer; default: the node's id."),
        PROFILE,
    ],
    expects: Some((
        &["questions"],
        "fails when it starts: it needs `questions`, a list of objects of `id` and `question`",
    )),
    ..Spec::DEFAULT
};

impl ControlNode for ClarificationGate {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        with_resume_schema(check_config(&node.config), &node.config)
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&["value", "answers"]))
    }

    fn wait(&self, config: &Value) -> Option<Wait> {
        Some(Wait::from_config(config, "timeoutMs"))
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        sensitivity_of_gate(port)
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let questions = match questions(setting(cx, "questions")) {
            Ok(questions) => questions,
            Err(what) => return misconfigured(cx, what),
        };
        let mut data = Map::from_iter([("questions".to_owned(), Value::Array(questions))]);
        if let Some(Value::String(context)) = setting(cx, "contextType") {
            data.insert("contextType".into(), json!(context));
        }
        interrupt::ask(cx, InterruptKind::Clarification, Value::Object(data))
    }

    fn announcement(&self, open: &OpenInterrupt, node: &NodeId, visit: u32) -> Option<RunEvent> {
        announcement(open, node, visit)
    }

    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        judge(given).map(Reply::Answers)
    }
}

/// Maximum number of questions of one gate.
const MAX_QUESTIONS: usize = 1_000;

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
pub(crate) fn check_config(config: &Value) -> ConfigProblems {
    match config.get("questions").map(|given| questions(Some(given))) {
        Some(Err(what)) => vec![("questions", what)],
        // The questions may come from an input port.
        _ => Vec::new(),
    }
}

/// The event that announces a clarification.
pub(crate) fn announcement(open: &OpenInterrupt, node: &NodeId, visit: u32) -> Option<RunEvent> {
    if open.kind != InterruptKind::Clarification {
        return None;
    }
    let questions = open.data.get("questions").and_then(Value::as_array);
    Some(RunEvent::ClarificationRequested {
        interrupt_id: open.id.clone(),
        node_id: node.clone(),
        visit,
        questions: questions.cloned().unwrap_or_default(),
    })
}

/// The answers by question, if they are complete and fit.
pub(crate) fn judge(given: &Given<'_>) -> Result<Map<String, Value>, Rejection> {
    answer::check(given)?;
    let answers = answers(given.value)?;
    let questions = given.open.data.get("questions").and_then(Value::as_array);
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
fn answers(value: &Value) -> Result<Map<String, Value>, Rejection> {
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
