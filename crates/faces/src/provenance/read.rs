//! Reads snapshots, including foreign ones: it accepts as much as possible, and reports oddities.

use kernel::digest::Digest;
use kernel::json::{self, Limits};
use kernel::limits::{MAX_JSON_DEPTH, MAX_SNAPSHOT_BYTES};
use kernel::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::{Extensions, Snapshot};
use super::hash;

/// A snapshot as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its content.
    pub snapshot: Snapshot,
    /// The members of the file, unchanged: the seal covers these.
    pub raw: Value,
    /// Findings that did not prevent reading.
    pub warnings: Vec<Warning>,
}

/// An oddity that did not prevent reading a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The place, as a JSON pointer.
    pub path: String,
    /// Stable, for programs.
    pub code: &'static str,
    /// For a person.
    pub message: String,
}

/// The reason why a text is not a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoSnapshot {
    /// Stable, for programs: `not_json`, `not_a_snapshot`, `unknown_version`.
    pub code: &'static str,
    /// For a person.
    pub message: String,
}

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, NoSnapshot> {
    let message = message.into();
    Err(NoSnapshot { code, message })
}

/// Reads the bytes of a file.
///
/// # Errors
/// When they are not JSON, a key is duplicated, or the content is not a snapshot of a known
/// version.
pub fn read(bytes: &[u8]) -> Result<Document, NoSnapshot> {
    let limits = Limits {
        max_bytes: MAX_SNAPSHOT_BYTES,
        max_depth: MAX_JSON_DEPTH,
    };
    match json::parse(bytes, limits) {
        Ok(value) => document(value),
        Err(problems) => refuse("not_json", problems.to_string()),
    }
}

/// Reads a value.
///
/// # Errors
/// When it is not a snapshot of a known version.
pub fn document(raw: Value) -> Result<Document, NoSnapshot> {
    let Value::Object(members) = &raw else {
        return refuse("not_a_snapshot", "a snapshot is an object");
    };
    let version = members.get("version");
    let major = version.map(|version| version.as_str().and_then(|text| text.split('.').next()));
    if major.is_some_and(|major| major != Some("1")) {
        return refuse(
            "unknown_version",
            "the snapshot has another major version than 1",
        );
    }
    let mut warnings = Vec::new();
    let mut understood = Value::Object(understand(members.clone(), &mut warnings));
    whole(&mut understood);
    let snapshot: Snapshot = match serde_json::from_value(understood) {
        Ok(snapshot) => snapshot,
        Err(error) => return refuse("not_a_snapshot", format!("this is not a snapshot: {error}")),
    };
    if snapshot.snapshot_id.is_empty() {
        return refuse("not_a_snapshot", "the snapshot_id is empty");
    }
    if snapshot.captured().is_none() {
        return refuse("not_a_snapshot", "captured_at is not a time of RFC 3339");
    }
    look_at(&snapshot, &mut warnings);
    Ok(Document {
        snapshot,
        raw,
        warnings,
    })
}

/// Replaces words of related formats with ours.
fn understand(mut root: Map<String, Value>, warnings: &mut Vec<Warning>) -> Map<String, Value> {
    let mut labels = Vec::new();
    // The schema leaves the shape of `extensions` open: another tool's may have any.
    let theirs = root.get("extensions").cloned().map(|mut theirs| {
        whole(&mut theirs);
        serde_json::from_value::<Extensions>(theirs)
    });
    if let Some(Err(_)) = theirs {
        root.remove("extensions");
        let message = "the extensions are from another tool and are ignored";
        warnings.push(warning("/extensions", "extensions_unknown", message));
    }
    if let Some(Value::Object(config)) = root.get_mut("config") {
        let mode = config.get("execution_mode").and_then(Value::as_str);
        let known = match mode {
            Some("standard") => Some("default"),
            Some("audit") => Some("strict"),
            Some("cached") => Some("logged"),
            _ => None,
        };
        if let (Some(mode), Some(known)) = (mode.map(str::to_owned), known) {
            let message = format!("the mode {mode} is read as {known}");
            warnings.push(warning("/config/execution_mode", "mode_alias", message));
            config.insert("execution_mode".into(), known.into());
            labels.push(("mode_label", mode));
        }
        if let Some(Value::String(label)) = config.get("seed") {
            let label = label.clone();
            let number = label.parse().unwrap_or_else(|_| seed_of(&label));
            let message = format!("the seed is a text, read as the number {number}");
            warnings.push(warning("/config/seed", "seed_label", message));
            config.insert("seed".into(), number.into());
            labels.push(("seed_label", label));
        }
    }
    if !labels.is_empty() {
        let extensions = root.entry("extensions").or_insert_with(|| json!({}));
        if let Value::Object(extensions) = extensions {
            extensions.extend(
                labels
                    .into_iter()
                    .map(|(name, label)| (name.into(), label.into())),
            );
        }
    }
    root
}

/// Normalises whole numbers: `4096.0` is one in JSON Schema.
fn whole(value: &mut Value) {
    /// From here on a double cannot distinguish whole numbers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() <= EXACT {
                *value = json!(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole),
        Value::Object(members) => members.values_mut().for_each(whole),
        _ => {}
    }
}

/// The number for a seed that is a text: the first eight bytes of its SHA-256, cut to the 53 bits
/// of a double.
pub fn seed_of(label: &str) -> i64 {
    let Digest(bytes) = Digest::compute(label.as_bytes());
    let first = bytes[..8]
        .iter()
        .fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    i64::try_from(first & ((1 << 53) - 1)).unwrap_or_default()
}

fn warning(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Warning {
    Warning {
        path: path.into(),
        code,
        message: message.into(),
    }
}

/// Adds warnings about a snapshot that was read.
fn look_at(snapshot: &Snapshot, warnings: &mut Vec<Warning>) {
    if !is_uuid(&snapshot.snapshot_id) {
        let message = "the snapshot_id is not a UUID";
        warnings.push(warning("/snapshot_id", "id_not_uuid", message));
    }
    let mut hash = |path: String, hash: &Option<String>| {
        if hash
            .as_deref()
            .is_some_and(|hash| hash::digest(hash).is_none())
        {
            let message = "this is not a SHA-256 hash, perhaps a placeholder";
            warnings.push(warning(path, "hash_malformed", message));
        }
    };
    let (inputs, outputs) = (&snapshot.inputs, &snapshot.outputs);
    hash(
        "/config/system_prompt_hash".into(),
        &snapshot.config.system_prompt_hash,
    );
    hash("/inputs/user_prompt_hash".into(), &inputs.user_prompt_hash);
    for (index, file) in inputs.context_files.iter().flatten().enumerate() {
        hash(format!("/inputs/context_files/{index}/hash"), &file.hash);
    }
    hash("/outputs/response_hash".into(), &outputs.response_hash);
    for (index, artifact) in outputs.artifacts_created.iter().flatten().enumerate() {
        hash(
            format!("/outputs/artifacts_created/{index}/hash"),
            &artifact.hash,
        );
    }
    for (index, call) in outputs.tool_calls.iter().flatten().enumerate() {
        hash(
            format!("/outputs/tool_calls/{index}/input_hash"),
            &call.input_hash,
        );
        hash(
            format!("/outputs/tool_calls/{index}/output_hash"),
            &call.output_hash,
        );
    }
    let last = snapshot
        .replay_status
        .as_ref()
        .and_then(|status| status.last_replay.as_deref());
    if last.is_some_and(|last| Timestamp::parse(last).is_none()) {
        let message = "last_replay is not a time of RFC 3339";
        warnings.push(warning(
            "/replay_status/last_replay",
            "time_malformed",
            message,
        ));
    }
}

/// Whether a text is a UUID: 32 hex digits, grouped.
pub fn is_uuid(text: &str) -> bool {
    let groups = text.split('-').map(str::len);
    text.bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && groups.eq([8, 4, 4, 4, 12])
}
