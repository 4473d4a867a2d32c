//! Workflows and runs as pictures. The SVG files are left in the target's temporary folder, to
//! be looked at.

use faces::graph;
use kernel::run::Run;
use serde_json::{Value, json};

use crate::scenarios;
use crate::world::{World, definition, edge, node, plan};

fn show(name: &str, svg: &str) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.svg"));
    std::fs::write(path, svg).expect("writable");
}

/// A workflow with every kind of node: choices, nested loops, handled failures.
fn release() -> Value {
    let work = |id: &str, kind: &str| node(id, kind, json!({}));
    let mut nodes = vec![
        work("checkout", "work.git"),
        work("build", "work.cargo"),
        work("unit-tests", "work.cargo"),
        work("lint", "work.cargo"),
        node(
            "each-target",
            "core.loop",
            json!({ "items": ["linux", "mac"] }),
        ),
        work("package", "work.tar"),
        node("until-signed", "core.loop", json!({ "times": 3 })),
        work("sign", "work.sign"),
        node("wait-a-bit", "core.delay", json!({ "ms": 1000 })),
        work("upload", "work.http"),
        node(
            "is-major",
            "core.conditional",
            json!({ "expression": "variables.major" }),
        ),
        node(
            "ask-the-team-before-a-major-release-goes-out",
            "core.interrupt",
            json!({
                "kind": "approval", "data": { "title": "Release?" }
            }),
        ),
        work("publish", "work.http"),
        work("announce", "work.http"),
        work("roll back", "work.http"),
        node(
            "note",
            "core.channelWrite",
            json!({ "channel": "notes", "value": 1 }),
        ),
    ];
    nodes[15]["disabled"] = json!(true);
    for node in &mut nodes {
        let id = node["id"].as_str().expect("an id").replace(' ', "-");
        node["id"] = json!(id);
    }
    let port = |name: &str| json!({ "sourceOutput": name });
    let rule = |name: &str| json!({ "triggerRule": name });
    let edges = json!([
        edge("checkout", "build", json!({})),
        edge("checkout", "lint", json!({})),
        edge("build", "unit-tests", json!({})),
        edge("unit-tests", "each-target", json!({})),
        edge("lint", "each-target", json!({})),
        edge("each-target", "package", port("body")),
        edge("package", "until-signed", json!({})),
        edge("until-signed", "sign", port("body")),
        edge("sign", "wait-a-bit", json!({})),
        edge("wait-a-bit", "until-signed", json!({})),
        edge("until-signed", "upload", port("done")),
        edge("upload", "each-target", json!({})),
        edge("each-target", "is-major", port("done")),
        edge(
            "is-major",
            "ask-the-team-before-a-major-release-goes-out",
            port("true")
        ),
        edge(
            "is-major",
            "publish",
            json!({ "sourceOutput": "false", "triggerRule": "any_success" })
        ),
        edge(
            "ask-the-team-before-a-major-release-goes-out",
            "publish",
            rule("any_success")
        ),
        edge("publish", "announce", json!({})),
        edge("publish", "roll-back", rule("any_failed")),
        edge(
            "announce",
            "note",
            json!({
                "condition": { "type": "expression", "expression": "nodes.announce.outputs.ok" }
            })
        ),
        edge("checkout", "note", rule("all_complete")),
    ]);
    definition(
        "release",
        Value::Array(nodes),
        edges,
        json!({
            "name": "Release <script>alert(1)</script> & announce",
            "variables": [{ "name": "major", "type": "boolean", "defaultValue": true }],
        }),
    )
}

/// `width` nodes next to each other, `groups` times.
fn wide(groups: usize, width: usize) -> Value {
    let mut nodes = vec![node("start", "work.start", json!({}))];
    let mut edges = Vec::new();
    let mut last = "start".to_owned();
    for group in 0..groups {
        let join = format!("join-{group}");
        nodes.push(node(&join, "work.join", json!({})));
        for at in 0..width {
            let id = format!("step-{group}-{at}");
            nodes.push(node(&id, "work.step", json!({})));
            edges.push(edge(&last, &id, json!({})));
            edges.push(edge(&id, &join, json!({})));
        }
        last = join;
    }
    definition("wide", json!(nodes), json!(edges), json!({}))
}

/// An irregular but constant network.
fn tangle(nodes: usize, degree: usize) -> Value {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("small") % below
    };
    let list: Vec<_> = (0..nodes)
        .map(|at| node(&format!("n{at}"), "work.step", json!({})))
        .collect();
    let mut edges = Vec::new();
    for at in 1..nodes {
        for nth in 0..=random(degree) {
            let back = 1 + random(at.min(12));
            let mut edge = edge(&format!("n{}", at - back), &format!("n{at}"), json!({}));
            edge["id"] = json!(format!("e{at}-{nth}"));
            edges.push(edge);
        }
    }
    definition("tangle", json!(list), json!(edges), json!({}))
}

fn picture(run: &Run) -> String {
    graph::svg(&run.plan, Some(run))
}

/// A run that is in the second round of an inner loop.
fn releasing() -> World {
    World::start(&release(), json!({}))
        .complete("checkout", json!({}))
        .complete("lint", json!({}))
        .complete("build", json!({}))
        .complete("unit-tests", json!({}))
        .complete("package", json!({}))
        .complete("sign", json!({}))
        .fire()
}

/// A picture without its style sheet, which does not depend on the workflow.
fn without_style(svg: &str) -> String {
    let (before, rest) = svg.split_once("<style>").expect("a style sheet");
    let (_, after) = rest.split_once("</style>").expect("its end");
    format!("{before}{after}")
}

/// Every text of a kind of element, in order.
fn texts(document: &roxmltree::Document<'_>, name: &str) -> Vec<String> {
    document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

#[test]
fn a_workflow_is_a_flowchart() {
    insta::assert_snapshot!(graph::mermaid(&plan(&release()), None));
}

#[test]
fn a_run_is_a_flowchart_with_states() {
    let world = releasing();
    insta::assert_snapshot!(graph::mermaid(&world.run.plan, Some(&world.run)));
}

#[test]
fn a_run_is_a_drawing_with_states() {
    let world = releasing();
    let svg = picture(&world.run);
    show("run-release", &svg);
    insta::assert_snapshot!(without_style(&svg));
}

#[test]
fn every_picture_is_well_formed_and_refers_to_nothing_outside() {
    let mut pictures = vec![
        ("release", graph::svg(&plan(&release()), None)),
        ("groups", graph::svg(&plan(&wide(3, 10)), None)),
        ("wide", graph::svg(&plan(&wide(1, 30)), None)),
        ("tangle", graph::svg(&plan(&tangle(40, 2)), None)),
        ("hostile", graph::svg(&plan(&hostile()), None)),
    ];
    let runs = scenarios::all();
    pictures.extend(
        runs.iter()
            .map(|(name, world)| (*name, picture(&world.run))),
    );
    for (name, svg) in pictures {
        show(name, &svg);
        let document =
            roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        for element in document.descendants().filter(roxmltree::Node::is_element) {
            let tag = element.tag_name().name();
            assert!(
                !["script", "image", "use", "foreignObject", "a"].contains(&tag),
                "{name}"
            );
            for attribute in element.attributes() {
                let outside = attribute.name().contains("href")
                    || attribute.name().starts_with("on")
                    || attribute.value().contains("url(");
                assert!(!outside, "{name}: {attribute:?}");
            }
        }
        assert!(!svg.contains("@import"), "{name}");
    }
}

/// Names that try to break out of their context.
fn hostile() -> Value {
    let names = [
        "<script>alert(1)</script>",
        "\"]; click n0 call alert() %%{init: {}}%%",
        "end",
        "1. first",
        "- item",
        "`**bold**` __init__ snake_case",
        "#quot; &amp; \u{202e}\u{2028}",
        "名前がとても長いノードはどうなるのかを見るためのノード",
    ];
    let nodes: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let mut node = node(&format!("node-{at}"), "work.step", json!({}));
            node["name"] = json!(name);
            node
        })
        .collect();
    let edges: Vec<_> = (1..names.len())
        .map(|at| {
            let text = r#""|<b>" == '"]' && 1 < 2"#;
            edge(
                &format!("node-{}", at - 1),
                &format!("node-{at}"),
                json!({
                    "condition": { "type": "expression", "expression": text }
                }),
            )
        })
        .collect();
    definition(
        "hostile",
        json!(nodes),
        json!(edges),
        json!({ "name": "</title><svg onload=x>" }),
    )
}

#[test]
fn a_name_is_always_drawn_as_text() {
    let plan = plan(&hostile());
    let svg = graph::svg(&plan, None);
    let document = roxmltree::Document::parse(&svg).expect("well formed");
    assert_eq!(texts(&document, "title")[0], "</title><svg onload=x>");
    let titles = texts(&document, "title").join("\n");
    for node in &plan.nodes {
        assert!(
            titles.contains(&format!("({}): work.step", node.id)),
            "{}",
            node.id
        );
    }
    assert!(
        titles.contains("<script>alert(1)</script> (node-0)"),
        "{titles}"
    );
    insta::assert_snapshot!(graph::mermaid(&plan, None));
}

#[test]
fn long_names_are_cut_on_screen_and_whole_in_the_title() {
    let svg = graph::svg(&plan(&release()), None);
    let document = roxmltree::Document::parse(&svg).expect("well formed");
    let long = "ask-the-team-before-a-major-release-goes-out";
    assert!(!texts(&document, "text").iter().any(|text| text == long));
    assert!(
        texts(&document, "title")
            .iter()
            .any(|title| title.starts_with(long))
    );
}

#[test]
fn two_thousand_nodes_are_all_there() {
    let plan = plan(&tangle(2_000, 2));
    let svg = graph::svg(&plan, None);
    assert_eq!(svg.matches("class=\"box\"").count(), 2_000);
    assert_eq!(svg.matches("class=\"edge").count(), plan.edges.len());
    assert_eq!(
        graph::mermaid(&plan, None).lines().count(),
        1 + 2_000 + plan.edges.len()
    );
}

#[test]
fn a_picture_is_the_same_every_time() {
    let document = tangle(200, 3);
    assert_eq!(
        graph::svg(&plan(&document), None),
        graph::svg(&plan(&document), None)
    );
}

#[test]
fn a_description_names_nodes_edges_and_run_status() {
    for (name, world) in scenarios::all() {
        let plan = &world.run.plan;
        let described = graph::describe(plan, Some(&world.run));
        let nodes = described["nodes"].as_array().expect("a list");
        assert_eq!(nodes.len(), plan.nodes.len(), "{name}");
        let states = &faces::openwop::v1::snapshot(&world.run)["nodeStates"];
        for node in nodes {
            let id = node["id"].as_str().expect("an id");
            assert_eq!(node["status"], states[id]["status"], "{name} {id}");
        }
        assert_eq!(
            described["edges"].as_array().expect("a list").len(),
            plan.edges.len()
        );
        assert_eq!(described["status"], world.run.status().as_str(), "{name}");
        // Without a run, nodes have no status.
        let described = graph::describe(plan, None);
        assert_eq!(described["nodes"][0].get("status"), None, "{name}");
    }
}

#[test]
fn a_described_edge_includes_its_condition() {
    let described = graph::describe(&plan(&release()), None);
    let edges = described["edges"].as_array().expect("a list");
    let find = |source: &str, target: &str| {
        edges
            .iter()
            .find(|edge| edge["sourceNodeId"] == source && edge["targetNodeId"] == target)
            .unwrap_or_else(|| panic!("no edge from {source} to {target} in {edges:#?}"))
    };
    assert_eq!(find("checkout", "build")["triggerRule"], "all_success");
    assert_eq!(find("each-target", "package")["sourceOutput"], "body");
    assert!(edges.iter().any(|edge| edge["closesLoop"] == true));
    assert!(edges.iter().any(|edge| edge["isConditional"] == true));
}
