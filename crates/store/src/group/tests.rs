use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::Conflict;

const REFUSED: StoreError = StoreError::Conflict(Conflict::Sequence);

/// A database that records rows, and fails on request.
#[derive(Clone, Default)]
struct Script {
    durable: Arc<Mutex<Vec<Vec<u32>>>>,
    open: Arc<Mutex<Vec<u32>>>,
    changes: Arc<AtomicU64>,
    commits_that_fail: Arc<AtomicU64>,
}

impl Script {
    fn write(&self, row: u32) {
        self.open.lock().unwrap().push(row);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn durable(&self) -> Vec<Vec<u32>> {
        self.durable.lock().unwrap().clone()
    }
}

fn broken() -> StoreError {
    StoreError::Unavailable("broken".into())
}

impl Transactions for Script {
    fn begin(&self) -> Result<(), StoreError> {
        assert!(self.open.lock().unwrap().is_empty(), "one at a time");
        Ok(())
    }

    fn begin_reading(&self) -> Result<(), StoreError> {
        self.begin()
    }

    fn commit(&self) -> Result<(), StoreError> {
        let fails = &self.commits_that_fail;
        if fails
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .is_ok()
        {
            return Err(broken());
        }
        let rows = std::mem::take(&mut *self.open.lock().unwrap());
        if !rows.is_empty() {
            self.durable.lock().unwrap().push(rows);
        }
        Ok(())
    }

    fn rollback(&self) {
        self.open.lock().unwrap().clear();
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }
}

type Answer = Result<u32, StoreError>;
type Work = Box<dyn Fn(&Script) -> Answer + Send>;

fn writes(row: u32) -> Work {
    Box::new(move |script| {
        script.write(row);
        Ok(row)
    })
}

fn refuses() -> Work {
    Box::new(|_| Err(REFUSED))
}

/// Refuses after it has written.
fn refuses_late(row: u32) -> Work {
    Box::new(move |script| {
        script.write(row);
        Err(REFUSED)
    })
}

fn breaks(row: u32) -> Work {
    Box::new(move |script| {
        script.write(row);
        Err(broken())
    })
}

/// Submits jobs while the writer is busy with one that is refused, so that all of them make one
/// group. Commits fail from then on.
async fn as_group(script: &Script, failing_commits: u64, jobs: Vec<Work>) -> Vec<Answer> {
    let group = Arc::new(GroupCommit::start(script.clone()).unwrap());
    let (gate, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let first: Work = Box::new(move |_| {
        // Returns when the gate is dropped.
        let _ = wait.lock().unwrap().recv();
        Err(REFUSED)
    });
    let mut waiting = Vec::new();
    for work in std::iter::once(first).chain(jobs) {
        let group = Arc::clone(&group);
        let submitted = tokio::spawn(async move { group.submit(0, work).await });
        // On this one thread the task now runs until it waits for its answer.
        tokio::task::yield_now().await;
        waiting.push(submitted);
    }
    let fails = &script.commits_that_fail;
    fails.store(failing_commits, Ordering::SeqCst);
    drop(gate);
    let mut answers = Vec::new();
    for task in waiting {
        answers.push(task.await.unwrap());
    }
    answers.split_off(1)
}

#[tokio::test]
async fn waiting_writes_share_one_transaction_in_order() {
    let script = Script::default();
    let answers = as_group(&script, 0, vec![writes(1), writes(2), writes(3)]).await;
    assert_eq!(answers, [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(script.durable(), [[1, 2, 3]]);
}

#[tokio::test]
async fn a_refusal_leaves_its_neighbours_in_their_transaction() {
    let script = Script::default();
    let answers = as_group(&script, 0, vec![writes(1), refuses(), writes(2)]).await;
    assert_eq!(answers, [Ok(1), Err(REFUSED), Ok(2)]);
    assert_eq!(script.durable(), [[1, 2]]);
}

#[tokio::test]
async fn a_job_that_breaks_is_undone_and_the_others_are_made_alone() {
    for (bad, error) in [(breaks(9), broken()), (refuses_late(9), REFUSED)] {
        let script = Script::default();
        let answers = as_group(&script, 0, vec![writes(1), bad, writes(2)]).await;
        assert_eq!(answers, [Ok(1), Err(error), Ok(2)]);
        assert_eq!(script.durable(), [[1], [2]]);
    }
}

#[tokio::test]
async fn without_its_commit_nothing_is_acknowledged_or_refused() {
    let script = Script::default();
    let answers = as_group(&script, 1, vec![writes(1), refuses(), writes(2)]).await;
    assert_eq!(answers, [Err(broken()), Err(broken()), Err(broken())]);
    assert_eq!(script.durable(), Vec::<Vec<u32>>::new());
}

#[tokio::test]
async fn the_writer_continues_after_a_failed_commit() {
    let script = Script::default();
    assert_eq!(as_group(&script, 1, vec![writes(1)]).await, [Err(broken())]);
    assert_eq!(as_group(&script, 0, vec![writes(2)]).await, [Ok(2)]);
    assert_eq!(script.durable(), [[2]]);
}

#[tokio::test]
async fn a_group_is_bounded_in_jobs() {
    let script = Script::default();
    let many = u32::try_from(2 * GROUP_JOBS).unwrap();
    let answers = as_group(&script, 0, (0..many).map(writes).collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    let groups = script.durable();
    // The refused job that kept the writer busy was in the first group.
    assert_eq!(groups[0].len(), GROUP_JOBS - 1);
    assert_eq!(groups.concat(), (0..many).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_write_of_a_cancelled_caller_is_kept() {
    let script = Script::default();
    let group = GroupCommit::start(script.clone()).unwrap();
    tokio::select! {
        biased;
        _ = group.submit(0, writes(1)) => {}
        () = std::future::ready(()) => {}
    }
    assert_eq!(group.submit(0, writes(2)).await, Ok(2));
    drop(group);
    assert_eq!(script.durable().concat(), [1, 2]);
}
