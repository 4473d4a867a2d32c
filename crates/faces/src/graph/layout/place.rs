//! Positions the items of each rank: in order, apart, and so that lines are straight.

use super::items::Items;
use super::taut::{self, Beside};
use super::{FRAME_ACROSS, Graph, Metrics, frame};

/// Passes through all ranks.
const PASSES: usize = 24;
/// The last passes, included in the count above, which consider both neighbouring ranks.
const LAST_PASSES: usize = 6;
/// The space for a bend, on either side.
const BEND: f64 = 8.0;

/// Positions across the ranks.
pub(super) struct Placed {
    /// The middle of each item.
    pub(super) across: Vec<f64>,
    /// The extent of each group, frame included.
    pub(super) groups: Vec<(f64, f64)>,
}

/// Positions everything; the smallest position is 0.
pub(super) fn place(graph: &Graph, items: &Items, metrics: &Metrics) -> Placed {
    let spacing = Spacing::new(items, metrics);
    let mut across = vec![0.0; items.rank.len()];
    for layer in &items.layers {
        spacing.pack(layer, &mut across);
    }
    for pass in 0..PASSES {
        let look = match pass {
            _ if pass + LAST_PASSES >= PASSES => Look::BothWays,
            _ if pass % 2 == 0 => Look::Before,
            _ => Look::After,
        };
        let count = items.layers.len();
        for step in 0..count {
            let rank = if pass % 2 == 0 {
                step
            } else {
                count - 1 - step
            };
            spacing.straighten(items, &items.layers[rank], look, &mut across);
        }
    }
    let mut beside = Beside::new(across.len());
    for pair in items.layers.iter().flat_map(|layer| layer.windows(2)) {
        beside.join(pair[0], pair[1], spacing.between(pair[0], pair[1]));
    }
    let runs = taut::runs(items);
    for _ in 0..2 {
        taut::pull(&runs, &beside, &mut across);
    }
    let mut groups = frame::frame(graph, items, &spacing, &runs, &mut across);
    let left = (0..across.len())
        .map(|item| across[item] - spacing.half[item])
        .chain(groups.iter().map(|(from, _)| *from))
        .fold(f64::INFINITY, f64::min);
    across.iter_mut().for_each(|x| *x -= left);
    for (from, to) in &mut groups {
        *from -= left;
        *to -= left;
    }
    Placed { across, groups }
}

#[derive(Clone, Copy)]
enum Look {
    Before,
    After,
    BothWays,
}

/// Distances between items.
pub(super) struct Spacing<'a> {
    /// Half the extent of each item.
    pub(super) half: Vec<f64>,
    apart: f64,
    items: &'a Items,
}

impl<'a> Spacing<'a> {
    fn new(items: &'a Items, metrics: &Metrics) -> Self {
        let half = |item| {
            if items.is_bend(item) {
                BEND
            } else {
                metrics.across / 2.0
            }
        };
        Self {
            half: (0..items.rank.len()).map(half).collect(),
            apart: metrics.apart,
            items,
        }
    }

    /// The minimum distance between the centres of two neighbours.
    pub(super) fn between(&self, left: usize, right: usize) -> f64 {
        let bends = [left, right]
            .into_iter()
            .filter(|&item| self.items.is_bend(item))
            .count();
        let apart = match bends {
            0 => self.apart,
            1 => self.apart.min(18.0),
            _ => 6.0,
        };
        let (a, b) = (self.items.path(left), self.items.path(right));
        let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let frames = a.len() + b.len() - 2 * shared;
        self.half[left] + self.half[right] + apart + frames as f64 * FRAME_ACROSS
    }

    /// Packs a rank closely around 0.
    fn pack(&self, layer: &[usize], across: &mut [f64]) {
        let mut x = 0.0;
        for (at, &item) in layer.iter().enumerate() {
            if at > 0 {
                x += self.between(layer[at - 1], item);
            }
            across[item] = x;
        }
        for &item in layer {
            across[item] -= x / 2.0;
        }
    }

    /// Moves the items of a rank as close to their neighbours as the order allows (least squares,
    /// by pooling items that would pass each other).
    fn straighten(&self, items: &Items, layer: &[usize], look: Look, across: &mut [f64]) {
        struct Pool {
            sum: f64,
            weight: f64,
            len: usize,
        }
        let mut pools: Vec<Pool> = Vec::with_capacity(layer.len());
        let mut offsets = Vec::with_capacity(layer.len());
        let mut offset = 0.0;
        for (at, &item) in layer.iter().enumerate() {
            if at > 0 {
                offset += self.between(layer[at - 1], item);
            }
            offsets.push(offset);
            let (wish, weight) = wish(items, item, look, across);
            let mut pool = Pool {
                sum: (wish - offset) * weight,
                weight,
                len: 1,
            };
            while let Some(last) =
                pools.pop_if(|last| last.sum / last.weight > pool.sum / pool.weight)
            {
                pool.sum += last.sum;
                pool.weight += last.weight;
                pool.len += last.len;
            }
            pools.push(pool);
        }
        let mut at = 0;
        for pool in pools {
            let base = pool.sum / pool.weight;
            for _ in 0..pool.len {
                across[layer[at]] = base + offsets[at];
                at += 1;
            }
        }
    }
}

/// The best position of an item, and its weight. Lines through bends weigh more: a long line with a
/// kink is uglier than a short one.
fn wish(items: &Items, item: usize, look: Look, across: &[f64]) -> (f64, f64) {
    let (before, after): (&[usize], &[usize]) = match look {
        Look::Before => (&items.before[item], &[]),
        Look::After => (&[], &items.after[item]),
        Look::BothWays => (&items.before[item], &items.after[item]),
    };
    let mut sum = 0.0;
    let mut weight = 0.0;
    for &other in before.iter().chain(after) {
        let counts = match (items.is_bend(item), items.is_bend(other)) {
            (true, true) => 8.0,
            (false, false) if is_only_link(items, item, other) => 4.0,
            (false, false) => 1.0,
            _ => 2.0,
        };
        sum += across[other] * counts;
        weight += counts;
    }
    if weight == 0.0 {
        return (across[item], 0.05);
    }
    (sum / weight, weight)
}

/// Whether the link between two nodes is the only one on their facing sides.
fn is_only_link(items: &Items, a: usize, b: usize) -> bool {
    let (above, below) = if items.rank[a] < items.rank[b] {
        (a, b)
    } else {
        (b, a)
    };
    items.after[above].len() == 1 && items.before[below].len() == 1
}
