//! One worker of a queue over HTTP. It takes several tasks with each poll and settles them
//! together.
//!
//! As in `http`, the server is its own process. The tasks are requests that wait in the queue
//! before the worker begins, and the worker only reports them. `runwright worker` is compared with
//! a bare client: with a program for each task, and with programs that it keeps running.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::http::client::Client;
use crate::http::serving::Server;
use crate::series::Series;
use crate::{Benchmark, Settings, exec, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "queue",
    about: "one worker of a queue: tasks a second, taken and settled several at a time",
    run,
};

/// Tasks of a sample.
const TASKS: usize = 2_000;
const QUEUE: &str = "/v1/coordinator/bench";

/// Answers each line with empty outputs.
const ANSWERS: [&str; 3] = [
    "sed",
    "-u",
    r#"s/.*"assignment_id":"\([^"]*\)".*/{"assignment_id":"\1","outputs":{}}/"#,
];

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let mut series = bare(settings)?;
    for (name, more, program) in [
        ("program", &[][..], &["true"][..]),
        ("kept", &["--keep-running"], &ANSWERS),
    ] {
        for concurrency in ["1", "16", "64"] {
            let options = [&["--concurrency", concurrency], more].concat();
            series.push(worker(settings, name, &options, program)?);
        }
    }
    Ok(series)
}

/// `runwright worker` with these options and this program.
fn worker(
    settings: &Settings,
    name: &str,
    options: &[&str],
    program: &[&str],
) -> io::Result<Series> {
    let tasks = settings.count(TASKS);
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let server = Server::start(dir.path())?;
    let mut round = 0;
    let samples = settings.sample(|| {
        round += 1;
        host::block_on(fill(&server, round, tasks))?;
        let mut worker = Command::new(exec::ours()?)
            .args(["worker", "--queue", "bench", "--json", "--server"])
            .arg(format!("http://{}", server.address))
            .args(options)
            .arg("--")
            .args(program)
            .env("RUNWRIGHT_KEY", &server.key)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = worker.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (mut began, mut done) = (None, 0);
        for line in BufReader::new(stdout).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            began.get_or_insert_with(Instant::now);
            done += usize::from(line["status"] == "delivered");
            if done == tasks {
                break;
            }
        }
        let took = began.map(|began| began.elapsed());
        // Its work is done.
        worker.kill()?;
        worker.wait()?;
        match took.filter(|_| done == tasks) {
            Some(took) => Ok(tasks as f64 / took.as_secs_f64()),
            None => Err(host::failed("the worker ended before its tasks")),
        }
    })?;
    server.stop()?;
    Ok(Series {
        name: format!("queue/{name}/{}", options[1]),
        unit: "tasks/s",
        samples,
    })
}

/// A client that only takes and settles.
fn bare(settings: &Settings) -> io::Result<Vec<Series>> {
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

/// Puts tasks into the queue.
async fn fill(server: &Server, round: u32, tasks: usize) -> io::Result<()> {
    let mut client = Client::connect(server.address, &server.key).await?;
    for task in 0..tasks {
        let command = json!({
            "command": "QueueDispatch", "request_id": format!("{round}-{task}"),
            "target": "bench", "metadata": { "n": task },
        });
        let path = format!("{QUEUE}/commands");
        client.ask("POST", &path, &command.to_string()).await?;
    }
    Ok(())
}

async fn work(server: &Server, round: u32, tasks: usize, together: usize) -> io::Result<f64> {
    fill(server, round, tasks).await?;
    let mut client = Client::connect(server.address, &server.key).await?;
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
