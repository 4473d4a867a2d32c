//! The engine's side of a supervised process.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kernel::ids::AttemptKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::attempt::AttemptDir;
use super::entry::{Claimant, Entered, Refused, enter};
use super::wire::{
    ExitRecord, FRAME_HEADER, Frame, MAX_FRAME_BYTES, NotStarted, Report, Request, Stream,
    take_frame,
};
use super::{EXEC_COMMAND, Spec, Supervisor};

/// How long a supervisor may take, in addition to the grace of its process, to end everything
/// before the engine does it itself.
const MARGIN: Duration = Duration::from_secs(10);

/// A supervised process. Dropping it stops the process without waiting.
pub struct Running {
    supervisor: Child,
    control: Option<ChildStdin>,
    reports: ChildStdout,
    buffer: BytesMut,
    dir: AttemptDir,
    key: AttemptKey,
    restarts: u32,
    grace: Duration,
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
        self.start_as(spec, false).await
    }

    /// Starts a process whose standard input stays open for [`Running::say`]. Its key must be
    /// unique: the result of an earlier process must not be adopted.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub async fn start_talking(&self, spec: Spec) -> io::Result<Running> {
        self.start_as(spec, true).await
    }

    async fn start_as(&self, spec: Spec, talks: bool) -> io::Result<Running> {
        let request = Request {
            key: spec.key.clone(),
            generation: spec.restarts,
            argv: spec.argv,
            env: spec.env,
            cwd: spec.cwd,
            stdin_bytes: spec.stdin.len(),
            timeout_ms: spec.timeout.map(|timeout| timeout.as_millis() as u64),
            grace_ms: spec.grace.as_millis() as u64,
            output_limit: spec.output_limit,
            talks,
            confinement: spec.confinement,
        };
        let head = request.encode()?;
        let dir = self.attempt(&spec.run, &spec.key);
        let mut supervisor = Command::new(&self.program)
            .arg(EXEC_COMMAND)
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the engine, which then stops its processes.
            .process_group(0)
            .spawn()?;
        let pipes = (supervisor.stdin.take(), supervisor.stdout.take());
        let (Some(mut control), Some(reports)) = pipes else {
            return Err(io::Error::other("the supervisor has no pipes"));
        };
        control.write_all(&head).await?;
        control.write_all(&spec.stdin).await?;
        Ok(Running {
            supervisor,
            control: Some(control),
            reports,
            buffer: BytesMut::new(),
            dir,
            key: spec.key,
            restarts: spec.restarts,
            grace: spec.grace,
        })
    }
}

impl Running {
    /// The next observation of the process; [`Seen::Finished`] is the last one. Output waits in the
    /// process until it is read here. Cancel-safe.
    pub async fn next(&mut self) -> Seen {
        match self.next_frame().await {
            Ok(Some(Frame::Output(stream, bytes))) => Seen::Output(stream, bytes),
            Ok(Some(Frame::Report(report))) => seen(report),
            Ok(None) | Err(_) => Seen::Finished(self.clear_up().await),
        }
    }

    /// Writes to the standard input of an interactive process.
    ///
    /// # Errors
    /// If it no longer reads.
    pub async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.control {
            Some(control) => control.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends the process and everything it started; returns when all of it is gone. Its result is
    /// discarded.
    pub async fn stop(self) {
        self.stop_hearing(|_, _| {}).await;
    }

    /// The same, passing on its output to the end.
    pub async fn stop_hearing(mut self, mut hear: impl FnMut(Stream, &[u8])) {
        self.control = None;
        let patience = self.grace + MARGIN;
        let over = async {
            loop {
                match self.next().await {
                    Seen::Finished(_) => break,
                    Seen::Output(stream, bytes) => hear(stream, &bytes),
                    Seen::Started { .. } => {}
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

    /// Does the work of a supervisor that was killed.
    async fn clear_up(&mut self) -> Finish {
        self.control = None;
        let _ = self.supervisor.kill().await;
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
        Report::Adopted { record } => Finish::Adopted(record),
        Report::Ended { record } => Finish::Ended(record),
        Report::NotStarted { reason, message } => Finish::NotStarted { reason, message },
        Report::Stopped => Finish::Stopped,
        Report::OutputLost { message } => Finish::OutputLost(message),
    })
}
