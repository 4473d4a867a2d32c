use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn parse(change: impl FnOnce(&mut Value)) -> Result<Template, String> {
    let node =
        |id: &str| json!({ "id": id, "type": "command", "executor": "x", "args_template": "" });
    let mut document = json!({
        "template_id": "t", "context_schema": {},
        "nodes": [node("code"), node("test"), node("fix"), node("end")],
        "edges": [
            { "from": "code", "to": "test" }, { "from": "test", "to": "fix" },
            { "from": "fix", "to": "test", "max_rounds": 3 },
            { "from": "test", "to": "end" },
        ],
    });
    change(&mut document);
    let bytes = serde_json::to_vec_pretty(&document).unwrap();
    Template::parse(&bytes, &BTreeSet::new()).map_err(|problems| problems.to_string())
}

#[test]
fn a_loop_becomes_a_sequence_of_rounds() {
    let template = parse(|_| {}).unwrap();
    let ids = template.plan.order().map(|at| &*template.nodes[at].id);
    let ids: Vec<&str> = ids.collect();
    assert_eq!(
        ids,
        ["code", "test", "fix", "test.2", "fix.2", "test.3", "end"]
    );
    assert_eq!(template.counts(), (4, 0));
    assert!(template.warnings.is_empty(), "{:?}", template.warnings);
}

#[track_caller]
fn refused(what: &str, change: impl FnOnce(&mut Value)) {
    let problems = parse(change).unwrap_err();
    assert!(problems.contains(what), "{problems}");
    assert!(problems.contains("line "), "{problems}");
}

#[test]
fn impossible_loops_are_rejected() {
    refused("a whole number from 2 to 20", |t| {
        t["edges"][2]["max_rounds"] = json!(1)
    });
    refused("a whole number from 2 to 20", |t| {
        t["edges"][2]["max_rounds"] = json!("3")
    });
    refused("no edges lead from `test` to `code`", |t| {
        t["edges"][2] = json!({ "from": "code", "to": "test", "max_rounds": 3 });
    });
    refused("`fix` is in a loop, whose nodes run in sequence", |t| {
        t["nodes"][2]["parallel_group"] = json!("g");
    });
    refused("the checkpoint `fix` is in the loop of `test`", |t| {
        t["nodes"][2] = json!({ "id": "fix", "type": "checkpoint" });
    });
    refused("raise `max_rounds` of the edge instead", |t| {
        t["nodes"][1]["retry"] = json!({ "max_attempts": 2 });
    });
    refused("`on_fail` may be abort or skip", |t| {
        t["nodes"][1]["on_fail"] = json!("retry");
    });
    refused("`test` is in two loops", |t| {
        let edges = t["edges"].as_array_mut().unwrap();
        edges.push(json!({ "from": "test", "to": "code", "max_rounds": 2 }));
    });
    refused("needs the id `test.2`, which another node has", |t| {
        t["nodes"][3]["id"] = json!("test.2");
        t["edges"][3]["to"] = json!("test.2");
    });
}

#[test]
fn only_the_first_node_of_a_loop_has_an_error() {
    let refers = |id: &str, to: &str| {
        let (id, to) = (id.to_owned(), to.to_owned());
        parse(move |t| {
            let nodes = t["nodes"].as_array_mut().unwrap();
            let node = nodes.iter_mut().find(|node| node["id"] == *id).unwrap();
            node["args_template"] = json!(format!("mend {{{to}.error}}"));
        })
    };
    assert!(refers("fix", "test").unwrap().warnings.is_empty());
    assert!(refers("end", "test").unwrap().warnings.is_empty());
    let problems = refers("end", "code").unwrap_err();
    assert!(problems.contains("{code.error} has no value"), "{problems}");
    assert!(problems.contains("line "), "{problems}");
}

#[test]
fn the_error_of_a_skipped_node_is_refused() {
    let problems = |node: &str, to: &str| {
        let (node, to) = (node.to_owned(), to.to_owned());
        let parsed = parse(move |t| {
            let nodes = t["nodes"].as_array_mut().unwrap();
            let named = |id: &str| nodes.iter().position(|node| node["id"] == *id).unwrap();
            let (from, of) = (named(&node), named(&to));
            nodes[of]["on_fail"] = json!("skip");
            nodes[from]["args_template"] = json!(format!("mend {{{to}.error}}"));
        });
        parsed.map(drop)
    };
    let plain = problems("end", "code").unwrap_err();
    assert!(plain.contains("the error of a skipped node"), "{plain}");
    assert!(problems("end", "test").is_ok());
    assert!(problems("fix", "test").is_ok());
}

#[test]
fn a_circle_says_how_to_make_it_a_loop() {
    refused("set `max_rounds` on the edge that leads back", |t| {
        let edge = t["edges"][2].as_object_mut().unwrap();
        edge.remove("max_rounds");
    });
}
