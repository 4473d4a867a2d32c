//! The server over HTTP: runs created and watched to their end, reads, and streams.
//!
//! The server is its own process, with keys and durable commits, as in production; its clients
//! share the machine with it. A client creates a run, opens its stream of events and waits for its
//! end: `created to completed` includes both requests.

pub(crate) mod client;
mod delay;
pub(crate) mod serving;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::series::Series;
use crate::{Benchmark, Settings, appends, host};
use client::Client;
use serving::Server;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "http",
    about: "over HTTP: runs created to completed, reads, delay of streams, memory",
    run,
};

const RUN: &str = r#"{"workflowId":"three-steps"}"#;

/// The workflows that the server runs.
pub(crate) fn definitions() -> [Value; 2] {
    [appends::three_steps(), delay::ticking()]
}

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let mut all = Vec::new();
    for major in [Major::One, Major::Two] {
        for clients in settings.clients() {
            all.extend(runs(settings, clients, major)?);
        }
        all.extend(reads(settings, major)?);
    }
    for subscribers in settings.subscribers() {
        all.extend(delay::measure(settings, subscribers)?);
    }
    Ok(all)
}

/// A request that a client repeats.
#[derive(Clone, Copy)]
enum Job {
    /// Create a run and watch it end.
    Run,
    /// Read the snapshot of a finished run.
    Snapshot,
    /// Poll the events of a finished run.
    Poll,
}

/// The major of the protocol that a client speaks.
#[derive(Clone, Copy)]
enum Major {
    One,
    Two,
}

impl Major {
    /// The beginning of its addresses.
    fn root(self) -> &'static str {
        match self {
            Self::One => "/v1",
            Self::Two => "",
        }
    }

    /// The beginning of the names of its series.
    fn label(self) -> &'static str {
        match self {
            Self::One => "http",
            Self::Two => "http/v2",
        }
    }
}

/// The pace over all clients.
struct Pace {
    per_second: f64,
    /// Milliseconds, sorted.
    took: Vec<f64>,
}

impl Pace {
    fn percentile(&self, percent: usize) -> f64 {
        self.took[(self.took.len() - 1) * percent / 100]
    }
}

fn runs(settings: &Settings, clients: usize, major: Major) -> io::Result<Vec<Series>> {
    let (mut paces, mut commits, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.repeat {
        let dir = tempfile::tempdir_in(&settings.dir)?;
        let server = Server::start(dir.path())?;
        let pace = host::block_on(work(settings, &server, clients, (Job::Run, major), None))?;
        let spent = server.stop()?;
        commits.push(spent.commits as f64 / pace.took.len() as f64);
        memory.push(spent.peak_mib);
        paces.push(pace);
    }
    let series = |what: &str, unit, samples| Series {
        name: format!("{}/{what}/{clients}", major.label()),
        unit,
        samples,
    };
    let of = |each: fn(&Pace) -> f64| paces.iter().map(each).collect();
    Ok(vec![
        series("runs", "runs/s", of(|pace| pace.per_second)),
        series("run-p50", "ms", of(|pace| pace.percentile(50))),
        series("run-p99", "ms", of(|pace| pace.percentile(99))),
        series("commits-per-run", "commits", commits),
        series("server-memory", "MiB", memory),
    ])
}

fn reads(settings: &Settings, major: Major) -> io::Result<Vec<Series>> {
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let server = Server::start(dir.path())?;
    let run = host::block_on(async {
        let mut client = Client::connect(server.address, &server.key).await?;
        one_run(&mut client, major).await
    })?;
    let mut all = Vec::new();
    for (job, what) in [(Job::Snapshot, "snapshots"), (Job::Poll, "polls")] {
        let sample = || {
            let run = Some(run.clone());
            host::block_on(work(settings, &server, 16, (job, major), run))
                .map(|pace| pace.per_second)
        };
        all.push(Series {
            name: format!("{}/{what}/16", major.label()),
            unit: "reads/s",
            samples: settings.sample(sample)?,
        });
    }
    server.stop()?;
    Ok(all)
}

/// Lets `clients` clients work concurrently for the time of a repetition.
async fn work(
    settings: &Settings,
    server: &Server,
    clients: usize,
    (job, major): (Job, Major),
    run: Option<String>,
) -> io::Result<Pace> {
    let (address, key): (SocketAddr, Arc<str>) = (server.address, server.key.as_str().into());
    let run: Arc<str> = run.unwrap_or_default().into();
    let mut tasks = tokio::task::JoinSet::<io::Result<Vec<f64>>>::new();
    let begun = Instant::now();
    let until = begun + settings.duration;
    for _ in 0..clients {
        let (key, run) = (Arc::clone(&key), Arc::clone(&run));
        tasks.spawn(async move {
            let mut client = Client::connect(address, &key).await?;
            let mut took = Vec::new();
            // At least once: on a busy machine the time may be over before a client has begun.
            loop {
                let asked = Instant::now();
                match job {
                    Job::Run => drop(one_run(&mut client, major).await?),
                    Job::Snapshot => {
                        client.ask("GET", &run, "").await?;
                    }
                    Job::Poll => {
                        client.ask("GET", &format!("{run}/events/poll"), "").await?;
                    }
                }
                took.push(asked.elapsed().as_secs_f64() * 1_000.0);
                if Instant::now() >= until {
                    break;
                }
            }
            Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done.map_err(host::failed)??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    Ok(Pace {
        per_second: took.len() as f64 / seconds,
        took,
    })
}

/// Creates a run and watches it to its end; returns its address.
async fn one_run(client: &mut Client, major: Major) -> io::Result<String> {
    let root = major.root();
    let created = client.ask("POST", &format!("{root}/runs"), RUN).await?;
    let created: Value = serde_json::from_slice(&created)?;
    // The id of version 2 has a slash, which is written so in an address.
    let id = created["runId"].as_str().unwrap_or_default();
    let run = format!("{root}/runs/{}", id.replace('/', "~2F"));
    let path = format!("{run}/events?streamMode=updates");
    let events = client.ask("GET", &path, "").await?;
    let text = String::from_utf8_lossy(&events);
    if text.contains("event: run.completed") {
        Ok(run)
    } else {
        Err(host::failed("a stream ended without the end of its run"))
    }
}

/// A node for the definitions of this benchmark.
fn node(id: &str, kind: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {} })
}
