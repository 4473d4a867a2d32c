//! Positions of boxes and lines.
//!
//! A layered layout: nodes get ranks by their longest path from a start node ([`rank`]); lines that
//! cross ranks are cut into bends ([`items`]); each rank is ordered so that few lines cross
//! ([`order`]) and placed so that they are straight ([`place`], [`taut`]); groups get frames
//! ([`frame`]); finally the lines are drawn ([`route`]). Everything is computed along two axes
//! without a direction, *along* the ranks and *across* them; only the result maps them to down and
//! right.
//!
//! The layout is deterministic, so a workflow always looks the same. The work is bounded: the cost
//! grows with nodes, links and at most [`items::MAX_BENDS`] bends.

mod frame;
mod items;
mod label;
mod order;
mod place;
mod rank;
mod route;
mod taut;
#[cfg(test)]
mod tests;

use items::Items;

/// The graph to lay out.
pub(super) struct Graph {
    pub(super) nodes: usize,
    pub(super) links: Vec<Link>,
    /// Outer groups before the groups in them.
    pub(super) groups: Vec<Group>,
    /// The innermost group of each node.
    pub(super) group_of: Vec<Option<usize>>,
}

/// A line between two nodes.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) source: usize,
    pub(super) target: usize,
    /// It leads back to an earlier rank.
    pub(super) back: bool,
    /// The width of its label; 0 without one.
    pub(super) label: f64,
}

/// Nodes drawn in a frame of their own.
pub(super) struct Group {
    pub(super) parent: Option<usize>,
    /// The links that leave the group, which follow everything in it.
    pub(super) exits: Vec<usize>,
}

/// The direction in which ranks follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Right,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Left, top, width, height.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

/// A piece of a line, from the end of the previous one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Piece {
    Line(Point),
    /// Two control points and the end.
    Curve(Point, Point, Point),
}

/// A line, up to the base of its arrow.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) start: Point,
    pub(super) pieces: Vec<Piece>,
    /// The middle of its label.
    pub(super) label: Point,
}

/// The positions of all elements.
pub(super) struct Layout {
    pub(super) direction: Direction,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) nodes: Vec<Rect>,
    pub(super) routes: Vec<Route>,
    pub(super) groups: Vec<Rect>,
}

/// The space for an arrow's head.
pub(super) const ARROW: f64 = 7.0;

/// The distance of a frame from its content, along the ranks and across.
const FRAME_ALONG: f64 = 34.0;
const FRAME_ACROSS: f64 = 18.0;

/// Lengths in one direction.
struct Metrics {
    direction: Direction,
    /// A node's extent along and across the ranks.
    along: f64,
    across: f64,
    /// The minimum space between nodes of a rank.
    apart: f64,
    /// The least space between ranks.
    gap: f64,
}

impl Metrics {
    fn new(direction: Direction, node: (f64, f64)) -> Self {
        match direction {
            Direction::Down => Self {
                direction,
                along: node.1,
                across: node.0,
                apart: 28.0,
                gap: 44.0,
            },
            Direction::Right => Self {
                direction,
                along: node.0,
                across: node.1,
                apart: 18.0,
                gap: 64.0,
            },
        }
    }

    fn point(&self, along: f64, across: f64) -> Point {
        match self.direction {
            Direction::Down => Point {
                x: across,
                y: along,
            },
            Direction::Right => Point {
                x: along,
                y: across,
            },
        }
    }

    fn rect(&self, along: (f64, f64), across: (f64, f64)) -> Rect {
        let from = self.point(along.0, across.0);
        let to = self.point(along.1, across.1);
        Rect {
            x: from.x,
            y: from.y,
            w: to.x - from.x,
            h: to.y - from.y,
        }
    }
}

/// Lays a graph out; every node is `node` wide and high.
pub(super) fn lay_out(graph: &Graph, node: (f64, f64)) -> Layout {
    let ranks = rank::ranks(graph);
    let metrics = Metrics::new(direction(&ranks, node), node);
    let mut items = Items::new(graph, &ranks);
    order::order(graph, &mut items);
    let placed = place::place(graph, &items, &metrics);
    route::draw(graph, &items, &placed, &metrics)
}

/// The direction in which the picture fits a page best.
fn direction(ranks: &[usize], node: (f64, f64)) -> Direction {
    const PAGE: f64 = 1.4;
    let length = ranks.iter().max().map_or(0, |max| max + 1);
    let mut widths = vec![0_usize; length];
    for &rank in ranks {
        widths[rank] += 1;
    }
    let widest = widths.iter().max().copied().unwrap_or(0);
    let strangeness = |direction| {
        let metrics = Metrics::new(direction, node);
        let along = length as f64 * (metrics.along + metrics.gap);
        let across = widest as f64 * (metrics.across + metrics.apart);
        let size = metrics.point(along, across);
        (size.x / size.y.max(1.0) / PAGE).ln().abs()
    };
    // Readers expect down, so right must be clearly better.
    if strangeness(Direction::Right) + 0.4 < strangeness(Direction::Down) {
        Direction::Right
    } else {
        Direction::Down
    }
}
