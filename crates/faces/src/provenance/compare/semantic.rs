//! Whether two texts mean the same: unit by unit, and the worst pair decides.
//!
//! A whole answer with one contradicted sentence is as similar to the right one as a paraphrase is,
//! or more; so there is no score of the whole here, and a mean never decides.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::Options;
use super::guard;
use super::normal::normal;
use super::report::{Meaning, WorstPair};
use super::text::Text;
use super::units::{Kind, Unit, units};

/// Units of a text that are read for their meaning; of longer ones nothing is said.
const MAX_UNITS: usize = 4_000;
/// Bytes of a text whose words are counted.
const MAX_OVERLAP: usize = 1 << 20;
/// Bytes of a unit that a report repeats.
const SHOWN: usize = 300;
/// Pairs that a report names.
const WORST: usize = 5;

/// The vector of each text that was embedded.
pub type Vectors = HashMap<String, Vec<f32>>;

/// Who reads meaning.
#[derive(Clone, Copy, Debug)]
pub struct Scorer<'a> {
    /// Which model, by the hash of its weights or the name of who serves it.
    pub id: &'a str,
    /// What it made of [`texts_to_embed`].
    pub vectors: &'a Vectors,
}

/// The texts that a scorer has to be asked about to compare two texts; none where they agree
/// without it.
pub fn texts_to_embed(a: &str, b: &str) -> Vec<String> {
    let (a, b) = (normal(a), normal(b));
    if a == b {
        return Vec::new();
    }
    let (a, b) = (units(&a), units(&b));
    if a.len().max(b.len()) > MAX_UNITS {
        return Vec::new();
    }
    // A unit that stands on the other side as it is needs no score.
    let texts = |units: &[Unit]| -> BTreeSet<String> {
        let prose = units.iter().filter(|unit| unit.is_prose());
        prose.map(|unit| unit.text.clone()).collect()
    };
    let (one, other) = (texts(&a), texts(&b));
    match one == other {
        true => Vec::new(),
        false => one.union(&other).cloned().collect(),
    }
}

/// The cosine of two texts' vectors, for people who want to see a number.
pub fn text_similarity(vectors: &Vectors, a: &str, b: &str) -> Option<f32> {
    Some(cosine(vectors.get(a)?, vectors.get(b)?))
}

/// Compares two texts.
pub(super) fn compare(a: &Text<'_>, b: &Text<'_>, options: &Options<'_>) -> Meaning {
    if a.normal() == b.normal() {
        return Meaning::normalized();
    }
    let (one, other) = (a.units(), b.units());
    let (a, b) = (a.normal(), b.normal());
    let scorer = options
        .scorer
        .filter(|_| one.len().max(other.len()) <= MAX_UNITS);
    let sides = (known(one, scorer), known(other, scorer));
    let mut sides = [
        align(&sides.0, &sides.1, options.similarity),
        align(&sides.1, &sides.0, options.similarity),
    ];
    let all = one.len() + other.len();
    let matching: usize = sides.iter().map(|side| side.matching).sum();
    let is_equivalent = all > 0 && matching == all && !one.is_empty() && !other.is_empty();
    let mut worst: Vec<WorstPair> = Vec::new();
    for (side, is_turned) in sides.iter_mut().zip([false, true]) {
        for mut pair in side.worst.drain(..) {
            if is_turned && let Some(b) = pair.b.take() {
                pair.b = Some(std::mem::replace(&mut pair.a, b));
            }
            if !worst
                .iter()
                .any(|known| known.a == pair.a && known.b == pair.b)
            {
                worst.push(pair);
            }
        }
    }
    worst.sort_by(|a, b| {
        let contradicts = |pair: &WorstPair| pair.contradiction.is_none();
        contradicts(a)
            .cmp(&contradicts(b))
            .then(a.score.total_cmp(&b.score))
    });
    worst.truncate(WORST);
    let min = sides
        .iter()
        .map(|side| side.min)
        .fold(f32::INFINITY, f32::min);
    let means = sides.map(|side| side.mean);
    let sum = means[0] + means[1];
    Meaning {
        is_equivalent,
        scorer: scorer.map_or("normalized", |scorer| scorer.id).to_owned(),
        reason: match (scorer, options.scorer, is_equivalent) {
            (None, None, false) => Some("semantic_unavailable"),
            (None, Some(_), false) => Some("too_many_units"),
            _ => None,
        },
        min: scorer
            .is_some()
            .then_some(min)
            .filter(|min| min.is_finite()),
        mean_f: scorer.map(|_| {
            if sum > 0.0 {
                2.0 * means[0] * means[1] / sum
            } else {
                0.0
            }
        }),
        matching: if all == 0 {
            0.0
        } else {
            matching as f64 / all as f64
        },
        worst,
        lexical_overlap: (a.len().max(b.len()) <= MAX_OVERLAP).then(|| overlap(a, b)),
    }
}

/// One direction of an alignment.
struct Aligned {
    matching: usize,
    min: f32,
    mean: f32,
    worst: Vec<WorstPair>,
}

/// A unit with what it is found by.
struct Known<'a> {
    unit: &'a Unit,
    key: (bool, Cow<'a, str>),
    /// What the scorer made of it, of length 1.
    vector: Option<Vec<f32>>,
}

fn known<'a>(units: &'a [Unit], scorer: Option<Scorer<'_>>) -> Vec<Known<'a>> {
    let known = units.iter().map(|unit| Known {
        unit,
        key: (unit.is_prose(), plain(unit)),
        vector: scorer
            .filter(|_| unit.is_prose())
            .and_then(|scorer| Some(unit_vector(scorer.vectors.get(&unit.text)?))),
    });
    known.collect()
}

fn align(from: &[Known<'_>], to: &[Known<'_>], least: f32) -> Aligned {
    let there: HashSet<&(bool, Cow<'_, str>)> = to.iter().map(|known| &known.key).collect();
    // The same sentence is not looked for twice, nor looked at.
    let mut seen = HashSet::new();
    let others = to
        .iter()
        .filter_map(|known| Some((known, known.vector.as_deref()?)));
    let others: Vec<(&Unit, &[f32])> = others
        .filter(|(known, _)| seen.insert(&known.key))
        .map(|(known, vector)| (known.unit, vector))
        .collect();
    let mut found: HashMap<&str, Partner<'_>> = HashMap::new();
    let mut aligned = Aligned {
        matching: 0,
        min: f32::INFINITY,
        mean: 0.0,
        worst: Vec::new(),
    };
    for Known { unit, key, vector } in from {
        if there.contains(key) {
            aligned.matching += 1;
            aligned.min = aligned.min.min(1.0);
            aligned.mean += 1.0;
            continue;
        }
        let partner = match vector {
            None => Partner::default(),
            Some(vector) => *found
                .entry(&unit.text)
                .or_insert_with(|| Partner::of(unit, vector, &others)),
        };
        aligned.min = aligned.min.min(partner.score);
        aligned.mean += partner.score;
        let contradiction = partner.contradiction;
        if partner.unit.is_some() && partner.score >= least && contradiction.is_none() {
            aligned.matching += 1;
        } else if aligned.worst.len() < WORST * 20 {
            aligned.worst.push(WorstPair {
                a: shown(&unit.text),
                b: partner.unit.map(|other| shown(&other.text)),
                score: partner.score,
                contradiction,
            });
        }
    }
    if !from.is_empty() {
        aligned.mean /= from.len() as f32;
    }
    aligned
}

/// The unit of the other side that is most like one.
#[derive(Clone, Copy, Default)]
struct Partner<'a> {
    unit: Option<&'a Unit>,
    score: f32,
    contradiction: Option<&'static str>,
}

impl<'a> Partner<'a> {
    fn of(unit: &Unit, vector: &[f32], others: &[(&'a Unit, &[f32])]) -> Self {
        let mut best: Option<(f32, &Unit)> = None;
        for (other, with) in others {
            let score = dot(vector, with);
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, other));
            }
        }
        best.map_or_else(Self::default, |(score, other)| Self {
            unit: Some(other),
            score,
            contradiction: guard::contradiction(&unit.text, &other.text),
        })
    }
}

/// What makes two units the same without a score: code by its lines, as where these begin may say
/// what belongs to what.
fn plain(unit: &Unit) -> Cow<'_, str> {
    match unit.kind {
        Kind::Code(_) => super::shape::lines(&unit.text).join("\n").into(),
        _ => unit.text.as_str().into(),
    }
}

fn shown(text: &str) -> String {
    let mut end = text.len().min(SHOWN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match end < text.len() {
        true => format!("{}…", &text[..end]),
        false => text.to_owned(),
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    dot(&unit_vector(a), &unit_vector(b))
}

/// A vector as one of length 1; of nothing nothing.
fn unit_vector(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    match length > 0.0 {
        true => vector.iter().map(|x| x / length).collect(),
        false => Vec::new(),
    }
}

/// The cosine of two vectors of length 1; 0 of those that do not go together.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    match a.len() == b.len() {
        true => a.iter().zip(b).map(|(a, b)| a * b).sum(),
        false => 0.0,
    }
}

/// The part of the words of both texts that both have.
fn overlap(a: &str, b: &str) -> f32 {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    let all = a.union(&b).count();
    if all == 0 {
        0.0
    } else {
        a.intersection(&b).count() as f32 / all as f32
    }
}
