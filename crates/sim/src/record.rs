//! The world's own record, made at the moment of each claim, append and effect.
//!
//! Laws about a moment (one live holder, no stale writer, no attempt twice at once) are checked
//! here as it happens; the judge checks laws about the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kernel::batch::Record as Content;
use kernel::digest::Digest;
use kernel::ids::{AttemptId, AttemptKey, HolderId, Seq, StreamId};
use kernel::run::{Event, RunEvent};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::{Epoch, Guard, Lease, LeaseChange};

use crate::clock::SKEW_MS;

/// A process that lives until it is killed; its successor has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(pub(crate) u32);

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// One start of an attempt, as recorded by the world.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) key: AttemptKey,
    pub(crate) run: StreamId,
    process: ProcessId,
    started: Timestamp,
    pub(crate) ended: Option<Finish>,
}

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Completed,
    Failed,
    Stopped,
    /// With its process.
    Killed,
}

/// The content of the record.
#[derive(Default)]
pub(crate) struct Seen {
    /// The world's clock at the last turn.
    pub(crate) now: i64,
    /// One line for each happening, in order: two plays of a seed have the same.
    pub(crate) trace: Vec<String>,
    /// Maximum difference of two processes' clocks in addition to a turn, in milliseconds.
    pub(crate) clocks_apart_ms: u64,
    /// Laws that were broken at some moment.
    pub(crate) wrong: Vec<String>,
    leases: BTreeMap<StreamId, Lease>,
    pub(crate) epochs: BTreeMap<StreamId, Epoch>,
    /// The digest of every appended event, by its place.
    pub(crate) written: BTreeMap<(StreamId, Seq), Digest>,
    /// The process that made each append.
    pub(crate) writers: BTreeMap<(StreamId, Seq), ProcessId>,
    completed: BTreeSet<AttemptKey>,
    pub(crate) instances: Vec<Instance>,
    /// When a process was last frozen or thawed.
    frozen: BTreeMap<ProcessId, Timestamp>,
    /// Runs whose creation was acknowledged.
    pub(crate) created: BTreeSet<StreamId>,
    /// Signals that were acknowledged: run and id.
    pub(crate) signals: BTreeSet<(StreamId, String)>,
    /// Cancellations that were acknowledged: run and reason.
    pub(crate) cancels: BTreeSet<(StreamId, String)>,
    /// Acknowledged results: queue, assignment and fence.
    pub(crate) results: BTreeSet<(StreamId, Seq, u32)>,
    pub(crate) kills: u32,
    pub(crate) freezes: u32,
    /// Refused reports of workers whose tasks had been reassigned.
    pub(crate) zombies: u32,
}

/// The record of a world, shared by all of its processes.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Seen>>);

impl Record {
    /// Reads or extends the record.
    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut Seen) -> T) -> T {
        what(&mut self.0.lock())
    }
}

impl Seen {
    pub(crate) fn note(&mut self, at: Timestamp, what: impl std::fmt::Display) {
        self.trace.push(format!("{} {what}", at.0));
    }

    fn broken(&mut self, at: Timestamp, what: String) {
        self.note(at, &what);
        self.wrong.push(what);
    }

    /// A process was frozen or thawed.
    pub(crate) fn froze(&mut self, at: Timestamp, process: ProcessId) {
        self.frozen.insert(process, at);
    }

    /// A lease was taken.
    pub(crate) fn claimed(&mut self, at: Timestamp, lease: &Lease) {
        self.note(
            at,
            format_args!("{} claims {} {:?}", lease.holder, lease.stream, lease.epoch),
        );
        if let Some(other) = self.leases.get(&lease.stream)
            && other.holder != lease.holder
            && other.expires_at > at.plus_ms(SKEW_MS + self.clocks_apart_ms)
        {
            let what = format!(
                "{} claims {} while the hold of {} lives",
                lease.holder, lease.stream, other.holder
            );
            self.broken(at, what);
        }
        self.epochs.insert(lease.stream.clone(), lease.epoch);
        self.leases.insert(lease.stream.clone(), lease.clone());
    }

    /// A lease was renewed.
    pub(crate) fn renewed(&mut self, at: Timestamp, lease: &Lease) {
        match self.leases.get_mut(&lease.stream) {
            Some(kept) if kept.epoch == lease.epoch => kept.expires_at = lease.expires_at,
            _ => {
                let what = format!("{} renews {} without a hold", lease.holder, lease.stream);
                self.broken(at, what);
            }
        }
    }

    /// A lease was released, if it still existed.
    pub(crate) fn released(&mut self, stream: &StreamId, epoch: Epoch) {
        if self
            .leases
            .get(stream)
            .is_some_and(|lease| lease.epoch == epoch)
        {
            self.leases.remove(stream);
        }
    }

    /// An append was done.
    pub(crate) fn appended(&mut self, at: Timestamp, who: ProcessId, done: &Appended<'_>) {
        let Appended {
            stream,
            first,
            records,
            guard,
            lease,
            taken,
        } = done;
        let last = first + records.len() as u64;
        self.note(at, format_args!("{who} appends {stream} {first}..{last}"));
        if let Guard::Holder(epoch) = guard
            && self.leases.get(*stream).map(|lease| lease.epoch) != Some(*epoch)
        {
            let what = format!("{who} writes to {stream} under {epoch:?}, which has passed on");
            self.broken(at, what);
        }
        for (seq, record) in (*first..).zip(*records) {
            let place = ((*stream).clone(), seq);
            let digest = Digest::compute(&record.content);
            self.writers.insert(place.clone(), who);
            if self.written.insert(place, digest).is_some() {
                self.broken(at, format!("{stream} has two events {seq}"));
            }
            if let Ok(event) = serde_json::from_slice::<Event>(&record.content)
                && let RunEvent::NodeCompleted {
                    node_id,
                    visit,
                    attempt,
                    ..
                } = event.body
            {
                let id = AttemptId {
                    node: node_id,
                    visit,
                    attempt,
                };
                self.completed.insert(id.key(stream));
            }
        }
        match (guard, lease) {
            (Guard::Holder(epoch), LeaseChange::Release) => self.released(stream, *epoch),
            _ => {
                if let Some(lease) = taken {
                    self.claimed(at, lease);
                }
            }
        }
    }

    /// An attempt begins its effect. Returns the number of the instance.
    pub(crate) fn started(
        &mut self,
        at: Timestamp,
        process: ProcessId,
        run: &StreamId,
        key: &AttemptKey,
    ) -> usize {
        self.note(at, format_args!("{process} starts {key}"));
        // A zombie finishes its current step before it learns that it lost the lease.
        let is_zombie = |from: Timestamp| {
            self.frozen
                .get(&process)
                .is_some_and(|at| *at >= from || from.ms_since(*at) < ZOMBIE_MS)
        };
        let mut wrong = Vec::new();
        if self.completed.contains(key) && !is_zombie(at) {
            wrong.push(format!(
                "{key} starts again, its completion is in the log of {run}"
            ));
        }
        for other in self.instances.iter().filter(|other| other.key == *key) {
            let was_frozen = self
                .frozen
                .get(&other.process)
                .is_some_and(|at| at.plus_ms(ZOMBIE_MS) >= other.started);
            if other.ended.is_none() && !was_frozen && !is_zombie(at) {
                let who = other.process;
                wrong.push(format!(
                    "{key} of {run} starts in {process} while it runs in {who}"
                ));
            }
        }
        for what in wrong {
            self.broken(at, what);
        }
        self.instances.push(Instance {
            key: key.clone(),
            run: run.clone(),
            process,
            started: at,
            ended: None,
        });
        self.instances.len() - 1
    }

    /// An instance ends. The first report counts.
    pub(crate) fn ended(&mut self, at: Timestamp, instance: usize, finish: Finish) {
        let of = &mut self.instances[instance];
        if of.ended.is_some() {
            return;
        }
        of.ended = Some(finish);
        let key = of.key.clone();
        self.note(at, format_args!("{key} is over: {finish:?}"));
    }

    /// A process was killed, with all its tasks. Recorded before its tasks are dropped, whose order
    /// is undefined.
    pub(crate) fn killed(&mut self, at: Timestamp, process: ProcessId) {
        self.kills += 1;
        self.note(at, format_args!("{process} is killed"));
        for instance in 0..self.instances.len() {
            if self.instances[instance].process == process {
                self.ended(at, instance, Finish::Killed);
            }
        }
    }

    /// Traces a refused claim.
    pub(crate) fn refused(&mut self, at: Timestamp, who: &HolderId, what: impl std::fmt::Display) {
        self.note(at, format_args!("{who} is refused: {what}"));
    }
}

/// How long after its thaw a process may act on stale knowledge.
const ZOMBIE_MS: u64 = 2_000;

/// An append that was done.
pub(crate) struct Appended<'a> {
    pub(crate) stream: &'a StreamId,
    pub(crate) first: Seq,
    pub(crate) records: &'a [Content],
    pub(crate) guard: Guard,
    pub(crate) lease: &'a LeaseChange,
    pub(crate) taken: Option<&'a Lease>,
}
