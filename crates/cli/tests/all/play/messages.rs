//! What is said of everything that keeps a session from beginning.

use serde_json::json;

use super::{chain, node, template};
use crate::support::Lab;

#[track_caller]
fn refused(lab: &Lab, args: &[&str], expected: &[&str]) {
    let mut ended = lab.call(args).with(2);
    for text in expected {
        ended = ended.says(text);
    }
    assert!(lab.sessions().is_empty(), "nothing was begun");
}

#[test]
fn a_missing_variable() {
    let mut document = chain(&[node("a", "true", "{goal}")]);
    document["context_schema"] = json!({
        "goal": { "type": "string", "required": true, "description": "What to build" },
        "scope": { "type": "path", "required": true, "description": "Where" },
    });
    let lab = Lab::with_template(&document);
    refused(
        &lab,
        &["play", "sample"],
        &[
            "2 required variables have no value",
            "goal: What to build",
            "scope: Where",
            "--context goal=… scope=…",
        ],
    );
    refused(
        &lab,
        &["play", "sample", "--context", "nonsense"],
        &["write NAME=VALUE"],
    );
}

#[test]
fn an_unknown_template() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    let expected = ["there is no template `smaple`", "did you mean `sample`?"];
    refused(&lab, &["play", "smaple"], &expected);
    refused(&lab, &["play", "zzz"], &["there are sample"]);
    refused(&Lab::new(), &["play", "zzz"], &["runwright play new"]);
    refused(&lab, &["play"], &["name a template"]);
}

#[test]
fn a_cycle() {
    let nodes = [node("a", "true", ""), node("b", "true", "")];
    let edges = [
        json!({ "from": "a", "to": "b" }),
        json!({ "from": "b", "to": "a" }),
    ];
    let lab = Lab::with_template(&template(&nodes, &edges));
    let expected = ["in a circle: a -> b -> a", "remove one of these edges"];
    refused(&lab, &["play", "sample"], &expected);
}

#[test]
fn all_problems_of_a_template_at_once() {
    let nodes = [node("a", "true", "{x.session_id}"), node("a", "true", "")];
    let edges = [json!({ "from": "a", "to": "ab" })];
    let lab = Lab::with_template(&template(&nodes, &edges));
    refused(
        &lab,
        &["play", "sample"],
        &[
            ".workflow/templates/sample.json: 2 problems",
            "has the id `a`, too; ids are unique",
            "it refers to the node `x`, which is not there",
        ],
    );
    let lab = Lab::with_template(&template(&nodes[1..], &edges));
    let expected = ["there is no node `ab`; did you mean `a`?"];
    refused(&lab, &["play", "sample"], &expected);
}

#[test]
fn a_missing_executor() {
    let lab = Lab::with_template(&chain(&[node("a", "flow-plan", "")]));
    std::fs::remove_file(lab.path().join("runwright.toml")).unwrap();
    refused(
        &lab,
        &["play", "sample"],
        &[
            "no executor is configured for\n  a (skill flow-plan)",
            "add to a file runwright.toml in the project folder",
            "type = \"skill\"\n  match = \"flow-plan\"",
        ],
    );
    let config = |text: &str| lab.write("runwright.toml", text);
    config("[[executor]]\ntype = \"skill\"\nargv = [\"no-such-program\"]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["no-such-program is not installed"],
    );
    config("[[executor]]\ntype = \"skill\"\nargv = [\"{arg}\"]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["runwright.toml: the executor in line 1", "{args}"],
    );
    config("[[executor]\n");
    refused(
        &lab,
        &["play", "sample"],
        &["runwright.toml: TOML parse error at line 1"],
    );
}

#[test]
fn bad_json_has_its_line_and_column() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    lab.write(".workflow/templates/sample.json", "{\n  \"nodes\": [,]\n}");
    refused(&lab, &["play", "sample"], &["line 2, column 13"]);
}

#[test]
fn what_is_odd_is_a_warning_unless_strict() {
    let lab = Lab::with_template(&chain(&[node("a", "true", "{gaol}")]));
    refused(
        &lab,
        &["play", "sample", "--strict"],
        &["{gaol} is no variable"],
    );
    lab.call(&["play", "sample"])
        .with(0)
        .says("warning:")
        .says("{gaol} is no variable");
}

#[test]
fn two_things_at_once() {
    let lab = Lab::new();
    refused(&lab, &["play", "x", "--list"], &["are different things"]);
    refused(
        &lab,
        &["play", "--resume"],
        &["there is no session to resume"],
    );
    let resume = ["play", "--resume", "S", "--context", "goal=new"];
    refused(&lab, &resume, &["keeps the context it began with"]);
    let from = ["play", "--resume", "S", "--from", "CP-01", "--skip", "a"];
    refused(&lab, &from, &["--from begins a new one"]);
}
