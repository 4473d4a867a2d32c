//! Inputs and results of nodes: inputs, variables, channels, artifacts, usage.

use kernel::digest::Digest;
use kernel::run::event::{Artifact, OutputChannel, Usage};
use kernel::run::{ChannelWrite, Command, Completion, Create, Start};
use kernel::stream::Policy;
use serde_json::{Map, Value, json};

use crate::flow;
use crate::world::{World, object, started, unborn};

fn write(channel: &str, value: Value) -> ChannelWrite {
    ChannelWrite {
        channel: channel.into(),
        value,
    }
}

fn writes(writes: Vec<ChannelWrite>) -> Completion {
    Completion {
        channel_writes: writes,
        ..Completion::default()
    }
}

fn channels(run: &World) -> &Value {
    &run.run.facts().expect("facts").channels
}

fn given(port: &str, more: &str) -> World {
    let mut run = started(&format!(
        "a -> b\nb: {{\"inputs\":{{\"p\":{port}}}}}\n{more}"
    ));
    run.gives("a", json!({ "n": 1, "deep": { "x": [1, 2] } }))
        .decided();
    run
}

fn received(run: &World) -> &Map<String, Value> {
    run.run
        .live_attempts()
        .next()
        .expect("b is in flight")
        .inputs
}

#[test]
fn ports_take_values_from_everywhere() {
    let variables = "workflow: {\"variables\":[{\"name\":\"v\",\"type\":\"number\",\
                     \"defaultValue\":5},{\"name\":\"unset\",\"type\":\"number\"}]}";
    for (port, expected) in [
        (r#"{"type":"static","value":{"k":1}}"#, json!({ "k": 1 })),
        (
            r#"{"type":"connection","nodeId":"a","outputKey":"n"}"#,
            json!(1),
        ),
        (
            r#"{"type":"connection","nodeId":"a","outputKey":"output"}"#,
            json!({ "n": 1, "deep": { "x": [1, 2] } }),
        ),
        (
            r#"{"type":"expression","expression":"nodes.a.outputs.deep.x[1] + variables.v"}"#,
            json!(7),
        ),
        (r#"{"type":"variable","variableName":"v"}"#, json!(5)),
    ] {
        let run = given(port, variables);
        assert_eq!(received(&run)["p"], expected, "{port}");
    }
    for port in [
        r#"{"type":"connection","nodeId":"a","outputKey":"none","optional":true}"#,
        r#"{"type":"variable","variableName":"unset"}"#,
    ] {
        let run = given(port, variables);
        assert_eq!(received(&run).get("p"), None, "{port}");
    }
}

#[test]
fn a_port_without_a_value_fails_the_node() {
    for port in [
        r#"{"type":"connection","nodeId":"a","outputKey":"none"}"#,
        r#"{"type":"expression","expression":"nodes.a.outputs.none"}"#,
    ] {
        let run = given(port, "");
        let log = crate::notation::lines(&run.events);
        assert_eq!(
            log[log.len() - 3..],
            [
                "node.started b",
                "node.failed b input_unresolved",
                "run.failed input_unresolved"
            ],
            "{port}"
        );
    }
}

#[test]
fn inputs_must_fit_the_variables() {
    let text = "workflow: {\"variables\":[{\"name\":\"n\",\"type\":\"number\",\"required\":true},\
                {\"name\":\"d\",\"type\":\"string\",\"defaultValue\":\"x\"}]}\na";
    let mut run = unborn(text);
    run.create(Map::new()).refused("validation_error");
    run.create(object(json!({ "n": "text" })))
        .refused("validation_error");
    run.create(object(json!({ "n": 1.5, "extra": [1.0] })))
        .then("run.started; node.started a");
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.variables, json!({ "n": 1.5, "d": "x" }));
    assert_eq!(facts.inputs, json!({ "n": 1.5, "extra": [1] }));
}

#[test]
fn an_attempt_sets_variables_in_order() {
    let mut run = started("a");
    let completion = Completion {
        variables: object(json!({ "b": 2.0, "a": null })),
        ..Completion::default()
    };
    run.completes_with("a", completion)
        .then("variable.changed a = null; variable.changed b = 2; node.completed a; run.completed");
}

#[test]
fn control_nodes_set_variables() {
    let run = started(
        "s: core.setVariable {\"config\":{\"variables\":{\"x\":1,\"y\":2.0}}}\n\
         t: core.setVariable {\"config\":{\"name\":\"z\",\"expression\":\"variables.x + variables.y\"}}\n\
         s -> t\n\
         workflow: {\"variables\":[{\"name\":\"x\",\"type\":\"number\"},\
         {\"name\":\"y\",\"type\":\"number\"}]}",
    );
    assert_eq!(
        run.run.facts().expect("facts").variables,
        json!({ "x": 1, "y": 2, "z": 3 })
    );
}

#[test]
fn writes_go_through_the_reducer_of_their_channel() {
    let mut run = started(
        "workflow: {\"channels\":{\"log\":{\"reducer\":\"append\",\"maxSize\":2},\
         \"sum\":{\"reducer\":\"counter\"},\"last\":{\"reducer\":\"replace\"}}}\na",
    );
    run.completes_with(
        "a",
        writes(vec![
            write("log", json!("x")),
            write("log", json!("y")),
            write("log", json!("z")),
            write("sum", json!(1.0)),
            write("sum", json!(2)),
            write("last", json!({ "v": 1.0 })),
        ]),
    )
    .then(
        "channel.written log = \"x\"; channel.written log = \"y\"; channel.written log = \"z\"; \
         channel.written sum = 1; channel.written sum = 2; \
         channel.written last = {\"v\":1}; node.completed a; run.completed",
    );
    assert_eq!(
        channels(&run),
        &json!({ "log": ["y", "z"], "sum": 3, "last": { "v": 1 } })
    );
}

#[test]
fn a_forbidden_write_fails_the_node_and_writes_nothing() {
    let text = "workflow: {\"channels\":{\"open\":{\"reducer\":\"append\"},\
                \"sum\":{\"reducer\":\"counter\"},\
                \"theirs\":{\"reducer\":\"append\",\"access\":{\"writers\":[\"other\"]}},\
                \"small\":{\"reducer\":\"merge\",\"maxSize\":1}}}\na";
    for (last, code) in [
        (write("theirs", json!(1)), "channel_access_denied"),
        (write("sum", json!("x")), "validation_error"),
        (
            write("small", json!({ "a": 1, "b": 2 })),
            "validation_error",
        ),
    ] {
        let mut run = started(text);
        let refused = writes(vec![write("open", json!(1)), last]);
        run.completes_with("a", refused)
            .then(&format!("node.failed a {code}; run.failed {code}"));
        assert_eq!(channels(&run), &json!({}));
    }
    let mut run = started(text);
    let second = writes(vec![
        write("small", json!({ "a": 1 })),
        write("small", json!({ "b": 1 })),
    ]);
    run.completes_with("a", second)
        .then("node.failed a validation_error; run.failed validation_error");
}

#[test]
fn an_undeclared_channel_takes_the_last_value() {
    let mut run =
        started("a -> w\nw: core.channelWrite {\"config\":{\"channel\":\"c\",\"value\":[1.0]}}");
    run.completes_with("a", writes(vec![write("c", json!(1))]))
        .then(
            "channel.written c = 1; node.completed a; node.started w; channel.written c = [1]; \
             node.completed w; run.completed",
        );
    assert_eq!(channels(&run), &json!({ "c": [1] }));
}

fn artifact(part: &[u8]) -> Artifact {
    Artifact {
        artifact_id: "artifact-1".into(),
        artifact_type: "process.stdout".into(),
        media_type: "text/plain".into(),
        size: u64::MAX,
        digest: Digest::compute(b"whole"),
        parts: vec![Digest::compute(part), Digest::compute(b"2")],
    }
}

fn usage() -> Usage {
    Usage {
        provider: "mock".into(),
        model: "m".into(),
        input_tokens: u64::MAX,
        output_tokens: 2,
        cost_estimate_usd: Some(f64::NAN),
        duration_ms: Some(u64::MAX),
        cache_read_tokens: None,
        cache_write_tokens: None,
    }
}

/// Counts come from outside; one that JSON cannot hold exactly used to make the log unreadable.
#[test]
fn output_of_an_attempt_precedes_its_outcome() {
    let mut run = started("a -> b\nb -> h any_failed");
    run.completes_with(
        "a",
        Completion {
            artifacts: vec![artifact(b"1")],
            usage: vec![usage(), usage()],
            ..Completion::default()
        },
    )
    .then(
        "artifact.created a process.stdout; provider.usage a; provider.usage a; \
         node.completed a; node.started b",
    );
    assert_eq!(
        run.blobs[1..],
        [Digest::compute(b"1"), Digest::compute(b"2")]
    );
    let total = run
        .run
        .facts()
        .expect("facts")
        .usage
        .clone()
        .expect("usage");
    assert_eq!(total.output_tokens, 4);
    assert_eq!(total.usd, None);
    run.finish(
        "b",
        kernel::run::Outcome::Failed {
            error: kernel::run::NodeError::new("boom", "as the test says"),
            artifacts: vec![artifact(b"3")],
            usage: vec![usage()],
            spent: Default::default(),
        },
    )
    .then(
        "artifact.created b process.stdout; provider.usage b; node.failed b boom; \
         node.started h",
    );
    assert_eq!(run.run.facts().expect("facts").artifacts.len(), 2);
}

#[test]
fn output_and_log_lines_belong_to_an_attempt_in_flight() {
    let mut run = started("a -> b");
    let attempt = run.attempt("a");
    let output = |chunk: &str| Command::Output {
        attempt: attempt.clone(),
        channel: OutputChannel::Stdout,
        chunk: chunk.to_owned(),
        is_last: false,
        meta: Some(json!({ "n": 1.0 })),
    };
    let line = |message: &str| Command::Log {
        attempt: attempt.clone(),
        level: kernel::run::event::LogLevel::Info,
        message: message.to_owned(),
    };
    run.when(output("x\n")).then("output.chunk a \"x\\n\"");
    run.when(line("hello")).then("log.appended info hello");
    run.when(output(&"x".repeat(64 * 1024 + 1)))
        .refused("too_large");
    run.when(line(&"x".repeat(64 * 1024 + 1)))
        .refused("too_large");
    run.completes("a").decided();
    run.when(output("late")).refused("stale_attempt");
    run.when(line("late")).refused("stale_attempt");
}

#[test]
fn oversized_event_data_is_rejected() {
    let huge = json!("x".repeat(3 << 20));
    let mut run = unborn(
        "ask: core.interrupt -> b"
            .split(" ->")
            .next()
            .expect("text"),
    );
    run.create(object(json!({ "x": huge })))
        .refused("too_large");
    run.create(Map::new()).decided();
    run.signal("k", "1", huge.clone()).refused("too_large");
    run.resolve("ask", huge).refused("too_large");

    let mut run = started("a -> h any_failed");
    run.gives("a", json!({ "x": "x".repeat(5 << 20) }))
        .then("node.failed a output_too_large; node.started h");

    let mut run = started(
        "a -> b\nb: {\"inputs\":{\
         \"p\":{\"type\":\"connection\",\"nodeId\":\"a\",\"outputKey\":\"x\"},\
         \"q\":{\"type\":\"connection\",\"nodeId\":\"a\",\"outputKey\":\"x\"}}}",
    );
    run.gives("a", json!({ "x": "x".repeat(3 << 20) })).then(
        "node.completed a; node.started b; node.failed b input_too_large; \
         run.failed input_too_large",
    );
}

#[test]
fn an_undeclared_input_is_not_a_variable() {
    let text = r#"a
        workflow: {"variables":[{"name":"known","type":"number"}]}"#;
    let mut run = World::new(flow::plan(text), Policy::default());
    let inputs = object(json!({ "known": 1, "beside": 2 }));
    run.when(Command::Create(Create::new(inputs, "test", Start::Now)))
        .decided();
    let facts = run.run.facts().expect("facts");
    assert_eq!(facts.inputs["beside"], 2);
    assert_eq!(facts.variables["known"], 1);
    assert_eq!(facts.variables.get("beside"), None);
}
