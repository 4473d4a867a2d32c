//! Orders the items of each rank: few crossings, groups together.

use std::collections::BTreeMap;

use super::Graph;
use super::items::Items;

/// Maximum sweeps through all ranks, and the number without progress that ends them.
const SWEEPS: usize = 24;
const PATIENCE: usize = 6;
/// Neighbours are exchanged singly only in pictures up to this many items.
const MAX_EXCHANGED: usize = 600;

/// Orders every rank.
pub(super) fn order(graph: &Graph, items: &mut Items) {
    let mut sweeper = Sweeper::new(items);
    sweeper.gather(graph, items);
    let mut best = (crossings(items, &sweeper.place), items.layers.clone());
    let mut without_progress = 0;
    for sweep in 0..SWEEPS {
        if best.0 == 0 || without_progress >= PATIENCE {
            break;
        }
        sweeper.sweep(items, sweep % 2 == 0);
        if items.rank.len() <= MAX_EXCHANGED {
            sweeper.exchange(items);
        }
        let now = crossings(items, &sweeper.place);
        if now < best.0 {
            best = (now, items.layers.clone());
            without_progress = 0;
        } else {
            without_progress += 1;
        }
    }
    items.layers = best.1;
    for rank in 0..items.layers.len() {
        sweeper.number(items, rank);
    }
    sweeper.gather(graph, items);
}

struct Sweeper {
    /// Each item's place in its rank.
    place: Vec<usize>,
}

/// An item about to be sorted.
#[derive(Clone, Copy)]
struct Wish {
    item: usize,
    /// Its best position.
    x: f64,
    /// The best position of its unit at the level in question.
    unit_x: f64,
    /// Its unit at that level: itself or, with a higher number, a group.
    unit: usize,
}

/// The best position of groups.
enum GroupsBy<'a> {
    /// In the middle of the best positions of their items in the rank.
    Wishes,
    /// At these places, so that they have the same order in all ranks.
    Places(&'a [f64]),
}

impl Sweeper {
    fn new(items: &Items) -> Self {
        let mut this = Self {
            place: vec![0; items.rank.len()],
        };
        for rank in 0..items.layers.len() {
            this.number(items, rank);
        }
        this
    }

    fn number(&mut self, items: &Items, rank: usize) {
        for (place, &item) in items.layers[rank].iter().enumerate() {
            self.place[item] = place;
        }
    }

    /// Distance from the middle of the rank.
    fn x(&self, items: &Items, item: usize) -> f64 {
        let width = items.layers[items.rank[item]].len() as f64;
        self.place[item] as f64 - (width - 1.0) / 2.0
    }

    /// Brings groups together, in the same order in all ranks, without other changes.
    fn gather(&mut self, graph: &Graph, items: &mut Items) {
        if graph.groups.is_empty() {
            return;
        }
        let mut sums = vec![(0.0, 0.0); graph.groups.len()];
        for item in 0..items.rank.len() {
            for &group in items.path(item) {
                sums[group].0 += self.x(items, item);
                sums[group].1 += 1.0;
            }
        }
        let places: Vec<_> = sums
            .iter()
            .map(|(sum, n)| sum / f64::max(*n, 1.0))
            .collect();
        for rank in 0..items.layers.len() {
            let wishes = items.layers[rank].iter().map(|&item| self.x(items, item));
            let wishes = wishes.collect();
            self.sort(items, rank, wishes, &GroupsBy::Places(&places));
        }
    }

    /// Moves every item towards its neighbours in the previous rank.
    fn sweep(&mut self, items: &mut Items, down: bool) {
        let mut ranks: Vec<_> = (0..items.layers.len()).collect();
        if !down {
            ranks.reverse();
        }
        for rank in ranks {
            let wish = |&item: &usize| {
                let others = if down {
                    &items.before[item]
                } else {
                    &items.after[item]
                };
                if others.is_empty() {
                    return self.x(items, item);
                }
                let sum: f64 = others.iter().map(|&other| self.x(items, other)).sum();
                sum / others.len() as f64
            };
            let wishes = items.layers[rank].iter().map(wish).collect();
            self.sort(items, rank, wishes, &GroupsBy::Wishes);
        }
    }

    /// Sorts a rank by the best positions, groups together.
    fn sort(&mut self, items: &mut Items, rank: usize, wishes: Vec<f64>, by: &GroupsBy<'_>) {
        let layer = &items.layers[rank];
        let mut wishes: Vec<_> = layer
            .iter()
            .zip(wishes)
            .map(|(&item, x)| Wish {
                item,
                x,
                unit_x: x,
                unit: self.place[item],
            })
            .collect();
        self.arrange(items, &mut wishes, 0, by);
        items.layers[rank] = wishes.into_iter().map(|wish| wish.item).collect();
        self.number(items, rank);
    }

    fn arrange(&self, items: &Items, part: &mut [Wish], level: usize, by: &GroupsBy<'_>) {
        let group_at = |item: usize| items.path(item).get(level).copied();
        let mut sums = BTreeMap::<usize, (f64, f64)>::new();
        for wish in part.iter() {
            if let Some(group) = group_at(wish.item) {
                let sum = sums.entry(group).or_default();
                sum.0 += wish.x;
                sum.1 += 1.0;
            }
        }
        for wish in part.iter_mut() {
            (wish.unit, wish.unit_x) = match group_at(wish.item) {
                None => (self.place[wish.item], wish.x),
                Some(group) => {
                    let x = match by {
                        GroupsBy::Wishes => sums[&group].0 / sums[&group].1,
                        GroupsBy::Places(places) => places[group],
                    };
                    (self.place.len() + group, x)
                }
            };
        }
        part.sort_by(|a, b| a.unit_x.total_cmp(&b.unit_x).then(a.unit.cmp(&b.unit)));
        if sums.is_empty() {
            return;
        }
        for same in part.chunk_by_mut(|a, b| a.unit == b.unit) {
            if group_at(same[0].item).is_some() {
                self.arrange(items, same, level + 1, by);
            }
        }
    }

    /// Exchanges neighbours as long as crossings decrease.
    fn exchange(&mut self, items: &mut Items) {
        for _ in 0..PATIENCE {
            let mut helped = false;
            for rank in 0..items.layers.len() {
                for at in 1..items.layers[rank].len() {
                    let (a, b) = (items.layers[rank][at - 1], items.layers[rank][at]);
                    if items.group[a] != items.group[b] {
                        continue;
                    }
                    let now = self.crossed(items, a, b);
                    if now > 0 && self.crossed(items, b, a) < now {
                        items.layers[rank].swap(at - 1, at);
                        self.place.swap(a, b);
                        helped = true;
                    }
                }
            }
            if !helped {
                break;
            }
        }
    }

    /// The number of crossings between the lines of two neighbours when `left` is left of `right`.
    fn crossed(&self, items: &Items, left: usize, right: usize) -> usize {
        let pairs = |of_left: &[usize], of_right: &[usize]| {
            of_left
                .iter()
                .map(|&l| {
                    of_right
                        .iter()
                        .filter(|&&r| self.place[l] > self.place[r])
                        .count()
                })
                .sum::<usize>()
        };
        pairs(&items.before[left], &items.before[right])
            + pairs(&items.after[left], &items.after[right])
    }
}

/// The number of crossing lines between neighbouring ranks.
pub(super) fn crossings(items: &Items, place: &[usize]) -> usize {
    let mut total = 0;
    for (rank, layer) in items.layers.iter().enumerate() {
        let width = items.layers.get(rank + 1).map_or(0, Vec::len);
        let mut tree = vec![0_usize; width + 1];
        let mut entered = 0;
        for &item in layer {
            let mut ends: Vec<_> = items.after[item].iter().map(|&to| place[to]).collect();
            ends.sort_unstable();
            for &end in &ends {
                // Lines that began further left and end further right.
                let mut not_right = 0;
                let mut at = end + 1;
                while at > 0 {
                    not_right += tree[at];
                    at &= at - 1;
                }
                total += entered - not_right;
            }
            for end in ends {
                entered += 1;
                let mut at = end + 1;
                while at <= width {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
        }
    }
    total
}
