//! Group commit: all appends that wait at a moment share one statement and one commit.

use std::collections::VecDeque;
use std::sync::Arc;

use kernel::time::Timestamp;
use store::{Appended, Conflict, Position, Prepared, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::clock::Clock;
use crate::db::{Db, Fallible, column, corrupt};
use crate::group::{self, Arrays, Locks, Separate};

/// Maximum number of appends that share a commit.
const GROUP_APPENDS: usize = 256;
/// Maximum bytes of the appends that share a commit; a single append may be larger.
const GROUP_BYTES: usize = 8 << 20;
/// Maximum bytes of waiting appends; callers wait for room before they enqueue more.
const QUEUE_BYTES: usize = 64 << 20;
/// The overhead of an append in addition to its own bytes.
const APPEND_BYTES: usize = 512;

type Answer = Result<Appended, StoreError>;

struct Job {
    append: Prepared,
    reply: oneshot::Sender<Answer>,
    _room: OwnedSemaphorePermit,
}

/// The handle to the task that writes.
pub(crate) struct Writer {
    queue: mpsc::UnboundedSender<Job>,
    room: Arc<Semaphore>,
}

impl Writer {
    /// Starts the task. It ends after the handle was dropped and all appends were made.
    pub(crate) fn start(db: Db, clock: Arc<Clock>) -> Self {
        let (queue, jobs) = mpsc::unbounded_channel();
        // Appends that wait for locks leave connections to everything else.
        let waiting = Arc::new(Semaphore::new(db.pool.status().max_size / 2));
        tokio::spawn(serve(db, clock, waiting, jobs));
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        Self { queue, room }
    }

    /// Appends, and returns once the result is durable. Appends are made in the order of their
    /// submission, except those that wait for a lock of another transaction.
    pub(crate) async fn append(&self, append: Prepared) -> Answer {
        let stopped = || StoreError::Unavailable("the writer of the store has stopped".into());
        let bytes = append.bytes().saturating_add(APPEND_BYTES).min(QUEUE_BYTES);
        let permits = u32::try_from(bytes).map_err(|_| stopped())?;
        let room = Arc::clone(&self.room).acquire_many_owned(permits);
        let (reply, answer) = oneshot::channel();
        let job = Job {
            append,
            reply,
            _room: room.await.map_err(|_| stopped())?,
        };
        self.queue.send(job).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

async fn serve(
    db: Db,
    clock: Arc<Clock>,
    waiting_for_locks: Arc<Semaphore>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match jobs.recv().await {
                Some(job) => waiting.push_back(job),
                None => return,
            }
        }
        while waiting.len() < 2 * GROUP_APPENDS
            && let Ok(job) = jobs.try_recv()
        {
            waiting.push_back(job);
        }
        let group = next_group(&mut waiting);
        write(&db, &clock, &waiting_for_locks, group).await;
    }
}

/// Takes the appends at the front of the queue, up to the first that cannot share their commit.
fn next_group(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let (mut group, mut bytes, mut separate) = (Vec::new(), 0, Separate::default());
    while group.len() < GROUP_APPENDS
        && let Some(job) = waiting.front()
    {
        bytes += group::weight(&job.append);
        if !group.is_empty() && (bytes > GROUP_BYTES || !separate.add(&job.append)) {
            break;
        }
        if group.is_empty() {
            separate.add(&job.append);
        }
        group.extend(waiting.pop_front());
    }
    group
}

/// Appends a group. An append whose rows are locked waits for them in a task of its own.
async fn write(db: &Db, clock: &Arc<Clock>, waiting: &Arc<Semaphore>, group: Vec<Job>) {
    let appends: Vec<_> = group.iter().map(|job| &job.append).collect();
    let answers = match append(db, clock, Locks::Skip, &appends).await {
        // One append breaks the statement; the others may still succeed.
        Err(fault) if group.len() > 1 && fault.is_of_data() => {
            for job in group {
                write_alone(db, clock, job).await;
            }
            return;
        }
        Err(fault) => Err(fault.into()),
        Ok(answers) => answers,
    };
    let failed = answers.as_ref().err().cloned();
    let mut answers = answers.unwrap_or_default().into_iter();
    for job in group {
        match (answers.next(), &failed) {
            (Some(Some(answer)), _) => reply(job, answer),
            (_, Some(error)) => reply(job, Err(error.clone())),
            (_, None) => {
                let (db, clock, waiting) = (db.clone(), Arc::clone(clock), Arc::clone(waiting));
                tokio::spawn(async move {
                    let _turn = waiting.acquire_owned().await;
                    write_alone(&db, &clock, job).await;
                });
            }
        }
    }
}

async fn write_alone(db: &Db, clock: &Clock, job: Job) {
    let answers = append(db, clock, Locks::Wait, &[&job.append]).await;
    let answers = answers
        .map_err(StoreError::from)
        .and_then(|answers| answers);
    let answer = answers.map(|mut answers| answers.pop().flatten());
    let none = || Err(corrupt("an append has no answer"));
    reply(job, answer.and_then(|answer| answer.unwrap_or_else(none)));
}

fn reply(job: Job, answer: Answer) {
    // The send fails if the caller was cancelled; the write remains.
    let _ = job.reply.send(answer);
}

/// The answer to each append of a group; `None` where another transaction keeps its rows locked.
async fn append(
    db: &Db,
    clock: &Clock,
    locks: Locks,
    group: &[&Prepared],
) -> Fallible<Result<Vec<Option<Answer>>, StoreError>> {
    let arrays = Arrays::new(clock.at(), db.origin, locks, group);
    let rows = db.rows(&group::CALL, &arrays.params()).await?;
    let read = || {
        let row = rows
            .first()
            .ok_or_else(|| corrupt("an append has no answer"))?;
        let now = Timestamp(column(row, "t")?);
        let verdicts: Vec<&str> = column(row, "verdicts")?;
        let positions: Vec<Option<i64>> = column(row, "positions")?;
        clock.saw(now);
        let answer = |append: &Prepared, verdict, position: Option<i64>| {
            verdict_of(verdict, &arrays)?;
            let position = position.and_then(|position| u64::try_from(position).ok());
            let position = position.ok_or_else(|| corrupt("an event has no position"))?;
            Ok(Appended {
                position: Position(position),
                lease: append.taken(now),
            })
        };
        let answers = group.iter().zip(verdicts.into_iter().zip(positions));
        let answers = answers.map(|(append, (verdict, position))| {
            (verdict != "locked").then(|| answer(append, verdict, position))
        });
        Ok(answers.collect())
    };
    Ok(read())
}

fn verdict_of(verdict: &str, arrays: &Arrays<'_>) -> Result<(), StoreError> {
    Err(match verdict {
        "done" => return Ok(()),
        "fenced" => StoreError::Fenced,
        "sequence" => StoreError::Conflict(Conflict::Sequence),
        "held" => StoreError::Conflict(Conflict::Held),
        "missing" => StoreError::Missing,
        number => {
            let claim = number.parse().ok().and_then(|number| arrays.claim(number));
            let (namespace, key) = claim.ok_or_else(|| corrupt("a refusal has no reason"))?;
            StoreError::Conflict(Conflict::Key {
                namespace: namespace.into(),
                key: key.into(),
            })
        }
    })
}
