//! Errors of templates that cannot be played.

use std::collections::BTreeSet;

use faces::player::template::Template;
use serde_json::{Value, json};

use super::{review, template};

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let problems = Template::parse(text.as_bytes(), &BTreeSet::new()).unwrap_err();
    let lines: Vec<String> = problems.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines, expected);
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut document = review();
    change(&mut document);
    serde_json::to_string_pretty(&document).unwrap()
}

#[test]
fn bad_json_has_its_line_and_column() {
    refused(
        "{\n  \"template_id\": \"x\",\n  \"nodes\": [,]\n}",
        &[
            "line 3, column 13: not JSON: a value is expected here: an object, an array, a string \
             in double quotes, a number, true, false or null",
        ],
    );
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    refused(
        "{}",
        &[
            "/template_id: line 1, column 1: `template_id` is required: the name of the template",
            "/context_schema: line 1, column 1: `context_schema` is required: an object, which may \
             be empty",
            "/nodes: line 1, column 1: `nodes` is required: an array of at least one node",
            "/edges: line 1, column 1: `edges` is required: an array, which may be empty",
        ],
    );
}

#[test]
fn everything_that_is_wrong_with_nodes_is_said_at_once() {
    let text = r#"{
  "template_id": "t", "context_schema": {}, "edges": [],
  "nodes": [
    { "id": "a", "type": "skil", "executor": "x", "args_template": "" },
    { "id": "b", "type": "skill" },
    { "id": "b", "type": "cli", "executor": "x", "args_template": "{c.session_id}", "on_fail": "skipp" },
    { "id": "c.", "type": "checkpoint", "parallel_group": "g", "auto_continue": "yes" }
  ]
}"#;
    refused(
        text,
        &[
            "/nodes/0/type: line 4, column 26: `skil` is not a node type; did you mean `skill`?",
            "/nodes/1/executor: line 5, column 5: `executor` is required: the name of the program \
             to call",
            "/nodes/1/args_template: line 5, column 5: `args_template` is required: the arguments, \
             which may be an empty text",
            "/nodes/2/cli_tool: line 6, column 5: `cli_tool` is required: the tool to call, as \
             gemini",
            "/nodes/2/id: line 6, column 13: node 2 of the list has the id `b`, too; ids are unique",
            "/nodes/2/args_template: line 6, column 67: it refers to the node `c`, which does not \
             exist; did you mean `a`?",
            "/nodes/2/on_fail: line 6, column 96: `skipp` is not allowed here; did you mean `skip`?",
            "/nodes/3/parallel_group: line 7, column 59: a checkpoint cannot be in a parallel \
             group; remove `parallel_group`",
            "/nodes/3/auto_continue: line 7, column 81: must be true or false, not a text",
        ],
    );
}

#[test]
fn an_edge_to_an_unknown_node_gets_a_suggestion() {
    let text = changed(|document| {
        document["edges"][0]["to"] = json!("CP-1");
        document["edges"][1] = json!({ "from": "N-002", "to": "N-002" });
    });
    let problems = Template::parse(text.as_bytes(), &BTreeSet::new()).unwrap_err();
    let text = problems.to_string();
    assert!(
        text.contains("unknown node `CP-1`; did you mean `CP-01`?"),
        "{text}"
    );
    assert!(
        text.contains("the node `N-002` leads to itself; remove this edge"),
        "{text}"
    );
}

#[test]
fn a_cycle_is_named_node_by_node_at_the_edge_that_closes_it() {
    let text = r#"{
  "template_id": "t", "context_schema": {},
  "nodes": [
    { "id": "a", "type": "checkpoint" },
    { "id": "b", "type": "checkpoint" },
    { "id": "c", "type": "checkpoint" },
    { "id": "d", "type": "checkpoint" },
    { "id": "e", "type": "checkpoint" }
  ],
  "edges": [
    { "from": "a", "to": "b" }, { "from": "b", "to": "c" },
    { "from": "c", "to": "a" },
    { "from": "c", "to": "d" }, { "from": "d", "to": "e" },
    { "from": "e", "to": "d" }
  ]
}"#;
    refused(
        text,
        &[
            "/edges/2: line 12, column 5: the nodes wait for one another in a cycle: a -> b -> c \
             -> a; remove one of these edges, or, to run them again while the first fails, set \
             `max_rounds` on the edge that leads back",
            "/edges/5: line 14, column 5: the nodes wait for one another in a cycle: d -> e -> d; \
             remove one of these edges, or, to run them again while the first fails, set \
             `max_rounds` on the edge that leads back",
        ],
    );
}

/// Errors in the graph are reported together with errors in its nodes.
#[test]
fn graph_errors_are_reported_together_with_node_errors() {
    let text = r#"{
  "template_id": "t", "context_schema": {},
  "nodes": [
    { "id": "a", "type": "skil", "executor": "x", "args_template": "" },
    { "id": "a", "type": "checkpoint" },
    { "id": "b", "type": "skill", "executor": "x", "args_template": "{x.session_id}" }
  ],
  "edges": [
    { "from": "a", "to": "b" }, { "from": "b", "to": "a" },
    { "from": "a", "to": "ab" }
  ]
}"#;
    refused(
        text,
        &[
            "/nodes/0/type: line 4, column 26: `skil` is not a node type; did you mean `skill`?",
            "/nodes/1/id: line 5, column 13: node 1 of the list has the id `a`, too; ids are unique",
            "/nodes/2/args_template: line 6, column 69: it refers to the node `x`, which does not \
             exist; did you mean `a`?",
            "/edges/1: line 9, column 33: the nodes wait for one another in a cycle: a -> b -> a; \
             remove one of these edges, or, to run them again while the first fails, set \
             `max_rounds` on the edge that leads back",
            "/edges/2/to: line 10, column 26: unknown node `ab`; did you mean `a`?",
        ],
    );
}

/// An edge may lead to a node without an id: that is one mistake, not two.
#[test]
fn edges_are_not_blamed_for_a_node_without_an_id() {
    let text = r#"{
  "template_id": "t", "context_schema": {},
  "nodes": [{ "id": "a", "type": "checkpoint" }, { "type": "checkpoint" }],
  "edges": [{ "from": "a", "to": "b" }]
}"#;
    refused(
        text,
        &["/nodes/1/id: line 3, column 50: `id` is required: a name, unique in the template"],
    );
}

#[test]
fn oddities_are_only_warnings() {
    let text = changed(|document| {
        document["nodes"][0]["args_template"] = json!("{gaol} {N-004.output}");
        document["checkpoints"] = json!(["CP-01"]);
        let nodes = document["nodes"].as_array_mut().unwrap();
        nodes.push(json!({ "id": "lost", "type": "skill", "executor": "x", "args_template": "" }));
    });
    let template = Template::parse(text.as_bytes(), &BTreeSet::new()).unwrap();
    let warnings: Vec<&str> = template
        .warnings
        .iter()
        .map(|warning| &*warning.message)
        .collect();
    assert_eq!(
        warnings,
        [
            "{gaol} is not a variable and is not replaced; did you mean {goal}?",
            "no edge leads to or from `lost`",
            "`N-004` does not run before this node, so the reference is empty; add an edge",
            "the list differs from the checkpoints among the nodes; the nodes count",
        ]
    );
}

#[test]
fn names_that_are_given_are_references_too() {
    let text = changed(|document| document["nodes"][0]["args_template"] = json!("{extra}"));
    let parse = |given: &[&str]| {
        let given = given.iter().map(|name| (*name).to_owned()).collect();
        Template::parse(text.as_bytes(), &given)
            .unwrap()
            .warnings
            .len()
    };
    assert_eq!((parse(&[]), parse(&["extra"])), (1, 0));
}

#[test]
fn a_template_of_ten_thousand_nodes_compiles() {
    let nodes: Vec<Value> = (0..10_000)
        .map(|n| {
            json!({
                "id": format!("N-{n}"), "type": "skill", "executor": "x",
                "args_template": "{goal} {prev_output}",
                "parallel_group": (n % 10 != 0).then(|| format!("g{}", n / 10)),
            })
        })
        .collect();
    let edges: Vec<Value> = (1..10_000)
        .map(|n: u32| json!({ "from": format!("N-{}", (n - 1) / 10 * 10), "to": format!("N-{n}") }))
        .collect();
    let template = template(&json!({
        "template_id": "wft-large", "nodes": nodes, "edges": edges,
        "context_schema": { "goal": { "type": "string" } },
    }));
    assert_eq!(template.plan.order().count(), 10_000);
    let settings = faces::player::compile::Settings {
        context: ["goal".to_owned()].into(),
        ..Default::default()
    };
    let definition = faces::player::compile::compile(&template, &template.plan, &settings);
    let plan = crate::world::plan(&definition);
    assert!(plan.nodes.len() >= 10_000);
}
