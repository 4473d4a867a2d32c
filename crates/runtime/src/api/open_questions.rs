//! What all runs of a tenant wait for.

use std::sync::Arc;

use kernel::document::{Document, run_status};
use kernel::run::Run;
use kernel::run::RunStatus;
use kernel::stream::StreamKind;
use store::{ListCursor, Listed, StoreError};

use super::list::place;
use super::{Api, ApiError, RunFilter, RunPage};
use crate::access::Principal;

/// The kind of question that a gate of a document is.
const GATE: &str = "approval";
/// Rows of runs read at a time.
const ROWS: usize = 100;
/// Runs looked at for one page, whatever they turn out to ask.
const MAX_RUNS: usize = 1_000;

/// Which questions to list. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionFilter {
    /// Only of runs of this workflow.
    pub workflow: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Behind this run of an earlier page.
    pub after: Option<ListCursor>,
    /// The page ends with the run with which it has so many questions.
    pub limit: usize,
}

/// A run that asks something.
#[derive(Clone, Debug)]
pub enum Asking {
    /// One that an engine drives.
    Run(Box<Run>),
    /// One that a document tells of.
    Document(Arc<Document>),
}

/// A page of runs that ask, those created last first.
#[derive(Clone, Debug)]
pub struct QuestionPage {
    /// Runs with at least one open question of the kind asked for.
    pub runs: Vec<Asking>,
    /// Where the next page begins, if there may be more.
    pub next: Option<ListCursor>,
}

impl Api {
    /// The runs that ask something, of those the caller may see. A page may be empty and still
    /// have a next one: only so many runs are looked at for each.
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
                // A run at work in one branch may ask in another.
                statuses: RunStatus::ALL
                    .into_iter()
                    .filter(|status| {
                        status.is_waiting()
                            || matches!(status, RunStatus::Running | RunStatus::Paused)
                    })
                    .map(|status| status.to_string())
                    .collect(),
                tag: None,
                parent: None,
                after: after.take(),
                limit: ROWS,
            };
            let RunPage { runs: rows, next } = self.runs(who, rows).await?;
            for row in rows {
                seen += 1;
                let Some(run) = self.asking(&row).await? else {
                    continue;
                };
                let of_kind = run.count(filter.kind.as_deref());
                if of_kind > 0 {
                    asked += of_kind;
                    runs.push(run);
                }
                if asked >= filter.limit || seen >= MAX_RUNS {
                    let next = Some(place(&row));
                    return Ok(QuestionPage { runs, next });
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(QuestionPage { runs, next: None }),
            }
        }
    }

    /// A run that may ask something. `None` for one that does not, or was erased meanwhile.
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
    /// How many questions of a kind are open.
    fn count(&self, kind: Option<&str>) -> usize {
        let fits = |asked: &str| kind.is_none_or(|kind| kind == asked);
        match self {
            Self::Run(run) => {
                let open = run.facts().map(|facts| facts.interrupts.as_slice());
                let open = open.unwrap_or_default().iter();
                open.filter(|open| fits(&open.kind)).count()
            }
            Self::Document(document) if fits(GATE) => document.view().open().count(),
            Self::Document(_) => 0,
        }
    }
}
