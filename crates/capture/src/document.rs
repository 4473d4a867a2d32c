//! The snapshot of a finished execution.

use std::collections::{BTreeMap, BTreeSet};

use faces::provenance::document::{
    Agent, Artifact, Config, Content, ContextFile, Git, Mode, Model, NO_MODEL, Operation, Snapshot,
    ToolCall,
};
use faces::provenance::hash::{hash_json, hash_text, written};
use serde_json::{Map, Value, json};

use crate::call::{self, Call, Change, Kind};
use crate::clean::{Cleaner, ROOT};
use crate::folder_keep::Contents;
use crate::ignored::Ignored;
use crate::model_params::{self, ModelParams};
use crate::run::Outcome;
use crate::scan::is_escaped;

/// Facts about an execution in addition to its record.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The workflow or command that was carried out.
    pub workflow: String,
    /// A name to find the snapshot by.
    pub name: Option<String>,
    /// Its execution mode.
    pub mode: model_params::Mode,
    /// The requested settings.
    pub model_params: ModelParams,
    /// The prompt.
    pub prompt: Option<String>,
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The hash of the system prompt, where the text is unavailable.
    pub system_prompt_hash: Option<String>,
    /// Declared files: path, digest, size.
    pub context: Vec<ContextFile>,
    /// The agent's name and version.
    pub agent: Option<(String, Option<String>)>,
    /// The tools it had.
    pub tools: Vec<String>,
    /// The rules it was under.
    pub rules: Vec<String>,
    /// The recorded variables.
    pub environment: BTreeMap<String, String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its working folder, relative to the root.
    pub cwd: String,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// Patterns of additionally watched files, and of excluded ones.
    pub patterns: (Vec<String>, Vec<String>),
    /// The home folder, which is not recorded.
    pub home: Option<String>,
    /// Fields of tools' inputs that are ignored.
    pub ignored: Ignored,
}

/// The member of `extensions` with the command.
pub const PROCESS: &str = "process";
/// The member of `extensions` that lists ignored fields of tools' inputs.
pub const IGNORED: &str = "normalisers";
/// The member of `extensions` with the settings as typed, whether they were sent or not.
pub const KNOBS: &str = "knobs";
/// The member of `extensions` that states whether the system prompt was declared or observed.
pub const SYSTEM_PROMPT_SOURCE: &str = "system_prompt_source";
/// The member of `extensions` with the initial state that a replay needs.
pub const WORKSPACE: &str = "workspace";
/// The member of `extensions` that lists requests of tool servers without an answer in time.
pub const UNANSWERED: &str = "unanswered";

/// The member of `extensions` about the command's requests to servers other than models.
pub const NETWORK: &str = "network";

/// The member of `extensions` that lists each process's readings of the clock and of randomness.
pub const READINGS: &str = "readings";
/// The member of `extensions` that lists created and deleted folders.
pub const FOLDERS: &str = "folders";
/// The member of `extensions` that lists files of which only the permission bits changed.
pub const MODES: &str = "modes";
/// The member of `extensions` that lists escaped paths, whose names are not UTF-8 or contain a `%`.
pub const ESCAPED_PATHS: &str = "escaped_paths";

/// An argument in its recorded form: the working folder by its placeholder, the home folder as `~`.
pub fn written_argument(argument: &str, home: Option<&str>, cleaner: &Cleaner) -> String {
    let text = cleaner.text(argument);
    match home
        .filter(|home| home.len() > 1)
        .and_then(|home| text.strip_prefix(home))
    {
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => text,
    }
}

/// The argument of a recorded form.
pub fn meant_argument(text: &str, home: Option<&str>, cleaner: &Cleaner) -> String {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => format!("{home}/{rest}"),
        _ => cleaner.restore(text),
    }
}

/// The report about requests to servers other than models.
fn network(outcome: &Outcome) -> Option<Value> {
    let mut said = Map::new();
    if let Some(why) = outcome.wall.doubt() {
        said.insert("unverified".to_owned(), json!(true));
        said.insert("why".to_owned(), json!(why));
    }
    let seen = &outcome.seen;
    for (name, servers) in [("asked", &seen.passed), ("refused", &seen.refused)] {
        if !servers.is_empty() {
            said.insert(name.to_owned(), json!(servers));
        }
    }
    (!said.is_empty()).then_some(Value::Object(said))
}

/// The unsealed snapshot of an execution, with its calls in the form of its file.
pub fn draft(
    id: String,
    about: &About,
    outcome: &Outcome,
    cleaner: &Cleaner,
    contents: Contents,
) -> Snapshot {
    let traffic = &outcome.recorded.traffic;
    let mut snapshot = Snapshot::new(
        id,
        about.workflow.clone(),
        outcome.ended,
        config(about, outcome),
    );
    if about.agent.is_some() || !about.tools.is_empty() || !about.rules.is_empty() {
        let (name, version) = about.agent.clone().unzip();
        let set = |items: &[String]| (!items.is_empty()).then(|| items.to_vec());
        snapshot.agent = Some(Agent {
            name,
            version: version.flatten(),
            tools: set(&about.tools),
            rules_active: set(&about.rules),
            other: Map::new(),
        });
    }
    let inputs = &mut snapshot.inputs;
    inputs.user_prompt = about.prompt.clone().or_else(|| traffic.prompt.clone());
    inputs.context_files = Some(about.context.clone());
    inputs.environment = Some(surroundings(about, outcome));
    let outputs = &mut snapshot.outputs;
    let (response, source) = response(outcome);
    outputs.response = Some(response);
    outputs.artifacts_created = Some(outcome.changes.iter().map(artifact).collect());
    let calls = &outcome.recorded.calls;
    let parents = calls.iter().filter_map(|call| tool_of(call, calls));
    let parents: BTreeSet<u64> = parents.collect();
    let tools: Vec<ToolCall> = calls
        .iter()
        .filter(|call| call.kind == Kind::Tool)
        .map(|call| tool_call(call, &outcome.recorded.calls, &parents))
        .collect();
    let metrics = snapshot.metrics.get_or_insert_default();
    metrics.duration_ms = Some(outcome.ended.ms_since(outcome.started));
    metrics.tokens_input = traffic.tokens.map(|(input, _)| input);
    metrics.tokens_output = traffic.tokens.map(|(_, output)| output);
    metrics.tool_calls_count = Some(tools.len() as u64);
    metrics.iterations = Some(traffic.turns);
    snapshot.outputs.tool_calls = Some(tools);

    let asked = about.prompt.as_ref().map_or_else(
        || traffic.prompt.as_ref().map(|_| "traffic"),
        |_| Some("declared"),
    );
    let process = process(about, outcome, cleaner);
    let more = snapshot.extend();
    more.started_at = Some(outcome.started.to_string());
    more.run_status = Some(outcome.status.as_str().to_owned());
    more.name.clone_from(&about.name);
    more.mode_enforcement
        .clone_from(&outcome.recorded.enforcement);
    let mut redaction = cleaner.counted();
    let changed = outcome.changes.iter();
    let redacted = changed.map(|change| (change, change.redacted + change.redacted_before));
    redaction.files = redacted
        .filter(|(_, redacted)| *redacted > 0)
        .map(|(change, redacted)| (change.path.clone(), redacted))
        .collect();
    more.redaction = Some(redaction);
    more.content = Some(match contents {
        Contents::Full => Content::Full,
        Contents::Hashes => Content::HashesOnly,
    });
    if outcome.git.commit.is_some() || outcome.git.branch.is_some() {
        more.git = Some(Git {
            commit: outcome.git.commit.clone(),
            branch: outcome.git.branch.clone(),
            dirty: outcome.git.dirty,
        });
    }
    let other = &mut more.other;
    let mut say = |name: &str, value: Value| {
        other.insert(name.to_owned(), value);
    };
    say(PROCESS, process);
    say("response_source", json!(source));
    if let Some(asked) = asked {
        say("prompt_source", json!(asked));
    }
    let is_told = about.system_prompt.is_some() || about.system_prompt_hash.is_some();
    match (&traffic.system, is_told) {
        (Some(_), _) => say(SYSTEM_PROMPT_SOURCE, json!("traffic")),
        (None, true) => say(SYSTEM_PROMPT_SOURCE, json!("declared")),
        (None, false) => {}
    }
    if let Some(network) = network(outcome) {
        say(NETWORK, network);
    }
    if !outcome.told.readings.is_empty() {
        let hashes = outcome.told.readings.iter();
        let hashes = hashes.map(|(name, lines)| (name, hash_text(lines)));
        say(READINGS, json!(hashes.collect::<BTreeMap<_, _>>()));
    }
    if about.model_params != ModelParams::default() {
        say(KNOBS, json!(about.model_params));
    }
    if !outcome.changes.is_empty() {
        say(WORKSPACE, json!(outcome.changes));
    }
    if !outcome.metadata.folders.is_empty() {
        say(FOLDERS, json!(outcome.metadata.folders));
    }
    if !outcome.metadata.modes.is_empty() {
        say(MODES, json!(outcome.metadata.modes));
    }
    if !outcome.unreadable.is_empty() {
        say("unreadable", json!(outcome.unreadable));
    }
    let escaped = escaped_paths(outcome);
    if !escaped.is_empty() {
        say(ESCAPED_PATHS, json!(escaped));
    }
    if traffic.refused > 0 {
        say("refused_answers", json!(traffic.refused));
    }
    if traffic.models.len() > 1 {
        say("models", json!(traffic.models));
    }
    if !about.patterns.0.is_empty() || !about.patterns.1.is_empty() {
        say(
            "watched",
            json!({ "include": about.patterns.0, "exclude": about.patterns.1 }),
        );
    }
    if !about.ignored.is_empty() {
        say(IGNORED, json!(about.ignored));
    }
    if let Some(divergence) = &outcome.recorded.divergence {
        say("divergence", json!(divergence));
    }
    let calls: Vec<_> = calls.iter().map(Call::to_file).collect();
    snapshot.seal_calls(&calls);
    snapshot
}

/// Paths of the snapshot and its calls in which `%` marks an escape.
fn escaped_paths(outcome: &Outcome) -> BTreeSet<&str> {
    let calls = outcome.recorded.calls.iter();
    let by_calls = calls.map(|call| (&call.effects, &call.metadata));
    let all = by_calls.chain([(&outcome.changes, &outcome.metadata)]);
    let paths = all.flat_map(|(changes, metadata)| {
        let files = changes.iter().map(|change| &change.path);
        let folders = metadata.folders.iter().map(|folder| &folder.path);
        let modes = metadata.modes.iter().map(|file| &file.path);
        files.chain(folders).chain(modes)
    });
    let paths = paths.chain(&outcome.unreadable);
    let paths = paths.map(String::as_str);
    paths.filter(|path| is_escaped(path)).collect()
}

/// The text of a model that the command printed last; its last text where it printed none; the
/// standard output where no model was called.
fn response(outcome: &Outcome) -> (String, &'static str) {
    let traffic = &outcome.recorded.traffic;
    let printed = last_printed(&traffic.texts, outcome.stdout.as_str().unwrap_or_default());
    match (printed.or(traffic.text.as_deref()), &outcome.stdout) {
        (Some(text), _) => (text.to_owned(), "model"),
        (None, Value::String(text)) => (text.clone(), "stdout"),
        (None, bytes) => (bytes.to_string(), "stdout"),
    }
}

/// The text that ends last in an output; the longest of several that end there. It does not depend
/// on the order of concurrent calls.
fn last_printed<'a>(texts: &'a BTreeSet<String>, output: &str) -> Option<&'a str> {
    let ends = texts.iter().filter_map(|text| {
        let trimmed = text.trim();
        let place = output.rfind(trimmed).filter(|_| !trimmed.is_empty())?;
        Some((place + trimmed.len(), trimmed.len(), text.as_str()))
    });
    ends.max().map(|(_, _, text)| text)
}

fn config(about: &About, outcome: &Outcome) -> Config {
    let traffic = &outcome.recorded.traffic;
    let model_params = &about.model_params;
    let asked = traffic.model.clone().or_else(|| model_params.model.clone());
    let mut model = Model::named(asked.unwrap_or_else(|| NO_MODEL.to_owned()));
    model.provider = traffic.provider.map(str::to_owned);
    model.version.clone_from(&traffic.served_model);
    let mode = match about.mode {
        model_params::Mode::Strict => Mode::Strict,
        model_params::Mode::Seeded => Mode::Seeded,
        model_params::Mode::Logged => Mode::Logged,
        model_params::Mode::Default => Mode::Default,
    };
    let mut config = Config::new(model, mode);
    let was_asked = traffic.turns > 0;
    let sent = |param: &str| traffic.sent.get(param);
    // For a command that called no model, the declared settings.
    let declared = |value: Option<f64>| value.filter(|_| !was_asked);
    let whole = |value: Option<u64>| value.filter(|_| !was_asked).map(u64::cast_signed);
    config.temperature = sent("temperature")
        .and_then(Value::as_f64)
        .or(declared(model_params.temperature));
    config.seed = sent("seed")
        .and_then(Value::as_i64)
        .or(whole(model_params.seed));
    config.max_tokens = sent("max_tokens")
        .and_then(Value::as_i64)
        .or(whole(model_params.max_tokens));
    config.top_p = sent("top_p")
        .and_then(Value::as_f64)
        .or(declared(model_params.top_p));
    let stop = sent("stop").or_else(|| sent("stop_sequences"));
    config.stop_sequences = match stop {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(list) => serde_json::from_value(list.clone()).ok(),
        None => None,
    };
    config.system_prompt_hash = match &traffic.system {
        Some(Value::String(text)) => Some(hash_text(text)),
        Some(blocks) => Some(hash_json(blocks)),
        None => match &about.system_prompt {
            Some(text) => Some(hash_text(text)),
            None => about.system_prompt_hash.clone(),
        },
    };
    config
}

fn surroundings(about: &About, outcome: &Outcome) -> BTreeMap<String, String> {
    let mut all = about.environment.clone();
    let mut say = |name: &str, value: String| {
        all.insert(name.to_owned(), value);
    };
    say("os", std::env::consts::OS.to_owned());
    say("arch", std::env::consts::ARCH.to_owned());
    say("tool.version", env!("CARGO_PKG_VERSION").to_owned());
    if let Some(commit) = &outcome.git.commit {
        say("git.commit", commit.clone());
    }
    if let Some(dirty) = outcome.git.dirty {
        say("git.dirty", dirty.to_string());
    }
    let provider = outcome.recorded.traffic.provider;
    let host = outcome
        .hosts
        .iter()
        .find(|(name, _)| Some(*name) == provider);
    if let Some((_, host)) = host {
        say("model.endpoint", host.clone());
    }
    all
}

fn process(about: &About, outcome: &Outcome, cleaner: &Cleaner) -> Value {
    let home = about.home.as_deref();
    // The arguments as a list: the argument after `--password` is recognised by the one before it.
    let mut argv = json!(about.argv);
    cleaner.value(&mut argv);
    let argv = argv.as_array().into_iter().flatten();
    let argv =
        argv.map(|argument| written_argument(argument.as_str().unwrap_or_default(), home, cleaner));
    let mut process = json!({
        "argv": argv.collect::<Vec<_>>(),
        "cwd": if about.cwd.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{}", about.cwd) },
        "exit_code": outcome.exit_code,
        "stdout_hash": hash_json(&outcome.stdout),
        "stderr_hash": hash_json(&outcome.stderr),
    });
    if let Some(signal) = outcome.signal {
        process["signal"] = json!(signal);
    }
    if !about.stdin.is_empty() {
        process["stdin_hash"] = json!(hash_json(&cleaner.output(&about.stdin)));
        let content = cleaner.content(about.stdin.clone());
        if content.redacted() > 0 {
            process["stdin_redacted"] = json!(content.redacted());
            process["stdin_verbatim"] = json!(content.is_verbatim);
        }
    }
    if outcome.output_cut {
        process["output_cut"] = json!(true);
    }
    process
}

fn artifact(change: &Change) -> Artifact {
    Artifact {
        path: Some(change.path.clone()),
        hash: Some(written(&change.hash)),
        operation: Some(match change.operation {
            call::Operation::Created => Operation::Created,
            call::Operation::Modified => Operation::Modified,
            call::Operation::Deleted => Operation::Deleted,
        }),
        other: Map::new(),
    }
}

fn tool_call(call: &Call, all: &[Call], parents: &BTreeSet<u64>) -> ToolCall {
    let mut other = Map::new();
    let mut say = |name: &str, value: Value| {
        other.insert(name.to_owned(), value);
    };
    if call.call_id.is_some() || parents.contains(&call.seq) {
        say("call_id", json!(id_of(call)));
    }
    let parent = tool_of(call, all).and_then(|seq| find(all, seq));
    if let Some(parent) = parent {
        say("parent_call_id", json!(id_of(parent)));
    }
    if call.is_error {
        say("is_error", json!(true));
    }
    if let Some(class) = call.effect_class {
        say("effect_class", json!(class.as_str()));
    }
    if let Some(ended) = call.ended {
        say("duration_ms", json!(ended.ms_since(call.started)));
    }
    if call.observed {
        say("observed", json!(true));
    }
    ToolCall {
        tool: Some(call.name.clone()),
        input_hash: Some(written(&call.input)),
        output_hash: call.output.as_ref().map(written),
        timestamp: Some(call.started.to_string()),
        other,
    }
}

/// The id of a call: the model's own, else its line in the list of calls.
fn id_of(call: &Call) -> String {
    let by_place = || format!("call-{}", call.seq);
    call.call_id.clone().unwrap_or_else(by_place)
}

fn find(calls: &[Call], seq: u64) -> Option<&Call> {
    let place = usize::try_from(seq).ok()?.checked_sub(1)?;
    calls.get(place).filter(|call| call.seq == seq)
}

/// The tool whose process made a call.
fn tool_of(call: &Call, all: &[Call]) -> Option<u64> {
    let parent = |call: &Call| call.parent.filter(|parent| *parent < call.seq);
    let mut above = parent(call);
    while let Some(found) = above.and_then(|seq| find(all, seq)) {
        if found.kind == Kind::Tool {
            return Some(found.seq);
        }
        above = parent(found);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_printed_text_is_the_response() {
        let texts = ["A title", "The answer", "answer", "", " "].map(str::to_owned);
        let texts = BTreeSet::from(texts);
        for (output, expected) in [
            ("A title: The answer\n", Some("The answer")),
            ("The answer\n-- A title\n", Some("A title")),
            ("42\n", None),
        ] {
            assert_eq!(last_printed(&texts, output), expected, "{output}");
        }
    }
}
