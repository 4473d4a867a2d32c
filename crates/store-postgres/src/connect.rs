//! Connecting: one host after the other, and what every session has and is checked for.

use std::future::pending;
use std::sync::Once;
use std::time::Duration;

use deadpool_postgres::{Connect, Hook, HookError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The oldest PostgreSQL that is supported, as its `server_version_num`.
const OLDEST_SERVER: i64 = 140_000;

/// Settings of the server that a session is checked for.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync',
    'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'server_version_num',
    'server_encoding', 'default_transaction_isolation')";

const SILENT: &str = "PostgreSQL takes connections and does not answer in time";

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// The hosts of a store, in the order of its URL.
#[derive(Clone)]
pub(crate) struct Hosts {
    /// One host each.
    pub(crate) configs: Vec<Config>,
    pub(crate) tls: MakeRustlsConnect,
}

impl Hosts {
    /// The longest time that connecting takes.
    pub(crate) fn patience(&self) -> Duration {
        self.configs.iter().map(patience).sum()
    }

    /// Connects to the first host that answers in time and takes writes. `None` if none answers.
    pub(crate) async fn connect(
        &self,
    ) -> Option<Result<(Client, Connection<Socket, Stream>), Error>> {
        let mut failed = None;
        for config in &self.configs {
            let connecting = config.connect(self.tls.clone());
            match tokio::time::timeout(patience(config), connecting).await {
                Ok(Ok(connected)) => return Some(Ok(connected)),
                Ok(Err(error)) => failed = Some(Err(error)),
                Err(_) => tracing::debug!(hosts = ?config.get_hosts(), "a host does not answer"),
            }
        }
        failed
    }
}

/// How long one host may take for the whole handshake.
fn patience(config: &Config) -> Duration {
    let given = config.get_connect_timeout().copied();
    given.unwrap_or(Duration::from_secs(10))
}

impl Connect for Hosts {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async {
            let Some(connected) = Self::connect(self).await else {
                // The pool's own time limit follows.
                return pending().await;
            };
            let (client, connection) = connected?;
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL ended");
                }
            });
            Ok((client, task))
        }
        .boxed()
    }
}

/// Checks each new connection, because a failover leads to another server.
pub(crate) fn check(patience: Duration) -> Hook {
    Hook::async_fn(move |client, _| {
        async move {
            let rows = tokio::time::timeout(patience, client.query_typed(SETTINGS, &[])).await;
            let rows = rows.map_err(|_| HookError::message(SILENT))?;
            let rows = rows.map_err(HookError::Backend)?;
            let setting = |wanted: &str| {
                let row = rows.iter().find(|row| row.get::<_, &str>(0) == wanted);
                row.map_or("", |row| row.get(1))
            };
            refusal(setting).map_or(Ok(()), |why| Err(HookError::message(why)))
        }
        .boxed()
    })
}

/// Why a server with these settings cannot have the store.
fn refusal<'a>(setting: impl Fn(&str) -> &'a str) -> Option<String> {
    let version: i64 = setting("server_version_num").parse().unwrap_or_default();
    if version < OLDEST_SERVER {
        return Some(format!(
            "PostgreSQL is too old; version {} or later is needed",
            OLDEST_SERVER / 10_000
        ));
    }
    for name in ["fsync", "full_page_writes", "synchronous_commit"] {
        if setting(name) == "off" {
            return Some(format!(
                "PostgreSQL runs with {name} = off and can lose acknowledged writes; set it to on"
            ));
        }
    }
    let encoding = setting("server_encoding");
    if encoding != "UTF8" {
        return Some(format!(
            "the database has the encoding {encoding}; create it with ENCODING 'UTF8'"
        ));
    }
    let isolation = setting("default_transaction_isolation");
    if isolation != "read committed" {
        return Some(format!(
            "default_transaction_isolation is {isolation}; the store needs read committed"
        ));
    }
    let commit = setting("synchronous_commit");
    if !setting("synchronous_standby_names").is_empty()
        && ["local", "remote_write"].contains(&commit)
    {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                "synchronous_commit = {commit}: a failover to a standby can lose acknowledged writes"
            );
        });
    }
    None
}
