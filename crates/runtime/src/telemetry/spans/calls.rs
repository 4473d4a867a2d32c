//! Spans of attempts' external calls: models, tools, HTTP servers, programs.

use std::collections::HashMap;

use kernel::ids::{AttemptId, NodeId, StreamId};
use kernel::run::Usage;
use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus};
use kernel::time::Timestamp;
use kernel::trace::{self, TraceId, attempt_span};

use super::{Attribute, Span, Visit};

/// An external call.
pub(super) struct Call {
    provider: String,
    start: Timestamp,
    end: Timestamp,
    /// Its number among those of its attempt.
    nth: String,
    attributes: Vec<(&'static str, Attribute)>,
    error: Option<String>,
}

/// Calls read from a log.
#[derive(Default)]
pub(super) struct Calls {
    /// Model answers of the current attempt, by node.
    answers: HashMap<NodeId, Vec<Usage>>,
    /// The start times of tool calls that have not returned.
    tools: HashMap<(NodeId, u32, u32, String), Timestamp>,
}

impl Calls {
    /// Records a model's answer. The log reports it at the end of the attempt.
    pub(super) fn answered(&mut self, node: &NodeId, usage: &Usage) {
        let answers = self.answers.entry(node.clone()).or_default();
        answers.push(usage.clone());
    }

    /// Records a tool call.
    pub(super) fn called(&mut self, called: &ToolCalled, at: Timestamp) {
        let ToolCalled {
            node_id,
            visit,
            attempt,
            call_id,
            ..
        } = called;
        let key = (node_id.clone(), *visit, *attempt, call_id.clone());
        self.tools.insert(key, at);
    }

    /// Records the return of a tool call. `None` without a recorded call.
    pub(super) fn returned(&mut self, returned: &ToolReturned, at: Timestamp) -> Option<Call> {
        let ToolReturned {
            node_id,
            visit,
            attempt,
            call_id,
            ..
        } = returned;
        let key = (node_id.clone(), *visit, *attempt, call_id.clone());
        let start = self.tools.remove(&key)?;
        if returned.status == ToolStatus::Forbidden {
            return None;
        }
        let error = returned.error.as_ref().map(|error| error.code.clone());
        let (server, tool) = server_of(&returned.tool_name);
        Some(Call {
            provider: server.to_owned(),
            start,
            end: at,
            nth: format!("tool\0{call_id}"),
            attributes: vec![("gen_ai.tool.name", tool.into())],
            error: match returned.status {
                ToolStatus::Ok => None,
                ToolStatus::Error | ToolStatus::Forbidden => {
                    Some(error.unwrap_or_else(|| "error".to_owned()))
                }
            },
        })
    }

    /// The calls of an attempt that ends at `at`. Model answers are placed one after the other up
    /// to its end: their durations are in the log, their start times are not.
    pub(super) fn of_attempt(
        &mut self,
        attempt: &AttemptId,
        visit: &Visit,
        at: Timestamp,
        error: Option<&str>,
    ) -> Vec<Call> {
        let mut end = at;
        let answers = self.answers.remove(&attempt.node).unwrap_or_default();
        let mut calls: Vec<Call> = Vec::with_capacity(answers.len());
        for (nth, usage) in answers.into_iter().enumerate().rev() {
            let took = i64::try_from(usage.duration_ms.unwrap_or(0)).unwrap_or(i64::MAX);
            let start = Timestamp(end.0.saturating_sub(took)).max(visit.attempt_start);
            calls.push(Call {
                start,
                end,
                nth: format!("model\0{nth}"),
                attributes: cost(&usage),
                provider: usage.provider,
                error: None,
            });
            end = start;
        }
        calls.reverse();
        if let Some(provider) = provider_of(&visit.type_id) {
            calls.push(Call {
                provider: provider.to_owned(),
                start: visit.attempt_start,
                end: at,
                nth: String::new(),
                attributes: Vec::new(),
                error: error.map(str::to_owned),
            });
        }
        calls
    }
}

impl Call {
    /// Its span, as a child of its attempt's.
    pub(super) fn span(
        self,
        trace: TraceId,
        run: &StreamId,
        attempt: &AttemptId,
        mut attributes: Vec<(&'static str, Attribute)>,
    ) -> Span {
        attributes.extend(self.attributes);
        let nth = self.nth;
        Span {
            name: format!("openwop.activity.{}", self.provider),
            trace,
            id: trace::span(&format!("call\0{run}\0{attempt}\0{nth}")),
            parent: Some(attempt_span(run, attempt)),
            start: self.start,
            end: Some(self.end),
            is_call: true,
            attributes,
            events: Vec::new(),
            error: self.error,
            link: None,
        }
    }
}

/// The server and the tool of a name such as `files.read`.
pub(crate) fn server_of(tool: &str) -> (&str, &str) {
    tool.split_once('.').unwrap_or(("mcp", tool))
}

/// The provider of a node type whose attempts are one call each.
pub(crate) fn provider_of(type_id: &str) -> Option<&'static str> {
    match type_id {
        "runwright.http" => Some("http"),
        "runwright.process" => Some("process"),
        _ => None,
    }
}

/// The cost attributes of a call. These names and no others (OpenWOP v1 `observability.md`, cost
/// attribution).
fn cost(usage: &Usage) -> Vec<(&'static str, Attribute)> {
    let total = usage.input_tokens.saturating_add(usage.output_tokens);
    let mut attributes: Vec<(&'static str, Attribute)> = vec![
        ("gen_ai.response.model", usage.model.as_str().into()),
        ("openwop.cost.provider", usage.provider.as_str().into()),
        ("openwop.cost.tokens.input", usage.input_tokens.into()),
        ("openwop.cost.tokens.output", usage.output_tokens.into()),
        ("openwop.cost.tokens.total", total.into()),
    ];
    if let Some(usd) = usage.cost_estimate_usd {
        attributes.push(("openwop.cost.usd", Attribute::Number(usd)));
        attributes.push(("openwop.cost.estimated", Attribute::Flag(true)));
    }
    attributes
}
