//! Frames: every group becomes a rectangle that contains only its members.

use super::items::Items;
use super::place::Spacing;
use super::taut::{self, Beside};
use super::{FRAME_ACROSS, Graph};

/// The minimum space outside of a frame.
const OUTSIDE: f64 = 14.0;

/// The elements of a rank, from left to right.
#[derive(Clone, Copy, PartialEq)]
enum Post {
    Item(usize),
    /// The left side of a group's frame: the same one in every rank.
    Left(usize),
    Right(usize),
}

/// Moves items to the right, as little as possible, until every frame is straight. Returns the
/// extent of each group.
pub(super) fn frame(
    graph: &Graph,
    items: &Items,
    spacing: &Spacing<'_>,
    runs: &[Vec<usize>],
    across: &mut [f64],
) -> Vec<(f64, f64)> {
    let groups = graph.groups.len();
    if groups == 0 {
        return Vec::new();
    }
    let count = items.rank.len();
    let number = |post| match post {
        Post::Item(item) => item,
        Post::Left(group) => count + group,
        Post::Right(group) => count + groups + group,
    };
    let mut least = across.to_vec();
    least.resize(count + groups, f64::INFINITY);
    least.resize(count + 2 * groups, f64::NEG_INFINITY);
    for (item, &middle) in across.iter().enumerate() {
        for (depth, &group) in (1..).zip(items.path(item).iter().rev()) {
            let side = middle - spacing.half[item] - f64::from(depth) * FRAME_ACROSS;
            let left = &mut least[number(Post::Left(group))];
            *left = left.min(side);
        }
    }
    let mut next: Vec<Vec<(usize, f64)>> = vec![Vec::new(); least.len()];
    let mut waiting = vec![0_usize; least.len()];
    let mut beside = Beside::new(least.len());
    for layer in &items.layers {
        for pair in posts(items, layer).windows(2) {
            let (from, to) = (number(pair[0]), number(pair[1]));
            let distance = distance(spacing, pair[0], pair[1]);
            beside.join(from, to, distance);
            next[from].push((to, distance));
            waiting[to] += 1;
        }
    }
    // The groups of a level have the same order in all ranks, so this graph is acyclic.
    let mut ready: Vec<_> = (0..least.len()).filter(|&at| waiting[at] == 0).collect();
    while let Some(from) = ready.pop() {
        for &(to, distance) in &next[from] {
            least[to] = least[to].max(least[from] + distance);
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
    // Lines that were pushed aside by a frame can be straightened again.
    taut::pull(runs, &beside, &mut least);
    across.copy_from_slice(&least[..count]);
    let side = |post| least[number(post)];
    (0..groups)
        .map(|group| (side(Post::Left(group)), side(Post::Right(group))))
        .collect()
}

/// A rank including the sides of all its frames.
fn posts(items: &Items, layer: &[usize]) -> Vec<Post> {
    let mut posts = Vec::with_capacity(layer.len());
    let mut open: &[usize] = &[];
    for &item in layer {
        let path = items.path(item);
        let shared = open.iter().zip(path).take_while(|(a, b)| a == b).count();
        posts.extend(open[shared..].iter().rev().map(|&group| Post::Right(group)));
        posts.extend(path[shared..].iter().map(|&group| Post::Left(group)));
        posts.push(Post::Item(item));
        open = path;
    }
    posts.extend(open.iter().rev().map(|&group| Post::Right(group)));
    posts
}

fn distance(spacing: &Spacing<'_>, left: Post, right: Post) -> f64 {
    let half = |post| match post {
        Post::Item(item) => spacing.half[item],
        Post::Left(_) | Post::Right(_) => 0.0,
    };
    match (left, right) {
        (Post::Item(left), Post::Item(right)) => spacing.between(left, right),
        (Post::Left(_), _) | (_, Post::Right(_)) => half(left) + half(right) + FRAME_ACROSS,
        (Post::Right(_), _) | (_, Post::Left(_)) => half(left) + half(right) + OUTSIDE,
    }
}
