//! Short forms of SQL statements, and the meaning of their errors.

use rusqlite::types::{FromSql, FromSqlError};
use rusqlite::{Connection, ErrorCode, Params, Row};
use store::StoreError;
use store::group::Transactions;

/// Why work inside a transaction ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A check refused it.
    #[error(transparent)]
    Refused(#[from] StoreError),
    /// SQLite failed.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// A column holds an impossible value.
    #[error(transparent)]
    Value(#[from] FromSqlError),
}

pub(crate) type Fallible<T> = Result<T, Fault>;

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        use ErrorCode::*;
        let error = match fault {
            Fault::Refused(error) => return error,
            Fault::Sql(error) => error,
            Fault::Value(error) => error.into(),
        };
        let why = match error.sqlite_error_code() {
            None => return corrupt(format!("a row cannot be read: {error}")),
            Some(NotADatabase) => return corrupt("the file is not a Runwright store"),
            Some(DatabaseCorrupt) => return corrupt("pages of the file are malformed"),
            // Every constraint repeats a check made before the write.
            Some(ConstraintViolation) => return corrupt("rows contradict each other"),
            Some(DiskFull) => "the disk is full; free some space and try again",
            Some(DatabaseBusy | DatabaseLocked) => "another process keeps it locked; try again",
            Some(CannotOpen) => "no store can be opened there; check the path and permissions",
            Some(ReadOnly | PermissionDenied) => "it is not writable; check the permissions",
            Some(_) => return Self::Unavailable(format!("SQLite failed: {error}")),
        };
        Self::Unavailable(why.into())
    }
}

pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into())
}

/// A number from a caller in SQLite's range.
pub(crate) fn clamp(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A connection. All its statements are cached.
pub(crate) struct Db(pub(crate) Connection);

impl Db {
    /// Executes a statement; returns how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> Fallible<usize> {
        Ok(self.0.prepare_cached(sql)?.execute(params)?)
    }

    /// Runs `each` over the rows of a query until it returns `false`.
    pub(crate) fn scan<F>(&self, sql: &str, params: impl Params, mut each: F) -> Fallible<()>
    where
        F: FnMut(&Row<'_>) -> Fallible<bool>,
    {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()?
            && each(row)?
        {}
        Ok(())
    }

    /// All rows of a query.
    pub(crate) fn all<T, F>(&self, sql: &str, params: impl Params, mut read: F) -> Fallible<Vec<T>>
    where
        F: FnMut(&Row<'_>) -> Fallible<T>,
    {
        let mut rows = Vec::new();
        let each = |row: &Row<'_>| read(row).map(|read| rows.push(read)).map(|()| true);
        self.scan(sql, params, each)?;
        Ok(rows)
    }

    /// The row of a query that has at most one.
    pub(crate) fn one<T, F>(&self, sql: &str, params: impl Params, read: F) -> Fallible<Option<T>>
    where
        F: FnMut(&Row<'_>) -> Fallible<T>,
    {
        Ok(self.all(sql, params, read)?.pop())
    }

    /// The first column of such a row; `None` also for NULL.
    pub(crate) fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Fallible<Option<T>> {
        Ok(self.one(sql, params, |row| Ok(row.get(0)?))?.flatten())
    }

    /// Whether a query has a row.
    pub(crate) fn any(&self, sql: &str, params: impl Params) -> Fallible<bool> {
        Ok(self.0.prepare_cached(sql)?.exists(params)?)
    }
}

impl Transactions for Db {
    fn begin(&self) -> Result<(), StoreError> {
        Ok(self.run("BEGIN IMMEDIATE", []).map(drop)?)
    }

    fn begin_reading(&self) -> Result<(), StoreError> {
        Ok(self.run("BEGIN", []).map(drop)?)
    }

    fn commit(&self) -> Result<(), StoreError> {
        Ok(self.run("COMMIT", []).map(drop)?)
    }

    fn rollback(&self) {
        // Some errors have rolled back by themselves.
        if !self.0.is_autocommit()
            && let Err(error) = self.run("ROLLBACK", [])
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn changes(&self) -> u64 {
        self.0.total_changes()
    }
}
