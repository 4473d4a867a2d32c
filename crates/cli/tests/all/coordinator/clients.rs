//! The worker libraries below `clients/`, working against a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::serving::{Serving, call, key};
use crate::support::{Ended, Lab, node, workflow};

/// The folder of the client libraries.
pub(crate) const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients");
/// The folder of the test programs that use them.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/coordinator");

/// A server with workflows for the queues that the programs serve.
fn serving() -> (Lab, Serving, String) {
    let lab = Lab::new();
    let gives = |id: &str, queue: &str, text: &str| {
        let config = json!({ "queue": queue, "repeat": "repeatable", "heartbeatTimeoutMs": 6_000 });
        let mut given = node("give", "runwright.worker", config);
        given["inputs"] = json!({ "text": { "type": "static", "value": text } });
        workflow(id, &[given], &[])
    };
    lab.write_flow(&gives("counting", "words", "one two\nthree"));
    lab.write_flow(&gives("waiting", "slow", ""));
    let serving = Serving::start(&lab, &[]);
    let key = key(&lab, "acme");
    (lab, serving, key)
}

/// Checks the program's output, and the run that it worked for.
fn check(ended: Ended, lab: &Lab, serving: &Serving, key: &str) {
    let ended = ended.with(0).prints("driven");
    let line = ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("run "));
    let run = line.expect("it names the run");
    let shown = call(lab, serving, key, &["runs", "show", run, "--json"]).with(0);
    assert_eq!(shown.json()["status"], "completed");
    let events = call(lab, serving, key, &["events", run, "--json"]).with(0);
    let events = events.json_lines();
    let of = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    let completed = of("node.completed");
    assert_eq!(
        completed[0]["payload"]["outputs"],
        json!({ "words": 3 }),
        "{completed:?}"
    );
    let written: String = (of("output.chunk").iter())
        .filter_map(|event| event["payload"]["chunk"].as_str())
        .collect();
    assert_eq!(written, "2 words so far\n3 words so far\n");
    let queue = ["--data=store", "--tenant=acme", "--queue=words"];
    lab.runtime(&[&["status"], &queue[..]].concat())
        .with(0)
        .prints("1 delivered (the last ")
        .prints("workers    1, 0 stalled\n")
        .prints(": idle, last report ");
    lab.runtime(&["status", "--data=store", "--queue=words"])
        .with(0)
        .says("the queue words of the tenant local has no event yet; --tenant=NAME")
        .prints("authority  none");
}

#[test]
fn workers_in_python_do_the_work() {
    let Ok(found) = Command::new("python3").arg("--version").output() else {
        return testkit::skip("workers_in_python_do_the_work", "there is no python3");
    };
    assert!(found.status.success());
    let (lab, serving, key) = serving();
    let python = Path::new(CLIENTS).join("python");
    let ended = Command::new("python3")
        .arg(format!("{HERE}/worker.py"))
        .args([&serving.url, &key])
        .arg(python.join("examples/wordcount.py"))
        .env("PYTHONPATH", &python)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    check(ended.into(), &lab, &serving, &key);
    let refused = Command::new("python3")
        .arg(python.join("examples/wordcount.py"))
        .args([&serving.url, "words"])
        .env("PYTHONPATH", &python)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("RUNWRIGHT_KEY", "nonsense")
        .output()
        .unwrap();
    is_refused(refused.into());
    serving.stop();
}

/// An example with an unknown key reports this, without the place in its source.
fn is_refused(ended: Ended) {
    let ended = ended.with(1).says("invalid_token: ");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
}

#[test]
fn workers_in_typescript_do_the_work() {
    let Some(kit) = std::env::var_os("RUNWRIGHT_TYPESCRIPT_MODULES") else {
        let reason = "there is no Node.js with TypeScript; `cargo xtask ci` makes one";
        return testkit::skip("workers_in_typescript_do_the_work", reason);
    };
    let (lab, serving, key) = serving();
    let built = compiled(&lab, &PathBuf::from(kit).join("node_modules"));
    let ended = Command::new("node")
        .arg(built.join("examples/worker.js"))
        .args([&serving.url, &key])
        .arg(built.join("examples/wordcount.js"))
        .output()
        .unwrap();
    check(ended.into(), &lab, &serving, &key);
    let refused = Command::new("node")
        .arg(built.join("examples/wordcount.js"))
        .args([&serving.url, "words"])
        .env("RUNWRIGHT_KEY", "nonsense")
        .output()
        .unwrap();
    is_refused(refused.into());
    serving.stop();
}

/// The library, its example and the program that uses it, checked and compiled.
pub(crate) fn compiled(lab: &Lab, modules: &Path) -> PathBuf {
    let (from, to) = (
        Path::new(CLIENTS).join("typescript"),
        lab.path().join("client"),
    );
    for folder in ["src", "examples"] {
        fs::create_dir_all(to.join(folder)).unwrap();
        for entry in fs::read_dir(from.join(folder)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(folder).join(entry.file_name())).unwrap();
        }
    }
    for file in ["package.json", "tsconfig.json"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    fs::copy(format!("{HERE}/worker.ts"), to.join("examples/worker.ts")).unwrap();
    let chaos = format!("{HERE}/../workers/chaos.ts");
    fs::copy(chaos, to.join("examples/chaos.ts")).unwrap();
    std::os::unix::fs::symlink(modules, to.join("node_modules")).unwrap();
    let checked = Command::new("node")
        .args(["node_modules/typescript/bin/tsc", "-p", "."])
        .current_dir(&to)
        .output()
        .unwrap();
    Ended::from(checked).with(0);
    to.join("dist")
}
