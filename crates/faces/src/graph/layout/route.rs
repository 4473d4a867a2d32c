//! Draws the lines, and determines the distances of ranks.

use super::items::{Items, Way};
use super::place::Placed;
use super::{
    ARROW, Direction, FRAME_ALONG, Graph, Layout, Link, Metrics, Piece, Point, Route, label,
};

/// How far a back link swings out.
const SWING: f64 = 26.0;
/// The height of a line of text.
const TEXT: f64 = 14.0;

/// Draws everything.
pub(super) fn draw(graph: &Graph, items: &Items, placed: &Placed, metrics: &Metrics) -> Layout {
    let ranks = Ranks::new(graph, items, placed, metrics);
    let ports = Ports::new(graph, items, placed, metrics);
    let nodes = (0..items.nodes).map(|node| {
        let from = ranks.from[items.rank[node]];
        let middle = placed.across[node];
        metrics.rect(
            (from, from + metrics.along),
            (middle - metrics.across / 2.0, middle + metrics.across / 2.0),
        )
    });
    let pen = Pen {
        items,
        placed,
        metrics,
        ranks: &ranks,
    };
    let draw = |(at, link): (usize, &Link)| {
        let ends = (ports.out[at], ports.into[at]);
        match &items.ways[at] {
            Way::Forward(bends) => pen.forward(link.source, link.target, bends, ends),
            Way::Straight => pen.forward(link.source, link.target, &[], ends),
            Way::Back(bends) => pen.back(link.source, link.target, bends, ends),
        }
    };
    let mut routes: Vec<_> = graph.links.iter().enumerate().map(draw).collect();
    label::place(graph, items, &mut routes);
    let groups: Vec<_> = placed
        .groups
        .iter()
        .zip(&ranks.groups)
        .map(|(&across, &along)| metrics.rect(along, across))
        .collect();
    let right = (0..items.rank.len())
        .map(|item| {
            let half = if items.is_bend(item) {
                8.0
            } else {
                metrics.across / 2.0
            };
            placed.across[item] + half
        })
        .chain(placed.groups.iter().map(|(_, to)| *to))
        .fold(0.0, f64::max);
    let size = metrics.point(ranks.end, right);
    Layout {
        direction: metrics.direction,
        width: size.x,
        height: size.y,
        nodes: nodes.collect(),
        routes,
        groups,
    }
}

/// The positions of ranks.
struct Ranks {
    /// The start of each rank.
    from: Vec<f64>,
    end: f64,
    /// The extent of each group, frame included.
    groups: Vec<(f64, f64)>,
}

impl Ranks {
    fn new(graph: &Graph, items: &Items, placed: &Placed, metrics: &Metrics) -> Self {
        let count = items.layers.len();
        let reach = reach(graph, items);
        // The number of nested frames that begin, or end, at the same rank as the group.
        let (mut heads, mut feet) = (vec![0_usize; reach.len()], vec![0_usize; reach.len()]);
        for group in (0..reach.len()).rev() {
            if let Some(parent) = graph.groups[group].parent {
                if reach[parent].0 == reach[group].0 {
                    heads[parent] = heads[parent].max(heads[group] + 1);
                }
                if reach[parent].1 == reach[group].1 {
                    feet[parent] = feet[parent].max(feet[group] + 1);
                }
            }
        }
        let frame = |inner: usize| FRAME_ALONG + inner as f64 * (SWING + 4.0);
        let (mut above, mut below) = (vec![0.0_f64; count], vec![0.0_f64; count]);
        for (group, &(first, last)) in reach.iter().enumerate() {
            above[first] = above[first].max(frame(heads[group]));
            below[last] = below[last].max(frame(feet[group]));
        }
        for (at, way) in items.ways.iter().enumerate() {
            if let Way::Back(_) = way {
                let link = graph.links[at];
                let (first, last) = (items.rank[link.target], items.rank[link.source]);
                above[first] = above[first].max(SWING);
                below[last] = below[last].max(SWING);
            }
        }
        let gaps = gaps(graph, items, placed, metrics);
        let mut from = Vec::with_capacity(count);
        let mut at = above.first().copied().unwrap_or(0.0);
        for rank in 0..count {
            if rank > 0 {
                let frames = below[rank - 1] + above[rank];
                at += gaps[rank - 1].max(frames + 12.0);
            }
            from.push(at);
            at += metrics.along;
        }
        let end = at + below.last().copied().unwrap_or(0.0);
        let groups = reach
            .iter()
            .enumerate()
            .map(|(group, &(first, last))| {
                let begin = from[first] - frame(heads[group]);
                (begin, from[last] + metrics.along + frame(feet[group]))
            })
            .collect();
        Self { from, end, groups }
    }
}

/// The first and last rank of each group.
fn reach(graph: &Graph, items: &Items) -> Vec<(usize, usize)> {
    let mut reach = vec![(usize::MAX, 0); graph.groups.len()];
    for (item, &rank) in items.rank.iter().enumerate() {
        let mut group = items.group[item];
        while let Some(at) = group {
            reach[at] = (reach[at].0.min(rank), reach[at].1.max(rank));
            group = graph.groups[at].parent;
        }
    }
    // An empty group gets no frame.
    for (first, last) in &mut reach {
        *first = (*first).min(*last);
    }
    reach
}

/// The space after each rank: more for labels and for lines with a long way across.
fn gaps(graph: &Graph, items: &Items, placed: &Placed, metrics: &Metrics) -> Vec<f64> {
    let mut gaps = vec![metrics.gap; items.layers.len()];
    let mut widen = |rank: usize, gap: f64| {
        if let Some(at) = gaps.get_mut(rank) {
            *at = at.max(gap);
        }
    };
    for (item, &rank) in items.rank.iter().enumerate() {
        for &other in &items.after[item] {
            let sideways = (placed.across[item] - placed.across[other]).abs();
            widen(rank, metrics.gap + (sideways / 10.0).min(72.0));
        }
    }
    for (at, link) in graph.links.iter().enumerate() {
        if link.label == 0.0 || matches!(items.ways[at], Way::Back(_)) {
            continue;
        }
        let needed = match metrics.direction {
            Direction::Down => metrics.gap + TEXT,
            Direction::Right => link.label + 56.0,
        };
        widen(items.rank[link.source], needed);
    }
    gaps
}

/// The start and end positions of a node's links, across.
struct Ports {
    out: Vec<f64>,
    into: Vec<f64>,
}

impl Ports {
    fn new(graph: &Graph, items: &Items, placed: &Placed, metrics: &Metrics) -> Self {
        let mut out = vec![Vec::new(); graph.nodes];
        let mut into = vec![Vec::new(); graph.nodes];
        for (at, link) in graph.links.iter().enumerate() {
            let (first, last) = match &items.ways[at] {
                Way::Forward(bends) | Way::Back(bends) => (
                    bends.first().copied().unwrap_or(link.target),
                    bends.last().copied().unwrap_or(link.source),
                ),
                Way::Straight => (link.target, link.source),
            };
            out[link.source].push((placed.across[first], at));
            into[link.target].push((placed.across[last], at));
        }
        let spread = |sides: Vec<Vec<(f64, usize)>>| {
            let mut ports = vec![0.0; graph.links.len()];
            for (node, mut side) in sides.into_iter().enumerate() {
                side.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let room = metrics.across - 2.0 * 14.0;
                let step = (room / side.len() as f64).min(24.0);
                let begin = placed.across[node] - step * (side.len() as f64 - 1.0) / 2.0;
                for (place, (_, link)) in side.into_iter().enumerate() {
                    ports[link] = begin + step * place as f64;
                }
            }
            ports
        };
        Self {
            out: spread(out),
            into: spread(into),
        }
    }
}

/// Draws a single line.
struct Pen<'a> {
    items: &'a Items,
    placed: &'a Placed,
    metrics: &'a Metrics,
    ranks: &'a Ranks,
}

impl Pen<'_> {
    fn top(&self, item: usize) -> f64 {
        self.ranks.from[self.items.rank[item]]
    }

    fn bottom(&self, item: usize) -> f64 {
        self.top(item) + self.metrics.along
    }

    /// From one point to another, leaving and arriving along the ranks.
    fn curve(&self, from: (f64, f64), to: (f64, f64)) -> Piece {
        let point = |along, across| self.metrics.point(along, across);
        if (from.1 - to.1).abs() < 0.5 {
            return Piece::Line(point(to.0, to.1));
        }
        let half = (to.0 - from.0) * 0.5;
        Piece::Curve(
            point(from.0 + half, from.1),
            point(to.0 - half, to.1),
            point(to.0, to.1),
        )
    }

    fn forward(&self, source: usize, target: usize, bends: &[usize], ends: (f64, f64)) -> Route {
        let mut at = (self.bottom(source), ends.0);
        let start = at;
        let mut pieces = Vec::with_capacity(2 * bends.len() + 1);
        for &bend in bends {
            let across = self.placed.across[bend];
            let to = (self.top(bend), across);
            pieces.push(self.curve(at, to));
            at = (self.bottom(bend), across);
            pieces.push(Piece::Line(self.metrics.point(at.0, at.1)));
        }
        let end = (self.top(target) - ARROW, ends.1);
        pieces.push(self.curve(at, end));
        Route {
            start: self.metrics.point(start.0, start.1),
            pieces,
            label: Point::default(),
        }
    }

    /// Out after the source, around everything between, and in before the target.
    fn back(&self, source: usize, target: usize, bends: &[usize], ends: (f64, f64)) -> Route {
        let point = |along, across| -> Point { self.metrics.point(along, across) };
        let across = |bend: Option<&usize>| bend.map_or(ends.0, |&bend| self.placed.across[bend]);
        let reach = 4.0 / 3.0 * SWING;
        let (below, above) = (self.bottom(source), self.top(target));
        let first = across(bends.first());
        let mut pieces = vec![Piece::Curve(
            point(below + reach, ends.0),
            point(below + reach, first),
            point(below, first),
        )];
        for (at, &bend) in bends.iter().enumerate() {
            let x = self.placed.across[bend];
            pieces.push(Piece::Line(point(self.top(bend), x)));
            if let Some(&next) = bends.get(at + 1) {
                let to = (self.bottom(next), self.placed.across[next]);
                pieces.push(self.curve((self.top(bend), x), to));
            }
        }
        let last = across(bends.last());
        pieces.push(Piece::Curve(
            point(above - reach, last),
            point(above - reach, ends.1),
            point(above - ARROW, ends.1),
        ));
        Route {
            start: point(below, ends.0),
            pieces,
            label: Point::default(),
        }
    }
}
