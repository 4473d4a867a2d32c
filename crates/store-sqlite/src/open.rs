//! Connections: identity of the file, settings, migrations.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use store::group::Transactions;
use store::whole::UNFINISHED;
use store::{Access, Durability, StoreError};

use crate::options::{Options, Sharing};
use crate::sql::{Db, Fallible, corrupt};

/// Marks a file as a Runwright store ("RWs2"); no other file is ever migrated.
const APPLICATION_ID: i64 = 0x5257_7332;
const OLD_STORE: &str = "the store is older than the first release; use a new folder (--data)";

/// One idempotent script per version, committed together with its number; never edited later.
const MIGRATIONS: &[&str] = &[include_str!("../schema/0001_initial.sql")];

/// The version of the schema that this build writes and reads.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// For every connection: bounded page caches, no memory map (it counts as memory, and a truncated
/// file would kill the process), damaged pages refused, deleted rows overwritten with zeros.
const SETTINGS: &str = "PRAGMA cache_size = -4096; PRAGMA mmap_size = 0; \
    PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
    PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;";

/// The options of a process that has the file for itself.
pub(crate) fn alone(options: Options, access: Access) -> Options {
    let sharing = Sharing::Exclusive;
    Options {
        access,
        sharing,
        ..options
    }
}

/// Opens the writing connection and migrates the schema.
pub(crate) fn writer(path: &Path, options: &Options) -> Fallible<Db> {
    let flags = match options.access {
        Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Write | Access::Read => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let db = connect(path, options, flags)?;
    if version(&db)? == 0 && options.access != Access::Create {
        return Err(no_store().into());
    }
    log_ahead(&db, options.busy_timeout)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    db.0.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -16384;
         PRAGMA wal_autocheckpoint = {}; PRAGMA journal_size_limit = 67108864;",
        options.log_pages
    ))?;
    db.begin()?;
    for (done, script) in MIGRATIONS.iter().enumerate().skip(version(&db)?) {
        db.0.execute_batch(script)?;
        db.0.pragma_update(None, "application_id", APPLICATION_ID)?;
        db.0.pragma_update(None, "user_version", done + 1)?;
    }
    db.commit()?;
    Ok(db)
}

fn connect(path: &Path, options: &Options, flags: OpenFlags) -> Fallible<Db> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str())?,
        None => Connection::open_with_flags(path, flags)?,
    };
    conn.set_prepared_statement_cache_capacity(128);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?; // No replanning by value.
    let (mut since, timeout) = (Instant::now(), options.busy_timeout);
    // Smaller steps than SQLite's own: a commit is short, and other processes send no wake-up.
    conn.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_micros(100 << tries.clamp(0, 5)));
        since.elapsed() < timeout
    }))?;
    // Must precede the first read, which would already need shared memory.
    if options.sharing == Sharing::Exclusive {
        conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    conn.execute_batch(SETTINGS)?;
    Ok(Db(conn))
}

/// Turns on write-ahead logging. Unlike a transaction, SQLite does not wait for others here.
fn log_ahead(db: &Db, timeout: Duration) -> Fallible<()> {
    let since = Instant::now();
    while let Err(error) = db.0.execute_batch("PRAGMA journal_mode = WAL") {
        let code = error.sqlite_error_code();
        if code != Some(ErrorCode::DatabaseBusy) || since.elapsed() > timeout {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The schema version, 0 for an empty file; an error for a foreign file or a newer version. One
/// query: another process may be creating the file right now.
fn version(db: &Db) -> Fallible<usize> {
    const LOOK: &str = "SELECT iif(application_id = 0 AND (user_version <> 0 OR EXISTS (SELECT 1 FROM sqlite_schema)), -1, application_id) FROM pragma_application_id, pragma_user_version";
    let application: Option<i64> = db.value(LOOK, [])?;
    let version: usize = db.value("PRAGMA user_version", [])?.unwrap_or_default();
    match application {
        Some(0 | APPLICATION_ID) if version <= SCHEMA_VERSION => Ok(version),
        Some(APPLICATION_ID) => Err(StoreError::Unavailable(format!(
            "the store has schema {version}, this build supports {SCHEMA_VERSION}; update runwright"
        ))
        .into()),
        Some(0x5257_7374 | 0x5257_7331) => Err(StoreError::Unavailable(OLD_STORE.into()).into()),
        _ => Err(corrupt("the file is another program's database, not a store").into()),
    }
}

fn no_store() -> StoreError {
    StoreError::Unavailable("the file is empty, not a store; check the path".into())
}

/// Opens a reading connection.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<Db, StoreError> {
    Ok(connect(path, options, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// Checks the schema of a store; it may not be the unfinished destination of a copy.
pub(crate) fn check(db: &Db) -> Result<(), StoreError> {
    match version(db)? {
        0 => return Err(no_store()),
        version if version < SCHEMA_VERSION => {
            return Err(StoreError::Unavailable(format!(
                "the store has the older schema version {version}; open it once for writing"
            )));
        }
        _ => {}
    }
    match db.any("SELECT 1 FROM sqlite_schema WHERE name = 'imports'", [])? {
        true => Err(StoreError::Unavailable(UNFINISHED.into())),
        false => Ok(()),
    }
}
