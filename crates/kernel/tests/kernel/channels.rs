//! Channels that a node describes, and variables that a node reads.

use serde_json::{Map, Value, json};

use crate::flow;
use crate::world::{started, unborn};

/// Three writes, a wait longer than they live, and a fourth.
const NEWS: &str = r#"a: core.channelWrite {"config":{"channelName":"news","reducer":"append","ttlMs":200,"value":"a"}}
    b: core.channelWrite {"config":{"channelName":"news","reducer":"append","ttlMs":200,"value":"b"}}
    wait: core.delay {"config":{"ms":300}}
    d: core.channelWrite {"config":{"channelName":"news","reducer":"append","ttlMs":200,"value":"d"}}
    a -> b -> wait -> d"#;

#[test]
fn entries_live_as_long_as_their_node_says() {
    let mut run = started(NEWS);
    let values = |of: &Value| -> Vec<Value> {
        let entries = of["news"].as_array().expect("entries");
        entries.iter().map(|entry| entry["value"].clone()).collect()
    };
    let facts = run.run.facts().expect("facts");
    assert_eq!(values(&facts.channels), ["a", "b"]);
    run.next_timer().decided();
    let facts = run.run.facts().expect("facts");
    assert_eq!(
        values(&facts.variables),
        ["d"],
        "the result is a variable too"
    );
    assert_eq!(facts.variables["news"], facts.channels["news"]);
    assert!(facts.variables["news"][0]["_ts"].is_i64());
    assert_eq!(run.run.status(), "completed");
}

#[test]
fn a_declared_channel_is_no_variable() {
    let run = started(
        "a: core.channelWrite {\"config\":{\"channel\":\"log\",\"reducer\":\"counter\",\"value\":1}}\n\
         workflow: {\"channels\":{\"log\":{\"reducer\":\"append\"}}}",
    );
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.channels["log"], json!([1]), "the declaration stands");
    assert_eq!(facts.variables.get("log"), None);
}

#[test]
fn a_channel_is_described_in_one_way() {
    let text = NEWS.replace(r#""ttlMs":200,"value":"d""#, r#""ttlMs":500,"value":"d""#);
    let problems = flow::problems(&flow::document(&text));
    assert_eq!(problems.listed[0].path, "/nodes/3/config");
    let text = NEWS.replacen("append", "prepend", 1);
    let problems = flow::problems(&flow::document(&text));
    assert_eq!(problems.listed[0].path, "/nodes/0/config/reducer");
}

#[test]
fn a_variable_is_read() {
    let read = |config: &str, value: Value| {
        let mut run = unborn(&format!(
            "get: core.getVariable {{\"config\":{config}}}\nget -> b\n\
             b: {{\"inputs\":{{\"p\":{{\"type\":\"connection\",\"nodeId\":\"get\",\"outputKey\":\"value\"}}}}}}\n\
             workflow: {{\"variables\":[{{\"name\":\"x\",\"type\":\"number\",\"defaultValue\":7}}]}}"
        ));
        run.create(Map::new()).decided();
        let live = run.run.live_attempts().next().expect("b runs");
        assert_eq!(live.inputs["p"], value);
    };
    read(r#"{"name":"x"}"#, json!(7));
    read(r#"{"variableName":"y","default":"none"}"#, json!("none"));
    read(r#"{"name":"y"}"#, Value::Null);
    let mut run = unborn("get: core.getVariable");
    run.create(Map::new()).then(
        "run.started; node.started get; node.failed get invalid_config; run.failed invalid_config",
    );
}
