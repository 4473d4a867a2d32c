//! What is done to a snapshot before it is written: redacted, hashed, put in order, sealed. And
//! what `verify` finds of that afterwards.

use kernel::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::document::{Content, Snapshot};
use super::hash::{digest, hash_json, hash_text, same};
use super::read::Document;

/// Makes a snapshot ready to be written: takes secrets out of every text of it, then hashes what
/// is left, sorts what are sets, and seals the whole. Whatever hashes the caller gave for texts
/// that stand in it are made anew.
///
/// # Errors
/// When redaction left no snapshot: it may change texts, not the members' types.
pub fn seal(
    snapshot: Snapshot,
    redact: &mut dyn FnMut(&mut Value),
) -> Result<Snapshot, serde_json::Error> {
    let mut value = serde_json::to_value(snapshot)?;
    redact(&mut value);
    let mut snapshot: Snapshot = serde_json::from_value(value)?;
    let hashes_only = snapshot.extensions.as_ref().and_then(|more| more.content);
    let keeps_texts = hashes_only != Some(Content::HashesOnly);
    for (text, hash) in [
        (
            &mut snapshot.inputs.user_prompt,
            &mut snapshot.inputs.user_prompt_hash,
        ),
        (
            &mut snapshot.outputs.response,
            &mut snapshot.outputs.response_hash,
        ),
    ] {
        if let Some(known) = text {
            *hash = Some(hash_text(known));
        }
        if !keeps_texts {
            *text = None;
        }
    }
    if let Some(agent) = &mut snapshot.agent {
        for set in [&mut agent.tools, &mut agent.rules_active]
            .into_iter()
            .flatten()
        {
            set.sort();
            set.dedup();
        }
    }
    if let Some(files) = &mut snapshot.inputs.context_files {
        files.sort_by(|a, b| (&a.path, &a.hash).cmp(&(&b.path, &b.hash)));
        files.dedup();
    }
    if let Some(artifacts) = &mut snapshot.outputs.artifacts_created {
        artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    }
    if let Some(environment) = &snapshot.inputs.environment {
        let hash = hash_json(&serde_json::to_value(environment)?);
        snapshot.extend().environment_hash = Some(hash);
    }
    snapshot.extend().integrity = None;
    let hash = integrity(&serde_json::to_value(&snapshot)?);
    snapshot.extend().integrity = Some(hash);
    Ok(snapshot)
}

/// The hash of a snapshot without `replay_status` and `extensions.integrity`.
pub fn integrity(document: &Value) -> String {
    let mut core = document.clone();
    if let Value::Object(members) = &mut core {
        members.remove("replay_status");
        if let Some(Value::Object(extensions)) = members.get_mut("extensions") {
            extensions.remove("integrity");
        }
    }
    hash_json(&core)
}

/// Something that does not hold of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where, as a JSON pointer; for a file beside it, its name.
    pub path: String,
    /// Stable, for programs.
    pub code: &'static str,
    /// For a person.
    pub message: String,
    /// Whether the snapshot cannot be trusted because of it.
    pub is_error: bool,
}

impl Finding {
    /// Something that must hold and does not.
    pub fn error(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
            is_error: true,
        }
    }

    /// Something odd.
    pub fn warning(
        path: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            is_error: false,
            ..Self::error(path, code, message)
        }
    }
}

/// What is wrong with a snapshot as far as the document itself tells: its hashes, its seal, its
/// counts. A placeholder in the place of a hash, or an id that is no UUID, is a warning.
pub fn check(document: &Document) -> Vec<Finding> {
    let snapshot = &document.snapshot;
    let warnings = document.warnings.iter();
    let warnings = warnings.map(|odd| Finding::warning(&*odd.path, odd.code, &*odd.message));
    let mut found: Vec<Finding> = warnings.collect();
    let (inputs, outputs) = (&snapshot.inputs, &snapshot.outputs);
    for (path, text, hash) in [
        (
            "/inputs/user_prompt_hash",
            &inputs.user_prompt,
            &inputs.user_prompt_hash,
        ),
        (
            "/outputs/response_hash",
            &outputs.response,
            &outputs.response_hash,
        ),
    ] {
        // Of a placeholder it was said already that it is none.
        let hash = hash.as_deref().filter(|hash| digest(hash).is_some());
        if let (Some(text), Some(hash)) = (text, hash)
            && !same(&hash_text(text), hash)
        {
            let message = "this is not the hash of the text beside it";
            found.push(Finding::error(path, "hash_mismatch", message));
        }
    }
    let extensions = snapshot.extensions.as_ref();
    match extensions.and_then(|extensions| extensions.integrity.as_deref()) {
        Some(sealed) if !same(sealed, &integrity(&document.raw)) => {
            let message = "the snapshot is not what was sealed: something in it was changed";
            found.push(Finding::error(
                "/extensions/integrity",
                "integrity",
                message,
            ));
        }
        Some(_) => {}
        None => {
            let message = "nothing shows that the snapshot was not changed: it has no seal";
            found.push(Finding::warning(
                "/extensions/integrity",
                "not_sealed",
                message,
            ));
        }
    }
    if snapshot.is_unredacted() {
        let message = "UNREDACTED: secrets were not taken out of it, nor of what lies beside it";
        found.push(Finding::warning(
            "/extensions/redaction/policy",
            "unredacted",
            message,
        ));
    }
    let hashed = extensions.and_then(|extensions| extensions.environment_hash.as_deref());
    let environment = document.raw.pointer("/inputs/environment");
    if let (Some(hash), Some(environment)) = (hashed, environment)
        && !same(hash, &hash_json(environment))
    {
        let message = "this is not the hash of the environment";
        found.push(Finding::error(
            "/extensions/environment_hash",
            "hash_mismatch",
            message,
        ));
    }
    let counted = snapshot
        .metrics
        .as_ref()
        .and_then(|metrics| metrics.tool_calls_count);
    if let (Some(counted), Some(calls)) = (counted, &outputs.tool_calls)
        && counted != calls.len() as u64
    {
        let message = format!("{counted} calls are counted, {} are listed", calls.len());
        found.push(Finding::error(
            "/metrics/tool_calls_count",
            "count_mismatch",
            message,
        ));
    }
    let replays = snapshot.replays();
    let last = replays.last_replay.as_deref();
    if !replays.is_consistent() || last.is_some_and(|last| Timestamp::parse(last).is_none()) {
        let message = "replayed, replay_count, last_replay and match_status contradict each other";
        found.push(Finding::error("/replay_status", "replay_status", message));
    }
    found
}
