//! The supervisor process: `runwright __exec DIR`.
//!
//! It is the parent of one process at a time on behalf of the engine, so that the process never
//! outlives the engine unnoticed and its result is not lost with the engine. It is single-purpose
//! and synchronous: a few threads that send [`Event`]s, and one loop that decides.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kernel::time::Timestamp;
use rustix::io::FdFlags;
use rustix::process::{Pid, WaitStatus};

use super::attempt::{AttemptDir, Note};
use super::control_group::ControlGroup;
use super::entry::{Claimant, Entered, Refused, enter};
use super::process_table;
use super::pump::{self, EngineEnd};
use super::room::Room;
use super::watch::{Cause, Event, Reaper, Watch};
use super::wire::{End, ExitRecord, NotStarted, Report, Request, Service, Stream};
use crate::programs::{Confinement, confine};

/// Bytes of one chunk of input for a process, and chunks that may wait.
const SAID_BYTES: usize = 64 << 10;
const WAITING: usize = 256;
/// How long an interactive process has to exit by itself after its input ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs the supervisor with the arguments after `__exec`. Must be called before anything else of
/// the program has started: it waits for every child of this process.
pub fn exec_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    // The argument is for people who look at the process table.
    let (Some(_), None) = (args.next(), args.next()) else {
        return complain("it takes one argument, the directory of its attempts");
    };
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

fn complain(text: &str) -> ExitCode {
    let _ = writeln!(
        io::stderr(),
        "runwright __exec is started by the engine only: {text}"
    );
    ExitCode::from(2)
}

fn supervise() -> io::Result<()> {
    let mut control = own(io::stdin().as_fd())?;
    let engine = Arc::new(EngineEnd::new(own(io::stdout().as_fd())?));
    let (mut request, mut stdin) = Request::read(&mut control)?;
    let (events, inbox) = channel();
    let stop = StopRequest {
        is_made: Arc::default(),
        events: events.clone(),
    };
    let room = Room::new(&engine, &stop.is_made);
    let mut said = watch_control(control, request.service, stop.clone())?;
    watch_signals(stop.clone())?;
    process_table::collect_orphans()?;
    loop {
        let input = Input {
            first: stdin,
            said: said.take(),
        };
        let report = carry_out(&request, input, (&engine, &room), (&events, &inbox));
        engine.report(&report);
        if !matches!(report, Report::Ended { is_free: true, .. }) || stop.is_made() {
            return Ok(());
        }
        (request, stdin) = loop {
            match inbox.recv() {
                Ok(Event::Request(next)) => break *next,
                Ok(Event::Stop) | Err(_) => return Ok(()),
                // The last process caused it.
                Ok(_) => {}
            }
        };
    }
}

/// Carries out a request to the end of its process.
fn carry_out(
    request: &Request,
    input: Input,
    (engine, room): (&Arc<EngineEnd>, &Room),
    (events, inbox): (&Sender<Event>, &Receiver<Event>),
) -> Report {
    let mut dir = AttemptDir::new(&request.dir);
    let claimant = Claimant {
        key: &request.key,
        generation: request.generation,
        grace: Duration::from_millis(request.grace_ms),
    };
    let mut pause = |time| match inbox.recv_timeout(time) {
        Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
        Ok(_) | Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
    };
    let entered = room.for_write(
        || enter(&mut dir, &claimant, &mut pause),
        |refused| match refused {
            Refused::Io(error) => Some(error),
            _ => None,
        },
    );
    match entered {
        Ok(Entered::Ended(record)) => Report::Adopted { record },
        Ok(Entered::Clear { lock, gate }) => match start(&dir, request, (&lock, room), events) {
            Ok(running) => {
                // A later claimant now finds the lock taken and the note written.
                drop(gate);
                let ends = (engine, room);
                attend(&dir, request, running, input, ends, (events, inbox))
            }
            Err((reason, message)) => Report::NotStarted { reason, message },
        },
        Err(Refused::Stopped) => Report::Stopped,
        Err(refused) => {
            let reason = match refused {
                Refused::Superseded => NotStarted::Superseded,
                Refused::StillAlive => NotStarted::StillAlive,
                Refused::Stopped | Refused::Io(_) => NotStarted::Other,
            };
            Report::NotStarted {
                reason,
                message: refused.to_string(),
            }
        }
    }
}

/// The request to stop, from the engine or by a signal.
#[derive(Clone)]
struct StopRequest {
    /// Set before the event is sent: the watch of a process consumes the event.
    is_made: Arc<AtomicBool>,
    events: Sender<Event>,
}

impl StopRequest {
    fn make(&self) {
        self.is_made.store(true, Ordering::Release);
        let _ = self.events.send(Event::Stop);
    }

    fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Acquire)
    }
}

/// A standard stream without the buffer and lock of the standard library.
fn own(stream: BorrowedFd<'_>) -> io::Result<File> {
    Ok(File::from(stream.try_clone_to_owned()?))
}

/// Reads what follows the first request, and detects that the engine hung up. Returns the later
/// input of an interactive process. A process that does not read is stopped rather than waited
/// for: the engine may be gone meanwhile.
fn watch_control(
    mut control: File,
    service: Service,
    stop: StopRequest,
) -> io::Result<Option<Receiver<Vec<u8>>>> {
    let (say, said) = sync_channel(WAITING);
    let watch = move || {
        match service {
            Service::Single => drop(control.read(&mut [0])),
            Service::Interactive => {
                forward_input(&mut control, &say);
                drop(say);
                // The end of its standard input tells the process that its client is gone.
                thread::sleep(FAREWELL);
            }
            Service::Pooled => {
                while let Ok(next) = Request::read(&mut control) {
                    let _ = stop.events.send(Event::Request(Box::new(next)));
                }
            }
        }
        stop.make();
    };
    thread::Builder::new().spawn(watch)?;
    Ok((service == Service::Interactive).then_some(said))
}

fn forward_input(control: &mut File, say: &SyncSender<Vec<u8>>) {
    let mut bytes = vec![0; SAID_BYTES];
    while let Ok(n @ 1..) = control.read(&mut bytes) {
        if let Err(TrySendError::Full(_)) = say.try_send(bytes[..n].to_vec()) {
            return;
        }
    }
}

fn watch_signals(stop: StopRequest) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let watch = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut hangup = signal(SignalKind::hangup())?;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
            stop.make();
            // The handlers stay: a second signal must not kill a supervisor that still has work to
            // do.
            std::future::pending::<io::Result<()>>().await
        })
    };
    thread::Builder::new().spawn(watch).map(drop)
}

/// The standard input of a process.
struct Input {
    /// Written at once.
    first: Vec<u8>,
    /// Later input, until the engine hangs up; ends early for a process that is not interactive.
    said: Option<Receiver<Vec<u8>>>,
}

/// A started process.
struct Running {
    child: Child,
    reaper: Reaper,
    started_at: Timestamp,
    files: OutputFiles,
    group: Option<ControlGroup>,
}

/// The files of both outputs; none for a pooled process.
#[derive(Default)]
struct OutputFiles {
    stdout: Option<File>,
    stderr: Option<File>,
}

/// Starts the process in its own group, with the lock inherited.
fn start(
    dir: &AttemptDir,
    request: &Request,
    (lock, room): (&File, &Room),
    events: &Sender<Event>,
) -> Result<Running, (NotStarted, String)> {
    let (program, args) = request
        .argv
        .split_first()
        .ok_or_else(|| (NotStarted::Other, "no program to start".to_owned()))?;
    // Checked here because a failed start would blame the program.
    if let Err(error) = std::fs::read_dir(&request.cwd) {
        let text = format!("the working directory cannot be used: {error}");
        return Err((NotStarted::WorkingDirectory, text));
    }
    let note = |child| Note {
        generation: request.generation,
        boot: process_table::boot(),
        supervisor: process_table::find(std::process::id().cast_signed()),
        child,
    };
    let files = room.for_io(|| prepare(dir, request.service, &note(None), lock));
    let files = files.map_err(|error| {
        (
            NotStarted::Other,
            format!("the attempt directory cannot be used: {error}"),
        )
    })?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&request.env)
        .env("WF_ATTEMPT_KEY", request.key.as_str())
        .env("WF_ATTEMPT_DIR", dir.path())
        .current_dir(&request.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // Before the process: without this thread nothing would reap it.
    let reaper = Reaper::prepare(events.clone()).map_err(|error| {
        let text = format!("the supervisor cannot start a thread: {error}");
        (NotStarted::Other, text)
    })?;
    let bounds = (request.confinement.as_ref()).and_then(|within| within.bounds);
    let group = bounds.and_then(|bounds| ControlGroup::new(bounds.processes));
    let child = match &request.confinement {
        None => command.spawn().map_err(not_started),
        Some(confinement) => confined(command, confinement, group.as_ref()),
    }?;
    let started_at = now();
    // Without a note of the child the lock and the environment still lead to it.
    let _ = dir.write_note(&note(process_table::find(child.id().cast_signed())));
    Ok(Running {
        child,
        reaper,
        started_at,
        files,
        group,
    })
}

/// Starts a process from a confined thread that ends right after: the process inherits the
/// confinement of the thread. Resource limits apply to the supervisor too, which starts no other
/// process then.
fn confined(
    mut command: Command,
    confinement: &Confinement,
    group: Option<&ControlGroup>,
) -> Result<Child, (NotStarted, String)> {
    let not_confined = |error: io::Error| (NotStarted::NotConfined, error.to_string());
    thread::scope(|threads| {
        let start = || {
            let entered = group.map_or(Ok(()), ControlGroup::enter);
            entered.map_err(not_confined)?;
            confine(confinement).map_err(not_confined)?;
            command.spawn().map_err(not_started)
        };
        let starts = thread::Builder::new().spawn_scoped(threads, start);
        let starts = starts.map_err(not_confined)?;
        let lost = |_| Err(not_confined(io::Error::other("its thread was lost")));
        starts.join().unwrap_or_else(lost)
    })
}

fn not_started(error: io::Error) -> (NotStarted, String) {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => NotStarted::CommandNotFound,
        io::ErrorKind::PermissionDenied => NotStarted::NotExecutable,
        _ => NotStarted::Other,
    };
    (reason, error.to_string())
}

fn prepare(
    dir: &AttemptDir,
    service: Service,
    note: &Note,
    lock: &File,
) -> io::Result<OutputFiles> {
    dir.write_note(note)?;
    // Every descendant that does not close it keeps the lock taken.
    rustix::io::fcntl_setfd(lock, FdFlags::empty())?;
    if service == Service::Pooled {
        return Ok(OutputFiles::default());
    }
    Ok(OutputFiles {
        stdout: Some(dir.create_output(Stream::Stdout)?),
        stderr: Some(dir.create_output(Stream::Stderr)?),
    })
}

/// Supervises a started process to its end.
fn attend(
    dir: &AttemptDir,
    request: &Request,
    mut running: Running,
    stdin: Input,
    (engine, room): (&Arc<EngineEnd>, &Room),
    (events, inbox): (&Sender<Event>, &Receiver<Event>),
) -> Report {
    let main = Pid::from_child(&running.child);
    engine.report(&Report::Started {
        pid: main.as_raw_nonzero().get(),
    });
    if let Some(mut input) = running.child.stdin.take() {
        // A process that does not read all of its stdin is not an error.
        let write = move || {
            let mut pieces = std::iter::once(stdin.first).chain(stdin.said.into_iter().flatten());
            let _ = pieces.try_for_each(|piece| input.write_all(&piece));
        };
        if let Err(error) = thread::Builder::new().spawn(write) {
            let _ = events.send(Event::OutputEnded(Err(error)));
        }
    }
    let carry = |stream, from, file| {
        pump::start(
            stream,
            from,
            file,
            (engine, room),
            request.output_limit,
            events.clone(),
        )
    };
    let stdout = carry(
        Stream::Stdout,
        running.child.stdout.take().map(OwnedFd::from),
        running.files.stdout,
    );
    let stderr = carry(
        Stream::Stderr,
        running.child.stderr.take().map(OwnedFd::from),
        running.files.stderr,
    );
    running.reaper.begin();

    let bounds = request
        .confinement
        .as_ref()
        .and_then(|within| within.bounds);
    let mut watch = Watch::new(
        main,
        Duration::from_millis(request.grace_ms),
        bounds,
        running.group,
    );
    watch.until_alone(request.timeout_ms.map(Duration::from_millis), inbox);
    let lost = pump::drain(&stdout, inbox).or(pump::drain(&stderr, inbox));

    let end = match (watch.cause, lost) {
        // An output that still waited for space is not needed.
        (Some(Cause::Stop), _) => return Report::Stopped,
        (Some(Cause::OutputLost(message)), _) | (_, Some(message)) => {
            return Report::OutputLost { message };
        }
        (Some(Cause::TimedOut { after_ms }), None) => End::TimedOut { after_ms },
        (Some(Cause::BoundPassed(used)), None) => End::BoundPassed { used },
        (None, None) => end_of(watch.status),
    };
    let record = ExitRecord {
        end,
        started_at: running.started_at,
        ended_at: now(),
        stdout: stdout.written(),
        stderr: stderr.written(),
        left_behind: watch.left_behind,
    };
    if request.service == Service::Pooled {
        // An unfinished copy would mix into the output of the next process, which would also
        // inherit the resource limits of a confined one: they apply to the whole supervisor.
        let is_confined = request.confinement.is_some();
        let is_free = !is_confined && stdout.has_ended() && stderr.has_ended();
        return Report::Ended { record, is_free };
    }
    match room.for_io(|| dir.write_record(&record)) {
        Ok(()) => Report::Ended {
            record,
            is_free: false,
        },
        Err(error) => {
            let message = format!("its exit record could not be written: {error}");
            Report::OutputLost { message }
        }
    }
}

fn end_of(status: Option<WaitStatus>) -> End {
    let code = status.and_then(WaitStatus::exit_status);
    let signal = status.and_then(WaitStatus::terminating_signal);
    match (code, signal) {
        (Some(code), _) => End::Exited { code },
        (None, signal) => End::Signaled {
            signal: signal.unwrap_or_default(),
        },
    }
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(since_epoch.as_millis() as i64)
}
