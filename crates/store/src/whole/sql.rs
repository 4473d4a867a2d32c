//! A store of SQL tables as a whole, by two scripts of its own.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Cell, Column, Kind, Mark, NOT_EMPTY, Part, Row, Status, WholeStore};
use crate::{Store, StoreError};

/// The columns of a mark, and of a fact for a [`Status`].
const MARK: &[Column] = &[("step", Kind::Number), ("mark", Kind::Text)];

/// A statement that is run for rows of these columns.
pub type Step = (&'static str, &'static [Column], Arc<Vec<Row>>);

/// A store of SQL tables; it is a [`WholeStore`] thereby.
///
/// The statements of both scripts are headed by a comment with their name and end with a line. In
/// `EXPORT` each part has a query by its key and a limit; `unfinished` has a row while there is a
/// table of marks, `mark` reads the last one, and `status` the facts that [`Status`] is made of. In
/// `IMPORT` each part has statements for a row; `begin` makes the table of marks, `mark` adds one,
/// `finish` drops the table.
#[async_trait]
pub trait SqlStore: Store + Sized {
    /// The queries.
    const EXPORT: &'static str;
    /// The statements that write.
    const IMPORT: &'static str;
    /// Queries of contradictions, each under a comment that describes the fault: the names of the
    /// affected streams, or NULL.
    const FAULTS: &'static str;

    /// The rows of a query.
    async fn select(
        &self,
        sql: &'static str,
        given: Vec<Cell>,
        columns: &'static [Column],
    ) -> Result<Vec<Row>, StoreError>;

    /// Runs all steps in one transaction.
    async fn execute(&self, steps: Vec<Step>) -> Result<(), StoreError>;

    /// Makes an empty store the destination of an import; that of an unfinished one stays it.
    async fn begin_import(&self) -> Result<(), StoreError> {
        if self.mark().await?.is_some() {
            return Ok(());
        }
        for part in Part::ALL {
            if !self.export(part, &part.start(), 1).await?.is_empty() {
                return Err(StoreError::Unavailable(NOT_EMPTY.into()));
            }
        }
        self.execute(steps("begin", Self::IMPORT)).await
    }
}

/// The statements of a script under a name.
fn statements(name: &str, script: &'static str) -> impl Iterator<Item = &'static str> {
    let mut parts = script.split("-- ");
    let own = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    own.unwrap_or_default().split_terminator(";\n")
}

/// A statement of a script under a name.
fn statement(name: &str, script: &'static str) -> &'static str {
    statements(name, script).next().unwrap_or_default()
}

/// Steps that are run once, without a row.
fn steps(name: &str, script: &'static str) -> Vec<Step> {
    let once = |sql| (sql, &[][..], Arc::new(vec![Row::new()]));
    statements(name, script).map(once).collect()
}

#[async_trait]
impl<S: SqlStore> WholeStore for S {
    async fn export(
        &self,
        part: Part,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let given = after.iter().cloned().chain([Cell::Number(limit)]);
        let sql = statement(part.name(), S::EXPORT);
        self.select(sql, given.collect(), part.columns()).await
    }

    async fn mark(&self) -> Result<Option<Mark>, StoreError> {
        let unfinished = statement("unfinished", S::EXPORT);
        if self
            .select(unfinished, Vec::new(), &MARK[..1])
            .await?
            .is_empty()
        {
            return Ok(None);
        }
        let rows = self
            .select(statement("mark", S::EXPORT), Vec::new(), MARK)
            .await?;
        match rows.into_iter().next().as_deref() {
            Some([Cell::Number(step), Cell::Text(text)]) => Ok(Some(Mark {
                step: step.unsigned_abs(),
                text: text.clone(),
            })),
            _ => Err(StoreError::Corrupt(
                "the mark of an import is missing".into(),
            )),
        }
    }

    async fn import(&self, part: Part, rows: Vec<Row>, mark: Mark) -> Result<(), StoreError> {
        let step = i64::try_from(mark.step).unwrap_or(i64::MAX);
        let mark = vec![Cell::Number(step), Cell::Text(mark.text)];
        let mut steps = vec![(statement("mark", S::IMPORT), MARK, Arc::new(vec![mark]))];
        if !rows.is_empty() {
            let rows = Arc::new(rows);
            let each = |sql| (sql, part.columns(), Arc::clone(&rows));
            steps.extend(statements(part.name(), S::IMPORT).map(each));
        }
        self.execute(steps).await
    }

    async fn finish_import(&self) -> Result<(), StoreError> {
        self.execute(steps("finish", S::IMPORT)).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        let sql = statement("status", S::EXPORT);
        let facts = self
            .select(sql, vec![Cell::Number(self.now().0)], Status::FACTS)
            .await?;
        Ok(Status::from_facts(self.now(), facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_by_its_headings() {
        let script = "-- one\nSELECT 1;\n-- two\nSELECT 2,\n  3;\nSELECT 4;\n";
        let two: Vec<_> = statements("two", script).collect();
        assert_eq!(two, ["SELECT 2,\n  3", "SELECT 4"]);
        assert_eq!(statement("one", script), "SELECT 1");
        assert_eq!(statements("three", script).count(), 0);
    }
}
