//! The protocol's round trip of a tool, by the real program and tool servers with the official SDK:
//! on their standard streams, and over HTTP.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::forks::content;
use crate::secrets::{get, json_of, key_of, made};
use crate::serving::Serving;
use crate::support::*;

const SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../runtime/tests/all/mcp_server.py"
);

/// A tool server over HTTP.
fn http_server(python: &str) -> testkit::Server {
    testkit::Server::start(Command::new(python).args([SERVER, "http"]))
}

/// The protocol's definition under another name; otherwise skips the test.
fn definition(test: &str) -> Option<Value> {
    let shared = match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(shared) => std::path::PathBuf::from(shared),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let file = shared.join("workflows/openwop/conformance-mcp-tool-roundtrip.json");
    let Ok(text) = std::fs::read_to_string(file) else {
        testkit::skip(test, "there is no folder of OpenWOP workflows");
        return None;
    };
    let mut definition = json_of(&text);
    definition["id"] = "round-trip".into();
    Some(definition)
}

#[test]
fn the_protocols_round_trip_of_a_tool_reaches_real_servers() {
    let test = "the_protocols_round_trip_of_a_tool_reaches_real_servers";
    let Ok(python) = std::env::var("RUNWRIGHT_MCP_PYTHON") else {
        return testkit::skip(
            test,
            "there is no Python with mcp; `cargo xtask ci` makes one",
        );
    };
    let Some(definition) = definition(test) else {
        return;
    };
    let http = http_server(&python);
    let address = http.address();
    for (how, file) in [
        ("streams", format!("command = [{python:?}, {SERVER:?}]\n")),
        ("http", format!("url = \"http://{address}/mcp\"\n")),
    ] {
        let lab = Lab::new();
        lab.write_flow(&definition);
        lab.write("providers.toml", format!("[mcp.bench]\n{file}"));
        let ada = key_of(&lab, "ada", &[]);
        let options = ["--providers", "providers.toml", "--allow-http", &address];
        let serving = Serving::start(&lab, &options);
        let run = made(
            &serving,
            &ada,
            "/v1/runs",
            &json!({ "workflowId": "round-trip" }),
        );
        let events = |run: &str| -> Vec<Value> {
            let page = get(&serving, &ada, &format!("/v1/runs/{run}/events/poll"));
            json_of(&page)["events"].as_array().unwrap().clone()
        };
        let told = events(&run);
        let of = |kind: &str| {
            let event = told.iter().find(|event| event["type"] == kind);
            event.unwrap_or_else(|| panic!("{how}: {kind} in {told:?}"))
        };
        let (called, returned) = (of("agent.toolCalled"), of("agent.toolReturned"));
        assert_eq!(called["payload"]["toolName"], "bench.echo", "{how}");
        assert_eq!(called["payload"]["transport"], "mcp", "{how}");
        let said = json!({ "text": "roundtrip-probe" });
        assert_eq!(called["payload"]["inputs"], said, "{how}");
        assert_eq!(returned["payload"]["status"], "ok", "{how}");
        assert_eq!(
            returned["payload"]["callId"], called["payload"]["callId"],
            "{how}"
        );
        // Readers are told that the content is untrusted.
        assert_eq!(returned["contentTrust"], "untrusted", "{how}");
        let given = &of("node.completed")["payload"]["outputs"];
        assert_eq!(given["text"], "roundtrip-probe", "{how}");
        assert_eq!(given["contentTrust"], "untrusted", "{how}");
        assert_eq!(of("run.completed")["type"], "run.completed", "{how}");

        let fork = format!("/v1/runs/{run}:fork");
        let replay = made(&serving, &ada, &fork, &json!({ "mode": "replay" }));
        assert_eq!(content(&events(&replay)), content(&told), "{how}");
        serving.stop();
    }
}
