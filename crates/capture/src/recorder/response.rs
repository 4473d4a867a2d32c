//! Determines the model's answer that is the response of an execution.

use serde_json::{Value, json};

use crate::call::{Call, Keep, Kind};
use crate::call_groups::overlap;
use crate::dialect::{self, Answer, Route};

/// The last text of a model. Concurrent calls count as one place; among these, the call whose
/// request text sorts last is taken, which does not depend on timing.
pub(super) fn last_text(calls: &[Call], keep: &dyn Keep) -> Option<String> {
    let models = calls.iter().filter(|call| call.kind == Kind::Model);
    let mut groups: Vec<Vec<&Call>> = Vec::new();
    for call in models {
        match groups.last_mut() {
            Some(group) if group.iter().any(|earlier| overlap(earlier, call)) => group.push(call),
            _ => groups.push(vec![call]),
        }
    }
    groups.into_iter().rev().find_map(|group| {
        let texts = group.into_iter().filter_map(|call| {
            let text = text(call, keep)?;
            Some((keep.get(call.input).ok()?, text))
        });
        texts.max().map(|(_, text)| text)
    })
}

/// The text of the answer to a call; `None` if it is empty or not kept.
fn text(call: &Call, keep: &dyn Keep) -> Option<String> {
    let output: Value = serde_json::from_slice(&keep.get(call.output?).ok()??).ok()?;
    let text = answer(&call.name, &output).text;
    Some(text).filter(|text| !text.is_empty())
}

fn answer(name: &str, output: &Value) -> Answer {
    let path = name.split_once('/').map_or(name, |(_, path)| path);
    let body = output["body"].as_str().unwrap_or_default();
    dialect::answer(Route::from_path(&format!("/{path}")), body)
}

/// The content of a model's answer: its status, its text, the tools it requests.
pub(crate) fn said(name: &str, output: &Value) -> Value {
    let answer = answer(name, output);
    let uses = answer.uses.iter();
    let uses = uses.map(|tool| json!({ "name": tool.name, "input": tool.input() }));
    json!({
        "status": output["status"], "text": answer.text, "tools": uses.collect::<Vec<_>>(),
    })
}
