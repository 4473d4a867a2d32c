//! Playing a seed: a stormy phase in which anything may happen, then a calm one in which everything
//! must end.

use std::fmt;

use kernel::digest::Digest;
use kernel::ids::StreamId;
use kernel::run::event::DrainPolicy;
use kernel::run::state::Phase;
use kernel::run::{Command, Start};
use kernel::stream::{Policy, StreamKind};
use runtime::Prepared;
use serde_json::json;
use store::faults::{Plan, Strike};
use store::seed::Draws;

use crate::judge::{Judge, Verdict};
use crate::line::Bug;
use crate::process::{Kind, Notices, Role};
use crate::record::Record;
use crate::workflows;
use crate::world::World;

/// Maximum length of the calm phase, in milliseconds of the world.
pub(crate) const CALM_MS: u64 = 240_000;
/// Trace lines that a failure shows.
const SHOWN: usize = 12;

/// The result of a world that kept every law.
#[derive(Clone, Debug)]
pub struct Report {
    /// Runs, children included.
    pub runs: usize,
    /// Events in all logs.
    pub events: usize,
    /// Attempts started, as recorded by the world.
    pub starts: usize,
    /// Restarts in the logs.
    pub restarts: usize,
    /// Processes killed.
    pub kills: u32,
    /// Processes frozen beyond their leases and thawed.
    pub freezes: u32,
    /// A digest of all logs in commit order and of the world's trace: two plays of a seed have the
    /// same.
    pub trace: Digest,
}

/// A world in which a law was broken. Its text contains the command that replays it.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The seed.
    pub seed: u64,
    /// The broken laws, first one first.
    pub laws: Vec<String>,
    /// The digest of the play.
    pub trace: Digest,
    /// The test that plays it again.
    pub(crate) test: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for law in self.laws.iter().take(SHOWN) {
            writeln!(f, "  {law}")?;
        }
        if let Some(more) = self.laws.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(f, "  and {more} more")?;
        }
        write!(
            f,
            "replay with: RUNWRIGHT_SEED={} cargo test -p sim {}",
            self.seed, self.test
        )
    }
}

/// Plays a seed on a store without bugs.
///
/// # Errors
/// The laws that were broken.
pub fn play(seed: u64) -> Result<Report, Box<Broken>> {
    play_with(seed, None)
}

/// Plays a seed on a store that may have a bug.
///
/// # Errors
/// The laws that were broken.
pub fn play_with(seed: u64, bug: Option<Bug>) -> Result<Report, Box<Broken>> {
    let mut play = Play::new(seed, bug);
    play.storm();
    play.calm();
    play.end(seed)
}

struct Play {
    world: World,
    judge: Judge,
    known: Vec<Prepared>,
    runs: Vec<StreamId>,
}

impl Play {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut world = World::new(seed, bug, Kind::Runs);
        let judge = Judge::new(&world.store);
        let mut known: Vec<Prepared> = Vec::new();
        let names = ["w0", "w1", "w2", "w3", "w4", "w5"];
        for (n, name) in names.iter().enumerate() {
            // A workflow may start earlier ones, so children have children.
            let prepared = loop {
                let document = workflows::random(&mut world.draws, name, &names[..n]);
                if let Ok(prepared) = world.prepare(&document) {
                    break prepared;
                }
            };
            world.register(&prepared);
            known.push(prepared);
        }
        Self {
            world,
            judge,
            known,
            runs: Vec::new(),
        }
    }

    fn draws(&mut self) -> &mut Draws {
        &mut self.world.draws
    }

    /// The stormy phase.
    fn storm(&mut self) {
        let engines = 2 + self.draws().below(2);
        for _ in 0..engines {
            self.start_engine();
        }
        let length = 4_000 + self.draws().below(8_000);
        let end = self.world.now.plus_ms(length);
        while self.world.now < end {
            if self.draws().per_mille(40) {
                self.happen();
            }
            self.world.turn();
            // A process that died as planned is replaced like any other.
            while self.world.processes.len() <= engines as usize {
                self.start_engine();
            }
        }
    }

    fn start_engine(&mut self) {
        let place = self.world.start(Role::Engine);
        self.trouble(place);
        if self.draws().per_mille(500) {
            let nth = 1 + self.draws().below(400);
            let strike = *self.draws().pick(&[Strike::Before, Strike::After]);
            self.world.processes[place].line.doom(nth, strike);
        }
    }

    /// Makes a process's line to the store bad or good.
    fn trouble(&mut self, place: usize) {
        let plan = match self.draws().below(3) {
            0 => Plan::Never,
            _ => Plan::Random {
                seed: self.draws().number(),
                before: self.world.draws.below(80),
                after: self.world.draws.below(80),
            },
        };
        let slow = *self.draws().pick(&[0, 30, 200]);
        let process = &self.world.processes[place];
        process.faulty.set_plan(plan);
        process.line.set_slow(slow);
    }

    fn happen(&mut self) {
        let count = self.world.processes.len() as u64;
        let any = self.draws().below(count) as usize;
        let engine = 1 + self.draws().below(count - 1) as usize;
        match self.draws().below(20) {
            0..=4 => self.create(any),
            5 => self.world.kill(engine),
            6 | 7 => {
                if self.world.processes[engine].is_frozen {
                    let notices = *self.draws().pick(&[Notices::Yes, Notices::No]);
                    self.world.thaw(engine, notices);
                } else {
                    self.world.freeze(engine);
                }
            }
            8 | 9 => self.trouble(any),
            10 => {
                // A superfluous hint.
                let process = &mut self.world.processes[engine];
                let hints = process.engine.door().hints().clone();
                process.spawn(async move {
                    hints.queue();
                    hints.outbox();
                });
            }
            _ => self.command(any),
        }
    }

    fn create(&mut self, place: usize) {
        let n = self.world.draws.below(self.known.len() as u64) as usize;
        let prepared = self.known[n].clone();
        let draws = self.draws();
        let policy = Policy {
            priority: draws.below(3) as i32,
            concurrency_key: draws.per_mille(150).then(|| "one-at-a-time".into()),
            max_parallel: draws.per_mille(300).then(|| 1 + draws.below(2) as u32),
            ..Policy::default()
        };
        let start = match self.world.processes[place].role {
            Role::Engine => Start::Now,
            Role::Client => Start::WhenClaimed,
        };
        let run = self.world.create(place, &prepared, policy, start);
        self.runs.push(run);
    }

    fn command(&mut self, place: usize) {
        if self.runs.is_empty() {
            return;
        }
        let n = self.world.draws.below(self.runs.len() as u64) as usize;
        let run = self.runs[n].clone();
        let command = match self.draws().below(10) {
            0 => Command::Cancel {
                reason: Some(self.world.fresh("why")),
                by: None,
                parent: None,
            },
            1 => Command::Pause {
                reason: None,
                policy: DrainPolicy::Immediate,
            },
            2 => Command::Pause {
                reason: None,
                policy: DrainPolicy::DrainCurrentNode,
            },
            3..=5 => Command::Resume { reason: None },
            _ => self.signal(workflows::SIGNAL),
        };
        self.world.tell(place, &run, command);
    }

    fn signal(&mut self, name: &str) -> Command {
        Command::Signal {
            name: name.to_owned(),
            id: self.world.fresh("signal"),
            payload: json!({}),
        }
    }

    /// The calm phase: faults end, and every wait gets its answer.
    fn calm(&mut self) {
        for place in 1..self.world.processes.len() {
            if self.world.processes[place].is_frozen {
                self.world.thaw(place, Notices::Yes);
            }
        }
        self.world.calm_down();
        let end = self.world.now.plus_ms(CALM_MS);
        // A thawed process may still have to create runs that are not in the store yet.
        let mut next_look = self.world.now.plus_ms(400);
        while self.world.now < end {
            if self.world.now >= next_look {
                if self.judge.is_over() {
                    break;
                }
                self.answer();
                next_look = self.world.now.plus_ms(400);
            }
            self.world.turn();
            while self.world.processes.len() <= 1 {
                self.world.start(Role::Engine);
            }
        }
        self.settle_down();
    }

    /// Gives stopped processes time to notice.
    fn settle_down(&mut self) {
        let end = self.world.now.plus_ms(3_000);
        while self.world.now < end {
            self.world.turn();
        }
    }

    /// Resumes paused runs and answers their questions.
    fn answer(&mut self) {
        let open = self
            .judge
            .runs()
            .into_iter()
            .filter(|row| !row.index.settled);
        for row in open.collect::<Vec<_>>() {
            let run = self.judge.load(&row.stream);
            if matches!(run.phase(), Some(Phase::Paused { .. })) {
                let resume = Command::Resume { reason: None };
                self.world.tell(0, &row.stream, resume);
            }
            let asked = run.facts().map(|facts| facts.interrupts.clone());
            for open in asked.unwrap_or_default() {
                let signal = self.signal(&open.key);
                self.world.tell(0, &row.stream, signal);
            }
        }
    }

    fn end(self, seed: u64) -> Result<Report, Box<Broken>> {
        let Self { world, judge, .. } = self;
        let record = world.record.clone();
        let Verdict {
            wrong,
            runs,
            events,
            starts,
            restarts,
            trace,
        } = judge.judge(&record);
        let trace = trace.expect("the judge has looked");
        write_trace(&record, &judge);
        if wrong.is_empty() {
            let (kills, freezes) = record.with(|seen| (seen.kills, seen.freezes));
            Ok(Report {
                runs,
                events,
                starts,
                restarts,
                kills,
                freezes,
                trace,
            })
        } else {
            Err(Box::new(Broken {
                seed,
                laws: wrong,
                trace,
                test: "soak_worlds",
            }))
        }
    }
}

/// Writes a world's trace and logs to the path in `RUNWRIGHT_TRACE`.
pub(crate) fn write_trace(record: &Record, judge: &Judge) {
    let Ok(path) = std::env::var("RUNWRIGHT_TRACE") else {
        return;
    };
    let mut text = record.with(|seen| seen.trace.join("\n"));
    for kind in [StreamKind::Run, StreamKind::Coordinator] {
        for row in judge.streams(kind) {
            text.push_str(&format!("\n{}", row.stream));
            for kept in judge.read(&row.stream).records {
                text.push('\n');
                text.push_str(&String::from_utf8_lossy(&kept.content));
            }
        }
    }
    static NTH: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let nth = NTH.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    std::fs::write(format!("{path}.{nth}"), text).expect("the trace can be written");
}

/// Plays a quiet world of one engine in which call `nth` of the store fails, counted over all calls
/// of the engine. The engine survives it, or dies of it and is replaced. Returns whether the call
/// was reached.
///
/// # Errors
/// The laws that were broken.
pub fn fail_call(seed: u64, nth: u64, how: Failure) -> Result<Reached, Box<Broken>> {
    let mut play = Play::new(seed, None);
    let place = play.world.start(Role::Engine);
    let process = &play.world.processes[place];
    match how {
        Failure::Answer(strike) => process.faulty.set_plan(Plan::Nth { nth, strike }),
        Failure::Death(strike) => process.line.doom(nth + 1, strike),
    }
    for n in 0..play.known.len() {
        let prepared = play.known[n].clone();
        let at = [place, 0][n % 2];
        let start = [Start::Now, Start::WhenClaimed][n % 2];
        let run = play.world.create(at, &prepared, Policy::default(), start);
        play.runs.push(run);
    }
    let engine = play.world.processes[place].id;
    let faulty = play.world.processes[place].faulty.clone();
    let end = play.world.now.plus_ms(CALM_MS);
    let mut next_look = play.world.now.plus_ms(100);
    while play.world.now < end {
        if play.world.now >= next_look {
            if play.judge.is_over() {
                break;
            }
            play.answer();
            next_look = play.world.now.plus_ms(400);
        }
        play.world.turn();
        if play.world.processes.len() == 1 {
            play.world.start(Role::Engine);
        }
    }
    play.settle_down();
    let lives = play.world.processes.iter().any(|one| one.id == engine);
    let reached = match how {
        Failure::Answer(_) => faulty.calls().iter().any(|call| call.strike.is_some()),
        Failure::Death(_) => !lives,
    };
    play.end(seed)?;
    Ok(if reached { Reached::Yes } else { Reached::No })
}

/// How a call of the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The store answers that it is unavailable.
    Answer(Strike),
    /// Its process dies in it.
    Death(Strike),
}

/// Whether the call that should fail was made at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It failed.
    Yes,
    /// Everything ended before it.
    No,
}
