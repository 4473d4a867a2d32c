//! Connections: identity of the file, settings, migrations.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use store::StoreError;

use crate::options::{Access, Durability, Options, Sharing};
use crate::sql::{Fault, Sql, Writing, corrupt};

/// Marks a file as a store of ours ("RWst"), so that nothing else is ever migrated.
const APPLICATION_ID: i64 = 0x5257_7374;

/// One script per version, applied in order and never edited once released. Each is idempotent
/// and committed together with its number.
const MIGRATIONS: &[&str] = &[include_str!("../schema/0001_initial.sql")];

/// Settings of every connection. Page caches bound the memory of a store whatever its size, and
/// nothing is mapped: mapped pages count as memory of the process, and a file that is cut short
/// would kill it. Damaged pages are refused instead of followed.
const SETTINGS: &str = "PRAGMA cache_size = -4096; PRAGMA mmap_size = 0; \
    PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
    PRAGMA foreign_keys = ON;";

/// The writer's own. At 16 MiB in the log a commit copies them into the file: more would make
/// reads and recovery slower, less would sync the file more often.
const WRITER_SETTINGS: &str = "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096; \
    PRAGMA journal_size_limit = 67108864;";

/// Opens the connection that writes and brings the schema up to date.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Writing, Fault> {
    let create = match options.access {
        Access::Create => OpenFlags::SQLITE_OPEN_CREATE,
        Access::Write | Access::Read => OpenFlags::empty(),
    };
    let mut conn = connect(path, options, OpenFlags::SQLITE_OPEN_READ_WRITE | create)?;
    if options.sharing == Sharing::Exclusive {
        conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    if version(&conn)? == 0 && options.access != Access::Create {
        return Err(no_store().into());
    }
    log_ahead(&conn, options.busy_timeout)?;
    conn.execute_batch(WRITER_SETTINGS)?;
    conn.execute_batch(match options.durability {
        Durability::Full => "PRAGMA synchronous = FULL",
        Durability::Relaxed => "PRAGMA synchronous = NORMAL",
    })?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (done, script) in MIGRATIONS.iter().enumerate().skip(version(&tx)?) {
        tx.execute_batch(script)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", done + 1)?;
    }
    tx.commit()?;
    Ok(Writing(conn))
}

fn connect(path: &Path, options: &Options, flags: OpenFlags) -> Result<Connection, Fault> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str())?,
        None => Connection::open_with_flags(path, flags)?,
    };
    conn.set_prepared_statement_cache_capacity(128);
    let (mut since, timeout) = (Instant::now(), options.busy_timeout);
    // In smaller steps than SQLite's own handler takes: a commit takes a millisecond, and there
    // is no wake-up across processes.
    conn.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_micros(100 << tries.clamp(0, 5)));
        since.elapsed() < timeout
    }))?;
    conn.execute_batch(SETTINGS)?;
    Ok(conn)
}

/// Turns write-ahead logging on. Unlike a transaction this does not wait for others by itself.
fn log_ahead(conn: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    let since = Instant::now();
    loop {
        match conn.execute_batch("PRAGMA journal_mode = WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < timeout =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// The version of the schema, 0 for a file that holds nothing yet; an error for a file that is
/// not ours or newer than this build.
fn version(conn: &Connection) -> Result<usize, Fault> {
    let found = conn.one(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id, pragma_user_version",
        [],
        |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
            ))
        },
    )?;
    let (application, version, tables) = found.unwrap_or_default();
    let known = usize::try_from(version)
        .ok()
        .filter(|known| *known <= MIGRATIONS.len());
    match (application, known) {
        (0, Some(0)) if tables == 0 => Ok(0),
        (APPLICATION_ID, Some(version)) => Ok(version),
        (APPLICATION_ID, None) => Err(StoreError::Unavailable(format!(
            "the store has schema version {version}, this build knows versions up to {}; update \
             runwright",
            MIGRATIONS.len()
        ))
        .into()),
        _ => Err(corrupt("the file is a database of something else, not a Runwright store").into()),
    }
}

fn no_store() -> StoreError {
    StoreError::Unavailable("the file is empty and no store; check the path".into())
}

/// The connections that read: a few, opened when first needed.
pub(crate) struct Readers {
    path: Box<Path>,
    options: Options,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: &Path, options: Options) -> Self {
        Self {
            path: path.into(),
            options,
            idle: Mutex::default(),
        }
    }

    /// Runs `work` in one read transaction, in which nothing changes. Blocks.
    pub(crate) fn run<T>(
        &self,
        work: impl Fn(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let conn = match waiting {
            Some(conn) => conn,
            None => connect(&self.path, &self.options, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
        let answer = work(&snapshot)?;
        drop(snapshot);
        // One that failed is not kept: it may hold on to what made it fail.
        idle().push(conn);
        Ok(answer)
    }

    /// Checks the schema of a store that was not opened for writing.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.run(|conn| match version(conn)? {
            0 => Err(no_store().into()),
            version if version == MIGRATIONS.len() => Ok(()),
            version => Err(StoreError::Unavailable(format!(
                "the store has the older schema version {version}; open it once for writing"
            ))
            .into()),
        })
    }
}
