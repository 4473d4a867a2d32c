//! Determines which contents belong to a snapshot, for capture, export, import, pruning and
//! verification.

use std::collections::{BTreeMap, BTreeSet};

use faces::provenance::calls::{Call, contents_of_change};
use faces::provenance::document::Content;
use faces::provenance::hash::digest;
use faces::provenance::read::Document;
use kernel::digest::Digest;
use serde_json::Value;

/// The member of `extensions` with the changes of the working folder.
const WORKSPACE: &str = "workspace";
/// The member of `extensions` with the command.
const PROCESS: &str = "process";
/// The member of `extensions` with each process's readings of the clock and of randomness.
const READINGS: &str = "readings";
/// Hashes of the command's input and outputs.
const STREAMS: [&str; 3] = ["stdin_hash", "stdout_hash", "stderr_hash"];

/// Every hash in a snapshot and its calls, of contents and of other things.
pub fn named(document: &Document, calls: &[Call]) -> BTreeSet<Digest> {
    let mut all: BTreeSet<Digest> = document.snapshot.hashes().filter_map(digest).collect();
    // Extensions name contents in their own ways: any hash in them counts.
    let more = document
        .raw
        .get("extensions")
        .into_iter()
        .flat_map(texts_of);
    all.extend(more.filter_map(digest));
    for call in calls {
        let hashes = [Some(&call.key_hash), call.result_hash.as_ref()];
        all.extend(hashes.into_iter().flatten().filter_map(|hash| digest(hash)));
        let more = call.other.values().flat_map(texts_of);
        all.extend(more.filter_map(digest));
    }
    all
}

/// The contents that a replay needs: inputs and outputs of calls, file changes of the calls and of
/// the whole run, the command's input and outputs, and readings of the clock and of randomness.
/// Empty where only hashes are kept.
pub(crate) fn needed(document: &Document, calls: &[Call]) -> BTreeSet<Digest> {
    let extensions = document.snapshot.extensions.as_ref();
    if extensions.and_then(|more| more.content) == Some(Content::HashesOnly) {
        return BTreeSet::new();
    }
    let member = |name: &str| document.raw.get("extensions")?.get(name);
    let changes = member(WORKSPACE).and_then(Value::as_array);
    let changed = changes.into_iter().flatten().flat_map(contents_of_change);
    let streams = member(PROCESS).into_iter().flat_map(|process| {
        let named = STREAMS.into_iter().filter_map(|name| process.get(name));
        named.filter_map(Value::as_str)
    });
    let readings = member(READINGS).and_then(Value::as_object);
    let readings = readings.into_iter().flatten();
    let readings = readings.filter_map(|(_, hash)| hash.as_str());
    let called = calls.iter().flat_map(Call::contents);
    let all = called.chain(changed).chain(streams).chain(readings);
    all.filter_map(digest).collect()
}

/// The first use of each hash, in a form for people: a member of the document, or a line of the
/// file of calls, which has this `name`.
pub(crate) fn users(document: &Document, calls: &[Call], name: &str) -> BTreeMap<Digest, String> {
    let mut users = BTreeMap::new();
    let members = document.raw.as_object().into_iter().flatten();
    let mut open: Vec<_> = members
        .map(|(name, value)| (format!("/{name}"), value))
        .collect();
    // Members that the schema names come first.
    open.sort_by_key(|(path, _)| path != "/extensions");
    while let Some((path, value)) = open.pop() {
        match value {
            Value::String(text) => {
                if let Some(digest) = digest(text) {
                    users.entry(digest).or_insert(path);
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                open.extend(items.map(|(at, item)| (format!("{path}/{at}"), item)));
            }
            Value::Object(members) => {
                let members = members.iter().rev();
                open.extend(members.map(|(name, value)| (format!("{path}/{name}"), value)));
            }
            _ => {}
        }
    }
    for (line, call) in calls.iter().enumerate() {
        for digest in call.contents().filter_map(digest) {
            let place = || format!("{name} line {}", line + 1);
            users.entry(digest).or_insert_with(place);
        }
    }
    users
}

/// Every text in a value.
fn texts_of(value: &Value) -> Vec<&str> {
    let mut texts = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => texts.push(text.as_str()),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    texts
}
