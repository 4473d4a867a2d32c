//! Whether two texts mean the same: unit by unit in order, and the worst pair decides.
//!
//! An answer with one contradicted sentence is as similar to the right one as a paraphrase is, or
//! more; so the whole gets no score here, and a mean never decides. The rules detect
//! differences; only a reader can decide that different words mean the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Options;
use super::align::{Aligned, Pair, align};
use super::normal::normal;
use super::report::{Meaning, UnitPair, Verdict};
use super::rules::Ruling;
use super::text::Text;
use super::units::units;

/// Maximum units of a text that are read for their meaning; longer texts get no verdict.
const MAX_UNITS: usize = 4_000;
/// Maximum bytes of a text whose words are counted.
const MAX_OVERLAP: usize = 1 << 20;
/// Maximum bytes of a unit in a report.
const SHOWN: usize = 300;
/// Pairs that a report names.
const WORST: usize = 5;

/// The vector of each text that was embedded.
pub type Vectors = HashMap<String, Vec<f32>>;
/// A judge's verdicts on pairs of texts.
pub type Judgements = BTreeMap<(String, String), Judgement>;

/// A judge's verdict on two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// They mean the same.
    Same,
    /// They differ.
    Different,
    /// The judge cannot tell.
    Unsure,
}

/// A reader of meaning, and its results.
#[derive(Clone, Copy, Debug)]
pub struct Scorer<'a> {
    /// The model, with its server.
    pub id: &'a str,
    /// Its results for [`pairs_to_read`].
    pub reading: Reading<'a>,
}

/// The results of a reader.
#[derive(Clone, Copy, Debug)]
pub enum Reading<'a> {
    /// A vector for each text.
    Vectors(&'a Vectors),
    /// A judgement of each pair.
    Judgements(&'a Judgements),
}

/// Two texts that no rule decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Undecided {
    /// The text of the first side.
    pub a: String,
    /// The text of the other side.
    pub b: String,
    /// Whether a measure of similarity may decide.
    pub is_open_to_similarity: bool,
}

/// The pairs of units that a reader has to judge to compare two texts.
pub fn pairs_to_read(a: &str, b: &str, options: &Options<'_>) -> Vec<Undecided> {
    let (a, b) = (normal(a), normal(b));
    if a == b {
        return Vec::new();
    }
    let (a, b) = (units(&a), units(&b));
    if a.len().max(b.len()) > MAX_UNITS {
        return Vec::new();
    }
    let pairs = align(&a, &b, options.order).pairs.into_iter();
    let undecided = pairs.filter_map(|pair| match (pair.ruling, pair.a, pair.b) {
        (ruling @ (Ruling::Open(_) | Ruling::Doubtful(_)), Some(a), Some(b)) => Some(Undecided {
            a,
            b,
            is_open_to_similarity: ruling.is_open_to_similarity(),
        }),
        _ => None,
    });
    let undecided: BTreeSet<Undecided> = undecided.collect();
    undecided.into_iter().collect()
}

/// Compares two texts.
pub(super) fn compare(a: &Text<'_>, b: &Text<'_>, options: &Options<'_>) -> Meaning {
    if a.normal() == b.normal() {
        return Meaning::normalized();
    }
    let (one, other) = (a.units(), b.units());
    if one.len().max(other.len()) > MAX_UNITS {
        return Meaning::reason(Verdict::NeedsReview, "too_many_units");
    }
    let aligned = align(one, other, options.order);
    let mut found = judged(aligned, (one.len(), other.len()), options);
    let longest = a.normal().len().max(b.normal().len());
    found.lexical_overlap = (longest <= MAX_OVERLAP).then(|| overlap(a.normal(), b.normal()));
    found
}

/// The meaning of aligned units, by the rules and by the reader.
fn judged(aligned: Aligned, all: (usize, usize), options: &Options<'_>) -> Meaning {
    let mut same = (aligned.same, aligned.same);
    let (mut scores, mut worst) = (Vec::new(), Vec::new());
    for pair in aligned.pairs {
        let (verdict, rule, score) = judge(&pair, options);
        scores.extend(score.map(|score| (score, pair.counts)));
        if verdict == Verdict::Match {
            same = (same.0 + pair.counts.0, same.1 + pair.counts.1);
            continue;
        }
        worst.push(UnitPair {
            a: pair.a.as_deref().map(shown),
            b: pair.b.as_deref().map(shown),
            verdict,
            rule,
            score,
        });
    }
    let verdict = match worst.iter().map(|pair| pair.verdict).min() {
        // Only one of the texts is empty.
        None if (all.0 == 0) != (all.1 == 0) => Verdict::Mismatch,
        None => Verdict::Match,
        Some(verdict) => verdict,
    };
    // Differing pairs come first, then the least similar ones.
    worst.sort_by(|a, b| {
        let score = |pair: &UnitPair| pair.score.unwrap_or(0.0);
        a.verdict
            .cmp(&b.verdict)
            .then(score(a).total_cmp(&score(b)))
    });
    worst.truncate(WORST);
    let sum: f32 = scores.iter().map(|(score, _)| score).sum();
    let equal = aligned.same as f32;
    let mean = |count: usize| (sum + equal) / (count.max(1) as f32);
    let means = (mean(all.0), mean(all.1));
    Meaning {
        verdict,
        is_equivalent: verdict == Verdict::Match,
        scorer: options
            .scorer
            .map_or("normalized", |scorer| scorer.id)
            .to_owned(),
        reason: (verdict == Verdict::NeedsReview && options.scorer.is_none())
            .then_some("semantic_unavailable"),
        min: scores.iter().map(|(score, _)| *score).reduce(f32::min),
        mean_f: (!scores.is_empty())
            .then(|| 2.0 * means.0 * means.1 / (means.0 + means.1).max(f32::MIN_POSITIVE)),
        matching: match all.0 + all.1 {
            0 => 0.0,
            all => (same.0 + same.1) as f64 / all as f64,
        },
        worst,
        lexical_overlap: None,
    }
}

/// Decides one pair: by the rules first, then by the reader.
fn judge(pair: &Pair, options: &Options<'_>) -> (Verdict, Option<&'static str>, Option<f32>) {
    let rule = match pair.ruling {
        Ruling::Same => return (Verdict::Match, None, None),
        Ruling::Differs(rule) => return (Verdict::Mismatch, Some(rule), None),
        Ruling::Doubtful(rule) => Some(rule),
        Ruling::Open(_) => None,
    };
    let undecided = (Verdict::NeedsReview, rule, None);
    let (Some(scorer), Some(a), Some(b)) = (options.scorer, &pair.a, &pair.b) else {
        return undecided;
    };
    match scorer.reading {
        Reading::Vectors(vectors) => {
            let Some((one, other)) = vectors.get(a).zip(vectors.get(b)) else {
                return undecided;
            };
            let score = cosine(one, other);
            if score >= options.similarity && pair.ruling.is_open_to_similarity() {
                (Verdict::Match, None, Some(score))
            } else {
                (Verdict::NeedsReview, rule, Some(score))
            }
        }
        Reading::Judgements(judgements) => match judgements.get(&(a.clone(), b.clone())) {
            Some(Judgement::Same) => (Verdict::Match, None, None),
            Some(Judgement::Different) => (Verdict::Mismatch, Some("judge"), None),
            Some(Judgement::Unsure) | None => undecided,
        },
    }
}

fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN);
    if end < text.len() {
        format!("{}…", &text[..end])
    } else {
        text.to_owned()
    }
}

/// The cosine of two vectors; 0 if their lengths differ.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let length = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    let lengths = length(a) * length(b);
    if a.len() == b.len() && lengths > 0.0 {
        a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>() / lengths
    } else {
        0.0
    }
}

/// The share of common words of two texts.
fn overlap(a: &str, b: &str) -> f32 {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    match a.union(&b).count() {
        0 => 0.0,
        all => a.intersection(&b).count() as f32 / all as f32,
    }
}
