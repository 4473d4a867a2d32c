//! Two texts line beside line.

use similar::{Algorithm, ChangeTag, TextDiff};

/// Lines that are looked at on each side; of longer texts the part around the first difference.
const MAX_LINES: usize = 2_000;
/// Lines around a difference that are shown.
const AROUND: usize = 3;

/// A line of each side, or of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The same on both.
    Same(String),
    /// Another one on each.
    Changed(String, String),
    /// On the first side only.
    Gone(String),
    /// On the other side only.
    New(String),
    /// Some lines that are the same on both are left out.
    LeftOut(usize),
}

/// The first line that differs, from 1, and what stands there.
pub(super) fn first_difference(a: &str, b: &str) -> (usize, Option<String>, Option<String>) {
    let (mut one, mut other) = (a.lines(), b.lines());
    let mut at = 1;
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => at += 1,
            (None, None) => return (at, None, None),
            (a, b) => return (at, a.map(shown), b.map(shown)),
        }
    }
}

/// A line of which nobody wants to see a megabyte.
fn shown(line: &str) -> String {
    const CHARS: usize = 400;
    let cut: String = line.chars().take(CHARS).collect();
    if cut.len() < line.len() {
        cut + "…"
    } else {
        cut
    }
}

/// Two texts line beside line, with what is the same around each difference.
pub fn side_by_side(a: &str, b: &str) -> Vec<Line> {
    let (one, other): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(AROUND);
    let window = |lines: &[&str]| -> Vec<String> {
        lines
            .iter()
            .skip(from)
            .take(MAX_LINES)
            .map(|line| shown(line))
            .collect()
    };
    let (one, other) = (window(&one), window(&other));
    let (one, other): (Vec<&str>, Vec<&str>) = (
        one.iter().map(String::as_str).collect(),
        other.iter().map(String::as_str).collect(),
    );
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Patience)
        .diff_slices(&one, &other);
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(Line::LeftOut(from));
    }
    let (mut gone, mut new): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let flush = |gone: &mut Vec<String>, new: &mut Vec<String>, lines: &mut Vec<Line>| {
        let pairs = gone.len().min(new.len());
        lines.extend(
            gone.drain(..pairs)
                .zip(new.drain(..pairs))
                .map(|(a, b)| Line::Changed(a, b)),
        );
        lines.extend(gone.drain(..).map(Line::Gone));
        lines.extend(new.drain(..).map(Line::New));
    };
    for change in diff.iter_all_changes() {
        let text = change.value().to_owned();
        match change.tag() {
            ChangeTag::Delete => gone.push(text),
            ChangeTag::Insert => new.push(text),
            ChangeTag::Equal => {
                flush(&mut gone, &mut new, &mut lines);
                lines.push(Line::Same(text));
            }
        }
    }
    flush(&mut gone, &mut new, &mut lines);
    shorten(lines)
}

/// Leaves out what is far from any difference.
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
