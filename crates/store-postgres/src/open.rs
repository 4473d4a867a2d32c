//! Opening a database: the kind of connection, settings, migrations.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use store::{Access, StoreError};
use tokio_postgres::GenericClient;
use tokio_postgres::error::SqlState;

use crate::address::Address;
use crate::connect::{self, Hosts};
use crate::db::{Db, Fallible, Fault, Statements};
use crate::options::Options;
use crate::tls;

/// One script per version, committed together with its number; never edited after a release.
const MIGRATIONS: &[&[&str]] = &[&[
    include_str!("../schema/0001_tables.sql"),
    include_str!("../schema/0001_append.sql"),
    include_str!("../schema/0001_calls.sql"),
    include_str!("../schema/0001_walls.sql"),
]];

const OLD_STORE: &str = "the store is older than the first release; use a new database, or drop \
    the schema runwright with everything in it";

/// The version of the schema that this build writes and reads.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// Marks the session of a direct connection; a pooler does not pass it on. Statements that are not of
/// a tenant are the store's own work. No statement waits for a lock longer than a lease can wait for
/// its renewal.
const DIRECT: &str = "-c runwright.session=direct -c runwright.scope=all -c lock_timeout=3s \
    -c default_transaction_isolation=read\\ committed";

/// Only one process migrates at a time.
const LOCK_MIGRATIONS: &str =
    "SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock(1381446468, 2)";
const BEGIN_SCHEMA: &str = "DO $$ BEGIN
    IF to_regnamespace('runwright') IS NULL THEN CREATE SCHEMA runwright; END IF;
  END $$;
  CREATE TABLE IF NOT EXISTS runwright.migrations (
    version bigint PRIMARY KEY, migrated_at timestamptz NOT NULL DEFAULT now());";

/// Opens the database; creates or migrates the schema where the options allow it.
pub(crate) async fn open(address: &Address, options: &Options) -> Result<Db, StoreError> {
    let db = connect(address, options).await?;
    let mut client = db.pool.get().await.map_err(Fault::from)?;
    let found = version(&**client).await?;
    match (found, options.access) {
        (Some(SCHEMA_VERSION), _) => {}
        (Some(newer), _) if newer > SCHEMA_VERSION => {
            return Err(StoreError::Unavailable(format!(
                "the store has schema version {newer}, this build knows {SCHEMA_VERSION}; update runwright"
            )));
        }
        (None, Access::Write | Access::Read) => {
            return Err(StoreError::Unavailable(format!(
                "{address} has no store yet; create one with a command such as `runwright serve`"
            )));
        }
        (Some(older), Access::Read) => {
            return Err(StoreError::Unavailable(format!(
                "the store has the older schema version {older}; open it once for writing"
            )));
        }
        (_, Access::Create | Access::Write) => migrate(&mut client).await?,
    }
    drop(client);
    Ok(db)
}

/// Connects, and finds out whether there is a pooler between.
async fn connect(address: &Address, options: &Options) -> Result<Db, StoreError> {
    let hosts = Hosts {
        configs: address.hosts.clone(),
        tls: tls::connector(address)?,
    };
    let mut marked = hosts.clone();
    for config in &mut marked.configs {
        let options_of_session = match config.get_options() {
            Some(given) => format!("{given} {DIRECT}"),
            None => DIRECT.to_owned(),
        };
        config.options(options_of_session);
    }
    let pool = pool(address, marked, options)?;
    match is_direct(&pool).await {
        Ok(true) => Ok(db(pool, Statements::Prepared, hosts)),
        // A pooler refuses the mark, or drops it.
        Ok(false) => unnamed(address, hosts, options),
        Err(fault) if fault.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {
            unnamed(address, hosts, options)
        }
        Err(fault) => Err(fault.into()),
    }
}

fn unnamed(address: &Address, hosts: Hosts, options: &Options) -> Result<Db, StoreError> {
    tracing::info!(
        "{address} is reached through a pooler: statements are not prepared, and appends of other servers are found by polling"
    );
    let pool = pool(address, hosts.clone(), options)?;
    Ok(db(pool, Statements::Unnamed, hosts))
}

fn db(pool: Pool, statements: Statements, hosts: Hosts) -> Db {
    // Every hasher of the standard library starts from other random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    Db::new(pool, statements, random.cast_signed(), hosts)
}

fn pool(address: &Address, hosts: Hosts, options: &Options) -> Result<Pool, StoreError> {
    let recycling_method = RecyclingMethod::Fast;
    // Every host is tried before connecting fails.
    let patience = hosts.patience();
    let create = patience + Duration::from_secs(1);
    let manager = Manager::from_connect(
        address.config.clone(),
        hosts,
        ManagerConfig { recycling_method },
    );
    let pool = Pool::builder(manager)
        .max_size(options.connections.max(2))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.connection_timeout))
        .create_timeout(Some(create))
        .post_create(connect::check(patience))
        .build();
    pool.map_err(|error| StoreError::Unavailable(format!("no pool of connections: {error}")))
}

async fn is_direct(pool: &Pool) -> Fallible<bool> {
    let client = pool.get().await?;
    let sql = "SELECT coalesce(current_setting('runwright.session', true), '') = 'direct'";
    let rows = client.query_typed(sql, &[]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// The version of the schema; `None` in a database without a store. The table `versions` is that of
/// development builds, whose versions are not those of this build.
async fn version(client: &impl GenericClient) -> Result<Option<usize>, StoreError> {
    let tables = "SELECT to_regclass('runwright.migrations') IS NOT NULL,
        to_regclass('runwright.versions') IS NOT NULL";
    let rows = client.query_typed(tables, &[]).await.map_err(Fault::from)?;
    let has = |nth| rows.first().is_some_and(|row| row.get(nth));
    if has(1) {
        return Err(StoreError::Unavailable(OLD_STORE.into()));
    }
    if !has(0) {
        return Ok(None);
    }
    let newest = "SELECT max(version) FROM runwright.migrations";
    let rows = client.query_typed(newest, &[]).await.map_err(Fault::from)?;
    let newest: Option<i64> = rows.first().and_then(|row| row.get(0));
    Ok(newest.and_then(|version| usize::try_from(version).ok()))
}

async fn migrate(client: &mut deadpool_postgres::Object) -> Result<(), StoreError> {
    let client: &mut tokio_postgres::Client = client;
    let transaction = client.transaction().await.map_err(Fault::from)?;
    let run = async |sql: &str| transaction.batch_execute(sql).await.map_err(Fault::from);
    run(LOCK_MIGRATIONS).await?;
    run(BEGIN_SCHEMA).await?;
    let done = version(&transaction).await?.unwrap_or_default();
    for (before, scripts) in MIGRATIONS.iter().enumerate().skip(done) {
        for script in *scripts {
            run(script).await?;
        }
        let version = before + 1;
        run(&format!(
            "INSERT INTO runwright.migrations (version) VALUES ({version})"
        ))
        .await?;
    }
    transaction.commit().await.map_err(Fault::from)?;
    Ok(())
}
