//! The life of an attempt's processes, as seen by their supervisor.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group};

use super::control_group::ControlGroup;
use super::process_table;
use super::wire::Request;
use crate::programs::Bounds;

/// How long processes that outlive the child may take to end by themselves.
const LINGER: Duration = Duration::from_secs(1);
/// How long a death by signal waits for a stop that may have been its cause.
const DOUBT: Duration = Duration::from_millis(100);
/// How often the resource use of bounded processes is checked while their number grows, and at
/// least.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// The most rounds of stopping processes while new ones appear.
const FREEZES: usize = 100;

/// The events of a supervisor.
pub(super) enum Event {
    /// The next request, with the stdin of its process.
    Request(Box<(Request, Vec<u8>)>),
    /// The engine is gone or requests a stop, or this process received a termination signal.
    Stop,
    /// A child was reaped.
    Reaped(Pid, WaitStatus),
    /// Neither a child nor a descendant that could become one is left.
    NoChildren,
    /// An output ended, or could not be stored.
    OutputEnded(io::Result<()>),
}

/// Why the processes are being ended.
#[derive(Debug)]
pub(super) enum Cause {
    /// The engine is gone or requested it.
    Stop,
    /// The child timed out.
    TimedOut { after_ms: u64 },
    /// The child's output could not be stored.
    OutputLost(String),
    /// The child and its descendants exceeded a limit.
    BoundPassed(String),
}

/// The phase of ending the processes.
enum Phase {
    /// The child runs.
    Running,
    /// The child is gone, but some of its descendants are not.
    Lingering { until: Instant },
    /// All processes received SIGTERM.
    Ending { until: Instant },
    /// All processes are being killed.
    Killing,
}

/// The thread that reaps children, including adopted ones, until there are none.
pub(super) struct Reaper(SyncSender<()>);

impl Reaper {
    /// Starts the thread, which waits for [`begin`](Self::begin).
    pub(super) fn prepare(events: Sender<Event>) -> io::Result<Self> {
        let (begin, begun) = sync_channel::<()>(1);
        thread::Builder::new().spawn(move || {
            // Dropped unused: no child was started.
            if begun.recv().is_ok() {
                reap(&events);
            }
        })?;
        Ok(Self(begin))
    }

    /// Reaps from now on: there is a child.
    pub(super) fn begin(self) {
        let _ = self.0.send(());
    }
}

fn reap(events: &Sender<Event>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let _ = events.send(Event::Reaped(pid, status));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(Event::NoChildren);
                return;
            }
        }
    }
}

/// The processes of an attempt.
pub(super) struct Watch {
    main: Pid,
    grace: Duration,
    bounds: Option<Bounds>,
    /// The control group of the processes.
    group: Option<ControlGroup>,
    /// The time to the next look at the resource use, and the number of processes at the last one.
    look: (Duration, usize),
    phase: Phase,
    /// How the child exited, once it did.
    pub status: Option<WaitStatus>,
    /// Why they were ended, unless the child exited by itself.
    pub cause: Option<Cause>,
    /// How many processes outlived the child and did not end in time.
    pub left_behind: u32,
}

impl Watch {
    pub(super) fn new(
        main: Pid,
        grace: Duration,
        bounds: Option<Bounds>,
        group: Option<ControlGroup>,
    ) -> Self {
        let phase = Phase::Running;
        Self {
            main,
            grace,
            bounds,
            group,
            look: (LOOKS.0, 0),
            phase,
            status: None,
            cause: None,
            left_behind: 0,
        }
    }

    /// Returns when no process is left, having ended them where necessary.
    pub(super) fn until_alone(&mut self, timeout: Option<Duration>, inbox: &Receiver<Event>) {
        let time_out = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let wake = match self.phase {
                Phase::Running => time_out,
                Phase::Lingering { until } | Phase::Ending { until } => Some(until),
                Phase::Killing => Some(Instant::now() + Duration::from_millis(20)),
            };
            let look = self.bounds.map(|_| Instant::now() + self.look.0);
            let event = match wake.into_iter().chain(look).min() {
                None => inbox.recv().ok(),
                Some(at) => inbox
                    .recv_timeout(at.saturating_duration_since(Instant::now()))
                    .ok(),
            };
            match event {
                Some(Event::NoChildren) => return self.doubt_a_death_by_signal(inbox),
                Some(event) => self.take(event),
                None if wake.is_some_and(|at| at <= Instant::now()) => self.wake(timeout),
                None => {}
            }
            self.keep_within_bounds();
        }
    }

    /// Kills everything if a limit is exceeded.
    fn keep_within_bounds(&mut self) {
        let is_killing = matches!(self.phase, Phase::Killing);
        let Some(bounds) = self.bounds.filter(|_| !is_killing) else {
            return;
        };
        let processes = process_table::descendants(&[]);
        let number = processes.len();
        self.look = match self.look {
            (_, before) if number > before => (LOOKS.0, number),
            (wait, _) => ((wait * 2).min(LOOKS.1), number),
        };
        let mut used = process_table::used(&processes);
        if self.group.as_ref().is_some_and(ControlGroup::was_full) {
            used.threads = used.threads.max(bounds.processes + 1);
        }
        if let Some(used) = used.beyond(&bounds) {
            if self.cause.is_none() {
                self.cause = Some(Cause::BoundPassed(used));
            }
            self.kill_all();
        }
    }

    /// Kills everything. Processes that start others must not outrun it: first they are kept from
    /// that, by the control group or by stopping them until no new one appears.
    fn kill_all(&mut self) {
        self.phase = Phase::Killing;
        if let Some(group) = &self.group {
            group.close();
        } else if self.bounds.is_some() {
            self.freeze();
        }
        self.signal_all(Signal::KILL);
    }

    fn freeze(&self) {
        // A supervisor among thousands of busy processes would get no time; only root may do this.
        let _ = rustix::process::setpriority_process(None, -20);
        if self.status.is_none() {
            let _ = kill_process_group(self.main, Signal::STOP);
        }
        let mut stopped = HashSet::new();
        for _ in 0..FREEZES {
            let found = process_table::descendants(&[]).into_iter();
            let new: Vec<_> = found.filter(|process| stopped.insert(*process)).collect();
            if new.is_empty() {
                return;
            }
            for process in new {
                let _ = process_table::signal(process, Signal::STOP);
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Stop => self.end(Cause::Stop),
            Event::OutputEnded(Err(error)) => self.end(Cause::OutputLost(error.to_string())),
            Event::Reaped(pid, status) if pid == self.main => {
                self.status = Some(status);
                if matches!(self.phase, Phase::Running) {
                    self.phase = Phase::Lingering {
                        until: Instant::now() + LINGER,
                    };
                }
            }
            Event::Reaped(..)
            | Event::OutputEnded(Ok(()))
            | Event::NoChildren
            // The engine sends none before the final report.
            | Event::Request(_) => {}
        }
    }

    fn wake(&mut self, timeout: Option<Duration>) {
        match self.phase {
            Phase::Running => {
                let after_ms = timeout.unwrap_or_default().as_millis() as u64;
                self.end(Cause::TimedOut { after_ms });
            }
            Phase::Lingering { .. } => {
                self.left_behind = process_table::descendants(&[]).len() as u32;
                self.ask_to_end();
            }
            Phase::Ending { .. } | Phase::Killing => self.kill_all(),
        }
    }

    /// Begins to end everything. An exit of the child before that counts, unless it was killed:
    /// then the stop may be what killed it.
    fn end(&mut self, cause: Cause) {
        if self.cause.is_none() && self.status.is_none_or(WaitStatus::signaled) {
            self.cause = Some(cause);
        }
        if matches!(self.phase, Phase::Running | Phase::Lingering { .. }) {
            self.ask_to_end();
        }
    }

    fn ask_to_end(&mut self) {
        self.signal_all(Signal::TERM);
        self.phase = Phase::Ending {
            until: Instant::now() + self.grace,
        };
    }

    fn signal_all(&self, signal: Signal) {
        // Once the child is reaped its id, and with it the id of its group, may be reused.
        if self.status.is_none() {
            let _ = kill_process_group(self.main, signal);
        }
        for process in process_table::descendants(&[]) {
            let grouped = || {
                let group =
                    Pid::from_raw(process.pid).map(|pid| rustix::process::getpgid(Some(pid)));
                self.status.is_none() && group == Some(Ok(self.main))
            };
            if !grouped() {
                let _ = process_table::signal(process, signal);
            }
        }
    }

    /// When the whole machine shuts down, the child may die before this process hears that the
    /// engine ends too; that death is not an outcome.
    fn doubt_a_death_by_signal(&mut self, inbox: &Receiver<Event>) {
        if self.cause.is_some() || !self.status.is_some_and(WaitStatus::signaled) {
            return;
        }
        let until = Instant::now() + DOUBT;
        while let Ok(event) = inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.take(event);
        }
    }
}
