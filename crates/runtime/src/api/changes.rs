//! Following the lists of runs: which of them have changed.

use std::collections::BTreeSet;
use std::time::Duration;

use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::hints::Changed;

/// How long changes gather before they are reported, so that a busy run is one change.
const GATHER: Duration = Duration::from_millis(20);
/// The most runs of one report.
const MAX_RUNS: usize = 100;

/// Changes of the runs that a caller may see.
pub struct RunChanges {
    api: Api,
    who: Principal,
    changes: Receiver<Changed>,
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
    /// A missing scope.
    pub fn follow_runs(&self, who: &Principal) -> Result<RunChanges, ApiError> {
        authorise(who, Action::ReadRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        Ok(RunChanges {
            api: self.clone(),
            who: who.clone(),
            changes: self.door().hints().changes(),
        })
    }
}

impl RunChanges {
    /// The next changes. Cancelling the wait loses at most one report.
    pub async fn next(&mut self) -> ChangedRuns {
        let mut found = ChangedRuns::default();
        let first = self.changes.recv().await;
        tokio::time::sleep(GATHER).await;
        let mut seen = BTreeSet::new();
        let mut next = match first {
            Ok(changed) => Some(changed),
            Err(RecvError::Lagged(_)) => {
                found.has_more = true;
                None
            }
            // The sender lives as long as the engine.
            Err(RecvError::Closed) => return found,
        };
        loop {
            if let Some(changed) = next.take()
                && seen.insert(changed.stream.clone())
                && found.runs.len() < MAX_RUNS
                && self.is_visible(&changed).await
            {
                found.runs.insert(changed.stream);
            }
            found.has_more |= seen.len() > MAX_RUNS;
            next = match self.changes.try_recv() {
                Ok(changed) => Some(changed),
                Err(TryRecvError::Lagged(_)) => {
                    found.has_more = true;
                    None
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return found,
            };
        }
    }

    async fn is_visible(&self, changed: &Changed) -> bool {
        let may = |resource| authorise(&self.who, Action::ReadRun, &resource).is_ok();
        if let Some(owner) = &changed.owner {
            return may(Resource::run(owner, &changed.stream));
        }
        match self.api.door().store().load_head(&changed.stream).await {
            Ok(head) => {
                matches!(head.header.kind, StreamKind::Run | StreamKind::Document)
                    && may(Resource::run(&head.header.owner, &changed.stream))
            }
            // Erased: it is gone from the lists.
            Err(_) => false,
        }
    }
}
