//! Which parts of a request may be quoted: numbers, and the protocol's words.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use kernel::definition::{ControlKind, FIELD_NAMES, Takes};
use runtime::nodes::Registry;
use serde_json::Value;

use crate::openapi;

/// A JSON pointer in which parts other than numbers and the protocol's words become `…`.
pub(super) fn known_path(path: &str) -> String {
    path.split('/')
        .map(|part| {
            if part.is_empty() || is_known(part) {
                part
            } else {
                "…"
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Words that are neither fields of the API nor of a definition: options of runs, values, examples
/// and signs of expressions.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "backoff", "initialMs", "maxMs", "recursionLimit", "runTimeoutMs", "maxLoopIterations",
    "maxTokens", "escalationThreshold", "mockProvider", "delayMsPerToken", "failAfterMs",
    "finishReason", "toolCalls", "usage", "ai.provider", "ai.model", "ai.credentialRef",
    "modelClass", "operation", "x", "y", "loop", "array", "boolean", "integer", "null", "number",
    "object", "string", "accept", "reject", "refine", "true", "false", "body", "done", "dispatch",
    "terminate", "secret://", "secret://NAME", "secret://SCOPE/NAME", "file:", "file:NAME",
    "env:", "env:NAME", "${inputs.NAME}", "{{ }}", "POST /v1/runs", "runwright run",
    "runwright workflow nodes", "variables.count > 3", "a == b", "a && b", "test ? one : other",
    "+ 1", "==", "!=", "&&", "||", "!", "#", ".", "_", "-", ")", "]", "}", ",", ":", "?", "${ }",
];

/// Whether a name is a number or a word of the protocol or of a node's config: quoting it does not
/// echo the request.
fn is_known(part: &str) -> bool {
    part.parse::<u32>().is_ok() || vocabulary().contains(part)
}

/// The fields of the API and of definitions, and the words of the node types: their ids, the keys of
/// their configs, and the values of those.
fn vocabulary() -> &'static BTreeSet<String> {
    static WORDS: OnceLock<BTreeSet<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let fields = FIELD_NAMES.into_iter().flatten();
        let mut words: BTreeSet<String> = fields.chain(OTHERS).map(|&word| word.into()).collect();
        collect(&openapi::schemas(), &mut words);
        for kind in ControlKind::ALL {
            words.insert(kind.type_id().to_owned());
            for key in kind.config_keys() {
                words.extend(key.names().map(str::to_owned));
                if let Takes::Words(values) = key.takes {
                    words.extend(values.iter().map(|&word| word.to_owned()));
                }
            }
        }
        for node in Registry::standard().nodes() {
            words.insert(node.type_id().to_owned());
            collect(&node.config_schema(), &mut words);
        }
        words
    })
}

/// The field names and values of a schema.
fn collect(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(rules) => {
            let fields = rules.get("properties").and_then(Value::as_object);
            words.extend(fields.into_iter().flatten().map(|(name, _)| name.clone()));
            let values = rules.get("enum").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str);
            words.extend(values.map(str::to_owned));
            rules.values().for_each(|rule| collect(rule, words));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        _ => {}
    }
}

/// A message without its quotations from the document, except the protocol's words.
pub(super) fn unquoted(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for (n, part) in message.split('`').enumerate() {
        let is_shown = n % 2 == 0 || is_known(part);
        out.push_str(if is_shown { part } else { "…" });
    }
    out
}
