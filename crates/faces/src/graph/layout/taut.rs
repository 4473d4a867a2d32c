//! Straightens lines: items that can share a position do.

use super::items::{Items, Way};

/// The neighbours of each item in its rank, and the distances to keep.
pub(super) struct Beside {
    left: Vec<Option<(usize, f64)>>,
    right: Vec<Option<(usize, f64)>>,
}

impl Beside {
    pub(super) fn new(count: usize) -> Self {
        Self {
            left: vec![None; count],
            right: vec![None; count],
        }
    }

    /// Two neighbours, from left to right.
    pub(super) fn join(&mut self, left: usize, right: usize, distance: f64) {
        self.right[left] = Some((right, distance));
        self.left[right] = Some((left, distance));
    }

    /// The range in which an item may move.
    fn room(&self, item: usize, across: &[f64]) -> (f64, f64) {
        let from = self.left[item].map(|(other, distance)| across[other] + distance);
        let to = self.right[item].map(|(other, distance)| across[other] - distance);
        (
            from.unwrap_or(f64::NEG_INFINITY),
            to.unwrap_or(f64::INFINITY),
        )
    }
}

/// Items that would best share a position: consecutive nodes without another link between them, and
/// the bends of a line.
pub(super) fn runs(items: &Items) -> Vec<Vec<usize>> {
    let next = |node: usize| match items.after[node].as_slice() {
        [next] if !items.is_bend(*next) && items.before[*next].len() == 1 => Some(*next),
        _ => None,
    };
    let mut is_next = vec![false; items.nodes];
    for next in (0..items.nodes).filter_map(next) {
        is_next[next] = true;
    }
    let pipelines = (0..items.nodes)
        .filter(|&node| !is_next[node])
        .map(|first| std::iter::successors(Some(first), |&node| next(node)).collect());
    let bends = items.ways.iter().map(|way| match way {
        Way::Forward(bends) | Way::Back(bends) => bends.clone(),
        Way::Straight => Vec::new(),
    });
    pipelines
        .chain(bends)
        .filter(|run: &Vec<usize>| run.len() > 1)
        .collect()
}

/// Aligns the items of each run at one position, as many consecutive ones as the neighbours leave
/// space for.
pub(super) fn pull(runs: &[Vec<usize>], beside: &Beside, across: &mut [f64]) {
    for run in runs {
        let mut left = run.as_slice();
        while !left.is_empty() {
            let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
            let mut len = 0;
            let mut sum = 0.0;
            for &item in left {
                let (from, to) = beside.room(item, across);
                let (from, to) = (least.max(from), most.min(to));
                if len > 0 && from > to {
                    break;
                }
                (least, most) = (from, to);
                sum += across[item];
                len += 1;
            }
            let (now, later) = left.split_at(len);
            // An item without enough space in its rank stays.
            if least <= most {
                let taut = (sum / len as f64).clamp(least, most);
                now.iter().for_each(|&item| across[item] = taut);
            }
            left = later;
        }
    }
}
