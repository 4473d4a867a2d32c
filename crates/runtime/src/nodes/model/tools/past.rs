//! Tool calls made before the attempt's holder was lost: rebuilding the model's conversation.

use kernel::ids::AttemptKey;
use kernel::run::report::{ToolReturned, ToolStatus, ToolTransport};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::offer::Via;
use super::untrusted::marked;
use super::{Silenced, Toolbox, over, result, run, told};
use crate::models::ask::{Call, CallResult, Message};
use crate::nodes::called::Called;
use crate::nodes::process::Process;
use crate::nodes::{NodeContext, Past, PastCall, Started};

/// The key of a program that is the `nth` call of an attempt after `restarts` restarts.
pub(super) fn key(attempt: &AttemptKey, restarts: u32, nth: u32) -> AttemptKey {
    AttemptKey::new(format!("{attempt}.tool.{restarts}.{nth}"))
}

/// The key of the program that a past call ran.
fn key_of(call: &PastCall, attempt: &AttemptKey) -> Option<AttemptKey> {
    let id = call.called.call_id.strip_prefix(attempt.as_str())?;
    let (restarts, nth) = id.strip_prefix('.')?.split_once('.')?;
    Some(key(attempt, restarts.parse().ok()?, nth.parse().ok()?))
}

/// Whether a call with an unknown result was of a program that has left one.
pub(in super::super) fn has_result(call: &PastCall, past: &Past<'_>) -> bool {
    let is_program = call.called.transport == ToolTransport::Native;
    let record = || {
        past.ports
            .supervisor
            .record(past.run, &key_of(call, past.key)?)
    };
    is_program && record().is_some()
}

impl Toolbox {
    /// The conversation before the holder of the attempt was lost. A call with an unknown result is
    /// completed: its result is adopted, or it is made again.
    pub(in super::super) async fn recall(
        &mut self,
        started: &Started,
        cx: &NodeContext,
        process: &Process,
    ) -> Result<Vec<Message>, Silenced> {
        let past = started.past();
        let mut messages = Vec::new();
        for (n, call) in past.iter().enumerate() {
            let is_last = n + 1 == past.len();
            let asked = self.asked(n, call);
            self.rounds = self.rounds.max(call.called.round);
            let answer = match &call.returned {
                Some(returned) => {
                    self.said += 1;
                    self.made += u64::from(returned.status != ToolStatus::Forbidden);
                    told_again(&asked, returned, cx)
                }
                None if is_last => self.end(call, &asked, started, cx, process).await?,
                // A later life has already made it again.
                None => continue,
            };
            let (text, calls) = (String::new(), vec![asked]);
            messages.push(Message::Assistant { text, calls });
            messages.push(Message::Results(vec![answer]));
        }
        Ok(messages)
    }

    /// A past call in the form of a model's request.
    fn asked(&self, n: usize, past: &PastCall) -> Call {
        let called = &past.called;
        let offer = self
            .offers
            .iter()
            .find(|offer| offer.full == called.tool_name);
        let arguments = called
            .inputs
            .clone()
            .unwrap_or_else(|| Value::Object(Map::new()));
        Call {
            // The characters that providers accept.
            id: format!("past_{n}"),
            name: offer
                .map_or(&called.tool_name, |offer| &offer.shown.name)
                .clone(),
            arguments: arguments.to_string(),
        }
    }

    /// Completes a call that was in progress.
    async fn end(
        &mut self,
        past: &PastCall,
        asked: &Call,
        started: &Started,
        cx: &NodeContext,
        process: &Process,
    ) -> Result<CallResult, Silenced> {
        let offer = self.offers.iter();
        let offer = offer
            .clone()
            .find(|offer| offer.full == past.called.tool_name);
        let key = key_of(past, started.key());
        let left = key.filter(|key| cx.ports.supervisor.record(started.run(), key).is_some());
        if let (Some(key), Some(Via::Process(config))) = (left, offer.map(|offer| &offer.via)) {
            self.said += 1;
            self.made += 1;
            let since = Instant::now();
            let arguments = past.called.inputs.as_ref().and_then(Value::as_object);
            let arguments = arguments.cloned().unwrap_or_default();
            let called = Called::before(&past.called);
            let keys = (key, self.returned.effect(started, &called));
            let done = run(process, config.clone(), arguments, started, cx, keys).await;
            self.returned.count(&called);
            let done = over(&called, done, since, cx).await;
            return result(asked, done, cx);
        }
        let done = self.one(asked, started, cx, process).await;
        result(asked, done, cx)
    }
}

/// The result of a completed call, as it was sent to the model.
fn told_again(call: &Call, returned: &ToolReturned, cx: &NodeContext) -> CallResult {
    let is_error = returned.status != ToolStatus::Ok;
    let text = match (&returned.outcome, &returned.error) {
        (Some(outcome), None) => marked(&returned.tool_name, &said(outcome)),
        (_, Some(error)) => told(error),
        (None, None) => marked(&returned.tool_name, ""),
    };
    CallResult {
        id: call.id.clone(),
        text: cx.ports.secrets.redacted(&text),
        is_error,
    }
}

/// The text of a tool's output: that of a program, or of a server's content blocks.
fn said(outcome: &Value) -> String {
    if let Some(stdout) = outcome.get("stdout").and_then(Value::as_str) {
        return stdout.to_owned();
    }
    let blocks = outcome.as_array().map_or(&[][..], Vec::as_slice);
    let words = blocks
        .iter()
        .filter_map(|block| block.get("text")?.as_str());
    let words: Vec<&str> = words.collect();
    if words.is_empty() {
        outcome.to_string()
    } else {
        words.join("\n")
    }
}
