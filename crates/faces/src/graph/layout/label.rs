//! Places labels on their lines.

use std::collections::BTreeMap;

use super::items::{Items, Way};
use super::{Graph, Piece, Point, Rect, Route};

/// The height of a label.
const HEIGHT: f64 = 15.0;
/// The positions of a label on a piece of line, best first.
const SPOTS: [f64; 5] = [0.5, 0.68, 0.32, 0.82, 0.2];

/// Puts every label at a free spot on its line.
pub(super) fn place(graph: &Graph, items: &Items, routes: &mut [Route]) {
    // Only labels that begin in the same rank can collide.
    let mut taken = BTreeMap::<usize, Vec<Rect>>::new();
    for (at, link) in graph.links.iter().enumerate() {
        if link.label == 0.0 {
            continue;
        }
        let spots = match &items.ways[at] {
            // In the middle of the detour, where there is space.
            Way::Back(bends) => spots_of(&routes[at], bends.len()),
            Way::Forward(_) | Way::Straight => spots_of(&routes[at], 0),
        };
        let taken = taken.entry(items.rank[link.source]).or_default();
        let rect = |spot: &Point| Rect {
            x: spot.x - link.label / 2.0 - 3.0,
            y: spot.y - HEIGHT / 2.0,
            w: link.label + 6.0,
            h: HEIGHT,
        };
        let free = spots
            .iter()
            .find(|spot| !taken.iter().any(|other| overlap(*other, rect(spot))));
        let spot = *free.unwrap_or(&spots[0]);
        taken.push(rect(&spot));
        routes[at].label = spot;
    }
}

/// Points on a piece of a line.
fn spots_of(route: &Route, piece: usize) -> [Point; SPOTS.len()] {
    let piece = piece.min(route.pieces.len().saturating_sub(1));
    let from = match piece.checked_sub(1).map(|before| route.pieces[before]) {
        None => route.start,
        Some(Piece::Line(end) | Piece::Curve(_, _, end)) => end,
    };
    SPOTS.map(|t| match route.pieces.get(piece) {
        None => from,
        Some(Piece::Line(end)) => mix(from, *end, t),
        Some(Piece::Curve(a, b, end)) => {
            let (ab, bc, cd) = (mix(from, *a, t), mix(*a, *b, t), mix(*b, *end, t));
            mix(mix(ab, bc, t), mix(bc, cd, t), t)
        }
    })
}

fn mix(a: Point, b: Point, t: f64) -> Point {
    Point {
        x: a.x + (b.x - a.x) * t,
        y: a.y + (b.y - a.y) * t,
    }
}

fn overlap(a: Rect, b: Rect) -> bool {
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}
