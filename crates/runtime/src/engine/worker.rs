//! The worker: due, claim, drive.

use std::time::Duration;

use store::{DueQuery, StoreError};

use crate::engine::Engine;

/// Takes runs from the queue while there is capacity.
pub(crate) async fn work(engine: Engine) {
    let drain = engine.inner.shutdown.drain.clone();
    while !drain.is_cancelled() {
        let wait = match take_due(&engine).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(%error, "no run could be claimed");
                engine.note_write::<()>(Err(&error));
                engine.inner.options.poll
            }
        };
        tokio::select! {
            biased;
            () = drain.cancelled() => {}
            () = engine.inner.door.hints().wait_queue() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// One poll of the queue; returns the delay until the next.
async fn take_due(engine: &Engine) -> Result<Duration, StoreError> {
    let inner = &engine.inner;
    let free = inner.runs.available_permits();
    if free == 0 {
        // The end of a run gives a hint.
        return Ok(inner.options.poll);
    }
    let store = inner.door.store();
    let query = DueQuery {
        queue: inner.options.queue.clone(),
        limit: free.min(64),
    };
    let due = store.due(query).await?;
    let mut taken = 0;
    for due in &due.ready {
        if engine.is_driven(&due.stream) || !engine.takes(&due.stream) {
            continue;
        }
        let Ok(slot) = inner.runs.clone().try_acquire_owned() else {
            break;
        };
        let lease = match store
            .claim(&due.stream, &inner.options.holder, inner.options.lease_ttl)
            .await
        {
            Ok(lease) => lease,
            // Another worker won the race, or the run is gone.
            Err(StoreError::Conflict(_) | StoreError::Missing) => continue,
            Err(error) => return Err(error),
        };
        taken += 1;
        engine.note_write(Ok(()));
        match inner.door.load(&due.stream).await {
            Ok(run) if run.newer_engine().is_some() => {
                // Held until the lease expires: an engine that knows its rules may come.
                tracing::error!(run = %due.stream, "a newer engine wrote the run; it is not driven");
            }
            Ok(run) if engine.can_drive(&lease) => engine.drive(run, lease, &[], Some(slot)),
            Ok(_) => {
                tracing::warn!(run = %due.stream, "the store answers too slowly to drive a run");
                store.release(&lease).await?;
            }
            Err(error) => {
                // Held until the lease expires, so that an unreadable log is not retried in a tight
                // loop.
                tracing::error!(run = %due.stream, %error, "a run cannot be driven");
            }
        }
    }
    if taken > 0 {
        return Ok(Duration::ZERO);
    }
    let until_next = due
        .next_at
        .map(|at| Duration::from_millis(at.ms_since(store.now())));
    Ok(until_next.map_or(inner.options.poll, |wait| wait.min(inner.options.poll)))
}
