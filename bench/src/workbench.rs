//! Workbench runs saved, read and listed over HTTP, compared with an Express server that only keeps
//! parsed bodies in memory. Ours is durable: it acknowledges a save when it is on disk. Both take
//! turns, so that both run on the same machine state, and each turn gives a ratio.
//!
//! The Express server needs Node.js and `RUNWRIGHT_NODE_MODULES`, a folder with `express`, which
//! `cargo xtask bench` makes ready; without it only our own figures are taken.

mod document;

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use crate::http::client::Client;
use crate::http::serving::Server;
use crate::series::Series;
use crate::{Benchmark, Settings, host};
use document::Recording;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "workbench",
    about: "workbench runs over HTTP next to an Express server in memory: saves, reads, a list",
    run,
};

/// Saves of a run before the next one begins, each with one event more.
const SAVES: u64 = 20;
/// Runs that a list of 500 is taken from.
const LISTED: usize = 10_000;
/// Saves of a run whose disk space is measured, each with one event more.
const REVISIONS: usize = 100;
/// The number of such runs: with many, the fixed rows and pages of a store count less.
const RUNS: usize = 20;

/// A request that a client repeats.
#[derive(Clone, Copy)]
enum Job {
    /// Save a run of about this many bytes, with one more event each time.
    Put(usize),
    /// Save another run of about this many bytes each time.
    PutNew(usize),
    /// Read a run of about this many bytes.
    Get(usize),
    /// List 500 of this many runs.
    List(usize),
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let jobs = [
        ("put-10k/8", 8, Job::Put(10 << 10)),
        ("put-new-10k/8", 8, Job::PutNew(10 << 10)),
        ("put-1m/2", 2, Job::Put(1 << 20)),
        ("get-1m/2", 2, Job::Get(1 << 20)),
        ("list-500/2", 2, Job::List(settings.count(LISTED))),
    ];
    let mut all = Vec::new();
    for (name, clients, job) in jobs {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..settings.repeat {
            let dir = tempfile::tempdir_in(&settings.dir)?;
            let server = Server::start(dir.path())?;
            let target = (server.address, server.key.as_str());
            let our = host::block_on(work(settings, target, clients, job))?;
            ours.push(our);
            server.stop()?;
            if let Some(express) = Express::start(dir.path())? {
                let target = (express.address, "");
                let their = host::block_on(work(settings, target, clients, job))?;
                theirs.push(their);
                ratios.push(our / their);
            }
        }
        let series = |who: &str, unit, samples| Series {
            name: format!("workbench/{name}/{who}"),
            unit,
            samples,
        };
        all.push(series("runwright", "requests/s", ours));
        if !theirs.is_empty() {
            all.push(series("express", "requests/s", theirs));
            all.push(series("ratio", "times", ratios));
        }
    }
    all.extend(room(settings)?);
    Ok(all)
}

/// Disk space of runs of 100 revisions, compared with that of 100 copies of each.
fn room(settings: &Settings) -> io::Result<Vec<Series>> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    Server::start(dir.path())?.stop()?;
    let empty = size(dir.path())?;
    let server = Server::start(dir.path())?;
    let runs = settings.count(RUNS * 100) / 100;
    let copies = host::block_on(async {
        let mut client = Client::connect(server.address, &server.key).await?;
        let mut copies = 0;
        for run in 0..runs.max(1) {
            let recording = Recording::of_events(&format!("run_{run}"), REVISIONS);
            let path = format!("/api/runs/run_{run}");
            for revision in 1..=REVISIONS {
                let body = recording.at(revision);
                copies += body.len();
                client.ask("PUT", &path, &body).await?;
            }
        }
        Ok(copies as f64)
    })?;
    server.stop()?;
    let taken = size(dir.path())?.saturating_sub(empty) as f64;
    let series = |name: &str, unit, sample| Series {
        name: format!("workbench/room-100/{name}"),
        unit,
        samples: vec![sample],
    };
    Ok(vec![
        series("copies", "bytes", copies),
        series("runwright", "bytes", taken),
        series("ratio", "times", taken / copies),
    ])
}

/// Bytes of the store's files.
fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("bench.db") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// The server to compare with. It is killed on drop.
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

/// Lets `clients` clients work concurrently for the time of a repetition; returns answers per
/// second.
async fn work(
    settings: &Settings,
    (address, key): (SocketAddr, &str),
    clients: usize,
    job: Job,
) -> io::Result<f64> {
    let key: Arc<str> = key.into();
    prepare(address, &key, job).await?;
    let pattern = Arc::new(match job {
        Job::Put(bytes) | Job::PutNew(bytes) => Recording::of_bytes("run_0000000", bytes),
        Job::Get(_) | Job::List(_) => Recording::of_events("run_0000000", 0),
    });
    let mut tasks = tokio::task::JoinSet::<io::Result<u64>>::new();
    let begun = Instant::now();
    let until = begun + settings.duration;
    for place in 0..clients {
        let (key, pattern) = (Arc::clone(&key), Arc::clone(&pattern));
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            let whole = pattern.whole();
            let mut run = (String::new(), String::new());
            let mut done = 0;
            // At least once: on a busy machine the time may be over before a client has begun.
            while done == 0 || Instant::now() < until {
                match job {
                    Job::PutNew(_) => {
                        let id = format!("run_{place}{done:06}");
                        let text = whole.replace("run_0000000", &id);
                        client.ask("PUT", &format!("/api/runs/{id}"), &text).await?;
                    }
                    Job::Put(_) => {
                        if done % SAVES == 0 {
                            let id = format!("run_{place}{:06}", done / SAVES);
                            let text = whole.replace("run_0000000", &id);
                            run = (format!("/api/runs/{id}"), text);
                        } else {
                            document::annotate(&mut run.1, &run.0["/api/runs/".len()..], done);
                        }
                        client.ask("PUT", &run.0, &run.1).await?;
                    }
                    Job::Get(_) => drop(client.ask("GET", "/api/runs/run_read", "").await?),
                    Job::List(_) => drop(client.ask("GET", "/api/runs?limit=500", "").await?),
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

/// Saves the runs that the job needs.
async fn prepare(address: SocketAddr, key: &Arc<str>, job: Job) -> io::Result<()> {
    let runs = match job {
        Job::Put(_) | Job::PutNew(_) => return Ok(()),
        Job::Get(bytes) => {
            let mut client = Client::connect(address, key).await?;
            let body = Recording::of_bytes("run_read", bytes).whole();
            client.ask("PUT", "/api/runs/run_read", &body).await?;
            return Ok(());
        }
        Job::List(runs) => runs,
    };
    const WRITERS: usize = 32;
    let mut tasks = tokio::task::JoinSet::<io::Result<()>>::new();
    for place in 0..WRITERS {
        let key = Arc::clone(key);
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            for n in (place..runs).step_by(WRITERS) {
                let id = format!("run_{n}");
                let body = Recording::of_events(&id, 2).whole();
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
