//! Listing documents.

use std::sync::Arc;

use kernel::document::{GATE_MARK, PARENT_MARK, is_mark};
use kernel::stream::{Owner, StreamKind};
use kernel::time::Timestamp;
use serde_json::Value;
use store::{ListCursor, ListQuery, Listed, StoreError};

use super::super::{Api, ApiError};
use super::permit;
use crate::access::{Action, Principal};

/// Rows scanned for one page. A page that found fewer has a cursor to continue.
const MAX_SCAN: usize = 20_000;
/// Documents, and their bytes, read for one page to search their events. A page that found fewer
/// has a cursor to continue.
const MAX_READ: usize = 2_000;
const MAX_READ_BYTES: usize = 64 << 20;
/// Rows read at a time.
const CHUNK: usize = 512;

/// A filter of documents. All given conditions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    /// Only these statuses; empty means all.
    pub statuses: Vec<String>,
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only children of this run.
    pub parent: Option<String>,
    /// Only runs with a waiting gate.
    pub with_gates: bool,
    /// Only runs that began at or after this time.
    pub from: Option<Timestamp>,
    /// Only runs that began before this time.
    pub until: Option<Timestamp>,
    /// Only runs whose id, workflow, title or tags contain this text, ignoring case.
    pub text: Option<String>,
    /// Only runs with an event that contains this text, ignoring case.
    pub in_events: Option<String>,
    /// Rows after this one of an earlier page.
    pub after: Option<ListCursor>,
    /// The most rows to return.
    pub limit: usize,
}

/// A page of documents, the latest begun first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPage {
    /// The rows.
    pub rows: Vec<Listed>,
    /// Where the next page begins, if there may be one.
    pub next: Option<ListCursor>,
    /// How many rows of the store were read for this page.
    pub scanned: usize,
}

impl Api {
    /// Lists the documents of the caller's tenant and workspace.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn documents(
        &self,
        who: &Principal,
        filter: DocumentFilter,
    ) -> Result<DocumentPage, ApiError> {
        let owner = permit(who, Action::ReadRun)?;
        Ok(self.documents_of(&owner, filter).await?)
    }

    /// Lists the documents of an owner.
    pub(super) async fn documents_of(
        &self,
        owner: &Owner,
        filter: DocumentFilter,
    ) -> Result<DocumentPage, StoreError> {
        let text = filter.text.as_deref().map(str::to_lowercase);
        // A store filters by one mark: use the rarer one.
        let gate = filter.with_gates.then(|| GATE_MARK.to_owned());
        let parent = filter.parent.map(|id| format!("{PARENT_MARK}{id}"));
        let mark = parent.clone().or(gate.clone());
        let is_in_store = filter.tag.is_none() && (parent.is_none() || gate.is_none());
        let wanted: Vec<String> = [parent, gate, filter.tag].into_iter().flatten().collect();
        let mut query = ListQuery {
            tenant: Some(owner.tenant.clone()),
            workspace: owner.workspace.clone(),
            kind: Some(StreamKind::Document),
            subject: filter.workflow,
            statuses: filter.statuses,
            tag: mark,
            after: later(filter.after, filter.until),
            ..ListQuery::default()
        };
        let fits = |row: &Listed| {
            row.index.workspace == owner.workspace
                && wanted.iter().all(|tag| row.index.tags.contains(tag))
                && text.as_ref().is_none_or(|text| has_text(row, text))
        };
        let mut events = InEvents::new(filter.in_events.as_deref());
        let (mut rows, mut scanned) = (Vec::new(), 0);
        loop {
            // One extra row shows whether there are more.
            query.limit = (filter.limit + 1 - rows.len()).clamp(1, CHUNK);
            if text.is_some() || events.is_some() || !is_in_store {
                query.limit = CHUNK;
            }
            let chunk = self.door().store().list(query.clone()).await?;
            let is_last = chunk.len() < query.limit;
            scanned += chunk.len();
            query.after = chunk.last().map(ListCursor::after).or(query.after);
            for row in chunk {
                if filter.from.is_some_and(|from| row.index.created_at < from) {
                    return Ok(page(rows, None, scanned));
                }
                if !fits(&row) {
                    continue;
                }
                if rows.len() == filter.limit {
                    let next = rows.last().map(ListCursor::after);
                    return Ok(page(rows, next, scanned));
                }
                let Some(events) = &mut events else {
                    rows.push(row);
                    continue;
                };
                let here = ListCursor::after(&row);
                if self.has_in_events(owner, &row, events).await? {
                    rows.push(row);
                }
                if events.is_spent() {
                    let next = Some(here);
                    return Ok(page(rows, next, scanned));
                }
            }
            if is_last {
                return Ok(page(rows, None, scanned));
            }
            if scanned >= MAX_SCAN {
                let next = query.after;
                return Ok(page(rows, next, scanned));
            }
        }
    }
}

fn page(rows: Vec<Listed>, next: Option<ListCursor>, scanned: usize) -> DocumentPage {
    DocumentPage {
        rows,
        next,
        scanned,
    }
}

/// A text to search events for, and how much was read for it.
struct InEvents {
    text: String,
    documents: usize,
    bytes: usize,
}

impl InEvents {
    fn new(text: Option<&str>) -> Option<Self> {
        text.map(|text| Self {
            text: text.to_lowercase(),
            documents: 0,
            bytes: 0,
        })
    }

    fn is_spent(&self) -> bool {
        self.documents >= MAX_READ || self.bytes >= MAX_READ_BYTES
    }

    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => text.to_lowercase().contains(&self.text),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(members) => members.values().any(|member| self.is_in(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

impl Api {
    async fn has_in_events(
        &self,
        owner: &Owner,
        row: &Listed,
        events: &mut InEvents,
    ) -> Result<bool, StoreError> {
        // The cached document may briefly lag the row, as the row may lag the log.
        let id = row.index.summary["id"].as_str().unwrap_or_default();
        let known = self.documents.peek(owner, id);
        let known = known.filter(|known| known.document.header().stream == row.stream);
        let document = match known {
            Some(known) => known.document,
            None => match self.door().document(&row.stream).await {
                Ok(standing) => Arc::new(standing.document),
                // Deleted since it was listed.
                Err(StoreError::Missing) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        events.documents += 1;
        let text = document.canonical();
        events.bytes += text.map_or(0, |text| text.as_ref().len());
        let mut trace = document.head().into_iter().flat_map(|head| &head.trace);
        Ok(trace.any(|event| events.is_in(event)))
    }
}

/// The later of two positions in a list.
pub(in crate::api) fn later(
    after: Option<ListCursor>,
    until: Option<Timestamp>,
) -> Option<ListCursor> {
    // The position before every stream of that time: lists descend by id.
    let until = until.map(|at| ListCursor {
        created_at: at,
        stream: "".into(),
    });
    match (after, until) {
        (Some(after), Some(until)) if after.created_at < until.created_at => Some(after),
        (after, None) => after,
        (_, until) => until,
    }
}

fn has_text(row: &Listed, text: &str) -> bool {
    let summary = &row.index.summary;
    let own = ["id", "title"]
        .into_iter()
        .filter_map(|name| summary[name].as_str());
    let tags = row.index.tags.iter().filter(|tag| !is_mark(tag));
    own.chain([row.index.subject.as_str()])
        .chain(tags.map(String::as_str))
        .any(|found| found.to_lowercase().contains(text))
}
