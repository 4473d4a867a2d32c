//! The config of a process node, and the process specification of an attempt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::definition::Reads;
use kernel::limits::{MAX_PROGRAM_MS, MAX_PROGRAM_OUTPUT_BYTES};
use kernel::problem::{Problem, ProblemCode, pointer};
use kernel::run::NodeError;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::template::{
    Template, as_text, check_texts, fill_texts, input, note_text, note_texts,
};
use super::super::{EFFECT_KEY, Ports, STOP_GRACE, Started, learn_inherited, parsed};
use crate::programs::{Confined, VARIABLES};
use crate::secrets::{misplaced_reference, wrong_reference};
use crate::supervisor::{DEFAULT_OUTPUT_LIMIT, Spec};
use crate::trace_context;

/// Default bytes of an output in the node's outputs.
pub(super) const DEFAULT_CAPTURE_BYTES: usize = 64 << 10;
/// The most bytes of an output in the node's outputs: they are part of one event.
pub(super) const MAX_CAPTURE_BYTES: usize = 2 << 20;
/// Default bytes of an output streamed into the log.
pub(super) const DEFAULT_LOG_BYTES: u64 = 1 << 20;
/// Environment variables that a process inherits from the engine by default.
const DEFAULT_INHERITED: [&str; 10] = [
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::nodes) struct Config {
    pub(super) argv: Vec<Argument>,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Argument>,
    pub(super) inherit_env: Option<Vec<String>>,
    #[serde(default)]
    pub(super) secret_env: BTreeMap<String, String>,
    pub(super) stdin: Option<Stdin>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) grace_ms: Option<u64>,
    #[serde(default)]
    pub(super) repeat: RepeatWord,
    #[serde(default = "zero_only")]
    pub(super) success_codes: Vec<i32>,
    #[serde(default)]
    pub(super) output_format: OutputFormat,
    #[serde(default = "default_capture")]
    pub(super) capture_bytes: usize,
    #[serde(default = "default_log")]
    pub(super) log_bytes: u64,
    #[serde(default)]
    pub(super) keep_output: KeepOutput,
    #[serde(default = "default_output_limit")]
    pub(super) max_output_bytes: u64,
}

/// A text with placeholders for inputs, or a whole input.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Argument {
    Text(String),
    Input { input: String },
}

/// The standard input of the process.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Stdin {
    Text(String),
    Input { input: String },
    Json { json: Value },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RepeatWord {
    #[default]
    Repeatable,
    Once,
}

/// How the node parses standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutputFormat {
    #[default]
    Text,
    Json,
    Lines,
}

/// When the complete outputs become artifacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum KeepOutput {
    #[default]
    WhenTruncated,
    Always,
    Never,
}

fn zero_only() -> Vec<i32> {
    vec![0]
}

fn default_capture() -> usize {
    DEFAULT_CAPTURE_BYTES
}

fn default_log() -> u64 {
    DEFAULT_LOG_BYTES
}

fn default_output_limit() -> u64 {
    DEFAULT_OUTPUT_LIMIT
}

/// Checks that a schema cannot express.
pub(super) fn check(config: &Value) -> Vec<Problem> {
    let config: Config = match parsed(config) {
        Ok(config) => config,
        Err(error) => return vec![Problem::new("", ProblemCode::InvalidValue, error.message)],
    };
    let mut problems = Vec::new();
    let mut text = |path: String, text: &str| {
        if let Err(message) = Template::parse(text) {
            problems.push(Problem::new(path, ProblemCode::InvalidExpression, message));
        } else if text.contains('\0') {
            let message = "a process argument cannot contain a NUL character";
            problems.push(Problem::new(path, ProblemCode::InvalidValue, message));
        }
    };
    for (i, argument) in config.argv.iter().enumerate() {
        if let Argument::Text(argument) = argument {
            text(format!("/argv/{i}"), argument);
        }
    }
    for (name, value) in &config.env {
        if let Argument::Text(value) = value {
            text(pointer("/env", name), value);
        }
    }
    if let Some(cwd) = &config.cwd {
        text("/cwd".to_owned(), cwd);
    }
    if let Some(Stdin::Text(stdin)) = &config.stdin {
        text("/stdin".to_owned(), stdin);
    }
    if let Some(Stdin::Json { json }) = &config.stdin {
        check_texts(json, "/stdin/json", &mut problems);
    }
    let texts = config.env.iter().filter_map(|(name, value)| match value {
        Argument::Text(text) => Some((name, text)),
        Argument::Input { .. } => None,
    });
    problems.extend(texts.filter_map(|(name, text)| {
        let message = misplaced_reference(text, "secretEnv")?;
        let path = pointer("/env", name);
        Some(Problem::new(path, ProblemCode::UnknownReference, message))
    }));
    let inherited = config.inherit_env.iter().flatten().enumerate();
    let inherited = inherited.map(|(i, name)| (format!("/inheritEnv/{i}"), name));
    let set = config.env.keys().map(|name| (pointer("/env", name), name));
    let secret = config
        .secret_env
        .keys()
        .map(|name| (pointer("/secretEnv", name), name));
    for (path, name) in inherited.chain(set).chain(secret) {
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = "this is not a valid variable name";
            problems.push(Problem::new(path, ProblemCode::InvalidValue, message));
        }
    }
    for (name, reference) in &config.secret_env {
        if let Some(message) = wrong_reference(reference) {
            let path = pointer("/secretEnv", name);
            problems.push(Problem::new(path, ProblemCode::UnknownReference, message));
        }
    }
    problems
}

/// The node inputs that a config reads.
pub(super) fn reads(config: &Value) -> Reads {
    let mut reads = Reads::default();
    let mut note = |path: &str, value: &Value| match value {
        Value::String(text) => note_text(&mut reads, path, text),
        value => {
            let name = value.get("input").and_then(Value::as_str);
            reads
                .inputs
                .extend(name.map(|name| (format!("{path}/input"), name.to_owned())));
        }
    };
    let items = |key: &str| config[key].as_array().into_iter().flatten().enumerate();
    for (at, argument) in items("argv") {
        note(&format!("/argv/{at}"), argument);
    }
    for (name, value) in config["env"].as_object().into_iter().flatten() {
        note(&pointer("/env", name), value);
    }
    for key in ["cwd", "stdin"] {
        note(&format!("/{key}"), &config[key]);
    }
    note_texts(&mut reads, "/stdin/json", &config["stdin"]["json"]);
    reads
}

/// The names of the outputs of a process with this config.
pub(super) fn outputs(config: &Value) -> Vec<String> {
    let mut names = vec![
        "exitCode",
        "stdout",
        "stderr",
        "stdoutTruncated",
        "stderrTruncated",
    ];
    match config["outputFormat"].as_str() {
        Some("json") => names.push("json"),
        Some("lines") => names.push("lines"),
        _ => {}
    }
    names.into_iter().map(str::to_owned).collect()
}

/// The parts of a config that a tenant's definition may not have.
pub(super) fn check_of_tenant(config: &Value) -> Vec<Problem> {
    let asked = config["inheritEnv"].as_array().into_iter().flatten();
    let asked = asked
        .enumerate()
        .filter_map(|(i, name)| Some((i, name.as_str()?)));
    let foreign = asked.filter(|(_, name)| !VARIABLES.contains(name));
    foreign
        .map(|(i, _)| {
            let path = format!("/inheritEnv/{i}");
            Problem::new(path, ProblemCode::InvalidValue, not_inherited())
        })
        .collect()
}

fn not_inherited() -> String {
    let all = VARIABLES.join(", ");
    format!(
        "a program of a tenant's workflow inherits only {all} from the server; give others with \
         env or secretEnv"
    )
}

/// Whether processes may work outside the project folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cwd {
    /// No.
    #[default]
    InWorkdir,
    /// Anywhere the engine's user may go.
    Anywhere,
}

/// The rules of the host for processes.
#[derive(Clone, Debug, Default)]
pub struct ProcessHost {
    /// The environment that processes may inherit, by name.
    pub env: BTreeMap<String, String>,
    /// Their allowed working folders.
    pub cwd: Cwd,
}

impl ProcessHost {
    /// The environment of this process and the default rules.
    pub fn of_this_process() -> Self {
        // Variables that are not UTF-8 cannot be sent in a request and are left out.
        let env = std::env::vars_os();
        let env = env.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self {
            env: env.collect(),
            cwd: Cwd::default(),
        }
    }
}

impl Config {
    /// The process of one attempt.
    pub(super) async fn spec(
        &self,
        started: &Started,
        ports: &Ports,
        (host, confined): (&ProcessHost, Option<&Confined>),
    ) -> Result<Spec, NodeError> {
        let inputs = started.inputs();
        let mut argv = Vec::with_capacity(self.argv.len());
        for (i, argument) in self.argv.iter().enumerate() {
            argv.push(without_nul(argument.fill(inputs)?, || {
                format!("argument {i}")
            })?);
        }
        let timeout = match confined {
            None => self.timeout_ms,
            Some(_) => Some(
                self.timeout_ms
                    .map_or(MAX_PROGRAM_MS, |ms| ms.min(MAX_PROGRAM_MS)),
            ),
        };
        let most = confined.map_or(u64::MAX, |_| MAX_PROGRAM_OUTPUT_BYTES);
        let (workdir, cwd) = match confined {
            None => (ports.workdir.as_path(), host.cwd),
            Some(confined) => (confined.folder.as_path(), Cwd::InWorkdir),
        };
        Ok(Spec {
            run: started.run().clone(),
            key: started.key().clone(),
            restarts: started.restarts(),
            argv,
            env: self.environment(started, ports, (host, confined)).await?,
            cwd: self.working_directory(inputs, workdir, cwd)?,
            stdin: self
                .stdin
                .as_ref()
                .map_or(Ok(Vec::new()), |stdin| stdin.bytes(inputs))?,
            timeout: timeout.map(Duration::from_millis),
            grace: self.grace_ms.map_or(STOP_GRACE, Duration::from_millis),
            output_limit: self.max_output_bytes.min(most),
            confinement: None,
        })
    }

    async fn environment(
        &self,
        started: &Started,
        ports: &Ports,
        (host, confined): (&ProcessHost, Option<&Confined>),
    ) -> Result<BTreeMap<String, String>, NodeError> {
        let mut env = match confined {
            None => self.inherited(ports, host),
            Some(confined) => self.of_tenant(confined)?,
        };
        for (name, value) in &self.env {
            let value = without_nul(value.fill(started.inputs())?, || format!("variable {name}"))?;
            env.insert(name.clone(), value);
        }
        for (name, reference) in &self.secret_env {
            let value = ports.secrets.resolve(started.owner(), reference).await?;
            env.insert(
                name.clone(),
                without_nul(value, || format!("secret variable {name}"))?,
            );
        }
        env.insert(EFFECT_KEY.to_owned(), started.effect().to_string());
        trace_context::say_to_program(started.trace(), &mut env);
        Ok(env)
    }

    /// The engine's variables that a program of the operator inherits.
    fn inherited(&self, ports: &Ports, host: &ProcessHost) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let usual = || DEFAULT_INHERITED.map(str::to_owned).to_vec();
        for name in self.inherit_env.clone().unwrap_or_else(usual) {
            if let Some(value) = host.env.get(&name) {
                learn_inherited(ports, &name, value);
                env.insert(name, value.clone());
            }
        }
        env
    }

    /// The variables of a tenant's program; none of the engine's values.
    fn of_tenant(&self, confined: &Confined) -> Result<BTreeMap<String, String>, NodeError> {
        let mut asked = self.inherit_env.iter().flatten();
        if asked.any(|name| !VARIABLES.contains(&name.as_str())) {
            return Err(NodeError::new("env_not_inherited", not_inherited()).fatal());
        }
        let is_asked = |name: &str| {
            let asked = self.inherit_env.as_ref();
            asked.is_none_or(|asked| asked.iter().any(|asked| asked == name))
        };
        let all = confined.environment().into_iter();
        let all = all.filter(|(name, _)| is_asked(name));
        Ok(all.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn working_directory(
        &self,
        inputs: &Map<String, Value>,
        workdir: &Path,
        rule: Cwd,
    ) -> Result<PathBuf, NodeError> {
        let refuse = |text: &str| {
            NodeError::new(
                "working_directory_unusable",
                format!("the working directory {text}"),
            )
            .fatal()
        };
        let asked = match &self.cwd {
            Some(cwd) => template(cwd)?.fill(inputs)?,
            None => String::new(),
        };
        let real = |path: &Path| {
            path.canonicalize()
                .map_err(|error| refuse(&format!("cannot be used: {error}")))
        };
        let base = real(workdir)?;
        // Symbolic links are resolved before the folder is checked.
        let cwd = real(&base.join(asked))?;
        if rule == Cwd::InWorkdir && !cwd.starts_with(&base) {
            return Err(refuse(
                "is outside the folder of the project or of the tenant; choose one inside",
            ));
        }
        Ok(cwd)
    }
}

impl Argument {
    fn fill(&self, inputs: &Map<String, Value>) -> Result<String, NodeError> {
        match self {
            Self::Text(text) => template(text)?.fill(inputs),
            Self::Input { input: name } => Ok(as_text(input(inputs, name)?)),
        }
    }
}

impl Stdin {
    fn bytes(&self, inputs: &Map<String, Value>) -> Result<Vec<u8>, NodeError> {
        Ok(match self {
            Self::Text(text) => template(text)?.fill(inputs)?.into_bytes(),
            Self::Input { input: name } => as_text(input(inputs, name)?).into_bytes(),
            Self::Json { json } => {
                let mut json = json.clone();
                fill_texts(&mut json, inputs)?;
                json.to_string().into_bytes()
            }
        })
    }
}

fn template(text: &str) -> Result<Template, NodeError> {
    Template::parse(text).map_err(|message| NodeError::new("invalid_config", message).fatal())
}

pub(in crate::nodes) fn without_nul(
    text: String,
    what: impl Fn() -> String,
) -> Result<String, NodeError> {
    if text.contains('\0') {
        let text = format!(
            "{} contains a NUL character, which a process cannot take",
            what()
        );
        return Err(NodeError::new("invalid_argument", text).fatal());
    }
    Ok(text)
}
