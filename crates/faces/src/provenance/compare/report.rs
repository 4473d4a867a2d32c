//! The result of a comparison.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::super::document::MatchStatus;
use super::super::ladder::{Level, Strategy};
use super::drift::{Difference, MetricDelta};

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The baseline snapshot.
    pub a: String,
    /// The other snapshot.
    pub b: String,
    /// The status by the ladder; `None` without anything to compare.
    pub match_status: Option<MatchStatus>,
    /// The condition to pass.
    pub strategy: Strategy,
    /// Whether it does.
    pub pass: bool,
    /// Whether both mean the same, for any strategy.
    pub verdict: Verdict,
    /// The first divergence of the executions.
    pub first_divergence: Option<FirstDivergence>,
    /// The agreement of the responses.
    pub response: Level,
    /// The comparison of their meaning.
    pub meaning: Meaning,
    /// The minimum similarity that was used.
    #[serde(serialize_with = "rounded")]
    pub similarity: f32,
    /// The other fields.
    pub fields: Vec<FieldReport>,
    /// Differences of the setup before the execution.
    pub drift: Vec<Difference>,
    /// Differences in the metrics; never part of a verdict.
    pub metrics: Vec<MetricDelta>,
}

impl Comparison {
    /// Whether it failed only because it is undecided: the strategy asks for the same meaning, and
    /// no difference is known.
    pub fn needs_review(&self) -> bool {
        !self.pass && self.strategy == Strategy::Semantic && self.verdict == Verdict::NeedsReview
    }
}

kernel::words! {
    /// Whether two things mean the same. A certain verdict on one part decides for the whole: the
    /// lowest of several verdicts.
    pub enum Verdict {
        /// They differ.
        Mismatch = "mismatch",
        /// Undecided without a review.
        NeedsReview = "needs_review",
        /// They do.
        Match = "match",
    }
}

/// A compared field other than the response.
#[derive(Clone, Debug, Serialize)]
pub struct FieldReport {
    /// Its path in the document.
    pub field: &'static str,
    /// Its agreement.
    pub level: Level,
    /// Whether both sides mean the same in it.
    pub verdict: Verdict,
    /// Whether it is an empty list on both sides.
    #[serde(skip)]
    pub is_empty: bool,
    /// The entries in which it differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

impl FieldReport {
    pub(super) fn unavailable(field: &'static str) -> Self {
        Self {
            field,
            level: Level::Unavailable,
            verdict: Verdict::Match,
            is_empty: false,
            differences: Vec::new(),
        }
    }
}

/// The first divergence of two executions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FirstDivergence {
    /// In which field.
    pub field: &'static str,
    /// The tool call, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The artifact, or the place in an input or output as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line of a text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// A description.
    pub what: String,
    /// The value on the first side.
    pub a: Option<Value>,
    /// And on the other.
    pub b: Option<Value>,
}

/// The comparison of the meaning of two texts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meaning {
    /// Whether they mean the same.
    pub verdict: Verdict,
    /// Whether that is certain.
    pub is_equivalent: bool,
    /// `identical`, `normalized`, or the name of the scorer.
    pub scorer: String,
    /// The reason for a missing result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The lowest similarity of two units.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_rounded"
    )]
    pub min: Option<f32>,
    /// The mean of both directions' means, harmonically.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_rounded"
    )]
    pub mean_f: Option<f32>,
    /// The share of units with an equivalent counterpart.
    pub matching: f64,
    /// The pairs that differ, and those that need review.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<UnitPair>,
    /// The share of common words: shown, but never decides.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_rounded"
    )]
    pub lexical_overlap: Option<f32>,
}

impl Meaning {
    pub(super) fn identical() -> Self {
        Self {
            scorer: "identical".to_owned(),
            ..Self::normalized()
        }
    }

    pub(super) fn normalized() -> Self {
        Self {
            verdict: Verdict::Match,
            is_equivalent: true,
            scorer: "normalized".to_owned(),
            reason: None,
            min: None,
            mean_f: None,
            matching: 1.0,
            worst: Vec::new(),
            lexical_overlap: None,
        }
    }

    /// A result with the reason why it is not a match.
    pub(super) fn reason(verdict: Verdict, reason: &'static str) -> Self {
        Self {
            verdict,
            is_equivalent: false,
            reason: Some(reason),
            matching: 0.0,
            ..Self::normalized()
        }
    }
}

/// Two differing units, or a one-sided one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitPair {
    /// The unit of the first side.
    pub a: Option<String>,
    /// The unit of the other.
    pub b: Option<String>,
    /// Whether they differ, or need review.
    pub verdict: Verdict,
    /// By which rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// The similarity, where it was measured.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_rounded"
    )]
    pub score: Option<f32>,
}

/// Shows four digits; decisions use the exact value.
fn rounded<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((f64::from(*number) * 10_000.0).round() / 10_000.0)
}

fn maybe_rounded<S: Serializer>(number: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => rounded(number, serializer),
        None => serializer.serialize_none(),
    }
}
