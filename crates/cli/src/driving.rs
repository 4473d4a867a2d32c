//! Drives runs in this process and shows their progress, until they end or a signal interrupts.

use std::time::Duration;

use kernel::run::Run;
use kernel::run::state::OpenInterrupt;
use runtime::engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::exit::{Failure, io_text};
use crate::follow::{Followed, Follower, Look};
use crate::live::Live;
use crate::prompt::Prompt;
use crate::trouble::Trouble;
use crate::{style, talk, text};

/// The interval of redraws.
const FRAME: Duration = Duration::from_millis(100);
/// After this many frames all logs are read even without a hint.
const FRAMES_PER_SWEEP: usize = 5;
/// The time for running work after the first interrupt.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The same after a SIGTERM, which is usually followed by a SIGKILL.
pub(crate) const TERM_PATIENCE: Duration = Duration::from_secs(5);

/// The condition for the end of driving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When every run has settled. Runs that wait for an answer are waited for, unless they need a
    /// restart with other options, such as providers.
    Settled,
    /// When every run has settled or waits for an answer from outside.
    NothingToDo,
}

/// The reason for the end of driving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing is left to drive.
    Done,
    /// A signal came.
    Interrupted,
}

/// Drives the followed runs. The engine has been started and knows them.
pub(crate) async fn drive(
    engine: &Engine,
    follower: &mut Follower,
    live: &mut Live,
    until: Until,
    prompt: &mut Prompt,
) -> Result<Ended, Failure> {
    let mut interrupts = Interrupts::new()?;
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drains = JoinSet::new();
    let mut trouble = Trouble::new("run");
    let mut frame = 0;
    let ended = loop {
        tokio::select! {
            _ = frames.tick() => {}
            interrupt = interrupts.next() => {
                let patience = interrupts.patience(interrupt, &running(follower));
                let engine = engine.clone();
                drains.spawn(async move { engine.drain(patience).await });
                continue;
            }
            line = prompt.line() => {
                prompt.take(engine, line).await?;
                continue;
            }
            Some(_) = drains.join_next() => break Ended::Interrupted,
        }
        let look = if frame % FRAMES_PER_SWEEP == 0 {
            Look::Everywhere
        } else {
            Look::Hinted
        };
        frame += 1;
        show(engine, follower, live, look).await?;
        trouble.look(engine.trouble());
        prompt.look(follower);
        let is_over = match until {
            Until::Settled => follower.is_settled() || waits_for_want(follower),
            Until::NothingToDo => follower.is_settled() || is_idle(follower),
        };
        if is_over {
            break Ended::Done;
        }
    };
    if ended == Ended::Done {
        engine.drain(TERM_PATIENCE).await;
    }
    show(engine, follower, live, Look::Everywhere).await?;
    live.end();
    if follower.is_settled() {
        Ok(Ended::Done)
    } else {
        Ok(ended)
    }
}

/// The running nodes, in a few words.
fn running(follower: &Follower) -> String {
    let runs = follower.runs().iter().map(|followed| &followed.run);
    let nodes = runs.flat_map(|run| run.live_attempts().map(|live| live.id.node.to_string()));
    few(nodes)
}

/// A few of several nodes.
pub(crate) fn few(nodes: impl Iterator<Item = String>) -> String {
    const NAMED: usize = 5;
    let ids: Vec<String> = nodes.map(|id| text::one_line(&id, 40)).collect();
    match ids.len().saturating_sub(NAMED) {
        0 if ids.is_empty() => "what runs".to_owned(),
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids[..NAMED].join(", ")),
    }
}

async fn show(
    engine: &Engine,
    follower: &mut Follower,
    live: &mut Live,
    look: Look,
) -> Result<(), Failure> {
    let news = follower.catch_up(look).await?;
    live.show(follower, &news, engine.door().store().now())
}

/// Whether all active runs wait, some of them for options that this process lacks.
fn waits_for_want(follower: &Follower) -> bool {
    let mut open = follower.runs().iter().flat_map(|followed| {
        let facts = followed.run.facts();
        facts.map_or(&[][..], |facts| &facts.interrupts)
    });
    open.any(OpenInterrupt::is_for_want) && is_idle(follower)
}

fn is_idle(follower: &Follower) -> bool {
    let runs = follower.runs();
    let waits =
        |run: &Run| waits_for_somebody(run) && (run.is_settled() || knows_its_own(run, runs));
    runs.iter().all(|followed| waits(&followed.run))
}

/// Whether each awaited child run is known and in progress; otherwise the event that creates it, or
/// reports its end, is still on its way.
fn knows_its_own(run: &Run, runs: &[Followed]) -> bool {
    let children = run.facts().into_iter().flat_map(|facts| &facts.children);
    let mut open = children.filter(|(_, child)| child.status.is_none());
    open.all(|(id, _)| {
        let mut there = runs.iter().map(|followed| &followed.run);
        there.any(|other| other.header.stream == *id && !other.is_settled())
    })
}

/// Whether a run waits only for input from outside: nothing is running, no timer is pending.
pub(crate) fn waits_for_somebody(run: &Run) -> bool {
    if run.is_settled() {
        return true;
    }
    let is_busy = run.status().is_in_flight();
    let waits_for_child = run
        .facts()
        .is_some_and(|facts| facts.children.values().any(|child| child.status.is_none()));
    !run.has_live_work() && run.next_timer().is_none() && (!is_busy || waits_for_child)
}

/// The signals that end this process.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    seen: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C.
    Key,
    /// Another process, or the end of the terminal.
    Term,
}

impl Interrupts {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(format!(
                    "signals cannot be listened to: {}",
                    io_text(&error)
                ))
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            seen: 0,
        })
    }

    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::Key,
            _ = self.terminate.recv() => Interrupt::Term,
            _ = self.hangup.recv() => Interrupt::Term,
        }
    }

    /// The remaining time for running work after this interrupt. Prints a message; `running` lists
    /// the work.
    pub(crate) fn patience(&mut self, interrupt: Interrupt, running: &str) -> Duration {
        self.seen += 1;
        match (interrupt, self.seen) {
            (Interrupt::Key, 1) => {
                talk::say(format!(
                    "{} nothing new starts; waiting for {running} to end. Press Ctrl-C again to \
                     stop it now (it starts again when the run is resumed)",
                    style::warn("interrupted:")
                ));
                PATIENCE
            }
            (Interrupt::Key, _) => {
                talk::say(format!(
                    "{} stopping {running}",
                    style::warn("interrupted:")
                ));
                Duration::ZERO
            }
            (Interrupt::Term, _) => {
                talk::say(format!("{} stopping", style::warn("terminated:")));
                TERM_PATIENCE
            }
        }
    }
}
