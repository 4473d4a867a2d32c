//! Statements in few words, all of them cached, and what their errors mean.

use rusqlite::types::FromSqlError;
use rusqlite::{Connection, ErrorCode, Params, Row};
use store::StoreError;
use store::group::Transactions;

/// Why a piece of work inside a transaction ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A check said no.
    #[error(transparent)]
    Refused(#[from] StoreError),
    /// SQLite failed.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// A column holds what was never written there.
    #[error(transparent)]
    Value(#[from] FromSqlError),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Refused(error) => return error,
            Fault::Sql(error) => error,
            Fault::Value(error) => error.into(),
        };
        let Some(code) = error.sqlite_error_code() else {
            // Not from SQLite but from reading a row.
            return corrupt(format!("a row cannot be read: {error}"));
        };
        let why = match code {
            ErrorCode::NotADatabase => return corrupt("the file is not a Runwright store"),
            ErrorCode::DatabaseCorrupt => {
                return corrupt("pages of the file are malformed; restore the store from a copy");
            }
            // Every constraint repeats a check made before the write, so only rows that
            // contradict each other can break one.
            ErrorCode::ConstraintViolation => return corrupt("rows contradict each other"),
            ErrorCode::DiskFull => "the disk is full; free some space and try again",
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                "another process keeps the store locked; try again"
            }
            ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
                "there is no store at that path, or it may not be opened so; check the path and \
                 its permissions"
            }
            _ => return Self::Unavailable(format!("SQLite failed: {error}")),
        };
        Self::Unavailable(why.into())
    }
}

pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into())
}

/// A number from outside as SQLite can compare with it.
pub(crate) fn clamp(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(crate) trait Sql {
    /// Executes a statement; answers how many rows it changed.
    fn run(&self, sql: &str, params: impl Params) -> Result<usize, Fault>;

    /// Runs `each` over the rows of a query until it answers `false`.
    fn scan<F>(&self, sql: &str, params: impl Params, each: F) -> Result<(), Fault>
    where
        F: FnMut(&Row<'_>) -> Result<bool, Fault>;

    /// All rows of a query.
    fn all<T, F>(&self, sql: &str, params: impl Params, read: F) -> Result<Vec<T>, Fault>
    where
        F: Fn(&Row<'_>) -> Result<T, Fault>,
    {
        let mut rows = Vec::new();
        self.scan(sql, params, |row| {
            rows.push(read(row)?);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The first row of a query.
    fn one<T, F>(&self, sql: &str, params: impl Params, read: F) -> Result<Option<T>, Fault>
    where
        F: Fn(&Row<'_>) -> Result<T, Fault>,
    {
        let mut first = None;
        self.scan(sql, params, |row| {
            first = Some(read(row)?);
            Ok(false)
        })?;
        Ok(first)
    }

    /// Whether a query has a row.
    fn any(&self, sql: &str, params: impl Params) -> Result<bool, Fault> {
        Ok(self.one(sql, params, |_| Ok(()))?.is_some())
    }
}

impl Sql for Connection {
    fn run(&self, sql: &str, params: impl Params) -> Result<usize, Fault> {
        Ok(self.prepare_cached(sql)?.execute(params)?)
    }

    fn scan<F>(&self, sql: &str, params: impl Params, mut each: F) -> Result<(), Fault>
    where
        F: FnMut(&Row<'_>) -> Result<bool, Fault>,
    {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()?
            && each(row)?
        {}
        Ok(())
    }
}

/// The connection of the writing thread.
pub(crate) struct Writing(pub(crate) Connection);

impl Transactions for Writing {
    fn begin(&self) -> Result<(), StoreError> {
        self.0
            .run("BEGIN IMMEDIATE", [])
            .map(drop)
            .map_err(StoreError::from)
    }

    fn commit(&self) -> Result<(), StoreError> {
        self.0.run("COMMIT", []).map(drop).map_err(StoreError::from)
    }

    fn rollback(&self) {
        // Some errors have rolled back by themselves.
        if !self.0.is_autocommit()
            && let Err(error) = self.0.run("ROLLBACK", [])
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn changes(&self) -> u64 {
        self.0.total_changes()
    }
}
