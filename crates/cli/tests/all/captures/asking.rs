//! Tool servers that send requests themselves: to their client, or to a model.

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python};
use crate::support::Ended;

const SERVER: &str = r#"
import json, os, sys, urllib.request
open("../started", "a").write("x")
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    number, params = request["id"], request.get("params", {})
    if request["method"] != "tools/call":
        say(id=number, result={})
    elif params["name"] == "draft":
        say(id="s-1", method="sampling/createMessage", params={"messages": ["yes or no?"]})
        answer = json.loads(sys.stdin.readline())
        say(method="notifications/message", params={"data": "heard"})
        say(id=number, result={"content": [answer["result"]["text"] + "!"]})
    else:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "From a tool?"}]}
        asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
            json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            say(id=number, result={"content": [json.load(answer)["choices"][0]["message"]["content"]]})
"#;

const CLIENT: &str = r#"
import json, os, subprocess, sys
server = subprocess.Popen([os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", "../server.py"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
def call(number, method, **params):
    send(id=number, method=method, params=params)
    while True:
        message = json.loads(server.stdout.readline())
        print(json.dumps(message))
        if "method" not in message:
            return
        if "id" in message:
            if os.environ.get("SAYS") == "nothing":
                sys.exit(0)
            send(id=message["id"], result={"text": os.environ.get("SAYS", "yes")})
call(0, "initialize")
call(1, "tools/call", name="draft", arguments={})
call(2, "tools/call", name="think", arguments={})
server.stdin.close()
server.wait()
"#;

fn replay(bench: &Bench, what: &str, code: i32) -> Value {
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let mut command = bench.command(&args);
    let ended: Ended = command.env("SAYS", what).output().unwrap().into();
    ended.with(code).json()
}

#[test]
fn requests_of_an_mcp_server_belong_to_its_call() {
    if !has_python("requests_of_an_mcp_server_belong_to_its_call") {
        return;
    }
    let bench = Bench::new(|_, _| says("thought"));
    bench.lab.write("server.py", SERVER);
    bench.lab.write("client.py", CLIENT);
    let ended = bench.record(&["python3", "../client.py"]);
    assert!(ended.stdout.contains("yes!") && ended.stdout.contains("heard"));
    let path = std::path::PathBuf::from(ended.stdout.lines().last().unwrap());
    let calls = std::fs::read_to_string(path.with_extension("calls.jsonl")).unwrap();
    let calls = calls.lines().map(serde_json::from_str::<Value>);
    let calls: Vec<Value> = calls.map(Result::unwrap).collect();
    let named = |name: &str| calls.iter().find(|call| call["name"] == name).unwrap();
    for (outer, inner) in [
        ("draft", "mcp/client/sampling/createMessage"),
        ("think", "openai/chat/completions"),
    ] {
        assert_eq!(named(inner)["parent"], named(outer)["seq"], "{calls:#?}");
    }

    // Only the client is asked again.
    let report = replay(&bench, "yes", 0);
    assert_eq!(
        (&report["match_status"], &report["live"]),
        (&json!("exact_match"), &json!({ "models": 0, "tools": 0 })),
        "{report}"
    );
    assert_eq!(bench.peer.came().len(), 1);
    assert_eq!(bench.lab.read("started"), "x", "no server was started");

    // It has to give the same answer.
    let step = named("mcp/client/sampling/createMessage")["seq"]
        .as_u64()
        .unwrap();
    for (what, reason) in [("no", "changed"), ("nothing", "missing")] {
        let found = &replay(&bench, what, 3)["first_divergence"];
        assert_eq!(
            (&found["reason"], &found["step"], &found["expected"]["name"]),
            (
                &json!(reason),
                &json!(step),
                &json!("mcp/client/sampling/createMessage")
            ),
            "{what}: {found}"
        );
        if what == "no" {
            assert_eq!(found["at"], "/answer/result/text", "{found}");
            assert_eq!(found["actual"]["input"]["answer"]["result"]["text"], "no");
        }
    }
}

const HASTY_SERVER: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def asks(number):
    say(id=number, method="roots/list")
first = None
for line in sys.stdin:
    request = json.loads(line)
    if "method" not in request:
        continue
    name = request["params"]["name"]
    if name == "hurry":
        asks("s-1")
        say(id=request["id"], result={"content": ["done"]})
    elif name == "first":
        first = request["id"]
    else:
        asks("s-2")
        say(id=first, result={"content": []})
        sys.stdin.readline()
        say(id=request["id"], result={"content": []})
"#;

const LATE_CLIENT: &str = r#"
import json, os, signal, subprocess
signal.alarm(60)
server = subprocess.Popen([os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", "../server.py"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
def call(number, name):
    send(id=number, method="tools/call", params={"name": name, "arguments": {}})
def answer(asked):
    send(id=asked["id"], result={"roots": []})
def read():
    return json.loads(server.stdout.readline())
call(1, "hurry")
asked = read()
assert read()["id"] == 1
if os.environ["WAY"] == "late":
    answer(asked)
# Asked within the second, it answers when the first is done.
call(2, "first")
call(3, "second")
asked, done = None, []
while len(done) < 2:
    message = read()
    if "method" in message:
        asked = message
    else:
        done.append(message["id"])
    if asked and 2 in done:
        answer(asked)
        asked = None
server.stdin.close()
server.wait()
"#;

#[test]
fn a_call_does_not_wait_where_its_recording_did_not() {
    if !has_python("a_call_does_not_wait_where_its_recording_did_not") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write("server.py", HASTY_SERVER);
    bench.lab.write("client.py", LATE_CLIENT);
    for way in ["silent", "late"] {
        let args = [
            "snapshot",
            "capture",
            "--root",
            "shop",
            "--",
            "python3",
            "../client.py",
        ];
        let mut command = bench.command(&args);
        let ended: Ended = command.env("WAY", way).output().unwrap().into();
        ended.with(0);
        let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
        let mut command = bench.command(&args);
        let ended: Ended = command.env("WAY", way).output().unwrap().into();
        let report = ended.with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{way}: {report}");
    }
}

const CURIOUS_SERVER: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "method" not in request:
        continue
    say(id=request["id"], result={"content": ["done"]})
    if request["params"]["name"] == "first":
        say(id="s-1", method="elicitation/create", params={"message": "why?"})
        say(method="notifications/message", params={"data": "never mind"})
"#;

const SILENT_CLIENT: &str = r#"
import json, os, signal, subprocess
signal.alarm(60)
server = subprocess.Popen([os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", "../server.py"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def call(number, name):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call",
        "params": {"name": name, "arguments": {}}}) + "\n")
    server.stdin.flush()
def read():
    message = json.loads(server.stdout.readline())
    print(message.get("method", message.get("id")), flush=True)
    return message
call(1, "first")
# It is asked when no call is open, says nothing, and waits for what comes behind the question.
while read().get("method") != "notifications/message":
    pass
if os.environ["WAY"] == "goes-on":
    call(2, "second")
    read()
server.stdin.close()
server.wait()
"#;

#[test]
fn unanswered_requests_outside_calls_are_reported_and_repeated() {
    if !has_python("unanswered_requests_outside_calls_are_reported_and_repeated") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    bench.lab.write("server.py", CURIOUS_SERVER);
    bench.lab.write("client.py", SILENT_CLIENT);
    for way in ["goes-on", "ends"] {
        let run = |args: &[&str]| {
            let mut command = bench.command(args);
            Ended::from(command.env("WAY", way).output().unwrap())
        };
        let capture = ["snapshot", "capture", "--root", "shop", "--"];
        let ended = run(&[&capture[..], &["python3", "../client.py"]].concat()).with(0);
        let ended = ended.says("elicitation/create");
        let snapshot = super::read(ended.stdout.lines().last().unwrap().as_ref());
        assert_eq!(
            snapshot["extensions"]["unanswered"],
            json!([{ "method": "elicitation/create", "step": 1 }]),
            "{way}"
        );
        let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
        // The order of messages to the client is part of its output, and so of the response.
        let response = snapshot["outputs"]["response"].as_str().unwrap();
        assert!(
            response.contains("elicitation/create\nnotifications/message"),
            "{response}"
        );
        let report = run(&args).with(0).json();
        assert_eq!(report["match_status"], "exact_match", "{way}: {report}");
    }
}
