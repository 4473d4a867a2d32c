//! Reads the edges of a template.

use std::collections::{BTreeMap, BTreeSet};

use kernel::limits::MAX_EDGES;
use kernel::problem::{Problem, ProblemCode, Problems, closest, pointer, quoted};

use serde_json::Value;

use super::super::plan::{self, Cycle, ExecutionPlan};
use super::rounds::{self, Back, MOST_ROUNDS};
use super::{Fields, Kind, Node, Part, Template, id_of};

/// Maximum reported cycles; the rest is reported once these are fixed.
const MOST_CYCLES: usize = 10;

/// An edge between two nodes of the list.
struct Edge {
    from: usize,
    to: usize,
    /// Its place among the edges.
    index: usize,
}

/// Reads the edges and plans the nodes. `listed` are the original nodes, including invalid ones, so
/// that all problems are reported at once.
pub(super) fn edges(
    fields: &Fields<'_>,
    listed: &[Value],
    template: &mut Template,
    problems: &mut Problems,
) {
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
    let (mut edges, backs) = read(fields, list, listed, problems);
    for node in alone(listed, &edges) {
        let id = id_of(&listed[node]).unwrap_or_default();
        let what = format!("no edge leads to or from {}", quoted(id));
        let at = format!("/nodes/{node}");
        let warning = Problem::new(at, ProblemCode::InvalidValue, what);
        template.warnings.push(warning);
    }
    let plan = plan(fields, listed, &mut edges, problems);
    if template.nodes.len() != listed.len() {
        return;
    }
    if let Some(plan) = plan {
        template.plan = plan;
        let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
        rounds::unroll(template, &ends, &backs, problems);
    }
    check_order(template, listed.len());
}

fn read(
    fields: &Fields<'_>,
    list: &[Value],
    listed: &[Value],
    problems: &mut Problems,
) -> (Vec<Edge>, Vec<Back>) {
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in listed.iter().enumerate() {
        if let Some(id) = id_of(node) {
            by_id.entry(id).or_insert(index);
        }
    }
    // An edge to a node without an id is not reported in addition to the missing id.
    let is_whole = !listed.is_empty() && listed.iter().all(|node| id_of(node).is_some());
    let (mut edges, mut backs) = (Vec::new(), Vec::new());
    for (index, value) in list.iter().enumerate() {
        let Some(edge) = Fields::open(pointer(&fields.at("edges"), index), value, problems) else {
            continue;
        };
        for misspelt in edge.misspelt(&["from", "to", "max_rounds"]) {
            problems.add(misspelt.path, misspelt.code, misspelt.message);
        }
        let mut end = |key: &str| {
            let id = edge.required_text(key, "the id of a node", problems)?;
            let node = by_id.get(id).copied();
            if node.is_none() && is_whole {
                let hint = match closest(id, by_id.keys().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "edges lead from one node of the template to another".to_owned(),
                };
                let what = format!("unknown node {}; {hint}", quoted(id));
                problems.add(edge.at(key), ProblemCode::UnknownReference, what);
            }
            node
        };
        let (from, to) = (end("from"), end("to"));
        let rounds = max_rounds(&edge, problems);
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        if from == to {
            let id = id_of(&listed[from]).unwrap_or_default();
            let what = format!(
                "the node {} leads to itself; remove this edge. to repeat a failed node use its \
                 `retry`",
                quoted(id)
            );
            problems.add(edge.path.clone(), ProblemCode::Cycle, what);
            continue;
        }
        match rounds {
            Rounds::One => edges.push(Edge { from, to, index }),
            Rounds::Most(rounds) => backs.push(Back {
                last: from,
                first: to,
                rounds,
                path: edge.path.clone(),
            }),
            Rounds::Wrong => {}
        }
    }
    (edges, backs)
}

/// The rounds that an edge declares.
enum Rounds {
    /// None: it leads forward.
    One,
    /// It leads back, with this maximum number of rounds.
    Most(u32),
    /// A value that is not a number of rounds.
    Wrong,
}

fn max_rounds(edge: &Fields<'_>, problems: &mut Problems) -> Rounds {
    let Some(value) = edge.get("max_rounds") else {
        return Rounds::One;
    };
    match value.as_u64().filter(|n| (2..=MOST_ROUNDS).contains(n)) {
        Some(n) => Rounds::Most(n as u32),
        None => {
            let what = format!(
                "must be a whole number from 2 to {MOST_ROUNDS}: the most runs of the node that \
                 the edge leads back to"
            );
            problems.add(edge.at("max_rounds"), ProblemCode::InvalidValue, what);
            Rounds::Wrong
        }
    }
}

/// Nodes without any edge, where other nodes have edges.
fn alone(listed: &[Value], edges: &[Edge]) -> Vec<usize> {
    let touched: BTreeSet<usize> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
    let is_alone = |node: &usize| listed.len() > 1 && !touched.contains(node);
    (0..listed.len()).filter(is_alone).collect()
}

/// Plans the nodes; reports every cycle, by removing one edge after the other.
fn plan(
    fields: &Fields<'_>,
    listed: &[Value],
    edges: &mut Vec<Edge>,
    problems: &mut Problems,
) -> Option<ExecutionPlan> {
    let group = |node: &'_ Value| {
        node.get("parallel_group")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let groups: Vec<Option<String>> = listed.iter().map(group).collect();
    let groups: Vec<Option<&str>> = groups.iter().map(Option::as_deref).collect();
    for _ in 0..MOST_CYCLES {
        let ends: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
        let Cycle(nodes) = match plan::plan(&groups, &ends) {
            Ok(plan) => return Some(plan),
            Err(cycle) => cycle,
        };
        let (first, last) = (*nodes.first()?, *nodes.last()?);
        let closes = |edge: &Edge| (edge.from, edge.to) == (last, first);
        let closing = edges.iter().find(|edge| closes(edge))?.index;
        edges.retain(|edge| !closes(edge));
        let name = |node: &usize| id_of(&listed[*node]).unwrap_or_default();
        let ids: Vec<&str> = nodes.iter().chain([&first]).map(name).collect();
        let what = format!(
            "the nodes wait for one another in a cycle: {}; remove one of these edges, or, to run \
             them again while the first fails, set `max_rounds` on the edge that leads back",
            ids.join(" -> ")
        );
        let path = pointer(&fields.at("edges"), closing);
        problems.add(path, ProblemCode::Cycle, what);
    }
    None
}

/// Warns about references to nodes that are not over when the reference is read.
fn check_order(template: &mut Template, written: usize) {
    let batch_of = template.plan.batch_of(template.nodes.len());
    let first = |at: usize| template.nodes[at].round.map(|round| round.first);
    for (index, node) in template.nodes.iter().enumerate().take(written) {
        let Kind::Work(work) = &node.kind else {
            continue;
        };
        for part in &work.args {
            if let Part::Node(of, _) = part
                && batch_of[*of] >= batch_of[index]
                // A later round has it, but this one does not.
                && (first(*of).is_none() || first(*of) != first(index))
            {
                let what = format!(
                    "{} does not run before this node, so the reference is empty; add an edge",
                    quoted(&template.nodes[*of].id)
                );
                let at = format!("/nodes/{index}/args_template");
                let warning = Problem::new(at, ProblemCode::UnknownReference, what);
                template.warnings.push(warning);
            }
        }
    }
    for group in &template.plan.split_groups {
        let what = format!(
            "the nodes of the parallel group {} wait for one another, so they do not all run at \
             the same time",
            quoted(group)
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
        let what = "the list differs from the checkpoints among the nodes; the nodes count";
        template.warnings.push(Problem::new(
            "/checkpoints",
            ProblemCode::InvalidValue,
            what,
        ));
    }
}
