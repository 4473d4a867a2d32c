//! Prepares a snapshot for writing: redacts, hashes, orders and seals it. `verify` uses the checks.

use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Content, Snapshot};
use super::hash::{digest, hash_json, hash_text, same, written};
use super::read::Document;

/// Prepares a snapshot for writing: takes secrets out of every text of it, then hashes the rest,
/// sorts unordered lists, and seals the whole. The caller's hashes of included texts are
/// recomputed.
///
/// # Errors
/// When the redacted value is not a snapshot: redaction may change texts, not the members' types.
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

/// The state of a document's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seal {
    /// The document matches its seal.
    Sealed,
    /// It is not sealed.
    Unsealed,
    /// It was changed after it was sealed, or its seal is malformed.
    Tampered,
}

kernel::words! {
    /// The state of a snapshot with its sidecar files.
    pub enum State {
        /// Everything matches its seal.
        Valid = "valid",
        /// It is not sealed, so this is unknown.
        Unsealed = "unsealed",
        /// It matches its seal, but it or a record of a replay lacks a signature by a required key.
        Unsigned = "unsigned",
        /// It matches its seal, but calls may be missing.
        Unverified = "unverified",
        /// A part is missing, or does not match its seal.
        Tampered = "tampered",
    }
}

/// The codes of a snapshot that matches its seal.
const UNSIGNED: [&str; 4] = [
    NOT_SIGNED,
    REPLAY_UNSIGNED,
    REPLAY_SIGNER_UNKNOWN,
    UNVERIFIED,
];

impl State {
    /// The state that findings amount to.
    pub fn from_findings(findings: &[Finding]) -> Self {
        let errors = findings.iter().filter(|finding| finding.is_error);
        let are = |codes: &[&str]| errors.clone().all(|error| codes.contains(&error.code));
        let is_unverified = findings.iter().any(|finding| finding.code == UNVERIFIED);
        match () {
            () if are(&[UNVERIFIED]) && is_unverified => Self::Unverified,
            () if are(&[]) => Self::Valid,
            () if are(&UNSIGNED) => Self::Unsigned,
            () if are(&[&UNSIGNED[..], &[NOT_SEALED]].concat()) => Self::Unsealed,
            () => Self::Tampered,
        }
    }
}

/// The code of a finding about a missing seal.
pub const NOT_SEALED: &str = "not_sealed";
/// The code of a finding about a missing signature by a required key.
pub const NOT_SIGNED: &str = "not_signed";
/// The code of a finding about unsigned records of replays. An error in strict mode.
pub const REPLAY_UNSIGNED: &str = "replay_unsigned";
/// The code of a finding about a record of a replay that an unknown key signed. An error in strict
/// mode.
pub const REPLAY_SIGNER_UNKNOWN: &str = "replay_signer_unknown";
/// The code of a finding about calls that may be missing. An error in strict mode.
pub const UNVERIFIED: &str = "network_unverified";

/// The seal of a document, if it has one.
fn sealed(document: &Document) -> Option<&Value> {
    document.raw.pointer("/extensions/integrity")
}

/// Checks the seal of a document.
pub fn read(document: &Document) -> Seal {
    match sealed(document) {
        None => Seal::Unsealed,
        Some(Value::String(seal)) if *seal == integrity(&document.raw) => Seal::Sealed,
        Some(_) => Seal::Tampered,
    }
}

/// The seal of a document if it is a text, else the empty text. The record of replays begins with
/// it.
pub fn text(document: &Value) -> &str {
    let seal = document.pointer("/extensions/integrity");
    seal.and_then(Value::as_str).unwrap_or_default()
}

/// Checks the seal of a document.
fn check_seal(document: &Document) -> Option<Finding> {
    let path = "/extensions/integrity";
    let well_formed = |seal: &str| digest(seal).is_some_and(|hash| written(&hash) == seal);
    let (code, message) = match (read(document), sealed(document)) {
        (Seal::Sealed, _) => return None,
        (_, None) => (
            NOT_SEALED,
            "extensions.integrity is missing: without a seal changes to the snapshot cannot be \
             detected",
        ),
        (_, Some(Value::String(seal))) if well_formed(seal) => (
            "integrity",
            "extensions.integrity, the seal, does not match: a member of the document was changed, \
             added or removed after it was sealed",
        ),
        (_, Some(_)) => (
            "integrity_malformed",
            "extensions.integrity is not a seal: it must be `sha256:` and 64 lowercase hexadecimal \
             digits",
        ),
    };
    Some(Finding::error(path, code, message))
}

/// A violated rule of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The place, as a JSON pointer; for a sidecar file, its name.
    pub path: String,
    /// Stable, for programs.
    pub code: &'static str,
    /// For a person.
    pub message: String,
    /// Whether the snapshot is untrustworthy because of it.
    pub is_error: bool,
}

impl Finding {
    /// A violation that is an error.
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

/// Checks a snapshot by the document alone: its hashes, its seal, its counts. A placeholder for a
/// hash, or an id that is not a UUID, is a warning.
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
        // A placeholder was already reported.
        let hash = hash.as_deref().filter(|hash| digest(hash).is_some());
        if let (Some(text), Some(hash)) = (text, hash)
            && !same(&hash_text(text), hash)
        {
            let message = "this is not the hash of the adjacent text";
            found.push(Finding::error(path, "hash_mismatch", message));
        }
    }
    let extensions = snapshot.extensions.as_ref();
    found.extend(check_seal(document));
    if snapshot.is_unredacted() {
        let message = "UNREDACTED: the snapshot and its files contain secrets in clear";
        found.push(Finding::warning(
            "/extensions/redaction/policy",
            "unredacted",
            message,
        ));
    }
    if let Some(message) = snapshot.unverified() {
        found.push(Finding::warning("/extensions/network", UNVERIFIED, message));
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
