//! The open questions of all runs of a tenant.

use std::sync::Arc;

use kernel::document::{Document, run_status};
use kernel::run::{InterruptKind, Run, RunStatus};
use kernel::stream::StreamKind;
use store::{ListCursor, Listed, StoreError};

use super::{Api, ApiError, RunFilter, RunPage};
use crate::access::Principal;

/// Rows of runs read at a time.
const ROWS: usize = 100;
/// Runs scanned for one page, whether or not they have questions.
const MAX_RUNS: usize = 1_000;

/// A filter of questions. All given conditions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionFilter {
    /// Only questions of runs of this workflow.
    pub workflow: Option<String>,
    /// Only of this kind.
    pub kind: Option<InterruptKind>,
    /// Runs after this one of an earlier page.
    pub after: Option<ListCursor>,
    /// The page ends with the run that reaches this many questions.
    pub limit: usize,
}

/// A run with open questions.
#[derive(Clone, Debug)]
pub enum Asking {
    /// A run that an engine drives.
    Run(Box<Run>),
    /// A run of a document.
    Document(Arc<Document>),
}

/// A page of runs with open questions, newest first.
#[derive(Clone, Debug)]
pub struct QuestionPage {
    /// Runs with at least one open question of the requested kind.
    pub runs: Vec<Asking>,
    /// Where the next page begins, if there may be more.
    pub next: Option<ListCursor>,
}

impl Api {
    /// The visible runs with open questions. A page may be empty and still have a next one: the
    /// number of runs scanned per page is bounded.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn open_questions(
        &self,
        who: &Principal,
        filter: QuestionFilter,
    ) -> Result<QuestionPage, ApiError> {
        let (mut runs, mut asked, mut seen) = (Vec::new(), 0, 0);
        let mut after = filter.after;
        loop {
            let rows = RunFilter {
                workflow: filter.workflow.clone(),
                // A run that works in one branch may have a question in another.
                statuses: RunStatus::ALL
                    .into_iter()
                    .filter(|status| {
                        status.is_waiting()
                            || matches!(status, RunStatus::Running | RunStatus::Paused)
                    })
                    .map(|status| status.to_string())
                    .collect(),
                after: after.take(),
                limit: ROWS,
                ..RunFilter::default()
            };
            let RunPage {
                runs: rows, next, ..
            } = self.runs(who, rows).await?;
            for row in rows {
                seen += 1;
                let Some(run) = self.asking(&row).await? else {
                    continue;
                };
                let of_kind = run.count(filter.kind);
                if of_kind > 0 {
                    asked += of_kind;
                    runs.push(run);
                }
                if asked >= filter.limit || seen >= MAX_RUNS {
                    let next = Some(ListCursor::after(&row));
                    return Ok(QuestionPage { runs, next });
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(QuestionPage { runs, next: None }),
            }
        }
    }

    /// A run with open questions. `None` if it has none or was erased meanwhile.
    async fn asking(&self, row: &Listed) -> Result<Option<Asking>, ApiError> {
        let asking = match row.index.kind {
            StreamKind::Document => {
                if !RunStatus::parse(run_status(&row.index)).is_some_and(RunStatus::is_waiting) {
                    return Ok(None);
                }
                let document = self.door().document(&row.stream).await;
                document.map(|standing| Asking::Document(Arc::new(standing.document)))
            }
            _ => {
                let run = self.door().load(&row.stream).await;
                run.map(|run| Asking::Run(Box::new(run)))
            }
        };
        match asking {
            Err(StoreError::Missing) => Ok(None),
            asking => Ok(Some(asking?)),
        }
    }
}

impl Asking {
    /// The number of open questions of a kind.
    fn count(&self, kind: Option<InterruptKind>) -> usize {
        let fits = |asked| kind.is_none_or(|kind| kind == asked);
        match self {
            Self::Run(run) => {
                let open = run.facts().map(|facts| facts.interrupts.as_slice());
                let open = open.unwrap_or_default().iter();
                open.filter(|open| fits(open.kind)).count()
            }
            Self::Document(document) if fits(InterruptKind::Approval) => {
                document.view().open().count()
            }
            Self::Document(_) => 0,
        }
    }
}
