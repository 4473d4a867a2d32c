//! What the model's traffic says of tools that were run where we did not see them, and of the
//! execution as a whole.

use std::collections::BTreeMap;

use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use serde_json::Value;

use super::{Recorder, State, Use, now};
use crate::call::{Call, Kind};
use crate::clean::Cleaner;
use crate::dialect::{Answer, Asked, Route};

impl Recorder {
    /// Results on their way back to the model: tools that were called somewhere we did not see.
    pub(super) fn settle(&self, state: &mut State, asked: &Asked) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for result in &asked.results {
            // Some servers give the same id again: the n-th result is that of the n-th use.
            let nth = seen.entry(result.id.as_str()).or_default();
            let mut uses = state.uses.iter().enumerate();
            let place = uses
                .by_ref()
                .filter(|(_, tool)| tool.tool.id == result.id)
                .nth(*nth)
                .map(|(place, _)| place);
            *nth += 1;
            let Some(place) = place else { continue };
            if state.uses[place].is_settled {
                continue;
            }
            state.uses[place].is_settled = true;
            let tool = Use {
                tool: state.uses[place].tool.clone(),
                by: state.uses[place].by,
                at: state.uses[place].at,
                is_settled: true,
            };
            let call = self.observed(state, &tool, Some(&result.output), result.is_error);
            self.write(state, call);
        }
    }

    /// A call that was only seen in the traffic.
    pub(super) fn observed(
        &self,
        state: &mut State,
        tool: &Use,
        output: Option<&Value>,
        is_error: bool,
    ) -> Call {
        let mut kept = |mut value: Value| {
            self.cleaner.value(&mut value);
            let bytes = canonical_json(&value).into_bytes();
            match self.keep.put(&bytes) {
                Ok(digest) => digest,
                Err(error) => {
                    state.failure.get_or_insert(error.to_string());
                    Digest::of(&bytes)
                }
            }
        };
        let input = kept(tool.tool.input());
        let output = output.map(|output| kept(output.clone()));
        let seq = state.next;
        state.next += 1;
        Call {
            seq,
            kind: Kind::Tool,
            name: self.cleaner.text(&tool.tool.name),
            input,
            output,
            started: tool.at,
            ended: output.map(|_| now()),
            is_error,
            effect_class: None,
            call_id: Some(self.cleaner.text(&tool.tool.id)),
            parent: Some(tool.by),
            observed: true,
            effects: Vec::new(),
        }
    }

    /// What an answer says of the execution.
    pub(super) fn heard(
        &self,
        state: &mut State,
        seq: u64,
        route: Route,
        output: &Value,
        at: Timestamp,
    ) {
        let body = output["body"].as_str().unwrap_or_default();
        let answer: Answer = crate::dialect::answer(route, body);
        let status = output["status"].as_u64().unwrap_or(0) as u16;
        state
            .enforcement
            .answered(status, body, answer.fingerprint.as_deref());
        let traffic = &mut state.traffic;
        if answer.model.is_some() {
            traffic.served_model = answer.model;
        }
        if let Some((input, output)) = answer.tokens {
            let (before_in, before_out) = traffic.tokens.unwrap_or_default();
            traffic.tokens = Some((before_in + input, before_out + output));
        }
        if !answer.text.is_empty() {
            traffic.text = Some(answer.text);
        }
        let uses = answer.uses.into_iter().map(|tool| Use {
            tool,
            by: seq,
            at,
            is_settled: false,
        });
        state.uses.extend(uses);
    }
}

/// A tool that was run through us and that a model had asked for is one call, not two.
pub(super) fn claim(uses: &mut [Use], call: &mut Call) {
    let is_meant = |tool: &&mut Use| {
        let name = tool.tool.name.as_str();
        let suffix = format!("__{}", call.name);
        !tool.is_settled
            && tool.at <= call.started
            && (name == call.name || name.ends_with(&suffix))
    };
    if let Some(tool) = uses.iter_mut().find(is_meant) {
        tool.is_settled = true;
        call.call_id = Some(tool.tool.id.clone());
        call.parent = Some(tool.by);
    }
}

/// Cleans the body of an answer by what it is.
pub(super) fn clean_answer(output: &mut Value, cleaner: &Cleaner) {
    let Some(body) = output["body"].as_str() else {
        return cleaner.value(output);
    };
    let is_stream = output["content_type"]
        .as_str()
        .is_some_and(|kind| kind.starts_with("text/event-stream"));
    let clean = match (is_stream, serde_json::from_str::<Value>(body)) {
        (true, _) => crate::dialect::clean_stream(body, cleaner),
        (false, Ok(value)) => {
            let mut clean = value.clone();
            cleaner.value(&mut clean);
            match clean == value {
                true => body.to_owned(),
                false => clean.to_string(),
            }
        }
        (false, Err(_)) => cleaner.text(body),
    };
    output["body"] = Value::String(clean);
}
