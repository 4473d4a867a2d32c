//! The setup for benchmarks of the engine: a store in a folder, an engine over it, workflows.

use std::io;
use std::path::Path;
use std::sync::Arc;

use kernel::ids::{StreamId, TenantId};
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use runtime::engine::{Engine, EngineOptions, NewRun, new_run_id};
use runtime::keyring::FileKeyring;
use runtime::nodes::{Ports, Registry};
use runtime::outbound::Outbound;
use runtime::plans::Prepared;
use runtime::secrets::SecretSources;
use runtime::supervisor::Supervisor;
use serde_json::{Map, Value};
use store::Store;
use store_sqlite::{Access, Options, SqliteStore};

/// The tenant of the benchmarks' runs.
pub(crate) fn tenant() -> TenantId {
    TenantId::new("bench")
}

/// Any error, as the benchmarks report it.
pub(crate) fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// The store of the product with its default durability: `synchronous=FULL`.
pub(crate) fn sqlite(dir: &Path, access: Access) -> io::Result<Arc<dyn Store>> {
    let options = Options {
        access,
        ..Options::default()
    };
    let store = SqliteStore::open(dir.join("bench.db"), options).map_err(failed)?;
    Ok(Arc::new(store))
}

/// An engine with the product's nodes, without runs.
pub(crate) fn engine(store: Arc<dyn Store>, dir: &Path, options: EngineOptions) -> Engine {
    let ports = Ports {
        // Unused: the benchmarks start no process from nodes.
        supervisor: Supervisor {
            program: "/bin/false".into(),
            dir: dir.join("attempts"),
        },
        outbound: Outbound::default(),
        secrets: Arc::new(SecretSources::none()),
        models: Default::default(),
        keyring: Arc::new(FileKeyring::new(dir.join("keyring.json"))),
        workdir: dir.to_owned(),
        programs: Arc::default(),
    };
    Engine::new(store, Arc::new(Registry::standard()), ports, options)
}

/// Checks a definition and puts it into the engine's store.
pub(crate) async fn prepare(engine: &Engine, definition: &Value) -> io::Result<Prepared> {
    let door = engine.door();
    door.plans()
        .prepare(
            &**door.store(),
            &tenant(),
            definition.to_string().as_bytes(),
        )
        .await
        .map_err(|error| match error {
            runtime::plans::PlanError::Invalid(problems) => failed(problems),
            error @ runtime::plans::PlanError::VersionTaken => failed(error),
            runtime::plans::PlanError::Store(error) => failed(error),
        })
}

/// A run of a prepared definition, driven at once by its creator.
pub(crate) fn new_run(prepared: &Prepared) -> (StreamId, NewRun) {
    let id = new_run_id();
    let new = NewRun {
        owner: Owner::tenant(tenant()),
        prepared: prepared.clone(),
        create: Create {
            inputs: Map::new(),
            transport: "bench".into(),
            engine_version: 1,
            tags: Vec::new(),
            metadata: Map::new(),
            configurable: Map::new(),
            start: Start::Now,
            request_id: None,
            announces_budget: true,
        },
        policy: Policy::default(),
        trace: None,
        id: Some(id.clone()),
        nonce: None,
        keys: Vec::new(),
    };
    (id, new)
}

/// Creates a run and waits until it has settled, by hints alone, without reading the store.
pub(crate) async fn run_to_end(engine: &Engine, prepared: &Prepared) -> io::Result<StreamId> {
    let (id, new) = new_run(prepared);
    let mut progress = engine.door().hints().watch(&id);
    engine.create(new).await.map_err(failed)?;
    progress.settled().await;
    Ok(id)
}

/// Runs `total` repetitions on `workers` concurrent tasks.
pub(crate) async fn concurrently<F, Fut>(workers: usize, total: usize, each: F) -> io::Result<()>
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = io::Result<()>> + Send + 'static,
{
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::<io::Result<()>>::new();
    for _ in 0..workers {
        let (next, each) = (Arc::clone(&next), each.clone());
        tasks.spawn(async move {
            loop {
                let turn = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if turn >= total {
                    return Ok(());
                }
                each(turn).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(failed)??;
    }
    Ok(())
}

/// The runtime of the product: one worker per core.
pub(crate) fn block_on<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// The most memory this process ever had resident.
pub(crate) fn peak_mib() -> io::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .and_then(|text| text.trim().parse::<f64>().ok())
        .ok_or_else(|| failed("the system does not say how much memory a process had"))?;
    Ok(kib / 1_024.0)
}
