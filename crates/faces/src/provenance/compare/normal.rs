//! Normalises equivalent notations of a text: characters, line ends, white space, emphasis.

use std::collections::HashMap;

use icu_normalizer::ComposingNormalizer;

use super::units::ProseFence;

/// Open runs of emphasis signs that are searched. Deeper nesting does not occur in practice, and
/// without a bound, a line of unclosed runs would take quadratic time.
const NESTED: usize = 64;

/// The text in its normal form.
pub(super) fn normal(text: &str) -> String {
    let composed = characters(text).replace("\r\n", "\n");
    let mut out = String::with_capacity(composed.len());
    let (mut blank, mut in_fence, mut prose) = (false, false, None::<ProseFence>);
    for line in composed.lines() {
        let line = line.trim_end();
        let bare = line.trim_start();
        let is_fence = bare.starts_with("```");
        if is_fence && !in_fence {
            match prose {
                Some(open) if open.is_closed_by(bare) => prose = None,
                None if ProseFence::open(bare).is_some() => prose = ProseFence::open(bare),
                _ => in_fence = true,
            }
        } else {
            in_fence &= !is_fence;
        }
        if line.is_empty() {
            blank = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut blank) {
            out.push('\n');
        }
        // Most lines have no sign of emphasis.
        if in_fence || is_fence || !line.contains(['*', '_', '`']) {
            out.push_str(line)
        } else {
            out.push_str(&plain(line))
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Maps characters that look the same to one: composed, quotes and dashes of one kind, each space a
/// space. Characters that change a value stay: `10²` is not `102`.
fn characters(text: &str) -> String {
    let is_raised = |c: char| matches!(c, '²' | '³' | '¹' | '¼'..='¾' | '\u{2070}'..='\u{209c}' | '\u{2150}'..='\u{215f}' | '™' | '®' | '©');
    let nfkc = ComposingNormalizer::new_nfkc();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_raised).unwrap_or(rest.len());
        plain.push_str(&nfkc.normalize(&rest[..end]));
        let raised = rest[end..].chars().next();
        plain.extend(raised);
        rest = &rest[end + raised.map_or(0, char::len_utf8)..];
    }
    let mut shown = String::with_capacity(plain.len());
    for c in plain.chars() {
        shown.push(match c {
            '\u{200b}' | '\u{feff}' | '\u{ad}' | '\u{2060}' => continue,
            '‘' | '’' | '‚' | '‛' | 'ʼ' | '′' | '´' => '\'',
            '“' | '”' | '„' | '‟' | '«' | '»' | '″' => '"',
            '‐' | '‑' | '‒' | '−' => '-',
            // A range, with any dash.
            '–' if shown.ends_with(|before: char| before.is_ascii_digit()) => '-',
            '―' => '—',
            '•' | '◦' | '‣' | '▪' | '●' | '○' | '∙' => '•',
            '⁄' => '/',
            c if c.is_whitespace() && !matches!(c, '\n' | '\r' | '\t') => ' ',
            c => c,
        });
    }
    shown
}

/// A line without markdown's emphasis: runs of stars or underscores of the same length that open
/// before a word and close after one. Within a word and in code between backticks they are literal.
fn plain(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let ticks = ticks(&chars);
    let mut opened: Vec<(usize, usize)> = Vec::new();
    let mut taken = vec![false; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if !matches!(c, '*' | '_' | '`') {
            at += 1;
            continue;
        }
        let length = chars[at..].iter().take_while(|next| **next == c).count();
        let behind = at + length;
        if c == '`' {
            // Up to a run of backticks of the same length, if there is one.
            at = code_end(&ticks, behind, length).unwrap_or(behind);
            continue;
        }
        let (before, after) = (
            at.checked_sub(1).and_then(|at| chars.get(at)),
            chars.get(behind),
        );
        let word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
        let space = |c: Option<&char>| c.is_none_or(|c| c.is_whitespace());
        let is_open = |open: &(usize, usize)| chars[open.0] == c && open.1 == length;
        let back = opened.iter().rev().take(NESTED).position(is_open);
        let open = back.map(|back| opened.len() - 1 - back);
        if let Some(open) = open.filter(|_| !space(before) && !word(after)) {
            let (start, length) = opened[open];
            opened.truncate(open);
            taken[start..start + length].fill(true);
            taken[at..behind].fill(true);
        } else if !space(after) && !word(before) {
            opened.push((at, length));
        }
        at = behind;
    }
    let left = chars.iter().zip(&taken).filter(|(_, taken)| !**taken);
    left.map(|(c, _)| *c).collect()
}

/// The places of runs of backticks by their length, in order.
fn ticks(chars: &[char]) -> HashMap<usize, Vec<usize>> {
    let mut ticks: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut at = 0;
    while at < chars.len() {
        let length = chars[at..].iter().take_while(|c| **c == '`').count();
        if length > 0 {
            ticks.entry(length).or_default().push(at);
        }
        at += length.max(1);
    }
    ticks
}

/// The end of the code that a run of backticks opened. An index, since searching the line for each
/// unclosed run would take quadratic time.
fn code_end(ticks: &HashMap<usize, Vec<usize>>, from: usize, length: usize) -> Option<usize> {
    let starts = ticks.get(&length)?;
    let next = starts.partition_point(|start| *start < from);
    starts.get(next).map(|start| start + length)
}

/// A text with each run of white space as one space.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
