//! References between the parts of a definition.

use serde_json::{Value, json};

use super::{Types, assert_lines, check, check_warnings, graph, plan, with};
use crate::definition::{ControlKind, NodeKind, Plan, PortValue, UnknownTypes};

#[test]
fn ids_are_unique() {
    let mut document = graph("a b a", "a>b a>b");
    document["edges"][1]["id"] = json!("e0");
    document["triggers"] = json!([{"id": "t", "type": "manual"}, {"id": "t", "type": "manual"}]);
    document["variables"] =
        json!([{"name": "v", "type": "string"}, {"name": "v", "type": "number"}]);
    check(
        &document,
        &[
            "/nodes/2/id: duplicate_id: `a` is already the id of /nodes/0; choose another one",
            "/edges/1/id: duplicate_id: `e0` is already the id of /edges/0; choose another one",
            "/triggers/1/id: duplicate_id: `t` is already the id of /triggers/0; choose another one",
            "/variables/1/name: duplicate_id: `v` is already the name of /variables/0; choose another one",
        ],
    );
}

#[test]
fn unknown_nodes_are_listed_with_a_guess() {
    let mut document = graph("fetch b", "fetsh>b b>nowhere");
    document["nodes"][1]["inputs"] = json!({
        "x": {"type": "connection", "nodeId": "fetsh", "outputKey": "o"},
        "y": {"type": "expression", "expression": "nodes.fetch_.outputs.o"},
    });
    document["triggers"][0]["nodeId"] = json!("c");
    check(
        &document,
        &[
            "/nodes/1/inputs/x/nodeId: unknown_reference: unknown node `fetsh`; did you mean \
             `fetch`? There are `fetch`, `b`",
            "/nodes/1/inputs/y/expression: unknown_reference: unknown node `fetch_`; did you mean \
             `fetch`? There are `fetch`, `b`",
            "/edges/0/sourceNodeId: unknown_reference: unknown node `fetsh`; did you mean `fetch`? \
             There are `fetch`, `b`",
            "/edges/1/targetNodeId: unknown_reference: unknown node `nowhere`; there are `fetch`, \
             `b`",
            "/triggers/0/nodeId: unknown_reference: unknown node `c`; did you mean `b`? There are \
             `fetch`, `b`",
        ],
    );
}

#[test]
fn a_node_without_id_does_not_make_references_unknown() {
    let mut document = graph("a b", "a>b");
    document["nodes"][1]["id"] = json!(7);
    check(
        &document,
        &["/nodes/1/id: wrong_type: must be a string, not a number"],
    );
}

#[test]
fn shape_and_references_are_reported_together() {
    let mut document = graph("a b", "a>c");
    document["nodes"][0]["disabeld"] = json!(true);
    check(
        &document,
        &[
            "/nodes/0/disabeld: unknown_field: unknown field `disabeld`; did you mean `disabled`?",
            "/edges/0/targetNodeId: unknown_reference: unknown node `c`; did you mean `a`? There \
             are `a`, `b`",
        ],
    );
}

#[test]
fn types_are_known_or_not() {
    let document = graph(
        "a:core.nop b:core.delai c:vendor.acme.thing d:work.picky",
        "",
    );
    let types = [
        "/nodes/0/typeId: unknown_type: unknown node type `core.nop`; did you mean `core.noop`?",
        "/nodes/1/typeId: unknown_type: unknown node type `core.delai`; did you mean `core.delay`?",
        "/nodes/2/typeId: unknown_type: unknown node type `vendor.acme.thing`; `runwright workflow \
         nodes` lists the types",
    ];
    let config = "/nodes/3/config/size: missing_field: say a size";
    check(&document, &[types[0], types[1], types[2], config]);
    let mut document = document;
    document["nodes"][3]["config"]["size"] = json!(1);
    match Plan::from_json(&document, &Types, UnknownTypes::Warn) {
        Ok(plan) => {
            assert_lines(&plan.warnings, &types);
            assert!(plan.nodes.iter().all(|node| node.kind == NodeKind::Work));
        }
        Err(problems) => panic!("{problems}"),
    }
}

#[test]
fn every_control_kind_has_a_type_id() {
    for kind in ControlKind::ALL {
        assert_eq!(ControlKind::parse(kind.type_id()), Some(kind));
    }
    assert_eq!(ControlKind::parse("core.noop"), None);
}

fn inputs(inputs: Value) -> Value {
    with(&[
        ("/nodes/0/inputs", inputs),
        ("/variables/-", json!({"name": "city", "type": "string"})),
    ])
}

#[test]
fn inputs_are_resolved() {
    let mut document = graph("a b", "a>b");
    document["variables"] = json!([{"name": "v", "type": "string"}]);
    document["nodes"][1]["inputs"] = json!({
        "c": {"type": "connection", "nodeId": "a", "outputKey": "o", "optional": true},
        "e": {"type": "expression", "expression": "variables.v + 'x'"},
        "s": {"type": "static", "value": {"deep": [1]}},
        "v": {"type": "variable", "variableName": "v"},
    });
    let plan = plan(&document);
    let text = format!("{:?}", plan.nodes[1].inputs);
    assert_eq!(
        text,
        "[(\"c\", Connection { node: NodeIx(0), output: \"o\", optional: true }), \
         (\"e\", Expression(Expression(\"variables.v + 'x'\"))), \
         (\"s\", Static(Object {\"deep\": Array [Number(1)]})), \
         (\"v\", Variable { name: \"v\", optional: false })]"
    );
    assert!(matches!(
        plan.nodes[1].inputs[0].1,
        PortValue::Connection { .. }
    ));
}

#[test]
fn variables_are_declared_or_written() {
    let variable = |name: &str| json!({"p": {"type": "variable", "variableName": name}});
    check(&inputs(variable("city")), &[]);
    check(
        &inputs(variable("citi")),
        &[
            "/nodes/0/inputs/p/variableName: unknown_reference: unknown variable `citi`; did you \
             mean `city`?",
        ],
    );
    check(
        &inputs(json!({"p": {"type": "variable", "variableName": "zip", "optional": true}})),
        &[],
    );
    let mut document = graph("a:core.setVariable b:core.subWorkflow c", "");
    document["nodes"][0]["config"] = json!({"name": "x", "variables": {"y": 1}});
    document["nodes"][1]["config"] =
        json!({"workflowId": "child", "outputMapping": {"z": "childZ"}});
    document["nodes"][2]["inputs"] = json!({
        "a": {"type": "variable", "variableName": "a"},
        "x": {"type": "variable", "variableName": "x"},
        "y": {"type": "variable", "variableName": "y"},
        "z": {"type": "variable", "variableName": "z"},
        "w": {"type": "variable", "variableName": "w"},
    });
    check(
        &document,
        &[
            "/nodes/2/inputs/w/variableName: unknown_reference: unknown variable `w`; declare it \
             in `variables`",
        ],
    );
}

#[test]
fn control_nodes_fill_no_placeholders() {
    let mut document = graph("gate:core.approvalGate", "");
    document["nodes"][0]["config"] = json!({"title": "Deploy ${inputs.version}?"});
    check(
        &document,
        &[
            "/nodes/0/config/title: not_done: `${inputs.NAME}` is not replaced in the config of this \
             node; write the value itself, or bind it to an input port that the node reads",
        ],
    );
    document["nodes"][0]["config"] = json!({"title": "Deploy for ${cost}?"});
    check(&document, &[]);
    document["nodes"][0]["config"] = json!({"title": "Deploy {{ version }}?"});
    check_warnings(
        &document,
        &[
            "/nodes/0/config/title: not_done: `{{ }}` is not replaced in the config of this node; \
             write the value itself, or bind it to an input port that the node reads",
        ],
    );
}

#[test]
fn a_connection_names_an_output_of_its_node() {
    let reads = |node: &str, config: Value, output: &str| {
        let mut document = graph(&format!("a:{node} b"), "a>b");
        document["nodes"][0]["config"] = config;
        document["nodes"][0]["inputs"] = match node {
            "core.identity" => json!({"city": {"type": "static", "value": 1}}),
            _ => json!({}),
        };
        document["nodes"][1]["inputs"] =
            json!({"p": {"type": "connection", "nodeId": "a", "outputKey": output}});
        document
    };
    let questions = json!({"questions": [{"id": "q", "question": "?"}]});
    for (node, config, known, slip, listed) in [
        (
            "core.approvalGate",
            json!({"title": "?"}),
            "action",
            "acton",
            "did you mean `action`? There are `value`, `action`, `artifactData`, `refineFeedback`, `decidedBy`, `comment`, `feedback`",
        ),
        (
            "core.clarificationGate",
            questions,
            "answers",
            "answer",
            "did you mean `answers`? There are `value`, `answers`",
        ),
        (
            "core.subWorkflow",
            json!({"workflowId": "c"}),
            "outputs",
            "output1",
            "did you mean `outputs`? There are `childRunId`, `childStatus`, `outputs`",
        ),
        (
            "core.identity",
            json!({}),
            "city",
            "citi",
            "did you mean `city`?",
        ),
    ] {
        check(&reads(node, config.clone(), known), &[]);
        let problem = format!(
            "/nodes/1/inputs/p/outputKey: unknown_reference: node `a` gives no output `{slip}`; \
             {listed}"
        );
        check(&reads(node, config, slip), &[&problem]);
    }
}

#[test]
fn a_condition_reads_outputs_of_its_source() {
    let reads = |condition: Value| {
        let mut document = graph("a:core.setVariable b", "a>b");
        document["nodes"][0]["config"] = json!({"name": "exitCode", "value": 0});
        document["edges"][0]["condition"] = condition;
        document
    };
    let slip = "/edges/0/condition: unknown_reference: node `a` gives no output `exitCod`; did you \
                mean `exitCode`?";
    for (known, text) in [(true, "exitCode"), (false, "exitCod")] {
        let expected: &[&str] = if known { &[] } else { &[slip] };
        check(
            &reads(json!({"type": "equals", "left": text, "right": 0})),
            expected,
        );
        let expression = format!("output.{text} == 0");
        check(
            &reads(json!({"type": "expression", "expression": expression})),
            expected,
        );
    }
    let asked = "has(output.exitCod) && output.exitCode == 0";
    check(
        &reads(json!({"type": "expression", "expression": asked})),
        &[],
    );
}

#[test]
fn expressions_are_compiled() {
    let expression = |text: &str| inputs(json!({"p": {"type": "expression", "expression": text}}));
    check(
        &expression("variables.city +"),
        &[
            "/nodes/0/inputs/p/expression: invalid_expression: at column 17: the expression ends too early: a value is missing",
        ],
    );
    let citi = "/nodes/0/inputs/p/expression: unknown_reference: unknown variable `citi`; did you \
                mean `city`?";
    check(&expression("variables.citi + 'x'"), &[citi]);
    check(&expression("inputs.citi + 'x'"), &[citi]);
    check_warnings(
        &expression("has(variables.citi) ? variables.citi : 'x'"),
        &[citi],
    );
    check_warnings(
        &expression("has(variables.citi) ? variables.city : 'x'"),
        &[],
    );
    check_warnings(
        &expression("inputs.extra"),
        &[
            "/nodes/0/inputs/p/expression: unknown_reference: unknown variable `extra`; there is \
             `city`",
        ],
    );
    let mut document = graph("a:core.conditional h:core.loop b", "h.body>b b>h");
    document["nodes"][0]["config"] = json!({"expression": "1 +"});
    document["nodes"][1]["config"] = json!({"items": "[", "while": "nodes.x.outputs.y"});
    check(
        &document,
        &[
            "/nodes/0/config/expression: invalid_expression: at column 4: the expression ends too early: a value is missing",
            "/nodes/1/config/items: invalid_expression: at column 2: the expression ends too early: `]` is missing",
            "/nodes/1/config/while: unknown_reference: unknown node `x`; did you mean `a`? There \
             are `a`, `h`, `b`",
        ],
    );
    let mut document = graph("a:core.conditional", "");
    document["nodes"][0]["config"] = json!({"expression": "true"});
    let plan = plan(&document);
    assert_eq!(plan.nodes[0].expressions["expression"].text(), "true");
}

#[test]
fn a_flood_of_expressions_is_refused() {
    let long = format!("'{}' == 'x'", "x".repeat(4_000));
    let ports: Vec<String> = (0..300).map(|n| format!("p{n}")).collect();
    let ports = ports.iter().enumerate().map(|(n, port)| {
        (
            port.clone(),
            json!({"type": "expression", "expression": format!("{n} == 1 || {long}")}),
        )
    });
    let problems = super::load(&with(&[(
        "/nodes/0/inputs",
        Value::Object(ports.collect()),
    )]));
    let problems = problems.err().unwrap_or_default();
    assert!(
        problems.listed[0].message.contains("split the workflow"),
        "{problems}"
    );
}

#[test]
fn channels_are_declared_when_any_is() {
    let mut document = graph("a:core.channelWrite b:core.channelWrite", "");
    document["nodes"][0]["config"] = json!({"channelName": "event", "value": 1});
    document["nodes"][1]["config"] = json!({"channel": "events", "value": 1});
    check(&document, &[]);
    document["channels"] = json!({"events": {"reducer": "append"}});
    document["triggers"] =
        json!([{"id": "t", "type": "channel-write", "config": {"channel": "other"}}]);
    check(
        &document,
        &[
            "/nodes/0/config/channelName: unknown_reference: unknown channel `event`; did you mean \
             `events`?",
            "/triggers/0/config/channel: unknown_reference: unknown channel `other`; there is \
             `events`",
        ],
    );
}

/// Unlike triggers that start runs, it concerns events within one.
#[test]
fn a_trigger_of_a_channel_is_kept_with_a_warning() {
    let mut document = graph("a:core.channelWrite b", "");
    document["nodes"][0]["config"] = json!({"channel": "events", "value": 1});
    let trigger = |more: Value| {
        let mut trigger = json!({"id": "t", "config": {"channel": "events"}, "nodeId": "b"});
        let fields = trigger.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        json!([trigger])
    };
    document["triggers"] = trigger(json!({"type": "channel-write"}));
    check_warnings(
        &document,
        &[
            "/triggers/0/type: not_done: is kept and starts no node: a write to a channel starts \
             nothing here; add an edge from the writing node to the node to start",
        ],
    );
    document["triggers"] = trigger(json!({"type": "channel-write", "enabled": false}));
    check_warnings(&document, &[]);
    document["triggers"] = trigger(json!({"type": "event"}));
    check_warnings(
        &document,
        &[
            "/triggers/0/type: not_done: is kept and starts no run: this server has no scheduler; \
             start runs with `POST /v1/runs` or `runwright run`",
        ],
    );
}

#[test]
fn a_connection_needs_a_path() {
    let mut document = graph("a b c h:core.loop x y", "a>b b>c h.body>x x>y y>h");
    let from = |id: &str| json!({"p": {"type": "connection", "nodeId": id, "outputKey": "o"}});
    document["nodes"][2]["inputs"] = from("a");
    document["nodes"][4]["inputs"] = from("y");
    document["nodes"][3]["config"] = json!({ "times": 2 });
    check_warnings(&document, &[]);
    document["nodes"][0]["inputs"] = from("c");
    check_warnings(
        &document,
        &[
            "/nodes/0/inputs/p: unknown_reference: no path of edges leads here from `c`, so its \
             output may be missing; add an edge",
        ],
    );
}
