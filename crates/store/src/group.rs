//! Group commit: one thread writes, and all waiting jobs share one transaction.
//!
//! A job checks before it writes, so a refused one leaves no trace in the transaction of the
//! others. Only when a job breaks (the database failed, or it was refused after a write) is the
//! group rolled back and each of its jobs retried alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::StoreError;

/// Maximum number of jobs that share a transaction.
const GROUP_JOBS: usize = 1_024;
/// Maximum bytes of the jobs that share a transaction; a single job may be larger.
const GROUP_BYTES: usize = 8 << 20;
/// Maximum bytes of waiting jobs; callers wait for room before they enqueue more.
const QUEUE_BYTES: usize = 64 << 20;
/// The overhead of a job in addition to its own bytes.
const JOB_BYTES: usize = 512;

static COMMITS: AtomicU64 = AtomicU64::new(0);

/// How many transactions this process has committed through a [`GroupCommit`], for metrics.
pub fn commits() -> u64 {
    COMMITS.load(Ordering::Relaxed)
}

/// A database that runs one transaction at a time.
pub trait Transactions: Send + 'static {
    /// Begins a transaction that excludes every other writer.
    fn begin(&self) -> Result<(), StoreError>;

    /// Begins a transaction that only reads and sees one state of the database.
    fn begin_reading(&self) -> Result<(), StoreError>;

    /// Makes the transaction durable. After an error it has ended, and may or may not be durable.
    fn commit(&self) -> Result<(), StoreError>;

    /// Undoes an open transaction; does nothing where none is open.
    fn rollback(&self);

    /// A number that grows with each row changed.
    fn changes(&self) -> u64;
}

/// One caller's work in a transaction. It may run more than once, each time in a transaction that
/// does not contain its earlier writes.
trait Job<D>: Send {
    fn bytes(&self) -> usize;
    /// Runs in the open transaction. After an error the transaction must be rolled back.
    fn run(&mut self, database: &D) -> Result<(), StoreError>;
    /// Answers the caller, after the commit or its failure.
    fn answer(self: Box<Self>, commit: Result<(), StoreError>);
}

struct Pending<T, F> {
    work: F,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    bytes: usize,
    _room: OwnedSemaphorePermit,
}

impl<D, T, F> Job<D> for Pending<T, F>
where
    D: Transactions,
    T: Send,
    F: Fn(&D) -> Result<T, StoreError> + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, database: &D) -> Result<(), StoreError> {
        let before = database.changes();
        match (self.work)(database) {
            Err(error @ (StoreError::Corrupt(_) | StoreError::Unavailable(_))) => Err(error),
            Err(error) if database.changes() != before => Err(error),
            outcome => {
                self.outcome = Some(outcome);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, commit: Result<(), StoreError>) {
        let Self { outcome, reply, .. } = *self;
        // Without the commit a refusal is void too: it may rest on another job's writes.
        let answer =
            commit.and_then(|()| outcome.expect("a commit follows the run of each of its jobs"));
        // The send fails if the caller was cancelled; the write remains.
        let _ = reply.send(answer);
    }
}

/// The handle to the writing thread.
pub struct GroupCommit<D> {
    queue: Option<Sender<Box<dyn Job<D>>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Transactions> GroupCommit<D> {
    /// Starts the thread, which owns the database from then on.
    pub fn start(database: D) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || serve(&database, &jobs))
            .map_err(|error| StoreError::Unavailable(format!("no thread for writing: {error}")))?;
        Ok(Self {
            queue: Some(queue),
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and returns its result once that is durable. Jobs run in the
    /// order of their submission. `bytes` is the memory that the job uses while it waits.
    pub async fn submit<T, F>(&self, bytes: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&D) -> Result<T, StoreError> + Send + 'static,
    {
        let stopped = || StoreError::Unavailable("the writer of the store has stopped".into());
        let bytes = bytes.saturating_add(JOB_BYTES).min(QUEUE_BYTES);
        let permits = u32::try_from(bytes).expect("the bound of the queue fits");
        let room = Arc::clone(&self.room).acquire_many_owned(permits);
        let room = room.await.map_err(|_| stopped())?;
        let (reply, answer) = oneshot::channel();
        let job = Pending {
            work,
            outcome: None,
            reply,
            bytes,
            _room: room,
        };
        let queue = self
            .queue
            .as_ref()
            .expect("the queue lives as long as its handle");
        queue.send(Box::new(job)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl<D> Drop for GroupCommit<D> {
    /// Waits for submitted jobs, so that the database is at rest after its handle is dropped.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread's panic was printed, and its callers got an error.
            let _ = thread.join();
        }
    }
}

/// Why a group failed.
enum Broken {
    /// One of its jobs failed; the others may still succeed.
    Job(StoreError),
    /// The transaction failed as a whole.
    Transaction(StoreError),
}

type Group<D> = Vec<Box<dyn Job<D>>>;

fn serve<D: Transactions>(database: &D, jobs: &Receiver<Box<dyn Job<D>>>) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        match run(database, &mut group, Some(jobs)) {
            Err(Broken::Job(_)) if group.len() > 1 => {
                for job in group {
                    let mut alone = vec![job];
                    let done = run(database, &mut alone, None);
                    answer(alone, done);
                }
            }
            done => answer(group, done),
        }
    }
}

fn answer<D>(group: Group<D>, done: Result<(), Broken>) {
    let commit = done.map_err(|(Broken::Job(error) | Broken::Transaction(error))| error);
    for job in group {
        job.answer(commit.clone());
    }
}

/// Runs the jobs of a group, and those that arrive meanwhile, in one transaction.
fn run<D: Transactions>(
    database: &D,
    group: &mut Group<D>,
    arrivals: Option<&Receiver<Box<dyn Job<D>>>>,
) -> Result<(), Broken> {
    database.begin().map_err(Broken::Transaction)?;
    let done = run_jobs(database, group, arrivals)
        .map_err(Broken::Job)
        .and_then(|()| database.commit().map_err(Broken::Transaction));
    match done {
        Ok(()) => {
            COMMITS.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => database.rollback(),
    }
    done
}

fn run_jobs<D: Transactions>(
    database: &D,
    group: &mut Group<D>,
    arrivals: Option<&Receiver<Box<dyn Job<D>>>>,
) -> Result<(), StoreError> {
    let (mut next, mut bytes) = (0, 0);
    loop {
        if let Some(job) = group.get_mut(next) {
            job.run(database)?;
            bytes += job.bytes();
            next += 1;
        } else {
            let room = group.len() < GROUP_JOBS && bytes < GROUP_BYTES;
            match arrivals
                .filter(|_| room)
                .and_then(|jobs| jobs.try_recv().ok())
            {
                Some(job) => group.push(job),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
