//! Connections, statements, and the meaning of their errors.

use std::time::Duration;

use deadpool_postgres::{HookError, Object, Pool, PoolError};
use futures_util::future::try_join_all;
use kernel::ids::TenantId;
use store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::connect::Hosts;

/// The longest wait for the answer to a statement. A connection that was silent for so long is
/// closed.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long the request to cancel a statement may take.
const CANCEL: Duration = Duration::from_secs(5);
/// The same for statements whose work grows with the store.
const LONG_DEADLINE: Duration = Duration::from_secs(3_600);
/// How often a statement is repeated that the database undid to resolve a deadlock.
const REPEATS: usize = 5;

/// A parameter and its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Parameters with the names of their types.
macro_rules! params {
    ($($value:expr => $of:ident),*) => {
        [$((&$value as &(dyn tokio_postgres::types::ToSql + Sync), tokio_postgres::types::Type::$of)),*]
    };
}
pub(crate) use params;

/// A statement and its parameters.
pub(crate) type Query<'a> = (&'a str, &'a [Param<'a>]);

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(Error),
    Pool(PoolError),
    Late,
}

pub(crate) type Fallible<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl Fault {
    /// The database's code for it, if the database answered.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Sql(error) | Self::Pool(PoolError::Backend(error)) => error.code(),
            Self::Pool(_) | Self::Late => None,
        }
    }

    /// Nothing was changed, and the same statement may succeed now.
    fn was_undone(&self) -> bool {
        let codes = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
        ];
        self.code().is_some_and(|code| codes.contains(code))
    }

    /// The connection ended, or may end for the same reason.
    fn ends_connection(&self) -> bool {
        match (self, self.code()) {
            (Self::Late, _) => true,
            (_, None) => true,
            (_, Some(code)) => {
                // The server may not be the primary any longer.
                *code == SqlState::READ_ONLY_SQL_TRANSACTION
                    || *code == SqlState::FEATURE_NOT_SUPPORTED
                    || matches!(code.code().get(..2), Some("08" | "57" | "26"))
            }
        }
    }

    /// Whether a value is at fault: the same statement without it may succeed.
    pub(crate) fn is_of_data(&self) -> bool {
        let class = self.code().and_then(|code| code.code().get(..2));
        matches!(class, Some("22" | "23" | "54"))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        let Some(code) = fault.code() else {
            return Self::Unavailable(match fault {
                Fault::Late => "PostgreSQL did not answer in time".into(),
                Fault::Sql(error) | Fault::Pool(PoolError::Backend(error)) => {
                    format!("the connection to PostgreSQL failed: {}", causes(&error))
                }
                // A setting of the server was refused.
                Fault::Pool(PoolError::PostCreateHook(HookError::Message(why))) => why.into(),
                Fault::Pool(error) => format!("no connection to PostgreSQL: {error}"),
            });
        };
        let text = match &fault {
            Fault::Sql(error) | Fault::Pool(PoolError::Backend(error)) => causes(error),
            Fault::Pool(error) => error.to_string(),
            Fault::Late => String::new(),
        };
        match code.code() {
            "XX001" | "XX002" => Self::Corrupt(format!("PostgreSQL reports damage: {text}")),
            "23503" | "23502" | "23514" => Self::Corrupt(format!("rows contradict each other: {text}")),
            "25006" => Self::Unavailable(
                "this PostgreSQL server takes no writes; name its primary, or add target_session_attrs=read-write to the URL".into(),
            ),
            "42501" => Self::Unavailable(format!("{text}; grant the role the rights that docs/reference/postgres.md lists")),
            "53100" => Self::Unavailable("the disk of PostgreSQL is full; free some space and try again".into()),
            "55P03" => Self::Unavailable("another transaction keeps rows locked; try again".into()),
            "3F000" | "42P01" | "42883" => Self::Unavailable(format!(
                "{text}; the database has no store of this version, open it once with a role that may create one"
            )),
            other => Self::Unavailable(format!("PostgreSQL failed with code {other}: {text}")),
        }
    }
}

/// An error with its causes. Neither shows a password.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(database) = error
        .source()
        .and_then(|cause| cause.downcast_ref::<tokio_postgres::error::DbError>())
    {
        return database.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// Prepared once per connection.
    Prepared,
    /// Without a name: a pooler may send each to another connection.
    Unnamed,
}

/// Whose rows the statements may see and write; the policies of the schema check it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Every tenant's: the store's own work.
    All,
    /// One tenant's.
    Tenant(String),
    /// The statement sets it.
    OfStatement,
}

/// Sets it for a transaction.
const SET_SCOPE: &str =
    "SELECT set_config('runwright.scope', $1, true), set_config('runwright.tenant', $2, true)";

/// The database.
#[derive(Clone)]
pub(crate) struct Db {
    pub(crate) pool: Pool,
    pub(crate) statements: Statements,
    /// Marks hints of this process, which it does not need.
    pub(crate) origin: i64,
    pub(crate) hosts: Hosts,
    deadline: Duration,
    scope: Scope,
}

/// A connection that returns to its pool only after its answer came.
struct Busy(Option<Object>);

impl Busy {
    /// Closes the connection.
    fn close(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.close();
    }
}

impl Db {
    pub(crate) fn new(pool: Pool, statements: Statements, origin: i64, hosts: Hosts) -> Self {
        Self {
            pool,
            statements,
            origin,
            hosts,
            deadline: DEADLINE,
            scope: Scope::All,
        }
    }

    /// The same database for statements of a tenant.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Self {
        Self {
            scope: Scope::Tenant(tenant.to_string()),
            ..self.clone()
        }
    }

    /// The same database for the procedure that appends. It sets its scope and commits by itself.
    pub(crate) fn for_appends(&self) -> Self {
        Self {
            scope: Scope::OfStatement,
            ..self.clone()
        }
    }

    /// The same database for statements that may take long.
    pub(crate) fn patient(&self) -> Self {
        Self {
            deadline: LONG_DEADLINE,
            ..self.clone()
        }
    }

    /// The rows of a statement, which is one transaction. Repeats it where the database asks for
    /// that.
    pub(crate) async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Fallible<Vec<Row>> {
        let mut repeats = 0;
        loop {
            match self.all(&[(sql, params)]).await {
                Err(fault) if fault.was_undone() && repeats < REPEATS => repeats += 1,
                answer => return Ok(answer?.pop().unwrap_or_default()),
            }
        }
    }

    /// The row of a statement that always has one.
    pub(crate) async fn row(&self, sql: &str, params: &[Param<'_>]) -> Result<Row, StoreError> {
        let row = self.rows(sql, params).await?.pop();
        row.ok_or_else(|| corrupt("a statement has no answer"))
    }

    /// The rows of several statements, sent at once in this order. A direct connection has the scope
    /// of the store's own work; any other scope, and a pooler, needs a transaction.
    pub(crate) async fn all(&self, queries: &[Query<'_>]) -> Fallible<Vec<Vec<Row>>> {
        match (&self.scope, self.statements) {
            (Scope::OfStatement, _) | (Scope::All, Statements::Prepared) => {
                self.pipeline(queries).await
            }
            _ => self.transaction(queries).await,
        }
    }

    async fn pipeline(&self, queries: &[Query<'_>]) -> Fallible<Vec<Vec<Row>>> {
        let client = self.pool.get().await?;
        let token = client.cancel_token();
        let mut busy = Busy(Some(client));
        let Some(client) = &busy.0 else {
            return Err(Fault::Late);
        };
        let work = self.send(client, queries);
        let answer = match tokio::time::timeout(self.deadline, work).await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => {
                // The statement would continue without its connection.
                let tls = self.hosts.tls.clone();
                let cancel = async move { token.cancel_query(tls).await };
                tokio::spawn(tokio::time::timeout(CANCEL, cancel));
                // The same cause silenced the idle connections of the pool.
                self.pool.retain(|_, _| false);
                Err(Fault::Late)
            }
        };
        if !answer.as_ref().is_err_and(Fault::ends_connection) {
            drop(busy.0.take());
        }
        answer
    }

    /// The same in one transaction. It is undone where one of them fails.
    pub(crate) async fn transaction(&self, queries: &[Query<'_>]) -> Fallible<Vec<Vec<Row>>> {
        let (scope, tenant) = match &self.scope {
            Scope::Tenant(tenant) => ("", tenant.as_str()),
            Scope::All | Scope::OfStatement => ("all", ""),
        };
        let scope = params![scope => TEXT, tenant => TEXT];
        let begin: [Query<'_>; 2] = [("BEGIN", &[]), (SET_SCOPE, &scope)];
        let all = [&begin, queries, &[("COMMIT", &[])]].concat();
        let mut answers = self.pipeline(&all).await?;
        answers.pop();
        Ok(answers.split_off(begin.len()))
    }

    async fn send(&self, client: &Object, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        if self.statements == Statements::Unnamed {
            let each = queries.iter();
            let each = each.map(|(sql, params)| client.query_typed(sql, params));
            return try_join_all(each).await;
        }
        // All are prepared before the first is sent: else a COMMIT could overtake.
        let mut prepared = Vec::with_capacity(queries.len());
        for (sql, params) in queries {
            let types: Vec<Type> = params.iter().map(|(_, of)| of.clone()).collect();
            let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
            prepared.push((client.prepare_typed_cached(sql, &types).await?, values));
        }
        let each = prepared.iter();
        try_join_all(each.map(|(statement, values)| client.query(statement, values))).await
    }

    /// The same for statements that change nothing: they are sent once more over a new connection
    /// where the first was closed meanwhile.
    pub(crate) async fn look(&self, queries: &[Query<'_>]) -> Fallible<Vec<Vec<Row>>> {
        match self.all(queries).await {
            Err(fault) if !matches!(fault, Fault::Late) && fault.ends_connection() => {
                self.all(queries).await
            }
            answer => answer,
        }
    }

    /// The first statement's rows only.
    pub(crate) async fn look_up(&self, sql: &str, params: &[Param<'_>]) -> Fallible<Vec<Row>> {
        Ok(self.look(&[(sql, params)]).await?.pop().unwrap_or_default())
    }
}

/// A number from a caller in the database's range.
pub(crate) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The same for a count.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Milliseconds of a duration. Bounded, so that the database can add them to a time.
pub(crate) fn millis(duration: Duration) -> i64 {
    const THOUSANDS_OF_YEARS: i64 = 1 << 50;
    i64::try_from(duration.as_millis()).map_or(THOUSANDS_OF_YEARS, |ms| ms.min(THOUSANDS_OF_YEARS))
}

pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into())
}

/// A column's value; a column of another type is damage.
pub(crate) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    name: &str,
) -> Result<T, StoreError> {
    row.try_get(name)
        .map_err(|error| corrupt(format!("a row cannot be read: {}", causes(&error))))
}

/// A column that holds a number that is never negative.
pub(crate) fn number(row: &Row, name: &str) -> Result<u64, StoreError> {
    u64::try_from(column::<i64>(row, name)?)
        .map_err(|_| corrupt(format!("{name} of a row is negative")))
}

/// A column that holds a digest.
pub(crate) fn digest(row: &Row, name: &str) -> Result<kernel::digest::Digest, StoreError> {
    let bytes: &[u8] = column(row, name)?;
    let bytes = bytes.try_into();
    bytes
        .map(kernel::digest::Digest)
        .map_err(|_| corrupt(format!("{name} of a row is not a digest")))
}

/// A column that holds JSON.
pub(crate) fn json<T: serde::de::DeserializeOwned>(row: &Row, name: &str) -> Result<T, StoreError> {
    let text: &str = column(row, name)?;
    serde_json::from_str(text)
        .map_err(|_| corrupt("a header or an index row is not what was written"))
}
