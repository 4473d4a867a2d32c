//! Maintenance of the store: runs past their retention are erased, forks that were cut off are
//! removed, and the store does its own housekeeping.
//!
//! Rounds keep no state: the work follows from the store and the clock, so the next round makes up
//! for one that a crash ended.

use kernel::run::RunStatus;
use std::time::Duration;

use kernel::audit::Actor;
use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{Conflict, ListCursor, ListQuery, Listed, StoreError};

use crate::access::trail;
use crate::door::CUT_OFF;
use crate::engine::Engine;
use crate::erase::{self, EraseError};
use crate::holder;

/// Rows read at a time.
const PAGE: usize = 256;
/// The longest interval of rounds.
const SELDOM: Duration = Duration::from_secs(15 * 60);
/// The shortest interval.
const OFTEN: Duration = Duration::from_secs(1);
/// The reason in the tombstone of an expired run.
pub(crate) const OVER: &str = "its retention is over";

/// The maintenance settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// The retention of a run after its end; unlimited if `None`.
    pub retain_finished: Option<Duration>,
}

impl Maintenance {
    /// The interval of rounds.
    fn every(&self) -> Duration {
        let part = self.retain_finished.map(|kept| kept / 8);
        part.map_or(SELDOM, |part| part.clamp(OFTEN, SELDOM))
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Expired runs.
    pub expired: usize,
    /// Forks that were cut off.
    pub cut_off: usize,
}

/// Runs rounds while the engine runs.
pub(crate) async fn keep(engine: Engine, maintenance: Maintenance) {
    let drain = engine.inner.shutdown.drain.clone();
    while !drain.is_cancelled() {
        match round(&engine, maintenance).await {
            Ok(Cleared {
                expired: 0,
                cut_off: 0,
            }) => {}
            Ok(cleared) => tracing::info!(
                expired = cleared.expired,
                cut_off = cleared.cut_off,
                "runs were erased"
            ),
            Err(error) => tracing::warn!(%error, "store maintenance failed; trying again"),
        }
        tokio::select! {
            biased;
            () = drain.cancelled() => {}
            () = tokio::time::sleep(maintenance.every()) => {}
        }
    }
}

/// One round. A run that cannot be erased now does not block others.
///
/// # Errors
/// The store's.
pub async fn round(engine: &Engine, maintenance: Maintenance) -> Result<Cleared, StoreError> {
    let mut cleared = Cleared::default();
    if let Some(kept) = maintenance.retain_finished {
        cleared.expired = erase_expired(engine, kept).await?;
    }
    cleared.cut_off = erase_cut_off(engine).await?;
    while engine.inner.door.store().maintain().await? {}
    Ok(cleared)
}

/// Erases the runs past their retention.
async fn erase_expired(engine: &Engine, kept: Duration) -> Result<usize, StoreError> {
    let now = engine.inner.door.store().now();
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let boundary = Timestamp(now.0.saturating_sub(kept));
    // Runs that ended before the boundary also began before it.
    let mut rows = Rows::new(ListQuery {
        kind: Some(StreamKind::Run),
        statuses: ["completed", "failed", "cancelled"]
            .map(str::to_owned)
            .into(),
        after: Some(ListCursor {
            created_at: boundary.plus_ms(1),
            stream: StreamId::new(""),
        }),
        ..ListQuery::default()
    });
    let mut erased = 0;
    while let Some(page) = rows.next(engine).await? {
        for row in page {
            let is_due = row.index.settled && row.index.updated_at <= boundary;
            if is_due && !goes_with_its_parent(engine, &row).await? {
                erased += erase_family(engine, &row.stream, boundary).await?;
            }
        }
    }
    Ok(erased)
}

/// A child is erased with its parent, however long that takes.
async fn goes_with_its_parent(engine: &Engine, row: &Listed) -> Result<bool, StoreError> {
    let Some(parent) = &row.index.parent else {
        return Ok(false);
    };
    let store = engine.inner.door.store();
    match store.load_head(parent).await {
        Ok(_) => Ok(true),
        Err(StoreError::Missing) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The result of ending a run's retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Erased, with the runs it started.
    Erased,
    /// The run or one of its children has not ended, or has a holder.
    Active,
}

/// Erases a run that has ended, and those it started. The trail records for each of them who
/// requested it.
///
/// # Errors
/// The store's; `Missing` for an unknown run.
pub async fn expire(
    engine: &Engine,
    run: &StreamId,
    by: &Actor,
    reason: &str,
) -> Result<Expired, StoreError> {
    let family = erase::family(&engine.inner.door, run).await?;
    if !family.iter().all(erase::is_over) {
        return Ok(Expired::Active);
    }
    for run in family.iter().rev() {
        let store = engine.inner.door.store();
        trail::record_purge(&**store, &run.header, by.clone()).await?;
        engine.inner.door.hints().audit(false);
        if !erase_one(engine, &run.header.stream, reason).await? {
            return Ok(Expired::Active);
        }
    }
    Ok(Expired::Erased)
}

async fn erase_family(
    engine: &Engine,
    root: &StreamId,
    boundary: Timestamp,
) -> Result<usize, StoreError> {
    let door = &engine.inner.door;
    let family = match erase::family(door, root).await {
        Ok(family) => family,
        // Another engine was faster.
        Err(StoreError::Missing) => return Ok(0),
        // An unreadable run is not erased: an operator must look at it.
        Err(StoreError::Corrupt(what)) => {
            tracing::error!(run = %root, %what, "a run that expired cannot be read");
            return Ok(0);
        }
        Err(error) => return Err(error),
    };
    let is_due = |run: &kernel::run::Run| erase::is_over(run) && run.head.at <= boundary;
    if !family.iter().all(is_due) {
        return Ok(0);
    }
    let mut erased = 0;
    for run in family.iter().rev() {
        if erase_one(engine, &run.header.stream, OVER).await? {
            erased += 1
        } else {
            // A child is erased before its parent, or neither is.
            break;
        }
    }
    Ok(erased)
}

/// Erases forks in the making whose lease has expired.
async fn erase_cut_off(engine: &Engine) -> Result<usize, StoreError> {
    let store = engine.inner.door.store();
    let mut rows = Rows::new(ListQuery {
        kind: Some(StreamKind::Run),
        statuses: RunStatus::ACTIVE.map(|status| status.to_string()).into(),
        ..ListQuery::default()
    });
    let mut erased = 0;
    while let Some(page) = rows.next(engine).await? {
        for row in page.iter().filter(|row| erase::is_forking(row)) {
            let forking = &row.stream;
            match holder::release_if_dead(&**store, forking).await {
                Ok(()) => {}
                Err(StoreError::Missing) => continue,
                Err(error) => return Err(error),
            }
            erased += usize::from(erase_one(engine, forking, CUT_OFF).await?);
        }
    }
    Ok(erased)
}

/// Returns whether the run is gone.
async fn erase_one(engine: &Engine, run: &StreamId, reason: &str) -> Result<bool, StoreError> {
    let (door, supervisor) = (&engine.inner.door, &engine.inner.ports.supervisor);
    match erase::erase(door, supervisor, run, reason).await {
        Ok(()) => Ok(true),
        // Another process holds it.
        Err(EraseError::Store(StoreError::Conflict(Conflict::Held))) => Ok(false),
        Err(EraseError::Store(StoreError::Missing)) => Ok(true),
        Err(EraseError::Store(error)) => Err(error),
        Err(error @ EraseError::Files { .. }) => {
            tracing::warn!(%error, "a run was not erased");
            Ok(false)
        }
    }
}

/// A list, read page by page.
pub(super) struct Rows {
    query: ListQuery,
    is_over: bool,
}

impl Rows {
    pub(super) fn new(query: ListQuery) -> Self {
        let query = ListQuery {
            limit: PAGE,
            ..query
        };
        Self {
            query,
            is_over: false,
        }
    }

    pub(super) async fn next(
        &mut self,
        engine: &Engine,
    ) -> Result<Option<Vec<Listed>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let page = engine.inner.door.store().list(self.query.clone()).await?;
        self.is_over = page.len() < PAGE;
        if let Some(last) = page.last() {
            self.query.after = Some(ListCursor {
                created_at: last.index.created_at,
                stream: last.stream.clone(),
            });
        }
        Ok(Some(page))
    }
}
