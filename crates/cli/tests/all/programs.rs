//! Programs of tenants' workflows: refused, or confined.

use std::path::Path;

use runtime::supervisor::ProcessLimit;
use serde_json::{Value, json};

use crate::secrets::{get, json_of, made, send};
use crate::serving::{Serving, key, lab};
use crate::support::*;

const ATTACK: &str = include_str!("attack.py");
const CANARY: &str = "canary-of-the-servers-environment";

/// Whether programs can be confined here; otherwise skips the test.
fn can_confine(test: &str) -> bool {
    match runtime::programs::confinement() {
        Ok(_) => true,
        Err(why) => {
            testkit::skip(test, &why.to_string());
            false
        }
    }
}

fn program(id: &str, argv: &[&str]) -> Value {
    workflow(
        id,
        &[node("p", "runwright.process", json!({ "argv": argv }))],
        &[],
    )
}

fn put(serving: &Serving, key: &str, workflow: &Value) -> (u16, Value) {
    let (status, body) = send(serving, key, "POST", "/v1/workflows", &workflow.to_string());
    (status, json_of(&body))
}

/// Runs a workflow to its end.
fn ran(serving: &Serving, key: &str, workflow: &str) -> Value {
    let run = made(serving, key, "/v1/runs", &json!({ "workflowId": workflow }));
    json_of(&get(serving, key, &format!("/v1/runs/{run}")))
}

fn stdout(snapshot: &Value) -> &str {
    let outputs = snapshot.pointer("/nodeStates/p/outputs/stdout");
    outputs
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{snapshot:#}"))
}

#[test]
fn a_tenants_workflow_runs_no_programs() {
    let lab = lab();
    lab.write("providers.toml", "[mcp.files]\ncommand = [\"true\"]\n");
    let serving = Serving::start(&lab, &["--providers", "providers.toml"]);
    let acme = key(&lab, "acme");
    let tool = json!({ "name": "t", "parameters": {}, "process": { "argv": ["id"] } });
    for (type_id, config) in [
        ("runwright.process", json!({ "argv": ["id"] })),
        ("runwright.skill", json!({ "executor": "x" })),
        ("runwright.command", json!({ "executor": "x" })),
        (
            "runwright.cli",
            json!({ "executor": "x", "cliTool": "claude" }),
        ),
        ("runwright.agent", json!({ "executor": "x" })),
        (
            "core.mcp.toolCall",
            json!({ "server": "files", "tool": "t" }),
        ),
        ("core.mcp.listTools", json!({})),
        (
            "core.ai.chatCompletion",
            json!({ "prompt": "x", "tools": [tool] }),
        ),
        (
            "core.ai.chatCompletion",
            json!({ "prompt": "x", "mcpServers": ["files"] }),
        ),
    ] {
        let (status, said) = put(
            &serving,
            &acme,
            &workflow("w", &[node("p", type_id, config)], &[]),
        );
        assert_eq!(
            (status, &said["error"]),
            (403, &json!("programs_not_allowed")),
            "{type_id}: {said}"
        );
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("--allow-programs acme"), "{message}");
    }
    let (status, said) = send(&serving, &acme, "GET", "/v1/workflows/w", "");
    assert_eq!(status, 404, "{said}");
}

#[test]
fn the_operators_workflows_run_programs_for_everybody() {
    let lab = lab();
    lab.write_flow(&program("served", &["echo", "by the operator"]));
    lab.write(
        "flows/served.json",
        program("served", &["echo", "by the operator"]).to_string(),
    );
    lab.write(
        "put.json",
        program("put", &["echo", "put by hand"]).to_string(),
    );
    lab.call(&["workflow", "put", "put.json", "--data", "store"])
        .with(0);
    let serving = Serving::start(&lab, &[]);
    assert_eq!(
        stdout(&ran(&serving, &key(&lab, "acme"), "served")),
        "by the operator\n"
    );
    let local = key(&lab, "local");
    assert_eq!(stdout(&ran(&serving, &local, "put")), "put by hand\n");
    // Registering the same again keeps the permission; registering another removes it.
    let (status, said) = put(&serving, &local, &program("put", &["echo", "mine"]));
    assert_eq!(
        (status, &said["error"]),
        (403, &json!("programs_not_allowed"))
    );
    assert_eq!(stdout(&ran(&serving, &local, "put")), "put by hand\n");
}

#[test]
fn programs_of_stored_workflows_need_the_permission_of_now() {
    if !can_confine("programs_of_stored_workflows_need_the_permission_of_now") {
        return;
    }
    let lab = lab();
    let acme = {
        let serving = Serving::start(&lab, &["--allow-programs", "acme"]);
        let acme = key(&lab, "acme");
        let after_a_gate = workflow(
            "gated",
            &[
                node("gate", "core.approvalGate", json!({})),
                node(
                    "p",
                    "runwright.process",
                    json!({ "argv": ["touch", "ran"] }),
                ),
            ],
            &[("gate", "p")],
        );
        assert_eq!(put(&serving, &acme, &after_a_gate).0, 201);
        let body = json!({ "workflowId": "gated" }).to_string();
        let (status, said) = send(&serving, &acme, "POST", "/v1/runs", &body);
        assert_eq!(status, 201, "{said}");
        lab.write("run", json_of(&said)["runId"].as_str().unwrap());
        serving.stop();
        acme
    };
    let serving = Serving::start(&lab, &[]);
    let body = json!({ "workflowId": "gated" }).to_string();
    let (status, said) = send(&serving, &acme, "POST", "/v1/runs", &body);
    assert_eq!(
        (status, &json_of(&said)["error"]),
        (403, &json!("programs_not_allowed"))
    );
    // The run that was created before reaches the program now.
    let run = lab.read("run");
    let answer = json!({ "resumeValue": { "action": "accept" } }).to_string();
    let (status, said) = send(
        &serving,
        &acme,
        "POST",
        &format!("/v1/runs/{run}/interrupts/gate"),
        &answer,
    );
    assert_eq!(status, 200, "{said}");
    get(&serving, &acme, &format!("/v1/runs/{run}/events"));
    let snapshot = json_of(&get(&serving, &acme, &format!("/v1/runs/{run}")));
    assert_eq!(snapshot["status"], "failed", "{snapshot:#}");
    assert!(
        snapshot.to_string().contains("programs_not_allowed"),
        "{snapshot:#}"
    );
    assert!(!lab.path().join("store/tenants/acme/ran").exists());
}

#[test]
fn a_confined_program_reaches_nothing_of_others() {
    if !can_confine("a_confined_program_reaches_nothing_of_others") {
        return;
    }
    let lab = lab();
    std::fs::create_dir_all(lab.path().join("store/secrets")).unwrap();
    lab.write("store/secrets/planted", "a secret");
    let allow = ["--allow-programs", "acme,beta"];
    let serving = Serving::with(&lab, &allow, |command| {
        command.env("RUNWRIGHT_SECRET_CANARY", CANARY);
    });
    let (acme, beta) = (key(&lab, "acme"), key(&lab, "beta"));
    let neighbour = program("note", &["sh", "-c", "echo private > note; pwd"]);
    assert_eq!(put(&serving, &beta, &neighbour).0, 201);
    let folder = stdout(&ran(&serving, &beta, "note")).trim().to_owned();
    let note = Path::new(&folder).join("note");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "private\n");

    let (data, project) = (lab.path().join("store"), lab.path());
    let port = serving.url.rsplit_once(':').unwrap().1;
    let arguments = [
        data.to_str().unwrap(),
        project.to_str().unwrap(),
        note.to_str().unwrap(),
        &serving.pid().to_string(),
        port,
        env!("CARGO_BIN_EXE_runwright"),
    ];
    let argv = [&["python3", "-c", ATTACK][..], &arguments].concat();
    let (status, said) = put(&serving, &acme, &program("attack", &argv));
    assert_eq!(status, 201, "{said}");
    let snapshot = ran(&serving, &acme, "attack");
    let report = json_of(stdout(&snapshot));
    let told = report["told"].as_object().unwrap();
    assert!(told.len() > 30, "{told:#?}");
    let done: Vec<_> = told.iter().filter(|(_, came)| *came != "denied").collect();
    assert!(done.is_empty(), "{done:#?}");
    // It works in its own folder, without the server's environment.
    let own = data.join("tenants/acme").canonicalize().unwrap();
    assert_eq!(report["cwd"], own.to_str().unwrap());
    assert_eq!(
        std::fs::read_to_string(own.join("own.txt")).unwrap(),
        "mine"
    );
    let environment = report["environment"].as_object().unwrap();
    let mut names: Vec<&str> = environment.keys().map(String::as_str).collect();
    names.retain(|name| !name.starts_with("LC_"));
    assert_eq!(
        names,
        [
            "HOME",
            "LANG",
            "PATH",
            "TMPDIR",
            "TRACEPARENT",
            "WF_ATTEMPT_DIR",
            "WF_ATTEMPT_KEY",
            "WF_EFFECT_KEY"
        ]
    );
    assert!(!report.to_string().contains(CANARY));
    // The server continues.
    assert_eq!(ran(&serving, &beta, "note")["status"], "completed");
    serving.stop();
    lab.call(&["verify", "--data", "store"]).with(0);
    let mut keys = lab
        .call(&[
            "keys", "list", "--data", "store", "--tenant", "beta", "--json",
        ])
        .with(0);
    keys.stdout = keys.stdout.trim().to_owned();
    assert_eq!(keys.json_lines().len(), 1, "{keys:?}");
}

#[test]
fn a_confined_program_inherits_no_variable_of_the_server() {
    if !can_confine("a_confined_program_inherits_no_variable_of_the_server") {
        return;
    }
    let lab = lab();
    let serving = Serving::start(&lab, &["--allow-programs", "acme"]);
    let acme = key(&lab, "acme");
    let config = json!({ "argv": ["env"], "inheritEnv": ["PATH", "RUNWRIGHT_KEY"] });
    let asks = workflow("asks", &[node("p", "runwright.process", config)], &[]);
    let (status, said) = put(&serving, &acme, &asks);
    assert_eq!(status, 400, "{said}");
    assert_eq!(
        said["details"]["errors"][0]["path"], "/nodes/0/config/inheritEnv/1",
        "{said}"
    );
    let message = said["details"]["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("env or secretEnv"), "{message}");
}

#[test]
fn a_dev_server_runs_any_program() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let (status, said) = put(&serving, "none", &program("own", &["sh", "-c", "pwd"]));
    assert_eq!(status, 201, "{said}");
    let folder = lab.path().canonicalize().unwrap();
    assert_eq!(
        stdout(&ran(&serving, "none", "own")).trim(),
        folder.to_str().unwrap()
    );
}

#[test]
fn doctor_and_serve_name_the_confinement_of_programs() {
    let lab = lab();
    let doctor = lab.call(&["doctor", "--data", "store"]).with(0);
    assert!(doctor.stdout.contains("programs"), "{doctor:?}");
    if !can_confine("doctor_and_serve_name_the_confinement_of_programs") {
        return;
    }
    let limit = ProcessLimit::here().as_str();
    let said = format!("by Landlock and seccomp; their number is limited by {limit}");
    assert!(doctor.stdout.contains(&said), "{doctor:?}");
    let serving = Serving::start(&lab, &["--allow-programs", "acme"]);
    serving.stop();
    let log = lab.read("server.log");
    assert!(
        log.contains("programs of these tenants run confined"),
        "{log}"
    );
    assert!(log.contains(limit), "{log}");
}
