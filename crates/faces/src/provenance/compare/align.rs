//! Aligns two texts unit by unit, in order: equal units, moved ones, one-sided ones, and the rules'
//! rulings on the rest.

use std::collections::{HashMap, HashSet};

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::Order;
use super::rules::{Ruling, rule};
use super::tokens::{Style, Token, code_tokens, tokens};
use super::units::{Kind, Unit};

/// Corresponding units of both sides, or a one-sided unit.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) a: Option<String>,
    pub(super) b: Option<String>,
    /// The number of units on each side.
    pub(super) counts: (usize, usize),
    pub(super) ruling: Ruling,
}

/// The result of an alignment.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    /// Units of the first side with an equal one on the other.
    pub(super) same: usize,
    /// The rest.
    pub(super) pairs: Vec<Pair>,
}

/// Aligns two texts.
pub(super) fn align(a: &[Unit], b: &[Unit], order: Order) -> Aligned {
    let mut numbers = HashMap::new();
    let (one, other) = (keys(a, order, &mut numbers), keys(b, order, &mut numbers));
    let mut aligned = Aligned::default();
    let gaps = match order {
        Order::Kept => in_order(&one, &other, |left, right| {
            aligned.equal(&a[left], &b[right])
        }),
        Order::Any => in_any_order(&one, &other, |left, right| {
            aligned.equal(&a[left], &b[right])
        }),
    };
    let moved = moved(&gaps, &one, &other);
    for (left, right) in gaps {
        let [from, to] = [(&a, &one, left), (&b, &other, right)].map(|(units, keys, places)| {
            let mut here = Vec::new();
            for at in places {
                if moved.contains(&keys[at]) {
                    aligned.push(&units[at..=at], &[], Ruling::Differs("unit_order"))
                } else {
                    here.push(units[at].clone())
                }
            }
            here
        });
        aligned.gap(&from, &to);
    }
    aligned
}

/// A number for each unit, equal for equal units. In free order, units only count as equal under
/// the same headings and as parts of the same kind.
fn keys(units: &[Unit], order: Order, known: &mut HashMap<String, usize>) -> Vec<usize> {
    let keys = units.iter().map(|unit| {
        let key = match order {
            Order::Kept => unit.key(),
            Order::Any => format!("{:?}\n{}\n{}", unit.kind, unit.path, unit.key()),
        };
        let next = known.len();
        *known.entry(key).or_insert(next)
    });
    keys.collect()
}

/// Places of both sides between equal units.
type Gap = (Vec<usize>, Vec<usize>);

fn in_order(a: &[usize], b: &[usize], mut equal: impl FnMut(usize, usize)) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    let mut is_open = false;
    for part in capture_diff_slices(Algorithm::Patience, a, b) {
        let (old, new) = (part.old_range(), part.new_range());
        if matches!(part, DiffOp::Equal { .. }) {
            old.zip(new).for_each(|(left, right)| equal(left, right));
            is_open = false;
            continue;
        }
        match gaps.last_mut().filter(|_| is_open) {
            // Removed and added units at the same place are compared with each other.
            Some((left, right)) => {
                left.extend(old);
                right.extend(new);
            }
            None => gaps.push((old.collect(), new.collect())),
        }
        is_open = true;
    }
    gaps
}

fn in_any_order(a: &[usize], b: &[usize], mut equal: impl FnMut(usize, usize)) -> Vec<Gap> {
    let mut there: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, key) in b.iter().enumerate().rev() {
        there.entry(*key).or_default().push(at);
    }
    let (mut left, mut is_taken) = (Vec::new(), vec![false; b.len()]);
    for (at, key) in a.iter().enumerate() {
        match there.get_mut(key).and_then(Vec::pop) {
            Some(with) => {
                is_taken[with] = true;
                equal(at, with);
            }
            None => left.push(at),
        }
    }
    let right = (0..b.len()).filter(|at| !is_taken[*at]).collect();
    vec![(left, right)]
}

/// The units that are on both sides in a different order.
fn moved(gaps: &[Gap], a: &[usize], b: &[usize]) -> HashSet<usize> {
    let left = gaps
        .iter()
        .flat_map(|(left, _)| left.iter().map(|at| a[*at]));
    let left: HashSet<usize> = left.collect();
    let right = gaps
        .iter()
        .flat_map(|(_, right)| right.iter().map(|at| b[*at]));
    right.filter(|key| left.contains(key)).collect()
}

impl Aligned {
    fn push(&mut self, a: &[Unit], b: &[Unit], ruling: Ruling) {
        let text = |units: &[Unit]| {
            let texts: Vec<&str> = units.iter().map(|unit| unit.text.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join(" "))
        };
        self.pairs.push(Pair {
            a: text(a),
            b: text(b),
            counts: (a.len(), b.len()),
            ruling,
        });
    }

    /// Two units with the same text: they are equal if they are parts of the same kind.
    fn equal(&mut self, a: &Unit, b: &Unit) {
        match structure(&a.kind, &b.kind) {
            None => self.same += 1,
            Some(ruling) => self.push(std::slice::from_ref(a), std::slice::from_ref(b), ruling),
        }
    }

    /// Units at the same place on both sides that are not equal.
    fn gap(&mut self, a: &[Unit], b: &[Unit]) {
        if a.len() == b.len() {
            for (a, b) in a.iter().zip(b) {
                match structure(&a.kind, &b.kind) {
                    None if ruling(a, b) == Ruling::Same => self.same += 1,
                    found => {
                        let ruling = match (found, ruling(a, b)) {
                            (_, differs @ Ruling::Differs(_)) => differs,
                            (Some(found), _) => found,
                            (None, ruling) => ruling,
                        };
                        self.push(std::slice::from_ref(a), std::slice::from_ref(b), ruling);
                    }
                }
            }
            return;
        }
        if a.is_empty() || b.is_empty() {
            for unit in a.iter().chain(b) {
                // An additional sentence may be a courtesy; a step, a row or a block of code is
                // not.
                let ruling = match unit.kind {
                    Kind::Sentence => Ruling::Doubtful("missing"),
                    _ => Ruling::Differs("missing"),
                };
                let one = std::slice::from_ref(unit);
                if a.is_empty() {
                    self.push(&[], one, ruling)
                } else {
                    self.push(one, &[], ruling)
                }
            }
            return;
        }
        // Different counts: one unit may have been split into two, except code and rows.
        let is_fixed = |unit: &&Unit| matches!(unit.kind, Kind::Code(_) | Kind::Row);
        let fixed = |units: &[Unit]| units.iter().filter(is_fixed).count();
        if fixed(a) != fixed(b) {
            // A table may have been rephrased as prose; otherwise a row is missing.
            let is_all_fixed = a.iter().chain(b).all(|unit| is_fixed(&unit));
            return self.push(
                a,
                b,
                if is_all_fixed {
                    Ruling::Differs("missing")
                } else {
                    Ruling::Doubtful("structure")
                },
            );
        }
        let all = |units: &[Unit]| -> Vec<Token> {
            units
                .iter()
                .flat_map(|unit| unit.tokens.iter().cloned())
                .collect()
        };
        let ruling = match rule(&all(a), &all(b)) {
            Ruling::Open(_) | Ruling::Same => Ruling::Doubtful("units"),
            ruling => ruling,
        };
        self.push(a, b, ruling);
    }
}

/// The ruling on two units that are different kinds of parts.
fn structure(a: &Kind, b: &Kind) -> Option<Ruling> {
    match (a, b) {
        (Kind::Heading(one), Kind::Heading(other)) if one == other => None,
        (Kind::Item(one, depth), Kind::Item(other, with)) if one == other && depth == with => None,
        (Kind::Heading(_), Kind::Heading(_)) | (Kind::Item(..), Kind::Item(..)) => {
            Some(Ruling::Differs("structure"))
        }
        (Kind::Sentence, Kind::Sentence) | (Kind::Row, Kind::Row) => None,
        (Kind::Code(one), Kind::Code(other)) => {
            let is_same = one == other || one.is_empty() || other.is_empty();
            (!is_same).then_some(Ruling::Doubtful("structure"))
        }
        _ => Some(Ruling::Doubtful("structure")),
    }
}

/// The rules' ruling on two units of the same kind.
fn ruling(a: &Unit, b: &Unit) -> Ruling {
    match (&a.kind, &b.kind) {
        (Kind::Code(_), Kind::Code(_)) if a.key() == b.key() => Ruling::Same,
        (Kind::Code(_), Kind::Code(_)) => code(&a.text, &b.text),
        (Kind::Row, Kind::Row) => row(a, b),
        _ => rule(&a.tokens, &b.tokens),
    }
}

/// The rules' ruling on two pieces of different code. Different code may be equivalent.
pub(super) fn code(a: &str, b: &str) -> Ruling {
    match rule(&code_tokens(a), &code_tokens(b)) {
        differs @ Ruling::Differs(_) => differs,
        _ => Ruling::Doubtful("code"),
    }
}

/// The rules' ruling on two rows: cell by cell.
fn row(a: &Unit, b: &Unit) -> Ruling {
    let cells = |unit: &Unit| -> Vec<Vec<Token>> {
        let inner = unit.text.trim_matches('|');
        inner
            .split('|')
            .map(|cell| tokens(cell, Style::Sentence))
            .collect()
    };
    let (one, other) = (cells(a), cells(b));
    if one.len() != other.len() {
        return Ruling::Differs("structure");
    }
    let rulings: Vec<Ruling> = one.iter().zip(&other).map(|(a, b)| rule(a, b)).collect();
    let changed = rulings
        .iter()
        .filter(|ruling| **ruling != Ruling::Same)
        .count();
    let texts = |cells: &[Vec<Token>]| {
        let texts = cells.iter().map(|cell| {
            let texts: Vec<&str> = cell.iter().map(|token| token.text.as_str()).collect();
            texts.join(" ")
        });
        let mut texts: Vec<String> = texts.collect();
        texts.sort();
        texts
    };
    if changed > 1 && texts(&one) == texts(&other) {
        return Ruling::Differs("unit_order");
    }
    let differs = rulings
        .iter()
        .find(|ruling| matches!(ruling, Ruling::Differs(_)));
    let open = rulings.iter().find(|ruling| **ruling != Ruling::Same);
    match (differs, open) {
        (Some(differs), _) => *differs,
        // Cells are too short for a measure of similarity.
        (None, Some(_)) => Ruling::Doubtful("cells"),
        (None, None) => Ruling::Same,
    }
}
