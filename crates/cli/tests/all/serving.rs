//! `serve`, and the other commands as its clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::secrets::{key_of, made, send, waiting};
use crate::support::*;

/// A server that answers.
pub(crate) struct Serving {
    child: Child,
    pub(crate) url: String,
}

impl Serving {
    /// A server on its own store with the workflows of `flows`.
    pub(crate) fn start(lab: &Lab, more: &[&str]) -> Self {
        Self::with(lab, more, |_| {})
    }

    /// The same in another environment.
    pub(crate) fn with(lab: &Lab, more: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let args: Vec<&str> = ["--workflows", "flows"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        Self::changed(lab, "store", "127.0.0.1:0", &args, change)
    }

    /// A server in the place of another, on its store and under its address.
    pub(crate) fn again(lab: &Lab, url: &str, more: &[&str]) -> Self {
        let address = url.trim_start_matches("http://");
        Self::changed(lab, "store", address, more, |_| {})
    }

    /// A server on an existing store.
    pub(crate) fn at(lab: &Lab, data: &str, more: &[&str]) -> Self {
        Self::changed(lab, data, "127.0.0.1:0", more, |_| {})
    }

    fn changed(
        lab: &Lab,
        data: &str,
        listen: &str,
        more: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let args = ["serve", "--data", data, "--listen", listen];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        let mut command = lab.command(&args);
        change(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(lab.path().join("server.log")).unwrap())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(
            url.starts_with("http://127.0.0.1:"),
            "{url:?} {}",
            lab.read("server.log")
        );
        Self { child, url }
    }

    /// The process.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Serving {
    /// A test that does not end its server, or fails before it does, leaves no process running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.path().join("flows")).unwrap();
    let noop = |id: &str| node(id, "core.noop", json!({}));
    let three = workflow(
        "three",
        &[noop("a"), noop("b"), noop("c")],
        &[("a", "b"), ("b", "c")],
    );
    let waits = workflow(
        "waits",
        &[node("wait", "core.delay", json!({ "delayMs": 3_600_000 }))],
        &[],
    );
    let signs = workflow(
        "signs",
        &[node("gate", "core.approvalGate", json!({}))],
        &[],
    );
    let odd = workflow("odd", &[node("odd", "acme.unheard-of", json!({}))], &[]);
    for document in [three, waits, signs, odd] {
        let name = format!("flows/{}.json", document["id"].as_str().unwrap());
        lab.write(&name, document.to_string());
    }
    lab.write("flows/broken.json", "{");
    lab.write("flows/notes.txt", "not a workflow");
    lab
}

pub(crate) fn key(lab: &Lab, tenant: &str) -> String {
    let create = lab.call(&["keys", "create", "--data", "store", "--tenant", tenant]);
    create.with(0).stdout.trim().to_owned()
}

/// A call against a server.
pub(crate) fn call(lab: &Lab, serving: &Serving, key: &str, args: &[&str]) -> Ended {
    let mut command = lab.command(args);
    command
        .env("RUNWRIGHT_SERVER", &serving.url)
        .env("RUNWRIGHT_KEY", key);
    command.output().unwrap().into()
}

#[test]
fn every_tenants_key_runs_the_workflows_of_the_folders() {
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    // Keys that are made while the server runs work at once, for any tenant.
    for tenant in ["acme", "umbrella", "acme"] {
        let key = key(&lab, tenant);
        let lines = call(&lab, &serving, &key, &["run", "three", "--json"])
            .with(0)
            .json_lines();
        let snapshot = lines.last().unwrap();
        assert_eq!(snapshot["status"], "completed");
        assert_eq!(snapshot["owner"]["tenant"], tenant);
        let run = snapshot["runId"].as_str().unwrap();
        let call = |args: &[&str]| call(&lab, &serving, &key, args);
        assert_eq!(
            call(&["runs", "show", run, "--json"]).with(0).json(),
            *snapshot
        );
        let events = call(&["events", "last", "--json"]).with(0).json_lines();
        assert_eq!(events, lines[..lines.len() - 1]);
        let listed: Vec<Value> = call(&["runs", "list", "--json"]).with(0).json_lines();
        assert_eq!(listed[0]["runId"], run);
        call(&["runs", "tail", run]).with(0).prints("run.completed");
        call(&["run", "nowhere"]).with(2).says("workflow_not_found");
        call(&["run", "odd"]).with(2).says("capability_required");
        call(&["runs", "purge", run])
            .with(2)
            .says("remove --server");
        call(&["workflow", "list"]).with(2).says("remove --server");
        call(&["keys", "list"]).with(2).says("remove --server");
    }
    let wrong = call(&lab, &serving, "rw_0_0", &["runs", "list"]).with(2);
    wrong.says("invalid_token").says("keys create");
    let log = lab.read("server.log");
    assert!(
        log.contains("broken.json") && log.contains("acme.unheard-of"),
        "{log}"
    );
    serving.stop();
}

#[test]
fn a_server_run_survives_a_kill_and_can_be_cancelled_by_cli() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let detached = call(&lab, &serving, "", &["run", "waits", "--detach"]).with(0);
    let waiting = detached.stdout.trim().to_owned();
    let done = call(&lab, &serving, "", &["run", "three", "--json"])
        .with(0)
        .json_lines();
    let done = done.last().unwrap().clone();
    serving.kill();

    let serving = Serving::start(&lab, &["--dev"]);
    let call = |args: &[&str]| call(&lab, &serving, "", args);
    let run = done["runId"].as_str().unwrap();
    assert_eq!(call(&["runs", "show", run, "--json"]).with(0).json(), done);
    let before = call(&["runs", "show", &waiting, "--json"]).with(0).json();
    assert_eq!(before["status"], "running");
    call(&["runs", "cancel", &waiting, "--reason", "enough"]).with(0);
    call(&["runs", "tail", &waiting])
        .with(1)
        .prints("run.cancelled");
    serving.stop();
}

#[test]
fn a_server_that_is_not_meant_is_refused() {
    let lab = lab();
    let serve = ["serve", "--data", "store", "--listen"];
    let refused = |more: &[&str]| {
        let args: Vec<&str> = serve.iter().chain(more).copied().collect();
        lab.call(&args).with(2)
    };
    refused(&["0.0.0.0:0", "--dev"]).says("only this machine");
    refused(&["nowhere"]).says("is not an address");
    refused(&["127.0.0.1:0", "--workflows", "missing"]).says("--workflows missing: no such folder");
    let serving = Serving::start(&lab, &["--dev"]);
    refused(&["127.0.0.1:0", "--dev"]).says("--join");
    let joined = Serving::start(&lab, &["--dev", "--join"]);
    let lines = call(&lab, &joined, "", &["run", "three", "--json"])
        .with(0)
        .json_lines();
    let run = lines.last().unwrap()["runId"].as_str().unwrap().to_owned();
    call(&lab, &serving, "", &["runs", "show", &run])
        .with(0)
        .prints("completed");
    joined.stop();
    serving.stop();
}

#[test]
fn an_issuer_with_public_keys_is_advertised() {
    let lab = lab();
    let jwt = "[jwt]\nissuer = \"https://login.example.org/\"\naudience = [\"runwright\"]\n";
    lab.write(
        "public.toml",
        format!("{jwt}algorithm = \"ES256\"\njwks = \"https://login.example.org/keys\"\n"),
    );
    lab.write("secret", "x".repeat(32));
    let secret = lab.path().join("secret");
    lab.write(
        "shared.toml",
        format!(
            "{jwt}algorithm = \"HS256\"\nsecret = \"file:{}\"\n",
            secret.display()
        ),
    );
    let oauth2 = "openwop-auth-oauth2-client-credentials";
    for (file, is_told) in [("public.toml", true), ("shared.toml", false)] {
        let serving = Serving::start(&lab, &["--auth", file]);
        let auth = &capabilities(&serving)["auth"];
        let profiles = auth["profiles"].as_array().unwrap();
        assert_eq!(profiles.contains(&json!(oauth2)), is_told, "{auth:#}");
        let told = if is_told {
            json!({
                "supported": true,
                "issuer": "https://login.example.org/",
                "audience": "runwright",
                "supportedAlgorithms": ["ES256"],
            })
        } else {
            Value::Null
        };
        assert_eq!(auth["oauth2"], told);
        serving.stop();
    }
}

/// A server's capabilities.
fn capabilities(serving: &Serving) -> Value {
    let address = serving.url.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    let request =
        "GET /.well-known/openwop HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn the_official_python_client_drives_it() {
    let Some(python) = std::env::var_os("RUNWRIGHT_PYTHON") else {
        let reason = "there is no Python with openwop-client; `cargo xtask ci` makes one";
        return testkit::skip("the_official_python_client_drives_it", reason);
    };
    let lab = lab();
    let serving = Serving::start(&lab, &["--allow-private-webhooks"]);
    let key = key(&lab, "acme");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/client.py");
    let ended = std::process::Command::new(python)
        .args([script, &serving.url, &key])
        .output()
        .unwrap();
    Ended::from(ended).with(0).prints("driven");
    serving.stop();
}

#[test]
fn python_clients_of_both_versions_drive_one_server() {
    let test = "python_clients_of_both_versions_drive_one_server";
    let both = ["RUNWRIGHT_PYTHON", "RUNWRIGHT_PYTHON_V2"].map(std::env::var_os);
    let [Some(python), Some(newer)] = both else {
        let reason = "there is no Python with openwop-client; `cargo xtask ci` makes one";
        return testkit::skip(test, reason);
    };
    let lab = lab();
    let serving = Serving::start(&lab, &["--allow-private-webhooks"]);
    let key = key(&lab, "acme");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/");
    let start = |program, script: &str| {
        std::process::Command::new(program)
            .args([&format!("{folder}{script}"), &serving.url, &key])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // At the same time, on one server.
    let clients = [start(python, "client.py"), start(newer, "client_v2.py")];
    for client in clients {
        let ended = client.wait_with_output().unwrap();
        Ended::from(ended).with(0).prints("driven");
    }
    serving.stop();
}

#[test]
fn the_real_workbench_client_drives_it() {
    let Some(modules) = std::env::var_os("RUNWRIGHT_NODE_MODULES") else {
        let reason = "there is no Node.js with @llm-workbench/runtime; `cargo xtask ci` makes one";
        return testkit::skip("the_real_workbench_client_drives_it", reason);
    };
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    let keys = [key(&lab, "acme"), key(&lab, "umbrella")];
    // Packages are looked for next to the script.
    let modules = std::path::Path::new(&modules).join("node_modules");
    std::os::unix::fs::symlink(modules, lab.path().join("node_modules")).unwrap();
    let script = lab.path().join("workbench.mjs");
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/workbench.mjs");
    fs::copy(from, &script).unwrap();
    let ended = std::process::Command::new("node")
        .arg(script)
        .args([&serving.url, &keys[0], &keys[1]])
        .output()
        .unwrap();
    Ended::from(ended).with(0).prints("driven");
    serving.stop();
}

#[test]
fn bundles_go_in_and_out_on_disk() {
    let lab = lab();
    let step = json!({ "id": "one", "gatePolicy": "AUTO", "inputs": [], "outputs": [] });
    let workflow = json!({ "id": "w", "version": 1, "steps": [step], "edges": [] });
    let bundle = json!({
        "protocolVersion": "1.0.0", "trace": [], "artifacts": [], "ruleSets": [],
        "run": {
            "id": "run_on-disk", "workflowId": "w", "workflowVersion": 1,
            "workflowSnapshot": workflow, "startedAt": "2027-01-15T08:00:00Z", "status": "running",
        },
    });
    lab.write("raw.json", bundle.to_string());
    lab.call(&["workbench", "verify", "raw.json"]).with(1);
    lab.call(&["workbench", "import", "raw.json", "--data", "store"])
        .with(2);
    let import = [
        "workbench",
        "import",
        "raw.json",
        "--ignore-integrity",
        "--data",
        "store",
    ];
    lab.call(&import).with(0).prints("run_on-disk");
    lab.call(&import).with(0);
    let export = ["workbench", "export", "run_on-disk", "--data", "store"];
    let exported = lab.call(&export).with(0);
    lab.write("bundle.json", &exported.stdout);
    let verified = lab
        .call(&["workbench", "verify", "bundle.json", "--json"])
        .with(0);
    assert!(
        verified.stdout.contains("\"integrity\": \"valid\""),
        "{}",
        verified.stdout
    );
    lab.call(&["workbench", "import", "bundle.json", "--data", "other"])
        .with(0);
    lab.call(&["workbench", "export", "run_absent", "--data", "store"])
        .with(2);
    lab.call(&["verify", "--data", "store"]).with(0);
}

#[test]
fn protocol_fixtures_are_claimed_when_available() {
    let lab = lab();
    let claimed = |serving: &Serving| {
        let address = serving.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET /.well-known/openwop HTTP/1.0\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()["fixtures"].clone()
    };
    let serving = Serving::start(&lab, &[]);
    assert_eq!(claimed(&serving), Value::Null);
    serving.stop();
    let noop = |id: &str| workflow(id, &[node("a", "core.noop", json!({}))], &[]);
    lab.write_flow(&noop("conformance-noop"));
    lab.write_flow(&noop("conformance-of-another-kind"));
    let unknown = node("a", "acme.unheard-of", json!({}));
    lab.write_flow(&workflow("conformance-delay", &[unknown], &[]));
    // A definition with a plain secret causes a warning, and runs.
    let leaks =
        json!({ "attrs": { "openwop.cost.token": format!("sk-ant-{}", "x1Y2".repeat(9)) } });
    let leaks = node("a", "conformance.cost.emit", leaks);
    lab.write_flow(&workflow("openwop-smoke-cost-emit", &[leaks], &[]));
    lab.call(&["workflow", "put", "flows/openwop-smoke-cost-emit.json"])
        .with(0)
        .says("literal_secret");
    let serving = Serving::start(&lab, &[]);
    let able = ["conformance-noop", "openwop-smoke-cost-emit"];
    assert_eq!(claimed(&serving), json!(able));
    serving.stop();
}

#[test]
fn the_test_token_holder_can_expire_the_retention_of_a_run() {
    const TOKEN: &str = "a-token-that-nobody-guesses";
    let lab = lab();
    let refused = lab.call(&["serve", "--expire-token", TOKEN]);
    refused.with(2).says("--test-keys");
    let refused = lab.call(&["serve", "--test-keys", "--expire-token", "short"]);
    refused.with(2).says("at least 24 characters");

    let key = key_of(&lab, "ada", &[]);
    let serving = Serving::start(&lab, &["--test-keys", "--expire-token", TOKEN]);
    let run = made(
        &serving,
        &key,
        "/v1/runs",
        &json!({ "workflowId": "three" }),
    );
    let path = format!("/v1/test/runs/{run}/expire?token={TOKEN}");
    let (status, body) = send(&serving, "", "POST", &path, "");
    assert_eq!(status, 200, "{body}");
    let (status, body) = send(&serving, &key, "GET", &format!("/v1/runs/{run}"), "");
    assert_eq!(status, 410, "{body}");
    serving.stop();
    assert!(!lab.read("server.log").contains(TOKEN), "it is told nobody");
}

#[test]
fn a_server_acts_on_answers_given_by_the_cli() {
    let lab = lab();
    let nodes = [
        node("ask", "core.approvalGate", json!({ "prompt": "go?" })),
        script("after", "echo after"),
    ];
    lab.write_flow(&workflow("gated", &nodes, &[("ask", "after")]));
    let key = key_of(&lab, "ada", &[]);
    let serving = Serving::start(&lab, &[]);
    let run = waiting(&serving, &key, "gated");
    let on_store = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--data", "store"]).collect();
        lab.call(&args)
    };
    let answered = on_store(&["runs", "resolve", &run, "ask", "--action", "accept"]).with(0);
    assert!(
        !answered.stderr.contains("runwright resume"),
        "{answered:#?}"
    );
    on_store(&["resume", &run])
        .with(2)
        .says("a server drives the runs of this store")
        .says("runs tail");
    on_store(&["resume"]).with(2).says("stop the server");
    on_store(&["runs", "tail", &run]).with(0);
    on_store(&["runs", "show", &run])
        .with(0)
        .prints("completed");
    serving.stop();
    on_store(&["resume"]).with(0).says("no run to resume");
}

#[test]
fn a_run_next_to_a_server_is_left_to_it_or_refused() {
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    let file = lab.workflow(&one_script("w", "echo done"));
    let on_store = |args: &[&str]| lab.call(&[args, &["--data", "store"]].concat());
    on_store(&["run", &file])
        .with(2)
        .says("a server drives the runs of this store")
        .says("--detach");
    on_store(&["run", &file, "--detach", "--allow-http", "127.0.0.1:1"])
        .with(2)
        .says("--allow-http has no effect on a server");
    let left = on_store(&["run", &file, "--detach"]).with(0);
    let run = left.stdout.trim().to_owned();
    left.says("the server drives it").says("runs tail");
    on_store(&["runs", "tail", &run]).with(0);
    on_store(&["runs", "fork", &run, "--at", "0"])
        .with(2)
        .says("a server drives the runs of this store");
    let runs = on_store(&["runs", "list", "--json"]).with(0).json_lines();
    assert_eq!(runs.len(), 1, "{runs:?}");
    on_store(&["runs", "fork", &run, "--at", "0", "--detach"])
        .with(0)
        .says("the server drives it");
    serving.stop();
}
