//! Tools called for a model, by the real program: a completed call is not repeated, despite crashes
//! of the engine, and a replay executes nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::forks::content;
use crate::support::*;

/// A model that requests a tool, and answers with its result.
struct Model {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    /// The number of the question, from 1, that is never answered; its client must end.
    holds: Arc<AtomicUsize>,
    /// Receives a message once a question is held.
    held: Receiver<()>,
    /// Its last input.
    heard: Arc<Mutex<Vec<Value>>>,
    /// For any input, it requests the tool again.
    insists: Arc<AtomicBool>,
}

impl Model {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (holding, held) = std::sync::mpsc::channel();
        let model = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            holds: Arc::default(),
            held,
            heard: Arc::default(),
            insists: Arc::default(),
        };
        let insists = model.insists.clone();
        let (asked, holds) = (model.asked.clone(), model.holds.clone());
        let heard = model.heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let nth = asked.fetch_add(1, Ordering::SeqCst) + 1;
                let mut stream = BufReader::new(stream);
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let messages = body["messages"].as_array().unwrap();
                heard.lock().unwrap().clone_from(messages);
                if holds.load(Ordering::SeqCst) == nth {
                    holding.send(()).unwrap();
                    let _ = stream.read_to_end(&mut Vec::new());
                    continue;
                }
                let said = answer(messages, insists.load(Ordering::SeqCst));
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{said}",
                    said.len()
                );
                let _ = stream.get_mut().write_all(head.as_bytes());
            }
        });
        model
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The options that let the program use it.
    fn options(&self, lab: &Lab) -> [String; 4] {
        let address = self.address;
        lab.write(
            "providers.toml",
            format!("[provider.p]\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n"),
        );
        [
            "--providers",
            "providers.toml",
            "--allow-http",
            &address.to_string(),
        ]
        .map(str::to_owned)
    }
}

fn answer(messages: &[Value], insists: bool) -> String {
    let last = &messages[messages.len() - 1];
    let (delta, finish) = match last["role"].as_str() {
        Some("tool") if !insists => (json!({ "content": last["content"] }), "stop"),
        _ => {
            let call = json!({ "index": 0, "id": "c1", "type": "function",
                "function": { "name": "note", "arguments": "{\"text\": \"remember\"}" } });
            (json!({ "tool_calls": [call] }), "tool_calls")
        }
    };
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7 });
    let events = [
        json!({ "model": "m", "choices": [{ "delta": delta, "finish_reason": null }] }),
        json!({ "model": "m", "choices": [{ "delta": {}, "finish_reason": finish }] }),
        json!({ "model": "m", "choices": [], "usage": usage }),
    ];
    let events: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    format!("{}data: [DONE]\n\n", events.concat())
}

/// A workflow with a question whose model may call a program.
fn asking(lab: &Lab, script: &str) -> String {
    asking_with(lab, script, json!({}))
}

fn asking_with(lab: &Lab, script: &str, more: Value) -> String {
    let tool = json!({
        "name": "note", "description": "Takes a note.",
        "parameters": { "type": "object", "required": ["text"],
            "properties": { "text": { "type": "string" } } },
        "process": { "argv": ["sh", "-euc", script, "sh", "${inputs.text}"],
            "env": { "LAB": lab.mark() } },
    });
    let mut config = json!({ "prompt": "Take a note.", "tools": [tool] });
    for (key, value) in more.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let mut ask = node("ask", "core.ai.chatCompletion", config);
    ask["settings"] = json!({ "retry": { "maxRetries": 3 } });
    lab.workflow(&workflow("asking", &[ask], &[]))
}

fn with<'a>(args: &[&'a str], options: &'a [String]) -> Vec<&'a str> {
    args.iter()
        .copied()
        .chain(options.iter().map(String::as_str))
        .collect()
}

#[test]
fn a_replay_calls_neither_the_model_nor_its_tools() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let file = asking(&lab, "echo \"$1\" >> notes; echo noted");
    let run = lab.call(&with(&["run", &file, "--json"], &options)).with(0);
    let snapshot = run.json_lines().pop().unwrap();
    let said = &snapshot["outputs"]["ask"]["content"];
    assert_eq!(
        *said,
        "<UNTRUSTED tool=\"process.note\">\nnoted\n\n</UNTRUSTED>"
    );
    assert_eq!(snapshot["metrics"]["openwopCost"]["tokens"]["input"], 10);
    assert_eq!(
        (lab.read("notes").as_str(), model.asked()),
        ("remember\n", 2)
    );
    let source = lab.last_run();
    let events = lab.events(&source);
    let order: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .filter(|kind| kind.starts_with("agent.") || *kind == "node.started")
        .collect();
    assert_eq!(
        order,
        ["node.started", "agent.toolCalled", "agent.toolReturned"]
    );
    let called = events
        .iter()
        .find(|event| is("agent.toolCalled")(event))
        .unwrap();
    assert_eq!(called["payload"]["transport"], "native");
    assert_eq!(called["payload"]["inputs"], json!({ "text": "remember" }));

    lab.call(&["runs", "fork", &source, "--mode", "replay"])
        .with(0);
    let replay = lab.last_run();
    assert_ne!(replay, source);
    assert_eq!(content(&lab.events(&replay)), content(&events));
    assert_eq!(
        (lab.read("notes").as_str(), model.asked()),
        ("remember\n", 2)
    );
    lab.call(&["verify"]).with(0);
}

#[test]
fn a_tool_that_ran_before_the_kill_does_not_run_again() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let (_gate, _begun) = (lab.gate("gate"), lab.gate("begun"));
    let script = "echo \"$1\" >> notes; echo > begun; read -r _ < gate";
    let file = asking(&lab, script);
    let mut engine = lab.engine(&with(&["run", &file], &options));
    engine.wait_for(is("agent.toolCalled"));
    // Only a started tool can have had its effect.
    let begun = std::fs::File::open(lab.path().join("begun")).unwrap();
    BufReader::new(begun).read_line(&mut String::new()).unwrap();
    engine.kill();
    lab.wait_until_quiet();
    lab.call(&with(&["resume"], &options)).with(1);
    let events = lab.events(&lab.last_run());
    let failed = events
        .iter()
        .find(|event| is("node.failed")(event))
        .unwrap();
    assert_eq!(failed["payload"]["error"]["code"], "outcome_unknown");
    assert_eq!(
        (lab.read("notes").as_str(), model.asked()),
        ("remember\n", 1)
    );
}

#[test]
fn a_model_continues_with_tool_results_from_before_the_kill() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let file = asking(&lab, "echo \"$1\" >> notes; echo noted");
    model.holds.store(2, Ordering::SeqCst);
    let mut engine = lab.engine(&with(&["run", &file], &options));
    // The tool is over and its result was sent to the model.
    model.held.recv().unwrap();
    engine.kill();
    lab.wait_until_quiet();
    lab.call(&with(&["resume"], &options)).with(0);
    assert_eq!(lab.read("notes"), "remember\n", "it ran once");
    assert_eq!(model.asked(), 3, "and was not asked for again");
    let heard = model.heard.lock().unwrap().clone();
    let said = "<UNTRUSTED tool=\"process.note\">\nnoted\n\n</UNTRUSTED>";
    let last = heard.last().unwrap();
    assert_eq!(
        (&last["role"], &last["content"]),
        (&json!("tool"), &json!(said))
    );
    let call = &heard[heard.len() - 2]["tool_calls"][0];
    assert_eq!(call["id"], last["tool_call_id"]);
    assert_eq!(call["function"]["name"], "note");
    let events = lab.events(&lab.last_run());
    let of = |kind: &'static str| events.iter().filter(|event| is(kind)(event)).count();
    assert_eq!((of("agent.toolCalled"), of("agent.toolReturned")), (1, 1));
    assert_eq!(of("runwright.attempt.restarted"), 1);
    assert_eq!(of("provider.usage"), 2, "the call before the kill counts");
    let done = events.iter().find(|event| is("node.completed")(event));
    assert_eq!(done.unwrap()["payload"]["outputs"]["content"], said);
    // Its decisions do not depend on its driver.
    lab.call(&["verify"]).with(0);
}

#[test]
fn rounds_before_a_kill_count() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let script = "echo \"$1\" >> notes; echo noted";
    let file = asking_with(&lab, script, json!({ "maxToolRounds": 3 }));
    model.insists.store(true, Ordering::SeqCst);
    // Two rounds are over, and the result of the second is on its way to the model.
    model.holds.store(3, Ordering::SeqCst);
    let mut engine = lab.engine(&with(&["run", &file], &options));
    model.held.recv().unwrap();
    engine.kill();
    lab.wait_until_quiet();
    lab.call(&with(&["resume"], &options)).with(1);
    let events = lab.events(&lab.last_run());
    let failed = events.iter().find(|event| is("node.failed")(event));
    let error = &failed.unwrap()["payload"]["error"];
    assert_eq!(error["code"], "tool_rounds_exceeded");
    assert_eq!(lab.read("notes"), "remember\n".repeat(3));
    assert_eq!(model.asked(), 5, "one of them had no answer");
    let used = events.iter().filter(|event| is("provider.usage")(event));
    assert_eq!(used.count(), 4, "every answer counts, and once");
    lab.call(&["verify"]).with(0);
}

#[test]
fn an_open_tool_call_is_repeated_if_the_workflow_allows() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let (_gate, _begun) = (lab.gate("gate"), lab.gate("begun"));
    // The first time it waits forever.
    let script = "echo \"$1\" >> notes; \
                  if [ \"$(wc -l < notes)\" = 1 ]; then echo > begun; read -r _ < gate; fi; echo noted";
    let file = asking_with(&lab, script, json!({ "repeat": "repeatable" }));
    let mut engine = lab.engine(&with(&["run", &file], &options));
    let begun = std::fs::File::open(lab.path().join("begun")).unwrap();
    BufReader::new(begun).read_line(&mut String::new()).unwrap();
    engine.kill();
    lab.wait_until_quiet();
    lab.call(&with(&["resume"], &options)).with(0);
    assert_eq!(lab.read("notes"), "remember\nremember\n");
    assert_eq!(model.asked(), 2, "the model had asked for it already");
    let events = lab.events(&lab.last_run());
    let of = |kind: &'static str| events.iter().filter(|event| is(kind)(event)).count();
    assert_eq!((of("agent.toolCalled"), of("agent.toolReturned")), (2, 1));
    lab.call(&["verify"]).with(0);
}
