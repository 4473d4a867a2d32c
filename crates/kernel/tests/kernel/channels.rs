//! Channels that a node describes, and variables that a node reads.

use serde_json::{Map, Value, json};

use kernel::run::event::DrainPolicy;
use kernel::run::{ChannelWrite, Command, Completion, Create, Start};
use kernel::stream::Policy;

use crate::flow;
use crate::world::{World, object, started, unborn};

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
    assert_eq!(run.run.status().as_str(), "completed");
}

#[test]
fn a_declared_channel_is_not_a_variable() {
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

/// The node `a` of a run with this channel writes these values.
fn written(channel: &str, values: &[Value]) -> World {
    let mut run = unborn(&format!(
        "a -> b any_failed\nworkflow: {{\"channels\":{{\"c\":{channel}}}}}"
    ));
    begin(&mut run);
    let writes = values.iter().map(|value| ChannelWrite {
        channel: "c".into(),
        value: value.clone(),
    });
    let completion = Completion {
        channel_writes: writes.collect(),
        ..Completion::default()
    };
    run.completes_with("a", completion).decided();
    run
}

fn begin(run: &mut World) {
    let create = Create::new(Map::new(), "test", Start::Now);
    run.when(Command::Create(create)).decided();
}

fn channel(run: &World) -> &Value {
    &run.run.facts().expect("facts").channels["c"]
}

#[track_caller]
fn refused(run: &World, what: &str) {
    assert_eq!(run.status_of("a"), "failed");
    let failed = run.events.iter().rev().find_map(|event| {
        let event = serde_json::to_value(event).expect("an event is JSON");
        (event["type"] == "node.failed").then(|| event["data"]["error"].clone())
    });
    let error = failed.expect("the node failed");
    assert_eq!(error["code"], "validation_error");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(what), "{message}");
}

#[test]
fn a_sum_that_is_not_a_number_is_rejected() {
    let large = [json!(1.5e308), json!(1.5e308)];
    let run = written(r#"{"reducer":"counter"}"#, &large);
    refused(&run, "the sum of channel c");
    assert_eq!(run.run.facts().expect("facts").channels.get("c"), None);
    // Also one after another.
    let run = written(
        r#"{"reducer":"counter","default":-1.5e308}"#,
        &[json!(-1.5e308)],
    );
    refused(&run, "the sum of channel c");
    let run = written(
        r#"{"reducer":"counter"}"#,
        &[json!(1.5e308), json!(-1.5e308)],
    );
    assert_eq!(channel(&run), &json!(0.0));
}

#[test]
fn a_channel_keeps_to_its_schema() {
    let numbers = r#""schema":{"type":"array","items":{"type":"number"},"maxItems":2}"#;
    for (reducer, schema, fits, breaks) in [
        ("append", numbers, vec![json!(1), json!(2)], json!("three")),
        ("append", numbers, vec![json!(1), json!(2)], json!(3)),
        (
            "replace",
            r#""schema":{"type":"object","required":["k"]}"#,
            vec![json!({ "k": 1 })],
            json!({ "l": 1 }),
        ),
        (
            "merge",
            r#""schema":{"maxProperties":1}"#,
            vec![json!({ "k": 1 }), json!({ "k": 2 })],
            json!({ "l": 1 }),
        ),
        (
            "counter",
            r#""schema":{"maximum":10}"#,
            vec![json!(4), json!(6)],
            json!(1),
        ),
        (
            "message",
            r#""schema":{"type":"array","maxItems":1}"#,
            vec![json!({ "messageId": "1" }), json!({ "messageId": "1" })],
            json!({ "messageId": "2" }),
        ),
    ] {
        let channel_of = format!(r#"{{"reducer":"{reducer}",{schema}}}"#);
        let run = written(&channel_of, &fits);
        assert_eq!(run.status_of("a"), "completed", "{reducer}");
        let mut values = fits.clone();
        values.push(breaks);
        let run = written(&channel_of, &values);
        refused(&run, "of the schema of channel c");
    }
}

#[test]
fn a_schema_does_not_see_the_times_of_entries() {
    let timed = r#"{"reducer":"append","ttlMs":1000,"schema":{"items":{"type":"string"}}}"#;
    let run = written(timed, &[json!("x"), json!("y")]);
    assert_eq!(run.status_of("a"), "completed");
    assert!(channel(&run)[1]["_ts"].is_i64());
    refused(&written(timed, &[json!("x"), json!(1)]), "/items/type");
}

#[test]
fn a_schema_that_is_none_is_refused_when_it_is_registered() {
    let text = |schema: &str| {
        format!(
            "a\nworkflow: {{\"channels\":{{\"c/d\":{{\"reducer\":\"append\",\"schema\":{schema}}}}}}}"
        )
    };
    for (schema, what) in [
        (r#"{"type":"list"}"#, "/type"),
        (r##"{"$ref":"#/$defs/x"}"##, "/$ref"),
        (r#"{"items":{"minLength":"x"}}"#, "/items/minLength"),
    ] {
        let problems = flow::problems(&flow::document(&text(schema)));
        let [problem] = &problems.listed[..] else {
            panic!("{problems}");
        };
        assert_eq!(problem.path, "/channels/c~1d/schema");
        assert!(problem.message.contains(what), "{problem}");
        // A stored one can still be read, and its runs continue.
        flow::stored(&text(schema));
    }
}

const SHADOWED: &str = r#""channels":{"c":{"reducer":"append"}}"#;

#[test]
fn no_variable_may_have_the_name_of_a_channel() {
    for (text, path) in [
        (
            r#"a
            workflow: {"variables":[{"name":"v","type":"array"},{"name":"c","type":"array"}],"#,
            "/variables/1/name",
        ),
        (
            r#"a: core.setVariable {"config":{"name":"c","value":1}}
            workflow: {"#,
            "/nodes/0/config/name",
        ),
        (
            r#"a: core.setVariable {"config":{"variables":{"v":1,"c":2}}}
            workflow: {"#,
            "/nodes/0/config/variables/c",
        ),
    ] {
        let text = format!("{text}{SHADOWED}}}");
        let problems = flow::problems(&flow::document(&text));
        let paths: Vec<&str> = problems.listed.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, [path], "{problems}");
    }
}

#[test]
fn no_node_sets_a_variable_of_a_channels_name() {
    let mut run = started(&format!("a\nworkflow: {{{SHADOWED}}}"));
    let completion = Completion {
        variables: object(json!({ "v": 1, "c": 2 })),
        ..Completion::default()
    };
    run.completes_with("a", completion).decided();
    refused(&run, "`c` is a channel");
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.variables.get("v"), None, "nothing is taken of it");

    let node = r#"core.setVariable {"config":{"name":"c","value":1}}"#;
    let plan = flow::stored(&format!("a: {node}\nworkflow: {{{SHADOWED}}}"));
    let mut run = World::new(plan, Policy::default());
    begin(&mut run);
    refused(&run, "`c` is a channel");
}

#[test]
fn an_input_of_a_channels_name_is_refused() {
    let inputs = object(json!({ "v": 1, "c": [2] }));
    let mut run = unborn(&format!("a\nworkflow: {{{SHADOWED}}}"));
    let refused = run.create(inputs).refused("validation_error");
    let kernel::run::Rejection::InvalidInputs(problems) = refused else {
        panic!("{refused}");
    };
    let paths: Vec<&str> = problems.listed.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["/c"]);
}

/// A channel with a schema, and a counter.
pub(crate) const SCENE: &str = "a -> b any_failed\nc -> d any_failed\n\
    workflow: {\"channels\":{\"n\":{\"reducer\":\"counter\",\"schema\":{\"maximum\":10}},\
    \"l\":{\"reducer\":\"append\",\"schema\":{\"items\":{\"type\":\"string\"}}}}}";

/// Reading an unreadable channel is reported as such everywhere, unlike reading an absent one.
#[test]
fn a_channel_that_may_not_be_read_is_not_absent() {
    let read = |node: &str, edge: &str| {
        let mut run = unborn(&format!(
            "w: core.channelWrite {{\"config\":{{\"channel\":\"v\",\"value\":1}}}}\n\
             n: {node}\nw -> n\n{edge}\n\
             workflow: {{\"channels\":{{\"o\":{{\"reducer\":\"append\"}},\"v\":\
             {{\"reducer\":\"replace\",\"access\":{{\"readers\":[\"x\"]}}}}}}}}"
        ));
        begin(&mut run);
        run
    };
    let error = |run: &World| {
        let last = run.events.last().expect("an event");
        let event = serde_json::to_value(last).expect("an event is JSON");
        assert_eq!(event["type"], "run.failed");
        event["data"]["error"].clone()
    };
    let config = |of: &str, config: Value| format!("core.{of} {}", json!({ "config": config }));
    for node in [
        config("conditional", json!({ "expression": "channels.v == 1" })),
        config("conditional", json!({ "expression": "has(channels.v)" })),
        config(
            "conditional",
            json!({ "expression": "has(channels[\"v\"])" }),
        ),
        config(
            "setVariable",
            json!({ "name": "q", "expression": "channels.v" }),
        ),
        config(
            "channelWrite",
            json!({ "channel": "o", "expression": "channels.v" }),
        ),
        format!(
            "{}\nn.body -> b -> n",
            config("loop", json!({ "while": "channels.v == 0" }))
        ),
        "core.delay {\"inputs\":{\"ms\":{\"type\":\"expression\",\"expression\":\"channels.v\"}}}"
            .to_owned(),
    ] {
        let run = read(&node, "");
        assert_eq!(run.status_of("n"), "failed", "{node}");
        let error = error(&run);
        assert_eq!(error["code"], "channel_access_denied", "{node}");
        let details = json!({
            "channel": "v", "allowed": "readers",
            "requestedBy": error["details"]["requestedBy"],
        });
        assert_eq!(error["details"], details);
        assert_eq!(error["details"]["requestedBy"]["nodeId"], "n");
    }
    for condition in ["channels.v == 1", "has(channels.v)"] {
        let run = read(
            "core.setVariable {\"config\":{\"name\":\"q\"}}",
            &format!("n -> b if {condition}"),
        );
        assert_eq!(error(&run)["code"], "channel_access_denied", "{condition}");
    }
    // A readable channel without a write is absent.
    let has = |name: &str| {
        config(
            "conditional",
            json!({ "expression": format!("has(channels.{name})") }),
        )
    };
    let run = read(&has("o"), "");
    assert_eq!(run.status_of("n"), "completed");
}

/// A pause is withdrawn, a write breaks its schema, and a variable has a channel's name.
pub(crate) fn scene(run: &mut World) {
    begin(run);
    run.pause(DrainPolicy::DrainCurrentNode)
        .then("run.draining");
    run.resume().then("run.resumed");
    let write = |channel: &str, value: Value| ChannelWrite {
        channel: channel.into(),
        value,
    };
    let completion = Completion {
        channel_writes: vec![write("l", json!("said")), write("n", json!(11))],
        ..Completion::default()
    };
    run.completes_with("a", completion)
        .then("node.failed a validation_error; node.started b");
    let completion = Completion {
        channel_writes: vec![write("l", json!("said")), write("n", json!(10))],
        ..Completion::default()
    };
    run.completes_with("b", completion).decided();
    let completion = Completion {
        variables: object(json!({ "l": [1] })),
        ..Completion::default()
    };
    run.completes_with("c", completion)
        .then("node.failed c validation_error; node.started d");
    run.completes("d").then("node.completed d; run.completed");
}
