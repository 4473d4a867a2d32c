//! Input fields that are ignored: times and ids that change each time.

use std::collections::{BTreeMap, BTreeSet};

use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{Call, Keep, Kind};

/// JSON pointers into inputs; the snapshot lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignored {
    /// Pointers into the inputs of tools, by the tool's name. The fields are removed before the
    /// input is kept, hashed and matched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tools: BTreeMap<String, Vec<String>>,
    /// Pointers into requests to models. The fields are kept, and ignored in matching.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    requests: BTreeSet<String>,
}

impl Ignored {
    /// Parses `TOOL=/pointer`.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(typed: &str) -> Result<(String, String), &'static str> {
        match typed.split_once('=') {
            Some((tool, pointer)) if !tool.is_empty() && pointer.starts_with('/') => {
                Ok((tool.to_owned(), pointer.to_owned()))
            }
            _ => Err("write TOOL=/pointer, as search=/time or fetch=/argv/2"),
        }
    }

    /// Whether everything counts.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.requests.is_empty()
    }

    /// Removes the ignored fields of an input of a tool. An ignored list item leaves a placeholder,
    /// so that later items keep their index.
    pub fn take_out(&self, tool: &str, input: &mut Value) {
        for pointer in self.tools.get(tool).into_iter().flatten() {
            take_out(pointer, input);
        }
    }

    /// Excludes a field of requests to models from matching.
    pub fn leave_out(&mut self, pointers: &[String]) {
        self.requests.extend(pointers.iter().cloned());
    }

    /// Parses the pointer of a field of requests.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse_request(typed: &str) -> Result<String, &'static str> {
        if typed.starts_with('/') && typed.len() > 1 {
            Ok(typed.to_owned())
        } else {
            Err("write a JSON pointer into the body of a request, as /messages/0/content")
        }
    }

    /// The key that a call is matched by.
    pub(crate) fn matched(&self, kind: Kind, input: Digest, value: &Value) -> Digest {
        if kind != Kind::Model || self.requests.is_empty() {
            return input;
        }
        let mut value = value.clone();
        for pointer in &self.requests {
            take_out(pointer, body_of(&mut value));
        }
        Digest::compute(canonical_json(&value).as_bytes())
    }

    /// The keys of recorded calls, by their steps.
    pub fn keys(&self, calls: &[Call], keep: &dyn Keep) -> BTreeMap<u64, Digest> {
        let models = calls.iter().filter(|call| call.kind == Kind::Model);
        let keyed = models.filter_map(|call| {
            let value = read(call, keep)?;
            Some((call.seq, self.matched(call.kind, call.input, &value)))
        });
        if self.requests.is_empty() {
            BTreeMap::new()
        } else {
            keyed.collect()
        }
    }

    /// The ignored fields that do not occur in any request to a model.
    pub fn without_effect(&self, calls: &[Call], keep: &dyn Keep) -> Vec<String> {
        if self.requests.is_empty() {
            return Vec::new();
        }
        let models = calls.iter().filter(|call| call.kind == Kind::Model);
        let mut inputs: Vec<Value> = models.filter_map(|call| read(call, keep)).collect();
        let unused = self.requests.iter().filter(|pointer| {
            let mut bodies = inputs.iter_mut().map(body_of);
            !bodies.any(|body| body.pointer(pointer).is_some())
        });
        unused.cloned().collect()
    }
}

fn read(call: &Call, keep: &dyn Keep) -> Option<Value> {
    serde_json::from_slice(&keep.get(call.input).ok()??).ok()
}

/// The body of a request, which is kept alone or with method and query.
fn body_of(input: &mut Value) -> &mut Value {
    if input["method"].is_string() && input.get("body").is_some() {
        &mut input["body"]
    } else {
        input
    }
}

fn take_out(pointer: &str, input: &mut Value) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return;
    };
    let name = last.replace("~1", "/").replace("~0", "~");
    match input.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&name)),
        Some(Value::Array(items)) => {
            let place = name.parse::<usize>().ok();
            if let Some(item) = place.and_then(|place| items.get_mut(place)) {
                *item = Value::Null;
            }
        }
        _ => {}
    }
}

impl FromIterator<(String, String)> for Ignored {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut ignored = Self::default();
        for (tool, pointer) in pairs {
            ignored.tools.entry(tool).or_default().push(pointer);
        }
        ignored
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ignored_paths_are_excluded() {
        let typed = [
            "a=/at",
            "a=/deep/x~1y",
            "a=/argv/1",
            "a=/none/1",
            "a=/argv/9",
        ];
        let ignored: Ignored = typed
            .iter()
            .map(|typed| Ignored::parse(typed).unwrap())
            .collect();
        let input = json!({ "at": 1, "deep": { "x/y": 2, "z": 3 }, "argv": ["x", "y", "z"] });
        let mut of_a = input.clone();
        ignored.take_out("a", &mut of_a);
        assert_eq!(
            of_a,
            json!({ "deep": { "z": 3 }, "argv": ["x", null, "z"] })
        );
        let mut of_b = input.clone();
        ignored.take_out("b", &mut of_b);
        assert_eq!(of_b, input);
        for wrong in ["a", "a=b", "=/x", "a="] {
            assert!(Ignored::parse(wrong).is_err(), "{wrong}");
        }
    }
}
