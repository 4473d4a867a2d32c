//! One process of a world: the real engine on its own runtime, driven in turns.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::run::NodeError;
use kernel::stream::Owner;
use kernel::time::Timestamp;
use runtime::authority::Authority;
use runtime::keyring::FileKeyring;
use runtime::nodes::{Ports, Registry, Secrets};
use runtime::outbound::Outbound;
use runtime::supervisor::Supervisor;
use runtime::{Engine, EngineOptions};
use store::faults::FaultyStore;
use store::memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};

use crate::clock::ProcessClock;
use crate::line::{Bug, Line};
use crate::record::{ProcessId, Record};
use crate::work::Work;

/// The duration of leases in a world.
pub(crate) const HOLD_TTL: Duration = Duration::from_millis(1_500);
/// The duration of a queue's lease in a world.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How often an engine polls the queue.
const POLL: Duration = Duration::from_millis(100);

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It drives runs.
    Engine,
    /// It only sends commands: runs, cancellations, signals.
    Client,
}

/// The kind of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs whose work the processes do themselves, by clocks that agree.
    Runs,
    /// Runs whose work is assigned to workers through queues, under clocks that disagree.
    Queues,
}

impl Kind {
    /// Maximum error of a clock in milliseconds.
    pub(crate) fn most_wrong_ms(self) -> u64 {
        match self {
            Self::Runs => 0,
            Self::Queues => 700,
        }
    }

    fn authority(self) -> Option<Authority> {
        (self == Self::Queues).then_some(Authority { lease: LEASE })
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Alive,
    /// The process died in the middle of a call of the store.
    Died,
}

/// A process.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) role: Role,
    pub(crate) engine: Engine,
    /// The fault wrapper of the store, around the line.
    pub(crate) faulty: Arc<FaultyStore>,
    pub(crate) line: Arc<Line>,
    pub(crate) is_frozen: bool,
    /// How far its own clock lags since it was last frozen.
    behind: Duration,
    clock: Arc<ProcessClock>,
    /// Tasks that begin with its next turn.
    arrivals: Vec<Task>,
    runtime: Runtime,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A world has no secrets.
struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn resolve(&self, _: &Owner, _: &str) -> Result<String, NodeError> {
        Err(NodeError::new("credential_not_found", "there are none").fatal())
    }
}

impl Process {
    pub(crate) fn start(
        id: ProcessId,
        role: Role,
        store: &MemoryStore,
        record: &Record,
        now: Timestamp,
        (bug, seed): (Option<Bug>, u64),
        (kind, off): (Kind, i64),
    ) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be made");
        let clock = Arc::new(ProcessClock::wrong_by(off, now));
        let share = store.share(clock.clone());
        let line = Line::new(share, id, record.clone(), bug, seed);
        let faulty = Arc::new(FaultyStore::new(line.clone()));
        let work = Work {
            process: id,
            clock: clock.clone(),
            record: record.clone(),
        };
        let nowhere = PathBuf::from("/nonexistent/runwright-sim");
        let ports = Ports {
            supervisor: Supervisor {
                program: nowhere.clone(),
                dir: nowhere.clone(),
            },
            outbound: Outbound::default(),
            secrets: Arc::new(NoSecrets),
            models: Default::default(),
            keyring: Arc::new(FileKeyring::new(nowhere.join("keys"))),
            workdir: nowhere,
            programs: Arc::default(),
        };
        let options = EngineOptions {
            holder: id.to_string().as_str().into(),
            lease_ttl: HOLD_TTL,
            poll: POLL,
            authority: kind.authority(),
            ..EngineOptions::default()
        };
        let registry = Arc::new(match kind {
            Kind::Runs => {
                Registry::from_nodes([Arc::new(work) as Arc<dyn runtime::nodes::WorkNode>])
            }
            Kind::Queues => Registry::standard(),
        });
        // Inside its runtime: tasks spawned or woken from elsewhere go to a separate queue, which
        // the scheduler polls at unpredictable times.
        let engine = runtime.block_on(async {
            clock.begin(now);
            let engine = Engine::new(faulty.clone(), registry, ports, options);
            if role == Role::Engine {
                engine.start();
            }
            engine
        });
        Self {
            id,
            role,
            engine,
            faulty,
            line,
            is_frozen: false,
            behind: Duration::ZERO,
            clock,
            arrivals: Vec::new(),
            runtime,
        }
    }

    /// Runs everything it has to do within `ms` milliseconds from `now`.
    pub(crate) fn turn(&mut self, now: Timestamp, ms: u64) -> Turn {
        if self.is_frozen {
            self.behind += Duration::from_millis(ms);
            return Turn::Alive;
        }
        let (clock, line) = (&self.clock, &self.line);
        let arrivals = std::mem::take(&mut self.arrivals);
        self.runtime.block_on(async {
            clock.begin(now);
            for task in arrivals {
                tokio::spawn(task);
            }
            tokio::select! {
                biased;
                () = line.died() => Turn::Died,
                () = tokio::time::sleep(Duration::from_millis(ms)) => Turn::Alive,
            }
        })
    }

    /// Resumes its turns. Its timers may have noticed the time that passed, as after SIGCONT, or
    /// not, as after the whole machine was suspended.
    pub(crate) fn thaw(&mut self, notices: Notices) {
        self.is_frozen = false;
        let behind = std::mem::take(&mut self.behind);
        if notices == Notices::Yes {
            self.runtime.block_on(tokio::time::advance(behind));
        }
    }

    /// Starts a task in it at its next turn.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.arrivals.push(Box::pin(task));
    }

    /// Runs a future to its end within it, without a time limit.
    pub(crate) fn run<T>(&self, now: Timestamp, what: impl Future<Output = T>) -> T {
        let clock = &self.clock;
        self.runtime.block_on(async {
            clock.begin(now);
            what.await
        })
    }
}

/// Whether a thawed process's timers know how long it was frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notices {
    Yes,
    No,
}
