//! Requests from tool servers that their client never answered.
//!
//! A server's request is kept with its notifications around a call, and the client's answer is a
//! call of its own. A request without an answer was never answered, or only after the server had
//! continued: a replay repeats it and does not wait.

use serde_json::{Value, json};

use crate::call::{Call, Keep, OF_CLIENT};

/// An answer of a client: the method of the request, and its parameters.
pub(crate) type Answer = (String, Value);

/// The client's answers to requests within a call, or before any call.
pub(crate) fn answers(calls: &[Call], within: u64, keep: &dyn Keep) -> Vec<Answer> {
    let of_client = calls.iter().filter(|call| call.is_of_client());
    let its = of_client.filter(|call| call.parent.is_none_or(|parent| parent == within));
    its.filter_map(|call| {
        let bytes = keep.get(call.input).ok()??;
        let mut input: Value = serde_json::from_slice(&bytes).ok()?;
        let method = call.name.strip_prefix(OF_CLIENT)?;
        Some((method.to_owned(), input["params"].take()))
    })
    .collect()
}

/// The method of a request among a server's messages.
pub(crate) fn question(told: &Value) -> Option<&str> {
    let message = &told["message"];
    let method = message["method"].as_str();
    method.filter(|_| !message["id"].is_null())
}

/// Marks unanswered requests among a server's messages around a call as open, in order. Returns
/// their methods, including those that were already marked.
pub(crate) fn leave_open<'a>(
    told: impl IntoIterator<Item = &'a mut Value>,
    mut answers: Vec<Answer>,
) -> Vec<String> {
    let mut open = Vec::new();
    for told in told {
        let Some(method) = question(told).map(str::to_owned) else {
            continue;
        };
        let mut params = told["message"]["params"].clone();
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        let is_its = |(of, with): &Answer| *of == method && *with == params;
        let answered = answers.iter().position(is_its);
        match answered.filter(|_| told["open"] != true) {
            Some(answered) => drop(answers.swap_remove(answered)),
            None => {
                told["open"] = json!(true);
                open.push(method);
            }
        }
    }
    open
}

/// An unanswered request.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Unanswered {
    /// The method: `sampling/createMessage`, `elicitation/create`, `roots/list`.
    pub method: String,
    /// The step of the call that the request is kept with.
    pub step: u64,
}

/// Every request of a recording that was answered never, or too late.
pub fn unanswered(calls: &[Call], keep: &dyn Keep) -> Vec<Unanswered> {
    let mut all = Vec::new();
    for call in calls {
        let mut told: Vec<Value> = Vec::new();
        for notified in &call.notified {
            let bytes = keep.get(notified.hash).ok().flatten();
            let list = bytes.and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
            told.extend(list.unwrap_or_default());
        }
        if told.iter().all(|told| question(told).is_none()) {
            continue;
        }
        let open = leave_open(&mut told, answers(calls, call.seq, keep));
        all.extend(open.into_iter().map(|method| Unanswered {
            method,
            step: call.seq,
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_requests_await_an_answer_and_each_answer_counts_once() {
        let question = |id: &str, params: Value| json!({ "message": { "id": id, "method": "roots/list", "params": params } });
        let mut told = vec![
            json!({ "message": { "method": "notifications/message", "params": {} } }),
            question("a", json!({ "n": 1, "_meta": { "token": 1 } })),
            question("b", json!({ "n": 2 })),
            question("c", json!({ "n": 1 })),
        ];
        let answers = vec![("roots/list".to_owned(), json!({ "n": 1 }))];
        assert_eq!(leave_open(&mut told, answers), ["roots/list"; 2]);
        let open: Vec<bool> = told.iter().map(|told| told["open"] == true).collect();
        assert_eq!(open, [false, false, true, true]);
    }
}
