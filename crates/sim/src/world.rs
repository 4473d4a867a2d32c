//! A world: a store, processes, the time, and its faults.

use std::sync::Arc;

use kernel::audit::Actor;
use kernel::ids::StreamId;
use kernel::run::{Command, Create, Envelope, Rejection, Start};
use kernel::stream::{Owner, Policy};
use kernel::time::Timestamp;
use runtime::{DoorError, Engine, NewRun, Prepared};
use serde_json::{Map, Value};
use store::faults::Plan;
use store::memory::MemoryStore;
use store::seed::Draws;

use crate::clock::{ProcessClock, START};
use crate::line::Bug;
use crate::process::{Kind, Notices, Process, Role, Turn};
use crate::record::{ProcessId, Record};

/// The tenant of every stream.
pub(crate) const TENANT: &str = "local";

/// A world.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) draws: Draws,
    pub(crate) record: Record,
    pub(crate) store: MemoryStore,
    pub(crate) processes: Vec<Process>,
    bug: Option<Bug>,
    kind: Kind,
    next_process: u32,
    next_id: u64,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, kind: Kind) -> Self {
        let mut world = Self {
            now: START,
            draws: Draws::new(seed),
            record: Record::default(),
            store: MemoryStore::new(Arc::new(ProcessClock::new(START))),
            processes: Vec::new(),
            bug,
            kind,
            next_process: 0,
            next_id: 0,
        };
        let apart = 2 * kind.most_wrong_ms();
        world.record.with(|seen| seen.clocks_apart_ms = apart);
        world.start(Role::Client);
        world
    }

    /// The process that only sends commands; it is never killed.
    pub(crate) fn client(&self) -> &Process {
        &self.processes[0]
    }

    /// Starts a process. Returns its place.
    pub(crate) fn start(&mut self, role: Role) -> usize {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        let seed = self.draws.number();
        let at = self.now;
        let off = match self.kind.most_wrong_ms() {
            0 => 0,
            most => self.draws.below(2 * most + 1) as i64 - most as i64,
        };
        self.record
            .with(|seen| seen.note(at, format_args!("{id} begins as {role:?}, {off} ms off")));
        let (store, record) = (&self.store, &self.record);
        let of = (self.kind, off);
        let process = Process::start(id, role, store, record, at, (self.bug, seed), of);
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, place: usize) {
        let process = self.processes.remove(place);
        let (at, id) = (self.now, process.id);
        self.record.with(|seen| seen.killed(at, id));
    }

    /// SIGSTOP.
    pub(crate) fn freeze(&mut self, place: usize) {
        let process = &mut self.processes[place];
        process.is_frozen = true;
        let (at, id) = (self.now, process.id);
        self.record.with(|seen| {
            seen.freezes += 1;
            seen.froze(at, id);
            seen.note(at, format_args!("{id} is frozen"));
        });
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self, place: usize, notices: Notices) {
        let process = &mut self.processes[place];
        let (at, id) = (self.now, process.id);
        self.record.with(|seen| {
            seen.now = at.0;
            seen.froze(at, id);
            seen.note(at, format_args!("{id} continues"));
        });
        process.thaw(notices);
    }

    /// Every process gets a turn, in random order.
    pub(crate) fn turn(&mut self) {
        let ms = 1 + self.draws.below(crate::clock::SKEW_MS);
        let at = self.now;
        self.record.with(|seen| seen.now = at.0);
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        for n in (1..order.len()).rev() {
            order.swap(n, self.draws.below(n as u64 + 1) as usize);
        }
        let mut dead = Vec::new();
        for place in order {
            if self.processes[place].turn(at, ms) == Turn::Died {
                dead.push(place);
            }
        }
        self.now = at.plus_ms(ms);
        dead.sort_unstable();
        for place in dead.into_iter().rev() {
            self.kill(place);
        }
    }

    /// Prepares a workflow and puts it into the store.
    pub(crate) fn prepare(&self, document: &Value) -> Result<Prepared, String> {
        let door = self.client().engine.door();
        let bytes = serde_json::to_vec(document).map_err(|error| error.to_string())?;
        self.client().run(self.now, async {
            let (store, tenant) = (&**door.store(), &TENANT.into());
            let prepared = door.plans().prepare(store, tenant, &bytes).await;
            prepared.map_err(|error| format!("{error:?}"))
        })
    }

    /// Registers a definition under its workflow's name.
    pub(crate) fn register(&self, prepared: &Prepared) {
        let door = self.client().engine.door();
        let (tenant, actor) = (TENANT.into(), Actor::operator());
        let put = door.put_workflow(&tenant, &prepared.definition, &actor);
        let done = self.client().run(self.now, put);
        done.expect("no process is unreliable yet");
    }

    /// Sends a create command to a process until the run exists or the process is killed. Returns
    /// the run's id.
    pub(crate) fn create(
        &mut self,
        place: usize,
        prepared: &Prepared,
        policy: Policy,
        start: Start,
    ) -> StreamId {
        let id = StreamId::new(format!("run-{:04}", self.next_id));
        self.next_id += 1;
        let new = NewRun {
            owner: Owner::tenant(TENANT),
            prepared: prepared.clone(),
            create: Create::new(Map::new(), "sim", start),
            policy,
            trace: None,
            id: Some(id.clone()),
            nonce: None,
            keys: Vec::new(),
        };
        let process = &mut self.processes[place];
        let task = create(process.engine.clone(), new, id.clone(), self.record.clone());
        process.spawn(task);
        id
    }

    /// Sends a command for a run through a process, once.
    pub(crate) fn tell(&mut self, place: usize, run: &StreamId, what: Command) {
        let process = &mut self.processes[place];
        let task = tell(
            process.engine.clone(),
            run.clone(),
            what,
            self.record.clone(),
        );
        process.spawn(task);
    }

    /// A unique id.
    pub(crate) fn fresh(&mut self, what: &str) -> String {
        self.next_id += 1;
        format!("{what}-{}", self.next_id)
    }

    /// From now on no call is slow and none fails.
    pub(crate) fn calm_down(&mut self) {
        for process in &self.processes {
            process.faulty.set_plan(Plan::Never);
            process.line.set_slow(0);
        }
    }
}

async fn create(engine: Engine, new: NewRun, id: StreamId, record: Record) {
    for _ in 0..200 {
        match engine.create(new.clone()).await {
            Ok(_) | Err(DoorError::Rejected(Rejection::Existing)) => {
                record.with(|seen| seen.created.insert(id));
                return;
            }
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn tell(engine: Engine, run: StreamId, what: Command, record: Record) {
    let envelope = Envelope::from(what.clone());
    if engine.command(&run, envelope).await.is_err() {
        return;
    }
    record.with(|seen| match what {
        Command::Signal { id, .. } => drop(seen.signals.insert((run, id))),
        Command::Cancel {
            reason: Some(reason),
            ..
        } => drop(seen.cancels.insert((run, reason))),
        _ => {}
    });
}
