//! The items in the ranks: nodes, and the bends of lines that pass a rank.

use super::Graph;

/// Maximum bends. Beyond it, the longest links are drawn straight.
pub(super) const MAX_BENDS: usize = 30_000;

/// Nodes (first, by their own numbers) and bends.
pub(super) struct Items {
    pub(super) nodes: usize,
    /// The rank of each item.
    pub(super) rank: Vec<usize>,
    /// The innermost group each item is drawn in.
    pub(super) group: Vec<Option<usize>>,
    /// The groups each group is in, from the outermost to itself.
    paths: Vec<Vec<usize>>,
    /// The neighbours of each item in the rank before, and in the rank after.
    pub(super) before: Vec<Vec<usize>>,
    pub(super) after: Vec<Vec<usize>>,
    /// The items of each rank, in order.
    pub(super) layers: Vec<Vec<usize>>,
    /// The route of each link.
    pub(super) ways: Vec<Way>,
}

/// The route of a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Forward, through these bends.
    Forward(Vec<usize>),
    /// Out after the source and around, through these bends, to the position before the target.
    Back(Vec<usize>),
    /// Past ranks without bends.
    Straight,
}

impl Items {
    pub(super) fn new(graph: &Graph, ranks: &[usize]) -> Self {
        let mut paths: Vec<Vec<usize>> = Vec::with_capacity(graph.groups.len());
        for (at, group) in graph.groups.iter().enumerate() {
            let outer = group.parent.map(|parent| paths[parent].clone());
            let mut path = outer.unwrap_or_default();
            path.push(at);
            paths.push(path);
        }
        let mut items = Self {
            paths,
            nodes: graph.nodes,
            rank: ranks.to_vec(),
            group: graph.group_of.clone(),
            before: vec![Vec::new(); graph.nodes],
            after: vec![Vec::new(); graph.nodes],
            layers: vec![Vec::new(); ranks.iter().max().map_or(0, |max| max + 1)],
            ways: graph.links.iter().map(|_| Way::Straight).collect(),
        };
        let span = |link: &super::Link| ranks[link.source].abs_diff(ranks[link.target]);
        let mut shortest_first: Vec<_> = (0..graph.links.len()).collect();
        shortest_first.sort_by_key(|&link| span(&graph.links[link]));
        let mut left = MAX_BENDS;
        for at in shortest_first {
            let link = graph.links[at];
            let (from, to) = (ranks[link.source], ranks[link.target]);
            let group = common(
                graph,
                graph.group_of[link.source],
                graph.group_of[link.target],
            );
            let needed = if from < to {
                to - from - 1
            } else {
                from - to + 1
            };
            if needed > left {
                continue;
            }
            left -= needed;
            items.ways[at] = if from < to {
                let bends = items.chain(from + 1..to, group);
                items.join(link.source, bends.first().copied().unwrap_or(link.target));
                if let Some(&last) = bends.last() {
                    items.join(last, link.target);
                }
                Way::Forward(bends)
            } else {
                let mut bends = items.chain(to..from + 1, group);
                bends.reverse();
                Way::Back(bends)
            };
        }
        items.begin_order(graph);
        items
    }

    /// Bends in consecutive ranks, joined.
    fn chain(&mut self, ranks: std::ops::Range<usize>, group: Option<usize>) -> Vec<usize> {
        let first = self.rank.len();
        for rank in ranks {
            self.rank.push(rank);
            self.group.push(group);
            self.before.push(Vec::new());
            self.after.push(Vec::new());
        }
        let bends: Vec<_> = (first..self.rank.len()).collect();
        for pair in bends.windows(2) {
            self.join(pair[0], pair[1]);
        }
        bends
    }

    fn join(&mut self, before: usize, after: usize) {
        self.after[before].push(after);
        self.before[after].push(before);
    }

    /// The initial order: depth first, so that connected items are adjacent. A back link's bends
    /// are next to its target.
    fn begin_order(&mut self, graph: &Graph) {
        let mut beside = vec![Vec::new(); self.nodes];
        for (link, way) in graph.links.iter().zip(&self.ways) {
            if let Way::Back(bends) = way {
                beside[link.target].extend(bends.last().copied());
            }
        }
        let mut seen = vec![false; self.rank.len()];
        for begin in 0..self.rank.len() {
            if !self.before[begin].is_empty() || begin >= self.nodes {
                continue;
            }
            let mut stack = vec![begin];
            while let Some(item) = stack.pop() {
                if std::mem::replace(&mut seen[item], true) {
                    continue;
                }
                self.layers[self.rank[item]].push(item);
                stack.extend(self.after[item].iter().rev());
                if let Some(ways) = beside.get(item) {
                    stack.extend(ways);
                }
            }
        }
        for (item, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
            self.layers[self.rank[item]].push(item);
        }
    }

    /// The groups an item is in, from the outermost to the innermost.
    pub(super) fn path(&self, item: usize) -> &[usize] {
        self.group[item].map_or(&[], |group| &self.paths[group])
    }

    pub(super) fn is_bend(&self, item: usize) -> bool {
        item >= self.nodes
    }
}

/// The innermost group both are in.
fn common(graph: &Graph, a: Option<usize>, b: Option<usize>) -> Option<usize> {
    let (mut a, mut b) = (a, b);
    loop {
        match (a, b) {
            (Some(x), Some(y)) if x == y => return a,
            // A parent always has the smaller number.
            (Some(x), Some(y)) if x > y => a = graph.groups[x].parent,
            (Some(_), Some(y)) => b = graph.groups[y].parent,
            _ => return None,
        }
    }
}
