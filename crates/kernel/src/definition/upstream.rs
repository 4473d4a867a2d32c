//! Connections that can never carry a value.

use super::plan::{NodeIx, Plan, PortValue};
use crate::problem::{Path, ProblemCode, Problems, quoted};

/// Maximum nodes visited for all connections. Beyond it further warnings are omitted: they are
/// advice.
const MAX_STEPS: usize = 1_000_000;

/// Warns of a connection to a node that no path leads from: it will not have run before.
pub(super) fn check(plan: &Plan, warnings: &mut Problems) {
    let list = Path::Key(&Path::Root, "nodes");
    let mut steps = 0;
    for ix in plan.node_ixs() {
        let node = plan.node(ix);
        let mut above: Option<Vec<bool>> = None;
        for (port, value) in &node.inputs {
            let PortValue::Connection { node: source, .. } = value else {
                continue;
            };
            if node
                .incoming
                .iter()
                .any(|&edge| plan.edge(edge).source == *source)
            {
                continue;
            }
            let above = above.get_or_insert_with(|| ancestors(plan, ix, &mut steps));
            if steps > MAX_STEPS {
                return;
            }
            if !above[source.index()] {
                let at = Path::Index(&list, ix.index());
                let inputs = Path::Key(&at, "inputs");
                warnings.add(
                    Path::Key(&inputs, port).pointer(),
                    ProblemCode::UnknownReference,
                    format!(
                        "no path of edges leads here from {}, so its output may be missing; add an \
                         edge",
                        quoted(plan.node(*source).id.as_str())
                    ),
                );
            }
        }
    }
}

fn ancestors(plan: &Plan, ix: NodeIx, steps: &mut usize) -> Vec<bool> {
    let mut seen = vec![false; plan.nodes.len()];
    *steps += plan.nodes.len() / 64;
    let mut open = vec![ix];
    while let Some(node) = open.pop() {
        for &edge in &plan.node(node).incoming {
            *steps += 1;
            let source = plan.edge(edge).source;
            if !seen[source.index()] {
                seen[source.index()] = true;
                open.push(source);
            }
        }
        if *steps > MAX_STEPS {
            break;
        }
    }
    seen
}
