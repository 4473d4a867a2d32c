//! The members of a snapshot, in written order.
//!
//! Hashes and times are texts here, because foreign files have placeholders instead; see
//! [`hash::digest`](super::hash::digest) and [`Snapshot::captured`]. Unknown members are kept and
//! written again.

use std::collections::BTreeMap;

use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::calls::{self, Call};

/// The written version of the schema.
pub const VERSION: &str = "1.0";
/// The model's id where no model was called.
pub const NO_MODEL: &str = "none";

/// The value of `extensions.redaction.policy` where redaction was switched off explicitly.
pub const OFF: &str = "off";

/// An execution snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// A UUID; foreign files may have any text.
    pub snapshot_id: String,
    /// The workflow or command that was carried out. Free text.
    pub workflow_id: String,
    /// The version of the schema.
    #[serde(default = "version")]
    pub version: String,
    /// When the execution ended, RFC 3339.
    pub captured_at: String,
    /// With which settings.
    pub config: Config,
    /// By which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Its inputs.
    pub inputs: Inputs,
    /// Its results.
    pub outputs: Outputs,
    /// Its metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// The outcomes of its replays. The only member that may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_status: Option<ReplayStatus>,
    /// Data without a member in the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Extensions>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn version() -> String {
    VERSION.to_owned()
}

impl Snapshot {
    /// A snapshot with its required members.
    pub fn new(id: String, workflow_id: String, ended: Timestamp, config: Config) -> Self {
        Self {
            snapshot_id: id,
            workflow_id,
            version: version(),
            captured_at: ended.to_string(),
            config,
            agent: None,
            inputs: Inputs::default(),
            outputs: Outputs::default(),
            metrics: None,
            replay_status: Some(ReplayStatus::default()),
            extensions: None,
            other: Map::new(),
        }
    }

    /// When the execution ended.
    pub fn captured(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.captured_at)
    }

    /// The extensions, added if they are absent.
    pub fn extend(&mut self) -> &mut Extensions {
        self.extensions.get_or_insert_default()
    }

    /// The outcomes of replays, with a default where the member is absent.
    pub fn replays(&self) -> ReplayStatus {
        self.replay_status.clone().unwrap_or_default()
    }

    /// Ids of other snapshots that must be kept for this one: its parent, its baseline, and the
    /// earlier one of the same run.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let extensions = self.extensions.iter();
        extensions.flat_map(|extensions| {
            let parent = extensions.parent.iter();
            let parent = parent.map(|parent| parent.snapshot_id.as_str());
            let earlier = extensions.follows.as_deref();
            parent.chain(extensions.baseline.as_deref()).chain(earlier)
        })
    }

    /// Whether it may lack calls: see [`unverified`](Self::unverified).
    pub fn is_unverified(&self) -> bool {
        self.unverified().is_some()
    }

    /// Why it may lack calls: its command could connect past the recorder, its refused connections
    /// could not be observed, or a connection of it was refused.
    pub fn unverified(&self) -> Option<String> {
        let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        if let Some(network) = self.network().filter(|it| it["unverified"] == true) {
            let why = network["why"].as_str();
            let why = why.unwrap_or("the command could connect past the recorder");
            return Some(format!("calls may be missing: {}", plain(why)));
        }
        let refused: Vec<&str> = self.servers("refused").collect();
        let names = plain(&refused.join(", "));
        (!refused.is_empty()).then(|| {
            format!(
                "the recorder refused connections of the command, so calls may be missing: {names}; \
                 let it take the base URL from OPENAI_BASE_URL or ANTHROPIC_BASE_URL, and capture \
                 it again"
            )
        })
    }

    /// The servers other than models that its command called (`asked`) or was refused (`refused`).
    pub fn servers(&self, list: &str) -> impl Iterator<Item = &str> {
        let list = self.network().and_then(|network| network[list].as_array());
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    fn network(&self) -> Option<&Value> {
        self.extensions.as_ref()?.other.get("network")
    }

    /// Whether it may contain secrets: it was not redacted.
    pub fn is_unredacted(&self) -> bool {
        let redaction = self
            .extensions
            .as_ref()
            .and_then(|more| more.redaction.as_ref());
        redaction.is_some_and(|redaction| redaction.policy == OFF)
    }

    /// Records the calls of the snapshot, so that they are sealed with it.
    pub fn seal_calls(&mut self, calls: &[Call]) {
        let sealed = calls::sealed(calls);
        self.extend().other.insert(calls::CALLS.to_owned(), sealed);
    }

    /// Every hash in it that may be the address of a blob.
    pub fn hashes(&self) -> impl Iterator<Item = &str> {
        let (inputs, outputs) = (&self.inputs, &self.outputs);
        let texts = [
            &self.config.system_prompt_hash,
            &inputs.user_prompt_hash,
            &outputs.response_hash,
        ];
        let texts = texts.into_iter().flatten();
        let files = inputs.context_files.iter().flatten();
        let files = files.filter_map(|file| file.hash.as_ref());
        let artifacts = outputs.artifacts_created.iter().flatten();
        let artifacts = artifacts.filter_map(|artifact| artifact.hash.as_ref());
        let calls = outputs.tool_calls.iter().flatten();
        let calls = calls.flat_map(|call| call.input_hash.iter().chain(&call.output_hash));
        let hashes = texts.chain(files).chain(artifacts).chain(calls);
        hashes.map(String::as_str)
    }
}

/// The settings: as sent, with defaults applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The model.
    pub model: Model,
    /// The mode of the execution.
    pub execution_mode: Mode,
    /// From 0 to 2; absent where none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The seed that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Maximum tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<i64>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The stop sequences, in the order sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// The hash of the whole system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_hash: Option<String>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Config {
    /// Settings of which only model and mode are known.
    pub fn new(model: Model, execution_mode: Mode) -> Self {
        Self {
            model,
            execution_mode,
            temperature: None,
            seed: None,
            max_tokens: None,
            top_p: None,
            stop_sequences: None,
            system_prompt_hash: None,
            other: Map::new(),
        }
    }
}

/// A model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The requested id.
    pub id: String,
    /// Its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The id it answered with, or the provider's fingerprint. Never invented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Model {
    /// A model of which the id is known.
    pub fn named(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            ..Self::default()
        }
    }
}

kernel::words! {
    /// The mode of an execution.
    pub enum Mode {
        /// Temperature 0, a seed, every call recorded with its body.
        Strict = "strict",
        /// A seed is set.
        Seeded = "seeded",
        /// The captured data is on disk.
        Logged = "logged",
        /// Without requirements.
        Default = "default",
    }
}

/// The agent that did it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of its definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its tools; a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its active rules; a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_active: Option<Vec<String>>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The inputs of an execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The request, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt: Option<String>,
    /// The hash of the request in the form given here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt_hash: Option<String>,
    /// Files that were read, hashed at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_files: Option<Vec<ContextFile>>,
    /// Relevant variables and facts, from an allow-list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContextFile {
    /// Its path below the root, with `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The hash of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The results of an execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outputs {
    /// The last text of the assistant, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The hash of that text: the one field every comparison needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_hash: Option<String>,
    /// Files that were created, modified or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_created: Option<Vec<Artifact>>,
    /// Calls of tools, in the order they began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A file that changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path below the root, with `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The hash of its bytes, or of the last bytes of a deleted file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

kernel::words! {
    /// How a file changed.
    pub enum Operation {
        /// It was created.
        Created = "created",
        /// It existed with other bytes.
        Modified = "modified",
        /// It was deleted.
        Deleted = "deleted",
    }
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The hash of its input as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// The hash of its output, or of its error; `None` where it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The metrics of an execution. Never part of a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Milliseconds from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Tokens in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_input: Option<u64>,
    /// Tokens out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_output: Option<u64>,
    /// The number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls_count: Option<u64>,
    /// The number of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The outcomes of replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayStatus {
    /// Whether it was replayed.
    #[serde(default)]
    pub replayed: bool,
    /// The number of finished replays.
    #[serde(default)]
    pub replay_count: u64,
    /// When the latest ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_replay: Option<String>,
    /// The outcome of the latest.
    #[serde(default = "not_replayed")]
    pub match_status: MatchStatus,
    /// Unknown members.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn not_replayed() -> MatchStatus {
    MatchStatus::NotReplayed
}

impl Default for ReplayStatus {
    fn default() -> Self {
        Self {
            replayed: false,
            replay_count: 0,
            last_replay: None,
            match_status: not_replayed(),
            other: Map::new(),
        }
    }
}

kernel::words! {
    /// The outcome of a comparison.
    pub enum MatchStatus {
        /// Every compared field is identical.
        ExactMatch = "exact_match",
        /// The response is equivalent, and so is everything else.
        SemanticMatch = "semantic_match",
        /// Something agrees.
        PartialMatch = "partial_match",
        /// Nothing matches.
        NoMatch = "no_match",
        /// It was not replayed.
        NotReplayed = "not_replayed",
    }
}

/// Data without a member in the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extensions {
    /// When the execution began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// `succeeded`, `failed` or `cancelled`; for an unfinished run, its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_status: Option<String>,
    /// The run it was captured from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The snapshot it continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Its baseline snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The earlier snapshot of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The values removed before hashing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<RedactionCount>,
    /// The outcome of each setting: `sent`, `unsupported`, `ignored_by_provider`, `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_enforcement: Option<Value>,
    /// Whether texts and bodies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The git state of the working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
    /// The hash of the environment as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_hash: Option<String>,
    /// Never pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// A name to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The original text of a seed that was not a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_label: Option<String>,
    /// The original name of a mode in a file of another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_label: Option<String>,
    /// The hash of everything but `replay_status` and itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// More.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The snapshot that another continues from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id.
    pub snapshot_id: String,
    /// After which of its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_step: Option<u64>,
}

/// The values removed before hashing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RedactionCount {
    /// `on`, or `off` where it was switched off explicitly.
    pub policy: String,
    /// The version of the rules.
    pub version: u32,
    /// The number of places.
    pub count: u64,
    /// The number for each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
    /// The number for each changed file, by its path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, u64>,
}

/// Whether texts and bodies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// They are.
    Full,
    /// Only their hashes: the rest can be verified, but neither replayed nor compared by meaning.
    HashesOnly,
}

/// The git state of a working folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Git {
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether there were uncommitted changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
}
