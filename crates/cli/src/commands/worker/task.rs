//! One task: its program, its heartbeats, its output and its end.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::coordinator::TaskError;
use kernel::run::event::OutputChannel;
use runtime::supervisor::{DEFAULT_OUTPUT_LIMIT, Finish, NotStarted, Running, Seen, Spec, Stream};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Worker;
use super::outcome::{conclude, failure};
use super::output::Output;
use super::source::{Refused, Word};
use crate::talk;

/// The error code for a rejected result or failure.
const REPORT_REFUSED: &str = "report_refused";
/// The time between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The delay before a report is sent again.
const AGAIN: Duration = Duration::from_millis(500);

/// The outcome of a task.
pub(super) struct Ended {
    pub(super) request: String,
    pub(super) assignment: String,
    pub(super) fence: u32,
    pub(super) status: &'static str,
    pub(super) code: Option<String>,
}

/// The needed parts of an assignment.
pub(super) struct Order {
    request: String,
    pub(super) assignment: String,
    fence: u32,
    pub(super) heartbeat: Duration,
    /// It is only offered: its start must be acknowledged first.
    offered: bool,
    /// All of it.
    json: Value,
}

impl Order {
    fn parse(json: Value) -> Option<Self> {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let heartbeat = json["heartbeat_ms"].as_u64()?;
        Some(Self {
            request: text("request_id")?,
            assignment: text("assignment_id")?,
            fence: u32::try_from(json["fence"].as_u64()?).ok()?,
            heartbeat: Duration::from_millis(heartbeat.max(100)),
            offered: json["begin_ms"].is_u64(),
            json,
        })
    }

    /// The whole assignment, as a line.
    pub(super) fn line(&self) -> String {
        format!("{}\n", self.json)
    }

    fn ended(&self, status: &'static str, code: Option<String>) -> Ended {
        Ended {
            request: self.request.clone(),
            assignment: self.assignment.clone(),
            fence: self.fence,
            status,
            code,
        }
    }
}

/// Why a report was rejected.
enum NotTaken {
    /// The assignment is over, by this code.
    Over(String),
    /// Permanently, for this reason.
    Never(String),
}

impl NotTaken {
    fn code(self) -> String {
        match self {
            Self::Over(code) => code,
            Self::Never(_) => "refused".to_owned(),
        }
    }
}

/// Why a program was not observed to its end.
pub(super) enum Cut {
    /// The assignment is over, by this code.
    Over(String),
    /// This worker is stopping.
    Stop,
    /// The program cannot be started, for this reason.
    Unable(String),
}

impl Worker<'_> {
    /// Carries out a task and reports its end.
    pub(super) async fn carry_out(&self, json: Value) -> Ended {
        let Some(order) = Order::parse(json) else {
            return Ended {
                request: String::new(),
                assignment: String::new(),
                fence: 0,
                status: "unreadable",
                code: None,
            };
        };
        self.say(&order.ended("assigned", None));
        let ended = |status, code| order.ended(status, code);
        if order.offered {
            let begun = tokio::select! {
                biased;
                begun = self.report(&order, || Word::Begin) => begun,
                () = self.stop.cancelled() => return self.release(&order).await,
            };
            if let Err(no) = begun {
                return ended("over", Some(no.code()));
            }
        }
        let outcome = match &self.programs {
            None => self.run_program(&order).await,
            Some(programs) => self.ask_program(&order, programs).await,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(Cut::Over(code)) => return ended("over", Some(code)),
            Err(cut) => {
                if let Cut::Unable(why) = cut {
                    // Another task may have set it before.
                    let _ = self.unable.set(why);
                }
                return self.release(&order).await;
            }
        };
        let (status, code) = match &outcome {
            Ok(_) => ("delivered", None),
            Err(error) => ("failed", Some(error.code.clone())),
        };
        let word = || match outcome.clone() {
            Ok(outputs) => Word::Result(outputs),
            Err(error) => Word::Failure(error),
        };
        match self.report(&order, word).await {
            Ok(()) => ended(status, code),
            // An unacceptable report must not leave the task open, or the program would run again
            // although it has ended: the node gets an error instead.
            Err(NotTaken::Never(why)) => {
                let error = TaskError {
                    retryable: Some(false),
                    ..failure(REPORT_REFUSED, why)
                };
                match self.report(&order, || Word::Failure(error.clone())).await {
                    Ok(()) => ended("failed", Some(error.code)),
                    Err(no) => ended("over", Some(no.code())),
                }
            }
            Err(no) => ended("over", Some(no.code())),
        }
    }

    /// Releases a task.
    async fn release(&self, order: &Order) -> Ended {
        match self.report(order, || Word::Release).await {
            Ok(()) => order.ended("released", None),
            Err(no) => order.ended("over", Some(no.code())),
        }
    }

    /// Reports until there is an answer.
    async fn report(&self, order: &Order, word: impl Fn() -> Word) -> Result<(), NotTaken> {
        loop {
            let said = self
                .source
                .say(&self.queue, &order.assignment, order.fence, word());
            match said.await {
                Ok(()) => return Ok(()),
                Err(Refused::Over(code)) => return Err(NotTaken::Over(code)),
                Err(Refused::Never(failure)) => {
                    talk::say_failure(&failure);
                    return Err(NotTaken::Never(failure.to_string()));
                }
                Err(Refused::Later(why)) => {
                    talk::say(format!("a report is delayed: {why}"));
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn run_program(
        &self,
        order: &Order,
    ) -> Result<Result<Map<String, Value>, TaskError>, Cut> {
        let key = format!("{}-{}", order.assignment, order.fence);
        let (run, key) = ("tasks".into(), key.as_str().into());
        let files = ["task.json", "result.json"];
        let files = files.map(|name| self.supervisor.file(&run, &key, name));
        let text = order.json["task"].to_string();
        let prepared = self.supervisor.prepare(&run, &key);
        let written = prepared.and_then(|()| std::fs::write(&files[0], &text));
        if let Err(error) = written {
            return Ok(Err(failure("worker_folder", error.to_string())));
        }
        let spec = Spec {
            run: run.clone(),
            key: key.clone(),
            restarts: 0,
            argv: self.command.clone(),
            env: self.environment(order, &files),
            cwd: self.workdir.clone(),
            stdin: text.into_bytes(),
            timeout: None,
            grace: GRACE,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            confinement: None,
        };
        let mut running = match self.supervisor.start_pooled(spec, &self.waiting).await {
            Ok(running) => running,
            Err(error) => return Ok(Err(failure("supervisor_failed", error.to_string()))),
        };
        let mut outputs = [
            Output::new(OutputChannel::Stdout),
            Output::new(OutputChannel::Stderr),
        ];
        let followed = self.follow(order, &mut running, &mut outputs).await;
        let outcome = match followed {
            Ok(Finish::NotStarted { reason, message }) if is_missing(reason) => {
                Err(Cut::Unable(self.cannot_start(&message)))
            }
            Ok(finish) => {
                self.waiting.keep(running);
                let sent = self.send_output(order, &mut outputs, true).await;
                sent.map(|()| conclude(finish, &outputs, &files[1]))
            }
            Err(Cut::Stop) => Err(self.stop_program(order, running).await),
            Err(cut) => {
                running.stop().await;
                Err(cut)
            }
        };
        if let Err(error) = self.supervisor.remove(&run, &key) {
            talk::say(format!(
                "a task's files stay until this worker ends: {error}"
            ));
        }
        outcome
    }

    /// Follows a program to its end, with heartbeats.
    async fn follow(
        &self,
        order: &Order,
        running: &mut Running,
        outputs: &mut [Output; 2],
    ) -> Result<Finish, Cut> {
        let mut heartbeat = Instant::now() + order.heartbeat;
        loop {
            let due = outputs.iter().filter_map(Output::due).min();
            let due = due.map_or(heartbeat, |due| due.min(heartbeat));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Cut::Stop),
                () = tokio::time::sleep_until(due) => {
                    if Instant::now() >= heartbeat {
                        heartbeat = Instant::now() + order.heartbeat;
                        self.tell(order, Word::Heartbeat).await?;
                    }
                    self.send_output(order, outputs, false).await?;
                }
                seen = running.next() => match seen {
                    Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
                    Seen::Output(Stream::Stdout, bytes) => outputs[0].push(&bytes),
                    Seen::Output(Stream::Stderr, bytes) => outputs[1].push(&bytes),
                    Seen::Finished(finish) => return Ok(finish),
                },
            }
        }
    }

    /// Stops a program, with heartbeats until it has ended: until then its task is not assigned to
    /// another worker. Returns why it was cut off.
    pub(super) async fn stop_program(&self, order: &Order, running: Running) -> Cut {
        let mut stopping = std::pin::pin!(running.stop());
        let heartbeats = async {
            loop {
                if let Err(cut) = self.tell(order, Word::Heartbeat).await {
                    return cut;
                }
                tokio::time::sleep(order.heartbeat).await;
            }
        };
        let over = tokio::select! {
            biased;
            _ = &mut stopping => return Cut::Stop,
            over = heartbeats => over,
        };
        stopping.await;
        over
    }

    pub(super) async fn send_output(
        &self,
        order: &Order,
        outputs: &mut [Output],
        is_end: bool,
    ) -> Result<(), Cut> {
        for output in outputs {
            while is_end || output.due().is_some_and(|due| due <= Instant::now()) {
                let Some((channel, seq, chunk)) = output.chunk(is_end) else {
                    break;
                };
                let word = Word::Output {
                    channel,
                    seq,
                    chunk,
                };
                self.tell(order, word).await?;
            }
        }
        Ok(())
    }

    /// Sends a report that may be lost; only the end of the assignment matters.
    pub(super) async fn tell(&self, order: &Order, word: Word) -> Result<(), Cut> {
        let said = self
            .source
            .say(&self.queue, &order.assignment, order.fence, word);
        match said.await {
            Ok(()) | Err(Refused::Later(_) | Refused::Never(_)) => Ok(()),
            Err(Refused::Over(code)) => Err(Cut::Over(code)),
        }
    }

    /// The message about a program that cannot be started.
    pub(super) fn cannot_start(&self, message: &str) -> String {
        let program = kernel::problem::quoted(&self.command[0]);
        format!("{program} cannot be started: {message}")
    }

    /// The environment of every program of this worker. It passes on the worker's own environment,
    /// except the key of the server.
    pub(super) fn own_environment(&self) -> BTreeMap<String, String> {
        let inherited = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name != crate::env::KEY);
        let own = [("QUEUE", &self.queue), ("WORKER", &self.id)];
        let own = own.map(|(name, value)| (format!("RUNWRIGHT_{name}"), value.clone()));
        inherited.chain(own).collect()
    }

    fn environment(
        &self,
        order: &Order,
        [task, result]: &[std::path::PathBuf; 2],
    ) -> BTreeMap<String, String> {
        let mut env = self.own_environment();
        let mut set = |name: &str, value: String| {
            env.insert(format!("RUNWRIGHT_{name}"), value);
        };
        set("REQUEST_ID", order.request.clone());
        set("ASSIGNMENT_ID", order.assignment.clone());
        set("FENCE", order.fence.to_string());
        set("TASK_FILE", task.display().to_string());
        set("RESULT_FILE", result.display().to_string());
        let run = &order.json["run"];
        for (name, key) in [("RUN_ID", "run_id"), ("NODE_ID", "node_id")] {
            if let Some(text) = run[key].as_str() {
                set(name, text.to_owned());
            }
        }
        for (name, key) in [("VISIT", "visit"), ("ATTEMPT", "attempt")] {
            if let Some(number) = run[key].as_u64() {
                set(name, number.to_string());
            }
        }
        env
    }
}

/// Whether this error prevents the program from starting for every task.
pub(super) fn is_missing(reason: NotStarted) -> bool {
    matches!(
        reason,
        NotStarted::CommandNotFound | NotStarted::NotExecutable | NotStarted::WorkingDirectory
    )
}
