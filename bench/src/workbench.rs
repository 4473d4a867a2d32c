//! Workbench runs saved, read and listed over HTTP, beside an Express server that only keeps
//! parsed bodies in memory. Ours is durable: a save is answered when it is on disk.
//!
//! The Express server needs Node.js and `RUNWRIGHT_NODE_MODULES`, a folder with `express`; without
//! it only our own figures are taken.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::http::client::Client;
use crate::http::serving::Server;
use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "workbench",
    about: "workbench runs over HTTP beside an Express server in memory: saves, reads, a list",
    run,
};

/// Saves of a run before the next one begins.
const SAVES: u64 = 20;
/// Runs that a list of 500 is taken from.
const LISTED: usize = 10_000;

/// What is asked for again and again.
#[derive(Clone, Copy)]
enum Job {
    /// Save a run of about so many bytes, each time with one event more.
    Put(usize),
    /// Read a run of about so many bytes.
    Get(usize),
    /// List 500 runs.
    List,
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let jobs = [
        ("put-10k/8", 8, Job::Put(10 << 10)),
        ("put-1m/2", 2, Job::Put(1 << 20)),
        ("get-1m/2", 2, Job::Get(1 << 20)),
        ("list-500/2", 2, Job::List),
    ];
    let mut all = Vec::new();
    for (name, clients, job) in jobs {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // Turn by turn, so that both meet the same machine.
        for _ in 0..settings.repeat {
            let dir = tempfile::tempdir_in(&settings.dir)?;
            let server = Server::start(dir.path())?;
            let target = (server.address, server.key.as_str());
            ours.push(host::block_on(work(settings, target, clients, job))?);
            server.stop()?;
            if let Some(express) = Express::start(dir.path())? {
                let target = (express.address, "");
                theirs.push(host::block_on(work(settings, target, clients, job))?);
            }
        }
        let series = |who: &str, samples: Vec<f64>| Series {
            name: format!("workbench/{name}/{who}"),
            unit: "requests/s",
            samples,
        };
        all.push(series("runwright", ours));
        if !theirs.is_empty() {
            all.push(series("express", theirs));
        }
    }
    Ok(all)
}

/// The server to compare with. It is killed when it is not needed any more.
struct Express {
    process: Child,
    address: SocketAddr,
}

impl Express {
    fn start(dir: &Path) -> io::Result<Option<Self>> {
        let Some(modules) = std::env::var_os("RUNWRIGHT_NODE_MODULES") else {
            return Ok(None);
        };
        std::os::unix::fs::symlink(
            Path::new(&modules).join("node_modules"),
            dir.join("node_modules"),
        )?;
        let script = dir.join("express.mjs");
        std::fs::write(&script, include_str!("express.mjs"))?;
        let mut process = Command::new("node")
            .arg(script)
            .env("NODE_ENV", "production")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let port: u16 = line.trim().parse().map_err(io::Error::other)?;
        let address = ([127, 0, 0, 1], port).into();
        Ok(Some(Self { process, address }))
    }
}

impl Drop for Express {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A run of about so many bytes, after so many saves.
fn document(id: &str, bytes: usize, saves: u64) -> String {
    let step = json!({ "id": "one", "gatePolicy": "AUTO", "inputs": [], "outputs": [] });
    let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
    let workflow = json!({ "id": "w", "version": 1, "steps": [step], "edges": [] });
    let event = |n: u64, kind: &str, more: Value| {
        let mut event = json!({
            "id": format!("evt_{id}_{n}"), "type": kind, "runId": id,
            "ts": "2027-01-15T08:00:01.000Z",
        });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event
    };
    // Half of it stands in the trace and half beside it.
    let words = "what a model writes, in words that repeat now and then. ";
    let artifact = json!({
        "artifactKey": "text", "typeId": "t", "version": 1,
        "createdAt": "2027-01-15T08:00:01.000Z", "data": words.repeat(bytes / words.len() / 2),
    });
    let mut trace = vec![event(
        0,
        "artifact_written",
        json!({ "artifact": artifact }),
    )];
    for n in 1..=saves {
        trace.push(event(
            n,
            "annotation",
            json!({ "text": format!("save {n}") }),
        ));
    }
    json!({
        "revision": trace.len(),
        "run": {
            "id": id, "workflowId": "w", "workflowVersion": 1, "workflowSnapshot": workflow,
            "startedAt": "2027-01-15T08:00:00.000Z", "status": "running", "tags": ["bench"],
        },
        "trace": trace, "artifactsByKey": [["text", artifact]], "ruleSetsById": [],
        "stepStatus": [["one", "pending"]], "gateState": [["one", gate]], "idempotency": [],
    })
    .to_string()
}

/// Lets so many clients work side by side for the time of a repetition; answers per second.
async fn work(
    settings: &Settings,
    (address, key): (SocketAddr, &str),
    clients: usize,
    job: Job,
) -> io::Result<f64> {
    let key: Arc<str> = key.into();
    prepare(address, &key, job).await?;
    let mut tasks = tokio::task::JoinSet::<io::Result<u64>>::new();
    let begun = Instant::now();
    let until = begun + settings.duration;
    for place in 0..clients {
        let key = Arc::clone(&key);
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            let mut done = 0;
            while Instant::now() < until {
                match job {
                    Job::Put(bytes) => {
                        let (run, saves) = (done / SAVES, done % SAVES);
                        let id = format!("run_{place}-{run}");
                        let body = document(&id, bytes, saves);
                        client.ask("PUT", &format!("/api/runs/{id}"), &body).await?;
                    }
                    Job::Get(_) => drop(client.ask("GET", "/api/runs/run_read", "").await?),
                    Job::List => drop(client.ask("GET", "/api/runs?limit=500", "").await?),
                }
                done += 1;
            }
            Ok(done)
        });
    }
    let mut done = 0;
    while let Some(count) = tasks.join_next().await {
        done += count.map_err(host::failed)??;
    }
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

/// What has to be there first.
async fn prepare(address: SocketAddr, key: &Arc<str>, job: Job) -> io::Result<()> {
    let runs = match job {
        Job::Put(_) => return Ok(()),
        Job::Get(bytes) => {
            let mut client = Client::connect(address, key).await?;
            let body = document("run_read", bytes, 0);
            client.ask("PUT", "/api/runs/run_read", &body).await?;
            return Ok(());
        }
        Job::List => LISTED,
    };
    const WRITERS: usize = 32;
    let mut tasks = tokio::task::JoinSet::<io::Result<()>>::new();
    for place in 0..WRITERS {
        let key = Arc::clone(key);
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            for n in (place..runs).step_by(WRITERS) {
                let id = format!("run_{n}");
                let body = document(&id, 1_024, 0);
                client.ask("PUT", &format!("/api/runs/{id}"), &body).await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(host::failed)??;
    }
    Ok(())
}
