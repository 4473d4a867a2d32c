//! `runwright.skill`, `runwright.command`, `runwright.cli` and `runwright.agent`: the calls of a
//! workflow template's session, executed by the project's executors (`runwright.toml`).
//!
//! The arguments are a list of texts and inputs, joined once when the attempt begins. The program
//! receives `TRACEPARENT`, `WF_SESSION_ID`, `WF_NODE_ID`, `WF_SESSION_DIR`, `WF_ATTEMPT_KEY`,
//! `WF_TASK_ID` and `WF_RESULT_FILE`, in which it may leave a JSON object with `session_id`,
//! `output_path`, `artifacts`, `output` and `cost`. Outputs: the first four of them, and
//! `exit_code`. With `failureIsResult` failed work completes the node, and `error` holds the
//! reason.
//!
//! The executor is looked up when an attempt begins, so that a retry uses the configuration of that
//! time.

mod config;
pub mod paths;
pub mod result;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use kernel::ids::{AttemptKey, StreamId, file_name, task_id};
use kernel::run::{NodeError, Outcome};
use serde_json::{Map, Value, json};

use super::process::{Attempt, Config as ProcessConfig, Interrupted, ProcessHost, Tee, shown};
use super::{
    EFFECT_KEY, NodeContext, Ports, ReceiverKey, Repeat, STOP_GRACE, Started, WorkNode,
    learn_inherited,
};
use crate::executors::{Call, Executor, Executors, Places};
use crate::named_file::NamedFile;
use crate::supervisor::{AGAIN, DEFAULT_OUTPUT_LIMIT, ExitRecord, Spec, Stream, is_full};
use crate::tools::TenantTools;
use crate::trace_context;
use config::Config;
use result::{MAX_RESULT, ProcessResult};

/// The folder of sessions, below the project folder.
pub const SESSIONS: &str = ".workflow/sessions";
/// The folder of archived sessions, below the project folder.
pub const ARCHIVE: &str = ".workflow/sessions/archive";
/// Bytes of an output that a later node can receive.
const MAX_OUTPUT: usize = 256 << 10;
/// Bytes of an output streamed into the log. The session's output file holds all of it.
const LOG_BYTES: u64 = 256 << 10;
/// The longest argument that Linux accepts, without the terminating NUL.
const MAX_ARGUMENT: usize = (128 << 10) - 1;
/// Environment variables that every program inherits.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "XDG_*",
    "SSL_CERT_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "NODE_EXTRA_CA_CERTS",
];

/// A node of a session.
pub(super) struct Play {
    call: Call,
    env: BTreeMap<String, String>,
}

impl Play {
    /// One node per type id.
    pub(super) fn all(host: &ProcessHost) -> [Self; 4] {
        Call::ALL.map(|call| Self {
            call,
            env: host.env.clone(),
        })
    }
}

#[async_trait]
impl WorkNode for Play {
    fn type_id(&self) -> &'static str {
        match self.call {
            Call::Skill => "runwright.skill",
            Call::Command => "runwright.command",
            Call::Cli => "runwright.cli",
            Call::Agent => "runwright.agent",
        }
    }

    fn summary(&self) -> &'static str {
        match self.call {
            Call::Skill => "Runs a skill of a coding agent, by the project's executors.",
            Call::Command => "Runs a command of a coding agent, by the project's executors.",
            Call::Cli => "Runs a command-line tool with a prompt, by the project's executors.",
            Call::Agent => "Runs a sub-agent of a coding agent, by the project's executors.",
        }
    }

    fn repeat(&self, _config: &Value) -> Repeat {
        Repeat::Repeatable
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        Some(ReceiverKey::Effect)
    }

    fn config_schema(&self) -> Value {
        config::schema()
    }

    fn runs_programs(&self, _config: &Value, _tools: &TenantTools<'_>) -> bool {
        true
    }

    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        ports.supervisor.record(run, key).is_some()
    }

    fn leaves_results(&self) -> bool {
        true
    }

    fn spends(&self) -> &'static [&'static str] {
        &["costMicroUsd", "tokens"]
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let config = match Config::parse(started.config()) {
            Ok(config) => config,
            Err(error) => return Outcome::failed(error),
        };
        if let Some(recorded) = config.recorded() {
            return recorded;
        }
        match self.attempt(&config, &started, &cx).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::failed(error),
        }
    }
}

impl Play {
    async fn attempt(
        &self,
        config: &Config,
        started: &Started,
        cx: &NodeContext,
    ) -> Result<Outcome, NodeError> {
        cx.ports.programs.permit_session(started.put_by())?;
        let project = &cx.ports.workdir;
        let executors = Executors::nearest(project)
            .map_err(|error| NodeError::new("executors_unusable", error.to_string()).fatal())?;
        let name = match self.call {
            Call::Cli => &config.cli_tool,
            _ => &config.executor,
        };
        let executor = executors.of(self.call, name).ok_or_else(|| {
            let text = format!(
                "no executor in {} fits this {} node; add an [[executor]] for it",
                crate::executors::FILE,
                self.call.as_str()
            );
            NodeError::new("executor_missing", text).fatal()
        })?;
        let place = loop {
            match Place::new(config, started, cx) {
                Err(unusable) if is_full(&unusable.error) => {
                    cx.output.note_stall(Some("the disk is full"));
                    tokio::select! {
                        biased;
                        () = cx.stop.cancelled() => return Ok(Outcome::Stopped),
                        () = tokio::time::sleep(AGAIN) => {}
                    }
                }
                place => break place?,
            }
        };
        cx.output.note_stall(None);
        let args = config.args(started.inputs(), &place.project);
        let places = place.fill(&args, config, started);
        let spec = self.spec(executor, &places, config, &place, started, cx)?;
        let program = shown(&spec.argv);
        let running = cx.ports.supervisor.start(spec).await.map_err(|error| {
            let text = format!("no supervisor could be started: {error}");
            NodeError::new("supervisor_failed", text)
        })?;
        let process = ProcessConfig::parse(&json!({
            "argv": [""], "captureBytes": MAX_OUTPUT, "logBytes": LOG_BYTES,
        }))?;
        let mut attempt = Attempt::new(&process, cx, program, running);
        if let Ok(tee) = Tee::open(&place.log, started.attempt().attempt, &*cx.ports.secrets) {
            attempt = attempt.with_tee(tee);
        }
        let finish = match attempt.follow().await {
            Ok(finish) => finish,
            Err(Interrupted) => {
                attempt.stop().await;
                return Ok(Outcome::Stopped);
            }
        };
        let Some(record) = attempt.record(finish)? else {
            return Ok(Outcome::Stopped);
        };
        let end = End {
            attempt: &attempt,
            record: &record,
            place: &place,
            call: self.call,
            name,
            node: started.attempt().node.as_str(),
            failure_is_result: config.failure_is_result,
        };
        end.conclude(executor.background)
    }

    fn spec(
        &self,
        executor: &Executor,
        places: &Places<'_>,
        config: &Config,
        place: &Place,
        started: &Started,
        cx: &NodeContext,
    ) -> Result<Spec, NodeError> {
        let argv = executor.argv(places);
        for argument in &argv {
            if argument.contains('\0') {
                let text = "an argument contains a NUL character, which a process cannot take";
                return Err(NodeError::new("invalid_argument", text).fatal());
            }
            if argument.len() > MAX_ARGUMENT {
                let text = format!(
                    "an argument of this node has {} bytes, and a process takes at most \
                     {MAX_ARGUMENT} as one; set in its executor `stdin = \"{{args}}\"`",
                    argument.len()
                );
                return Err(NodeError::new("argument_too_long", text).fatal());
            }
        }
        let mut env = BTreeMap::new();
        for (name, value) in &self.env {
            if is_usual(name) || executor.inherits(name) {
                learn_inherited(&cx.ports, name, value);
                env.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in [
            ("WF_SESSION_ID", places.session),
            ("WF_NODE_ID", places.node),
            ("WF_SESSION_DIR", places.session_dir),
            ("WF_TASK_ID", places.task_id),
            ("WF_RESULT_FILE", places.result_file),
            (EFFECT_KEY, started.effect().as_str()),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        trace_context::say_to_program(started.trace(), &mut env);
        Ok(Spec {
            run: started.run().clone(),
            key: started.key().clone(),
            restarts: started.restarts(),
            argv,
            env,
            cwd: place.project.clone(),
            stdin: executor.stdin(places),
            timeout: config
                .timeout_ms
                .map(Duration::from_millis)
                .or(executor.timeout),
            grace: STOP_GRACE,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            confinement: None,
        })
        .inspect(|_| {
            // A killed process may have left half a result; one that exited has not.
            if !self.has_result(&cx.ports, started.run(), started.key()) {
                let _ = std::fs::remove_file(&place.result);
            }
        })
    }
}

fn is_usual(name: &str) -> bool {
    INHERITED.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *known,
    })
}

/// A folder that cannot be used.
struct Unusable {
    folder: PathBuf,
    error: std::io::Error,
}

impl From<Unusable> for NodeError {
    fn from(Unusable { folder, error }: Unusable) -> Self {
        let text = format!("{} cannot be used: {error}", folder.display());
        NodeError::new("session_folder_unusable", text)
    }
}

/// The paths of an attempt.
struct Place {
    project: PathBuf,
    session: PathBuf,
    log: PathBuf,
    result: PathBuf,
    task: String,
}

impl Place {
    fn new(config: &Config, started: &Started, cx: &NodeContext) -> Result<Self, Unusable> {
        let refuse = |what: &Path, error| Unusable {
            folder: what.to_owned(),
            error,
        };
        let project = &cx.ports.workdir;
        let project = project
            .canonicalize()
            .map_err(|error| refuse(project, error))?;
        let session = project
            .join(SESSIONS)
            .join(file_name(started.run().as_str()));
        let artifacts = session.join("artifacts");
        paths::session_folder(&session)
            .and_then(|()| crate::private::folder(&artifacts))
            .map_err(|error| refuse(&artifacts, error))?;
        let node = file_name(started.attempt().node.as_str());
        let (run, key) = (started.run(), started.key());
        Ok(Self {
            log: artifacts.join(format!("{node}.log")),
            result: cx.ports.supervisor.file(run, key, "result.json"),
            task: task_id(&config.cli_tool, key),
            project,
            session,
        })
    }

    fn fill<'a>(&'a self, args: &'a str, config: &'a Config, started: &'a Started) -> Places<'a> {
        Places {
            args,
            executor: &config.executor,
            cli_tool: &config.cli_tool,
            cli_mode: &config.cli_mode,
            cli_rule: &config.cli_rule,
            node: started.attempt().node.as_str(),
            session: started.run().as_str(),
            session_dir: self.session.to_str().unwrap_or_default(),
            task_id: &self.task,
            result_file: self.result.to_str().unwrap_or_default(),
        }
    }
}

/// A process that has exited.
struct End<'a> {
    attempt: &'a Attempt<'a>,
    record: &'a ExitRecord,
    place: &'a Place,
    call: Call,
    name: &'a str,
    node: &'a str,
    failure_is_result: bool,
}

impl End<'_> {
    fn conclude(self, is_background: bool) -> Result<Outcome, NodeError> {
        let (stdout, is_cut) = self.attempt.captured(Stream::Stdout);
        // One byte more shows that it is too large.
        let file = NamedFile::open(&self.place.result).ok().map(|file| {
            let mut bytes = Vec::new();
            let read = file.take(MAX_RESULT as u64 + 1).read_to_end(&mut bytes);
            read.map(|_| bytes)
        });
        let file = file.and_then(Result::ok);
        let said = ProcessResult::read(file.as_deref(), &stdout, &self.place.project)?;
        let failure = self.attempt.failure(self.record).or_else(|| said.failure());
        let (usage, spent) = said.used(self.name);
        if let Some(error) = failure.as_ref().filter(|_| !self.failure_is_result) {
            let error = error.clone();
            return Ok(Outcome::Failed {
                error,
                artifacts: Vec::new(),
                usage,
                spent,
            });
        }
        if is_background && failure.is_none() && !said.is_result() {
            return Ok(Outcome::Waits {
                key: self.place.task.clone(),
                data: json!({ "task": self.place.task, "node": self.node }),
            });
        }
        let own = self.own_file();
        let is_agent = self.call == Call::Agent;
        let mut completion = said.completion(stdout, is_cut, own.filter(|_| is_agent));
        completion
            .outputs
            .insert("exit_code".into(), json!(exit_code(self.record)));
        if let Some(error) = failure {
            completion
                .outputs
                .insert("error".into(), json!(error.message));
        }
        completion.usage = usage;
        completion.spent = spent;
        Ok(Outcome::Completed(completion))
    }

    /// The default output file of an agent, relative to the project folder.
    fn own_file(&self) -> Option<String> {
        let file = self.place.log.with_extension("md");
        let relative = file.strip_prefix(&self.place.project).ok()?;
        file.is_file().then(|| relative.display().to_string())
    }
}

fn exit_code(record: &ExitRecord) -> Option<i32> {
    match record.end {
        crate::supervisor::End::Exited { code } => Some(code),
        _ => None,
    }
}
