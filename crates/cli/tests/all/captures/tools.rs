//! Tools: recorded, only observed, or of a server.

use serde_json::{Value, json};

use super::peer::{says, wants};
use super::{Bench, has_python, read};

fn asked_for(native: bool) -> Bench {
    let bench = Bench::new(|number, _| match number % 2 {
        0 => wants(&[("t1", "look", json!({ "argv": ["echo", "seen"] }))]),
        _ => says("done"),
    });
    bench.script(&[
        json!({ "ask": "Look.", "native": native }),
        json!({ "ask": "And?" }),
    ]);
    bench
}

#[test]
fn tools_inside_the_program_are_run_again() {
    if !has_python("tools_inside_the_program_are_run_again") {
        return;
    }
    let bench = asked_for(true);
    let snapshot = read(&bench.capture(&[]));
    let call = &snapshot["outputs"]["tool_calls"][0];
    assert_eq!(
        (&call["tool"], &call["observed"], &call["call_id"]),
        (&json!("look"), &json!(true), &json!("t1"))
    );
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let ended = bench.call(&args).with(0);
    assert_eq!(ended.json()["match_status"], "exact_match");
    assert!(
        ended.stderr.contains("ran inside the program (look)"),
        "{}",
        ended.stderr
    );
    assert_eq!(bench.peer.came().len(), 2, "no model is asked");
    assert_eq!(bench.replay("env", 0)["match_status"], "exact_match");
}

#[test]
fn a_recorded_tool_that_a_model_requested_is_one_call() {
    if !has_python("a_recorded_tool_that_a_model_requested_is_one_call") {
        return;
    }
    let bench = asked_for(false);
    let snapshot = read(&bench.capture(&[]));
    let calls = snapshot["outputs"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(
        (&calls[0]["observed"], &calls[0]["call_id"]),
        (&Value::Null, &json!("t1"))
    );
    let report = bench.replay("verify", 0);
    assert_eq!(
        (&report["match_status"], &report["live"]["tools"]),
        (&json!("exact_match"), &json!(0))
    );
}

#[test]
fn failures_of_tools_are_replayed_as_failures() {
    if !has_python("failures_of_tools_are_replayed_as_failures") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write(
        "agent.sh",
        "\"$PROGRAM\" snapshot tool bad -- sh -c 'echo out; echo err >&2; exit 5'\necho code $?\n\
        \"$PROGRAM\" snapshot tool none -- ./not-there 2>&1\necho code $?\n\
        printf in | \"$PROGRAM\" snapshot tool upper --stdin -- tr a-z A-Z\n",
    );
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "sh",
        "../agent.sh",
    ];
    let ended = bench
        .call(&args)
        .with(0)
        .prints("out\ncode 5\n./not-there cannot be started: ")
        .prints("code 127\nIN");
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    let calls = snapshot["outputs"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["is_error"], true);
    assert_eq!(calls.len(), 3);
    let report = bench.replay("verify", 0);
    assert_eq!(
        (&report["match_status"], &report["live"]["tools"]),
        (&json!("exact_match"), &json!(0)),
        "{report}"
    );
}

#[test]
fn mcp_calls_are_recorded_and_served_without_the_server() {
    if !has_python("mcp_calls_are_recorded_and_served_without_the_server") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write("server.py", r#"
import json, sys
open("../started", "a").write("x")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "tools/list":
        result = {"tools": [{"name": "add", "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        given = params["arguments"]
        result = {"content": [{"type": "text", "text": str(given["a"] + given["b"])}], "isError": given["a"] < 0}
    else:
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#);
    let mut requests = vec![
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
    ];
    for (id, a) in [(2, 3), (3, -1)] {
        requests.push(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "add", "arguments": { "a": a, "b": 4 }, "_meta": { "progressToken": id } } }));
    }
    // Sequential requests, as clients send them.
    let client = format!(
        "import json, os, subprocess\nserver = subprocess.Popen([os.environ['PROGRAM'], 'snapshot', 'mcp', '--', 'python3', '../server.py'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\nfor request in json.loads({:?}):\n    server.stdin.write(json.dumps(request) + '\\n')\n    server.stdin.flush()\n    if 'id' in request:\n        print(server.stdout.readline(), end='')\nserver.stdin.close()\nserver.wait()\n",
        json!(requests).to_string()
    );
    bench.lab.write("client.py", client);
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "python3",
        "../client.py",
    ];
    let ended = bench.call(&args).with(0).prints(r#""text":"7""#);
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    let calls = snapshot["outputs"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(
        (&calls[0]["tool"], &calls[0]["effect_class"]),
        (&json!("add"), &json!("read"))
    );
    assert_eq!(calls[1]["is_error"], true);
    assert_eq!(bench.lab.read("started"), "x");
    let report = bench.replay("verify", 0);
    assert_eq!(
        report["live"],
        json!({ "models": 0, "tools": 0 }),
        "{report}"
    );
    assert_eq!(
        bench.lab.read("started"),
        "x",
        "the server was not started again"
    );
    // A different call has the same step, served or live.
    let client = bench.lab.read("client.py");
    let other = client.replace(r#"\"a\":3"#, r#"\"a\":5"#);
    assert_ne!(client, other);
    bench.lab.write("client.py", other);
    for (kind, code) in [("verify", 3), ("env", 1)] {
        // In place, because the server is in a sibling folder. Its shape alone would let the
        // client's output, which consists of lines of data, pass.
        let args = [
            "snapshot",
            "replay",
            "latest",
            "--root",
            "shop",
            "--kind",
            kind,
            "--in-place",
            "--strategy",
            "exact",
            "--json",
        ];
        let report = bench.call(&args).with(code).json();
        let found = &report["first_divergence"];
        assert_eq!(found["step"], 3, "{kind}: {report}");
        assert_eq!(
            (&found["actual"]["name"], &found["at"]),
            (&json!("add"), &json!("/a")),
            "{kind}: {report}"
        );
    }
}

#[test]
fn a_seed_that_was_sent_to_anybody_is_said_and_sent_again() {
    if !has_python("a_seed_that_was_sent_to_anybody_is_said_and_sent_again") {
        return;
    }
    let bench = Bench::new(|_, came| {
        if came.path.ends_with("/messages") {
            json!({ "body": { "model": "opus-9", "content": [{ "type": "text", "text": "two" }],
            "usage": { "input_tokens": 8, "output_tokens": 2 } } })
        } else {
            super::peer::says("one")
        }
    });
    bench.lab.write("agent.py", r#"
import json, os, urllib.request
def ask(url, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": "Which?"}], **more}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request).read()
ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions")
ask(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", max_tokens=50)
"#);
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--mode",
        "seeded",
        "--seed",
        "3",
        "--",
        "python3",
        "../agent.py",
    ];
    let ended = bench.call(&args).with(0);
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(snapshot["config"]["seed"], 3);
    let again = [
        "snapshot", "replay", "latest", "--root", "shop", "--kind", "rerun", "--json", "--",
        "python3",
    ];
    let agent = bench.lab.path().join("agent.py");
    let again: Vec<&str> = again.iter().copied().chain(agent.to_str()).collect();
    bench.call(&again).with(0);
    let seeds = bench
        .peer
        .came()
        .iter()
        .map(|came| came.body["seed"].clone())
        .collect::<Vec<_>>();
    assert_eq!(seeds, [json!(3), Value::Null, json!(3), Value::Null]);
}

#[test]
fn the_messages_interface_is_recorded_as_it_streams() {
    if !has_python("the_messages_interface_is_recorded_as_it_streams") {
        return;
    }
    let stream = |events: &[Value]| {
        let lines = events.iter().map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        });
        json!({ "sse": lines.collect::<String>() })
    };
    let bench = Bench::new(move |number, _| match number {
        0 => stream(&[
            json!({ "type": "message_start", "message": { "model": "opus-9", "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "u1", "name": "clock", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": "{\"zone\":" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": "\"UTC\"}" } }),
            json!({ "type": "message_delta", "usage": { "output_tokens": 9 } }),
        ]),
        _ => json!({ "body": { "model": "opus-9", "content": [{ "type": "text", "text": "noon" }],
            "usage": { "input_tokens": 8, "output_tokens": 2 } } }),
    });
    bench.lab.write("agent.py", r#"
import json, os, urllib.request
def ask(messages, **more):
    body = {"model": "opus", "max_tokens": 50, "system": [{"type": "text", "text": "Tell."}], "messages": messages, **more}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
        {"content-type": "application/json", "anthropic-version": "2023-06-01"})
    return urllib.request.urlopen(request).read().decode()
messages = [{"role": "user", "content": "What time is it?"}]
print(ask(messages, stream=True))
messages.append({"role": "assistant", "content": [{"type": "tool_use", "id": "u1", "name": "clock", "input": {"zone": "UTC"}}]})
messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "12:00"}]})
print(ask(messages))
"#);
    let args = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--mode",
        "seeded",
        "--seed",
        "3",
        "--",
        "python3",
        "../agent.py",
    ];
    let ended = bench.call(&args).with(0).prints("input_json_delta");
    assert_eq!(bench.peer.came()[0].path, "/v1/messages");
    assert!(
        bench.peer.came()[0]
            .head
            .contains("anthropic-version: 2023-06-01")
    );
    let snapshot = read(ended.stdout.lines().last().unwrap().as_ref());
    assert_eq!(
        snapshot["config"]["model"],
        json!({ "id": "opus", "provider": "anthropic", "version": "opus-9" })
    );
    assert_eq!(
        snapshot["config"]["seed"],
        Value::Null,
        "what was not sent is not claimed"
    );
    assert_eq!(
        snapshot["extensions"]["mode_enforcement"]["seed"],
        "unsupported"
    );
    assert_eq!(snapshot["outputs"]["response"], "noon");
    assert_eq!(
        (
            &snapshot["metrics"]["tokens_input"],
            &snapshot["metrics"]["tokens_output"]
        ),
        (&json!(13), &json!(11))
    );
    let input = json!({ "zone": "UTC" }).to_string();
    let hash = format!(
        "sha256:{}",
        kernel::digest::Digest::compute(input.as_bytes())
    );
    let call = &snapshot["outputs"]["tool_calls"][0];
    assert_eq!(
        (&call["tool"], &call["input_hash"], &call["observed"]),
        (&json!("clock"), &json!(hash), &json!(true))
    );
    assert_eq!(bench.replay("env", 0)["match_status"], "exact_match");
    assert_eq!(bench.peer.came().len(), 2);

    let honored = ["--require-honored"];
    let args: Vec<&str> = args[..8]
        .iter()
        .chain(&honored)
        .chain(&args[8..])
        .copied()
        .collect();
    bench.call(&args).with(1).says("400");
    assert_eq!(
        bench.peer.came().len(),
        2,
        "the request was refused before it was sent"
    );
}
