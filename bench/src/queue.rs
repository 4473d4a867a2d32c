//! One worker of a queue over HTTP. It takes several tasks with each poll and settles them
//! together.
//!
//! As in `http`, the server is its own process. The tasks are requests that wait in the queue
//! before the worker begins, and the worker only reports them. `runwright worker`, with a program
//! for each task and with programs that it keeps running, and the libraries for Python and
//! TypeScript are compared with a bare client.

use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs};

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
/// The libraries for workers.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");

/// Answers each line with empty outputs.
const ANSWERS: [&str; 3] = [
    "sed",
    "-u",
    r#"s/.*"assignment_id":"\([^"]*\)".*/{"assignment_id":"\1","outputs":{}}/"#,
];

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let mut series = bare(settings)?;
    let typescript = tempfile::tempdir_in(&settings.dir)?;
    let mut workers: Vec<(&str, Box<Start>)> = vec![
        (
            "program",
            Box::new(|server, slots| ours(server, slots, &[], &["true"])),
        ),
        (
            "kept",
            Box::new(|server, slots| ours(server, slots, &["--keep-running"], &ANSWERS)),
        ),
        ("python", Box::new(python)),
    ];
    if compile_typescript(typescript.path())? {
        let script = typescript.path().join("dist/examples/noop.js");
        let start = move |server: &Server, slots: &str| {
            let mut command = Command::new("node");
            command.arg(&script).args([&url(server), slots]);
            Ok(command)
        };
        workers.push(("typescript", Box::new(start)));
    }
    for (name, start) in &workers {
        for slots in ["1", "16", "64"] {
            series.push(worker(settings, name, slots, start)?);
        }
    }
    Ok(series)
}

/// Makes the command of a worker from the server and the number of concurrent tasks. The worker
/// prints a line of JSON with `"status": "delivered"` for each task it settled.
type Start = dyn Fn(&Server, &str) -> io::Result<Command>;

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// `runwright worker` with these options and this program.
fn ours(server: &Server, slots: &str, options: &[&str], program: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(exec::ours()?);
    command
        .args([
            "worker",
            "--queue",
            "bench",
            "--json",
            "--server",
            &url(server),
        ])
        .args(["--concurrency", slots])
        .args(options)
        .arg("--")
        .args(program);
    Ok(command)
}

/// A worker of the library for Python.
fn python(server: &Server, slots: &str) -> io::Result<Command> {
    let mut command = Command::new("python3");
    command
        .args(["-c", include_str!("queue/noop.py"), &url(server), slots])
        .env("PYTHONPATH", format!("{CLIENTS}/python"));
    Ok(command)
}

/// Compiles the library for TypeScript with its no-op worker. `false` without the compiler, which
/// `cargo xtask bench` installs.
fn compile_typescript(to: &Path) -> io::Result<bool> {
    let Some(modules) = env::var_os("RUNWRIGHT_TYPESCRIPT_MODULES") else {
        eprintln!("without the worker for TypeScript: its compiler is missing");
        return Ok(false);
    };
    let from = Path::new(CLIENTS).join("typescript");
    for folder in ["src", "examples"] {
        fs::create_dir(to.join(folder))?;
    }
    for entry in fs::read_dir(from.join("src"))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join("src").join(entry.file_name()))?;
    }
    for file in ["package.json", "tsconfig.json"] {
        fs::copy(from.join(file), to.join(file))?;
    }
    fs::write(to.join("examples/noop.ts"), include_str!("queue/noop.ts"))?;
    symlink(
        Path::new(&modules).join("node_modules"),
        to.join("node_modules"),
    )?;
    let compiled = Command::new("node")
        .args(["node_modules/typescript/bin/tsc", "-p", "."])
        .current_dir(to)
        .status()?;
    match compiled.success() {
        true => Ok(true),
        false => Err(host::failed("the worker for TypeScript does not compile")),
    }
}

/// The rate of one worker, from the first settled task to the last.
fn worker(settings: &Settings, name: &str, slots: &str, start: &Start) -> io::Result<Series> {
    let tasks = settings.count(TASKS);
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let server = Server::start(dir.path())?;
    let mut round = 0;
    let samples = settings.sample(|| {
        round += 1;
        host::block_on(fill(&server, round, tasks))?;
        let mut worker = start(&server, slots)?
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
        name: format!("queue/{name}/{slots}"),
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
