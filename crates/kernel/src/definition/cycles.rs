//! Detects cycles that are not loops.

use super::plan::{NodeIx, Plan};
use crate::problem::{ProblemCode, Problems, quoted};

/// Names shown of one cycle.
const SHOWN: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the current path, at this position.
    Open(usize),
    Done,
}

/// Reports every edge that closes a cycle, back edges aside, with the nodes of the cycle in order.
/// Returns whether there is one.
pub(super) fn check(plan: &Plan, places: &[usize], problems: &mut Problems) -> bool {
    let mut found = false;
    let mut marks = vec![Mark::New; plan.nodes.len()];
    for start in plan.node_ixs() {
        if marks[start.index()] != Mark::New {
            continue;
        }
        // Walked without recursion: a chain may be as long as a definition is large.
        let mut path: Vec<(NodeIx, usize)> = vec![(start, 0)];
        marks[start.index()] = Mark::Open(0);
        while let Some((node, next)) = path.last_mut() {
            let Some(&edge) = plan.node(*node).outgoing.get(*next) else {
                marks[node.index()] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let target = plan.edge(edge).target;
            if plan.edge(edge).back {
                continue;
            }
            match marks[target.index()] {
                Mark::Done => {}
                Mark::New => {
                    marks[target.index()] = Mark::Open(path.len());
                    path.push((target, 0));
                }
                Mark::Open(from) => {
                    found = true;
                    let message = describe(plan, path[from..].iter().map(|(node, _)| *node));
                    let place = format!("/edges/{}", places[edge.index()]);
                    problems.add(place, ProblemCode::Cycle, message);
                }
            }
        }
    }
    found
}

fn describe(plan: &Plan, circle: impl ExactSizeIterator<Item = NodeIx> + Clone) -> String {
    let length = circle.len();
    let name = |ix: NodeIx| quoted(plan.node(ix).id.as_str());
    let mut names: Vec<String> = circle.clone().take(SHOWN).map(name).collect();
    if length > SHOWN {
        names.push(format!("({} more)", length - SHOWN));
    }
    names.extend(circle.clone().next().map(name));
    format!(
        "the edges form a cycle: {}; remove one of them, or put a `core.loop` at its head, with \
         its port `body` into the cycle and its port `done` out of it",
        names.join(" → ")
    )
}
