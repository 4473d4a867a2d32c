//! The engine's side of a supervised process.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kernel::ids::AttemptKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::attempt::AttemptDir;
use super::entry::{Claimant, Entered, Refused, enter};
use super::pool::Pool;
use super::wire::{
    ExitRecord, FRAME_HEADER, Frame, MAX_FRAME_BYTES, NotStarted, Report, Request, Service, Stream,
    take_frame,
};
use super::{EXEC_COMMAND, Spec, Supervisor};

/// How long a supervisor may take, in addition to the grace of its process, to end everything
/// before the engine does it itself.
const MARGIN: Duration = Duration::from_secs(10);

/// A supervised process. Dropping it stops the process without waiting.
pub struct Running {
    supervisor: Connection,
    /// Whether the supervisor waits for another request.
    is_free: bool,
    dir: AttemptDir,
    key: AttemptKey,
    restarts: u32,
    grace: Duration,
}

/// A supervisor, and the pipes to and from it. Dropping it stops its process.
pub(super) struct Connection {
    process: Child,
    control: Option<ChildStdin>,
    reports: ChildStdout,
    buffer: BytesMut,
}

/// An observation of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// It runs with this id.
    Started {
        /// The process id.
        pid: i32,
    },
    /// It wrote output; at most 64 KiB at a time.
    Output(Stream, Bytes),
    /// The disk is full: its output, or another file of the attempt, waits for space.
    Stalled,
    /// A file that waited is written.
    Continues,
    /// It has finished.
    Finished(Finish),
}

/// How a process finished.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// It exited now.
    Ended(ExitRecord),
    /// It exited in an earlier life of the engine. Its output is not repeated; it is in the files.
    Adopted(ExitRecord),
    /// It never ran.
    NotStarted {
        /// The reason, for programs.
        reason: NotStarted,
        /// The reason, for people.
        message: String,
    },
    /// It was stopped on request.
    Stopped,
    /// It was stopped because its output could not be stored, with the reason.
    OutputLost(String),
    /// Its supervisor was lost and all remaining processes were ended.
    SupervisorLost,
}

impl Supervisor {
    /// Starts a process, or adopts the result of an earlier one.
    ///
    /// # Errors
    /// If the supervisor could not be started. Errors of the process itself are reported as
    /// [`Finish::NotStarted`].
    pub async fn start(&self, spec: Spec) -> io::Result<Running> {
        self.start_as(spec, Service::Single).await
    }

    /// Starts a process whose standard input stays open for [`Running::say`]. Its key must be
    /// unique: the result of an earlier process must not be adopted.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub async fn start_talking(&self, spec: Spec) -> io::Result<Running> {
        self.start_as(spec, Service::Interactive).await
    }

    /// Starts a process under a waiting supervisor of the pool, or a new one; [`Pool::keep`] takes
    /// the supervisor back. Its key must be unique. It leaves neither outputs nor a record: no
    /// later engine adopts its result.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub async fn start_pooled(&self, spec: Spec, pool: &Pool) -> io::Result<Running> {
        let (request, stdin) = self.request(spec, Service::Pooled);
        while let Some(mut waiting) = pool.next_waiting() {
            // One that has ended meanwhile has started nothing.
            if waiting.send(&request, &stdin).await.is_ok() {
                return Ok(Running::new(waiting, &request));
            }
        }
        let supervisor = self.connect(&self.dir, &request, &stdin).await?;
        Ok(Running::new(supervisor, &request))
    }

    async fn start_as(&self, spec: Spec, service: Service) -> io::Result<Running> {
        let (request, stdin) = self.request(spec, service);
        let supervisor = self.connect(&request.dir, &request, &stdin).await?;
        Ok(Running::new(supervisor, &request))
    }

    fn request(&self, spec: Spec, service: Service) -> (Request, Vec<u8>) {
        let request = Request {
            dir: self.attempt(&spec.run, &spec.key).path().to_owned(),
            key: spec.key,
            generation: spec.restarts,
            argv: spec.argv,
            env: spec.env,
            cwd: spec.cwd,
            stdin_bytes: spec.stdin.len(),
            timeout_ms: spec.timeout.map(|timeout| timeout.as_millis() as u64),
            grace_ms: spec.grace.as_millis() as u64,
            output_limit: spec.output_limit,
            service,
            confinement: spec.confinement,
        };
        (request, spec.stdin)
    }

    /// Starts a supervisor with its first request.
    async fn connect(&self, dir: &Path, request: &Request, stdin: &[u8]) -> io::Result<Connection> {
        let mut process = Command::new(&self.program)
            .arg(EXEC_COMMAND)
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the engine, which then stops its processes.
            .process_group(0)
            .spawn()?;
        let pipes = (process.stdin.take(), process.stdout.take());
        let (Some(control), Some(reports)) = pipes else {
            return Err(io::Error::other("the supervisor has no pipes"));
        };
        let mut connection = Connection {
            process,
            control: Some(control),
            reports,
            buffer: BytesMut::new(),
        };
        connection.send(request, stdin).await?;
        Ok(connection)
    }
}

impl Connection {
    async fn send(&mut self, request: &Request, stdin: &[u8]) -> io::Result<()> {
        let head = request.encode()?;
        self.say(&head).await?;
        self.say(stdin).await
    }

    async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.control {
            Some(control) => control.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether the process has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    async fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = take_frame(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(FRAME_HEADER + MAX_FRAME_BYTES);
            if self.reports.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

impl Running {
    fn new(supervisor: Connection, request: &Request) -> Self {
        Self {
            supervisor,
            is_free: false,
            dir: AttemptDir::new(&request.dir),
            key: request.key.clone(),
            restarts: request.generation,
            grace: Duration::from_millis(request.grace_ms),
        }
    }

    /// The supervisor, if it waits for another request.
    pub(super) fn into_free(self) -> Option<Connection> {
        self.is_free.then_some(self.supervisor)
    }

    /// The next observation of the process; [`Seen::Finished`] is the last one. Output waits in the
    /// process until it is read here. Cancel-safe.
    pub async fn next(&mut self) -> Seen {
        match self.supervisor.next_frame().await {
            Ok(Some(Frame::Output(stream, bytes))) => Seen::Output(stream, bytes),
            Ok(Some(Frame::Report(report))) => {
                self.is_free = matches!(report, Report::Ended { is_free: true, .. });
                seen(report)
            }
            Ok(None) | Err(_) => Seen::Finished(self.clear_up().await),
        }
    }

    /// Writes to the standard input of an interactive process.
    ///
    /// # Errors
    /// If it no longer reads.
    pub async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.supervisor.say(bytes).await
    }

    /// Ends the process and everything it started; returns when all of it is gone. Its result is
    /// discarded.
    pub async fn stop(self) {
        self.stop_hearing(|_, _| {}).await;
    }

    /// The same, passing on its output to the end.
    pub async fn stop_hearing(mut self, mut hear: impl FnMut(Stream, &[u8])) {
        self.supervisor.control = None;
        let patience = self.grace + MARGIN;
        let over = async {
            loop {
                match self.next().await {
                    Seen::Finished(_) => break,
                    Seen::Output(stream, bytes) => hear(stream, &bytes),
                    Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
                }
            }
        };
        if tokio::time::timeout(patience, over).await.is_err() {
            self.clear_up().await;
        }
    }

    /// The complete output, once the process has finished.
    pub fn output_path(&self, stream: Stream) -> PathBuf {
        self.dir.output_path(stream)
    }

    /// Does the work of a supervisor that was killed.
    async fn clear_up(&mut self) -> Finish {
        self.supervisor.control = None;
        let _ = self.supervisor.process.kill().await;
        let (mut dir, key, generation) = (self.dir.clone(), self.key.clone(), self.restarts);
        let entered = tokio::task::spawn_blocking(move || {
            let claimant = Claimant {
                key: &key,
                generation,
                grace: Duration::ZERO,
            };
            let mut pause = |time| {
                std::thread::sleep(time);
                ControlFlow::Continue(())
            };
            enter(&mut dir, &claimant, &mut pause)
        });
        match entered.await {
            Ok(Ok(Entered::Ended(record))) => Finish::Adopted(record),
            Ok(Err(refused @ Refused::Superseded)) => Finish::NotStarted {
                reason: NotStarted::Superseded,
                message: refused.to_string(),
            },
            Ok(Err(refused @ Refused::StillAlive)) => Finish::NotStarted {
                reason: NotStarted::StillAlive,
                message: refused.to_string(),
            },
            _ => Finish::SupervisorLost,
        }
    }
}

fn seen(report: Report) -> Seen {
    Seen::Finished(match report {
        Report::Started { pid } => return Seen::Started { pid },
        Report::Stalled => return Seen::Stalled,
        Report::Continues => return Seen::Continues,
        Report::Adopted { record } => Finish::Adopted(record),
        Report::Ended { record, .. } => Finish::Ended(record),
        Report::NotStarted { reason, message } => Finish::NotStarted { reason, message },
        Report::Stopped => Finish::Stopped,
        Report::OutputLost { message } => Finish::OutputLost(message),
    })
}
