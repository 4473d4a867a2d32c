//! Hints within a process: there may be something to do. Hints may be lost, repeated or late; a
//! waiter reads the store again before it acts.
//!
//! For watched runs the last events that this process appended are cached, so that followers need
//! not read them back from the store.

use kernel::run::RunStatus;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel::ids::{Seq, StreamId};
use kernel::run::{Event, Run};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::telemetry::Meters;

/// Bytes of events cached per watched run. One event more may be cached.
const RECENT_BYTES: usize = 64 << 10;

/// The hints of one process.
#[derive(Clone, Default)]
pub struct Hints {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    queue: Notify,
    outbox: Notify,
    /// Counts hints.
    feed: watch::Sender<u64>,
    meters: Arc<Meters>,
    audit: Notify,
    /// Many entries of a trail have no checkpoint.
    audit_many: AtomicBool,
    // Locked for a map look-up, never across an await.
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    runs: HashMap<StreamId, Arc<WatchedRun>>,
    /// The number of entries after unwatched ones were last dropped.
    swept: usize,
}

#[derive(Default)]
struct WatchedRun {
    progress: watch::Sender<Progress>,
    recent: Mutex<Recent>,
}

impl WatchedRun {
    fn tell(&self, progress: Progress) {
        // Two appends may report out of order; the larger sequence is kept.
        self.progress.send_if_modified(|known| {
            let is_further = known.next_seq < progress.next_seq;
            if is_further {
                *known = progress;
            }
            is_further
        });
    }
}

/// The last events of a run, without a gap.
#[derive(Default)]
struct Recent {
    events: VecDeque<(Arc<Event>, usize)>,
    bytes: usize,
}

/// The progress of a run, as far as this process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The length of its log.
    pub next_seq: Seq,
    /// Whether it has settled.
    pub settled: bool,
    /// Its status; `None` before anything is known.
    pub status: Option<RunStatus>,
}

/// Follows this process's appends to a run.
pub struct Watch {
    run: Arc<WatchedRun>,
    progress: watch::Receiver<Progress>,
}

impl Hints {
    /// A run may wait in the queue.
    pub fn queue(&self) {
        self.inner.queue.notify_one();
    }

    /// A message may wait in the outbox.
    pub fn outbox(&self) {
        self.inner.outbox.notify_one();
    }

    /// Waits for [`Hints::queue`].
    pub async fn wait_queue(&self) {
        self.inner.queue.notified().await;
    }

    /// Waits for [`Hints::outbox`].
    pub async fn wait_outbox(&self) {
        self.inner.outbox.notified().await;
    }

    /// The meters of this process's appends.
    pub fn meters(&self) -> &Meters {
        &self.inner.meters
    }

    /// Something may be new in the feed.
    pub fn feed(&self) {
        self.inner.feed.send_modify(|count| *count += 1);
    }

    /// An entry was written to a trail, perhaps one of many without a checkpoint.
    pub(crate) fn audit(&self, is_many: bool) {
        self.inner.audit_many.fetch_or(is_many, Ordering::AcqRel);
        self.inner.audit.notify_one();
    }

    /// Waits for an entry of a trail; returns whether there are many.
    pub(crate) async fn wait_audit(&self) -> bool {
        self.inner.audit.notified().await;
        self.inner.audit_many.swap(false, Ordering::AcqRel)
    }

    /// Follows [`Hints::feed`] from now on. Its value grows with each hint.
    pub(crate) fn follow_feed(&self) -> watch::Receiver<u64> {
        self.inner.feed.subscribe()
    }

    /// Reports durable events of a run, and their total size.
    pub(crate) fn appended(&self, run: &Run, events: &[Event], bytes: usize) {
        self.feed();
        let watched = self
            .inner
            .watched
            .lock()
            .runs
            .get(&run.header.stream)
            .cloned();
        let Some(watched) = watched else { return };
        watched.recent.lock().push(events, bytes);
        watched.tell(Progress {
            next_seq: run.head.next_seq,
            settled: run.is_settled(),
            status: Some(run.status()),
        });
    }

    /// Reports the length of a stream that is not a run.
    pub(crate) fn grown(&self, stream: &StreamId, next_seq: Seq) {
        self.feed();
        let watched = self.inner.watched.lock().runs.get(stream).cloned();
        if let Some(watched) = watched {
            watched.tell(Progress {
                next_seq,
                ..Progress::default()
            });
        }
    }

    /// Another process appended to a stream.
    pub fn appended_elsewhere(&self, stream: &StreamId, next_seq: Seq) {
        self.grown(stream, next_seq);
    }

    /// Follows this process's appends to a run from now on.
    pub fn watch(&self, stream: &StreamId) -> Watch {
        let mut watched = self.inner.watched.lock();
        if watched.runs.len() > 2 * watched.swept + 64 {
            watched
                .runs
                .retain(|_, run| run.progress.receiver_count() > 0);
            watched.swept = watched.runs.len();
        }
        let run = watched.runs.entry(stream.clone()).or_default().clone();
        Watch {
            progress: run.progress.subscribe(),
            run,
        }
    }
}

impl Watch {
    /// Waits for progress since the last look. `false` if no further hints can come.
    pub async fn changed(&mut self) -> bool {
        self.progress.changed().await.is_ok()
    }

    /// Waits until this process knows that the run has settled.
    pub async fn settled(&mut self) {
        // The sender lives as long as this watch.
        let _ = self.progress.wait_for(|progress| progress.settled).await;
    }

    /// Whether there was progress since the last look.
    pub fn has_changed(&self) -> bool {
        self.progress.has_changed().unwrap_or(false)
    }

    /// The current progress; marks it as seen.
    pub fn look(&mut self) -> Progress {
        *self.progress.borrow_and_update()
    }

    /// At most `limit` events from `next`, and the run's progress, if this process appended them
    /// and still caches them. Empty if the store must be read.
    pub(crate) fn recent(&mut self, next: Seq, limit: usize) -> (Vec<Arc<Event>>, Progress) {
        let progress = self.look();
        let recent = self.run.recent.lock();
        (recent.from(next, progress.next_seq, limit), progress)
    }
}

impl Recent {
    fn push(&mut self, events: &[Event], bytes: usize) {
        let (Some(first), end) = (events.first(), self.end()) else {
            return;
        };
        if end.is_some_and(|end| end > first.seq) {
            // Out of order: the reader falls back to the store.
            return;
        }
        if end != Some(first.seq) {
            *self = Self::default();
        }
        // Approximate: an average suffices for the bound.
        let size = bytes.div_ceil(events.len());
        for event in events {
            self.events.push_back((Arc::new(event.clone()), size));
            self.bytes += size;
        }
        while self.bytes > RECENT_BYTES && self.events.len() > 1 {
            if let Some((_, size)) = self.events.pop_front() {
                self.bytes -= size;
            }
        }
    }

    /// The sequence after the last event.
    fn end(&self) -> Option<Seq> {
        self.events.back().map(|(last, _)| last.seq + 1)
    }

    fn from(&self, next: Seq, end: Seq, limit: usize) -> Vec<Arc<Event>> {
        let first = self.events.front().map(|(first, _)| first.seq);
        let (Some(first), true) = (first, self.end() == Some(end)) else {
            return Vec::new();
        };
        match next.checked_sub(first) {
            Some(skip) => {
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let events = self.events.iter().skip(skip).take(limit);
                events.map(|(event, _)| event.clone()).collect()
            }
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::run::RunEvent;
    use kernel::time::Timestamp;

    use super::*;

    fn events(seqs: std::ops::Range<Seq>) -> Vec<Event> {
        let event = |seq| Event {
            seq,
            at: Timestamp(0),
            cause: None,
            body: RunEvent::RunResumed { reason: None },
        };
        seqs.map(event).collect()
    }

    fn push(recent: &mut Recent, seqs: std::ops::Range<Seq>, size: usize) {
        let events = events(seqs);
        recent.push(&events, size * events.len());
    }

    fn seqs(recent: &Recent, next: Seq, end: Seq) -> Vec<Seq> {
        let found = recent.from(next, end, 100);
        found.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn events_appended_in_order_are_served_from_any_position() {
        let mut recent = Recent::default();
        push(&mut recent, 0..2, 10);
        push(&mut recent, 2..5, 10);
        assert_eq!(seqs(&recent, 0, 5), [0, 1, 2, 3, 4]);
        assert_eq!(seqs(&recent, 3, 5), [3, 4]);
        assert!(seqs(&recent, 5, 5).is_empty());
        assert_eq!(recent.from(1, 5, 2).len(), 2);
    }

    #[test]
    fn after_a_gap_only_later_events_are_kept() {
        let mut recent = Recent::default();
        push(&mut recent, 0..2, 10);
        push(&mut recent, 4..6, 10);
        push(&mut recent, 2..4, 10);
        assert!(seqs(&recent, 0, 6).is_empty());
        assert_eq!(seqs(&recent, 4, 6), [4, 5]);
        assert!(seqs(&recent, 4, 7).is_empty(), "more is known than is kept");
    }

    #[test]
    fn kept_hints_are_bounded() {
        let mut recent = Recent::default();
        push(&mut recent, 0..100, RECENT_BYTES / 10);
        assert_eq!(seqs(&recent, 90, 100).len(), 10);
        assert!(seqs(&recent, 89, 100).is_empty());
        push(&mut recent, 100..101, 10 * RECENT_BYTES);
        assert_eq!(seqs(&recent, 100, 101), [100]);
    }
}
