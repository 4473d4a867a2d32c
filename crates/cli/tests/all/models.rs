//! Models, called by the real program: a real small one, and the messages without one.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::forks::content;
use crate::support::*;

/// The interpreter with a model; otherwise skips the test.
pub(crate) fn python(test: &str) -> Option<OsString> {
    let python = std::env::var_os("RUNWRIGHT_MODEL_PYTHON");
    if python.is_none() {
        let reason = "there is no Python with a model; `cargo xtask ci` makes one";
        testkit::skip(test, reason);
    }
    python
}

/// A server of a small model.
pub(crate) struct Model {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
}

impl Model {
    pub(crate) fn start(lab: &Lab, python: &OsString) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/model.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(lab.path().join("model.log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("{line} {}", lab.read("model.log")));
        Self {
            address: address.to_owned(),
            child,
        }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A folder with a file of providers and a workflow with one question.
fn asking(lab: &Lab, address: &str, config: Value) -> String {
    lab.write(
        "providers.toml",
        format!("[provider.small]\nbase_url = \"http://{address}/v1\"\nmodel = \"gemma-3-270m\"\n"),
    );
    let mut all = json!({ "prompt": "Say hello to ${inputs.who}.", "temperature": 0, "seed": 7 });
    all.as_object_mut()
        .unwrap()
        .extend(config.as_object().unwrap().clone());
    let mut node = node("ask", "core.ai.chatCompletion", all);
    node["inputs"] = json!({ "who": { "type": "static", "value": "Ada" } });
    lab.workflow(&workflow("asking", &[node], &[]))
}

fn texts(events: &[Value]) -> Vec<String> {
    let chunks = events.iter().filter(|event| is("output.chunk")(event));
    chunks
        .map(|event| event["payload"]["chunk"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_real_model_answers_alike_twice_and_a_replay_needs_none() {
    let test = "a_real_model_answers_alike_twice_and_a_replay_needs_none";
    let Some(python) = python(test) else { return };
    let lab = Lab::new();
    let mut model = Model::start(&lab, &python);
    let allowed = model.address.clone();
    let options = ["--providers", "providers.toml", "--allow-http", &allowed];
    let run = |file: &str| {
        let args: Vec<&str> = ["run", file, "--json"].into_iter().chain(options).collect();
        lab.call(&args).with(0).json_lines()
    };

    let file = asking(&lab, &model.address, json!({ "maxTokens": 12 }));
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut lines = run(&file);
        let snapshot = lines.pop().unwrap();
        let chunks = texts(&lines);
        assert!(chunks.len() > 1, "{chunks:?}");
        let last = lines
            .iter()
            .rfind(|event| is("output.chunk")(event))
            .unwrap();
        assert_eq!(last["payload"]["isLast"], true);
        assert_eq!(last["payload"]["meta"]["finishReason"], "length");
        assert_eq!(last["payload"]["meta"]["usage"]["completionTokens"], 12);
        let outputs = &snapshot["outputs"]["ask"];
        assert_eq!(outputs["content"], chunks.concat());
        let usage = lines
            .iter()
            .find(|event| is("provider.usage")(event))
            .unwrap();
        assert_eq!(usage["payload"]["provider"], "small");
        assert_eq!(usage["payload"]["outputTokens"], 12);
        let cost = &snapshot["metrics"]["openwopCost"];
        assert_eq!(cost["tokens"]["output"], 12);
        assert!(cost["tokens"]["input"].as_u64().unwrap() > 5, "{cost}");
        assert_eq!(cost.get("usd"), None, "no price is made up");
        said.push(outputs["content"].clone());
    }
    assert_eq!(said[0], said[1], "temperature 0 and a seed answer the same");
    let answered = lab.last_run();

    // With any output of the model, an answer of a shape has it.
    let shape = json!({ "type": "object", "required": ["n", "ok"], "additionalProperties": false,
        "properties": { "n": { "type": "integer", "minimum": 0, "maximum": 99 },
            "ok": { "type": "boolean" } } });
    let file = asking(
        &lab,
        &model.address,
        json!({ "maxTokens": 60, "outputSchema": shape }),
    );
    let shaped = run(&file).pop().unwrap();
    let json = &shaped["outputs"]["ask"]["json"];
    assert!(json["n"].is_u64() && json["ok"].is_boolean(), "{shaped}");

    // Cancelled in the middle of a long answer.
    let file = asking(
        &lab,
        &model.address,
        json!({ "maxTokens": 1500, "prompt": "Count." }),
    );
    let args: Vec<&str> = ["run", &file].into_iter().chain(options).collect();
    let mut engine = lab.engine(&args);
    let begun = engine.wait_for(is("output.chunk"));
    let cancelled = begun["runId"].as_str().unwrap().to_owned();
    lab.call(&["runs", "cancel", &cancelled]).with(0);
    let (code, _) = engine.end();
    assert_eq!(code, 1);
    let events = lab.events(&cancelled);
    assert!(events.iter().any(is("run.cancelled")));
    assert!(
        events
            .iter()
            .all(|event| event["payload"]["isLast"] != true)
    );

    // Without the model only a replay works, as it calls none.
    model.stop();
    let args: Vec<&str> = ["run", &file].into_iter().chain(options).collect();
    lab.call(&args).with(1).says("model_unreachable");
    for source in [answered, cancelled] {
        lab.call(&["runs", "fork", &source, "--mode", "replay"])
            .with_any(&[0, 1]);
        let replay = lab.last_run();
        assert_ne!(replay, source);
        assert_eq!(content(&lab.events(&replay)), content(&lab.events(&source)));
    }
}

#[test]
fn the_example_asks_a_real_model() {
    let Some(python) = python("the_example_asks_a_real_model") else {
        return;
    };
    let lab = Lab::new();
    let model = Model::start(&lab, &python);
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/model-notes.json"
    );
    let base = format!("base=http://{}/v1", model.address);
    let args = [
        "run",
        example,
        "--json",
        "-i",
        &base,
        "--allow-http",
        &model.address,
    ];
    let snapshot = lab.call(&args).with(0).json_lines().pop().unwrap();
    let result = &snapshot["outputs"]["result"];
    assert!(
        result["friendly"].is_boolean() && result["topic"].is_string(),
        "{snapshot}"
    );
}

#[test]
fn the_reason_a_model_cannot_be_called_is_shown() {
    let lab = Lab::new();
    let file = asking(&lab, "127.0.0.1:9", json!({}));
    // The same run continues once the engine has the missing provider.
    lab.call(&["run", &file])
        .with(3)
        .says("the provider is not configured")
        .says("--providers");
    lab.call(&["resume", "last"])
        .with(3)
        .says("the provider is not configured");
    lab.call(&["resume", "last", "--providers", "providers.toml"])
        .with(1)
        .says("model_endpoint_refused");
    let given = ["--providers", "providers.toml"];
    let run = |file: &str| lab.call(&["run", file, given[0], given[1]]);
    run(&file)
        .with(1)
        .says("model_endpoint_refused")
        .says("--allow-http");
    lab.call(&["doctor", given[0], given[1]])
        .with(1)
        .prints("this machine");
    lab.write(
        "providers.toml",
        "[provider.small]\nbase_url = \"http://127.0.0.1:9/v1\"\ncredential = \"env:NOT_SET_X\"\n",
    );
    let allowed = ["doctor", given[0], given[1], "--allow-http", "127.0.0.1:9"];
    lab.call(&allowed).with(1).prints("env:NOT_SET_X");
    let mut command = lab.command(&allowed);
    let set: Ended = command
        .env("NOT_SET_X", "planted-secret")
        .output()
        .unwrap()
        .into();
    let set = set.with(0).prints("prices unknown");
    assert!(!set.stdout.contains("planted"), "{set:?}");
    lab.write("providers.toml", "[provider.small]\nbase_url = 7");
    run(&file).with(2).says("--providers cannot be used");
    lab.call(&["doctor", given[0], given[1]])
        .with(1)
        .prints("bad");
}
