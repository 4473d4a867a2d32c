//! Reading the snapshot of a run: a loop that writes to a channel, of 10, 1,000 and 100,000 events,
//! with the same values at its end. Each read is done by a new process: it opens the store, folds,
//! renders and prints.

use kernel::run::RunStatus;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kernel::ids::StreamId;
use runtime::engine::EngineOptions;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store_sqlite::Access;

use crate::child::{Child, Order};
use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "snapshot",
    about: "snapshot of runs of 10, 1,000 and 100,000 events by a cold process",
    run,
};

/// Events of a round of the loop: head and writer start and complete, and the channel's write.
const EVENTS_PER_ROUND: usize = 5;
/// Events of a run in addition to those of its rounds.
const EVENTS_AROUND: usize = 4;

/// The read request to a cold process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ask {
    dir: PathBuf,
    run: StreamId,
    from: From,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum From {
    /// As every reader does.
    Checkpoint,
    /// As without a checkpoint.
    Start,
}

/// Its answer.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    micros: f64,
    events: u64,
    bytes: usize,
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let sizes = [10, 1_000, settings.count(100_000)];
    let mut runs = Vec::new();
    for events in sizes {
        runs.push((
            events,
            host::block_on(looped(dir.path(), rounds_for(events)))?,
        ));
    }
    let mut all = Vec::new();
    for from in [From::Checkpoint, From::Start] {
        let name = match from {
            From::Checkpoint => "checkpoint",
            From::Start => "no-checkpoint",
        };
        for (events, run) in &runs {
            let order = Order::Snapshot(Ask {
                dir: dir.path().to_owned(),
                run: run.clone(),
                from,
            });
            let sample = || {
                let answer: Answer = Child::answer_of(&order)?;
                // A run of the wrong size would make its figure wrong.
                if answer.events.abs_diff(*events as u64) > EVENTS_PER_ROUND as u64 {
                    return Err(host::failed(format!(
                        "a run of {} events, not {events}",
                        answer.events
                    )));
                }
                Ok(answer.micros / 1_000.0)
            };
            all.push(Series {
                name: format!("snapshot/{name}/{events}"),
                unit: "ms",
                samples: settings.sample(sample)?,
            });
        }
    }
    Ok(all)
}

fn rounds_for(events: usize) -> usize {
    events
        .saturating_sub(EVENTS_AROUND)
        .div_ceil(EVENTS_PER_ROUND)
}

/// A finished run of `rounds` rounds. The channel ends with the same value for any number.
async fn looped(dir: &Path, rounds: usize) -> io::Result<StreamId> {
    let store = host::sqlite(dir, Access::Create)?;
    let engine = host::engine(store, dir, EngineOptions::default());
    let node = |id: &str, kind: &str, config: serde_json::Value| {
        json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 },
            "config": config, "inputs": {} })
    };
    let edge = |id: &str, from: &str, output: Option<&str>, to: &str| {
        let mut edge = json!({ "id": id, "sourceNodeId": from, "targetNodeId": to });
        if let Some(output) = output {
            edge["sourceOutput"] = json!(output);
        }
        edge
    };
    let definition = json!({
        "id": format!("loop-{rounds}"), "name": "A loop", "version": "1.0.0",
        "nodes": [
            node("head", "core.loop", json!({ "times": rounds, "maxIterations": 100_000 })),
            node("write", "core.channelWrite", json!({ "channel": "state", "value": { "phase": "done" } })),
        ],
        "edges": [
            edge("again", "head", Some("body"), "write"),
            edge("back", "write", None, "head"),
        ],
        "channels": { "state": { "reducer": "replace" } },
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    let prepared = host::prepare(&engine, &definition).await?;
    engine.start();
    let (id, mut new) = host::new_run(&prepared);
    new.policy.max_node_executions = Some(1_000_000);
    new.policy.max_loop_iterations = Some(100_000);
    engine.create(new).await.map_err(host::failed)?;
    let run = engine.settled(&id).await.map_err(host::failed)?;
    if run.status() != RunStatus::Completed {
        return Err(host::failed(format!("the loop ended as {}", run.status())));
    }
    engine.drain(std::time::Duration::from_secs(10)).await;
    Ok(id)
}

/// The cold process: from its first line to the rendered document.
pub(crate) fn child(ask: &Ask, begun: Instant) -> io::Result<Answer> {
    host::block_on(async {
        let store = host::sqlite(&ask.dir, Access::Read)?;
        let engine = host::engine(store, &ask.dir, EngineOptions::default());
        let door = engine.door();
        let run = match ask.from {
            From::Checkpoint => door.load(&ask.run).await,
            From::Start => door.load_prefix(&ask.run, u64::MAX).await,
        }
        .map_err(host::failed)?;
        let text = faces::openwop::v1::snapshot(&run).to_string();
        let micros = begun.elapsed().as_secs_f64() * 1e6;
        let log = door
            .store()
            .load_head(&ask.run)
            .await
            .map_err(host::failed)?;
        Ok(Answer {
            micros,
            events: log.next_seq,
            bytes: text.len(),
        })
    })
}
