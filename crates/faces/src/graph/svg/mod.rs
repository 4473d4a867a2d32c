//! A picture as an SVG document.

mod glyph;
mod text;

use std::collections::BTreeMap;
use std::fmt::Write;

use super::layout::{self, Direction, Graph, Group, Layout, Link, Piece, Point, Rect, Route};
use super::picture::{Edge, Flow, Kind, Node, Picture, Progress, State, duration};
use text::{escape, fit, fit_ends, width};

const STYLE: &str = include_str!("style.css");

const BOX_HEIGHT: f64 = 52.0;
const BOX_WIDTH: std::ops::RangeInclusive<f64> = 128.0..=232.0;
/// The start of the text in a box, and its distance from the right side.
const TEXT_AT: f64 = 44.0;
const TEXT_END: f64 = 12.0;
const LABEL_WIDTH: f64 = 160.0;
const MARGIN: f64 = 24.0;
const HEADER: f64 = 62.0;
const LEGEND: f64 = 40.0;
/// Loops within loops deeper than this are drawn without frames.
const MAX_FRAMES: usize = 12;

/// The document.
pub(super) fn render(picture: &Picture) -> String {
    let layout = lay_out(picture);
    let legend = Legend::from_picture(picture);
    let width = (layout.width + 2.0 * MARGIN)
        .max(legend.width + 2.0 * MARGIN)
        .max(text::width(&picture.title, 17.0).min(900.0) + 2.0 * MARGIN)
        .max(320.0);
    let legend_height = if legend.entries.is_empty() {
        0.0
    } else {
        LEGEND
    };
    let height = HEADER + layout.height + MARGIN + legend_height;
    let mut out = Writer::default();
    out.open(picture, width, height);
    let left = ((width - layout.width) / 2.0).round();
    out.line(format_args!("<g transform=\"translate({left} {HEADER})\">"));
    out.loops(&layout);
    out.edges(picture, &layout);
    out.loop_names(picture, &layout);
    for (node, rect) in picture.nodes.iter().zip(&layout.nodes) {
        out.node(node, *rect);
    }
    out.line("</g>");
    out.legend(&legend, height - LEGEND / 2.0);
    out.line("</svg>");
    out.0
}

/// The positions of everything in a picture.
pub(super) fn lay_out(picture: &Picture) -> Layout {
    let node = (box_width(picture), BOX_HEIGHT);
    layout::lay_out(&graph(picture), node)
}

/// Wide enough for most names and types, within limits.
fn box_width(picture: &Picture) -> f64 {
    let widest = picture
        .nodes
        .iter()
        .map(|node| width(&node.name, 13.0).max(width(&under(node), 11.0) + 40.0))
        .fold(0.0, f64::max);
    (widest + TEXT_AT + TEXT_END)
        .clamp(*BOX_WIDTH.start(), *BOX_WIDTH.end())
        .round()
}

/// The second line of a box.
fn under(node: &Node) -> String {
    if node.name == node.id {
        node.type_id.clone()
    } else {
        format!("{} · {}", node.id, node.type_id)
    }
}

fn graph(picture: &Picture) -> Graph {
    let links = picture.edges.iter().map(|edge| Link {
        source: edge.source,
        target: edge.target,
        back: edge.back,
        label: width(&fit_ends(&edge.label, 11.0, LABEL_WIDTH), 11.0),
    });
    let mut depth = vec![0_usize; picture.loops.len()];
    for (at, inner) in picture.loops.iter().enumerate() {
        depth[at] = inner.parent.map_or(1, |parent| depth[parent] + 1);
    }
    let framed = depth.iter().all(|&depth| depth <= MAX_FRAMES);
    let groups = picture.loops.iter().filter(|_| framed).map(|one| Group {
        parent: one.parent,
        exits: one.exits.clone(),
    });
    Graph {
        nodes: picture.nodes.len(),
        links: links.collect(),
        groups: groups.collect(),
        group_of: picture
            .nodes
            .iter()
            .map(|node| node.within.filter(|_| framed))
            .collect(),
    }
}

/// The states to explain, with their counts.
struct Legend {
    entries: Vec<(State, String)>,
    width: f64,
}

impl Legend {
    fn from_picture(picture: &Picture) -> Self {
        let mut counts = BTreeMap::<State, usize>::new();
        for node in &picture.nodes {
            if let Some(progress) = &node.progress {
                *counts.entry(progress.state).or_default() += 1;
            }
        }
        let entries: Vec<_> = counts
            .into_iter()
            .map(|(state, count)| (state, format!("{} {count}", state.as_str())))
            .collect();
        let width = entries
            .iter()
            .map(|(_, text)| Self::entry_width(text))
            .sum();
        Self { entries, width }
    }

    fn entry_width(text: &str) -> f64 {
        24.0 + width(text, 12.0) + 18.0
    }
}

#[derive(Default)]
struct Writer(String);

impl Writer {
    fn line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{text}");
    }

    fn open(&mut self, picture: &Picture, width: f64, height: f64) {
        let title = escape(&picture.title);
        let subtitle = escape(&picture.subtitle);
        self.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" \
             height=\"{1}\" role=\"img\" aria-labelledby=\"t d\">",
            num(width),
            num(height)
        ));
        self.line(format_args!("<title id=\"t\">{title}</title>"));
        self.line(format_args!("<desc id=\"d\">{subtitle}</desc>"));
        self.line(format_args!("<style>\n{STYLE}</style>"));
        self.line("<rect class=\"bg\" width=\"100%\" height=\"100%\"/>");
        let shown = escape(&fit(&picture.title, 17.0, width - 2.0 * MARGIN));
        self.line(format_args!(
            "<text class=\"title\" x=\"{MARGIN}\" y=\"30\">{shown}</text>"
        ));
        let shown = escape(&fit(&picture.subtitle, 12.0, width - 2.0 * MARGIN));
        self.line(format_args!(
            "<text class=\"sub\" x=\"{MARGIN}\" y=\"48\">{shown}</text>"
        ));
    }

    fn loops(&mut self, layout: &Layout) {
        for rect in &layout.groups {
            self.line(format_args!(
                "<rect class=\"loop\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"14\"/>",
                num(rect.x),
                num(rect.y),
                num(rect.w),
                num(rect.h)
            ));
        }
    }

    fn loop_names(&mut self, picture: &Picture, layout: &Layout) {
        for (one, rect) in picture.loops.iter().zip(&layout.groups) {
            self.line(format_args!(
                "<text class=\"loopname\" x=\"{}\" y=\"{}\"><title>{}: at most {} rounds</title>\
                 loop ≤ {}</text>",
                num(rect.x + 10.0),
                num(rect.y + 15.0),
                escape(&one.name),
                one.max_rounds,
                one.max_rounds,
            ));
        }
    }

    /// Draws taken edges above the others.
    fn edges(&mut self, picture: &Picture, layout: &Layout) {
        let mut order: Vec<_> = picture.edges.iter().zip(&layout.routes).collect();
        order.sort_by_key(|(edge, _)| match edge.flow {
            Flow::Declined => 0,
            Flow::Open => 1,
            Flow::Taken => 2,
        });
        for (edge, route) in &order {
            self.edge(edge, route, layout.direction);
        }
        for (edge, route) in &order {
            if !edge.label.is_empty() {
                self.line(format_args!(
                    "<text class=\"label\" x=\"{}\" y=\"{}\"><title>{}</title>{}</text>",
                    num(route.label.x),
                    num(route.label.y + 4.0),
                    escape(&edge.label),
                    escape(&fit_ends(&edge.label, 11.0, LABEL_WIDTH)),
                ));
            }
        }
    }

    fn edge(&mut self, edge: &Edge, route: &Route, direction: Direction) {
        let mut classes = String::new();
        if edge.on_failure {
            classes.push_str(" fail");
        }
        classes.push_str(match edge.flow {
            Flow::Open => "",
            Flow::Taken => " taken",
            Flow::Declined => " declined",
        });
        let Drawn { path, tip } = drawn(route, direction);
        self.line(format_args!("<path class=\"edge{classes}\" d=\"{path}\"/>"));
        self.line(format_args!("<path class=\"tip{classes}\" d=\"{tip}\"/>"));
    }

    fn node(&mut self, node: &Node, rect: Rect) {
        let state = node.progress.as_ref().map(|progress| progress.state);
        let class = match state {
            Some(state) => state.as_str(),
            None => kind_class(node.kind),
        };
        let off = if node.disabled { " off" } else { "" };
        self.line(format_args!(
            "<g class=\"{class}{off}\" transform=\"translate({} {})\"><title>{}</title>",
            num(rect.x),
            num(rect.y),
            escape(&told(node))
        ));
        self.line(format_args!(
            "<rect class=\"box\" width=\"{}\" height=\"{}\" rx=\"10\"/>",
            num(rect.w),
            num(rect.h)
        ));
        let sign = state
            .and_then(glyph::of_state)
            .unwrap_or_else(|| glyph::of_kind(node.kind));
        self.line(format_args!(
            "<g transform=\"translate(24 {})\"><circle class=\"dot\" r=\"11\"/>\
             <path class=\"glyph\" d=\"{sign}\"/></g>",
            num(rect.h / 2.0)
        ));
        let mut room = rect.w - TEXT_AT - TEXT_END;
        self.line(format_args!(
            "<text class=\"name\" x=\"{TEXT_AT}\" y=\"23\">{}</text>",
            escape(&fit(&node.name, 13.0, room))
        ));
        let took = node.progress.as_ref().and_then(took);
        if let Some(took) = took {
            self.line(format_args!(
                "<text class=\"took\" x=\"{}\" y=\"40\">{took}</text>",
                num(rect.w - TEXT_END)
            ));
            room -= width(&took, 11.0) + 6.0;
        }
        self.line(format_args!(
            "<text class=\"type\" x=\"{TEXT_AT}\" y=\"40\">{}</text>",
            escape(&fit(&under(node), 11.0, room))
        ));
        if let Some(badge) = node.progress.as_ref().and_then(badge) {
            let wide = width(&badge, 10.0) + 12.0;
            let x = rect.w - wide / 2.0 - 6.0;
            self.line(format_args!(
                "<rect class=\"dot\" x=\"{}\" y=\"-8\" width=\"{}\" height=\"16\" rx=\"8\"/>\
                 <text class=\"badge\" x=\"{}\" y=\"3.5\">{badge}</text>",
                num(x - wide / 2.0),
                num(wide),
                num(x)
            ));
        }
        self.line("</g>");
    }

    fn legend(&mut self, legend: &Legend, middle: f64) {
        let mut x = MARGIN;
        for (state, text) in &legend.entries {
            let sign = glyph::of_state(*state).unwrap_or_default();
            self.line(format_args!(
                "<g class=\"{}\" transform=\"translate({} {})\"><circle class=\"dot\" cx=\"8\" \
                 r=\"8\"/><path class=\"glyph\" transform=\"translate(8 0) scale(.75)\" \
                 d=\"{sign}\"/><text class=\"legend\" x=\"22\" y=\"4\">{text}</text></g>",
                state.as_str(),
                num(x),
                num(middle)
            ));
            x += Legend::entry_width(text);
        }
    }
}

/// The paths of a line and of its arrow.
pub(super) struct Drawn {
    pub(super) path: String,
    pub(super) tip: String,
}

/// Draws a line.
pub(super) fn drawn(route: &Route, direction: Direction) -> Drawn {
    let mut path = format!("M{}", at(route.start));
    let mut end = route.start;
    for piece in &route.pieces {
        match *piece {
            Piece::Line(to) => {
                let _ = write!(path, "L{}", at(to));
                end = to;
            }
            Piece::Curve(a, b, to) => {
                let _ = write!(path, "C{} {} {}", at(a), at(b), at(to));
                end = to;
            }
        }
    }
    let (long, wide) = (layout::ARROW, 4.0);
    let tip = match direction {
        Direction::Down => format!("l-{wide}-{long}h{}z", 2.0 * wide),
        Direction::Right => format!("l-{long}-{wide}v{}z", 2.0 * wide),
    };
    let point = match direction {
        Direction::Down => Point {
            y: end.y + long,
            ..end
        },
        Direction::Right => Point {
            x: end.x + long,
            ..end
        },
    };
    let tip = format!("M{}{tip}", at(point));
    Drawn { path, tip }
}

pub(super) fn kind_class(kind: Kind) -> &'static str {
    match kind {
        Kind::Work => "work",
        Kind::Choice => "choice",
        Kind::Loop => "loophead",
        Kind::Delay => "delay",
        Kind::Gate => "gate",
        Kind::SubWorkflow => "sub-workflow",
        Kind::Data => "data",
        Kind::Agent => "agent",
    }
}

/// The tooltip of a node: everything about it.
fn told(node: &Node) -> String {
    let mut told = format!("{} ({}): {}", node.name, node.id, node.type_id);
    if node.disabled {
        told.push_str(", disabled");
    }
    if let Some(progress) = &node.progress {
        let _ = write!(told, ", {}", progress.state.as_str());
        if progress.visits > 1 {
            let _ = write!(told, ", visit {}", progress.visits);
        }
        if progress.attempts > 1 {
            let _ = write!(told, ", attempt {}", progress.attempts);
        }
        if let Some(ms) = progress.took_ms {
            let _ = write!(told, ", took {}", duration(ms));
        }
    }
    told
}

fn took(progress: &Progress) -> Option<String> {
    let ran = matches!(progress.state, State::Completed | State::Failed);
    progress.took_ms.filter(|&ms| ran && ms > 0).map(duration)
}

/// The number of rounds, else of attempts, if there was more than one.
fn badge(progress: &Progress) -> Option<String> {
    match (progress.visits, progress.attempts) {
        (0 | 1, 0 | 1) => None,
        (0 | 1, attempts) => Some(format!("{attempts} tries")),
        (visits, _) => Some(format!("×{visits}")),
    }
}

fn at(point: Point) -> String {
    format!("{} {}", num(point.x), num(point.y))
}

/// A number with at most one digit after the point, which is precise enough and short.
fn num(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    // Avoids "-0".
    format!("{}", tenths + 0.0)
}
