//! Truncated answers: cut off on their way, or abandoned by the program.

use serde_json::{Value, json};

use super::peer::says;
use super::{Bench, has_python, read};

const AGENT: &str = r#"
import http.client, json, os, sys, urllib.parse
base = urllib.parse.urlparse(os.environ["OPENAI_BASE_URL"])
def ask(text, enough=None, **more):
    connection = http.client.HTTPConnection(base.hostname, base.port, **more)
    body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": text}]}
    connection.request("POST", base.path + "/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    said = answer.read(enough) if enough else answer.read()
    answer.close()
    connection.close()
    return said.decode()
for way in sys.argv[1:]:
    if way == "hangs up":
        print(ask("leave me", enough=9))
    elif way == "ask":
        print("whole" if "and done" in ask("once more") else "not whole")
    else:
        try:
            print("whole", ask(way, timeout=1 if way == "wait" else None))
        except Exception as error:
            print(way, type(error).__name__)
"#;

fn event(text: &str) -> String {
    let chunk =
        json!({ "model": "tiny-1", "choices": [{ "index": 0, "delta": { "content": text } }] });
    format!("data: {chunk}\n\n")
}

fn bench() -> Bench {
    let bench = Bench::new(
        |_, came| match came.body["messages"][0]["content"].as_str() {
            Some("cut") => json!({ "sse": event("half of"), "then": "cut" }),
            Some("leave me") => json!({ "sse": event("much more"), "then": "stay" }),
            Some("wait") => json!({ "sse": "", "then": "stay" }),
            Some("once more") => {
                json!({ "sse": event("all of it, ") + &event("and done") + "data: [DONE]\n\n" })
            }
            _ => says("x"),
        },
    );
    bench.lab.write("agent.py", AGENT);
    bench
}

fn capture(bench: &Bench, ways: &[&str]) -> (Value, Vec<Value>, String) {
    let head = [
        "snapshot",
        "capture",
        "--root",
        "shop",
        "--",
        "python3",
        "../agent.py",
    ];
    let args: Vec<&str> = head.iter().chain(ways).copied().collect();
    let ended = bench.call(&args).with(0);
    let path = std::path::PathBuf::from(ended.stdout.lines().last().unwrap());
    let calls = std::fs::read_to_string(path.with_extension("calls.jsonl")).unwrap();
    let calls = calls
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (read(&path), calls.collect(), ended.stdout)
}

/// An agent's output counts: the response of these has the text of a model in it.
fn stdout_hash(snapshot: &Value) -> Value {
    snapshot["extensions"]["process"]["stdout_hash"].clone()
}

#[test]
fn an_answer_that_was_cut_off_is_cut_off_again() {
    if !has_python("an_answer_that_was_cut_off_is_cut_off_again") {
        return;
    }
    let bench = bench();
    let (snapshot, calls, printed) = capture(&bench, &["cut", "ask"]);
    assert!(
        printed.starts_with("cut IncompleteRead\nwhole\n"),
        "{printed}"
    );
    assert_eq!(calls[0]["is_error"], true, "{calls:?}");
    assert_eq!(snapshot["outputs"]["response"], "all of it, and done");
    let report = bench.replay("verify", 0);
    assert_eq!(report["match_status"], "exact_match", "{report}");
    assert_eq!(report["live"]["models"], 0);
    assert_eq!(bench.peer.came().len(), 2);
}

#[test]
fn abandoned_requests_are_abandoned_in_the_replay() {
    if !has_python("abandoned_requests_are_abandoned_in_the_replay") {
        return;
    }
    let bench = bench();
    for ways in [
        &["hangs up", "ask"][..],
        &["wait", "ask"],
        &["ask", "hangs up"],
        &["ask", "wait"],
    ] {
        let (snapshot, calls, _) = capture(&bench, ways);
        let has_result = |call: &Value| call["result_hash"].is_string();
        assert!(
            calls.len() == 2 && calls.iter().all(has_result),
            "{calls:?}"
        );
        let asked = bench.peer.came().len();
        let report = bench.replay("verify", 0);
        assert_eq!(report["match_status"], "exact_match", "{ways:?}: {report}");
        assert_eq!(bench.peer.came().len(), asked, "nobody was asked");
        // A live replay has the same result: the agent disconnected there, too.
        let again = capture(&bench, ways).0;
        assert_eq!(stdout_hash(&again), stdout_hash(&snapshot), "{ways:?}");
    }
}

#[test]
fn a_killed_tool_has_no_result_to_replay_and_is_reported() {
    if !has_python("a_killed_tool_has_no_result_to_replay_and_is_reported") {
        return;
    }
    let bench = bench();
    let gate = bench.lab.path().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.unwrap().success());
    let agent = r#"
import os, subprocess
tool = subprocess.Popen([os.environ["PROGRAM"], "snapshot", "tool", "long", "--", "sh", "-c", "echo ready; read line < 'GATE'"], stdout=subprocess.PIPE, text=True)
tool.stdout.readline()
tool.kill()
tool.wait()
"#;
    let agent = agent.replace("GATE", &gate.display().to_string());
    bench.lab.write("agent.py", agent);
    let (_, calls, _) = capture(&bench, &[]);
    assert_eq!(calls[0]["result_hash"], Value::Null);
    let report = bench.replay("verify", 3);
    assert_eq!(report["error"]["code"], "content_unavailable", "{report}");
    let args = ["snapshot", "list", "--root", "shop", "--json"];
    let listed = bench.call(&args).with(0).json();
    assert_eq!(
        listed["snapshots"][0]["replay_count"], 0,
        "it does not count"
    );
}
