//! What all runs of a tenant wait for.

use kernel::run::Run;
use kernel::run::state::WAITING;
use store::{ListCursor, StoreError};

use super::{Api, ApiError, RunFilter, RunPage};
use crate::access::Principal;

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

/// A page of runs that ask, those created last first.
#[derive(Clone, Debug)]
pub struct QuestionPage {
    /// Runs with at least one open question of the kind asked for.
    pub runs: Vec<Run>,
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
                statuses: WAITING
                    .iter()
                    .chain(&["running", "paused"])
                    .map(|status| (*status).to_owned())
                    .collect(),
                tag: None,
                parent: None,
                after: after.take(),
                limit: ROWS,
            };
            let RunPage { runs: rows, next } = self.runs(who, rows).await?;
            for row in rows {
                let here = ListCursor {
                    created_at: row.index.created_at,
                    stream: row.stream.clone(),
                };
                seen += 1;
                let run = match self.door().load(&row.stream).await {
                    // Erased meanwhile.
                    Err(StoreError::Missing) => continue,
                    run => run?,
                };
                let of_kind = count(&run, filter.kind.as_deref());
                if of_kind > 0 {
                    asked += of_kind;
                    runs.push(run);
                }
                if asked >= filter.limit || seen >= MAX_RUNS {
                    let next = Some(here);
                    return Ok(QuestionPage { runs, next });
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(QuestionPage { runs, next: None }),
            }
        }
    }
}

fn count(run: &Run, kind: Option<&str>) -> usize {
    let open = run.facts().map(|facts| facts.interrupts.as_slice());
    let fits = |asked: &str| kind.is_none_or(|kind| kind == asked);
    let open = open.unwrap_or_default().iter();
    open.filter(|open| fits(&open.kind)).count()
}
