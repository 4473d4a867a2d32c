//! The store as a whole, for copies and reports.

use async_trait::async_trait;
use rusqlite::params_from_iter;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use store::codec;
use store::whole::{Cell, Column, Part, Row, SqlStore, Step};

use crate::sql::{Db, Fallible, corrupt};
use crate::{Answer, SqliteStore, log};

fn value(cell: &Cell) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match cell {
        Cell::Null => ValueRef::Null,
        Cell::Number(number) => ValueRef::Integer(*number),
        Cell::Text(text) => ValueRef::Text(text.as_bytes()),
        Cell::Bytes(bytes) => ValueRef::Blob(bytes),
    })
}

fn cell(row: &rusqlite::Row<'_>, column: usize) -> Fallible<Cell> {
    Ok(match row.get(column)? {
        Value::Null => Cell::Null,
        Value::Integer(number) => Cell::Number(number),
        Value::Text(text) => Cell::Text(text),
        Value::Blob(bytes) => Cell::Bytes(bytes),
        Value::Real(_) => return Err(corrupt("a row has a broken number").into()),
    })
}

/// Events in commit order. Those of packs are encoded as they were before.
fn events(db: &Db, given: &[Cell]) -> Fallible<Vec<Row>> {
    let &[Cell::Number(after), Cell::Number(limit)] = given else {
        return Ok(Vec::new());
    };
    log::walk(db, after, limit, |row, packed| {
        let (mut chain, mut content) = (cell(row, 4)?, cell(row, 5)?);
        if let Some(record) = packed? {
            chain = Cell::Bytes(record.chain.0.to_vec());
            content = Cell::Bytes(codec::encode(&record.content).row);
        }
        let (position, stream, seq) = (cell(row, 0)?, cell(row, 1)?, cell(row, 3)?);
        Ok(vec![position, stream, seq, chain, content])
    })
}

fn execute(db: &Db, (sql, _, rows): &Step) -> Fallible<()> {
    let mut statement = db.0.prepare_cached(sql)?;
    for row in rows.iter() {
        // A statement may use the first columns only.
        let given = row.iter().take(statement.parameter_count()).map(value);
        statement.execute(params_from_iter(given))?;
    }
    Ok(())
}

#[async_trait]
impl SqlStore for SqliteStore {
    const EXPORT: &'static str = include_str!("../schema/export.sql");
    const IMPORT: &'static str = include_str!("../schema/import.sql");
    const FAULTS: &'static str = include_str!("../schema/contradictions.sql");

    async fn select(
        &self,
        sql: &'static str,
        given: Vec<Cell>,
        columns: &'static [Column],
    ) -> Answer<Vec<Row>> {
        let select = move |db: &Db, _| {
            if columns == Part::Events.columns() {
                return events(db, &given);
            }
            let given = params_from_iter(given.iter().map(value));
            let cells =
                |row: &rusqlite::Row<'_>| (0..columns.len()).map(|nth| cell(row, nth)).collect();
            db.all(sql, given, cells)
        };
        self.read(select).await
    }

    async fn execute(&self, steps: Vec<Step>) -> Answer<()> {
        let run = move |db: &Db, _| steps.iter().try_for_each(|step| execute(db, step));
        self.write(0, run).await
    }
}
