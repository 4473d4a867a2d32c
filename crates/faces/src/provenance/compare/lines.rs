//! Compares two texts line by line.

use std::collections::HashMap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Maximum lines compared on each side; of longer texts the part around the first difference.
const MAX_LINES: usize = 2_000;
/// Lines shown around a difference.
const AROUND: usize = 3;

/// A line of each side, or of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The same on both.
    Same(String),
    /// A different one on each.
    Changed(String, String),
    /// On the first side only.
    Gone(String),
    /// On the other side only.
    New(String),
    /// A number of omitted equal lines.
    LeftOut(usize),
}

/// Maximum characters shown of a line.
const CHARS: usize = 400;
/// Characters shown before a difference.
const AHEAD: usize = 24;

/// The first line that differs, from 1, and its text on both sides.
pub(super) fn first_difference(a: &str, b: &str) -> (usize, Option<String>, Option<String>) {
    let (mut one, mut other) = (a.lines(), b.lines());
    let mut at = 1;
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => at += 1,
            (None, None) => return (at, None, None),
            (Some(a), Some(b)) => {
                let (a, b) = both_shown(a, b);
                return (at, Some(a), Some(b));
            }
            (a, b) => return (at, a.map(shown), b.map(shown)),
        }
    }
}

/// A line, shortened for display.
fn shown(line: &str) -> String {
    shown_from(line, 0)
}

/// Two differing lines: of long ones the part at the first difference.
fn both_shown(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = if same < CHARS - AHEAD {
        0
    } else {
        same - AHEAD
    };
    (shown_from(a, from), shown_from(b, from))
}

/// A part of a line, from a character on.
fn shown_from(line: &str, from: usize) -> String {
    let begin = line.char_indices().nth(from);
    let rest = begin.map_or("", |(at, _)| &line[at..]);
    let end = rest.char_indices().nth(CHARS);
    let part = end.map_or(rest, |(at, _)| &rest[..at]);
    let before = if from > 0 { "…" } else { "" };
    let behind = if end.is_some() { "…" } else { "" };
    format!("{before}{part}{behind}")
}

/// Compares two texts line by line, with the equal lines around each difference.
pub fn side_by_side(a: &str, b: &str) -> Vec<Line> {
    let (one, other): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(AROUND);
    let window = |length: usize| from.min(length)..(from + MAX_LINES).min(length);
    let (one, other) = (&one[window(one.len())], &other[window(other.len())]);
    // Each line is read once and replaced by a number, because long lines would be compared often.
    let mut known = HashMap::new();
    let (numbers, others) = (numbered(one, &mut known), numbered(other, &mut known));
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(Line::LeftOut(from));
    }
    for part in capture_diff_slices(Algorithm::Patience, &numbers, &others) {
        let (gone, new) = (&one[part.old_range()], &other[part.new_range()]);
        if matches!(part, DiffOp::Equal { .. }) {
            lines.extend(gone.iter().map(|line| Line::Same(shown(line))));
            continue;
        }
        let pairs = gone.iter().zip(new).map(|(a, b)| both_shown(a, b));
        lines.extend(pairs.map(|(a, b)| Line::Changed(a, b)));
        let more = gone.iter().skip(new.len());
        lines.extend(more.map(|line| Line::Gone(shown(line))));
        let more = new.iter().skip(gone.len());
        lines.extend(more.map(|line| Line::New(shown(line))));
    }
    shorten(lines)
}

/// A number for each line, equal for equal lines.
fn numbered<'a>(lines: &[&'a str], known: &mut HashMap<&'a str, usize>) -> Vec<usize> {
    let mut number = |line: &&'a str| {
        let next = known.len();
        *known.entry(line).or_insert(next)
    };
    lines.iter().map(&mut number).collect()
}

/// Leaves out lines far from any difference.
fn shorten(lines: Vec<Line>) -> Vec<Line> {
    let is_near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(lines.len());
        lines[from..to]
            .iter()
            .any(|line| !matches!(line, Line::Same(_)))
    };
    let mut short: Vec<Line> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match (is_near(at), short.last_mut()) {
            (true, _) => short.push(line.clone()),
            (false, Some(Line::LeftOut(count))) => *count += 1,
            (false, _) => short.push(Line::LeftOut(1)),
        }
    }
    short
}
