//! Contents by what they are, which says how they were cleaned when they were kept.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use faces::provenance::calls::{Call, CallKind, EFFECTS, NOTIFICATIONS};
use faces::provenance::hash::{canonical_json, digest, hash_json, hash_text};
use faces::provenance::read::Document;
use kernel::digest::Digest;
use provenance::{Redaction, taken_out};
use serde_json::Value;

use super::Kinds;
use crate::clean::{Cleaner, bytes_of, output_of};
use crate::document::{PROCESS, WORKSPACE};
use crate::recorder::clean_answer;

/// What a content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// What a call was given or came to, what a program wrote or read: JSON.
    Value,
    /// The answer of a model's server, with its body as it came.
    Answer,
    /// A file, or nobody knows.
    Bytes,
}

/// A content without what was found in it.
#[derive(Debug)]
pub(super) struct Cleaned {
    /// What may be kept.
    pub bytes: Vec<u8>,
    /// What was taken out of it.
    pub taken: Kinds,
    /// Whether all of that are values of variables as they are, of a file or of what was read.
    pub is_verbatim: bool,
    /// Hashes of parts of it, and those of the same parts without what was found.
    pub parts: Vec<(Digest, Digest)>,
}

/// What each content is that a snapshot and its calls name, and where it stands.
pub(super) fn roles(document: &Document, calls: &[Call]) -> BTreeMap<Digest, Vec<(Role, String)>> {
    let mut roles: BTreeMap<Digest, Vec<(Role, String)>> = BTreeMap::new();
    let mut say = |hash: Option<&str>, role: Role, at: String| {
        if let Some(digest) = hash.and_then(digest) {
            let known = roles.entry(digest).or_default();
            if known.iter().all(|(other, _)| *other != role) {
                known.push((role, at));
            }
        }
    };
    for call in calls {
        let step = format!("step {}", call.seq + 1);
        let answer = match call.kind {
            CallKind::Model => Role::Answer,
            _ => Role::Value,
        };
        say(
            Some(call.key_hash.as_str()),
            Role::Value,
            format!("{step} input"),
        );
        say(
            call.result_hash.as_deref(),
            answer,
            format!("{step} result"),
        );
        let list = |name: &str| call.other.get(name).and_then(Value::as_array);
        for told in list(NOTIFICATIONS).into_iter().flatten() {
            say(
                told["hash"].as_str(),
                Role::Value,
                format!("{step} notifications"),
            );
        }
        for change in list(EFFECTS).into_iter().flatten() {
            let path = change["path"].as_str().unwrap_or("?");
            let at = format!("{step} file {path}");
            say(change["hash"].as_str(), Role::Bytes, at.clone());
            say(change["before"].as_str(), Role::Bytes, at);
        }
    }
    let member = |name: &str| document.raw.get("extensions")?.get(name);
    for (name, at) in [
        ("stdin_hash", "standard input"),
        ("stdout_hash", "standard output"),
        ("stderr_hash", "standard error"),
    ] {
        let hash = member(PROCESS).and_then(|process| process[name].as_str());
        say(hash, Role::Value, at.to_owned());
    }
    let changes = member(WORKSPACE).and_then(Value::as_array);
    for change in changes.into_iter().flatten() {
        let path = change["path"].as_str().unwrap_or("?");
        let at = format!("file {path}");
        say(change["hash"].as_str(), Role::Bytes, at.clone());
        say(change["before"].as_str(), Role::Bytes, at);
    }
    let snapshot = &document.snapshot;
    for file in snapshot.inputs.context_files.iter().flatten() {
        let path = file.path.as_deref().unwrap_or("?");
        say(
            file.hash.as_deref(),
            Role::Bytes,
            format!("context file {path}"),
        );
    }
    // The artifacts of a run are values, those of a command files that were named above.
    let is_run = snapshot
        .extensions
        .as_ref()
        .is_some_and(|more| more.run_id.is_some());
    let role = if is_run { Role::Value } else { Role::Bytes };
    for artifact in snapshot.outputs.artifacts_created.iter().flatten() {
        let path = artifact.path.as_deref().unwrap_or("?");
        if let Some(known) = artifact.hash.as_deref().and_then(digest) {
            let at = format!("artifact {path}");
            roles.entry(known).or_insert_with(|| vec![(role, at)]);
        }
    }
    roles
}

/// What a content may be of which nobody says anything.
pub(super) fn guessed(bytes: &[u8]) -> Role {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) if value["body"].is_string() && value["status"].is_u64() => Role::Answer,
        Ok(_) => Role::Value,
        Err(_) => Role::Bytes,
    }
}

/// A content without secrets; none where it has none.
pub(super) fn cleaned(
    bytes: &[u8],
    roles: &[(Role, String)],
    redaction: &Redaction,
) -> Option<Cleaned> {
    let cleaner = Cleaner::new(redaction.fresh(), &[]);
    let mut clean = bytes.to_vec();
    let (mut parts, mut is_verbatim) = (Vec::new(), roles.len() == 1);
    for (role, _) in roles {
        let value = match role {
            Role::Value | Role::Answer => serde_json::from_slice::<Value>(&clean).ok(),
            Role::Bytes => None,
        };
        let Some(before) = value else {
            let content = cleaner.content(clean);
            is_verbatim &= content.is_verbatim;
            clean = content.bytes;
            continue;
        };
        let mut after = before.clone();
        match role {
            Role::Answer => clean_answer(&mut after, &cleaner),
            Role::Value | Role::Bytes => clean_value(&mut after, &cleaner),
        }
        if after != before {
            // Of what a command read: it is written as one text.
            is_verbatim &= cleaner.content(bytes_of(&before)).is_verbatim;
            collect(&before, &after, &mut parts);
            clean = canonical_json(&after).into_bytes();
        }
    }
    if clean == bytes {
        return None;
    }
    let [before, after] = [bytes, &clean].map(String::from_utf8_lossy);
    Some(Cleaned {
        taken: taken_out(&before, &after),
        bytes: clean,
        is_verbatim,
        parts,
    })
}

/// As it was cleaned when it was captured, and what is no text in it besides.
fn clean_value(value: &mut Value, cleaner: &Cleaner) {
    cleaner.value(value);
    clean_encoded(value, cleaner);
}

fn clean_encoded(value: &mut Value, cleaner: &Cleaner) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| clean_encoded(item, cleaner)),
        Value::Object(members) => {
            let encoded = members.get("base64").and_then(Value::as_str);
            let bytes = encoded
                .filter(|_| members.len() == 1)
                .and_then(|text| STANDARD.decode(text).ok());
            let Some(bytes) = bytes else {
                members
                    .values_mut()
                    .for_each(|member| clean_encoded(member, cleaner));
                return;
            };
            let clean = cleaner.bytes(bytes.clone());
            if clean != bytes {
                *value = output_of(&clean);
            }
        }
        _ => {}
    }
}

/// Hashes of what changed in a value: of texts, and of whatever holds them.
fn collect(before: &Value, after: &Value, parts: &mut Vec<(Digest, Digest)>) {
    if before == after {
        return;
    }
    let mut say = |one: &str, other: &str| parts.extend(digest(one).zip(digest(other)));
    say(&hash_json(before), &hash_json(after));
    match (before, after) {
        (Value::String(one), Value::String(other)) => say(&hash_text(one), &hash_text(other)),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (one, other) in one.iter().zip(other) {
                collect(one, other, parts);
            }
        }
        (Value::Object(one), Value::Object(other)) => {
            for (name, one) in one {
                if let Some(other) = other.get(name) {
                    collect(one, other, parts);
                }
            }
        }
        _ => {}
    }
}
