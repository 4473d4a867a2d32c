//! Erasing runs: a run entirely or not at all, together with the runs it started.
//!
//! A crash may follow any step. Data outside the store (the files of attempts) goes first, then the
//! annotations, then the run itself, in one transaction that leaves its tombstone. Children go
//! before the run that names them. So after a crash the rest of an erasure can still be named, and
//! the next one completes it.

use kernel::ids::StreamId;
use kernel::notes::Notes;
use kernel::run::{FORKING, Run};
use store::{Listed, StoreError};

use crate::door::Door;
use crate::supervisor::Supervisor;

/// Why a run was not erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// Its files could not be removed.
    #[error("the files of run {run} cannot be removed: {error}")]
    Files {
        /// The run.
        run: StreamId,
        /// The error.
        error: std::io::Error,
    },
    /// A store error. `Conflict` if the run has a holder.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run and the runs it started, each after its parent. Children named in a fork's copied events
/// are its source's and are excluded.
///
/// # Errors
/// The store's; `Missing` for an unknown root.
pub async fn family(door: &Door, root: &StreamId) -> Result<Vec<Run>, StoreError> {
    let mut family: Vec<Run> = Vec::new();
    let mut todo = vec![(root.clone(), None)];
    while let Some((stream, parent)) = todo.pop() {
        if family.iter().any(|run| run.header.stream == stream) {
            continue;
        }
        let run = match door.load(&stream).await {
            Ok(run) => run,
            // Erased before, or never created.
            Err(StoreError::Missing) if stream != *root => continue,
            Err(error) => return Err(error),
        };
        let started_by = run.header.parent.as_ref().map(|parent| &parent.run);
        if parent.is_some() && started_by != parent.as_ref() {
            continue;
        }
        todo.extend(
            run.facts()
                .into_iter()
                .flat_map(|facts| facts.children.keys())
                .map(|child| (child.clone(), Some(stream.clone()))),
        );
        family.push(run);
    }
    Ok(family)
}

/// Whether a run has ended, or is a fork that was cut off.
pub fn is_over(run: &Run) -> bool {
    run.is_settled() || run.is_forking()
}

/// Whether a list row is a fork in the making.
pub fn is_forking(row: &Listed) -> bool {
    row.index.summary.get(FORKING).is_some()
}

/// Erases a run with everything it left. Idempotent.
///
/// # Errors
/// See [`EraseError`]; the run can still be named then.
pub async fn erase(
    door: &Door,
    supervisor: &Supervisor,
    run: &StreamId,
    reason: &str,
) -> Result<(), EraseError> {
    let files = supervisor.forget(run);
    files.map_err(|error| EraseError::Files {
        run: run.clone(),
        error,
    })?;
    let notes = Notes::stream(run);
    let forget_notes = || async {
        match door.store().purge(&notes, reason).await {
            Ok(_) | Err(StoreError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    };
    forget_notes().await?;
    door.store().purge(run, reason).await?;
    // Again, for annotations made between the two: the run still existed.
    forget_notes().await?;
    Ok(())
}
