//! How the nodes of a template hang together.

use std::collections::{BTreeMap, BTreeSet};

use kernel::limits::MAX_EDGES;
use kernel::problem::{Problem, ProblemCode, Problems, closest, pointer, quoted};

use super::{Fields, Kind, Node, Part, Template, plan};

pub(super) fn edges(fields: &Fields<'_>, template: &mut Template, problems: &mut Problems) {
    let Some(list) = fields.array("edges", problems) else {
        if fields.get("edges").is_none() {
            fields.missing("edges", "an array, which may be empty", problems);
        }
        return;
    };
    if list.len() > MAX_EDGES {
        let what = format!("has {} edges; at most {MAX_EDGES} are allowed", list.len());
        return problems.add(fields.at("edges"), ProblemCode::TooLarge, what);
    }
    let by_id: BTreeMap<&str, usize> = (template.nodes.iter().enumerate())
        .map(|(index, node)| (node.id.as_str(), index))
        .collect();
    // Where a node could not be read, what leads to it is not a mistake of its own.
    let is_whole = problems.is_empty();
    let mut touched = BTreeSet::new();
    let mut found = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let Some(edge) = Fields::open(pointer(&fields.at("edges"), index), value, problems) else {
            continue;
        };
        let mut end = |key: &str| {
            let id = edge.required_text(key, "the id of a node", problems)?;
            let node = by_id.get(id).copied();
            if node.is_none() && is_whole {
                let hint = match closest(id, by_id.keys().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "edges lead from one node of the template to another".to_owned(),
                };
                let what = format!("there is no node {}; {hint}", quoted(id));
                problems.add(edge.at(key), ProblemCode::UnknownReference, what);
            }
            node
        };
        let (from, to) = (end("from"), end("to"));
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        if from == to {
            let what = format!(
                "the node {} leads to itself; remove this edge",
                quoted(&template.nodes[from].id)
            );
            problems.add(edge.path.clone(), ProblemCode::Cycle, what);
            continue;
        }
        touched.extend([from, to]);
        found.push((from, to));
    }
    template.edges = found;
    for (index, node) in template.nodes.iter().enumerate() {
        if template.nodes.len() > 1 && !touched.contains(&index) && is_whole {
            let what = format!("no edge leads to or from {}", quoted(&node.id));
            let at = format!("/nodes/{index}");
            template
                .warnings
                .push(Problem::new(at, ProblemCode::InvalidValue, what));
        }
    }
    check_order(template);
}

/// Warns of references to nodes that are not over when the reference is read.
fn check_order(template: &mut Template) {
    let Ok(plan) = plan::plan(template) else {
        return;
    };
    let batch_of = plan.batch_of(template.nodes.len());
    for (index, node) in template.nodes.iter().enumerate() {
        let Kind::Work(work) = &node.kind else {
            continue;
        };
        for part in &work.args {
            if let Part::Node(of, _) = part
                && batch_of[*of] >= batch_of[index]
            {
                let what = format!(
                    "{} has not run before this node does, so that the reference is empty; add an edge",
                    quoted(&template.nodes[*of].id)
                );
                let at = format!("/nodes/{index}/args_template");
                let warning = Problem::new(at, ProblemCode::UnknownReference, what);
                template.warnings.push(warning);
            }
        }
    }
    for group in plan.split_groups {
        let what = format!(
            "the nodes of the parallel group {} wait for one another, so that not all of them run \
             at the same time",
            quoted(&group)
        );
        template
            .warnings
            .push(Problem::new("/nodes", ProblemCode::InvalidValue, what));
    }
}

pub(super) fn checkpoints(fields: &Fields<'_>, template: &mut Template, problems: &mut Problems) {
    if fields.get("checkpoints").is_none() {
        return;
    }
    let listed: BTreeSet<String> = fields.texts("checkpoints", problems).into_iter().collect();
    let is_checkpoint = |node: &&Node| matches!(node.kind, Kind::Checkpoint { .. });
    let there: BTreeSet<String> = (template.nodes.iter().filter(is_checkpoint))
        .map(|node| node.id.clone())
        .collect();
    if listed != there {
        let what = "the list differs from the checkpoints among the nodes, which count";
        template.warnings.push(Problem::new(
            "/checkpoints",
            ProblemCode::InvalidValue,
            what,
        ));
    }
}
