//! Many subscribers of running workflows, over HTTP, that connect and disconnect: each receives
//! every event exactly once, and the server's memory stays bounded.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use runtime::outbound::{Allowed, Outbound, Redirects, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::serving::{Serving, key, lab};
use crate::support::*;

/// Subscribers of one run.
const OF_ONE: usize = 10;
/// Maximum memory of the server per subscriber.
const EACH: u64 = 256 << 10;
/// Varying memory that does not depend on subscribers: caches, runs, buffers.
const SLACK: u64 = 128 << 20;
/// No step takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// A workflow of `count` steps, each after a short delay.
fn steps(count: usize) -> Value {
    let mut nodes = Vec::new();
    for n in 0..count {
        let delay = json!({ "delayMs": 250 });
        nodes.push(node(&format!("wait-{n}"), "core.delay", delay));
        nodes.push(node(&format!("step-{n}"), "core.noop", json!({})));
    }
    let ids: Vec<String> = nodes
        .iter()
        .map(|node| node["id"].as_str().unwrap().to_owned())
        .collect();
    let edges: Vec<(&str, &str)> = ids
        .windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    workflow("steps", &nodes, &edges)
}

/// The events that a subscriber received.
#[derive(Default)]
struct Came {
    /// The types of all events of its run, in order.
    types: Vec<String>,
    /// Frames discarded with a connection that was cut in their middle.
    cut: u64,
    /// The number of reconnections.
    back: u64,
}

fn request(method: Method, url: &str, key: &str, body: String) -> Request {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {key}");
    headers.insert(AUTHORIZATION, bearer.parse().unwrap());
    headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
    Request {
        method,
        url: url.parse().unwrap(),
        headers,
        origin_headers: HeaderMap::new(),
        body: body.into(),
        timeout: DEADLINE,
        redirects: Redirects::Return,
    }
}

/// Follows a run to its end over connections that are dropped at random moments.
async fn follow(
    client: &Outbound,
    (url, key, run): (&str, &str, &str),
    seed: u64,
) -> Result<Came, String> {
    let mut random = Random::from_seed(seed);
    let mut came = Came::default();
    loop {
        let path = format!("{url}/v1/runs/{run}/events?streamMode=debug");
        let mut ask = request(Method::GET, &path, key, String::new());
        if let Some(last) = came.types.len().checked_sub(1) {
            ask.headers.insert("last-event-id", last.into());
        }
        let mut response = client.send(ask).await.map_err(|error| error.to_string())?;
        if response.status() != 200 {
            return Err(format!("status {}", response.status()));
        }
        // Every third stays to the end, the others leave after this many pieces.
        let mut left = match seed % 3 {
            0 => u64::MAX,
            _ => 1 + random.below(12),
        };
        let mut text = String::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| error.to_string())?;
            let Some(chunk) = chunk else {
                let is_over = came
                    .types
                    .last()
                    .is_some_and(|last| last == "run.completed");
                return match (is_over, text.is_empty()) {
                    (true, true) => Ok(came),
                    _ => Err(format!("the stream ended after {:?}", came.types.last())),
                };
            };
            text.push_str(std::str::from_utf8(&chunk).map_err(|_| "frames are cut in a text")?);
            left -= 1;
            if left == 0 && random.below(2) == 0 {
                // Disconnected before it has read the last events.
                came.cut += text.matches("\n\n").count() as u64;
                break;
            }
            take(&mut text, &mut came.types)?;
            if left == 0 {
                break;
            }
        }
        came.back += 1;
    }
}

/// Takes whole frames from the beginning of a text. Each must be the next event of the log.
fn take(text: &mut String, types: &mut Vec<String>) -> Result<(), String> {
    while let Some(end) = text.find("\n\n") {
        let frame: String = text.drain(..end + 2).collect();
        if frame.starts_with(':') {
            continue;
        }
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let id: usize = field("id: ")
            .and_then(|id| id.parse().ok())
            .ok_or("no id")?;
        let data = field("data: ").ok_or("no data")?;
        let data: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        if id != types.len() || data["sequence"] != id {
            return Err(format!("event {id} where {} is next", types.len()));
        }
        types.push(data["type"].as_str().unwrap_or_default().to_owned());
    }
    Ok(())
}

/// Resident bytes of a process: current, and peak.
fn memory(pid: i32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: u64 = line
            .and_then(|line| line.split_whitespace().next())
            .and_then(|kib| kib.parse().ok())
            .unwrap_or_else(|| panic!("no {name}"));
        kib << 10
    };
    (of("VmRSS:"), of("VmHWM:"))
}

#[test]
fn soak_subscribers_miss_nothing_and_see_nothing_twice() {
    let seeds: Vec<u64> = testkit::seeds(40, 1_000).collect();
    let runs = seeds.len().div_ceil(OF_ONE);
    let lab = lab();
    // Long enough for all to connect while it runs.
    let flow = steps(if runs > 10 { 60 } else { 8 });
    lab.write("flows/steps.json", flow.to_string());
    let serving = Serving::start(&lab, &[]);
    let key = key(&lab, "acme");
    let (idle, _) = memory(serving.pid());
    let began = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let came = runtime.block_on(async {
        let all = subscribe(&serving.url, &key, runs, &seeds);
        let all = tokio::time::timeout(DEADLINE, all).await;
        all.expect("every run ends, and every subscriber with it")
    });
    let took = began.elapsed();
    let (_, highest) = memory(serving.pid());
    serving.stop();

    let (mut frames, mut cut, mut back) = (0, 0, 0);
    let mut logs: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, came) in came {
        let log = logs.entry(at).or_insert_with(|| came.types.clone());
        assert_eq!(*log, came.types, "all of one run saw the same");
        frames += came.types.len();
        cut += came.cut;
        back += came.back;
    }
    assert_eq!(logs.len(), runs);
    let bound = idle + EACH * seeds.len() as u64 + SLACK;
    assert!(
        highest < bound,
        "{} MiB, {} idle",
        highest >> 20,
        idle >> 20
    );
    testkit::figures(
        "soak_subscribers",
        &format!(
            "{} subscribers of {runs} runs, {frames} events seen, {back} came back, {cut} frames \
             sent again, {} MiB idle, {} MiB at the highest, {:.1} s",
            seeds.len(),
            idle >> 20,
            highest >> 20,
            took.as_secs_f64(),
        ),
    );
}

async fn subscribe(url: &str, key: &str, runs: usize, seeds: &[u64]) -> Vec<(usize, Came)> {
    let client = Outbound::new(Allowed::private());
    let mut ids = Vec::new();
    for _ in 0..runs {
        let order = json!({ "workflowId": "steps" }).to_string();
        let ask = request(Method::POST, &format!("{url}/v1/runs"), key, order);
        let mut created = client.send(ask).await.expect("an answer");
        assert_eq!(created.status(), 201);
        let mut body = Vec::new();
        while let Some(chunk) = created.chunk().await.expect("an answer") {
            body.extend_from_slice(&chunk);
        }
        let body: Value = serde_json::from_slice(&body).unwrap();
        ids.push(body["runId"].as_str().unwrap().to_owned());
    }
    let mut following = JoinSet::new();
    for (nth, seed) in seeds.iter().copied().enumerate() {
        let at = nth % runs;
        let (client, url, key) = (client.clone(), url.to_owned(), key.to_owned());
        let run = ids[at].clone();
        following.spawn(async move {
            let came = follow(&client, (&url, &key, &run), seed).await;
            (at, came.unwrap_or_else(|why| panic!("seed {seed}: {why}")))
        });
    }
    following.join_all().await
}
