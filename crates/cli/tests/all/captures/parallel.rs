//! Concurrent calls, and calls within calls.

use std::path::PathBuf;
use std::sync::Barrier;

use serde_json::{Value, json};

use super::peer::{Came, says};
use super::{Bench, has_python, read};

/// Calls the model in two threads, `a1` and `a2` in one, `b1` and `b2` in the other. WAY sets the
/// order: both rounds together; one question after the other; `b1` while `a2` is in progress; or
/// other questions.
const THREADS: &str = r#"
import http.client, json, os, threading, urllib.parse
base = urllib.parse.urlparse(os.environ["OPENAI_BASE_URL"])
way = os.environ.get("WAY", "together")
sent, rounds, texts, refused = threading.Event(), threading.Barrier(2), {}, []
def ask(text, then=None):
    connection = http.client.HTTPConnection(base.hostname, base.port)
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
    connection.request("POST", base.path + "/chat/completions", json.dumps(body), {"content-type": "application/json"})
    if then:
        then.set()
    answer = connection.getresponse()
    said = json.loads(answer.read())
    if answer.status != 200:
        refused.append(text)
    else:
        texts[text] = said["choices"][0]["message"]["content"]
def one():
    ask({"swapped": "a2"}.get(way, "a1"))
    if way == "together":
        rounds.wait()
    ask({"changed": "x", "swapped": "a1"}.get(way, "a2"), sent)
def two():
    if way == "late":
        sent.wait()
    ask("b1")
    if way == "together":
        rounds.wait()
    if way != "dropped":
        ask("b2")
if way == "alone":
    for text in ["b1", "a1", "b2", "a2"]:
        ask(text)
else:
    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(json.dumps(sorted(texts)))
"#;

/// Each question of a round is answered when both have arrived.
fn in_rounds() -> Bench {
    let rounds = Barrier::new(2);
    let bench = Bench::new(move |_, came: &Came| {
        rounds.wait();
        let asked = came.body["messages"][0]["content"].as_str().unwrap();
        says(&format!("about {asked}"))
    });
    bench.lab.write("agent.py", THREADS);
    bench
}

fn capture(bench: &Bench, argv: &[&str]) -> PathBuf {
    let head = ["snapshot", "capture", "--root", "shop", "--"];
    let args: Vec<&str> = head.iter().chain(argv).copied().collect();
    let ended = bench.call(&args).with(0);
    PathBuf::from(ended.stdout.lines().last().unwrap())
}

fn replay(bench: &Bench, way: &str, code: i32) -> Value {
    let args = ["snapshot", "replay", "latest", "--root", "shop", "--json"];
    let mut command = bench.command(&args);
    let ended: crate::support::Ended = command.env("WAY", way).output().unwrap().into();
    ended.with(code).json()
}

#[test]
fn calls_of_threads_come_in_any_order_that_the_recording_allows() {
    if !has_python("calls_of_threads_come_in_any_order_that_the_recording_allows") {
        return;
    }
    let bench = in_rounds();
    capture(&bench, &["python3", "../agent.py"]);
    for way in ["free", "alone", "late"] {
        let report = replay(&bench, way, 0);
        assert_eq!(
            (&report["match_status"], &report["first_divergence"]),
            (&json!("exact_match"), &Value::Null),
            "{way}: {report}"
        );
        assert_eq!(report["live"], json!({ "models": 0, "tools": 0 }), "{way}");
    }
    assert_eq!(bench.peer.came().len(), 4, "nobody was asked again");
}

#[test]
fn a_call_of_a_thread_that_is_another_is_named_at_its_step() {
    if !has_python("a_call_of_a_thread_that_is_another_is_named_at_its_step") {
        return;
    }
    let bench = in_rounds();
    let snapshot = capture(&bench, &["python3", "../agent.py"]);
    let calls = std::fs::read_to_string(snapshot.with_extension("calls.jsonl")).unwrap();
    let calls = calls
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let calls: Vec<Value> = calls.collect();
    let asked = |side: &Value| side["input"]["messages"][0]["content"].clone();
    for (way, reason, expected, actual) in [
        ("changed", "changed", json!("a2"), json!("x")),
        ("swapped", "out_of_order", json!("a1"), json!("a2")),
        ("dropped", "missing", json!("b2"), Value::Null),
    ] {
        let report = replay(&bench, way, 3);
        let found = &report["first_divergence"];
        assert_eq!(found["reason"], reason, "{way}: {report}");
        assert_eq!(asked(&found["expected"]), expected, "{way}: {report}");
        // Either of two early calls with the same cause may be reported.
        if way != "swapped" {
            assert_eq!(asked(&found["actual"]), actual, "{way}: {report}");
        }
        let step = usize::try_from(found["step"].as_u64().unwrap()).unwrap();
        let key = &calls[step - 1]["key_hash"];
        let input = &found["expected"]["input"];
        let hash = faces::provenance::hash::hash_json(input);
        assert_eq!(key, &json!(hash), "{way}: {report}");
    }
}

#[test]
fn of_parallel_tools_the_last_to_end_writes_last() {
    if !has_python("of_parallel_tools_the_last_to_end_writes_last") {
        return;
    }
    let bench = Bench::new(|_, _| says("x"));
    let gate = bench.lab.path().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.unwrap().success());
    // In the recording the second tool begins and ends while the first is running.
    let agent = r#"
import os, subprocess
def tool(name, script):
    return subprocess.Popen([os.environ["PROGRAM"], "snapshot", "tool", name, "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
long = ["long", "echo long >> shared; echo x > by-long; echo ready; read line < 'GATE'; echo end >> shared"]
short = ["short", "echo short >> shared; echo x > by-short"]
way = os.environ.get("WAY")
if way is None:
    first = tool(*long)
    first.stdout.readline()
    tool(*short).communicate()
    with open("GATE", "w") as gate:
        gate.write("go\n")
    first.communicate()
else:
    for one in [long, short] if way == "in turn" else [short, long]:
        tool(*one).communicate()
"#;
    bench.lab.write(
        "agent.py",
        agent.replace("GATE", &gate.display().to_string()),
    );
    let snapshot = read(&capture(&bench, &["python3", "../agent.py"]));
    assert_eq!(
        super::artifacts(&snapshot),
        ["created by-long", "created by-short", "created shared"]
    );
    assert_eq!(bench.lab.read("shop/shared"), "long\nshort\nend\n");
    for way in ["in turn", "the other way"] {
        let report = replay(&bench, way, 0);
        assert_eq!(report["match_status"], "exact_match", "{way}: {report}");
        assert_eq!(report["live"]["tools"], 0, "{way}");
    }
}

#[test]
fn calls_made_by_a_tool_come_with_it() {
    if !has_python("calls_made_by_a_tool_come_with_it") {
        return;
    }
    let bench = Bench::new(|_, came| {
        says(match came.body["messages"][0]["content"].as_str() {
            Some("inside") => "from within",
            _ => "from without",
        })
    });
    // The agent of these tests calls inside, too.
    bench.lab.write("inner.jsonl", "{\"ask\": \"inside\"}\n");
    const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/captures/agent.py");
    let script = format!(
        "python3 '{AGENT}' '{}' && \"$PROGRAM\" snapshot tool inner -- sh -c 'echo x > made; echo in' && echo out",
        bench.lab.path().join("inner.jsonl").display()
    );
    let outer = json!({ "tool": "outer", "argv": ["sh", "-c", script] });
    bench.script(&[json!({ "ask": "First?" }), outer.clone()]);
    let snapshot = read(&bench.capture(&[]));
    let tools = &snapshot["outputs"]["tool_calls"];
    assert_eq!(
        (&tools[0]["tool"], &tools[1]["tool"]),
        (&json!("outer"), &json!("inner"))
    );
    assert!(tools[0]["call_id"].is_string(), "{tools}");
    assert_eq!(tools[1]["parent_call_id"], tools[0]["call_id"]);
    assert_eq!(tools[0]["parent_call_id"], Value::Null);
    assert_eq!(snapshot["outputs"]["response"], "from within");
    assert_eq!(super::artifacts(&snapshot), ["created made"]);
    for (kind, models, tools) in [
        ("verify", 0, 0),
        ("env", 0, 2),
        ("model", 1, 0),
        ("rerun", 2, 2),
    ] {
        let report = bench.replay(kind, 0);
        assert_eq!(report["match_status"], "exact_match", "{kind}: {report}");
        assert_eq!(
            report["live"],
            json!({ "models": models, "tools": tools }),
            "{kind}"
        );
        assert_eq!(report["first_divergence"], Value::Null, "{kind}: {report}");
    }
    // The missing call is the outer one, at its step.
    bench.script(&[json!({ "ask": "First?" })]);
    let report = bench.replay("verify", 3);
    let found = &report["first_divergence"];
    assert_eq!(
        (&found["reason"], &found["step"], &found["expected"]["name"]),
        (&json!("missing"), &json!(2), &json!("outer")),
        "{report}"
    );
    // A fork after it takes all of it from the recording.
    bench.script(&[json!({ "ask": "First?" }), outer, json!({ "ask": "And?" })]);
    let asked = bench.peer.came().len();
    let args = ["snapshot", "fork", "latest", "--root", "shop", "--at", "2"];
    bench.call(&args).with(0);
    assert_eq!(bench.peer.came().len(), asked + 1);
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}

/// Asks for a title and for an answer, in the order that a file sets, and prints the answer last.
const TITLED: &str = "import json, os, urllib.request as u\n\
    def ask(text):\n\
    \x20   body = json.dumps({'model': 'm', 'messages': [{'role': 'user', 'content': text}]}).encode()\n\
    \x20   r = u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, {'Content-Type': 'application/json'})\n\
    \x20   return json.load(u.urlopen(r))['choices'][0]['message']['content']\n\
    words = ['the answer', 'title']\n\
    found = {word: ask(word) for word in (words[::-1] if os.path.exists('../swapped') else words)}\n\
    print(found['title'])\nprint(found['the answer'])\n";

#[test]
fn the_response_does_not_depend_on_the_order_of_calls() {
    if !has_python("the_response_does_not_depend_on_the_order_of_calls") {
        return;
    }
    let bench =
        Bench::new(|_, came: &Came| says(came.body["messages"][0]["content"].as_str().unwrap()));
    bench.write("agent.py", TITLED);
    for way in ["../other", "../swapped"] {
        bench.write(way, "");
        let kept = read(&capture(&bench, &["python3", "agent.py"]));
        assert_eq!(kept["outputs"]["response"], "the answer", "{way}");
    }
}
