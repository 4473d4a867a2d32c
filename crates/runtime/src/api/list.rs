//! Listing runs: those that engines drive, and those of documents.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kernel::document::{PARENT_MARK, is_mark, run_status};
use kernel::ids::{Seq, StreamId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use serde_json::Value;
use store::{ListCursor, ListQuery, Listed, ReadFrom, StoreError};

use super::error::ResourceKind;
use super::{Api, ApiError, documents::later};
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
    /// Only runs created by this principal.
    pub principal: Option<String>,
    /// Only runs whose metadata has these members, compared as text.
    pub attributes: Vec<(String, String)>,
    /// Only runs whose id, workflow, creator, error, tags or metadata contain this text, ignoring
    /// case.
    pub text: Option<String>,
    /// Only runs created at this time or later.
    pub since: Option<Timestamp>,
    /// Only runs created before this time.
    pub until: Option<Timestamp>,
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
    /// How many rows of the store were read for this page.
    pub scanned: usize,
}

/// How many runs match a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Runs by status; statuses without a run are missing.
    pub by_status: BTreeMap<String, u64>,
    /// Whether every matching run is counted. Otherwise there are more.
    pub is_complete: bool,
}

/// Matching rows, and the last row that was scanned.
#[derive(Default)]
struct Found {
    rows: Vec<Listed>,
    cut: Option<ListCursor>,
    scanned: usize,
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
        let Found {
            mut rows,
            cut,
            scanned,
        } = found;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| has_more);
        let next = last.map(ListCursor::after).or(cut);
        Ok(RunPage {
            runs: rows,
            next,
            scanned,
        })
    }

    /// Counts the runs the caller may see, by status. The statuses, the limit and the cursor of the
    /// filter are ignored.
    ///
    /// # Errors
    /// As [`Api::runs`].
    pub async fn count_runs(
        &self,
        who: &Principal,
        filter: RunFilter,
    ) -> Result<RunCounts, ApiError> {
        authorise(who, Action::ReadRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        let is_in_store = filter.is_in_store();
        let filter = RunFilter {
            statuses: Vec::new(),
            limit: MAX_SCAN,
            after: None,
            ..filter
        };
        let mut counts = RunCounts {
            is_complete: true,
            ..RunCounts::default()
        };
        for query in self.queries(who, &filter).await? {
            if is_in_store && query.kind == Some(StreamKind::Run) {
                for (status, count) in self.door().store().count(query).await? {
                    *counts.by_status.entry(status).or_default() += count;
                }
                continue;
            }
            let query = ListQuery {
                limit: CHUNK,
                ..query
            };
            let found = self.matching(query, &filter).await?;
            counts.is_complete &= found.cut.is_none();
            for row in &found.rows {
                let status = run_status(&row.index).to_owned();
                *counts.by_status.entry(status).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Store queries that together cover every match. A store has an index for each, so that its
    /// cost depends on the rows that it returns; the other conditions are checked here.
    async fn queries(
        &self,
        who: &Principal,
        filter: &RunFilter,
    ) -> Result<Vec<ListQuery>, ApiError> {
        let runs = ListQuery {
            tenant: Some(who.tenant.clone()),
            workspace: who.workspace.clone(),
            kind: Some(StreamKind::Run),
            subject: filter.workflow.clone(),
            since: filter.since,
            parent: filter.parent.clone(),
            after: later(filter.after.clone(), filter.until),
            // One extra row shows whether there are more.
            limit: if filter.is_in_store() {
                filter.limit.saturating_add(1)
            } else {
                CHUNK
            },
            ..ListQuery::default()
        };
        // The index is for one status of a tenant; several would have to be sorted.
        let distinct: BTreeSet<&String> = filter.statuses.iter().collect();
        let distinct: Vec<String> = distinct.into_iter().cloned().collect();
        let statuses = match (&filter.parent, distinct.len()) {
            (_, 0) => vec![Vec::new()],
            (None, _) => distinct.into_iter().map(|status| vec![status]).collect(),
            (Some(_), _) => vec![distinct],
        };
        let by_status = statuses.into_iter().map(|statuses| ListQuery {
            statuses,
            ..runs.clone()
        });
        // A document's row has its client's word for the status.
        let documents = ListQuery {
            kind: Some(StreamKind::Document),
            parent: None,
            limit: if filter.statuses.is_empty() {
                runs.limit
            } else {
                CHUNK
            },
            ..runs.clone()
        };
        let Some(parent) = &filter.parent else {
            return Ok(by_status.chain([documents]).collect());
        };
        Ok(match self.client_id(who, parent).await? {
            None => by_status.collect(),
            Some(parent) => {
                let tag = Some(format!("{PARENT_MARK}{parent}"));
                vec![ListQuery { tag, ..documents }]
            }
        })
    }

    /// The matching rows of a query, at most one more than a page.
    async fn matching(
        &self,
        mut query: ListQuery,
        filter: &RunFilter,
    ) -> Result<Found, StoreError> {
        let mut found = Found::default();
        loop {
            let chunk = self.door().store().list(query.clone()).await?;
            let is_last = chunk.len() < query.limit;
            found.scanned += chunk.len();
            query.after = chunk.last().map(ListCursor::after).or(query.after);
            let rows = chunk.into_iter();
            found.rows.extend(rows.filter(|row| filter.fits(row)));
            if is_last || found.rows.len() > filter.limit {
                return Ok(found);
            }
            if found.scanned >= MAX_SCAN {
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
    /// Whether a store checks every condition for rows of engines' runs.
    fn is_in_store(&self) -> bool {
        self.text.is_none()
            && self.principal.is_none()
            && self.attributes.is_empty()
            && self.tag.is_none()
    }

    /// Whether a row is a run and matches, for the conditions that a store may not check.
    fn fits(&self, row: &Listed) -> bool {
        let index = &row.index;
        let is_run = matches!(index.kind, StreamKind::Run | StreamKind::Document);
        let status = run_status(index);
        let tag = self.tag.as_ref();
        is_run
            && (self.statuses.is_empty() || self.statuses.iter().any(|it| it == status))
            && tag.is_none_or(|tag| !is_mark(tag) && index.tags.contains(tag))
            && (self.principal.as_deref())
                .is_none_or(|wanted| index.summary["principal"].as_str() == Some(wanted))
            && (self.attributes.iter())
                .all(|(name, wanted)| shown(&index.summary["attributes"][name]) == *wanted)
            && (self.text.as_deref()).is_none_or(|text| has_text(row, &text.to_lowercase()))
    }
}

impl Found {
    /// Merges two sets of rows.
    fn add(&mut self, other: Self) {
        self.scanned += other.scanned;
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

/// A scalar as people write it.
fn shown(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// Whether a row has a text in lower case.
fn has_text(row: &Listed, text: &str) -> bool {
    let has = |found: &str| found.to_lowercase().contains(text);
    let (index, summary) = (&row.index, &row.index.summary);
    let words = ["principal", "error", "id", "title"];
    let attributes = summary["attributes"].as_object();
    has(row.stream.as_str())
        || has(&index.subject)
        || words
            .iter()
            .any(|word| summary[word].as_str().is_some_and(has))
        || (index.tags.iter()).any(|tag| !is_mark(tag) && has(tag))
        || (attributes.into_iter().flatten()).any(|(name, value)| has(name) || has(&shown(value)))
}

fn key(row: &Listed) -> (Timestamp, &StreamId) {
    (row.index.created_at, &row.stream)
}
