//! The delay of an event from its commit to a subscriber.
//!
//! Server and subscribers share a process here, so that both ends use one clock: an event is
//! stamped when its append has returned durable, and again when its frame arrives over the
//! connection of each subscriber.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use server::listen::Listening;
use store_sqlite::Access;

use super::client::Client;
use super::{node, serving};
use crate::observed::Observed;
use crate::series::Series;
use crate::{Settings, host};

/// Rounds of the run that is watched; each waits a moment and writes a channel.
const ROUNDS: usize = 100;

type Stamps = Arc<Mutex<HashMap<u64, Instant>>>;

/// A run that advances step by step.
pub(super) fn ticking() -> Value {
    json!({
        "id": "ticking", "name": "Ticking", "version": "1.0.0",
        "nodes": [
            node("head", "core.loop", json!({ "times": ROUNDS, "maxIterations": ROUNDS })),
            node("tick", "core.delay", json!({ "delayMs": 10 })),
        ],
        "edges": [
            { "id": "again", "sourceNodeId": "head", "sourceOutput": "body", "targetNodeId": "tick" },
            { "id": "back", "sourceNodeId": "tick", "targetNodeId": "head" },
        ],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

pub(super) fn measure(settings: &Settings, subscribers: usize) -> io::Result<Vec<Series>> {
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..settings.repeat {
        let mut took = host::block_on(sample(settings, subscribers))?;
        took.sort_by(f64::total_cmp);
        let at = |percent: usize| took[(took.len() - 1) * percent / 100];
        p50.push(at(50));
        p99.push(at(99));
    }
    let series = |what: &str, samples| Series {
        name: format!("http/stream-delay-{what}/{subscribers}"),
        unit: "ms",
        samples,
    };
    Ok(vec![series("p50", p50), series("p99", p99)])
}

/// The delays of one run's events, for each subscriber.
async fn sample(settings: &Settings, subscribers: usize) -> io::Result<Vec<f64>> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let stamps = Stamps::default();
    let stamped = Arc::clone(&stamps);
    let store = Observed::new(
        host::sqlite(dir.path(), Access::Create)?,
        move |batch, _, _| {
            let now = Instant::now();
            if batch.index().kind == kernel::stream::StreamKind::Run {
                let seqs = (batch.first_seq()..).take(batch.records().len());
                stamped.lock().extend(seqs.map(|seq| (seq, now)));
            }
        },
    );
    let (engine, app, key) = serving::application(Arc::new(store), dir.path()).await?;
    let listening = Listening::at(([127, 0, 0, 1], 0).into(), app.clone()).await?;
    let address = listening.address();
    let serving = tokio::spawn(listening.serve());

    let mut client = Client::connect(address, &key).await?;
    let order = r#"{"workflowId":"ticking"}"#;
    let created: Value = serde_json::from_slice(&client.ask("POST", "/v1/runs", order).await?)?;
    let path = format!(
        "/v1/runs/{}/events?streamMode=debug",
        created["runId"].as_str().unwrap_or_default()
    );
    let mut tasks = tokio::task::JoinSet::<io::Result<Vec<(u64, Instant)>>>::new();
    for _ in 0..subscribers {
        let (key, path) = (key.clone(), path.clone());
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            client.open(&path).await?;
            let mut seen = Vec::new();
            while let Some(chunk) = client.chunk().await? {
                let now = Instant::now();
                let text = String::from_utf8_lossy(&chunk);
                let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
                seen.extend(ids.filter_map(|id| Some((id.parse().ok()?, now))));
            }
            Ok(seen)
        });
    }
    let mut delays = Vec::new();
    while let Some(seen) = tasks.join_next().await {
        let seen = seen.map_err(host::failed)??;
        let stamps = stamps.lock();
        // Events from before the subscription say nothing about the delay.
        let first_live = seen.len() / 2;
        let live = seen.iter().skip(first_live);
        delays.extend(live.filter_map(|(seq, at)| {
            let committed = stamps.get(seq)?;
            Some(at.saturating_duration_since(*committed).as_secs_f64() * 1_000.0)
        }));
    }
    app.drain();
    engine.drain(std::time::Duration::from_secs(5)).await;
    serving.await.map_err(host::failed)?;
    if delays.is_empty() {
        Err(host::failed("no event of the watched run was seen live"))
    } else {
        Ok(delays)
    }
}
