//! Derives from the model traffic the tool calls that ran outside the recorder, and facts about the
//! whole execution.

use std::collections::BTreeMap;

use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use serde_json::Value;

use super::traffic::Place;
use super::{Recorder, State, UNREACHED, Use, now};
use crate::call::{Call, FolderMetadata, Kind};
use crate::clean::Cleaner;
use crate::dialect::{Answer, ModelRequest, Route, ToolUse};

impl Recorder {
    /// Results that return to the model: tools that were called outside the recorder.
    pub(super) fn settle(&self, state: &mut State, asked: &ModelRequest) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for result in &asked.results {
            // Some servers repeat an id: the n-th result belongs to the n-th use.
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
                within: state.uses[place].within,
                at: state.uses[place].at,
                is_settled: true,
            };
            let call = self.observed(state, &tool, Some(&result.output), result.is_error);
            self.write(state, call);
        }
    }

    /// A call that was only observed in the traffic.
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
                    Digest::compute(&bytes)
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
            server: None,
            input,
            output,
            started: tool.at,
            ended: output.map(|_| now()),
            order: None,
            is_error,
            effect_class: None,
            call_id: Some(self.cleaner.text(&tool.tool.id)),
            parent: Some(tool.by),
            observed: true,
            effects: Vec::new(),
            metadata: FolderMetadata::default(),
            notified: Vec::new(),
        }
    }

    /// Records the facts of an answer; returns the tools that it requests.
    pub(super) fn heard(
        &self,
        state: &mut State,
        place: Place,
        route: Route,
        output: &Value,
    ) -> Vec<ToolUse> {
        let body = output["body"].as_str().unwrap_or_default();
        let answer: Answer = crate::dialect::answer(route, body);
        let status = output["status"].as_u64().unwrap_or(0) as u16;
        if output[UNREACHED] == true {
            state.enforcement.unreached(route);
            state.traffic.unreached(route);
        } else if status >= 400 {
            state.traffic.refused(route);
        }
        state
            .enforcement
            .answered(status, body, answer.fingerprint.as_deref());
        state
            .traffic
            .answered(place, answer.model, answer.text, answer.tokens);
        answer.uses
    }

    /// The tool calls that an answer requests.
    pub(super) fn wanted(
        &self,
        state: &mut State,
        (by, within): (u64, Option<u64>),
        uses: Vec<ToolUse>,
    ) {
        let at = now();
        let uses = uses.into_iter().map(|tool| Use {
            tool,
            by,
            within,
            at,
            is_settled: false,
        });
        state.uses.extend(uses);
    }
}

/// A tool that ran through the recorder and that a model had requested is one call, not two.
pub(super) fn claim(uses: &mut [Use], call: &mut Call) {
    let is_meant = |tool: &&mut Use| {
        let name = tool.tool.name.as_str();
        let suffix = format!("__{}", call.name);
        !tool.is_settled
            && tool.at <= call.started
            && (name == call.name || name.ends_with(&suffix))
    };
    let near = |tool: &&mut Use| is_meant(tool) && tool.within == call.parent;
    if let Some(tool) = uses.iter_mut().find(near) {
        tool.is_settled = true;
        call.call_id = Some(tool.tool.id.clone());
        call.parent = Some(tool.by);
    } else if let Some(tool) = uses.iter_mut().find(is_meant) {
        // Another tool made the call that a model requested: that tool stays its parent.
        tool.is_settled = true;
        call.call_id = Some(tool.tool.id.clone());
    }
}

/// The same where the recording has the id: of two equal requests either may come first.
pub(super) fn settle_as(uses: &mut [Use], call: &mut Call, id: &str) {
    call.call_id = Some(id.to_owned());
    let is_meant = |tool: &&mut Use| !tool.is_settled && tool.tool.id == id;
    if let Some(tool) = uses.iter_mut().find(is_meant) {
        tool.is_settled = true;
        if tool.within == call.parent {
            call.parent = Some(tool.by);
        }
    }
}

/// Cleans the body of an answer by its type.
pub(super) fn clean_answer(output: &mut Value, cleaner: &Cleaner) {
    if let Some(headers) = output.get_mut("headers") {
        cleaner.value(headers);
    }
    let Some(body) = output["body"].as_str() else {
        return cleaner.value(output);
    };
    let is_stream = output["content_type"]
        .as_str()
        .is_some_and(|kind| kind.starts_with("text/event-stream"));
    let clean = match (is_stream, serde_json::from_str::<Value>(body)) {
        (true, _) => cleaner.stream(body),
        (false, Ok(value)) => {
            let mut clean = value.clone();
            cleaner.value(&mut clean);
            if clean == value {
                body.to_owned()
            } else {
                clean.to_string()
            }
        }
        (false, Err(_)) => cleaner.text(body),
    };
    output["body"] = Value::String(clean);
}
