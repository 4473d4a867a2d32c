//! Loops: nodes that run again, round after round, as long as the first of them fails.
//!
//! An edge with `max_rounds` leads back to the first node. The loop is every node between the two
//! ends of that edge. Each round after the first is a copy of these nodes under ids of its own, so
//! that a session is a plain sequence of nodes and continues after a crash like any other. The last
//! round has only the first node: a repair that is not checked again would be useless.

use std::collections::BTreeSet;

use kernel::limits::{MAX_NAME_BYTES, MAX_NODE_ID_CHARS, MAX_NODES};
use kernel::problem::{ProblemCode, Problems, quoted};

use super::super::plan::{self, Batch};
use super::{Field, Kind, Node, OnFail, Part, Template};

/// Maximum rounds of a loop.
pub(super) const MOST_ROUNDS: u64 = 20;

/// The place of a node in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The position of the node, or of the original of a copy.
    pub of: usize,
    /// The first node of the loop, by position.
    pub first: usize,
    /// The round, from 1.
    pub number: u32,
    /// The rounds there may be.
    pub rounds: u32,
    /// The position of the node that must fail before this one runs.
    pub after: Option<usize>,
}

impl Round {
    /// Whether the node decides about another round.
    pub fn is_first(&self) -> bool {
        self.of == self.first
    }

    /// Whether the loop continues after a failure of the node.
    pub fn may_fail(&self) -> bool {
        self.is_first() && self.number < self.rounds
    }
}

/// An edge that leads back.
pub(super) struct Back {
    /// The last node of the loop.
    pub(super) last: usize,
    /// Its first node.
    pub(super) first: usize,
    /// The rounds there may be.
    pub(super) rounds: u32,
    /// The place of the edge in the template.
    pub(super) path: String,
}

/// The nodes of a loop, in the order they run.
struct Loop<'a> {
    back: &'a Back,
    nodes: Vec<usize>,
}

/// Plans the nodes with their loops, and adds the copies of further rounds to the template. `edges`
/// are the acyclic forward edges.
pub(super) fn unroll(
    template: &mut Template,
    edges: &[(usize, usize)],
    backs: &[Back],
    problems: &mut Problems,
) {
    let before = problems.listed.len();
    let mut loops: Vec<Loop<'_>> = Vec::new();
    for back in backs {
        match between(template.nodes.len(), edges, back) {
            nodes if nodes.is_empty() => {
                let name = |at: usize| quoted(&template.nodes[at].id);
                let what = format!(
                    "an edge with `max_rounds` leads back, and no edges lead from {} to {}; remove \
                     `max_rounds`, or add the edges of the round",
                    name(back.first),
                    name(back.last)
                );
                problems.add(&back.path, ProblemCode::InvalidLoop, what);
            }
            nodes => {
                check(template, back, &nodes, &loops, problems);
                loops.push(Loop { back, nodes });
            }
        }
    }
    check_errors(template, &loops, problems);
    if loops.is_empty() || problems.listed.len() > before {
        return;
    }
    let mut stands_for: Vec<usize> = (0..template.nodes.len()).collect();
    for of in &loops {
        for &node in &of.nodes {
            stands_for[node] = of.back.first;
        }
    }
    let outer = edges
        .iter()
        .map(|(from, to)| (stands_for[*from], stands_for[*to]));
    let outer: Vec<(usize, usize)> = outer.filter(|(from, to)| from != to).collect();
    let groups: Vec<Option<&str>> = (template.nodes.iter())
        .map(|node| node.parallel_group.as_deref())
        .collect();
    let Ok(mut planned) = plan::plan(&groups, &outer) else {
        let what = "edges lead from one loop to another and back, so neither can run first; remove \
                    one of these edges";
        for of in &loops {
            problems.add(&of.back.path, ProblemCode::InvalidLoop, what);
        }
        return;
    };
    let mut batches = Vec::new();
    for batch in std::mem::take(&mut planned.batches) {
        match batch.nodes.as_slice() {
            [node] if stands_for[*node] != *node => {}
            [node] => match loops.iter().find(|of| of.back.first == *node) {
                Some(of) => batches.extend(rounds(template, of)),
                None => batches.push(batch),
            },
            _ => batches.push(batch),
        }
    }
    planned.batches = batches;
    template.plan = planned;
    check_ids(template, &loops, problems);
}

/// The nodes between the ends of a loop, in their order; empty where no edges lead there.
fn between(count: usize, edges: &[(usize, usize)], back: &Back) -> Vec<usize> {
    let behind = reached(count, back.first, edges.iter().copied());
    let against = edges.iter().map(|(from, to)| (*to, *from));
    let ahead = reached(count, back.last, against);
    let nodes: BTreeSet<usize> = behind.intersection(&ahead).copied().collect();
    let inner = edges.iter().copied();
    let inner: Vec<(usize, usize)> = inner
        .filter(|(from, to)| nodes.contains(from) && nodes.contains(to))
        .collect();
    match plan::plan(&vec![None; count], &inner) {
        Ok(planned) => planned
            .order()
            .filter(|node| nodes.contains(node))
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// The nodes reachable from a node, itself included.
fn reached(
    count: usize,
    from: usize,
    edges: impl Iterator<Item = (usize, usize)>,
) -> BTreeSet<usize> {
    let mut next = vec![Vec::new(); count];
    for (from, to) in edges {
        next[from].push(to);
    }
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(node) = open.pop() {
        open.extend(next[node].iter().filter(|node| seen.insert(**node)));
    }
    seen
}

/// Rejects nodes that cannot be in a loop.
fn check(
    template: &Template,
    back: &Back,
    nodes: &[usize],
    others: &[Loop<'_>],
    problems: &mut Problems,
) {
    for &at in nodes {
        let node = &template.nodes[at];
        let id = quoted(&node.id);
        let first = quoted(&template.nodes[back.first].id);
        let mut refuse = |field: &str, what: String| {
            problems.add(
                format!("/nodes/{at}{field}"),
                ProblemCode::InvalidLoop,
                what,
            );
        };
        if others.iter().any(|other| other.nodes.contains(&at)) {
            let what = format!("{id} is in two loops; a node can be in only one");
            problems.add(&back.path, ProblemCode::InvalidLoop, what);
            return;
        }
        if node.parallel_group.is_some() {
            let what =
                format!("{id} is in a loop, whose nodes run in sequence; remove `parallel_group`");
            refuse("/parallel_group", what);
        }
        let Kind::Work(work) = &node.kind else {
            let what = format!(
                "the checkpoint {id} is in the loop of {first}; lead the loop's edges past it"
            );
            refuse("", what);
            continue;
        };
        if at != back.first {
            continue;
        }
        let rounds = "its rounds are its attempts: raise `max_rounds` of the edge instead";
        if work.retry.is_some() {
            refuse(
                "/retry",
                format!("{id} is the first node of a loop, and {rounds}"),
            );
        }
        if work.on_fail == OnFail::Retry {
            let what = format!(
                "{id} is the first node of a loop, and {rounds}; `on_fail` may be abort or skip, \
                 and counts in the last round"
            );
            refuse("/on_fail", what);
        }
    }
}

/// Only the first node of a loop may fail and let others run.
fn check_errors(template: &Template, loops: &[Loop<'_>], problems: &mut Problems) {
    for (index, node) in template.nodes.iter().enumerate() {
        let Kind::Work(work) = &node.kind else {
            continue;
        };
        for part in &work.args {
            let Part::Node(of, Field::Error) = part else {
                continue;
            };
            let is_skipped = matches!(
                &template.nodes[*of].kind,
                Kind::Work(named) if named.on_fail == OnFail::Skip
            );
            if loops.iter().any(|known| known.back.first == *of) {
                continue;
            }
            let id = &template.nodes[*of].id;
            let what = if is_skipped {
                format!(
                    "{{{id}.error}} has no value: {id} has `on_fail: skip`, and the error of a \
                     skipped node is only in the session's state; use {{{id}.status}}"
                )
            } else {
                format!(
                    "{{{id}.error}} has no value: after a node fails, no node that refers to it \
                     runs. Only the first node of a loop has an error (an edge with `max_rounds` \
                     leads back to it)"
                )
            };
            let at = format!("/nodes/{index}/args_template");
            problems.add(at, ProblemCode::UnknownReference, what);
        }
    }
}

/// Plans the batches of a loop; adds the copies of its nodes.
fn rounds(template: &mut Template, of: &Loop<'_>) -> Vec<Batch> {
    let (first, rounds) = (of.back.first, of.back.rounds);
    let mut batches = Vec::new();
    let mut before = None;
    for number in 1..=rounds {
        let mut failed = None;
        for &node in &of.nodes {
            if number == rounds && node != first {
                continue;
            }
            let round = Round {
                of: node,
                first,
                number,
                rounds,
                after: if node == first { before } else { failed },
            };
            let at = match number {
                1 => {
                    template.nodes[node].round = Some(round);
                    node
                }
                _ => {
                    let original = &template.nodes[node];
                    let copy = Node {
                        id: format!("{}.{number}", original.id),
                        round: Some(round),
                        ..original.clone()
                    };
                    template.nodes.push(copy);
                    template.nodes.len() - 1
                }
            };
            if node == first {
                failed = Some(at);
            }
            batches.push(Batch { nodes: vec![at] });
        }
        before = failed;
    }
    batches
}

/// Ids of copies must be unique and valid.
fn check_ids(template: &Template, loops: &[Loop<'_>], problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for node in &template.nodes {
        let is_new = seen.insert(&node.id);
        let Some(round) = &node.round else {
            continue;
        };
        let path = loops.iter().find(|of| of.back.first == round.first);
        let path = path.map_or("/edges", |of| &of.back.path);
        let is_long = node.id.chars().count() > MAX_NODE_ID_CHARS || node.id.len() > MAX_NAME_BYTES;
        let id = quoted(&node.id);
        if !is_new {
            let what = format!(
                "round {} of the loop needs the id {id}, which another node has; rename that node",
                round.number
            );
            problems.add(path, ProblemCode::DuplicateId, what);
        } else if is_long {
            let what = format!("the id {id} of a round is too long; shorten that of the node");
            problems.add(path, ProblemCode::TooLarge, what);
        }
    }
    if template.nodes.len() > MAX_NODES / 2 {
        let what = format!(
            "the rounds of all loops have {} nodes; at most {} are allowed",
            template.nodes.len(),
            MAX_NODES / 2
        );
        problems.add("/edges", ProblemCode::TooLarge, what);
    }
}

#[cfg(test)]
mod tests;
