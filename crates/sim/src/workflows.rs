//! Random workflows: graphs with retries, timeouts, loops, children, signals and delays.

use serde_json::{Map, Value, json};
use store::seed::Draws;

use crate::work::WORK;

/// The signal that interrupts wait for.
pub(crate) const SIGNAL: &str = "go-on";

/// A workflow document.
pub(crate) fn document(id: &str, nodes: Vec<Value>, edges: Vec<Value>) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

/// A node.
pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "name": id, "typeId": type_id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {},
    })
}

/// An edge.
pub(crate) fn edge(from: &str, to: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

/// An edge that leaves by a port.
pub(crate) fn edge_by(from: &str, port: &str, to: &str) -> Value {
    let mut edge = edge(from, to);
    edge["sourceOutput"] = json!(port);
    edge
}

/// A random workflow. It may start those of `children`.
pub(crate) fn random(draws: &mut Draws, id: &str, children: &[&str]) -> Value {
    match draws.below(5) {
        0 => looping(draws, id),
        1 if !children.is_empty() => team(draws, id, children),
        _ => graph(draws, id, children),
    }
}

/// A supervisor that dispatches workers, one after another or at the same time, and decides again.
fn team(draws: &mut Draws, id: &str, children: &[&str]) -> Value {
    let decisions: Vec<Value> = (0..1 + draws.below(2))
        .map(|_| {
            let workers = (0..1 + draws.below(3)).map(|_| {
                if draws.per_mille(100) {
                    "nowhere"
                } else {
                    draws.pick(children)
                }
            });
            json!({ "kind": "next-worker", "nextWorkerIds": workers.collect::<Vec<_>>() })
        })
        .collect();
    let mut config = match draws.below(3) {
        0 => json!({}),
        1 => json!({ "onChildFailure": "fail-parent" }),
        _ => {
            let mode = draws.pick(&["wait-all", "wait-all", "first", "race", "quorum"]);
            json!({
                "fanOutPolicy": "parallel",
                "maxConcurrency": 1 + draws.below(3),
                "joinPolicy": {
                    "mode": mode, "quorum": 1 + draws.below(2),
                    "onChildFailure": draws.pick(&["collect", "fail-fast", "absorb"]),
                },
            })
        }
    };
    if draws.per_mille(150) {
        config["propagateCancellation"] = json!(false);
    }
    let mut go = node("go", "core.dispatch", config);
    go["settings"] = json!({ "retry": { "maxRetries": draws.below(2), "backoffMs": 40 } });
    if draws.per_mille(150) {
        go["settings"]["timeoutMs"] = json!(500 + draws.below(3_000));
    }
    let boss = node(
        "boss",
        "core.orchestrator.supervisor",
        json!({ "decisions": decisions }),
    );
    let nodes = vec![boss, go, work(draws, "after")];
    let edges = vec![
        edge("boss", "go"),
        edge("go", "boss"),
        edge_by("boss", "terminate", "after"),
    ];
    document(id, nodes, edges)
}

fn work(draws: &mut Draws, id: &str) -> Value {
    let mut config = Map::new();
    config.insert("ms".into(), json!(draws.pick(&[0, 5, 40, 300, 1_200])));
    config.insert("fails".into(), json!(draws.pick(&[0, 0, 0, 0, 1, 2])));
    config.insert("chunks".into(), json!(draws.pick(&[0, 0, 1, 3])));
    config.insert("stopMs".into(), json!(draws.pick(&[0, 10, 150])));
    if draws.per_mille(100) {
        config.insert("once".into(), json!(true));
    }
    let mut node = node(id, WORK, Value::Object(config));
    let retry = json!({
        "maxRetries": draws.below(3), "backoffMs": draws.pick(&[10, 80, 400]), "factor": 1,
    });
    let mut settings = json!({ "retry": retry });
    if draws.per_mille(150) {
        settings["timeoutMs"] = json!(100 + draws.below(600));
    }
    if draws.per_mille(150) {
        settings["onFailure"] = json!("skip");
    }
    node["settings"] = settings;
    node
}

fn any_node(draws: &mut Draws, id: &str, children: &[&str]) -> Value {
    match draws.below(12) {
        0 => node(
            id,
            "core.delay",
            json!({ "ms": draws.pick(&[20, 500, 3_000]) }),
        ),
        1 => node(
            id,
            "core.setVariable",
            json!({ "name": "v", "value": draws.below(9) }),
        ),
        2 => node(
            id,
            "core.interrupt",
            if draws.per_mille(300) {
                json!({ "key": SIGNAL, "timeoutMs": 2_000 })
            } else {
                json!({ "key": SIGNAL })
            },
        ),
        3 => node(
            id,
            "core.conditional",
            json!({ "expression": if draws.per_mille(500) { "true" } else { "false" } }),
        ),
        4 | 5 if !children.is_empty() => {
            let mut config = json!({ "workflowId": draws.pick(children) });
            if draws.per_mille(500) {
                config["onChildFailure"] = json!("continue");
            }
            if draws.per_mille(150) {
                config["waitForCompletion"] = json!(false);
            }
            node(id, "core.subWorkflow", config)
        }
        _ => work(draws, id),
    }
}

fn graph(draws: &mut Draws, id: &str, children: &[&str]) -> Value {
    let names: Vec<String> = (0..2 + draws.below(5)).map(|n| format!("n{n}")).collect();
    let nodes: Vec<Value> = names
        .iter()
        .map(|name| any_node(draws, name, children))
        .collect();
    let mut edges = Vec::new();
    for (to, name) in names.iter().enumerate().skip(1) {
        let rule = draws.pick(&[
            "all_success",
            "all_success",
            "all_complete",
            "none_failed",
            "any_success",
        ]);
        let mut from = draws.below(to as u64) as usize;
        for _ in 0..=draws.below(2) {
            let source = &nodes[from];
            let mut edge = if source["typeId"] == "core.conditional" {
                let port = if draws.per_mille(500) {
                    "true"
                } else {
                    "false"
                };
                edge_by(&names[from], port, name)
            } else {
                edge(&names[from], name)
            };
            edge["triggerRule"] = json!(rule);
            edges.push(edge);
            from += 1;
            if from >= to {
                break;
            }
        }
    }
    document(id, nodes, edges)
}

fn looping(draws: &mut Draws, id: &str) -> Value {
    let head = node("head", "core.loop", json!({ "times": 1 + draws.below(3) }));
    let nodes = vec![head, work(draws, "body"), work(draws, "after")];
    let edges = vec![
        edge_by("head", "body", "body"),
        edge("body", "head"),
        edge_by("head", "done", "after"),
    ];
    document(id, nodes, edges)
}
