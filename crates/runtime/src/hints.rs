//! Hints a process gives itself: there may be something to do. They may be lost, doubled or
//! late; whoever waits on one looks at the store again before it acts.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::ids::{Seq, StreamId};
use kernel::run::Run;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// The hints of one process.
#[derive(Clone, Default)]
pub struct Hints {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    queue: Notify,
    outbox: Notify,
    // A std-like mutex: held for a map look-up, never across an await.
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    senders: HashMap<StreamId, watch::Sender<Progress>>,
    /// How many there were after those that nobody watches were last dropped.
    swept: usize,
}

/// How far a run has come, as far as this process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many events its log holds.
    pub next_seq: Seq,
    /// Whether it has settled.
    pub settled: bool,
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

    /// Something was appended to a run.
    pub(crate) fn appended(&self, run: &Run) {
        let watched = self.inner.watched.lock();
        if let Some(sender) = watched.senders.get(&run.header.stream) {
            sender.send_replace(Progress {
                next_seq: run.head.next_seq,
                settled: run.is_settled(),
            });
        }
    }

    /// Follows what this process appends to a run.
    pub fn watch(&self, stream: &StreamId) -> watch::Receiver<Progress> {
        let mut watched = self.inner.watched.lock();
        if watched.senders.len() > 2 * watched.swept + 64 {
            watched
                .senders
                .retain(|_, sender| sender.receiver_count() > 0);
            watched.swept = watched.senders.len();
        }
        let sender = watched.senders.entry(stream.clone()).or_default();
        sender.subscribe()
    }
}
