//! Group commit: all appends that wait at a moment share one statement and one commit.

use std::collections::VecDeque;
use std::sync::Arc;

use kernel::time::Timestamp;
use store::{Appended, Conflict, Position, Prepared, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::clock::Clock;
use crate::db::{Db, Fallible, Fault, column, corrupt};
use crate::group::{self, Arrays, Separate};

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
        tokio::spawn(serve(db, clock, jobs));
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        Self { queue, room }
    }

    /// Appends, and returns once the result is durable. Appends are made in the order of their
    /// submission.
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

async fn serve(db: Db, clock: Arc<Clock>, mut jobs: mpsc::UnboundedReceiver<Job>) {
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
        write(&db, &clock, group).await;
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

async fn write(db: &Db, clock: &Clock, group: Vec<Job>) {
    let appends: Vec<_> = group.iter().map(|job| &job.append).collect();
    match append(db, clock, &appends).await {
        // One append breaks the statement; the others may still succeed.
        Err(fault) if group.len() > 1 && fault.is_of_data() => {
            for job in group {
                let answers = each(append(db, clock, &[&job.append]).await, 1);
                reply(vec![job], answers);
            }
        }
        outcome => {
            let answers = each(outcome, group.len());
            reply(group, answers);
        }
    }
}

fn reply(group: Vec<Job>, answers: Vec<Answer>) {
    for (job, answer) in group.into_iter().zip(answers) {
        // The send fails if the caller was cancelled; the write remains.
        let _ = job.reply.send(answer);
    }
}

/// The answer to each append of a group.
fn each(outcome: Fallible<Result<Vec<Answer>, StoreError>>, group: usize) -> Vec<Answer> {
    let answers = outcome
        .map_err(StoreError::from)
        .and_then(|answers| answers);
    answers.unwrap_or_else(|error| vec![Err(error); group])
}

async fn append(
    db: &Db,
    clock: &Clock,
    group: &[&Prepared],
) -> Result<Result<Vec<Answer>, StoreError>, Fault> {
    let arrays = Arrays::new(clock.at(), db.origin, group);
    let rows = db.rows(&group::CALL, &arrays.params()).await?;
    let read = || {
        let row = rows
            .first()
            .ok_or_else(|| corrupt("an append has no answer"))?;
        let now = Timestamp(column(row, "t")?);
        let verdicts: Vec<&str> = column(row, "verdicts")?;
        let positions: Vec<Option<i64>> = column(row, "positions")?;
        clock.saw(now);
        let answers = group.iter().zip(verdicts.into_iter().zip(positions));
        Ok(answers
            .map(|(append, (verdict, position))| {
                verdict_of(verdict, &arrays)?;
                let position = position.and_then(|position| u64::try_from(position).ok());
                let position = position.ok_or_else(|| corrupt("an event has no position"))?;
                Ok(Appended {
                    position: Position(position),
                    lease: append.taken(now),
                })
            })
            .collect())
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
