//! The sidecar files of a snapshot, one value per line: `STEM.calls.jsonl` has the calls that
//! crossed the boundary of the execution, `STEM.replays.jsonl` every attempt to replay it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::chain;
use super::document::{MatchStatus, ReplayStatus, ToolCall};
use super::hash::canonical_json;
use super::read::Document;
use super::seal::{self, Finding, Seal};

/// The member of a call with the unrequested messages of its tool server, with a `hash` each.
pub const NOTIFICATIONS: &str = "notifications";
/// The member of a call with its changes of the working folder.
pub const EFFECTS: &str = "effects";
/// The member of a call that marks other requests to a tool server.
pub const PROTOCOL: &str = "protocol";
/// The member of a snapshot's `extensions` with the number and the hash of its calls.
pub const CALLS: &str = "calls";

/// One recorded call. Its bodies are in the blobs of the folder, under these hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its step: its place among all calls, by start, from 1.
    pub seq: u64,
    /// The kind of the call.
    pub kind: CallKind,
    /// The tool; for a model, the route of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The hash of the redacted input; of a tool, the `input_hash` of the snapshot.
    pub key_hash: String,
    /// The hash of the redacted result, or error; `None` where it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_hash: Option<String>,
    /// The `seq` of the enclosing call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// When it began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Its effect on the outside world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_class: Option<EffectClass>,
    /// Whether its result is an error.
    #[serde(default)]
    pub is_error: bool,
    /// More.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Call {
    /// The key by which a replay finds it: kind, name and input. Calls with equal keys are
    /// distinguished by their order.
    pub fn key(&self) -> (CallKind, Option<&str>, &str) {
        (self.kind, self.name.as_deref(), &self.key_hash)
    }

    /// The hashes of all contents that serving it needs: input, result, folder changes, messages.
    pub fn contents(&self) -> impl Iterator<Item = &str> {
        let list = |name: &str| self.other.get(name).and_then(Value::as_array);
        let called = [Some(self.key_hash.as_str()), self.result_hash.as_deref()];
        let told = list(NOTIFICATIONS).into_iter().flatten();
        let told = told.filter_map(|told| told["hash"].as_str());
        let changed = list(EFFECTS).into_iter().flatten();
        let changed = changed.flat_map(contents_of_change);
        called.into_iter().flatten().chain(told).chain(changed)
    }

    /// Whether the model traffic or a program marks it as a call of a tool. Other requests to a
    /// tool server are not.
    fn is_tool(&self) -> bool {
        self.kind == CallKind::Tool && self.other.get(PROTOCOL) != Some(&Value::Bool(true))
    }
}

/// The hashes of the contents of a changed file: now, and before if it was modified. Empty where
/// they were too large to keep.
pub fn contents_of_change(change: &Value) -> impl Iterator<Item = &str> {
    let is_kept = change["not_kept"] != Value::Bool(true);
    let hashes = [&change["hash"], &change["before"]].map(Value::as_str);
    hashes.into_iter().flatten().filter(move |_| is_kept)
}

/// A snapshot's summary of its calls: their number, and the last link of their chain. It seals the
/// calls together with the snapshot.
pub fn sealed(calls: &[Call]) -> Value {
    let links = chain::links("", calls);
    let last = links.last().cloned().unwrap_or_default();
    json!({ "count": calls.len(), "hash": last })
}

/// Checks the calls of a snapshot, which are in the file `name`.
pub fn check(document: &Document, calls: &[Call], name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let snapshot = &document.snapshot;
    let said = document.raw.pointer("/extensions/calls");
    let is_there = !calls.is_empty();
    let named = snapshot.outputs.tool_calls.as_deref();
    match said {
        Some(said) if *said != sealed(calls) => {
            let message = match (said["count"].as_u64(), calls.len()) {
                (Some(count), here) if count != here as u64 => format!(
                    "{name} has {here} lines, and {count} calls were recorded (extensions.calls)"
                ),
                _ => match chain::broken_at("", calls) {
                    Some(line) => {
                        format!("{name} line {line}: the call was changed after it was recorded")
                    }
                    None => format!("{name} does not belong to this snapshot (extensions.calls)"),
                },
            };
            found.push(Finding::error(name, "calls_changed", message));
        }
        Some(_) => {
            if let Some(line) = chain::broken_at("", calls) {
                let message =
                    format!("{name} line {line}: its link was changed after it was written");
                found.push(Finding::error(name, "calls_changed", message));
            }
        }
        None if is_there && seal::read(document) == Seal::Sealed => {
            let message =
                format!("{name}: the snapshot was sealed without calls (extensions.calls)");
            found.push(Finding::error(name, "calls_changed", message));
        }
        None if is_there => {
            let message = format!("changes to the calls in {name} cannot be detected");
            found.push(Finding::warning(name, "calls_not_sealed", message));
        }
        None => {}
    }
    // Without recorded calls in the snapshot, a list of calls cannot be checked against it.
    let Some(named) = named.filter(|_| is_there) else {
        return found;
    };
    let ours = calls.iter().filter(|call| call.is_tool());
    let ours: Vec<&Call> = ours.collect();
    let is_same = |(call, named): (&&Call, &ToolCall)| {
        call.name == named.tool
            && Some(&call.key_hash) == named.input_hash.as_ref()
            && call.result_hash == named.output_hash
    };
    let differs = ours.iter().zip(named).position(|pair| !is_same(pair));
    let differs = differs.or((ours.len() != named.len()).then(|| ours.len().min(named.len())));
    if let Some(place) = differs {
        let message = "this is not the tool call in the file next to the snapshot";
        let path = format!("/outputs/tool_calls/{place}");
        found.push(Finding::error(path, "calls_contradict", message));
    }
    found
}

kernel::words! {
    /// The kind of a call.
    pub enum CallKind {
        /// A model.
        Model = "model",
        /// A tool.
        Tool = "tool",
        /// The clock.
        Clock = "clock",
        /// A source of random numbers.
        Random = "random",
        /// A file that was read.
        FileRead = "file_read",
    }
}

/// The effect of a call on the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// None.
    Read,
    /// Writes in the working folder.
    WriteLocal,
    /// It reaches out.
    External,
    /// Unknown: taken as [`External`](Self::External).
    Unknown,
}

/// One attempt to replay a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number among all attempts, from 1; assigned by the folder.
    #[serde(default)]
    pub attempt: u64,
    /// When it ended, RFC 3339.
    pub at: String,
    /// `verify`, `env`, `model` or `rerun`.
    pub kind: String,
    /// Its strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Its outcome; `None` where it was given up before a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MatchStatus>,
    /// Whether that passes the strategy.
    #[serde(default)]
    pub pass: bool,
    /// Scores and their scorer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Value>,
    /// The first divergence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Value>,
    /// The snapshot of the new execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// More.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Attempt {
    /// The member of a line with the signature of its link. It is not linked itself.
    pub const SIGNATURE: &str = "signature";

    /// The attempt without its signature.
    pub fn unsigned(&self) -> Self {
        let mut unsigned = self.clone();
        unsigned.other.remove(Self::SIGNATURE);
        unsigned
    }

    /// Its link in the record, as written.
    pub fn link(&self) -> &str {
        let link = self.other.get(chain::LINK);
        link.and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it counts: it finished.
    pub fn is_complete(&self) -> bool {
        self.status
            .is_some_and(|status| status != MatchStatus::NotReplayed)
    }

    /// Whether it failed: its strategy was not passed, nothing matched, or it diverged.
    pub fn has_failed(&self) -> bool {
        let no_match = self.status == Some(MatchStatus::NoMatch);
        self.is_complete() && (!self.pass || no_match || self.divergence.is_some())
    }
}

/// Checks the record of replays of a snapshot, which is in the file `name`. Each line is chained to
/// the one before, the first to the seal, and `replay_status` must match the lines. An unsealed
/// snapshot is not checked.
pub fn check_replays(document: &Document, attempts: &[Attempt], name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if seal::read(document) == Seal::Unsealed {
        return found;
    }
    let unsigned: Vec<Attempt> = attempts.iter().map(Attempt::unsigned).collect();
    if let Some(line) = chain::broken_at(seal::text(&document.raw), &unsigned) {
        let number = attempts[line - 1].attempt;
        let message = format!(
            "{name} line {line} (attempt {number}): the record of replays was changed, or belongs \
             to another snapshot"
        );
        found.push(Finding::error(name, "replays_changed", message));
    }
    let said = document.raw.get("replay_status");
    let derived = ReplayStatus::from_attempts(attempts);
    let is_said = said.is_some_and(|said| {
        let derived = serde_json::to_value(&derived).unwrap_or_default();
        canonical_json(said) == canonical_json(&derived)
    });
    if !is_said {
        let message = format!(
            "replay_status differs from the record of replays ({name}): {} complete, the latest {}",
            derived.replay_count,
            derived.match_status.as_str()
        );
        found.push(Finding::error(
            "/replay_status",
            "replay_status_changed",
            message,
        ));
    }
    found
}

impl ReplayStatus {
    /// The status after these attempts.
    pub fn from_attempts(attempts: &[Attempt]) -> Self {
        let complete = attempts.iter().filter(|attempt| attempt.is_complete());
        complete
            .zip(1..)
            .fold(Self::default(), |status, (attempt, completed)| {
                status.after(attempt, completed)
            })
    }

    /// The status after one more attempt, which makes `completed` finished ones. An unfinished
    /// attempt changes nothing.
    pub fn after(&self, attempt: &Attempt, completed: u64) -> Self {
        let Some(match_status) = attempt.status.filter(|_| attempt.is_complete()) else {
            return self.clone();
        };
        Self {
            replayed: true,
            replay_count: completed.max(self.replay_count + 1),
            last_replay: Some(attempt.at.clone()),
            match_status,
            other: self.other.clone(),
        }
    }

    /// Whether its members agree: either replayed with a count, a time and a status, or none of
    /// these.
    pub fn is_consistent(&self) -> bool {
        let said = [
            self.replay_count > 0,
            self.last_replay.is_some(),
            self.match_status != MatchStatus::NotReplayed,
        ];
        said.into_iter().all(|said| said == self.replayed)
    }
}
