//! `runwright worker`: takes tasks of a queue and runs a program for each.

mod kept;
mod outcome;
mod output;
mod scratch;
mod source;
mod task;
mod together;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use futures_util::stream::FuturesUnordered;
use kernel::coordinator::is_queue_name;
use kernel::limits::MAX_TAKEN_AT_ONCE;
use runtime::supervisor::{Pool, Supervisor, find_program};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::PortArgs;
use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::session::{Form, Session};
use crate::{compose, talk, target};
use kept::Programs;
use source::{Refused, Source};
use task::Ended;

/// How long a poll is held. Our clients stop reading after a minute.
const WAIT: Duration = Duration::from_secs(20);
/// The delay before the queue is polled again after an error, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// How long a release of the last assignments is retried while the server does not answer.
const GIVE_BACK: Duration = Duration::from_secs(10);

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright worker --queue render --server http://127.0.0.1:8080 --key $KEY -- ./render.sh
  runwright worker --queue render --data ./data --concurrency 4 -- python3 render.py
  runwright worker --queue render --data ./data --keep-running -- python3 -u answer_lines.py

The program gets the task as JSON on its standard input, and in its environment
RUNWRIGHT_TASK_FILE (the same JSON), RUNWRIGHT_RESULT_FILE, RUNWRIGHT_QUEUE, RUNWRIGHT_WORKER,
RUNWRIGHT_REQUEST_ID, RUNWRIGHT_ASSIGNMENT_ID, RUNWRIGHT_FENCE, and for a run RUNWRIGHT_RUN_ID,
RUNWRIGHT_NODE_ID, RUNWRIGHT_VISIT and RUNWRIGHT_ATTEMPT. Its output is shown in the run, live.
Exit code 0 is a result: the JSON object in the result file, else standard output if it is a JSON
object, else {\"stdout\": …}. Any other end is a failure, with the code, message and retryable of an
{\"error\": …} in the same places.

With --keep-running a program is started once and reads a task per line: a JSON object with
assignment_id, request_id, fence, task and run. It answers each with one line before it reads the
next: {\"assignment_id\": …, \"outputs\": {…}}, or \"error\" with code and message instead of outputs.
Its standard error is shown in the run. A program that ends is started again for the next task.

After SIGTERM the worker takes no new tasks and lets running ones end; a second SIGTERM stops them
and returns them to the queue.")]
pub(crate) struct Args {
    /// The queue to take tasks from
    #[arg(long, value_name = "NAME", value_parser = queue)]
    queue: String,

    /// The worker's name, unique in its queue [default: a new one]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,

    /// The most tasks at a time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=MAX_TAKEN_AT_ONCE as i64))]
    concurrency: u16,

    /// Keep the program running and give it one task per line
    #[arg(long)]
    keep_running: bool,

    /// The program to run for each task, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,

    #[command(flatten)]
    ports: PortArgs,
}

fn queue(text: &str) -> Result<String, String> {
    if is_queue_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a queue name is 1 to 64 of A-Z a-z 0-9 . _ -, not only dots".to_owned())
    }
}

/// The shared state of all tasks of this worker.
struct Worker<'a> {
    queue: String,
    id: String,
    command: Vec<String>,
    /// The programs, if they are kept running.
    programs: Option<Programs>,
    source: Source<'a>,
    /// Where the queue is, for people.
    place: String,
    supervisor: Supervisor,
    /// The supervisors that wait for a task's program.
    waiting: Pool,
    workdir: std::path::PathBuf,
    form: Form,
    /// No further tasks are taken.
    drain: CancellationToken,
    /// Running tasks are stopped and released.
    stop: CancellationToken,
    /// The error of starting the program, if it failed: then no further tasks are taken.
    unable: OnceLock<String>,
}

/// Works until a signal comes.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    target::server(session, "worker").await?;
    is_there(&args.command[0], &session.place.project)?;
    let source = Source::open(session, &args.ports, &args.queue)?;
    let supervisor = compose::supervisor(session)?;
    // Before the folder is created, so that no signal can leave it.
    let signals = Signals::heard()?;
    let folder = scratch::new_in(&std::env::temp_dir(), &supervisor)
        .map_err(|error| Failure::new(io_text(&error)))?;
    let supervisor = Supervisor {
        dir: folder.path().to_owned(),
        ..supervisor
    };
    let place = match &session.remote {
        Some(remote) => format!("at {}", remote.address()),
        None => format!(
            "in the store {}; --server takes those of a server",
            session.store_name()
        ),
    };
    let worker = Worker {
        place,
        id: args.id.unwrap_or_else(new_name),
        queue: args.queue,
        command: args.command,
        programs: args.keep_running.then(Programs::default),
        source,
        supervisor,
        waiting: Pool::default(),
        workdir: session.place.project.clone(),
        form: session.form,
        drain: CancellationToken::new(),
        stop: CancellationToken::new(),
        unable: OnceLock::new(),
    };
    let result = worker.work(usize::from(args.concurrency), signals).await;
    if let Some(programs) = &worker.programs {
        worker.stop_programs(programs).await;
    }
    worker.source.close().await;
    result
}

/// The signals that stop it.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on, none of them ends the process directly.
    fn heard() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::new(io_text(&error)));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Do not take tasks for a program that cannot be started: each of them would fail.
fn is_there(program: &str, cwd: &Path) -> Result<(), Failure> {
    let path = std::env::var("PATH").ok();
    find_program(program, path.as_deref(), cwd)
        .map(drop)
        .map_err(|error| {
            Failure::new(format!(
                "{} cannot be started: {error}",
                kernel::problem::quoted(program)
            ))
            .hint("no task was taken; give a program after --, by its path or on PATH")
        })
}

fn new_name() -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("worker-{}", &id[..12])
}

impl Worker<'_> {
    async fn work(&self, concurrency: usize, mut signals: Signals) -> Result<Exit, Failure> {
        let mut tasks = FuturesUnordered::new();
        // One poll at a time. It stays open while tasks end, since its assignments would be lost
        // with it.
        let mut take = None;
        talk::say(format!(
            "{} takes tasks of {} {}",
            self.id, self.queue, self.place
        ));
        loop {
            if self.unable.get().is_some() {
                self.drain.cancel();
            }
            if take.is_none() && tasks.is_empty() && self.drain.is_cancelled() {
                return match self.unable.get() {
                    Some(why) => Err(Failure::new(why).hint("its task was returned to the queue")),
                    None => Ok(Exit::Done),
                };
            }
            let free = concurrency - tasks.len();
            if take.is_none() && free > 0 && !self.drain.is_cancelled() {
                take = Some(Box::pin(self.take(free)));
            }
            let taking = OptionFuture::from(take.as_mut());
            tokio::select! {
                biased;
                () = signals.next() => if self.drain.is_cancelled() {
                    self.stop.cancel()
                } else {
                    self.drain.cancel()
                },
                Some(ended) = tasks.next(), if !tasks.is_empty() => self.say(&ended),
                Some(taken) = taking => {
                    take = None;
                    tasks.extend(taken?.into_iter().map(|task| self.carry_out(task)));
                }
            }
        }
    }

    /// Takes tasks, under one key until there is an answer: assignments of a lost answer are
    /// returned again. When the worker stops taking, they are released.
    async fn take(&self, free: usize) -> Result<Vec<Value>, Failure> {
        let key = uuid::Uuid::new_v4().simple().to_string();
        let mut pause = PAUSES[0];
        loop {
            let asked = self.source.take(&self.queue, &self.id, (free, &key), WAIT);
            let answer = tokio::select! {
                biased;
                answer = asked => answer,
                () = self.drain.cancelled() => break,
            };
            match answer {
                Ok(taken) => return Ok(taken),
                Err(Refused::Never(failure)) => return Err(failure),
                Err(Refused::Over(why) | Refused::Later(why)) => {
                    talk::say(format!("the queue does not answer: {why}"));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.drain.cancelled() => break,
            }
            pause = (pause * 2).min(PAUSES[1]);
        }
        self.release_take(&key).await;
        Ok(Vec::new())
    }

    /// Releases possible assignments under a key.
    async fn release_take(&self, key: &str) {
        let until = tokio::time::Instant::now() + GIVE_BACK;
        loop {
            match self.source.release_take(&self.queue, &self.id, key).await {
                Ok(()) => return,
                Err(Refused::Never(failure)) => return talk::say_failure(&failure),
                Err(Refused::Over(why) | Refused::Later(why)) => {
                    if self.stop.is_cancelled() || tokio::time::Instant::now() >= until {
                        talk::say(format!(
                            "the last tasks were not returned to the queue: {why}"
                        ));
                        return;
                    }
                    tokio::time::sleep(PAUSES[0]).await;
                }
            }
        }
    }

    /// Reports the outcome of a task. A closed output is ignored.
    fn say(&self, ended: &Ended) {
        let mut data = Data::new();
        let written = match self.form {
            Form::Json => data.json_line(&json!({
                "request_id": ended.request,
                "assignment_id": ended.assignment,
                "fence": ended.fence,
                "status": ended.status,
                "code": ended.code,
            })),
            Form::Text => {
                let code = ended.code.as_deref().map(crate::text::plain);
                let code = code.map_or_else(String::new, |code| format!(" {code}"));
                data.line(format!("{} {}{code}", ended.request, ended.status))
            }
        };
        drop(written.and_then(|()| data.done()));
    }
}
