//! One command to a runtime as a cold process, on a state directory without history and on one with
//! 50,000 events. The second is measured without the published files, with all of them current, and
//! with all of them written by a process that serves the directory. `RUNWRIGHT_OMX_RUNTIME` names a
//! published program to compare with. Only the processor time of the started process counts.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};

use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "exec",
    about: "a command to a runtime by a cold process, with and without 50,000 events of history",
    run,
};

/// Events of a long history.
const LONG: usize = 50_000;
/// Cycles of a repetition, each with two processes that are measured.
const CYCLES: u32 = 3;
/// The number of concurrent processes.
const TOGETHER: u32 = 8;
/// Commands of each of them.
const EACH: u32 = 10;

/// The process that owns the runtime.
#[derive(Clone, Debug)]
enum Keeper {
    /// This product's program, and which files it brings up to date.
    Ours(PathBuf, &'static str),
    /// The same, with all files, while another process serves the directory.
    Served(PathBuf),
    /// The program that the contract was published with.
    Published(PathBuf),
}

/// A state directory and the measurements of commands to it.
struct Case {
    name: String,
    keeper: Keeper,
    /// Ended before its directory is removed.
    server: Option<Server>,
    dir: tempfile::TempDir,
    queued: Taken,
    delivered: Taken,
    /// Commands a second of several processes.
    together: Vec<f64>,
}

/// A process that serves a state directory.
struct Server(Child);

/// Processor time and time on the clock, in milliseconds.
#[derive(Default)]
struct Taken {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let ours = ours()?;
    let mut keepers = vec![
        ("none", Keeper::Ours(ours.clone(), "none")),
        ("all", Keeper::Ours(ours.clone(), "all")),
        ("served", Keeper::Served(ours)),
    ];
    if let Some(published) = std::env::var_os("RUNWRIGHT_OMX_RUNTIME") {
        keepers.push(("published", Keeper::Published(published.into())));
    }
    let mut cases = Vec::new();
    for (name, keeper) in keepers {
        for events in [0, settings.count(LONG)] {
            let mut case = Case {
                name: format!("exec/{name}/{events}"),
                keeper: keeper.clone(),
                server: None,
                dir: tempfile::tempdir_in(&settings.dir)?,
                queued: Taken::default(),
                delivered: Taken::default(),
                together: Vec::new(),
            };
            history(case.dir.path(), events)?;
            if let Keeper::Served(program) = &case.keeper {
                case.server = Some(Server::start(program, case.dir.path())?);
            }
            // The first command imports the history and writes the files.
            case.exec(&json!({ "command": "CaptureSnapshot" }))?;
            cases.push(case);
        }
    }
    // In turns, so that all run on the same machine state.
    for cycle in 0..settings.repeat * CYCLES {
        for case in &mut cases {
            case.cycle(cycle)?;
            // The published program takes longest for this case.
            if cycle % CYCLES == 0 && case.name.ends_with("/0") {
                case.together(cycle)?;
            }
        }
    }
    Ok(cases.into_iter().flat_map(Case::series).collect())
}

/// The program, built in the same target folder.
pub(crate) fn ours() -> io::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("runwright");
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(host::failed(
            "the program to measure is missing; call `cargo xtask bench`, which builds it",
        ))
    }
}

/// Writes the history that the published program leaves after `events` events. Out of
/// every twenty, twelve belong to requests, seven to messages and one asks for a snapshot.
fn history(dir: &Path, events: usize) -> io::Result<()> {
    if events == 0 {
        return Ok(());
    }
    let mut log: Vec<Value> = Vec::with_capacity(events);
    let mut ids = Vec::new();
    let (mut request, mut message) = (0, 0);
    while log.len() < events {
        for _ in 0..4 {
            let id = format!("request-{request:06}");
            log.extend([
                json!({ "event": "DispatchQueued", "request_id": id, "target": "worker-2",
                    "metadata": { "kind": "inbox", "team_name": "blue", "worker_index": 2,
                        "trigger_message": "read your inbox" } }),
                json!({ "event": "DispatchNotified", "request_id": id, "channel": "tmux" }),
                json!({ "event": "DispatchDelivered", "request_id": id }),
            ]);
            ids.push(id);
            request += 1;
        }
        for told in [true, true, false] {
            let id = format!("message-{message:06}");
            log.push(json!({ "event": "MailboxMessageCreated", "message_id": id,
                    "from_worker": "lead", "to_worker": "worker-2", "body": "how far are you?" }));
            if told {
                log.push(json!({ "event": "MailboxNotified", "message_id": id }));
                log.push(json!({ "event": "MailboxDelivered", "message_id": id }));
            }
            message += 1;
        }
        log.push(json!({ "event": "SnapshotCaptured" }));
    }
    let ledger = json!({ "schema_version": 2, "ledger_epoch": 1, "request_ids": ids });
    fs::write(dir.join("events.json"), serde_json::to_vec_pretty(&log)?)?;
    let mut file = fs::File::create(dir.join("dispatch-seen.json"))?;
    file.write_all(&serde_json::to_vec_pretty(&ledger)?)?;
    // The history is on disk before the measurement begins.
    file.sync_all()
}

impl Case {
    /// A request from its queue to its delivery; the notice in between is not measured.
    fn cycle(&mut self, cycle: u32) -> io::Result<()> {
        let id = format!("fresh-{cycle}");
        let queue = json!({ "command": "QueueDispatch", "request_id": id, "target": "worker-1" });
        let notify = json!({ "command": "MarkNotified", "request_id": id, "channel": "tmux" });
        let deliver = json!({ "command": "MarkDelivered", "request_id": id });
        let queued = self.exec(&queue)?;
        self.queued.add(queued);
        self.exec(&notify)?;
        let delivered = self.exec(&deliver)?;
        self.delivered.add(delivered);
        Ok(())
    }

    /// Several concurrent sequences of processes.
    fn together(&mut self, cycle: u32) -> io::Result<()> {
        let case = &*self;
        let place = |place: u32| {
            (0..EACH).try_for_each(|n| {
                let id = format!("together-{cycle}-{place}-{n}");
                let queue =
                    json!({ "command": "QueueDispatch", "request_id": id, "target": "worker-1" });
                case.exec(&queue).map(|_| ())
            })
        };
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let places: Vec<_> = (0..TOGETHER)
                .map(|n| scope.spawn(move || place(n)))
                .collect();
            let ended = |place: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
                place.join().map_err(|_| host::failed("a thread failed"))?
            };
            places.into_iter().try_for_each(ended)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        self.together.push(f64::from(TOGETHER * EACH) / seconds);
        Ok(())
    }

    fn exec(&self, command: &Value) -> io::Result<(Duration, Duration)> {
        let state = format!("--state-dir={}", self.dir.path().display());
        let mut process = match &self.keeper {
            Keeper::Ours(program, views) => {
                let mut process = Command::new(program);
                process.args(["runtime", "exec", &command.to_string(), &state]);
                process.arg(format!("--views={views}"));
                process
            }
            Keeper::Served(program) => {
                let mut process = Command::new(program);
                process.args(["runtime", "exec", &command.to_string(), &state]);
                process
            }
            Keeper::Published(program) => {
                let mut process = Command::new(program);
                process.args(["exec", &command.to_string(), &state]);
                process
            }
        };
        process.stdout(Stdio::null());
        let (before, begun) = (spent()?, Instant::now());
        let ended = process.status()?;
        let wall = begun.elapsed();
        if ended.success() {
            Ok((spent()?.saturating_sub(before), wall))
        } else {
            Err(host::failed(format!("{} refused a command", self.name)))
        }
    }

    fn series(self) -> impl Iterator<Item = Series> {
        let Self {
            name,
            queued,
            delivered,
            together,
            ..
        } = self;
        let series = move |what: &str, unit, samples| Series {
            name: format!("{name}/{what}"),
            unit,
            samples,
        };
        let together = if together.is_empty() {
            None
        } else {
            Some(series("together", "commands/s", together))
        };
        [
            series("queue", "ms CPU", queued.cpu),
            series("queue", "ms", queued.wall),
            series("deliver", "ms CPU", delivered.cpu),
            series("deliver", "ms", delivered.wall),
        ]
        .into_iter()
        .chain(together)
    }
}

impl Server {
    /// Starts a server and waits until it listens.
    fn start(program: &Path, dir: &Path) -> io::Result<Self> {
        let mut process = Command::new(program)
            .args(["runtime", "serve"])
            .arg(format!("--state-dir={}", dir.display()))
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let server = Self(process);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.starts_with("serving ") {
            Ok(server)
        } else {
            Err(host::failed("the server did not begin"))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Taken {
    fn add(&mut self, (cpu, wall): (Duration, Duration)) {
        self.cpu.push(cpu.as_secs_f64() * 1_000.0);
        self.wall.push(wall.as_secs_f64() * 1_000.0);
    }
}

/// Processor time of all children that were waited for.
fn spent() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
