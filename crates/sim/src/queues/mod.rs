//! Worlds of queues: engines whose clocks disagree compete for the authority of several queues, and
//! workers take tasks, work, fall silent and come back. The lease owner is frozen between its check
//! and its append, killed, and thawed as a zombie. At the end a holder is killed while nothing else
//! happens: another has to take over within a lease.

mod judge;
mod workers;

use kernel::coordinator::Coordinator;
use kernel::ids::StreamId;
use kernel::run::{Command, Start};
use kernel::stream::Policy;
use runtime::Prepared;
use serde_json::{Value, json};
use store::faults::{Plan, Strike};
use store::seed::Draws;

use crate::judge::Judge;
use crate::line::Bug;
use crate::play::{Broken, CALM_MS, write_trace};
use crate::process::{Kind, LEASE, Notices, Role};
use crate::queues::workers::Temper;
use crate::world::{TENANT, World};

/// The queues of a world.
pub(crate) const QUEUES: [&str; 3] = ["q0", "q1", "q2"];
/// Maximum duration of a takeover in addition to the lease and the clock differences: until an
/// engine polls again, and a turn or two.
const LOOK_MS: u64 = 1_000;
/// Maximum number of tasks to try a takeover with.
const TAKEOVERS: u32 = 10;

/// The result of a world of queues that kept every law.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// Tasks, each settled once.
    pub tasks: usize,
    /// Number of assignments.
    pub assigned: usize,
    /// How often the authority passed to another process.
    pub takeovers: usize,
    /// Late reports of workers that were refused.
    pub zombies: u32,
    /// Processes killed.
    pub kills: u32,
    /// Processes frozen and thawed.
    pub freezes: u32,
    /// How long the takeover from a killed holder took, in milliseconds of the world.
    pub takeover_ms: u64,
    /// A digest of everything, the same for two plays of a seed.
    pub trace: kernel::digest::Digest,
}

/// Plays a seed on a world that may have a bug.
///
/// # Errors
/// The laws that were broken.
pub fn play_queues(seed: u64, bug: Option<Bug>) -> Result<QueueReport, Box<Broken>> {
    let mut play = Play::new(seed, bug);
    play.storm();
    play.calm();
    let takeover_ms = play.takeover();
    play.finish();
    play.end(seed, takeover_ms)
}

struct Play {
    world: World,
    judge: Judge,
    known: Vec<Prepared>,
    runs: Vec<StreamId>,
    bug: Option<Bug>,
}

impl Play {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut world = World::new(seed, bug, Kind::Queues);
        let judge = Judge::new(&world.store);
        let known = (0..4)
            .map(|n| {
                let document = workflow(&mut world.draws, &format!("w{n}"));
                let prepared = world.prepare(&document).expect("a valid document");
                world.register(&prepared);
                prepared
            })
            .collect();
        Self {
            world,
            judge,
            known,
            runs: Vec::new(),
            bug,
        }
    }

    fn draws(&mut self) -> &mut Draws {
        &mut self.world.draws
    }

    /// The stormy phase.
    fn storm(&mut self) {
        let engines = 2 + self.draws().below(2) as usize;
        let length = 6_000 + self.draws().below(8_000);
        let end = self.world.now.plus_ms(length);
        while self.world.now < end {
            // A process that died as planned is replaced like any other.
            while self.world.processes.len() <= engines {
                self.start_engine();
            }
            if self.draws().per_mille(60) {
                self.happen();
            }
            self.world.turn();
        }
    }

    fn start_engine(&mut self) {
        let place = self.world.start(Role::Engine);
        self.trouble(place);
        if self.draws().per_mille(300) {
            let nth = 1 + self.draws().below(600);
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
                before: self.world.draws.below(50),
                after: self.world.draws.below(50),
            },
        };
        let slow = *self.draws().pick(&[0, 30, 200]);
        let process = &self.world.processes[place];
        process.faulty.set_plan(plan);
        process.line.set_slow(slow);
    }

    fn happen(&mut self) {
        let count = self.world.processes.len() as u64;
        let engine = 1 + self.draws().below(count - 1) as usize;
        match self.draws().below(20) {
            0..=2 => self.create(engine),
            3 => self.world.kill(engine),
            4..=7 => {
                if self.world.processes[engine].is_frozen {
                    let notices = *self.draws().pick(&[Notices::Yes, Notices::No]);
                    self.world.thaw(engine, notices);
                    self.go_on_as_if_nothing_had_happened(engine);
                } else {
                    self.world.freeze(engine);
                }
            }
            8 => self.trouble(engine),
            9 => self.cancel(engine),
            _ => self.work(engine, Temper::Any),
        }
    }

    fn create(&mut self, place: usize) {
        let n = self.world.draws.below(self.known.len() as u64) as usize;
        let prepared = self.known[n].clone();
        let run = self
            .world
            .create(place, &prepared, Policy::default(), Start::Now);
        self.runs.push(run);
    }

    fn cancel(&mut self, place: usize) {
        if self.runs.is_empty() {
            return;
        }
        let n = self.world.draws.below(self.runs.len() as u64) as usize;
        let run = self.runs[n].clone();
        let command = Command::Cancel {
            reason: Some(self.world.fresh("why")),
            by: None,
            parent: None,
        };
        self.world.tell(place, &run, command);
    }

    /// A worker requests tasks from a process.
    fn work(&mut self, place: usize, temper: Temper) {
        let queue = *self.world.draws.pick(&QUEUES);
        let (name, seed) = (self.world.fresh("worker"), self.world.draws.number());
        let record = self.world.record.clone();
        let process = &mut self.world.processes[place];
        let engine = process.engine.clone();
        process.spawn(workers::work(engine, queue, name, temper, seed, record));
    }

    /// The planted bug of a process: a zombie sends commands as the current owner of the lease.
    fn go_on_as_if_nothing_had_happened(&mut self, place: usize) {
        if self.bug != Some(Bug::LeasesBorrowed) {
            return;
        }
        let process = &mut self.world.processes[place];
        let engine = process.engine.clone();
        process.spawn(workers::borrow_the_lease(engine));
    }

    /// The calm phase: faults end, and workers are dutiful until everything has ended.
    fn calm(&mut self) {
        for place in 1..self.world.processes.len() {
            if self.world.processes[place].is_frozen {
                self.world.thaw(place, Notices::Yes);
            }
        }
        self.world.calm_down();
        self.work_to_the_end();
    }

    fn work_to_the_end(&mut self) {
        let end = self.world.now.plus_ms(CALM_MS);
        let mut next_look = self.world.now;
        while self.world.now < end {
            if self.world.now >= next_look {
                if self.judge.is_over() {
                    return;
                }
                let count = self.world.processes.len() as u64;
                if count > 1 {
                    let place = 1 + self.draws().below(count - 1) as usize;
                    self.work(place, Temper::Dutiful);
                }
                next_look = self.world.now.plus_ms(150);
            }
            self.world.turn();
            self.keep_two();
        }
    }

    fn keep_two(&mut self) {
        while self.world.processes.len() <= 2 {
            self.world.start(Role::Engine);
        }
    }

    /// Kills the holder of a queue for which a task waits. Returns how long it took until another
    /// process had the authority. A worker left from before may end the task in the meantime. Then
    /// no takeover is needed, and the next task is tried.
    fn takeover(&mut self) -> Option<u64> {
        for _ in 0..TAKEOVERS {
            let took = self.try_takeover()?;
            if took.is_some() {
                return took;
            }
        }
        None
    }

    /// Returns `None` if no process took over although the task waited, and `Some(None)` if the
    /// task ended before that.
    fn try_takeover(&mut self) -> Option<Option<u64>> {
        self.keep_two();
        // No other faults: the successor must live.
        for process in &self.world.processes {
            process.line.spare();
        }
        let queue = QUEUES[0];
        let prepared = self.known[0].clone();
        let run = self
            .world
            .create(0, &prepared, Policy::default(), Start::WhenClaimed);
        self.runs.push(run.clone());
        let held = self.until(|play| {
            if play.judge.has_left_its_first_node(&run) {
                return Some(None);
            }
            let (holder, is_live) = play.judge.authority(queue, play.world.now)?;
            let place = |one: &crate::process::Process| judge::owner(one.id) == holder;
            let place = play.world.processes.iter().position(place)?;
            is_live.then_some(Some((place, holder)))
        })?;
        let Some((place, holder)) = held else {
            return Some(None);
        };
        self.world.kill(place);
        let killed = self.world.now;
        let is_taken = self.until(|play| {
            let (now, _) = play.judge.authority(queue, play.world.now)?;
            if now != holder {
                Some(true)
            } else {
                play.judge.has_left_its_first_node(&run).then_some(false)
            }
        })?;
        self.keep_two();
        Some(is_taken.then(|| self.world.now.ms_since(killed)))
    }

    /// Gives turns until `what` returns a value, up to a limit. A process may still die of an
    /// earlier fault; another one replaces it.
    fn until<T>(&mut self, what: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let end = self.world.now.plus_ms(CALM_MS);
        while self.world.now < end {
            if let Some(found) = what(self) {
                return Some(found);
            }
            self.world.turn();
            self.keep_two();
        }
        None
    }

    fn finish(&mut self) {
        self.work_to_the_end();
        let end = self.world.now.plus_ms(1_000);
        while self.world.now < end {
            self.world.turn();
        }
    }

    fn end(self, seed: u64, takeover_ms: Option<u64>) -> Result<QueueReport, Box<Broken>> {
        let Self { world, judge, .. } = self;
        let record = world.record;
        write_trace(&record, &judge);
        let queues = judge.judge_queues(&record);
        let verdict = judge.judge(&record);
        let trace = verdict.trace.expect("the judge has looked");
        let mut laws = verdict.wrong;
        laws.extend(queues.wrong);
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let most = lease + 2 * Kind::Queues.most_wrong_ms() + LOOK_MS;
        match takeover_ms {
            None => laws.push("no process took over a lease".into()),
            Some(ms) if ms > most => {
                laws.push(format!("a takeover took {ms} ms, and may take {most} ms"));
            }
            Some(_) => {}
        }
        if !laws.is_empty() {
            let test = "soak_queues";
            return Err(Box::new(Broken {
                seed,
                laws,
                trace,
                test,
            }));
        }
        let (kills, freezes, zombies) =
            record.with(|seen| (seen.kills, seen.freezes, seen.zombies));
        Ok(QueueReport {
            tasks: queues.tasks,
            assigned: queues.assigned,
            takeovers: queues.takeovers,
            zombies,
            kills,
            freezes,
            takeover_ms: takeover_ms.unwrap_or_default(),
            trace,
        })
    }
}

/// The stream of a queue.
pub(crate) fn stream(queue: &str) -> StreamId {
    Coordinator::stream(&TENANT.into(), queue)
}

/// A workflow whose nodes are done by workers, one after another or at the same time.
fn workflow(draws: &mut Draws, id: &str) -> Value {
    let count = 1 + draws.below(4);
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    for n in 0..count {
        // The takeover test uses the first queue.
        let queue = match n {
            0 => QUEUES[0],
            _ => *draws.pick(&QUEUES),
        };
        let repeat = if draws.per_mille(250) {
            "once"
        } else {
            "repeatable"
        };
        let mut node = json!({
            "id": format!("n{n}"), "name": "n", "typeId": "runwright.worker",
            "position": { "x": 0, "y": 0 }, "inputs": {},
            "config": {
                "queue": queue, "repeat": repeat,
                "heartbeatTimeoutMs": 1_000 + draws.below(1_000), "maxAssignments": 100,
            },
        });
        if draws.per_mille(300) {
            let retry = json!({ "maxAttempts": 2, "initialDelayMs": draws.below(200) });
            node["settings"] = json!({ "retry": retry });
        }
        nodes.push(node);
        if n > 0 && draws.per_mille(300) {
            edges.push(json!({
                "id": format!("e{n}"), "sourceNodeId": format!("n{}", n - 1),
                "targetNodeId": format!("n{n}"),
            }));
        }
    }
    json!({
        "id": id, "name": id, "version": "1.0.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}
