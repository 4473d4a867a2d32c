//! Durable appends: the engine driving three-step runs, the bare store with the same batches, and
//! the raw log with as many bytes, all in one run.
//!
//! Each step's outcome is durable before the next step starts, and batches are not merged: a run of
//! three steps is four batches (creation and first start; one per step's end). The engine's side
//! includes the whole cost of a run in one process: ids, folding, deciding, leases, tasks. Each
//! sample begins with an empty store in a new folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use kernel::batch::Batch;
use kernel::ids::StreamId;
use parking_lot::Mutex;
use runtime::engine::EngineOptions;
use serde_json::{Value, json};
use store::memory::MemoryStore;
use store::{Guard, LeaseChange, SystemClock, group};
use store_sqlite::Access;

use crate::observed::Observed;
use crate::raw_log::RawLog;
use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "appends",
    about: "three-step runs: engine, bare store and raw log, by waiting writers",
    run,
};

/// The arguments of an append.
type Append = (Batch, Guard, LeaseChange);

/// Batches of a three-step run without merging.
const BATCHES: usize = 4;

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let mut all = Vec::new();
    for writers in settings.writers() {
        all.extend(with_writers(settings, writers)?);
    }
    Ok(all)
}

/// The result of one sample.
#[derive(Clone, Copy)]
struct Found {
    raw: f64,
    store: f64,
    engine: f64,
    runs: f64,
    commits_per_run: f64,
}

fn with_writers(settings: &Settings, writers: usize) -> io::Result<Vec<Series>> {
    let runs = settings.count(match writers {
        1 => 3_000,
        16 => 10_000,
        _ => 20_000,
    });
    let recorded = host::block_on(record(settings, runs))?;
    let events: usize = recorded
        .iter()
        .flatten()
        .map(|(batch, ..)| batch.records().len())
        .sum();
    let bytes: usize = recorded
        .iter()
        .flatten()
        .flat_map(|(batch, ..)| batch.records())
        .map(|record| record.content.len())
        .sum();
    let mean = bytes / events;
    let recorded = Arc::new(recorded);
    let log = RawLog::create(&settings.dir)?;
    let mut found = Vec::new();
    for _ in 0..settings.repeat {
        let raw = log.append(writers, mean, settings.duration)?;
        let store = host::block_on(bare(settings, writers, Arc::clone(&recorded)))?;
        let (engine, commits) = host::block_on(driven(settings, writers, runs))?;
        found.push(Found {
            raw,
            store: events as f64 / store,
            engine: events as f64 / engine,
            runs: runs as f64 / engine,
            commits_per_run: commits as f64 / runs as f64,
        });
    }
    let series = |what: &str, unit, of: fn(&Found) -> f64| Series {
        name: format!("appends/{what}/{writers}"),
        unit,
        samples: found.iter().map(of).collect(),
    };
    Ok(vec![
        series("raw-log", "events/s", |found| found.raw),
        series("store", "events/s", |found| found.store),
        series("engine", "events/s", |found| found.engine),
        series("engine-to-store", "%", |found| {
            found.engine / found.store * 100.0
        }),
        series("three-step-runs", "runs/s", |found| found.runs),
        series("commits-per-run", "commits", |found| found.commits_per_run),
    ])
}

pub(crate) fn three_steps() -> Value {
    let node = |id| {
        json!({ "id": id, "typeId": "core.noop", "name": id, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {} })
    };
    let edge = |id, from, to| json!({ "id": id, "sourceNodeId": from, "targetNodeId": to });
    json!({
        "id": "three-steps", "name": "Three steps", "version": "1.0.0",
        "nodes": [node("a"), node("b"), node("c")],
        "edges": [edge("a-b", "a", "b"), edge("b-c", "b", "c")],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

fn options(writers: usize) -> EngineOptions {
    EngineOptions {
        max_runs: writers.max(256),
        max_attempts: writers.max(64),
        ..EngineOptions::default()
    }
}

/// Records the appends of an engine that drives `runs` runs.
async fn record(settings: &Settings, runs: usize) -> io::Result<Vec<Vec<Append>>> {
    let appends = Arc::new(Mutex::new(BTreeMap::<StreamId, Vec<Append>>::new()));
    let noted = Arc::clone(&appends);
    let memory = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let store = Observed::new(memory, move |batch, guard, lease| {
        let append = (batch.clone(), guard, lease.clone());
        let mut noted = noted.lock();
        noted
            .entry(batch.stream().clone())
            .or_default()
            .push(append);
    });
    let engine = host::engine(Arc::new(store), &settings.dir, options(64));
    let prepared = host::prepare(&engine, &three_steps()).await?;
    let driver = engine.clone();
    host::concurrently(64, runs, move |_| {
        let (engine, prepared) = (driver.clone(), prepared.clone());
        async move { host::run_to_end(&engine, &prepared).await.map(drop) }
    })
    .await?;
    engine.drain(std::time::Duration::from_secs(10)).await;
    let recorded: Vec<_> = std::mem::take(&mut *appends.lock()).into_values().collect();
    if recorded.len() != runs || recorded.iter().any(|batches| batches.len() != BATCHES) {
        return Err(host::failed(
            "a three-step run is no longer four batches: the benchmark measures something else",
        ));
    }
    Ok(recorded)
}

/// Seconds the bare store takes for the recorded batches.
async fn bare(
    settings: &Settings,
    writers: usize,
    recorded: Arc<Vec<Vec<Append>>>,
) -> io::Result<f64> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let store = host::sqlite(dir.path(), Access::Create)?;
    // The definition the batches refer to.
    let engine = host::engine(Arc::clone(&store), dir.path(), options(writers));
    host::prepare(&engine, &three_steps()).await?;
    let begun = Instant::now();
    let writing = Arc::clone(&store);
    let total = recorded.len();
    host::concurrently(writers, total, move |turn| {
        let (store, recorded) = (Arc::clone(&writing), Arc::clone(&recorded));
        async move {
            for (batch, guard, lease) in &recorded[turn] {
                store
                    .append(batch.clone(), *guard, lease.clone())
                    .await
                    .map_err(host::failed)?;
            }
            Ok(())
        }
    })
    .await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Drives `runs` runs. Returns the seconds the engine takes and the number of its transactions.
async fn driven(settings: &Settings, writers: usize, runs: usize) -> io::Result<(f64, u64)> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let store = host::sqlite(dir.path(), Access::Create)?;
    let engine = host::engine(store, dir.path(), options(writers));
    let prepared = host::prepare(&engine, &three_steps()).await?;
    engine.start();
    let before = group::commits();
    let begun = Instant::now();
    let driver = engine.clone();
    host::concurrently(writers, runs, move |_| {
        let (engine, prepared) = (driver.clone(), prepared.clone());
        async move { host::run_to_end(&engine, &prepared).await.map(drop) }
    })
    .await?;
    let seconds = begun.elapsed().as_secs_f64();
    let commits = group::commits() - before;
    engine.drain(std::time::Duration::from_secs(10)).await;
    Ok((seconds, commits))
}
