//! Runs and records a command from its start to its end.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kernel::time::Timestamp;
use runtime::supervisor::{ProcessesBelow, find_program};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use store::{StoreClock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::call::{Change, FolderMetadata, Keep};
use crate::clean::Cleaner;
use crate::elsewhere::{Onward, Rule, Seen, tell};
use crate::environment::{self, GitState};
use crate::ignored::Ignored;
use crate::model_params::Enforcement;
use crate::observer::{Entrance, Observer};
use crate::preload::{Preload, Readings, ScriptReport};
use crate::proxy::{Proxy, Upstreams};
use crate::recorder::{Recorded, Recorder, Setup};
use crate::replayer::{OnMiss, Replayer};
use crate::scan::{Filter, Folder, ScanError};
use crate::stop::Stop;
use crate::upstream::NotAServer;
use crate::wall::{Elsewhere, Wall};
use crate::watchdog::{self, watch_over};

/// Maximum recorded bytes of each output.
const MAX_OUTPUT: usize = 16 << 20;
/// The proxy's address, in the form of those variables.
const LOOPBACK: &str = "127.0.0.1,localhost";
/// The time between the request to end and the kill of a command.
const GRACE: Duration = Duration::from_secs(3);
/// Maximum silence of a replay that has left its recording, before the reason is decided.
const LOOKS_AHEAD: Duration = Duration::from_secs(10);

/// The command, and how it is recorded.
pub struct Plan {
    /// Program and arguments. Never read by a shell.
    pub argv: Vec<String>,
    /// The environment without the recorder's variables.
    pub environment: BTreeMap<String, String>,
    /// Its working folder.
    pub cwd: PathBuf,
    /// This program, if it supports [`watchdog::WATCHDOG_COMMAND`].
    pub watchdog: Option<PathBuf>,
    /// The folder that is watched.
    pub root: PathBuf,
    /// The whole standard input.
    pub stdin: Vec<u8>,
    /// Which files are watched.
    pub filter: Filter,
    /// Cleans everything.
    pub cleaner: Cleaner,
    /// Takes everything.
    pub keep: Arc<dyn Keep>,
    /// The settings of the model.
    pub enforcement: Enforcement,
    /// The recording that answers calls, and the storage of its contents.
    pub replayer: Option<(Replayer, Arc<dyn Keep>)>,
    /// The reaction of a replay to a call without a recorded answer.
    pub on_miss: OnMiss,
    /// Fields of tools' inputs that are ignored.
    pub ignored: Ignored,
    /// The command's access to servers other than models.
    pub elsewhere: Elsewhere,
    /// An empty or new folder outside of the watched one, and the readings of clock and randomness
    /// to repeat.
    pub preload: (PathBuf, Readings),
}

/// An output of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Shows the output of a command to people.
pub type Echo = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

kernel::words! {
    /// How a command ended.
    pub enum Status {
        /// With exit code 0.
        Succeeded = "succeeded",
        /// Otherwise, by itself.
        Failed = "failed",
        /// Stopped by a signal.
        Cancelled = "cancelled",
        /// It was stopped because the replay had left its recording.
        Diverged = "diverged",
    }
}

/// The result of an execution.
pub struct Outcome {
    /// Its calls.
    pub recorded: Recorded,
    /// How it ended.
    pub status: Status,
    /// Its exit code; `None` after a signal.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The clean standard output.
    pub stdout: Value,
    /// The clean standard error.
    pub stderr: Value,
    /// Whether an output exceeded the recorded size.
    pub output_cut: bool,
    /// Changes to files of its folder.
    pub changes: Vec<Change>,
    /// Other changes of its folder.
    pub metadata: FolderMetadata,
    /// Parts of the folder that could not be read.
    pub unreadable: Vec<String>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// The git state of the folder at the start.
    pub git: GitState,
    /// Hosts of the model servers, by provider.
    pub hosts: Vec<(&'static str, String)>,
    /// How much is known about connections past the proxy.
    pub wall: Wall,
    /// Requests to servers other than models, passed on and refused.
    pub seen: Seen,
    /// Readings of its clock and randomness.
    pub told: ScriptReport,
    /// How many processes outlived the command and were ended.
    pub left_behind: usize,
}

/// Why nothing was executed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder cannot be watched.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A base URL is invalid.
    #[error(transparent)]
    NotAServer(#[from] NotAServer),
    /// The program cannot be started.
    #[error("{program} cannot be started: {error}")]
    NotStarted {
        /// As given.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// The proxy cannot listen.
    #[error("the recording proxy cannot listen on the loopback: {0}")]
    NoProxy(io::Error),
    /// The scripts for Python and Node cannot be written.
    #[error("the folder of the recorded clock cannot be used: {0}")]
    NoPreload(io::Error),
    /// The thread that observes connections cannot be started.
    #[error("the connections of the command cannot be observed: {0}")]
    NotObserved(io::Error),
    /// The recording could not be written.
    #[error("the recording is incomplete: {0}")]
    NotKept(String),
}

/// Runs a command and records it.
///
/// # Errors
/// When nothing could be executed, or the folder cannot be read afterwards.
pub async fn run(plan: Plan, stop: Stop, echo: Echo) -> Result<Outcome, RunError> {
    let upstreams = Upstreams::from_environment(&plan.environment)?;
    let (root, filter) = (plan.root.clone(), plan.filter);
    let (cleaner, keep) = (plan.cleaner.clone(), plan.keep.clone());
    let looked = blocking(move || {
        let git = environment::git(&root);
        Folder::open(&root, filter, cleaner, keep).map(|folder| (Arc::new(folder), git))
    });
    let (folder, git) = looked.await?;
    let recorder = Recorder::new(Setup {
        keep: plan.keep,
        cleaner: plan.cleaner.clone(),
        folder: Some(folder.clone()),
        enforcement: plan.enforcement,
        replayer: plan.replayer,
        on_miss: plan.on_miss,
        ignored: plan.ignored,
    });
    let mut wall = Wall::of_command(plan.elsewhere, plan.watchdog.as_deref());
    let rule = match plan.elsewhere {
        Elsewhere::Denied => Rule::Denied,
        Elsewhere::Configured | Elsewhere::Unknown => {
            Rule::Passed(Onward::from_environment(&plan.environment))
        }
    };
    let proxy = Proxy::start(recorder.clone(), upstreams, rule).await;
    let proxy = proxy.map_err(RunError::NoProxy)?;
    let mut environment = plan.environment;
    environment.extend(proxy.environment());
    match plan.elsewhere {
        Elsewhere::Unknown => environment.extend(past_proxies(&environment)),
        Elsewhere::Denied | Elsewhere::Configured => environment.extend(proxy.for_elsewhere()),
    }
    let (folder_of_scripts, again) = plan.preload;
    let cleaner = plan.cleaner.clone();
    cleaner.learn("capture", &folder_of_scripts.to_string_lossy());
    let is_closed = wall.is_closed();
    let scripts = folder_of_scripts.clone();
    let preload = blocking(move || {
        let preload = Preload::begin(&scripts, &again)?;
        if is_closed {
            preload.redirect()?;
        }
        Ok(preload)
    });
    let preload = preload.await.map_err(RunError::NoPreload)?;
    environment.extend(preload.environment(&environment));
    environment.insert("PWD".to_owned(), called(&environment, &plan.cwd));
    let hosts = proxy.hosts().to_vec();
    let started = SystemClock.now();
    let mark = uuid::Uuid::new_v4().to_string();
    let port = proxy.port().filter(|_| is_closed);
    let entrance = port.and_then(|_| match Entrance::open() {
        Ok(entrance) => Some(entrance),
        Err(why) => {
            wall = Wall::Unobserved(format!(
                "no Unix socket can be opened, as in a capture within another: {why}"
            ));
            None
        }
    });
    let watchdog = plan.watchdog.as_deref().map(|program| Through {
        program,
        before: watchdog::before(port, entrance.as_ref().map(Entrance::name)),
        mark: &mark,
    });
    // Where it is not possible, a daemon of the command stays.
    let below = ProcessesBelow::now().ok();
    let child = spawn(&plan.argv, &environment, &plan.cwd, watchdog)?;
    let observer = match (entrance, child.id(), port) {
        (Some(entrance), Some(id), Some(port)) => Some(entrance.observe(id, port)),
        _ => None,
    };
    let observer = observer.transpose().map_err(RunError::NotObserved)?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let watch = plan.watchdog.as_deref().zip(group);
    let watch = watch.and_then(|(program, group)| watch_over(program, group));
    let own: Vec<u32> = [child.id(), watch.as_ref().and_then(Child::id)]
        .into_iter()
        .flatten()
        .collect();
    let reaping = below.is_some().then(|| {
        let reaping = tokio::spawn(reap_orphans(own));
        tokio_util::task::AbortOnDropHandle::new(reaping)
    });
    let mut ended = attend(child, plan.stdin, &recorder, stop, echo).await;
    if ended.code == Some(127)
        && let Some(why) = not_started(&folder_of_scripts, &mark)
    {
        proxy.stop().await;
        return Err(RunError::NotStarted {
            program: plan.argv.first().cloned().unwrap_or_default(),
            error: io::Error::other(why),
        });
    }
    if let Some(mut watch) = watch {
        // The group has ended: its number may be reused.
        let _ = watch.kill().await;
    }
    let left_behind = blocking(move || below.map_or(0, |below| below.end_later(GRACE))).await;
    if let Some(reaping) = reaping {
        drop(reaping);
        // Those that were ended above.
        blocking(|| ProcessesBelow::reap_orphans(&[])).await;
    }
    let refused = blocking(move || observer.map(Observer::finish).unwrap_or_default()).await;
    let mut seen = proxy.seen();
    proxy.stop().await;
    for name in &refused.names {
        tell(&mut seen.refused, &cleaner.text(name));
    }
    if let Some(why) = refused.problem {
        wall = Wall::Unobserved(why);
    }
    let at = SystemClock.now();
    let told = blocking(move || preload.told(&cleaner)).await;
    let told = told.map_err(RunError::NoPreload)?;
    let (changes, metadata, unreadable) = blocking(move || {
        let (changes, metadata) = folder.net()?;
        Ok::<_, ScanError>((changes, metadata, folder.unreadable()))
    })
    .await?;
    let recorded = recorder.finish();
    if let Some(failure) = recorded.failure {
        return Err(RunError::NotKept(failure));
    }
    // A stop without a divergence on record is an ordinary stop.
    if ended.status == Status::Diverged && recorded.divergence.is_none() {
        ended.status = Status::Cancelled;
    }
    let cleaner = &plan.cleaner;
    let (stdout, stderr) = (cleaner.output(&ended.stdout), cleaner.output(&ended.stderr));
    Ok(Outcome {
        recorded,
        status: ended.status,
        exit_code: ended.code,
        signal: ended.signal,
        stdout,
        stderr,
        output_cut: ended.is_cut,
        changes,
        metadata,
        unreadable,
        started,
        ended: at,
        git,
        hosts,
        wall,
        seen,
        told,
        left_behind,
    })
}

/// Variables with which clients that use another proxy exclude the loopback from it.
fn past_proxies(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let names = ["NO_PROXY", "no_proxy"];
    let given = |name: &str| {
        let value = environment.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    };
    let with_ours = names.into_iter().map(|name| {
        // If only one of them is set, clients read that.
        let theirs = given(name).or_else(|| names.into_iter().find_map(given));
        let all = theirs.map_or_else(|| LOOPBACK.to_owned(), |own| format!("{own},{LOOPBACK}"));
        (name.to_owned(), all)
    });
    with_ours.collect()
}

/// The path of the command's folder for `PWD`: the value in the environment if it leads to this
/// folder, even through links; else the folder's own path, as in a shell.
fn called(environment: &BTreeMap<String, String>, cwd: &Path) -> String {
    let is_it = |name: &&String| {
        let path = Path::new(name);
        path.is_absolute() && path.canonicalize().is_ok_and(|path| path == cwd)
    };
    let own = || cwd.to_string_lossy().into_owned();
    environment
        .get("PWD")
        .filter(is_it)
        .cloned()
        .unwrap_or_else(own)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Waits for each orphan of the command that ends: this process is their parent now.
async fn reap_orphans(own: Vec<u32>) {
    let Ok(mut ended) = signal(SignalKind::child()) else {
        return;
    };
    let own = Arc::new(own);
    while ended.recv().await.is_some() {
        let own = own.clone();
        blocking(move || ProcessesBelow::reap_orphans(&own)).await;
    }
}

/// This program, started instead of a command, which it then executes.
struct Through<'a> {
    program: &'a Path,
    /// Its arguments.
    before: [String; 4],
    /// Identifies its message.
    mark: &'a str,
}

fn spawn(
    argv: &[String],
    environment: &BTreeMap<String, String>,
    cwd: &Path,
    watchdog: Option<Through<'_>>,
) -> Result<Child, RunError> {
    let program = argv.first().map_or("", String::as_str);
    let not_started = |error: io::Error| RunError::NotStarted {
        program: program.to_owned(),
        error,
    };
    let path = environment.get("PATH").map(String::as_str);
    let found = find_program(program, path, cwd).map_err(not_started)?;
    let mut command = match watchdog {
        Some(through) => {
            let mut command = Command::new(through.program);
            command.args(through.before).arg(through.mark).args(argv);
            command
        }
        None => {
            let mut command = Command::new(found);
            command.arg0(program).args(&argv[1..]);
            command
        }
    };
    command
        .env_clear()
        .envs(environment)
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In its own group, so that the whole group can be ended.
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(not_started)
}

/// The watchdog's reason for not executing the command.
fn not_started(folder: &Path, mark: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(watchdog::NOT_STARTED)).ok()?;
    // The mark tells it from a file of the command.
    Some(text.strip_prefix(mark)?.trim().to_owned())
}

struct Ended {
    status: Status,
    code: Option<i32>,
    signal: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    is_cut: bool,
}

/// Waits for the end of a command, or causes it.
async fn attend(
    mut child: Child,
    stdin: Vec<u8>,
    recorder: &Recorder,
    stop: Stop,
    echo: Echo,
) -> Ended {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(mut input) = child.stdin.take() {
        tokio::spawn(async move {
            // A command that does not read all of it does not need the rest.
            let _ = input.write_all(&stdin).await;
        });
    }
    let stdout = child
        .stdout
        .take()
        .map(|out| tokio::spawn(read(out, Stream::Stdout, echo.clone())));
    let stderr = child
        .stderr
        .take()
        .map(|out| tokio::spawn(read(out, Stream::Stderr, echo)));
    let mut diverged = recorder.diverged();
    let patience = || tokio::time::sleep(LOOKS_AHEAD);
    let mut too_long = std::pin::pin!(is_quiet(recorder.looks_ahead(), patience));
    let (mut why, mut is_decided) = (None, false);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = stop.cancelled(), if why.is_none() => {
                why = Some(Status::Cancelled);
                signal_group(group, stop.signal());
            }
            Ok(_) = diverged.wait_for(Option::is_some), if why.is_none() => {
                why = Some(Status::Diverged);
                signal_group(group, Signal::TERM);
            }
            () = &mut too_long, if !is_decided => {
                recorder.decide();
                is_decided = true;
            }
            () = tokio::time::sleep(GRACE), if why.is_some() => {
                signal_group(group, Signal::KILL);
                break child.wait().await;
            }
        }
    };
    // Remaining processes of its group are stopped. Outputs that another process holds open are not
    // waited for.
    signal_group(group, Signal::TERM);
    let (stdout, stderr) = (taken(stdout, group).await, taken(stderr, group).await);
    signal_group(group, Signal::KILL);
    let status = status.ok();
    Ended {
        status: match (why, status) {
            (Some(why), _) => why,
            (None, Some(status)) if status.success() => Status::Succeeded,
            (None, _) => Status::Failed,
        },
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status: ExitStatus| {
            use std::os::unix::process::ExitStatusExt as _;
            status.signal()
        }),
        is_cut: stdout.1 || stderr.1,
        stdout: stdout.0,
        stderr: stderr.0,
    }
}

/// Waits until an event, and then until none follows within `patience`.
async fn is_quiet<F: Future<Output = ()>>(
    mut came: watch::Receiver<u64>,
    patience: impl Fn() -> F,
) {
    let mut is_over = came.wait_for(|count| *count > 0).await.is_err();
    while !is_over {
        tokio::select! {
            more = came.changed() => is_over = more.is_err(),
            () = patience() => return,
        }
    }
    std::future::pending().await
}

fn signal_group(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // A group that has ended needs no signal.
        let _ = kill_process_group(group, signal);
    }
}

type Reading = tokio::task::JoinHandle<()>;
type Read = (Reading, Arc<parking_lot::Mutex<(Vec<u8>, bool)>>);

async fn taken(
    reading: Option<tokio::task::JoinHandle<Read>>,
    group: Option<Pid>,
) -> (Vec<u8>, bool) {
    let Some(reading) = reading else {
        return (Vec::new(), false);
    };
    let Ok((mut reading, read)) = reading.await else {
        return (Vec::new(), false);
    };
    if tokio::time::timeout(GRACE, &mut reading).await.is_err() {
        signal_group(group, Signal::KILL);
        reading.abort();
    }
    let mut read = read.lock();
    std::mem::take(&mut *read)
}

/// Reads an output to its end; the bytes so far are available even if the end never comes.
async fn read(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    stream: Stream,
    echo: Echo,
) -> Read {
    let read = Arc::new(parking_lot::Mutex::new((Vec::new(), false)));
    let into = read.clone();
    let reading = tokio::spawn(async move {
        let mut piece = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            echo(stream, &piece[..count]);
            let mut into = into.lock();
            let room = MAX_OUTPUT - into.0.len();
            into.0.extend_from_slice(&piece[..count.min(room)]);
            into.1 |= count > room;
        }
    });
    (reading, read)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::sync::{oneshot, watch};

    use super::is_quiet;

    #[tokio::test]
    async fn a_live_replay_resets_its_timeout() {
        let came = watch::Sender::new(0);
        let ends = RefCell::new(Vec::new());
        let patience = || {
            let (end, ended) = oneshot::channel::<()>();
            ends.borrow_mut().push(end);
            async move {
                let _ = ended.await;
            }
        };
        let mut quiet = std::pin::pin!(is_quiet(came.subscribe(), patience));
        let mut begun = Vec::new();
        for count in 0..3 {
            came.send_replace(count);
            let polled = futures_util::poll!(quiet.as_mut());
            assert!(polled.is_pending());
            begun.push(ends.borrow().len());
        }
        assert_eq!(begun, [0, 1, 2], "one for each that came");
        let last = ends.borrow_mut().pop().unwrap();
        last.send(()).unwrap();
        quiet.await;
    }
}
