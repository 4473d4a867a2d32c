//! `runwright.process`: a program of the project, run to its end.
//!
//! ```json
//! { "argv": ["cargo", "test", "--package", "${inputs.package}"], "timeoutMs": 600000 }
//! ```
//!
//! Arguments are passed to the program as they are, without a shell. The program receives a short
//! list of the engine's variables, its own `env`, `TRACEPARENT` (the span of the attempt), and
//! `WF_ATTEMPT_KEY`, which a restart after a crash reuses. Outputs: `exitCode`, `stdout`, `stderr`,
//! `stdoutTruncated`, `stderrTruncated`, and `json` or `lines` if `outputFormat` asks for it.

mod config;
mod output;
mod schema;
mod tee;

use std::collections::BTreeMap;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::ids::{AttemptKey, StreamId};
use kernel::json;
use kernel::problem::Problem;
use kernel::run::event::LogLevel;
use kernel::run::{Artifact, Completion, NodeError, Outcome};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;

use super::{NodeContext, Ports, ReceiverKey, Repeat, Started, WorkNode, parsed};
use crate::supervisor::{End, ExitRecord, Finish, NotStarted, Running, Seen, Stream};
use crate::tools::TenantTools;
pub(super) use config::Config;
pub use config::{Cwd, ProcessHost};
use config::{KeepOutput, OutputFormat, RepeatWord};
pub(super) use output::Interrupted;
use output::Output;
pub(super) use tee::Tee;

/// The longest standard output parsed as JSON, in bytes: the value becomes part of one event.
const MAX_JSON_BYTES: u64 = 4 << 20;
/// Lines of standard error quoted in an error.
const QUOTED_LINES: usize = 10;

/// Runs a program.
pub(super) struct Process {
    host: ProcessHost,
}

impl Process {
    /// The node with the rules of a host.
    pub(super) fn new(host: ProcessHost) -> Self {
        Self { host }
    }
}

#[async_trait]
impl WorkNode for Process {
    fn type_id(&self) -> &'static str {
        "runwright.process"
    }

    fn summary(&self) -> &'static str {
        "Runs a program to its end and gives its exit code and outputs."
    }

    fn repeat(&self, config: &Value) -> Repeat {
        match Config::parse(config).map(|config| config.repeat) {
            Ok(RepeatWord::Repeatable) => Repeat::Repeatable,
            Ok(RepeatWord::Once) | Err(_) => Repeat::Once,
        }
    }

    fn effect(&self, _config: &Value, _inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        Some(ReceiverKey::Effect)
    }

    fn config_schema(&self) -> Value {
        schema::schema()
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        config::check(config)
    }

    fn reads(&self, config: &Value) -> Reads {
        config::reads(config)
    }

    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        Some(config::outputs(config))
    }

    fn runs_programs(&self, _config: &Value, _tools: &TenantTools<'_>) -> bool {
        true
    }

    fn check_of_tenant(&self, config: &Value) -> Vec<Problem> {
        config::check_of_tenant(config)
    }

    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        ports.supervisor.record(run, key).is_some()
    }

    fn leaves_results(&self) -> bool {
        true
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        match self.attempt(&started, &cx).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::failed(error),
        }
    }
}

impl Process {
    async fn attempt(&self, started: &Started, cx: &NodeContext) -> Result<Outcome, NodeError> {
        let config = Config::parse(started.config())?;
        let confined = cx
            .ports
            .programs
            .permit(started.tenant(), started.put_by())?;
        let mut spec = config
            .spec(started, &cx.ports, (&self.host, confined.as_ref()))
            .await?;
        spec.confinement = confined.and_then(|confined| confined.confinement);
        let program = shown(&spec.argv);
        let running = cx.ports.supervisor.start(spec).await.map_err(|error| {
            NodeError::new(
                "supervisor_failed",
                format!("no supervisor could be started: {error}"),
            )
        })?;
        let mut attempt = Attempt::new(&config, cx, program, running);
        match attempt.follow().await {
            Ok(finish) => attempt.conclude(finish).await,
            Err(Interrupted) => {
                attempt.running.stop().await;
                Ok(Outcome::Stopped)
            }
        }
    }
}

struct Outputs {
    stdout: Output,
    stderr: Output,
}

impl Outputs {
    fn of(&mut self, stream: Stream) -> &mut Output {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// A process that was started.
pub(super) struct Attempt<'a> {
    config: &'a Config,
    cx: &'a NodeContext,
    program: String,
    running: Running,
    outputs: Outputs,
    tee: Option<Tee>,
}

impl<'a> Attempt<'a> {
    /// Follows a started process.
    pub(super) fn new(
        config: &'a Config,
        cx: &'a NodeContext,
        program: String,
        running: Running,
    ) -> Self {
        let output = |stream| Output::new(stream, config.capture_bytes, config.log_bytes);
        Self {
            outputs: Outputs {
                stdout: output(Stream::Stdout),
                stderr: output(Stream::Stderr),
            },
            config,
            cx,
            program,
            running,
            tee: None,
        }
    }

    /// The same with its outputs also written to a file.
    pub(super) fn with_tee(self, tee: Tee) -> Self {
        Self {
            tee: Some(tee),
            ..self
        }
    }
}

impl Attempt<'_> {
    /// Stops the process and everything it started.
    pub(super) async fn stop(self) {
        self.running.stop().await;
    }

    /// The beginning of an output as text, and whether it is truncated.
    pub(super) fn captured(&self, stream: Stream) -> (String, bool) {
        let output = match stream {
            Stream::Stdout => &self.outputs.stdout,
            Stream::Stderr => &self.outputs.stderr,
        };
        (output.captured(), output.is_truncated())
    }

    /// Follows the process to its end.
    pub(super) async fn follow(&mut self) -> Result<Finish, Interrupted> {
        let cx = self.cx;
        let finish = loop {
            let due = [self.outputs.stdout.due(), self.outputs.stderr.due()];
            let due = due.into_iter().flatten().min();
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => return Err(Interrupted),
                () = wait_until(due) => for stream in Stream::ALL {
                    self.outputs.of(stream).send_due(cx).await?;
                },
                seen = self.running.next() => match seen {
                    Seen::Started { .. } => {}
                    Seen::Stalled => cx.output.note_stall(Some("the disk is full")),
                    Seen::Continues => cx.output.note_stall(None),
                    Seen::Output(stream, bytes) => {
                        if let Some(tee) = &mut self.tee {
                            tee.take(stream, &bytes);
                        }
                        self.outputs.of(stream).take(&bytes, cx).await?;
                    }
                    Seen::Finished(finish) => break finish,
                },
            }
        };
        if let Finish::Adopted(record) = &finish {
            self.replay(record).await?;
        }
        for stream in Stream::ALL {
            self.outputs.of(stream).finish(cx).await?;
        }
        if let Some(tee) = &mut self.tee {
            tee.finish();
        }
        Ok(finish)
    }

    /// Reads again the output of an earlier life of the engine. The output of a restarted attempt
    /// begins anew in the log, so all of it is processed as if it were new.
    async fn replay(&mut self, record: &ExitRecord) -> Result<(), Interrupted> {
        let text = format!(
            "`{}` had ended before the engine restarted; its result is used",
            self.program
        );
        self.cx
            .output
            .log(LogLevel::Info, text)
            .await
            .map_err(|_| Interrupted)?;
        let mut buffer = vec![0; 64 << 10];
        for stream in Stream::ALL {
            let Ok(file) = tokio::fs::File::open(self.running.output_path(stream)).await else {
                continue;
            };
            let mut file = file.take(record.written(stream).bytes);
            while let Ok(length @ 1..) = file.read(&mut buffer).await {
                if let Some(tee) = &mut self.tee {
                    tee.take(stream, &buffer[..length]);
                }
                self.outputs
                    .of(stream)
                    .take(&buffer[..length], self.cx)
                    .await?;
            }
        }
        Ok(())
    }

    /// How the process ended; `None` when it was stopped.
    pub(super) fn record(&self, finish: Finish) -> Result<Option<ExitRecord>, NodeError> {
        match finish {
            Finish::Ended(record) | Finish::Adopted(record) => Ok(Some(record)),
            Finish::Stopped => Ok(None),
            Finish::NotStarted { reason, message } => {
                Err(not_started(reason, &message, &self.program))
            }
            Finish::OutputLost(why) => {
                let text = format!("`{}` was stopped: {why}", self.program);
                Err(NodeError::new("output_not_kept", text))
            }
            Finish::SupervisorLost => {
                let text = format!(
                    "the supervisor of `{}` was killed; all its processes were ended",
                    self.program
                );
                Err(NodeError::new("supervisor_lost", text))
            }
        }
    }

    /// The outcome of the process.
    async fn conclude(self, finish: Finish) -> Result<Outcome, NodeError> {
        let Some(record) = self.record(finish)? else {
            return Ok(Outcome::Stopped);
        };
        let artifacts = self.keep_outputs().await?;
        let outputs = match self.failure(&record) {
            Some(error) => Err(error),
            None => self.outputs(&record).await,
        };
        Ok(match outputs {
            Ok(outputs) => Outcome::Completed(Completion {
                outputs,
                artifacts,
                ..Completion::default()
            }),
            Err(error) => Outcome::Failed {
                error,
                artifacts,
                usage: Vec::new(),
                spent: BTreeMap::new(),
            },
        })
    }

    async fn keep_outputs(&self) -> Result<Vec<Artifact>, NodeError> {
        let mut artifacts = Vec::new();
        let outputs = [
            (Stream::Stdout, &self.outputs.stdout),
            (Stream::Stderr, &self.outputs.stderr),
        ];
        for (stream, output) in outputs {
            let wanted = match self.config.keep_output {
                KeepOutput::Always => !output.is_empty(),
                KeepOutput::WhenTruncated => output.is_truncated(),
                KeepOutput::Never => false,
            };
            if wanted {
                let (artifact_type, media_type) = match (stream, self.config.output_format) {
                    (Stream::Stdout, OutputFormat::Json) => ("process.stdout", "application/json"),
                    (Stream::Stdout, _) => ("process.stdout", "text/plain; charset=utf-8"),
                    (Stream::Stderr, _) => ("process.stderr", "text/plain; charset=utf-8"),
                };
                let path = self.running.output_path(stream);
                artifacts.push(
                    self.cx
                        .artifacts
                        .keep_file(artifact_type, media_type, &path)
                        .await?,
                );
            }
        }
        Ok(artifacts)
    }

    /// The failure of the process, if it failed.
    pub(super) fn failure(&self, record: &ExitRecord) -> Option<NodeError> {
        let program = &self.program;
        let last = self.outputs.stderr.last_lines(QUOTED_LINES);
        let said = if last.is_empty() {
            String::new()
        } else {
            format!("; it said:\n{last}")
        };
        let error = match &record.end {
            End::Exited { code } if self.config.success_codes.contains(code) => return None,
            End::Exited { code } => {
                let text = format!("`{program}` exited with code {code}{said}");
                NodeError::new("process_failed", text)
                    .with_details(json!({ "exitCode": code, "stderr": last }))
            }
            End::Signaled { signal } => {
                let text = format!("`{program}` was killed by signal {signal}{said}");
                NodeError::new("process_killed", text)
                    .with_details(json!({ "signal": signal, "stderr": last }))
            }
            End::TimedOut { after_ms } => {
                let text = format!(
                    "`{program}` was still running after {after_ms} ms and was ended; raise \
                     timeoutMs if it may take longer{said}"
                );
                NodeError::new("process_timed_out", text)
                    .with_details(json!({ "timeoutMs": after_ms, "stderr": last }))
            }
            End::BoundPassed { used } => {
                let text = format!(
                    "`{program}` was killed: it used {used}, more than programs of tenants \
                     may{said}"
                );
                NodeError::new("process_bound_passed", text).with_details(json!({ "stderr": last }))
            }
        };
        Some(error)
    }

    async fn outputs(&self, record: &ExitRecord) -> Result<Map<String, Value>, NodeError> {
        let Outputs { stdout, stderr } = &self.outputs;
        let code = match record.end {
            End::Exited { code } => Some(code),
            End::Signaled { .. } | End::TimedOut { .. } | End::BoundPassed { .. } => None,
        };
        let text = stdout.captured();
        let mut outputs = Map::new();
        match self.config.output_format {
            OutputFormat::Text => {}
            OutputFormat::Lines => {
                outputs.insert("lines".into(), text.lines().collect());
            }
            OutputFormat::Json => {
                outputs.insert("json".into(), self.read_json(record).await?);
            }
        }
        outputs.insert("exitCode".into(), json!(code));
        outputs.insert("stdout".into(), text.into());
        outputs.insert("stderr".into(), stderr.captured().into());
        outputs.insert("stdoutTruncated".into(), stdout.is_truncated().into());
        outputs.insert("stderrTruncated".into(), stderr.is_truncated().into());
        Ok(outputs)
    }

    async fn read_json(&self, record: &ExitRecord) -> Result<Value, NodeError> {
        let program = &self.program;
        let refuse = |text: String| NodeError::new("output_not_json", text);
        if record.stdout.bytes > MAX_JSON_BYTES {
            return Err(refuse(format!(
                "`{program}` wrote {} bytes, more than the {MAX_JSON_BYTES} that are read as \
                 JSON; use outputFormat text and the artifact",
                record.stdout.bytes
            )));
        }
        let bytes = tokio::fs::read(self.running.output_path(Stream::Stdout))
            .await
            .map_err(|error| refuse(format!("the output could not be read back: {error}")))?;
        if let Err(problems) = json::check_integers(&bytes) {
            return Err(refuse(format!("the stdout of `{program}`: {problems}")));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            refuse(format!(
                "the stdout of `{program}` is not one JSON value: {error}; write logs to stderr, \
                 or use outputFormat text"
            ))
        })
    }
}

impl Config {
    pub(super) fn parse(config: &Value) -> Result<Self, NodeError> {
        parsed(config)
    }
}

fn not_started(reason: NotStarted, message: &str, program: &str) -> NodeError {
    match reason {
        NotStarted::CommandNotFound => {
            let text = format!(
                "no command `{program}`; install it, correct its name in argv, or inherit a PATH \
                 that leads to it"
            );
            NodeError::new("command_not_found", text).fatal()
        }
        NotStarted::NotExecutable => {
            let text = format!(
                "`{program}` cannot be executed; make it executable (a confined program must \
                 belong to the system or be in the tenant's folder)"
            );
            NodeError::new("command_not_executable", text).fatal()
        }
        NotStarted::WorkingDirectory => {
            NodeError::new("working_directory_unusable", message).fatal()
        }
        NotStarted::Superseded => NodeError::new("attempt_superseded", message).fatal(),
        NotStarted::StillAlive => NodeError::new("earlier_instance_alive", message),
        NotStarted::NotConfined => {
            let text =
                format!("`{program}` was not started, because it cannot be confined: {message}");
            NodeError::new("programs_not_confined", text).fatal()
        }
        NotStarted::Other => NodeError::new(
            "process_not_started",
            format!("`{program}` could not be started: {message}"),
        ),
    }
}

/// The program's name for messages; never an argument, which may be a secret.
pub(super) fn shown(argv: &[String]) -> String {
    let name = argv.first().map(String::as_str).unwrap_or_default();
    match name.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &name[..cut]),
        None => name.to_owned(),
    }
}

async fn wait_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
