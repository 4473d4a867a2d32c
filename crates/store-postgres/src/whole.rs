//! The store as a whole, for copies and reports.

use async_trait::async_trait;
use kernel::batch::IndexRow;
use store::StoreError;
use store::whole::{Cell, Column, Kind, Part, Row, SqlStore, Step};
use tokio_postgres::types::{ToSql, Type};

use crate::db::{Param, causes, corrupt};
use crate::group::comparable;
use crate::{Answer, PostgresStore};

/// The columns of a stream that are made of its index row.
const OF_INDEX: &[Column] = &[
    ("settled", Kind::Number),
    ("runnable", Kind::Number),
    ("queue", Kind::Text),
    ("priority", Kind::Number),
    ("concurrency_key", Kind::Text),
    ("parent", Kind::Text),
    ("created_at", Kind::Number),
    ("updated_at", Kind::Number),
    ("kind", Kind::Text),
    ("workspace", Kind::Text),
    ("subject", Kind::Text),
    ("status", Kind::Text),
    ("tags", Kind::Text),
];

/// The values of those columns.
fn of_index(row: &Row) -> Answer<Row> {
    let Some(Cell::Text(json)) = row.last() else {
        return Err(corrupt("a stream has no index row"));
    };
    let index: IndexRow = serde_json::from_str(json).map_err(StoreError::unavailable)?;
    let text = |text: Option<&str>| text.map_or(Cell::Null, |text| Cell::Text(comparable(text)));
    let tags: Vec<_> = index.tags.iter().map(|tag| comparable(tag)).collect();
    Ok(vec![
        Cell::Number(index.settled.into()),
        Cell::Number(index.runnable.into()),
        text(Some(&index.queue)),
        Cell::Number(index.priority.into()),
        text(index.concurrency_key.as_deref()),
        text(index.parent.as_ref().map(|id| id.as_str())),
        Cell::Number(index.created_at.0),
        Cell::Number(index.updated_at.0),
        text(Some(index.kind.as_str())),
        text(index.workspace.as_deref()),
        text(Some(&index.subject)),
        text(Some(&index.status)),
        Cell::Text(serde_json::json!(tags).to_string()),
    ])
}

/// A column of rows as an array.
fn array(rows: &[Row], nth: usize, kind: Kind) -> (Box<dyn ToSql + Sync + Send>, Type) {
    let cells = rows.iter().map(|row| &row[nth]);
    match kind {
        Kind::Number => {
            let number = |cell: &Cell| match cell {
                Cell::Number(number) => Some(*number),
                _ => None,
            };
            (
                Box::new(cells.map(number).collect::<Vec<_>>()),
                Type::INT8_ARRAY,
            )
        }
        Kind::Text => {
            let text = |cell: &Cell| match cell {
                Cell::Text(text) => Some(text.clone()),
                _ => None,
            };
            (
                Box::new(cells.map(text).collect::<Vec<_>>()),
                Type::TEXT_ARRAY,
            )
        }
        Kind::Bytes => {
            let bytes = |cell: &Cell| match cell {
                Cell::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            };
            (
                Box::new(cells.map(bytes).collect::<Vec<_>>()),
                Type::BYTEA_ARRAY,
            )
        }
    }
}

/// A statement of a script with its rows in the place of `$rows`.
fn with_rows(sql: &str, columns: &[Column]) -> String {
    let arrays = (1..).zip(columns).map(|(nth, (_, kind))| match kind {
        Kind::Number => format!("${nth}::bigint[]"),
        Kind::Text => format!("${nth}::text[]"),
        Kind::Bytes => format!("${nth}::bytea[]"),
    });
    let arrays: Vec<_> = arrays.collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let rows = format!("unnest({}) AS n({})", arrays.join(", "), names.join(", "));
    sql.replace("$rows", &rows)
}

fn given(cell: &Cell) -> Param<'_> {
    match cell {
        Cell::Number(number) => (number, Type::INT8),
        Cell::Text(text) => (text, Type::TEXT),
        Cell::Bytes(bytes) => (bytes, Type::BYTEA),
        Cell::Null => (&None::<i64>, Type::INT8),
    }
}

fn cell(row: &tokio_postgres::Row, nth: usize, kind: Kind) -> Answer<Cell> {
    let cell = match kind {
        Kind::Number => row
            .try_get::<_, Option<i64>>(nth)
            .map(|found| found.map(Cell::Number)),
        Kind::Text => row
            .try_get::<_, Option<String>>(nth)
            .map(|found| found.map(Cell::Text)),
        Kind::Bytes => row
            .try_get::<_, Option<Vec<u8>>>(nth)
            .map(|found| found.map(Cell::Bytes)),
    };
    let cell =
        cell.map_err(|error| corrupt(format!("a row cannot be read: {}", causes(&error))))?;
    Ok(cell.unwrap_or(Cell::Null))
}

#[async_trait]
impl SqlStore for PostgresStore {
    const EXPORT: &'static str = include_str!("../schema/export.sql");
    const IMPORT: &'static str = include_str!("../schema/import.sql");
    const FAULTS: &'static str = include_str!("../schema/contradictions.sql");

    async fn select(
        &self,
        sql: &'static str,
        cells: Vec<Cell>,
        columns: &'static [Column],
    ) -> Answer<Vec<Row>> {
        let params: Vec<_> = cells.iter().map(given).collect();
        let rows = self.db.patient().look_up(sql, &params).await?;
        let columns = columns.iter().enumerate();
        let read = |row| {
            columns
                .clone()
                .map(|(nth, (_, kind))| cell(row, nth, *kind))
                .collect()
        };
        rows.iter().map(read).collect()
    }

    async fn execute(&self, steps: Vec<Step>) -> Answer<()> {
        let mut statements = Vec::new();
        for (sql, columns, rows) in &steps {
            let mut arrays: Vec<_> = columns
                .iter()
                .enumerate()
                .map(|(nth, (_, kind))| array(rows, nth, *kind))
                .collect();
            let mut columns = columns.to_vec();
            if columns == Part::Streams.columns() {
                let derived = rows.iter().map(of_index).collect::<Answer<Vec<_>>>()?;
                let derived_arrays = OF_INDEX
                    .iter()
                    .enumerate()
                    .map(|(nth, (_, kind))| array(&derived, nth, *kind));
                arrays.extend(derived_arrays);
                columns.extend(OF_INDEX);
            }
            statements.push((with_rows(sql, &columns), arrays));
        }
        let params: Vec<Vec<Param<'_>>> = statements
            .iter()
            .map(|(_, arrays)| {
                arrays
                    .iter()
                    .map(|(array, of)| (&**array as &(dyn ToSql + Sync), of.clone()))
                    .collect()
            })
            .collect();
        let queries: Vec<_> = statements
            .iter()
            .zip(&params)
            .map(|((sql, _), params)| (sql.as_str(), &params[..]))
            .collect();
        self.writable()?.0.patient().transaction(&queries).await?;
        Ok(())
    }
}
