//! The server's side: the product's server in its own process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;

use kernel::audit::Actor;
use runtime::access::{ApiKeys, AuthOptions, Authenticator, NewKey, Scopes};
use runtime::api::Api;
use runtime::authority::Authority;
use runtime::engine::EngineOptions;
use serde::{Deserialize, Serialize};
use server::{App, Gate, Limits, listen::Listening};
use store::{Store, group};
use store_sqlite::Access;

use crate::child::Order;
use crate::host;

/// The request to a server process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ask {
    dir: PathBuf,
}

/// Printed once the server listens.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Address {
    address: SocketAddr,
    key: String,
}

/// Printed at the end of the server process.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Spent {
    pub(crate) peak_mib: f64,
    pub(crate) commits: u64,
}

/// A server process. It is killed on drop, unless it was stopped.
pub(crate) struct Server {
    process: Process,
    says: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

impl Server {
    /// Starts a server over a store in a folder, with every definition registered.
    pub(crate) fn start(dir: &Path) -> io::Result<Self> {
        let order = Order::Serve(Ask {
            dir: dir.to_owned(),
        });
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--child", &serde_json::to_string(&order)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let stdout = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut says = BufReader::new(stdout);
        let mut line = String::new();
        says.read_line(&mut line)?;
        let Address { address, key } = serde_json::from_str(&line)?;
        Ok(Self {
            process,
            says,
            address,
            key,
        })
    }

    /// Stops it in order and returns its usage.
    pub(crate) fn stop(mut self) -> io::Result<Spent> {
        drop(self.process.stdin.take());
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        self.process.wait()?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped one has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A key with all scopes, and an application that checks it.
pub(super) async fn application(
    store: Arc<dyn Store>,
    dir: &Path,
) -> io::Result<(runtime::Engine, App, String)> {
    let options = EngineOptions {
        max_runs: 2_048,
        authority: Some(Authority::default()),
        ..EngineOptions::default()
    };
    let engine = host::engine(Arc::clone(&store), dir, options);
    let by = Actor {
        principal: "bench".into(),
        issuer: None,
        request_id: None,
    };
    for definition in super::definitions() {
        let prepared = host::prepare(&engine, &definition).await?;
        let (door, tenant) = (engine.door(), host::tenant());
        let put = door.put_workflow(&tenant, &prepared.definition, &by);
        put.await.map_err(host::failed)?;
    }
    let new = NewKey {
        principal: None,
        workspace: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
        name: None,
        expires_at: None,
    };
    let keys = ApiKeys::new(engine.door().clone());
    let issued = keys.create(&host::tenant(), new, &by).await;
    let key = issued.map_err(host::failed)?.token.reveal().to_owned();
    let authenticator = Authenticator::new(store, AuthOptions::default());
    let gate = Gate::Bearer(Arc::new(authenticator));
    let app = App::new(Api::new(engine.clone()), gate, Limits::default());
    engine.start();
    app.ready();
    Ok((engine, app, key))
}

/// The server process: prints its address, serves until its input ends, prints its usage.
pub(crate) fn child(ask: &Ask) -> io::Result<Spent> {
    host::block_on(async {
        let store = host::sqlite(&ask.dir, Access::Create)?;
        let (engine, app, key) = application(store, &ask.dir).await?;
        let listening = Listening::at(([127, 0, 0, 1], 0).into(), app.clone()).await?;
        let address = listening.address();
        let mut stdout = io::stdout();
        let line = serde_json::to_string(&Address { address, key })?;
        writeln!(stdout, "{line}")?;
        stdout.flush()?;
        let before = group::commits();
        let serving = tokio::spawn(listening.serve());
        tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()))
            .await
            .map_err(host::failed)??;
        let spent = Spent {
            peak_mib: host::peak_mib()?,
            commits: group::commits() - before,
        };
        app.drain();
        engine.drain(std::time::Duration::from_secs(5)).await;
        serving.await.map_err(host::failed)?;
        Ok(spent)
    })
}
