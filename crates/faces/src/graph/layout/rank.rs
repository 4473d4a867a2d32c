//! Assigns ranks to nodes.

use std::collections::VecDeque;

use super::Graph;

/// Assigns a rank to each node: after all nodes with a link to it, ignoring back links. Successors
/// outside a loop follow the whole group of its head, so that the loop forms one block.
pub(super) fn ranks(graph: &Graph) -> Vec<usize> {
    let forward: Vec<_> = graph
        .links
        .iter()
        .filter(|link| !link.back && link.source != link.target)
        .map(|link| (link.source, link.target))
        .collect();
    let mut with_groups = forward.clone();
    with_groups.extend(after_groups(graph));
    let mut ranks = longest_ways(graph.nodes, &with_groups)
        .or_else(|| longest_ways(graph.nodes, &forward))
        // Not a checked plan; still no reason to fail.
        .unwrap_or_else(|| vec![0; graph.nodes]);
    pull_beginnings(&mut ranks, &forward);
    ranks
}

/// Pairs of every last node of a group and every successor of its head outside.
fn after_groups(graph: &Graph) -> Vec<(usize, usize)> {
    let mut is_last = vec![true; graph.nodes];
    for link in graph.links.iter().filter(|link| !link.back) {
        is_last[link.source] = false;
    }
    let mut last_of = vec![Vec::new(); graph.groups.len()];
    for (node, group) in graph.group_of.iter().enumerate() {
        let mut group = *group;
        while let (true, Some(at)) = (is_last[node], group) {
            last_of[at].push(node);
            group = graph.groups[at].parent;
        }
    }
    let mut pairs = Vec::new();
    for (group, last) in graph.groups.iter().zip(&last_of) {
        for &exit in &group.exits {
            let exit = graph.links[exit].target;
            pairs.extend(last.iter().map(|&node| (node, exit)));
        }
    }
    pairs
}

/// The longest path to each node; `None` when the pairs form a cycle.
fn longest_ways(nodes: usize, pairs: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut next = vec![Vec::new(); nodes];
    let mut waiting = vec![0_usize; nodes];
    for &(from, to) in pairs {
        next[from].push(to);
        waiting[to] += 1;
    }
    let mut ready: VecDeque<_> = (0..nodes).filter(|&node| waiting[node] == 0).collect();
    let mut ranks = vec![0; nodes];
    let mut done = 0;
    while let Some(node) = ready.pop_front() {
        done += 1;
        for &to in &next[node] {
            ranks[to] = ranks[to].max(ranks[node] + 1);
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    (done == nodes).then_some(ranks)
}

/// Moves a start node directly before its first successor, instead of to the top.
fn pull_beginnings(ranks: &mut [usize], forward: &[(usize, usize)]) {
    let mut has_previous = vec![false; ranks.len()];
    let mut first_next = vec![usize::MAX; ranks.len()];
    for &(from, to) in forward {
        has_previous[to] = true;
        first_next[from] = first_next[from].min(ranks[to]);
    }
    for node in 0..ranks.len() {
        if !has_previous[node] && first_next[node] != usize::MAX {
            ranks[node] = first_next[node].saturating_sub(1).max(ranks[node]);
        }
    }
}
