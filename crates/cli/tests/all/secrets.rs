//! Secrets, end to end: kept by the command line, resolved in runs of a server, never shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::digest::Digest;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::support::*;

/// Must not be found anywhere. It does not look like a credential.
const CANARY: &str = "plain-looking-canary-7731";
const OTHERS: &str = "another-plain-value-2048";

/// A peer that echoes its input, in the ways a careless one might: as a web page, as the pieces and
/// the name of a model, as the reason of a refusal.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let (mut head, mut token, mut length) = (String::new(), String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                if let Some((name, value)) = line.trim_end().split_once(": ") {
                    match name.to_ascii_lowercase().as_str() {
                        "content-length" => length = value.parse().unwrap(),
                        "authorization" => token = value.replace("Bearer ", ""),
                        _ => {}
                    }
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let (status, media, body) = if head.starts_with("POST /refuse/") {
                let body = json!({ "error": { "message": format!("no: {token}"), "code": token } });
                ("400 Bad Request", "application/json", body.to_string())
            } else if head.starts_with("POST /v1/") {
                ("200 OK", "text/event-stream", streamed(&token))
            } else {
                ("200 OK", "text/plain", head)
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    address
}

/// A model that echoes its credential, a few letters at a time.
fn streamed(token: &str) -> String {
    let letters: Vec<char> = format!("It is {token}.").chars().collect();
    let mut said = String::new();
    let mut event = |event: Value| said.push_str(&format!("data: {event}\n\n"));
    for piece in letters.chunks(3) {
        let piece: String = piece.iter().collect();
        event(json!({ "model": token, "choices": [{ "delta": { "content": piece } }] }));
    }
    event(json!({ "model": token, "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
    event(json!({ "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 4 } }));
    event(json!("[DONE]"));
    said.replace("\"[DONE]\"", "[DONE]")
}

/// A request over its own connection: status and body.
pub(crate) fn send(
    serving: &Serving,
    key: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let address = serving.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    // Version 1.0, so that the body comes in one piece.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) fn get(serving: &Serving, key: &str, path: &str) -> String {
    let (status, body) = send(serving, key, "GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

pub(crate) fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Creates a run of a workflow that waits for an answer; returns its id.
pub(crate) fn waiting(serving: &Serving, key: &str, workflow: &str) -> String {
    let body = json!({ "workflowId": workflow }).to_string();
    let (status, answer) = send(serving, key, "POST", "/v1/runs", &body);
    assert_eq!(status, 201, "{answer}");
    let run = json_of(&answer)["runId"].as_str().unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let snapshot = json_of(&get(serving, key, &format!("/v1/runs/{run}")));
        let status = snapshot["status"].as_str().unwrap();
        if status.starts_with("waiting") {
            return run;
        }
        assert_eq!(status, "running", "{snapshot}");
        assert!(Instant::now() < deadline, "{snapshot}");
    }
}

pub(crate) fn made(serving: &Serving, key: &str, path: &str, body: &Value) -> String {
    let (status, answer) = send(serving, key, "POST", path, &body.to_string());
    assert_eq!(status, 201, "{answer}");
    let run = json_of(&answer)["runId"].as_str().unwrap().to_owned();
    // The stream ends with the run.
    get(serving, key, &format!("/v1/runs/{run}/events"));
    run
}

fn keep(lab: &Lab, name: &str, whose: &[&str], value: &str) {
    let args = [
        "secrets",
        "put",
        name,
        "--secrets",
        "vault",
        "--tenant",
        "acme",
    ];
    let args: Vec<&str> = args.iter().chain(whose).copied().collect();
    let kept = lab
        .call_with(&args, format!("{value}\n").as_bytes())
        .with(0);
    assert!(!format!("{kept:?}").contains(value));
}

pub(crate) fn key_of(lab: &Lab, principal: &str, more: &[&str]) -> String {
    let args = [
        "keys",
        "create",
        "--data",
        "store",
        "--tenant",
        "acme",
        "--principal",
        principal,
    ];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    lab.call(&args).with(0).stdout.trim().to_owned()
}

/// Fails if a text contains the canary, in any form that a program might produce.
#[track_caller]
fn has_none(what: &str, text: &str) {
    let base64 = "cGxhaW4tbG9va2luZy1jYW5hcnktNzcz";
    let hex = "706c61696e2d6c6f6f6b696e67";
    for form in [CANARY, base64, hex] {
        assert!(!text.contains(form), "{what} has {form}: {text}");
    }
}

#[test]
fn a_program_that_echoes_its_secret_does_not_leak_it() {
    let lab = Lab::new();
    let peer = echo();
    keep(&lab, "canary", &["--principal", "ada"], CANARY);
    lab.write(
        "providers.toml",
        format!(
            "default = \"small\"\n[provider.small]\nbase_url = \"http://{peer}/v1\"\nmodel = \"m\"\n\
             [provider.rude]\nbase_url = \"http://{peer}/refuse/v1\"\nmodel = \"m\"\n"
        ),
    );
    let program = node(
        "program",
        "runwright.process",
        json!({
            "argv": ["sh", "-euc",
                "echo \"$T\"; printf %s \"$T\" | base64; echo \"$T\" >&2; yes \"$T\" | head -n 4000"],
            "secretEnv": { "T": "secret://canary" },
        }),
    );
    let request = node(
        "request",
        "runwright.http",
        json!({
            "url": format!("http://{peer}/"),
            "secretHeaders": { "authorization": { "prefix": "Bearer ", "secret": "canary" } },
        }),
    );
    let model = node(
        "model",
        "core.ai.chatCompletion",
        json!({ "prompt": "hello", "credentialRef": "secret://user/canary" }),
    );
    let digest = node(
        "digest",
        "conformance.secret.echo",
        json!({ "secretId": "canary" }),
    );
    let mut after = node("after", "core.identity", json!({}));
    after["inputs"] = json!({
        "said": { "type": "connection", "nodeId": "program", "outputKey": "stdout" },
        "answered": { "type": "connection", "nodeId": "model", "outputKey": "content" },
    });
    let edges = ["program", "request", "model", "digest"].map(|from| (from, "after"));
    lab.write_flow(&workflow(
        "echoes",
        &[program, request, model, digest, after],
        &edges,
    ));
    let fails = node(
        "fails",
        "runwright.process",
        json!({ "argv": ["sh", "-euc", "echo \"$T\" >&2; exit 3"],
            "secretEnv": { "T": "canary" } }),
    );
    lab.write_flow(&workflow("breaks", &[fails], &[]));
    let refused = node(
        "refused",
        "core.ai.chatCompletion",
        json!({ "prompt": "hello", "provider": "rude" }),
    );
    lab.write_flow(&workflow("refused", &[refused], &[]));

    let ada = key_of(&lab, "ada", &[]);
    let allowed = peer.to_string();
    let options = [
        "--secrets",
        "vault",
        "--providers",
        "providers.toml",
        "--allow-http",
        &allowed,
    ];
    let serving = Serving::with(&lab, &options, |command| {
        command.env("RUNWRIGHT_LOG", "trace");
    });
    let discovery = json_of(&get(&serving, &ada, "/.well-known/openwop"));
    assert_eq!(
        discovery["secrets"],
        json!({ "supported": true, "scopes": ["user", "workspace", "tenant"],
            "resolution": "host-managed" })
    );

    let byok = json!({ "ai.credentialRef": "secret://user/canary" });
    let orders = [
        (json!({ "workflowId": "echoes" }), "completed"),
        (json!({ "workflowId": "breaks" }), "failed"),
        (
            json!({ "workflowId": "refused", "configurable": byok }),
            "failed",
        ),
    ];
    for (order, status) in orders {
        let run = made(&serving, &ada, "/v1/runs", &order);
        let snapshot = json_of(&get(&serving, &ada, &format!("/v1/runs/{run}")));
        assert_eq!(snapshot["status"], status, "{snapshot}");
        for path in [
            "",
            "/events/poll",
            "/events?streamMode=debug",
            "/events?streamMode=values",
            "/events?streamMode=messages",
            "/debug-bundle",
            "/ancestry",
        ] {
            let told = get(&serving, &ada, &format!("/v1/runs/{run}{path}"));
            has_none(path, &told);
        }
        let kept = get(&serving, &ada, &format!("/v1/runs/{run}/artifacts"));
        has_none("artifacts", &kept);
        for artifact in json_of(&kept)["artifacts"].as_array().into_iter().flatten() {
            let id = artifact["artifactId"].as_str().unwrap();
            let path = format!("/v1/runs/{run}/artifacts/{id}");
            has_none(&path, &get(&serving, &ada, &path));
        }
        match order["workflowId"].as_str().unwrap() {
            "echoes" => {
                let said = snapshot["variables"]["answered"].as_str().unwrap();
                let is_masked = said.starts_with("It is [REDACTED:") && said.ends_with("].");
                assert!(is_masked, "{said}");
                let said = snapshot["variables"]["said"].as_str().unwrap();
                assert!(said.starts_with("[REDACTED:"), "{said}");
                let digest = &snapshot["variables"]["digest"];
                let expected = Digest::compute(CANARY.as_bytes()).to_string();
                assert_eq!(
                    *digest,
                    json!({ "secretSha256": expected, "secretLength": CANARY.len() })
                );
            }
            "refused" => {
                assert_eq!(snapshot["error"]["code"], "model_request_refused");
                let shown = &snapshot["configurable"]["ai.credentialRef"];
                assert_eq!(shown, "[REDACTED]");
            }
            _ => {}
        }
        // A copy of the run is equally confidential.
        let fork = json!({ "mode": "replay" });
        let fork = made(&serving, &ada, &format!("/v1/runs/{run}:fork"), &fork);
        has_none(
            "replay",
            &get(&serving, &ada, &format!("/v1/runs/{fork}/debug-bundle")),
        );
    }
    serving.stop();
    has_none("the server's own log", &lab.read("server.log"));
    lab.wait_until_quiet();
    for entry in std::fs::read_dir(lab.path().join("store"))
        .unwrap()
        .flatten()
    {
        if entry.path().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            has_none("the store", &String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn everybody_has_secrets_of_their_own() {
    let lab = Lab::new();
    let digest = node(
        "digest",
        "conformance.secret.echo",
        json!({ "secretId": "k" }),
    );
    lab.write_flow(&workflow("looks", &[digest], &[]));
    let hers = node(
        "digest",
        "conformance.secret.echo",
        json!({ "secretId": "secret://user/k" }),
    );
    lab.write_flow(&workflow("looks-for-hers", &[hers], &[]));
    let ada = key_of(&lab, "ada", &[]);
    let bob = key_of(&lab, "bob", &[]);
    let in_lab = key_of(&lab, "bob", &["--workspace", "lab"]);
    keep(&lab, "k", &["--principal", "ada"], CANARY);
    keep(&lab, "k", &["--workspace", "lab"], "of the workspace lab");
    keep(&lab, "k", &[], OTHERS);
    let whose = [
        "--secrets",
        "vault",
        "--tenant",
        "acme",
        "--principal",
        "ada",
        "--json",
    ];
    let list: Vec<&str> = ["secrets", "list"].iter().chain(&whose).copied().collect();
    let listed = lab.call(&list).with(0);
    assert_eq!(
        listed.json_lines(),
        [
            json!({ "name": "k", "scope": "user" }),
            json!({ "name": "k", "scope": "tenant" })
        ]
    );

    let serving = Serving::start(&lab, &["--secrets", "vault"]);
    let look = |key: &str, run: &str| {
        let snapshot = json_of(&get(&serving, key, &format!("/v1/runs/{run}")));
        match snapshot["error"]["code"].as_str() {
            Some(code) => code.to_owned(),
            None => {
                let sum = &snapshot["variables"]["digest"]["secretSha256"];
                sum.as_str().unwrap_or_default().to_owned()
            }
        }
    };
    let sum = |value: &str| Digest::compute(value.as_bytes()).to_string();
    for (key, workflow, expected) in [
        (&ada, "looks", sum(CANARY)),
        (&bob, "looks", sum(OTHERS)),
        (&in_lab, "looks", sum("of the workspace lab")),
    ] {
        let run = made(
            &serving,
            key,
            "/v1/runs",
            &json!({ "workflowId": workflow }),
        );
        assert_eq!(look(key, &run), expected, "{workflow}");
    }
    let lacks = |key: &str, workflow: &str| {
        let run = waiting(&serving, key, workflow);
        let log = get(&serving, key, &format!("/v1/runs/{run}/events/poll"));
        assert!(log.contains("credential_not_found"), "{log}");
    };
    lacks(&bob, "looks-for-hers");
    // A branch of another person's run acts for the person who branches.
    let run = made(
        &serving,
        &ada,
        "/v1/runs",
        &json!({ "workflowId": "looks" }),
    );
    let branch = json!({ "mode": "branch", "fromSeq": 1 });
    let fork = made(&serving, &bob, &format!("/v1/runs/{run}:fork"), &branch);
    assert_eq!(look(&bob, &fork), sum(OTHERS));
    let fork = made(&serving, &ada, &format!("/v1/runs/{run}:fork"), &branch);
    assert_eq!(look(&ada, &fork), sum(CANARY));
    // A removed secret is gone at once.
    let remove = [
        "secrets",
        "remove",
        "k",
        "--secrets",
        "vault",
        "--tenant",
        "acme",
    ];
    lab.call(&remove).with(0).says("was removed");
    lab.call(&remove).with(0).says("there is no");
    lacks(&bob, "looks");
    serving.stop();
    // Without a named folder they are kept with the store.
    let whose = ["--data", "store", "--tenant", "acme"];
    let put: Vec<&str> = ["secrets", "put", "k"]
        .iter()
        .chain(&whose)
        .copied()
        .collect();
    lab.call_with(&put, OTHERS.as_bytes()).with(0);
    let serving = Serving::start(&lab, &[]);
    let run = made(
        &serving,
        &bob,
        "/v1/runs",
        &json!({ "workflowId": "looks" }),
    );
    let snapshot = json_of(&get(&serving, &bob, &format!("/v1/runs/{run}")));
    assert_eq!(snapshot["variables"]["digest"]["secretSha256"], sum(OTHERS));
    serving.stop();
}

#[test]
fn a_secret_that_cannot_be_kept_is_refused() {
    let lab = Lab::new();
    let put = |args: &[&str], value: &str| {
        let args: Vec<&str> = ["secrets", "put", "--secrets", "vault"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        lab.call_with(&args, value.as_bytes())
    };
    put(&["k"], "").with(2).says("standard input is empty");
    put(&["k"], "12345")
        .with(2)
        .says("a secret needs at least 6 characters");
    put(&["../k"], "a value").with(2).says("letters, digits");
    put(&["k", "--workspace", "w", "--principal", "p"], "a value")
        .with(2)
        .says("not for both");
    lab.call(&["secrets", "list", "--secrets", "vault"])
        .with(0)
        .says("no secret yet");
}

#[test]
fn the_protocol_secret_roundtrip_shows_only_its_digest() {
    let shared = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(shared) => std::path::PathBuf::from(shared),
        None => std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let name = "openwop-smoke-byok-roundtrip";
    let file = shared.join(format!("workflows/openwop/{name}.json"));
    let Ok(definition) = std::fs::read_to_string(file) else {
        let test = "the_protocol_secret_roundtrip_shows_only_its_digest";
        return testkit::skip(test, "there is no folder of OpenWOP workflows");
    };
    let lab = Lab::new();
    lab.write_flow(&json_of(&definition));
    let ada = key_of(&lab, "ada", &[]);
    // Without the secret the protocol's requirement cannot be met, and is not claimed.
    let serving = Serving::start(&lab, &["--secrets", "vault"]);
    let discovery = json_of(&get(&serving, &ada, "/.well-known/openwop"));
    assert_eq!(discovery.get("fixtures"), None);
    assert_eq!(discovery["secrets"]["supported"], true);
    let run = waiting(&serving, &ada, name);
    let log = get(&serving, &ada, &format!("/v1/runs/{run}/events/poll"));
    assert!(log.contains("credential_not_found"), "{log}");
    serving.stop();

    keep(&lab, "openwop-conformance-canary-secret", &[], CANARY);
    let serving = Serving::start(&lab, &["--secrets", "vault"]);
    let discovery = json_of(&get(&serving, &ada, "/.well-known/openwop"));
    assert_eq!(discovery["fixtures"], json!([name]));
    let run = made(&serving, &ada, "/v1/runs", &json!({ "workflowId": name }));
    let bundle = get(&serving, &ada, &format!("/v1/runs/{run}/debug-bundle"));
    has_none("bundle", &bundle);
    let sum = Digest::compute(CANARY.as_bytes()).to_string();
    assert_eq!(
        json_of(&bundle)["run"]["variables"]["resolve-secret"],
        json!({ "secretSha256": sum, "secretLength": CANARY.len() })
    );
    serving.stop();
}

#[test]
fn secrets_in_a_definition_cause_a_warning_everywhere() {
    let lab = Lab::new();
    let mut shouts = script("shout", "true");
    shouts["config"]["env"] = json!({ "DEPLOY_TOKEN": CANARY, "TOKEN_COUNT": "5" });
    let file = lab.workflow(&workflow("literal", &[shouts], &[]));
    for (args, code) in [
        (&["workflow", "put", &file][..], 0),
        (&["run", &file], 0),
        (&["workflow", "validate", &file], 0),
    ] {
        let ended = lab.call(args).with(code);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        let places = told.matches("/nodes/0/config/env/").count();
        assert_eq!(places, 1, "{told}");
        assert!(told.contains("(literal_secret)"), "{told}");
        assert!(told.contains("/nodes/0/config/env/DEPLOY_TOKEN"), "{told}");
        assert!(!told.contains(CANARY), "{told}");
    }
    let put = lab.call(&["workflow", "put", &file, "--json"]).with(0);
    assert_eq!(put.json()["warnings"][0]["code"], "literal_secret");

    // Naming it avoids the warning.
    let mut names = script("shout", "true");
    names["config"]["secretEnv"] = json!({ "DEPLOY_TOKEN": "env:RUNWRIGHT_SECRET_X" });
    let file = lab.workflow(&workflow("named", &[names], &[]));
    let ended = lab.call(&["workflow", "put", &file]).with(0);
    assert!(!ended.stderr.contains("warning"), "{ended:?}");
}
