//! Loops, cycles, layers and entries.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{check, graph, load, plan};
use crate::definition::{EdgeIx, LoopBody, NodeIx, Plan};
use crate::limits::{DEFAULT_LOOP_ITERATIONS, MAX_PROBLEMS};

/// Ids of nodes in order, with a space between.
fn ids(plan: &Plan, nodes: &[NodeIx]) -> String {
    nodes
        .iter()
        .map(|&ix| plan.node(ix).id.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

fn back_edges(plan: &Plan) -> Vec<usize> {
    (0..plan.edges.len())
        .filter(|&n| plan.edges[n].back)
        .collect()
}

fn body(plan: &Plan, id: &str) -> LoopBody {
    let node = plan.node_ix(id).map(|ix| plan.node(ix));
    match node.and_then(|node| node.body.clone()) {
        Some(body) => body,
        None => panic!("{id} is no loop"),
    }
}

fn within(plan: &Plan, id: &str) -> Option<String> {
    let ix = plan.node_ix(id)?;
    plan.node(ix)
        .within
        .map(|head| plan.node(head).id.to_string())
}

#[test]
fn edges_are_known_at_both_ends() {
    let plan = plan(&graph("a b c d", "a>b a>c b>d c>d"));
    assert_eq!(plan.nodes[0].outgoing, [EdgeIx(0), EdgeIx(1)]);
    assert_eq!(plan.nodes[3].incoming, [EdgeIx(2), EdgeIx(3)]);
    assert_eq!(ids(&plan, &plan.entries), "a");
    let layers: Vec<String> = plan
        .layers()
        .iter()
        .map(|layer| ids(&plan, layer))
        .collect();
    assert_eq!(layers, ["a", "b c", "d"]);
}

#[test]
fn a_loop_has_a_body_and_is_left() {
    let plan = plan(&graph(
        "s h:core.loop a b c end",
        "s>h h.body>a a>b a>c b>h c>h h.done>end",
    ));
    let found = body(&plan, "h");
    assert_eq!(ids(&plan, &found.nodes), "a b c");
    assert_eq!(found.starts, [EdgeIx(1)]);
    assert_eq!(found.back_edges, [EdgeIx(4), EdgeIx(5)]);
    assert_eq!(found.exits, [EdgeIx(6)]);
    assert_eq!(found.max_iterations, DEFAULT_LOOP_ITERATIONS);
    assert_eq!(back_edges(&plan), [4, 5]);
    assert_eq!(within(&plan, "b").as_deref(), Some("h"));
    assert_eq!((within(&plan, "h"), within(&plan, "end")), (None, None));
    assert_eq!(ids(&plan, &plan.entries), "s");
    let layers: Vec<String> = plan
        .layers()
        .iter()
        .map(|layer| ids(&plan, layer))
        .collect();
    assert_eq!(layers, ["s", "h", "a end", "b c"]);
}

#[test]
fn a_body_may_have_side_branches_and_no_exit() {
    let plan = plan(&graph("h:core.loop a log", "h.body>a a>h a>log"));
    assert_eq!(ids(&plan, &body(&plan, "h").nodes), "a log");
    assert_eq!(ids(&plan, &plan.entries), "h");
}

#[test]
fn loops_nest() {
    let plan = plan(&graph(
        "o:core.loop a i:core.loop b c end",
        "o.body>a a>i i.body>b b>i i.done>c c>o o.done>end",
    ));
    assert_eq!(ids(&plan, &body(&plan, "o").nodes), "a i b c");
    assert_eq!(ids(&plan, &body(&plan, "i").nodes), "b");
    assert_eq!(within(&plan, "b").as_deref(), Some("i"));
    assert_eq!(within(&plan, "i").as_deref(), Some("o"));
    assert_eq!(within(&plan, "c").as_deref(), Some("o"));
    assert_eq!(back_edges(&plan), [3, 5]);
}

#[test]
fn rounds_are_bounded() {
    let loops = |config: Value, settings: Value| {
        let mut document = graph("h:core.loop a", "h.body>a a>h");
        document["nodes"][0]["config"] = config;
        document["settings"] = settings;
        document
    };
    let rounds = |config, settings| body(&plan(&loops(config, settings)), "h").max_iterations;
    assert_eq!(
        rounds(
            json!({"maxIterations": 7}),
            json!({"maxLoopbackIterations": 9})
        ),
        7
    );
    assert_eq!(rounds(json!({}), json!({"maxLoopbackIterations": 9})), 9);
    check(
        &loops(json!({"maxIterations": 0}), json!({})),
        &["/nodes/0/config/maxIterations: invalid_value: must be a whole number from 1 to 1000000"],
    );
}

#[test]
fn broken_loops_are_explained() {
    check(
        &graph("h:core.loop a", "h.done>a"),
        &["/nodes/0: invalid_loop: the loop `h` has no body; add an edge from its port `body`"],
    );
    check(
        &graph("h:core.loop a b", "h.body>a h.done>b"),
        &[
            "/nodes/0: invalid_loop: no edge leads back to the loop `h`; add one from the end of \
             its body",
        ],
    );
    check(
        &graph("h:core.loop a b", "h.body>a a>h h>b"),
        &[
            "/edges/2: invalid_loop: an edge from the loop `h` needs a port: set `sourceOutput` to \
             `body` or `done`",
        ],
    );
    check(
        &graph("h:core.loop", "h.body>h"),
        &[
            "/edges/0: invalid_loop: the body of the loop `h` is empty; put a node into it",
            "/nodes/0: invalid_loop: the loop `h` has no body; add an edge from its port `body`",
            "/edges/0: cycle: the edges form a cycle: `h` → `h`; remove one of them, or put a \
             `core.loop` at its head, with its port `body` into the cycle and its port `done` out \
             of it",
        ],
    );
    check(
        &graph("s h:core.loop a", "s>h h.body>a a>h s>a"),
        &[
            "/edges/3: invalid_loop: leads from `s` into the body of the loop `h`, which `a` is part of; lead it to `h` itself, or `a` out of the loop by port `done`",
        ],
    );
    check(
        &graph("h:core.loop a x", "h.body>a a>h a>x h.done>x"),
        &[
            "/edges/3: invalid_loop: leads from port `done` of the loop `h` into its own body, which `x` is part of; only one of the two ports may lead to `x`",
        ],
    );
    check(
        &graph(
            "o:core.loop i:core.loop b",
            "o.body>i i.body>b b>i i.done>o b>o",
        ),
        &[
            "/nodes/0: invalid_loop: the loops `o` and `i` overlap; leave the inner one only by \
             its port `done`",
        ],
    );
}

#[test]
fn a_dispatch_may_lead_back_to_its_supervisor() {
    let loopback = "s:core.orchestrator.supervisor d:core.dispatch";
    let back = plan(&graph(loopback, "s>d d>s"));
    assert_eq!(back_edges(&back), [1]);
    assert_eq!(ids(&back, &back.entries), "s");
    // The order in the document does not matter.
    let back = plan(&graph(
        "d:core.dispatch s:core.orchestrator.supervisor",
        "d>s s>d",
    ));
    assert_eq!(back_edges(&back), [0]);
    assert_eq!(ids(&back, &back.entries), "s");
    // Nodes between them are part of the loop; nodes that only follow it are not.
    let back = plan(&graph(&format!("{loopback} x y z"), "s>x x>d d>y y>s s>z"));
    assert_eq!(back_edges(&back), [3]);
    let body = back.node(NodeIx(0)).body.as_ref().expect("a loop");
    assert_eq!(ids(&back, &body.nodes), "d x y");
    assert_eq!((body.starts.len(), body.exits.len()), (1, 1));
    assert_eq!(body.max_iterations, 5);
    check(
        &graph(&format!("{loopback} x"), "s>d s>x x>s"),
        &[
            "/edges/2: cycle: the edges form a cycle: `s` → `x` → `s`; remove one of them, or put \
             a `core.loop` at its head, with its port `body` into the cycle and its port `done` \
             out of it",
        ],
    );
}

#[test]
fn a_supervisor_in_a_loop_has_none_of_its_own() {
    let plan = plan(&graph(
        "l:core.loop s:core.orchestrator.supervisor d:core.dispatch",
        "l.body>s s>d d>l",
    ));
    assert!(plan.node(NodeIx(1)).body.is_none());
    let body = plan.node(NodeIx(0)).body.as_ref().expect("a loop");
    assert_eq!(ids(&plan, &body.nodes), "s d");
}

#[test]
fn every_circle_is_named() {
    let hint = "remove one of them, or put a `core.loop` at its head, with its port `body` into \
                the cycle and its port `done` out of it";
    check(
        &graph("s a b c x y z", "s>a a>b b>c c>a s>x x>y y>x z>z"),
        &[
            &format!("/edges/3: cycle: the edges form a cycle: `a` → `b` → `c` → `a`; {hint}"),
            &format!("/edges/6: cycle: the edges form a cycle: `x` → `y` → `x`; {hint}"),
            &format!("/edges/7: cycle: the edges form a cycle: `z` → `z`; {hint}"),
        ],
    );
    let ring: String = (0..50)
        .map(|n| format!("n{n}>n{} ", (n + 1) % 50))
        .collect();
    let nodes: String = (0..50).map(|n| format!("n{n} ")).collect();
    let problems = load(&graph(&nodes, &ring)).err().unwrap_or_default();
    assert!(
        problems.to_string().contains("`n11` → (38 more) → `n0`;"),
        "{problems}"
    );
}

#[test]
fn something_must_be_able_to_start() {
    let mut document = graph("a b c", "a>b b>c");
    document["nodes"][0]["disabled"] = json!(true);
    check(
        &document,
        &[
            "/nodes: no_start: no node can start the run: every node without an incoming edge is \
             disabled; enable one",
        ],
    );
}

/// The longest allowed chain, and other large graphs, need little stack and time.
#[test]
fn large_graphs_compile() {
    let count = 10_000;
    let nodes: String = (0..count).map(|n| format!("n{n} ")).collect();
    let chain: String = (1..count).map(|n| format!("n{}>n{n} ", n - 1)).collect();
    let long = plan(&graph(&nodes, &chain));
    assert_eq!(long.layers().len(), count);
    let ring = format!("{chain} n{}>n0", count - 1);
    assert_eq!(
        load(&graph(&nodes, &ring)).err().map(|p| p.listed.len()),
        Some(1)
    );
    let loops: String = (0..count / 2)
        .map(|n| format!("h{n}:core.loop n{n} "))
        .collect();
    let flat: String = (0..count / 2)
        .map(|n| format!("h{n}.body>n{n} n{n}>h{n} h{n}.done>h{} ", n + 1))
        .collect();
    let flat = plan(&graph(&format!("{loops} h{}", count / 2), &flat));
    assert_eq!(flat.entries, [NodeIx(0)]);
}

#[test]
fn absurd_nesting_is_refused_in_time() {
    let depth = 5_000;
    let heads: String = (0..depth).map(|n| format!("h{n}:core.loop ")).collect();
    let down: String = (1..depth)
        .map(|n| format!("h{}.body>h{n} ", n - 1))
        .collect();
    let up: String = (1..depth)
        .map(|n| format!("h{n}.done>h{} ", n - 1))
        .collect();
    let document = graph(
        &format!("{heads} x"),
        &format!("{down} {up} h{}.body>x x>h{}", depth - 1, depth - 1),
    );
    let problems = load(&document).err().unwrap_or_default();
    assert_eq!(
        problems.listed.first().map(|p| p.message.as_str()),
        Some("the loops are nested too deep; split the workflow")
    );
    assert!(problems.listed.len() <= MAX_PROBLEMS);
}

/// Edges of a random graph on a few nodes, from lower to higher positions.
fn dags() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2_usize..12).prop_flat_map(|count| {
        let pair = (0..count - 1).prop_flat_map(move |a| (Just(a), a + 1..count));
        (Just(count), prop::collection::vec(pair, 0..24))
    })
}

fn document((count, edges): &(usize, Vec<(usize, usize)>)) -> Value {
    let nodes: String = (0..*count).map(|n| format!("n{n} ")).collect();
    let edges: String = edges.iter().map(|(a, b)| format!("n{a}>n{b} ")).collect();
    graph(&nodes, &edges)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_of_a_random_dag_is_consistent(dag in dags()) {
        let plan = plan(&document(&dag));
        prop_assert_eq!(plan.nodes.len(), dag.0);
        for (index, (edge, (source, target))) in plan.edges.iter().zip(&dag.1).enumerate() {
            let ix = EdgeIx(index as u32);
            prop_assert_eq!((edge.source.index(), edge.target.index()), (*source, *target));
            prop_assert!(plan.node(edge.source).outgoing.contains(&ix));
            prop_assert!(plan.node(edge.target).incoming.contains(&ix));
            prop_assert!(!edge.back);
        }
        let ends: usize = plan.nodes.iter().map(|n| n.incoming.len() + n.outgoing.len()).sum();
        prop_assert_eq!(ends, 2 * dag.1.len());
        let targets: Vec<usize> = dag.1.iter().map(|(_, target)| *target).collect();
        let entries: Vec<NodeIx> =
            plan.node_ixs().filter(|ix| !targets.contains(&ix.index())).collect();
        prop_assert_eq!(&plan.entries, &entries);
        let layers = plan.layers();
        let layer_of = |ix: NodeIx| layers.iter().position(|layer| layer.contains(&ix));
        prop_assert_eq!(layers.iter().map(Vec::len).sum::<usize>(), dag.0);
        for edge in &plan.edges {
            prop_assert!(layer_of(edge.source) < layer_of(edge.target));
        }
    }

    /// Closing a path into a cycle is always found, at the right edge.
    #[test]
    fn a_circle_is_always_found(mut dag in dags(), at in any::<prop::sample::Index>()) {
        prop_assume!(!dag.1.is_empty());
        let (source, target) = dag.1[at.index(dag.1.len())];
        dag.1.push((target, source));
        let problems = load(&document(&dag)).err().unwrap_or_default();
        prop_assert!(problems.listed.iter().any(|p| p.code.as_str() == "cycle"), "{}", problems);
    }
}
