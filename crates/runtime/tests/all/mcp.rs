//! Tools of real servers: the official Python SDK, on its standard streams and over HTTP.

use std::process::Command;
use std::sync::Arc;

use kernel::run::report::ToolStatus;
use kernel::run::{NodeError, Outcome, Report};
use runtime::models::Providers;
use runtime::outbound::Outbound;
use serde_json::{Value, json};

use crate::recorder::*;
use crate::support::*;

const CALL: &str = "core.mcp.toolCall";
pub(crate) const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/mcp_server.py");

/// The interpreter with the SDK; otherwise the test is skipped.
pub(crate) fn python(test: &str) -> Option<String> {
    match std::env::var("RUNWRIGHT_MCP_PYTHON") {
        Ok(python) => Some(python),
        Err(_) => {
            let reason = "there is no Python with mcp; `cargo xtask ci` makes one";
            testkit::skip(test, reason);
            None
        }
    }
}

fn lab_with(file: &str) -> Lab {
    let mut lab = Lab::new();
    std::fs::write(lab.work().join("key"), "planted-secret").unwrap();
    lab.models = Arc::new(Providers::parse(file, &lab.work()).unwrap());
    lab
}

/// A lab with the server as a process.
fn lab_for(python: &str) -> Lab {
    lab_with(&format!(
        "[mcp.bench]\ncommand = [{python:?}, {SERVER:?}]\nenv = {{ PLAIN = \"plain\" }}\nsecret_env = {{ \
         SECRET = \"file:key\" }}\ntools = [\"add\", \"fail\", \"wait\", \"vari*\"]\n\
         [mcp.theirs]\ncommand = [\"true\"]\ntenants = [\"other\"]"
    ))
}

async fn call(lab: &Lab, tool: &str, arguments: Value) -> (Outcome, Arc<Recorder>) {
    let recorder = Recorder::new();
    let config = json!({ "server": "bench", "tool": tool, "arguments": arguments });
    let outcome = run_node(lab, &recorder, CALL, config, json!({ "n": 2 })).await;
    (outcome, recorder)
}

fn error(outcome: Outcome) -> NodeError {
    match outcome {
        Outcome::Failed { error, .. } => error,
        other => panic!("it should fail: {other:?}"),
    }
}

fn outputs(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Completed(completion) => Value::Object(completion.outputs),
        other => panic!("it should complete: {other:?}"),
    }
}

/// The status of an attempt's only call.
fn status(recorder: &Recorder) -> ToolStatus {
    let reports = recorder.reports.lock().unwrap();
    let [Report::ToolCalled(called), Report::ToolReturned(returned)] = reports.as_slice() else {
        panic!("a call and its return: {reports:?}")
    };
    assert_eq!(called.call_id, returned.call_id);
    assert_eq!(called.tool_name, returned.tool_name);
    returned.status
}

/// Processes that were started for an attempt of this lab.
fn alive(lab: &Lab) -> usize {
    let key = lab.key();
    let begins = format!("WF_ATTEMPT_KEY={key}");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut entries = environment.split(|&byte| byte == 0);
            entries.any(|entry| entry.starts_with(begins.as_bytes()))
        })
        .count()
}

#[tokio::test]
async fn a_tool_of_a_process_is_called_and_the_process_ends() {
    let Some(python) = python("a_tool_of_a_process_is_called_and_the_process_ends") else {
        return;
    };
    let lab = lab_for(&python);
    let (outcome, recorder) = call(&lab, "add", json!({ "a": "${inputs.n}", "b": 3 })).await;
    let given = outputs(outcome);
    assert_eq!(given["text"], "5");
    assert_eq!(given["structured"]["result"], 5);
    assert_eq!(given["content"][0]["type"], "text");
    assert_eq!(given["contentTrust"], "untrusted");
    assert_eq!(status(&recorder), ToolStatus::Ok);
    {
        let reports = recorder.reports.lock().unwrap();
        let Report::ToolCalled(called) = &reports[0] else {
            panic!("{reports:?}")
        };
        assert_eq!(called.inputs, Some(json!({ "a": 2, "b": 3 })));
        assert_eq!(called.tool_name, "bench.add");
    }
    assert_eq!(alive(&lab), 0, "nothing of the server is left");

    for (name, value) in [
        ("PLAIN", "plain"),
        ("SECRET", "planted-secret"),
        ("CARGO", ""),
    ] {
        let (outcome, _) = call(&lab, "variable", json!({ "name": name })).await;
        assert_eq!(outputs(outcome)["text"], value, "{name}");
    }

    // A prompt node that names a tool calls it itself.
    let recorder = Recorder::new();
    let config = json!({ "mcp": { "server": "bench", "tool": "add",
        "arguments": { "a": 20, "b": 1 } } });
    let prompted = run_node(&lab, &recorder, "core.ai.callPrompt", config, json!({})).await;
    assert_eq!(outputs(prompted)["text"], "21");
    assert_eq!(status(&recorder), ToolStatus::Ok);

    let recorder = Recorder::new();
    let config = json!({ "server": "bench" });
    let listed = run_node(&lab, &recorder, "core.mcp.listTools", config, json!({})).await;
    let listed = outputs(listed);
    let names: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["add", "fail", "variable", "wait"]);
    assert_eq!(
        listed["tools"][0]["inputSchema"]["required"],
        json!(["a", "b"])
    );
}

#[tokio::test]
async fn tool_failures_are_classified() {
    let Some(python) = python("tool_failures_are_classified") else {
        return;
    };
    let lab = lab_for(&python);
    let (outcome, recorder) = call(&lab, "fail", json!({ "why": "planted" })).await;
    let failed = error(outcome);
    assert_eq!(failed.code, "mcp_tool_error");
    assert!(!failed.message.contains("planted"), "{failed:?}");
    let details = failed.details.unwrap();
    assert_eq!(details["contentTrust"], "untrusted");
    assert!(
        details["text"].as_str().unwrap().contains("tool fail"),
        "{details}"
    );
    assert_eq!(status(&recorder), ToolStatus::Error);

    // Not an allowed one: no process is started.
    let fresh = lab_for(&python);
    let (outcome, recorder) = call(&fresh, "unheard", json!({})).await;
    assert_eq!(error(outcome).code, "tool_not_allowed");
    assert_eq!(status(&recorder), ToolStatus::Forbidden);
    assert!(!fresh.supervisor.dir.exists());

    let missing = |config: Value| {
        let lab = &lab;
        async move { error(run_node(lab, &Recorder::new(), CALL, config, json!({})).await).code }
    };
    // Another tenant's is not found.
    for server in ["theirs", "nobodys"] {
        let config = json!({ "server": server, "tool": "add" });
        assert_eq!(missing(config).await, "mcp_server_not_found", "{server}");
    }
    let marks = lab.work();
    let config = json!({ "server": "bench", "tool": "wait", "timeoutMs": 3_000,
        "arguments": { "marks": marks } });
    let late = error(run_node(&lab, &Recorder::new(), CALL, config, json!({})).await);
    assert_eq!(
        (late.code.as_str(), late.retryable),
        ("mcp_timed_out", Some(false))
    );
    assert_eq!(alive(&lab), 0);

    // A server that never completes the handshake is gone as well when the call gives up.
    let deaf = lab_with("[mcp.bench]\ncommand = [\"sleep\", \"1000\"]");
    let config = json!({ "server": "bench", "tool": "add", "timeoutMs": 300 });
    let late = error(run_node(&deaf, &Recorder::new(), CALL, config, json!({})).await);
    assert_eq!(late.code, "mcp_timed_out");
    assert_eq!(alive(&deaf), 0);

    for (command, said) in [
        ("[\"/nowhere/at-all\"]", "No such file"),
        ("[\"true\"]", "does not speak"),
        ("[\"sh\", \"-c\", \"echo complaint >&2\"]", "complaint"),
    ] {
        let lab = lab_with(&format!("[mcp.bench]\ncommand = {command}"));
        let (outcome, _) = call(&lab, "add", json!({})).await;
        let failed = error(outcome);
        assert_eq!(failed.code, "mcp_not_started", "{command}");
        assert!(failed.message.contains(said), "{failed:?}");
    }
}

#[tokio::test]
async fn a_stop_cancels_the_call_and_ends_the_server() {
    let Some(python) = python("a_stop_cancels_the_call_and_ends_the_server") else {
        return;
    };
    let lab = lab_for(&python);
    let marks = lab.work().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let begun = marks.join("begun");
    rustix::fs::mkfifoat(rustix::fs::CWD, &begun, 0o600.into()).unwrap();
    let cx = Recorder::new().context(&lab);
    let stop = cx.stop.clone();
    let config = json!({ "server": "bench", "tool": "wait", "arguments": { "marks": marks } });
    let running = run_in(&lab, cx, CALL, config, json!({}));
    let stopping = async {
        // Opening the pipe waits for the tool to open its end.
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(begun));
        let said = tokio::time::timeout(DEADLINE, read).await.unwrap();
        assert_eq!(said.unwrap().unwrap(), "begun");
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(running, stopping);
    assert_eq!(outcome, Outcome::Stopped);
    assert_eq!(alive(&lab), 0, "the server is gone when the attempt is");
    let mark = std::fs::read_to_string(marks.join("cancelled")).unwrap();
    assert_eq!(mark, "cancelled", "the tool was told");
}

/// The server over HTTP.
fn http_server(python: &str) -> testkit::Server {
    testkit::Server::start(Command::new(python).args([SERVER, "http"]))
}

#[tokio::test]
async fn an_http_tool_is_called_through_the_guard() {
    let Some(python) = python("an_http_tool_is_called_through_the_guard") else {
        return;
    };
    let http = http_server(&python);
    let address = http.address();
    let file = format!("[mcp.bench]\nurl = \"http://{address}/mcp\"\ncredential = \"file:key\"");
    let mut lab = lab_with(&file);
    let (outcome, _) = call(&lab, "add", json!({ "a": 1, "b": 1 })).await;
    let refused = error(outcome);
    assert_eq!(refused.code, "mcp_unreachable");
    assert!(refused.message.contains("--allow-http"), "{refused:?}");
    let says_where = |error: &NodeError| {
        let said = format!("{error:?}");
        said.contains("127.0.0.1") || said.contains("rmcp")
    };
    assert!(!says_where(&refused), "{refused:?}");

    lab.outbound = Outbound::new(address.parse().unwrap());
    let (outcome, recorder) = call(&lab, "add", json!({ "a": 1, "b": 1 })).await;
    assert_eq!(outputs(outcome)["structured"]["result"], 2);
    assert_eq!(status(&recorder), ToolStatus::Ok);
    drop(http);
    let (outcome, _) = call(&lab, "add", json!({ "a": 1, "b": 1 })).await;
    let gone = error(outcome);
    assert_eq!(gone.code, "mcp_unreachable");
    assert!(!format!("{gone:?}").contains("planted"), "{gone:?}");
    assert!(!says_where(&gone), "{gone:?}");
}
