//! Following the lists of runs: which of them have changed.
//!
//! A follower keeps a position of the feed, so that it misses no change: hints only wake it. The
//! followers of a process share what was read of the feed last.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use kernel::ids::{StreamId, TenantId};
use kernel::stream::StreamKind;
use store::{Position, Store, StoreError};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};

/// How long changes gather before they are read, so that a busy run is one change.
const GATHER: Duration = Duration::from_millis(20);
/// How often the feed is read without a hint: hints may be lost.
const LOOK: Duration = Duration::from_secs(1);
/// Events read at a time.
const PAGE: usize = 256;
/// Pages read for one report. A follower with more to read skips to the end of the feed.
const MAX_PAGES: usize = 4;
/// The most runs of one report.
const MAX_RUNS: usize = 100;

/// Changes of the runs that a caller may see.
pub struct RunChanges {
    api: Api,
    who: Principal,
    /// Everything up to here was reported.
    position: Position,
    hints: watch::Receiver<u64>,
}

/// Runs that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRuns {
    /// The runs; empty if none of the changes is visible to the caller.
    pub runs: BTreeSet<StreamId>,
    /// Whether others may have changed, too.
    pub has_more: bool,
}

impl Api {
    /// Follows the runs that the caller may see, from now on.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn follow_runs(&self, who: &Principal) -> Result<RunChanges, ApiError> {
        authorise(who, Action::ReadRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        Ok(RunChanges {
            api: self.clone(),
            who: who.clone(),
            hints: self.door().hints().follow_feed(),
            position: self.door().store().feed_end().await?,
        })
    }
}

impl RunChanges {
    /// The next changes. A cancelled wait loses none of them.
    ///
    /// # Errors
    /// The store's; the next call reads the same changes again.
    pub async fn next(&mut self) -> Result<ChangedRuns, StoreError> {
        loop {
            let found = self.read().await?;
            if found.has_more || !found.runs.is_empty() {
                return Ok(found);
            }
            // Without a hint in time it reads all the same.
            let _ = tokio::time::timeout(LOOK, self.hints.changed()).await;
            tokio::time::sleep(GATHER).await;
        }
    }

    async fn read(&mut self) -> Result<ChangedRuns, StoreError> {
        // Marked before the read: a later append counts as a change.
        let hint = *self.hints.borrow_and_update();
        let store = self.api.door().store();
        let (mut found, mut streams) = (ChangedRuns::default(), BTreeSet::new());
        let (mut position, mut pages) = (self.position, 0);
        loop {
            let recent = self.api.recent_feed.after(&**store, position, hint).await?;
            let of_tenant = recent
                .events
                .into_iter()
                .filter(|(_, tenant)| *tenant == self.who.tenant);
            streams.extend(of_tenant.map(|(stream, _)| stream));
            found.has_more |= recent.has_gap;
            (position, pages) = (recent.end, pages + 1);
            if recent.is_last {
                break;
            }
            if pages == MAX_PAGES {
                found.has_more = true;
                position = store.feed_end().await?;
                break;
            }
        }
        found.has_more |= streams.len() > MAX_RUNS;
        for stream in streams.into_iter().take(MAX_RUNS) {
            if self.is_visible(&stream).await? {
                found.runs.insert(stream);
            }
        }
        // Last, so that a cancelled read is repeated.
        self.position = position;
        Ok(found)
    }

    async fn is_visible(&self, stream: &StreamId) -> Result<bool, StoreError> {
        match self.api.door().store().load_head(stream).await {
            Ok(head) => {
                let run = Resource::run(&head.header.owner, stream);
                Ok(
                    matches!(head.header.kind, StreamKind::Run | StreamKind::Document)
                        && authorise(&self.who, Action::ReadRun, &run).is_ok(),
                )
            }
            // Erased, or unreadable: the lists do not have it.
            Err(StoreError::Missing | StoreError::Corrupt(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The part of the feed that was read last, for all followers.
#[derive(Default)]
pub(super) struct RecentFeed(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    events: VecDeque<(Position, StreamId, TenantId)>,
    /// `events` has what follows this position, …
    from: Position,
    /// … up to this one.
    to: Position,
    /// The hint that preceded a read to the end of the feed, and its time.
    end: Option<(u64, Instant)>,
}

/// A part of the feed.
struct FeedPart {
    events: Vec<(StreamId, TenantId)>,
    /// Events between the requested position and the first event were dropped from memory.
    has_gap: bool,
    end: Position,
    /// Whether nothing followed when the hint was given.
    is_last: bool,
}

impl RecentFeed {
    /// The events after a position, as far as they were read, or else a page more.
    async fn after(
        &self,
        store: &dyn Store,
        position: Position,
        hint: u64,
    ) -> Result<FeedPart, StoreError> {
        let mut recent = self.0.lock().await;
        if position > recent.to {
            recent.catch_up(store, position, hint).await?;
        }
        if position == recent.to && !recent.is_at_end(hint) {
            recent.read(store, hint).await?;
        }
        let events = recent.events.iter().filter(|(at, ..)| *at > position);
        Ok(FeedPart {
            events: events
                .map(|(_, stream, tenant)| (stream.clone(), tenant.clone()))
                .collect(),
            has_gap: position < recent.from,
            end: recent.to,
            is_last: recent.is_at_end(hint),
        })
    }
}

impl Recent {
    fn is_at_end(&self, hint: u64) -> bool {
        self.end
            .is_some_and(|(seen, at)| seen >= hint && at.elapsed() < LOOK)
    }

    /// Reads up to a position. Begins there if it is too far, as after a time without followers.
    async fn catch_up(
        &mut self,
        store: &dyn Store,
        position: Position,
        hint: u64,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_PAGES {
            if self.to == Position::default() || self.to >= position {
                break;
            }
            self.read(store, hint).await?;
        }
        if self.to < position {
            *self = Self {
                from: position,
                to: position,
                ..Self::default()
            };
        }
        Ok(())
    }

    async fn read(&mut self, store: &dyn Store, hint: u64) -> Result<(), StoreError> {
        let page = store.feed(self.to, PAGE).await?;
        self.end = (page.len() < PAGE).then(|| (hint, Instant::now()));
        for event in page {
            self.to = event.position;
            self.events
                .push_back((event.position, event.stream, event.tenant));
        }
        while self.events.len() > MAX_PAGES * PAGE
            && let Some((position, ..)) = self.events.pop_front()
        {
            self.from = position;
        }
        Ok(())
    }
}
