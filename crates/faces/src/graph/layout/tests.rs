//! Checks the positions for given boxes and lines.

use super::items::{Items, MAX_BENDS, Way};
use super::order::crossings;
use super::{Direction, Graph, Group, Layout, Link, Piece, Point, Rect, lay_out, rank};

const NODE: (f64, f64) = (160.0, 52.0);

/// A graph without groups.
fn plain(nodes: usize, links: &[(usize, usize)]) -> Graph {
    Graph {
        nodes,
        links: links.iter().map(|&(a, b)| link(a, b)).collect(),
        groups: Vec::new(),
        group_of: vec![None; nodes],
    }
}

fn link(source: usize, target: usize) -> Link {
    Link {
        source,
        target,
        back: false,
        label: 0.0,
    }
}

/// A graph built from blocks: in sequence, in parallel, or in a loop.
struct Grown {
    graph: Graph,
    seed: u64,
}

impl Grown {
    fn graph(seed: u64) -> Graph {
        let mut grown = Self {
            graph: plain(0, &[]),
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        let (first, last) = grown.block(5, None);
        // A line past everything, and labels here and there.
        if first != last {
            grown.link(first, last);
        }
        for at in 0..grown.graph.links.len() {
            if grown.below(4) == 0 {
                grown.graph.links[at].label = 30.0 + grown.below(120) as f64;
            }
        }
        grown.graph
    }

    fn below(&mut self, n: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as usize % n
    }

    fn node(&mut self, group: Option<usize>) -> usize {
        self.graph.group_of.push(group);
        self.graph.nodes += 1;
        self.graph.nodes - 1
    }

    fn link(&mut self, source: usize, target: usize) -> usize {
        self.graph.links.push(link(source, target));
        self.graph.links.len() - 1
    }

    /// The first and last node of the block.
    fn block(&mut self, depth: usize, group: Option<usize>) -> (usize, usize) {
        match (depth, self.below(6)) {
            (0, _) | (_, 0) => {
                let node = self.node(group);
                (node, node)
            }
            (_, 1 | 2) => {
                let (first, a) = self.block(depth - 1, group);
                let (b, last) = self.block(depth - 1, group);
                self.link(a, b);
                (first, last)
            }
            (_, 3 | 4) => {
                let (fork, join) = (self.node(group), self.node(group));
                for _ in 0..2 + self.below(4) {
                    let (first, last) = self.block(depth - 1, group);
                    self.link(fork, first);
                    self.link(last, join);
                }
                (fork, join)
            }
            _ => {
                let own = self.graph.groups.len();
                self.graph.groups.push(Group {
                    parent: group,
                    exits: Vec::new(),
                });
                let head = self.node(Some(own));
                let (first, last) = self.block(depth - 1, Some(own));
                self.link(head, first);
                let back = self.link(last, head);
                self.graph.links[back].back = true;
                let after = self.node(group);
                let exit = self.link(head, after);
                self.graph.groups[own].exits.push(exit);
                (head, after)
            }
        }
    }
}

fn overlap(a: Rect, b: Rect) -> bool {
    let apart = 1.0;
    a.x < b.x + b.w + apart
        && b.x < a.x + a.w + apart
        && a.y < b.y + b.h + apart
        && b.y < a.y + a.h + apart
}

fn holds(outer: Rect, inner: Rect) -> bool {
    outer.x <= inner.x
        && outer.y <= inner.y
        && inner.x + inner.w <= outer.x + outer.w
        && inner.y + inner.h <= outer.y + outer.h
}

fn is_in(graph: &Graph, node: usize, group: usize) -> bool {
    let mut at = graph.group_of[node];
    while let Some(within) = at {
        if within == group {
            return true;
        }
        at = graph.groups[within].parent;
    }
    false
}

/// Checks the invariants of every layout.
fn check(graph: &Graph) -> Layout {
    let layout = lay_out(graph, NODE);
    let page = Rect {
        x: -0.1,
        y: -0.1,
        w: layout.width + 0.2,
        h: layout.height + 0.2,
    };
    for (at, &rect) in layout.nodes.iter().enumerate() {
        assert!(holds(page, rect), "node {at} leaves the picture");
        for (other, &rect_of_other) in layout.nodes.iter().enumerate().skip(at + 1) {
            assert!(
                !overlap(rect, rect_of_other),
                "nodes {at} and {other} overlap"
            );
        }
    }
    for (group, &frame) in layout.groups.iter().enumerate() {
        assert!(holds(page, frame), "frame {group} leaves the picture");
        for (node, &rect) in layout.nodes.iter().enumerate() {
            if is_in(graph, node, group) {
                assert!(holds(frame, rect), "node {node} leaves frame {group}");
            } else {
                assert!(!overlap(frame, rect), "node {node} stands in frame {group}");
            }
        }
    }
    for (at, (link, route)) in graph.links.iter().zip(&layout.routes).enumerate() {
        let (source, target) = (layout.nodes[link.source], layout.nodes[link.target]);
        let (leaves, arrives) = match layout.direction {
            Direction::Down => (source.y + source.h, target.y),
            Direction::Right => (source.x + source.w, target.x),
        };
        assert!(link.back || leaves < arrives, "link {at} leads backwards");
        let end = match route.pieces.last() {
            Some(Piece::Line(end) | Piece::Curve(_, _, end)) => *end,
            None => panic!("link {at} is not drawn"),
        };
        assert!(touches(source, route.start), "link {at} begins elsewhere");
        assert!(touches(target, end), "link {at} ends elsewhere");
    }
    layout
}

/// Within an arrow's length.
fn touches(rect: Rect, point: Point) -> bool {
    let near = super::ARROW + 0.1;
    point.x >= rect.x - near
        && point.x <= rect.x + rect.w + near
        && point.y >= rect.y - near
        && point.y <= rect.y + rect.h + near
}

fn middle(rect: Rect) -> f64 {
    rect.x + rect.w / 2.0
}

#[test]
fn soak_layouts_hold_together() {
    for seed in testkit::seeds(60, 3_000) {
        let graph = Grown::graph(seed);
        let caught = std::panic::catch_unwind(|| check(&graph));
        assert!(caught.is_ok(), "seed {seed}, {} nodes", graph.nodes);
    }
}

#[test]
fn a_pipeline_is_straight() {
    let layout = check(&plain(3, &[(0, 1), (1, 2)]));
    assert_eq!(layout.direction, Direction::Down);
    for (route, node) in layout.routes.iter().zip(&layout.nodes) {
        assert!(matches!(route.pieces.as_slice(), [Piece::Line(_)]));
        assert!((middle(*node) - layout.width / 2.0).abs() < 0.5);
    }
}

#[test]
fn a_diamond_is_symmetric() {
    let layout = check(&plain(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]));
    let x: Vec<_> = layout.nodes.iter().map(|&node| middle(node)).collect();
    assert!((x[0] - x[3]).abs() < 0.5, "{x:?}");
    assert!((x[0] - f64::midpoint(x[1], x[2])).abs() < 0.5, "{x:?}");
}

#[test]
fn wide_graphs_run_left_to_right() {
    let links: Vec<_> = (1..31).flat_map(|at| [(0, at), (at, 31)]).collect();
    let layout = check(&plain(32, &links));
    assert_eq!(layout.direction, Direction::Right);
}

#[test]
fn lines_that_need_not_cross_do_not() {
    // Two trees whose leaves are declared alternately.
    let links: Vec<_> = (2..12).map(|at| (at % 2, at)).collect();
    let graph = plain(12, &links);
    let mut items = Items::new(&graph, &rank::ranks(&graph));
    super::order::order(&graph, &mut items);
    assert_eq!(crossings(&items, &places(&items)), 0);
}

fn places(items: &Items) -> Vec<usize> {
    let mut places = vec![0; items.rank.len()];
    for layer in &items.layers {
        for (place, &item) in layer.iter().enumerate() {
            places[item] = place;
        }
    }
    places
}

#[test]
fn crossings_are_counted_as_one_would_by_hand() {
    for seed in 0..20 {
        let graph = Grown::graph(seed);
        let items = Items::new(&graph, &rank::ranks(&graph));
        let places = places(&items);
        let mut by_hand = 0;
        for layer in &items.layers {
            let lines: Vec<_> = layer
                .iter()
                .flat_map(|&item| items.after[item].iter().map(move |&to| (item, to)))
                .map(|(from, to)| (places[from], places[to]))
                .collect();
            for (at, a) in lines.iter().enumerate() {
                let crossed =
                    |b: &&(usize, usize)| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1);
                by_hand += lines[at + 1..].iter().filter(crossed).count();
            }
        }
        assert_eq!(crossings(&items, &places), by_hand, "seed {seed}");
    }
}

#[test]
fn a_loop_encloses_its_frame_and_later_nodes_are_below() {
    let mut graph = plain(4, &[(0, 1), (1, 2), (2, 0), (0, 3)]);
    graph.links[2].back = true;
    graph.groups.push(Group {
        parent: None,
        exits: vec![3],
    });
    graph.group_of = vec![Some(0), Some(0), Some(0), None];
    let layout = check(&graph);
    let frame = layout.groups[0];
    assert!(layout.nodes[3].y > frame.y + frame.h);
    for piece in &layout.routes[2].pieces {
        let (Piece::Line(end) | Piece::Curve(_, _, end)) = *piece;
        assert!(end.x > frame.x && end.x < frame.x + frame.w, "{piece:?}");
    }
}

#[test]
fn labels_of_lines_that_leave_together_do_not_meet() {
    let mut graph = plain(4, &[(0, 1), (0, 2), (0, 3)]);
    for link in &mut graph.links {
        link.label = 150.0;
    }
    let layout = check(&graph);
    let spots: Vec<_> = layout.routes.iter().map(|route| route.label).collect();
    for (at, a) in spots.iter().enumerate() {
        for b in &spots[at + 1..] {
            let apart = (a.x - b.x).abs() > 150.0 || (a.y - b.y).abs() > 12.0;
            assert!(apart, "{spots:?}");
        }
    }
}

#[test]
fn the_number_of_bends_is_bounded_and_short_lines_keep_theirs() {
    let count = 2_000;
    let mut links: Vec<_> = (1..count).map(|at| (at - 1, at)).collect();
    links.extend((0..count - 2).map(|at| (at, count - 1)));
    let graph = plain(count, &links);
    let items = Items::new(&graph, &rank::ranks(&graph));
    assert!(items.rank.len() - count <= MAX_BENDS);
    assert_eq!(items.ways[0], Way::Forward(Vec::new()));
    assert_eq!(items.ways[count], Way::Straight);
    lay_out(&graph, NODE);
}

#[test]
fn links_in_a_circle_are_drawn_all_the_same() {
    let layout = lay_out(&plain(3, &[(0, 1), (1, 2), (2, 0), (1, 1)]), NODE);
    assert_eq!(layout.routes.len(), 4);
}

#[test]
fn nothing_is_laid_out_as_nothing() {
    let layout = lay_out(&plain(0, &[]), NODE);
    assert!(layout.nodes.is_empty());
    assert!(layout.width.is_finite() && layout.height.is_finite());
}
