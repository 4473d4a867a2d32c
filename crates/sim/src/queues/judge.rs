//! The judge of queues: compares their logs with the writers and the acknowledgements. It shares no
//! code with the decisions.

use std::collections::{BTreeMap, BTreeSet};

use kernel::check;
use kernel::coordinator::{Coordinator, CoordinatorEvent, Event, Lease};
use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{Listed, Loaded};

use super::stream;
use crate::judge::Judge;
use crate::record::{ProcessId, Record, Seen};

/// The result of a world's queues.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) wrong: Vec<String>,
    pub(super) tasks: usize,
    pub(super) assigned: usize,
    pub(super) takeovers: usize,
}

/// The owner name of an engine: a digest of the holder's name.
pub(super) fn owner(process: ProcessId) -> String {
    let hex = Digest::compute(process.to_string().as_bytes()).to_string();
    format!("engine-{}", &hex[..16])
}

impl Judge {
    /// The authority of a queue according to its log, and whether its lease lives.
    pub(super) fn authority(&self, queue: &str, now: Timestamp) -> Option<(String, bool)> {
        let stream = stream(queue);
        let rows = self.streams(StreamKind::Coordinator);
        rows.iter().find(|row| row.stream == stream)?;
        let mut log = Log::default();
        for event in events(&self.read(&stream)) {
            log.lead(&event);
        }
        let lease = log.lease?;
        let is_live = until(&lease) > now;
        Some((lease.owner, is_live))
    }

    /// Checks every law for every queue.
    pub(super) fn judge_queues(&self, record: &Record) -> Queues {
        let mut queues = Queues::default();
        for row in self.streams(StreamKind::Coordinator) {
            let loaded = self.read(&row.stream);
            let mut log = Log::default();
            record.with(|seen| log.read(&row, &loaded, seen));
            queues.tasks += log.queued.len();
            queues.assigned += log.assigned;
            queues.takeovers += log.takeovers;
            let wrong = log.wrong.into_iter();
            queues
                .wrong
                .extend(wrong.map(|what| format!("{}: {what}", row.index.queue)));
        }
        queues
    }
}

fn events(loaded: &Loaded) -> Vec<Event> {
    let records = loaded.records.iter();
    let events = records.map(|record| serde_json::from_slice(&record.content));
    events
        .collect::<Result<_, _>>()
        .expect("events can be read")
}

fn until(lease: &Lease) -> Timestamp {
    Timestamp::parse(&lease.leased_until).expect("a native lease says a time")
}

/// A log while it is read, and its faults.
#[derive(Default)]
struct Log {
    lease: Option<Lease>,
    queued: BTreeSet<String>,
    /// The latest fence of each task and its assignment; `None` while it is not assigned.
    fences: BTreeMap<String, (u32, Option<Seq>)>,
    settled: BTreeSet<String>,
    delivered: BTreeSet<(Seq, u32)>,
    assigned: usize,
    takeovers: usize,
    wrong: Vec<String>,
}

impl Log {
    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    fn read(&mut self, row: &Listed, loaded: &Loaded, seen: &Seen) {
        if let Err(broken) = check::verify_chain(&loaded.header, &loaded.records) {
            self.wrong(broken.to_string());
        }
        let mut folded = Coordinator::at_start(loaded.header.clone());
        for record in &loaded.records {
            if folded.fold_content(&record.content).is_none() {
                return self.wrong("the log does not fold".into());
            }
        }
        if folded.index() != row.index {
            self.wrong("its index row is not that of its fold".into());
        }
        for event in events(loaded) {
            let writer = seen.writers.get(&(row.stream.clone(), event.seq));
            match writer {
                Some(writer) => self.judge_authority(&event, &owner(*writer)),
                None => self.wrong(format!("no process wrote event {}", event.seq)),
            }
            self.lead(&event);
            self.judge_task(&event);
        }
        let open: Vec<String> = self.queued.difference(&self.settled).cloned().collect();
        for task in open {
            self.wrong(format!("{task} was never settled"));
        }
        self.judge_acknowledged(&row.stream, seen);
    }

    /// One live authority at a time, and no process acts on the lease of another. `by` wrote the
    /// event.
    fn judge_authority(&mut self, event: &Event, by: &str) {
        let held = self.lease.clone();
        let is_live = |lease: &Lease| event.at < until(lease);
        let seq = event.seq;
        let mut must_hold = |what: &str, owner: &str, needs_life: bool| {
            let holds = held.as_ref().filter(|lease| lease.owner == owner);
            if owner != by {
                self.wrong(format!(
                    "{by} says event {seq} ({what}) in the name of {owner}"
                ));
            }
            match holds {
                None => self.wrong(format!("{owner} says event {seq} ({what}) without a lease")),
                Some(lease) if needs_life && !is_live(lease) => {
                    self.wrong(format!(
                        "event {seq} ({what}) is said under a lease that is over"
                    ));
                }
                Some(_) => {}
            }
        };
        match &event.body {
            CoordinatorEvent::AuthorityAcquired(lease) => {
                let of = held.as_ref();
                let is_free = of.is_none_or(|of| of.owner == lease.owner || !is_live(of));
                if !is_free {
                    self.wrong(format!(
                        "{} takes a lease that lives at event {seq}",
                        lease.owner
                    ));
                }
                if lease.owner != by {
                    self.wrong(format!("{by} takes a lease for {}", lease.owner));
                }
            }
            CoordinatorEvent::AuthorityRenewed(lease) => must_hold("renewal", &lease.owner, false),
            CoordinatorEvent::AuthorityReleased { owner } => must_hold("release", owner, false),
            CoordinatorEvent::Heartbeat { owner, .. } => must_hold("heartbeat", owner, true),
            CoordinatorEvent::WorkerStalled { .. } => {
                let owner = held.as_ref().map(|lease| lease.owner.clone());
                must_hold("stalled", &owner.unwrap_or_default(), true);
            }
            CoordinatorEvent::WorkerAssigned {
                handed: Some(handed),
                ..
            } => {
                // Any process assigns tasks, in the name of the authority.
                let of = held.as_ref().filter(|lease| lease.owner == handed.owner);
                if !of.is_some_and(is_live) {
                    self.wrong(format!("event {seq} hands out under no live lease"));
                }
            }
            _ => {}
        }
    }

    /// Updates the owner of the lease after an event.
    fn lead(&mut self, event: &Event) {
        match &event.body {
            CoordinatorEvent::AuthorityAcquired(lease) => {
                let before = self.lease.replace(lease.clone());
                self.takeovers +=
                    usize::from(before.is_some_and(|before| before.owner != lease.owner));
            }
            CoordinatorEvent::AuthorityRenewed(lease) => self.lease = Some(lease.clone()),
            CoordinatorEvent::AuthorityReleased { .. } => self.lease = None,
            _ => {}
        }
    }

    /// Each task is queued once, assigned to one worker at a time under growing fences, and settled
    /// once, by its assignee.
    fn judge_task(&mut self, event: &Event) {
        let seq = event.seq;
        match &event.body {
            CoordinatorEvent::DispatchQueued { request_id, .. }
                if !self.queued.insert(request_id.to_string()) =>
            {
                self.wrong(format!("{request_id} is queued twice"));
            }
            CoordinatorEvent::WorkerAssigned {
                task_id,
                handed: Some(handed),
                ..
            } => {
                self.assigned += 1;
                let (fence, assignment) = self.fences.get(task_id).copied().unwrap_or_default();
                if handed.fence != fence + 1 || assignment.is_some() {
                    self.wrong(format!("{task_id} is assigned again while a worker has it"));
                }
                if self.settled.contains(task_id) || !self.queued.contains(task_id) {
                    self.wrong(format!("{task_id} goes out and is not open"));
                }
                self.fences
                    .insert(task_id.clone(), (handed.fence, Some(seq)));
            }
            CoordinatorEvent::WorkerReleased { task_id, .. }
            | CoordinatorEvent::WorkerStalled {
                task_id: Some(task_id),
                ..
            } => {
                let last = self.fences.get_mut(task_id);
                if last.is_none_or(|(_, assignment)| assignment.take().is_none()) {
                    self.wrong(format!("{task_id} is taken from no worker"));
                }
            }
            CoordinatorEvent::DispatchDelivered { request_id, report } => {
                let last = self.fences.get(request_id.as_str()).copied();
                let said = report
                    .as_ref()
                    .map(|report| (report.fence, report.assignment));
                if said.is_none() || said != last {
                    self.wrong(format!("{request_id} is delivered by who does not have it"));
                }
                if let Some((fence, Some(assignment))) = said {
                    self.delivered.insert((assignment, fence));
                }
                self.settle(request_id.as_str());
            }
            CoordinatorEvent::DispatchFailed { request_id, .. } => self.settle(request_id.as_str()),
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => {
                for request in request_ids {
                    self.settle(request.as_str());
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, task: &str) {
        if !self.settled.insert(task.to_owned()) {
            self.wrong(format!("{task} is settled twice"));
        }
    }

    fn judge_acknowledged(&mut self, stream: &StreamId, seen: &Seen) {
        let of_it = seen.results.iter().filter(|(of, ..)| of == stream);
        for (_, assignment, fence) in of_it {
            if !self.delivered.contains(&(*assignment, *fence)) {
                self.wrong(format!(
                    "the result of assignment {assignment} was acknowledged and is lost"
                ));
            }
        }
    }
}
