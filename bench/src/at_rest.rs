//! A store with many runs at rest: 100,000 finished and 100,000 parked on timers in the far future.
//! A fresh process opens it and starts an engine; the timer of one more run is due.

use kernel::run::RunStatus;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::ids::StreamId;
use runtime::engine::EngineOptions;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store_sqlite::Access;

use crate::child::{Child, Order};
use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "at-rest",
    about: "open a store of 100,000 finished and 100,000 parked runs: time, memory, first due run",
    run,
};

/// Runs that are created concurrently.
const WRITERS: usize = 256;
/// Longer than a driver keeps an idle lease, so that the run is parked.
const DUE_AFTER: Duration = Duration::from_millis(1_500);

/// The request to a fresh process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ask {
    dir: PathBuf,
    due: StreamId,
}

/// Its measurements.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Found {
    /// Until the store was open.
    open_ms: f64,
    /// Until the due run had settled.
    driven_ms: f64,
    /// The most memory the process ever had.
    peak_mib: f64,
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let each = settings.count(100_000);
    host::block_on(fill(dir.path(), each))?;
    let bytes = std::fs::metadata(dir.path().join("bench.db"))?.len();
    let mut found = Vec::new();
    for _ in 0..settings.repeat {
        let (due, at) = host::block_on(park_one(dir.path()))?;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let order = Order::AtRest(Ask {
            dir: dir.path().to_owned(),
            due,
        });
        found.push(Child::answer_of::<Found>(&order)?);
    }
    let series = |what: &str, unit, of: fn(&Found) -> f64| Series {
        name: format!("at-rest/{what}/{each}+{each}"),
        unit,
        samples: found.iter().map(of).collect(),
    };
    Ok(vec![
        series("open", "ms", |found| found.open_ms),
        series("first-due-run", "ms", |found| found.driven_ms),
        series("peak-memory", "MiB", |found| found.peak_mib),
        Series {
            name: format!("at-rest/file/{each}+{each}"),
            unit: "MiB",
            samples: vec![bytes as f64 / f64::from(1 << 20)],
        },
    ])
}

fn definition(id: &str, delay: Option<Duration>) -> serde_json::Value {
    let node = |id: &str, kind: &str, config: serde_json::Value| {
        json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 },
            "config": config, "inputs": {} })
    };
    let first = match delay {
        Some(delay) => node(
            "a",
            "core.delay",
            json!({ "delayMs": delay.as_millis() as u64 }),
        ),
        None => node("a", "core.noop", json!({})),
    };
    json!({
        "id": id, "name": id, "version": "1.0.0",
        "nodes": [first, node("b", "core.noop", json!({}))],
        "edges": [{ "id": "a-b", "sourceNodeId": "a", "targetNodeId": "b" }],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

async fn fill(dir: &Path, each: usize) -> io::Result<()> {
    let store = host::sqlite(dir, Access::Create)?;
    let options = EngineOptions {
        max_runs: WRITERS,
        ..EngineOptions::default()
    };
    let engine = host::engine(store, dir, options);
    let finished = host::prepare(&engine, &definition("finished", None)).await?;
    let month = Duration::from_secs(30 * 24 * 3_600);
    let parked = host::prepare(&engine, &definition("parked", Some(month))).await?;
    let driver = engine.clone();
    host::concurrently(WRITERS, 2 * each, move |turn| {
        let (engine, finished, parked) = (driver.clone(), finished.clone(), parked.clone());
        async move {
            if turn < each {
                return host::run_to_end(&engine, &finished).await.map(drop);
            }
            let (_, new) = host::new_run(&parked);
            engine.create(new).await.map(drop).map_err(host::failed)
        }
    })
    .await?;
    engine.drain(Duration::from_secs(60)).await;
    Ok(())
}

/// A run whose timer is due soon, parked by an engine that has ended.
async fn park_one(dir: &Path) -> io::Result<(StreamId, Instant)> {
    let store = host::sqlite(dir, Access::Write)?;
    let engine = host::engine(store, dir, EngineOptions::default());
    let prepared = host::prepare(&engine, &definition("soon", Some(DUE_AFTER))).await?;
    let (id, new) = host::new_run(&prepared);
    engine.create(new).await.map_err(host::failed)?;
    let at = Instant::now() + DUE_AFTER;
    engine.drain(Duration::from_secs(10)).await;
    Ok((id, at))
}

/// The fresh process.
pub(crate) fn child(ask: &Ask, begun: Instant) -> io::Result<Found> {
    let millis = || begun.elapsed().as_secs_f64() * 1_000.0;
    host::block_on(async {
        let store = host::sqlite(&ask.dir, Access::Write)?;
        let open_ms = millis();
        let engine = host::engine(store, &ask.dir, EngineOptions::default());
        engine.start();
        let run = engine.settled(&ask.due).await.map_err(host::failed)?;
        let driven_ms = millis();
        if run.status() != RunStatus::Completed {
            return Err(host::failed(format!("the due run is {}", run.status())));
        }
        engine.drain(Duration::from_secs(10)).await;
        Ok(Found {
            open_ms,
            driven_ms,
            peak_mib: host::peak_mib()?,
        })
    })
}
