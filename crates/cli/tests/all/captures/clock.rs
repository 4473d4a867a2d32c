//! Programs with the time or a random value in their prompts.

use std::fs;

use super::peer::says;
use super::{Bench, has_python, read};

/// Sends every value that changes each time, and lets a child process do the same.
const PYTHON: &str = r#"
import datetime, json, multiprocessing, os, random, subprocess, sys, time, uuid
import urllib.request as u
def ask(text):
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": text}]}).encode()
    r = u.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"content-type": "application/json"})
    return json.load(u.urlopen(r))["choices"][0]["message"]["content"]
def drawn():
    return [str(datetime.datetime.now()), str(datetime.datetime.now(datetime.timezone.utc)),
        str(datetime.date.today()), repr(time.time()), str(time.time_ns()), str(time.perf_counter_ns()),
        time.strftime("%H:%M:%S"), time.ctime(), str(random.random()), str(random.sample(range(999), 9)),
        str(uuid.uuid4()), str(uuid.uuid1()), str({"one", "two", "three", "four"}), str(hash("one"))]
def of_worker(_):
    return drawn()
if __name__ == "__main__":
    if sys.argv[1:]:
        ask("child " + str(drawn()))
    else:
        ask(str(drawn()))
        ask(str(drawn()))
        subprocess.run([sys.executable, "agent.py", "child"], check=True)
        with multiprocessing.Pool(1) as pool:
            ask(str(pool.map(of_worker, [0])))
        print("done")
"#;

const NODE: &str = r#"
import { randomUUID } from 'node:crypto';
const drawn = () => [new Date().toISOString(), Date(), Date.now(), performance.now(), Math.random(),
  process.hrtime(), process.hrtime([1, 2]), process.hrtime.bigint(),
  randomUUID(), crypto.randomUUID()].join(' ');
for (const _ of [1, 2]) {
  const answer = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: drawn() }] }),
  });
  await answer.json();
}
console.log(new Date() instanceof Date && new Date(0).getTime() === 0 ? 'done' : 'broken');
"#;

fn bench() -> Bench {
    Bench::new(|_, _| says("as always"))
}

fn has_node(test: &str) -> bool {
    let found = std::process::Command::new("node").arg("--version").output();
    if found.is_err() {
        testkit::skip(test, "unknown node");
    }
    found.is_ok()
}

#[test]
fn clock_and_chance_of_python_are_given_again() {
    if !has_python("clock_and_chance_of_python_are_given_again") {
        return;
    }
    let bench = bench();
    bench.write("agent.py", PYTHON);
    bench.record(&["python3", "agent.py"]);
    assert_eq!(bench.peer.came().len(), 4);
    for _ in 0..2 {
        let replayed = bench.replay("verify", 0);
        assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    }
    assert_eq!(bench.peer.came().len(), 4, "nobody is asked again");
}

#[test]
fn clock_and_chance_of_node_are_given_again() {
    if !has_node("clock_and_chance_of_node_are_given_again") {
        return;
    }
    let bench = bench();
    bench.write("agent.mjs", NODE);
    let ended = bench.record(&["node", "agent.mjs"]);
    assert!(ended.stdout.starts_with("done\n"), "{ended:?}");
    let replayed = bench.replay("verify", 0);
    assert_eq!(replayed["match_status"], "exact_match", "{replayed:#}");
    assert_eq!(bench.peer.came().len(), 2);
}

#[test]
fn an_edited_prompt_with_a_clock_still_differs() {
    if !has_python("an_edited_prompt_with_a_clock_still_differs") {
        return;
    }
    let bench = bench();
    bench.write("agent.py", PYTHON);
    bench.record(&["python3", "agent.py"]);
    bench.write("agent.py", &PYTHON.replace("\"child \"", "\"kid \""));
    let replayed = bench.replay("verify", 3);
    let actual = &replayed["first_divergence"]["actual"]["input"];
    assert!(actual.to_string().contains("kid "), "{replayed:#}");
}

#[test]
fn forged_readings_are_found() {
    if !has_python("forged_readings_are_found") {
        return;
    }
    let bench = bench();
    bench.write("agent.py", PYTHON);
    let ended = bench.record(&["python3", "agent.py"]);
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    let readings = snapshot["extensions"]["readings"].as_object().unwrap();
    let hash = readings.values().next().unwrap().as_str().unwrap();
    let (_, hash) = hash.split_once(':').unwrap();
    let blobs = bench.root().join(".aiwg/provenance/blobs/sha256");
    let path = blobs.join(&hash[..2]).join(&hash[2..]);
    fs::write(&path, fs::read_to_string(&path).unwrap() + "0 1\n").unwrap();
    let verified = bench
        .call(&["snapshot", "verify", "--root", "shop"])
        .with(4);
    assert!(verified.stdout.contains("tampered"), "{verified:?}");
    assert!(
        verified.stdout.contains("/extensions/readings/"),
        "{verified:?}"
    );
}

#[test]
fn a_file_of_the_program_named_sitecustomize_runs() {
    if !has_python("a_file_of_the_program_named_sitecustomize_runs") {
        return;
    }
    let bench = bench();
    fs::create_dir(bench.root().join("own")).unwrap();
    bench.write("own/sitecustomize.py", "import sys\nsys.own = 'it ran'\n");
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "python3", "-c",
    ];
    let ended = bench
        .command(&[&args[..], &["import sys; print(sys.own)"]].concat())
        .env("PYTHONPATH", bench.root().join("own"))
        .output();
    let ended = crate::support::Ended::from(ended.unwrap()).with(0);
    assert!(ended.stdout.starts_with("it ran\n"), "{ended:?}");
}
