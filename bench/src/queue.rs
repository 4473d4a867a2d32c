//! One worker of a queue over HTTP: it takes several tasks with each poll and settles them together.
//!
//! The server is a process of its own, as in `http`; the tasks are requests that wait in the queue
//! before the worker begins. It does nothing with a task but report it.

use std::io;
use std::time::Instant;

use serde_json::{Value, json};

use crate::http::client::Client;
use crate::http::serving::Server;
use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "queue",
    about: "one worker of a queue: tasks a second, taken and settled several at a time",
    run,
};

/// Tasks of a sample.
const TASKS: usize = 2_000;
const QUEUE: &str = "/v1/coordinator/bench";

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let tasks = settings.count(TASKS);
    [1, 16, 64]
        .into_iter()
        .map(|together| {
            let dir = tempfile::tempdir_in(&settings.dir)?;
            let server = Server::start(dir.path())?;
            let mut round = 0;
            let samples = settings.sample(|| {
                round += 1;
                host::block_on(work(&server, round, tasks, together))
            })?;
            server.stop()?;
            Ok(Series {
                name: format!("queue/tasks/{together}"),
                unit: "tasks/s",
                samples,
            })
        })
        .collect()
}

async fn work(server: &Server, round: u32, tasks: usize, together: usize) -> io::Result<f64> {
    let mut client = Client::connect(server.address, &server.key).await?;
    for task in 0..tasks {
        let command = json!({
            "command": "QueueDispatch", "request_id": format!("{round}-{task}"),
            "target": "bench", "metadata": { "n": task },
        });
        let path = format!("{QUEUE}/commands");
        client.ask("POST", &path, &command.to_string()).await?;
    }
    let began = Instant::now();
    let mut done = 0;
    let mut take = 0;
    while done < tasks {
        take += 1;
        let body = json!({
            "worker": "bench", "max": together, "wait_ms": 1_000, "key": format!("{round}-{take}"),
        });
        let path = format!("{QUEUE}/take");
        let answer = client.ask("POST", &path, &body.to_string()).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let ends: Vec<Value> = answer["assignments"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                json!({
                    "assignment_id": one["assignment_id"], "fence": one["fence"],
                    "outputs": { "n": one["task"]["n"] },
                })
            })
            .collect();
        if ends.is_empty() {
            continue;
        }
        done += ends.len();
        let path = format!("{QUEUE}/settle");
        let body = json!({ "assignments": ends }).to_string();
        client.ask("POST", &path, &body).await?;
    }
    Ok(tasks as f64 / began.elapsed().as_secs_f64())
}
