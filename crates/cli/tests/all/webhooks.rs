//! Webhooks of the real program, delivered to a real receiver.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::serving::*;
use crate::support::*;

/// No step in these tests takes longer unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// An HTTP server that answers 204 to everything, and its received bodies.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, arrivals) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(body) = request(&mut stream) {
                    // A receiver may die before its acknowledgement: ours never does.
                    if tell.send(body).is_err() {
                        return;
                    }
                    let answer = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
                    if stream.get_mut().write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, arrivals)
}

fn request(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Kills of the server during deliveries lose none and change no order.
#[test]
fn soak_kills_lose_no_delivery() {
    let (mut kills, mut again, mut delivered) = (0, 0, 0);
    for seed in testkit::seeds(1, 20) {
        let (k, a, d) = survive(seed);
        (kills, again, delivered) = (kills + k, again + a, delivered + d);
    }
    testkit::figures(
        "soak_kills_lose_no_delivery",
        &format!("{kills} kills, {delivered} deliveries, {again} of them again"),
    );
}

fn survive(seed: u64) -> (u64, usize, usize) {
    let lab = lab();
    let (url, arrivals) = receiver();
    let serve = || Serving::start(&lab, &["--dev", "--allow-private-webhooks"]);
    let mut serving = serve();
    call(
        &lab,
        &serving,
        "",
        &["webhooks", "create", &url, "--events", "*"],
    )
    .with(0);
    let mut runs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let take = |runs: &mut BTreeMap<String, Vec<u64>>, arrived: Value| {
        let run = arrived["runId"].as_str().unwrap().to_owned();
        let sequence = arrived["event"]["sequence"].as_u64().unwrap();
        runs.entry(run).or_default().push(sequence);
    };
    let mut ids = Vec::new();
    let kills = 4;
    for kill in 0..kills {
        for _ in 0..3 {
            let run = call(&lab, &serving, "", &["run", "three", "--json"]).with(0);
            let snapshot = run.json_lines().pop().unwrap();
            ids.push(snapshot["runId"].as_str().unwrap().to_owned());
        }
        // Somewhere in the middle of the deliveries of these runs.
        for _ in 0..(seed + 3 * kill) % 8 + 1 {
            take(&mut runs, arrivals.recv_timeout(DEADLINE).unwrap());
        }
        serving.kill();
        serving = serve();
    }
    let is_done = |runs: &BTreeMap<String, Vec<u64>>| {
        ids.iter()
            .all(|id| runs.get(id).is_some_and(|seen| seen.contains(&7)))
    };
    while !is_done(&runs) {
        take(&mut runs, arrivals.recv_timeout(DEADLINE).unwrap());
    }
    serving.stop();
    for (run, seen) in &runs {
        // Some came again, but none before its predecessors.
        let mut next = 0;
        for sequence in seen {
            assert!(*sequence <= next, "seed {seed}: {run} {seen:?}");
            next = next.max(sequence + 1);
        }
        assert_eq!(next, 8, "seed {seed}: {run} {seen:?}");
    }
    lab.call(&["verify", "--data", "store"]).with(0);
    let total: usize = runs.values().map(Vec::len).sum();
    (kills, total - 8 * runs.len(), total)
}

#[test]
fn webhooks_are_managed_on_a_store_as_on_a_server() {
    let lab = lab();
    let (url, arrivals) = receiver();
    let on_store = |args: &[&str]| {
        let args: Vec<&str> = args.iter().chain(&["--data", "store"]).copied().collect();
        lab.call(&args)
    };
    on_store(&["webhooks", "list"])
        .with(0)
        .says("webhooks create");
    on_store(&["webhooks", "create", &url])
        .with(2)
        .says("webhook_url_rejected");
    let made = on_store(&["webhooks", "create", &url, "--allow-private", "--json"]).with(0);
    let made = made.json();
    let id = made["webhookId"].as_str().unwrap();
    assert_eq!(made["secret"].as_str().unwrap().len(), 64);
    let secret = on_store(&[
        "webhooks",
        "create",
        &url,
        "--allow-private",
        "--tags",
        "none",
    ]);
    let secret = secret.with(0).says("not shown again").stdout;
    assert_eq!(secret.trim().len(), 64);

    let serving = Serving::start(&lab, &["--dev", "--allow-private-webhooks"]);
    let on_server = |args: &[&str]| call(&lab, &serving, "", args);
    on_server(&["run", "three"]).with(0);
    let arrived = arrivals.recv_timeout(DEADLINE).unwrap();
    assert_eq!(arrived["event"]["type"], "run.completed");
    // The server records the outcome after the receiver's acknowledgement.
    let report = loop {
        let report = on_server(&["webhooks", "deliveries", id, "--json"])
            .with(0)
            .json();
        if report["deliveries"]["delivered"] == 1 {
            break report;
        }
    };
    assert_eq!(
        on_store(&["webhooks", "deliveries", id, "--json"])
            .with(0)
            .json(),
        report
    );
    on_server(&["webhooks", "deliveries", id])
        .with(0)
        .prints("active: 1 delivered, 0 waiting");
    let listed = |ended: Ended| ended.with(0).json_lines();
    assert_eq!(
        listed(on_server(&["webhooks", "list", "--json"])),
        listed(on_store(&["webhooks", "list", "--json"]))
    );
    on_server(&["webhooks", "delete", id])
        .with(0)
        .says("removed");
    on_server(&["webhooks", "delete", id])
        .with(2)
        .says("subscription_not_found");
    on_store(&["webhooks", "deliveries", id])
        .with(2)
        .says("subscription_not_found");
    assert_eq!(listed(on_store(&["webhooks", "list", "--json"])).len(), 1);
    serving.stop();
    let trail = on_store(&["audit", "list"]).with(0);
    trail.prints("webhook.registered").prints("webhook.removed");
    lab.call(&["verify", "--data", "store"]).with(0);
}

#[test]
fn the_official_python_client_registers_and_verifies() {
    let Some(python) = std::env::var_os("RUNWRIGHT_PYTHON") else {
        let reason = "there is no Python with openwop-client; `cargo xtask ci` makes one";
        return testkit::skip("the_official_python_client_registers_and_verifies", reason);
    };
    let lab = lab();
    let serving = Serving::start(&lab, &["--allow-private-webhooks"]);
    let key = key(&lab, "acme");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/webhooks.py");
    let ended = std::process::Command::new(python)
        .args([script, &serving.url, &key])
        .output()
        .unwrap();
    Ended::from(ended).with(0).prints("delivered");
    serving.stop();
}
