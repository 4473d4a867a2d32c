//! Listing runs: those that engines drive, and those of documents.

use kernel::document::{PARENT_MARK, is_mark, run_status};
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{ListCursor, ListQuery, Listed, ReadFrom, StoreError};

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};

/// Rows read at a time if the store cannot filter.
const CHUNK: usize = 512;
/// Rows scanned for one page. A page that found fewer has a cursor to continue.
const MAX_SCAN: usize = 20_000;

/// A filter of runs. All given conditions must match.
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
    /// Rows after this one of an earlier page.
    pub after: Option<ListCursor>,
    /// The most rows to return.
    pub limit: usize,
}

/// A page of runs, newest first. Rows of documents are of the kind `Document`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The rows.
    pub runs: Vec<Listed>,
    /// Where the next page begins, if there may be one.
    pub next: Option<ListCursor>,
}

/// Matching rows, and the last row that was scanned.
#[derive(Default)]
struct Found {
    rows: Vec<Listed>,
    cut: Option<ListCursor>,
}

/// The position of a row in a list.
pub(super) fn place(row: &Listed) -> ListCursor {
    ListCursor {
        created_at: row.index.created_at,
        stream: row.stream.clone(),
    }
}

impl Api {
    /// Lists the runs the caller may see. The run of a document is sorted by the time at which its
    /// client began it.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn runs(&self, who: &Principal, filter: RunFilter) -> Result<RunPage, ApiError> {
        authorise(who, Action::ReadRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        let limit = filter.limit;
        let mut found = Found::default();
        for query in self.queries(who, &filter).await? {
            found.add(self.matching(query, &filter).await?);
        }
        let Found { mut rows, cut } = found;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| has_more);
        let next = last.map(place).or(cut);
        Ok(RunPage { runs: rows, next })
    }

    /// Store queries that together cover every match and little else.
    async fn queries(
        &self,
        who: &Principal,
        filter: &RunFilter,
    ) -> Result<Vec<ListQuery>, ApiError> {
        let both = ListQuery {
            tenant: Some(who.tenant.clone()),
            workspace: who.workspace.clone(),
            subject: filter.workflow.clone(),
            tag: filter.tag.clone(),
            after: filter.after.clone(),
            // One extra row shows whether there are more.
            limit: filter.limit.saturating_add(1),
            ..ListQuery::default()
        };
        let runs = ListQuery {
            kind: Some(StreamKind::Run),
            statuses: filter.statuses.clone(),
            parent: filter.parent.clone(),
            ..both.clone()
        };
        // A document's row has its client's word for the status.
        let documents = ListQuery {
            kind: Some(StreamKind::Document),
            limit: CHUNK,
            ..both.clone()
        };
        Ok(match &filter.parent {
            None if filter.statuses.is_empty() => vec![both],
            None => vec![runs, documents],
            Some(parent) => match self.client_id(who, parent).await? {
                None => vec![runs],
                Some(parent) => {
                    let tag = Some(format!("{PARENT_MARK}{parent}"));
                    vec![ListQuery { tag, ..documents }]
                }
            },
        })
    }

    /// The matching rows of a query, at most one more than a page.
    async fn matching(
        &self,
        mut query: ListQuery,
        filter: &RunFilter,
    ) -> Result<Found, StoreError> {
        let (mut found, mut seen) = (Found::default(), 0);
        loop {
            let chunk = self.door().store().list(query.clone()).await?;
            let is_last = chunk.len() < query.limit;
            seen += chunk.len();
            query.after = chunk.last().map(place).or(query.after);
            let rows = chunk.into_iter();
            found.rows.extend(rows.filter(|row| filter.fits(row)));
            if is_last || found.rows.len() > filter.limit {
                return Ok(found);
            }
            if seen >= MAX_SCAN {
                found.cut = query.after;
                return Ok(found);
            }
        }
    }

    /// A document's name for its parent: the client's id of another document. `None` for a run that
    /// an engine drives.
    async fn client_id(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Option<String>, StoreError> {
        let end = ReadFrom::Seq(Seq::MAX);
        let loaded = match self.door().store().load(run, end, 0).await {
            Err(StoreError::Missing) => return Ok(Some(run.to_string())),
            loaded => loaded?,
        };
        let resource = Resource::run(&loaded.header.owner, run);
        let is_seen = authorise(who, Action::ReadRun, &resource).is_ok();
        let id = loaded.index.summary["id"].as_str();
        let id = id.filter(|_| is_seen && loaded.header.kind == StreamKind::Document);
        Ok(id.map(str::to_owned))
    }
}

impl RunFilter {
    /// Whether a row is a run and matches, for the conditions that a store may not check.
    fn fits(&self, row: &Listed) -> bool {
        let index = &row.index;
        let is_run = matches!(index.kind, StreamKind::Run | StreamKind::Document);
        let status = run_status(index);
        let tag = self.tag.as_ref();
        is_run
            && (self.statuses.is_empty() || self.statuses.iter().any(|it| it == status))
            && tag.is_none_or(|tag| !is_mark(tag) && index.tags.contains(tag))
    }
}

impl Found {
    /// Merges two sets of rows.
    fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.rows.sort_by(|a, b| key(b).cmp(&key(a)));
        let cuts = [self.cut.take(), other.cut];
        let cuts = cuts.into_iter().flatten();
        self.cut = cuts.max_by(|a, b| (a.created_at, &a.stream).cmp(&(b.created_at, &b.stream)));
        if let Some(cut) = &self.cut {
            self.rows
                .retain(|row| key(row) >= (cut.created_at, &cut.stream));
        }
    }
}

fn key(row: &Listed) -> (Timestamp, &StreamId) {
    (row.index.created_at, &row.stream)
}
