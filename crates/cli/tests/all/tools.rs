//! Tools that a model has called, by the real program: what was done is done once, whatever becomes
//! of the engine, and a replay does nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::forks::content;
use crate::support::*;

/// A model that wants a tool called, and answers with what it is told of it.
struct Model {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Model {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let asked = model.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                asked.fetch_add(1, Ordering::SeqCst);
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
                let said = answer(body["messages"].as_array().unwrap());
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

    /// What lets the program ask it.
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

fn answer(messages: &[Value]) -> String {
    let last = &messages[messages.len() - 1];
    let (delta, finish) = match last["role"].as_str() {
        Some("tool") => (json!({ "content": last["content"] }), "stop"),
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

/// A workflow of a question whose model may have a program called.
fn asking(lab: &Lab, script: &str) -> String {
    let tool = json!({
        "name": "note", "description": "Takes a note.",
        "parameters": { "type": "object", "required": ["text"],
            "properties": { "text": { "type": "string" } } },
        "process": { "argv": ["sh", "-euc", script, "sh", "${inputs.text}"],
            "env": { "LAB": lab.mark() } },
    });
    let mut ask = node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "Take a note.", "tools": [tool] }),
    );
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
fn a_tool_that_ran_when_the_engine_was_killed_does_not_run_again() {
    let lab = Lab::new();
    let model = Model::new();
    let options = model.options(&lab);
    let (_gate, _begun) = (lab.gate("gate"), lab.gate("begun"));
    let script = "echo \"$1\" >> notes; echo > begun; read -r _ < gate";
    let file = asking(&lab, script);
    let mut engine = lab.engine(&with(&["run", &file], &options));
    engine.wait_for(is("agent.toolCalled"));
    // Only a tool that has begun can have had its effect.
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
