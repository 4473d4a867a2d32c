//! Converts a graph to batches: sequential ones, each of concurrent nodes.
//!
//! Nodes are in topological order; among ready nodes the first in the template comes first. Nodes
//! that share a parallel group and are ready together form one batch. Two nodes without a common
//! group never do, even if neither waits for the other.

use std::collections::{BTreeMap, BTreeSet};

/// A step of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Nodes by their position in the template, in its order.
    pub nodes: Vec<usize>,
}

impl Batch {
    /// Whether several nodes run at the same time.
    pub fn is_parallel(&self) -> bool {
        self.nodes.len() > 1
    }
}

/// The steps of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionPlan {
    /// In the order they run.
    pub batches: Vec<Batch>,
    /// Groups that had to be split, because some of their nodes wait for others.
    pub split_groups: Vec<String>,
}

impl ExecutionPlan {
    /// The number of the batch of each node, from 0.
    pub fn batch_of(&self, nodes: usize) -> Vec<usize> {
        let mut batch_of = vec![0; nodes];
        for (number, batch) in self.batches.iter().enumerate() {
            for &node in &batch.nodes {
                batch_of[node] = number;
            }
        }
        batch_of
    }

    /// Nodes in the order they run.
    pub fn order(&self) -> impl Iterator<Item = usize> {
        self.batches.iter().flat_map(|batch| &batch.nodes).copied()
    }
}

/// Nodes that wait for one another, in the order of their edges; the last one leads to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle(pub(super) Vec<usize>);

/// Plans a graph: of each node its parallel group, and edges by position.
///
/// # Errors
/// A cycle.
pub(super) fn plan(
    groups: &[Option<&str>],
    edges: &[(usize, usize)],
) -> Result<ExecutionPlan, Cycle> {
    let count = groups.len();
    let mut waits_for = vec![0_usize; count];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &(from, to) in edges.iter().collect::<BTreeSet<_>>() {
        waits_for[to] += 1;
        followers[from].push(to);
    }
    // For each group: members that are not planned yet, and members that are ready.
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups.iter().flatten() {
        *left.entry(group).or_default() += 1;
    }
    let mut ready = BTreeSet::new();
    let mut ready_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for node in (0..count).filter(|node| waits_for[*node] == 0) {
        ready.insert(node);
        if let Some(group) = groups[node] {
            ready_of.entry(group).or_default().insert(node);
        }
    }
    let mut plan = ExecutionPlan::default();
    let mut planned = 0;
    while let Some(&first) = ready.first() {
        let is_whole =
            |group: &str| ready_of.get(group).map(BTreeSet::len) == left.get(group).copied();
        let choice = ready
            .iter()
            .copied()
            .find(|node| groups[*node].is_none_or(is_whole));
        let node = choice.unwrap_or(first);
        let batch: Vec<usize> = match groups[node] {
            None => vec![node],
            Some(group) => {
                let members = ready_of.remove(group).unwrap_or_default();
                if choice.is_none() {
                    plan.split_groups.push(group.to_owned());
                }
                if let Some(left) = left.get_mut(group) {
                    *left -= members.len();
                }
                members.into_iter().collect()
            }
        };
        for node in &batch {
            ready.remove(node);
        }
        planned += batch.len();
        for &node in &batch {
            for &next in &followers[node] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.insert(next);
                    if let Some(group) = groups[next] {
                        ready_of.entry(group).or_default().insert(next);
                    }
                }
            }
        }
        plan.batches.push(Batch { nodes: batch });
    }
    if planned == count {
        Ok(plan)
    } else {
        Err(cycle(&waits_for, &followers))
    }
}

/// A cycle among the waiting nodes.
fn cycle(waits_for: &[usize], followers: &[Vec<usize>]) -> Cycle {
    let is_left = |node: usize| waits_for[node] > 0;
    // Every remaining node waits for a remaining one: walking backwards must reach a cycle.
    let mut before = vec![None; waits_for.len()];
    for node in (0..waits_for.len()).filter(|node| is_left(*node)) {
        for &next in followers[node].iter().filter(|next| is_left(**next)) {
            before[next].get_or_insert(node);
        }
    }
    let mut seen = vec![None; waits_for.len()];
    let mut path = Vec::new();
    let mut node = (0..waits_for.len()).find(|node| is_left(*node));
    while let Some(at) = node {
        if let Some(from) = seen[at] {
            let mut cycle: Vec<usize> = path.split_off(from);
            cycle.reverse();
            let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
            cycle.rotate_left(first);
            return Cycle(cycle);
        }
        seen[at] = Some(path.len());
        path.push(at);
        node = before[at];
    }
    Cycle(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups by letter, `.` for none.
    #[track_caller]
    fn check(groups: &str, edges: &[(usize, usize)], expected: &[&[usize]], splits: &[&str]) {
        let names: Vec<String> = groups.chars().map(|c| c.to_string()).collect();
        let groups: Vec<Option<&str>> = names
            .iter()
            .map(|name| (name != ".").then_some(name.as_str()))
            .collect();
        let plan = plan(&groups, edges).unwrap();
        let batches: Vec<&[usize]> = plan.batches.iter().map(|batch| &*batch.nodes).collect();
        assert_eq!(batches, expected);
        assert_eq!(plan.split_groups, splits);
    }

    #[test]
    fn nodes_go_in_the_order_of_their_edges_and_of_the_template() {
        check("...", &[(0, 1), (1, 2)], &[&[0], &[1], &[2]], &[]);
        check("...", &[(2, 0), (2, 1)], &[&[2], &[0], &[1]], &[]);
        check("...", &[], &[&[0], &[1], &[2]], &[]);
        check("..", &[(0, 1), (0, 1)], &[&[0], &[1]], &[]);
    }

    #[test]
    fn a_group_that_is_ready_is_one_batch() {
        check(
            ".aa.",
            &[(0, 1), (0, 2), (1, 3), (2, 3)],
            &[&[0], &[1, 2], &[3]],
            &[],
        );
        check("a.", &[(0, 1)], &[&[0], &[1]], &[]);
        check("abab", &[], &[&[0, 2], &[1, 3]], &[]);
    }

    #[test]
    fn a_group_waits_for_its_last_member_while_others_can_go() {
        check("aa.", &[(2, 1)], &[&[2], &[0, 1]], &[]);
    }

    #[test]
    fn a_group_whose_members_wait_for_one_another_is_split() {
        check("aa", &[(0, 1)], &[&[0], &[1]], &["a"]);
    }

    #[test]
    fn a_cycle_is_named_from_its_first_node_on() {
        let cycle =
            |edges: &[(usize, usize)], count| plan(&vec![None; count], edges).unwrap_err().0;
        assert_eq!(cycle(&[(0, 1), (1, 2), (2, 1)], 3), [1, 2]);
        assert_eq!(cycle(&[(0, 1), (1, 2), (2, 0)], 3), [0, 1, 2]);
        assert_eq!(cycle(&[(0, 1), (1, 0), (1, 2), (2, 3)], 4), [0, 1]);
        assert_eq!(cycle(&[(0, 0)], 1), [0]);
    }
}
