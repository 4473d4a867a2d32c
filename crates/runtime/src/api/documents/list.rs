//! Listing documents.

use kernel::document::{GATE_MARK, PARENT_MARK};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use store::{ListCursor, ListQuery, Listed};

use super::super::{Api, ApiError};
use super::permit;
use crate::access::{Action, Principal};

/// Rows looked at for one page. A page that found less says where to go on.
const MAX_SCAN: usize = 20_000;
/// Rows read at a time.
const CHUNK: usize = 512;

/// Which documents to list. Everything given must match.
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
    /// Only runs in which a gate waits.
    pub with_gates: bool,
    /// Only runs that began at or after this time.
    pub from: Option<Timestamp>,
    /// Only runs that began before this time.
    pub until: Option<Timestamp>,
    /// Only runs whose id, workflow, title or tags have this text, in letters of either case.
    pub text: Option<String>,
    /// Behind this row of an earlier page.
    pub after: Option<ListCursor>,
    /// At most so many.
    pub limit: usize,
}

/// A page of documents, the latest begun first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPage {
    /// The rows.
    pub rows: Vec<Listed>,
    /// Where the next page begins, if there may be one.
    pub next: Option<ListCursor>,
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
        let text = filter.text.as_deref().map(str::to_lowercase);
        // A store filters by one tag: the rarest.
        let gate = filter.with_gates.then(|| GATE_MARK.to_owned());
        let parent = filter.parent.map(|id| format!("{PARENT_MARK}{id}"));
        let wanted: Vec<String> = [parent, gate, filter.tag].into_iter().flatten().collect();
        let mut query = ListQuery {
            tenant: Some(owner.tenant.clone()),
            workspace: owner.workspace.clone(),
            kind: Some(StreamKind::Document),
            subject: filter.workflow,
            statuses: filter.statuses,
            tag: wanted.first().cloned(),
            after: later(filter.after, filter.until),
            ..ListQuery::default()
        };
        let fits = |row: &Listed| {
            row.index.workspace == owner.workspace
                && wanted.iter().all(|tag| row.index.tags.contains(tag))
                && text.as_ref().is_none_or(|text| has_text(row, text))
        };
        let (mut rows, mut seen) = (Vec::new(), 0);
        loop {
            // One more tells whether there are more.
            query.limit = (filter.limit + 1 - rows.len()).clamp(1, CHUNK);
            if text.is_some() || wanted.len() > 1 {
                query.limit = CHUNK;
            }
            let chunk = self.door().store().list(query.clone()).await?;
            let is_last = chunk.len() < query.limit;
            seen += chunk.len();
            query.after = chunk.last().map(place).or(query.after);
            for row in chunk {
                if filter.from.is_some_and(|from| row.index.created_at < from) {
                    return Ok(DocumentPage { rows, next: None });
                }
                if !fits(&row) {
                    continue;
                }
                if rows.len() == filter.limit {
                    let next = rows.last().map(place);
                    return Ok(DocumentPage { rows, next });
                }
                rows.push(row);
            }
            if is_last {
                return Ok(DocumentPage { rows, next: None });
            }
            if seen >= MAX_SCAN {
                let next = query.after;
                return Ok(DocumentPage { rows, next });
            }
        }
    }
}

fn place(row: &Listed) -> ListCursor {
    ListCursor {
        created_at: row.index.created_at,
        stream: row.stream.clone(),
    }
}

/// Of two places in a list the one further down.
fn later(after: Option<ListCursor>, until: Option<Timestamp>) -> Option<ListCursor> {
    // Before every stream of its time: a list goes down by id.
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
    let tags = row
        .index
        .tags
        .iter()
        .filter(|tag| !tag.starts_with('\u{1}'));
    own.chain([row.index.subject.as_str()])
        .chain(tags.map(String::as_str))
        .any(|found| found.to_lowercase().contains(text))
}
