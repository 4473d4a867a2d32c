//! Listing runs.

use kernel::ids::StreamId;
use kernel::stream::StreamKind;
use store::{ListCursor, ListQuery, Listed};

use super::error::Thing;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};

/// Which runs to list. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// Only these statuses; empty means all.
    pub statuses: Vec<String>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only children of this run.
    pub parent: Option<StreamId>,
    /// Behind this row of an earlier page.
    pub after: Option<ListCursor>,
    /// At most so many.
    pub limit: usize,
}

/// A page of runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The rows.
    pub runs: Vec<Listed>,
    /// Where the next page begins, if there is one.
    pub next: Option<ListCursor>,
}

impl Api {
    /// Lists the runs the caller may see.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn runs(&self, who: &Principal, filter: RunFilter) -> Result<RunPage, ApiError> {
        authorise(who, Action::ReadRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, Thing::Run))?;
        let limit = filter.limit;
        let query = ListQuery {
            tenant: Some(who.tenant.clone()),
            workspace: who.workspace.clone(),
            kind: Some(StreamKind::Run),
            subject: filter.workflow,
            statuses: filter.statuses,
            tag: filter.tag,
            parent: filter.parent,
            after: filter.after,
            // One more tells whether there are more.
            limit: limit.saturating_add(1),
        };
        let mut runs = self.door().store().list(query).await?;
        let has_more = runs.len() > limit;
        runs.truncate(limit);
        let last = runs.last().filter(|_| has_more);
        let next = last.map(|row| ListCursor {
            created_at: row.index.created_at,
            stream: row.stream.clone(),
        });
        Ok(RunPage { runs, next })
    }
}
