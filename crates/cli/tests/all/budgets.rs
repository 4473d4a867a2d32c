//! Limits of money and tokens, enforced by the real program with a model server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::serving::{Serving, call, lab};
use crate::support::*;

/// Tokens of each call, as the server reports.
const TOKENS_OF_A_CALL: u64 = 600;

/// The condition for sending the next answer.
#[derive(Clone, Copy)]
pub(crate) enum Wants {
    Nothing,
    Tools,
}

/// A server of a model.
pub(crate) struct Model {
    pub(crate) address: String,
    calls: Arc<AtomicUsize>,
}

impl Model {
    pub(crate) fn start(wants: Wants) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = counted.clone();
                thread::spawn(move || answer(stream, &counted, wants));
            }
        });
        Self { address, calls }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn providers(&self, lab: &Lab, price: &str) {
        let address = &self.address;
        let text =
            format!("[provider.p]\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n{price}");
        lab.write("providers.toml", text);
    }

    fn run(&self, lab: &Lab, file: &str, more: &[&str]) -> Ended {
        let mut args = vec!["run", file, "--providers", "providers.toml", "--json"];
        args.extend(["--allow-http", &self.address]);
        args.extend(more);
        lab.call(&args)
    }
}

fn answer(mut stream: TcpStream, calls: &AtomicUsize, wants: Wants) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&request) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(n) => request.extend_from_slice(&piece[..n]),
        }
    }
    let nth = calls.fetch_add(1, Ordering::SeqCst);
    let (message, finish) = match wants {
        Wants::Tools => {
            let function = json!({ "name": "look", "arguments": "{}" });
            let call = json!({ "id": format!("c{nth}"), "type": "function", "function": function });
            (
                json!({ "content": null, "tool_calls": [call] }),
                "tool_calls",
            )
        }
        Wants::Nothing => (json!({ "content": "yes" }), "stop"),
    };
    let body = json!({
        "model": "m", "choices": [{ "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": TOKENS_OF_A_CALL - 100, "completion_tokens": 100 },
    })
    .to_string();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let lines = head.lines().map(str::to_ascii_lowercase);
    let mut length =
        lines.filter_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.next().unwrap_or(0)
}

pub(crate) fn ask(id: &str) -> Value {
    node(id, "core.ai.chatCompletion", json!({ "prompt": "Yes?" }))
}

/// A node whose model requests tools forever.
fn looping() -> Value {
    let process = json!({ "argv": ["true"] });
    let tool = json!({
        "name": "look", "description": "Looks.", "parameters": { "type": "object" },
        "process": process,
    });
    let config = json!({ "prompt": "Look.", "tools": [tool], "maxToolRounds": 20 });
    node("loop", "core.ai.chatCompletion", config)
}

fn used(events: &[Value]) -> u64 {
    let usage = events.iter().filter(|event| is("provider.usage")(event));
    let tokens = usage.map(|event| event["payload"]["totalTokens"].as_u64().unwrap());
    tokens.sum()
}

const PRICE: &str = "[provider.p.price.m]\ninput = 1.0\noutput = 1.0\n";

#[test]
fn a_tool_loop_stops_at_most_one_call_over_the_cap() {
    for (flag, cap, kind) in [
        ("--budget-tokens", "1000", "budget-tokens"),
        ("--budget-usd", "0.001", "budget-cost"),
    ] {
        let lab = Lab::new();
        let model = Model::start(Wants::Tools);
        model.providers(&lab, PRICE);
        let file = lab.workflow(&workflow("w", &[looping()], &[]));
        let mut lines = model.run(&lab, &file, &[flag, cap]).with(1).json_lines();
        let snapshot = lines.pop().unwrap();
        assert_eq!(snapshot["error"]["code"], "budget_exhausted");
        assert_eq!((model.calls(), used(&lines)), (2, 1_200));
        let breached = lines.iter().find(|event| is("cap.breached")(event));
        let breached = &breached.unwrap()["payload"];
        assert_eq!(breached["kind"], kind);
        assert_eq!(breached["nodeId"], "loop");
        assert_eq!(
            breached["limit"],
            serde_json::from_str::<Value>(cap).unwrap()
        );
        assert!(breached["observed"].as_f64() > breached["limit"].as_f64());
    }
}

#[test]
fn nodes_at_the_same_time_go_one_call_over_the_cap_at_most() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, PRICE);
    let nodes: Vec<Value> = (0..8).map(|n| ask(&format!("n{n}"))).collect();
    let file = lab.workflow(&workflow("w", &nodes, &[]));
    let lines = model.run(&lab, &file, &["--budget-tokens", "1500"]);
    let lines = lines.with(1).json_lines();
    assert_eq!((model.calls(), used(&lines)), (3, 1_800));
    let lab = Lab::new();
    model.providers(&lab, PRICE);
    lab.workflow(&workflow("w", &nodes, &[]));
    model.run(&lab, &file, &["--budget-tokens", "4800"]).with(0);
}

#[test]
fn children_spend_from_the_cap_of_their_parent() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, PRICE);
    let child = lab.write(
        "child.json",
        workflow("child", &[ask("a"), ask("b")], &[]).to_string(),
    );
    let start = |id: &str| node(id, "core.subWorkflow", json!({ "workflowId": "child" }));
    let parent = workflow("w", &[start("s"), start("t")], &[("s", "t")]);
    let file = lab.workflow(&parent);
    let with = ["--with", child.to_str().unwrap(), "--budget-tokens", "1500"];
    let lines = model.run(&lab, &file, &with).with(1).json_lines();
    assert_eq!(model.calls(), 3);
    let run = lines.last().unwrap()["runId"].as_str().unwrap();
    lab.call(&["runs", "show", run])
        .with(0)
        .prints("1800 tokens (1500 in, 300 out), $0.0018; sum of 2 child runs")
        .prints("1500 tokens: 1800 spent, 300 too much");
}

#[test]
fn children_at_the_same_time_share_the_cap() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, PRICE);
    let child = lab.write(
        "child.json",
        workflow("child", &[ask("a"), ask("b")], &[("a", "b")]).to_string(),
    );
    let start = |id: &str| node(id, "core.subWorkflow", json!({ "workflowId": "child" }));
    let file = lab.workflow(&workflow("w", &[start("s"), start("t"), ask("c")], &[]));
    let child = child.to_str().unwrap();
    let run = |cap: &str| model.run(&lab, &file, &["--with", child, "--budget-tokens", cap]);
    run("9000").with(0);
    assert_eq!(model.calls(), 5);
    let lines = run("3000").with(1).json_lines();
    assert!(used(&lines) <= 3_000 + TOKENS_OF_A_CALL, "{}", used(&lines));
}

#[test]
fn a_definitions_cap_is_kept_and_shown() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, PRICE);
    let mut flow = workflow("w", &[ask("a")], &[]);
    flow["settings"] = json!({ "budget": { "maxCostUsd": 0.001, "maxTokens": 5000 } });
    let file = lab.workflow(&flow);
    model.run(&lab, &file, &[]).with(0);
    lab.call(&["runs", "show", "last"])
        .with(0)
        .prints("600 tokens (500 in, 100 out), $0.0006")
        .prints("$0.001: $0.0006 spent, $0.0004 left")
        .prints("5000 tokens: 600 spent, 4400 left");
}

#[test]
fn a_server_shows_budget_used_and_left() {
    let lab = lab();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, PRICE);
    let child = workflow("child", &[ask("a"), ask("b")], &[]);
    let child = lab.write("child.json", child.to_string());
    let start = node("s", "core.subWorkflow", json!({ "workflowId": "child" }));
    let mut parent = workflow("w", &[start], &[]);
    parent["settings"] = json!({ "budget": { "maxCostUsd": 0.5, "maxTokens": 5000 } });
    let file = lab.workflow(&parent);
    let providers = [
        "--dev",
        "--providers",
        "providers.toml",
        "--allow-http",
        &model.address,
    ];
    let serving = Serving::start(&lab, &providers);
    let with = ["run", &file, "--with", child.to_str().unwrap()];
    call(&lab, &serving, "", &with).with(0);
    call(&lab, &serving, "", &["runs", "show", "last"])
        .with(0)
        .prints("1200 tokens (1000 in, 200 out), $0.0012; sum of 1 child run")
        .prints("$0.50: $0.0012 spent, $0.4988 left")
        .prints("5000 tokens: 1200 spent, 3800 left");
}

#[test]
fn a_cap_with_other_names_or_without_prices_is_refused() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, "");
    let mut flow = workflow("w", &[ask("a")], &[]);
    let file = lab.workflow(&flow);
    let unpriced = model.run(&lab, &file, &["--budget-usd", "1"]);
    unpriced.with(2).says("node a").says("has no price");
    for wrong in [
        json!({ "usd": 1 }),
        json!({ "tokens": 10 }),
        json!({ "maxUsd": 1 }),
    ] {
        flow["settings"] = json!({ "budget": wrong });
        let file = lab.workflow(&flow);
        let refused = model.run(&lab, &file, &[]);
        refused.with(2).says("write maxCostUsd");
    }
    for wrong in ["-1", "much"] {
        model.run(&lab, &file, &["--budget-usd", wrong]).with(2);
    }
    assert_eq!(model.calls(), 0);
}

#[test]
fn a_child_without_a_price_asks_nothing_under_a_money_cap() {
    let lab = Lab::new();
    let model = Model::start(Wants::Nothing);
    model.providers(&lab, "");
    let child = lab.write(
        "child.json",
        workflow("child", &[ask("a")], &[]).to_string(),
    );
    let start = node("s", "core.subWorkflow", json!({ "workflowId": "child" }));
    let file = lab.workflow(&workflow("w", &[start], &[]));
    let with = ["--with", child.to_str().unwrap(), "--budget-usd", "1"];
    let refused = model.run(&lab, &file, &with).with(1);
    for part in [
        "budget_model_unpriced",
        "no run of child can be created: node a: maxCostUsd cannot be enforced",
    ] {
        assert!(refused.stdout.contains(part), "{}", refused.stdout);
    }
    assert!(
        !refused.stdout.contains("node.dispatched"),
        "no child is made: {}",
        refused.stdout
    );
    assert_eq!(model.calls(), 0);
}

#[test]
fn a_server_run_has_the_typed_budget() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let started = [
        "run",
        "three",
        "--budget-tokens",
        "100",
        "--budget-usd",
        "0.5",
    ];
    call(&lab, &serving, "", &started).with(0);
    let shown = call(&lab, &serving, "", &["runs", "show", "last", "--json"]).with(0);
    let limits = &shown.json()["metrics"]["runwrightBudget"]["limits"];
    assert_eq!(limits["tokens"], 100, "{limits}");
    let refused = ["run", "three", "--providers", "models.toml"];
    call(&lab, &serving, "", &refused)
        .with(2)
        .says("--providers has no effect on a server");
    serving.stop();
}
