//! Compares two snapshots: their agreement, and their first divergence.
//!
//! Each field gets a [`Level`]; the [`ladder`](super::ladder) derives a status from the levels, and
//! the strategy decides whether that passes. Two texts agree when they are equal after normalising;
//! they differ where one of five rules says so; everything else needs review, by a person or by a
//! [`Scorer`]. An undecided comparison never passes.

mod align;
mod artifacts;
mod called;
mod drift;
mod english;
pub mod html;
mod lines;
#[cfg(test)]
mod long;
#[cfg(test)]
mod meaning_tests;
mod normal;
mod passes;
mod quantity;
mod report;
mod rules;
mod semantic;
mod shape;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod units;
mod yaml;

use serde_json::Value;

use super::calls::Call;
use super::document::{Mode, Snapshot};
use super::hash;
use super::ladder::{Compared, Field, Level, Strategy};

use text::Text;

pub use drift::{Difference, MetricDelta};
pub use lines::{Line, side_by_side};
pub use report::{Comparison, FieldReport, FirstDivergence, Meaning, UnitPair, Verdict};
pub use semantic::{Judgement, Judgements, Reading, Scorer, Undecided, Vectors, pairs_to_read};

/// The minimum similarity of equivalent units.
pub const DEFAULT_SIMILARITY: f32 = 0.95;

/// One of the two sides.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The calls recorded with it.
    pub calls: &'a [Call],
    /// Resolves a hash to its bytes, if they are kept.
    pub contents: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

impl Side<'_> {
    /// The text of the response: inline, or by its hash.
    fn response(&self) -> Option<String> {
        let outputs = &self.snapshot.outputs;
        match &outputs.response {
            Some(text) => Some(text.clone()),
            None => self.text(outputs.response_hash.as_deref()?),
        }
    }

    /// The hash of the response: recorded or computed.
    fn response_hash(&self) -> Option<String> {
        let outputs = &self.snapshot.outputs;
        let said = outputs.response_hash.as_deref();
        // A placeholder is ignored if the text itself is available.
        match (
            said.filter(|said| hash::digest(said).is_some()),
            &outputs.response,
        ) {
            (Some(said), _) => Some(said.to_owned()),
            (None, Some(text)) => Some(hash::hash_text(text)),
            (None, None) => said.map(str::to_owned),
        }
    }

    fn text(&self, hash: &str) -> Option<String> {
        String::from_utf8((self.contents)(hash)?).ok()
    }
}

/// The compared fields in addition to the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// `outputs.artifacts_created`.
    pub artifacts: Part,
    /// `outputs.tool_calls`.
    pub tool_calls: Part,
}

/// Whether a field takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Compared, where both sides have it.
    Taken,
    /// Not requested.
    Left,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            artifacts: Part::Taken,
            tool_calls: Part::Taken,
        }
    }
}

/// Whether the order of sentences, items and blocks counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// It does.
    #[default]
    Kept,
    /// Under the same headings, units of the same kind may be in any order.
    Any,
}

/// Options of a comparison.
pub struct Options<'a> {
    /// The condition to pass; by default derived from the mode and the response.
    pub strategy: Option<Strategy>,
    /// Which fields take part.
    pub fields: Fields,
    /// Whether the order of units counts.
    pub order: Order,
    /// The minimum similarity of similar units.
    pub similarity: f32,
    /// The reader of meaning, if any.
    pub scorer: Option<Scorer<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            strategy: None,
            fields: Fields::default(),
            order: Order::default(),
            similarity: DEFAULT_SIMILARITY,
            scorer: None,
        }
    }
}

/// Compares two snapshots: `a` is the baseline.
pub fn compare(a: &Side<'_>, b: &Side<'_>, options: &Options<'_>) -> Comparison {
    let (text_a, text_b) = (a.response(), b.response());
    let (text_a, text_b) = (
        text_a.as_deref().map(Text::new),
        text_b.as_deref().map(Text::new),
    );
    let (response, meaning) = match (a.response_hash(), b.response_hash()) {
        (Some(one), Some(other)) if hash::same(&one, &other) => {
            (Level::Identical, Meaning::identical())
        }
        (Some(_), Some(_)) => match (&text_a, &text_b) {
            (Some(one), Some(other)) if one.raw() == other.raw() => {
                (Level::Identical, Meaning::identical())
            }
            (Some(one), Some(other)) => texts(one, other, options),
            _ => (
                Level::Different,
                Meaning::reason(Verdict::Mismatch, "content_unavailable"),
            ),
        },
        _ => (
            Level::Unavailable,
            Meaning::reason(Verdict::NeedsReview, "not_comparable"),
        ),
    };
    let outputs = (&a.snapshot.outputs, &b.snapshot.outputs);
    let mut fields = Vec::new();
    if options.fields.artifacts == Part::Taken {
        let lists = (&outputs.0.artifacts_created, &outputs.1.artifacts_created);
        let field = match lists {
            (Some(one), Some(other)) => artifacts::compare((a, one), (b, other), options),
            _ => FieldReport::unavailable("outputs.artifacts_created"),
        };
        fields.push(field);
    }
    if options.fields.tool_calls == Part::Taken {
        let field = match (&outputs.0.tool_calls, &outputs.1.tool_calls) {
            (Some(one), Some(other)) => called::compare(one, other),
            _ => FieldReport::unavailable("outputs.tool_calls"),
        };
        fields.push(field);
    }
    let levels = fields.iter().map(|field| Field {
        level: field.level,
        is_empty: field.is_empty,
    });
    let levels: Vec<Field> = levels.collect();
    let compared = Compared {
        response,
        matching_units: meaning.matching,
        fields: &levels,
    };
    let verdicts = fields.iter().map(|field| field.verdict);
    let verdict = verdicts.fold(meaning.verdict, Verdict::min);
    let mode = a.snapshot.config.execution_mode;
    // Do not read a long text for an unused default.
    let strategy = options.strategy.unwrap_or_else(|| {
        let text = text_a.as_ref().filter(|_| mode != Mode::Strict);
        Strategy::default_for(mode, text.is_some_and(shape::is_structured))
    });
    Comparison {
        a: a.snapshot.snapshot_id.clone(),
        b: b.snapshot.snapshot_id.clone(),
        match_status: compared.status(),
        strategy,
        pass: compared.passes(strategy),
        verdict,
        response,
        meaning,
        similarity: options.similarity,
        first_divergence: divergence(
            (a, text_a.as_ref()),
            (b, text_b.as_ref()),
            response,
            &fields,
            options.fields,
        ),
        fields,
        drift: drift::drift(a.snapshot, b.snapshot),
        metrics: drift::metrics(a.snapshot, b.snapshot),
    }
}

/// The pairs of units that a reader has to judge to compare two snapshots: of the responses and of
/// prose files.
pub fn all_pairs_to_read(a: &Side<'_>, b: &Side<'_>, options: &Options<'_>) -> Vec<Undecided> {
    let mut pairs = std::collections::BTreeSet::new();
    if let (Some(one), Some(other)) = (a.response(), b.response()) {
        let (text, with) = (Text::new(&one), Text::new(&other));
        if is_prose(&text) && is_prose(&with) {
            pairs.extend(pairs_to_read(&one, &other, options));
        }
    }
    pairs.extend(artifacts::pairs_to_read(a, b, options));
    pairs.into_iter().collect()
}

/// Whether a text is prose: neither data nor a program.
fn is_prose(text: &Text<'_>) -> bool {
    text.data().is_none() && !text.is_code()
}

/// The agreement of two texts. Data is compared as data, code by its lines, prose by its units.
fn texts(a: &Text<'_>, b: &Text<'_>, options: &Options<'_>) -> (Level, Meaning) {
    if let (Some(one), Some(other)) = (a.data(), b.data()) {
        let is_equal = hash::canonical_json(one) == hash::canonical_json(other);
        let differs = || Meaning::reason(Verdict::Mismatch, "data");
        return match (is_equal, shape::same_value(one, other)) {
            (true, _) => (Level::Equivalent, Meaning::normalized()),
            (false, true) => (Level::SameShape, differs()),
            (false, false) => (Level::Different, differs()),
        };
    }
    let meaning = match (is_prose(a), is_prose(b)) {
        (true, true) => semantic::compare(a, b, options),
        (false, false) if a.is_code() && b.is_code() => code(a.raw(), b.raw()),
        // Data may have been rephrased as prose.
        _ => Meaning::reason(Verdict::NeedsReview, "other_kind"),
    };
    let level = if meaning.is_equivalent {
        Level::Equivalent
    } else if shape::same(a, b) {
        Level::SameShape
    } else {
        Level::Different
    };
    (level, meaning)
}

/// The agreement of two programs: equal lines, or undecided until it is reviewed.
fn code(a: &str, b: &str) -> Meaning {
    if shape::same_lines(a, b) {
        return Meaning::normalized();
    }
    match align::code(a, b) {
        rules::Ruling::Differs(rule) => Meaning::reason(Verdict::Mismatch, rule),
        _ => Meaning::reason(Verdict::NeedsReview, "code"),
    }
}

/// The first divergence of the executions: at a call; without one, at the first differing field.
fn divergence(
    (a, text_a): (&Side<'_>, Option<&Text<'_>>),
    (b, text_b): (&Side<'_>, Option<&Text<'_>>),
    response: Level,
    fields: &[FieldReport],
    taken: Fields,
) -> Option<FirstDivergence> {
    let calls = (
        &a.snapshot.outputs.tool_calls,
        &b.snapshot.outputs.tool_calls,
    );
    if let ((Some(one), Some(other)), Part::Taken) = (calls, taken.tool_calls)
        && let Some(found) = called::divergence((a, one), (b, other))
    {
        return Some(found);
    }
    let artifacts = fields
        .iter()
        .find(|field| field.field == "outputs.artifacts_created");
    if let Some(first) = artifacts.and_then(|field| field.differences.first()) {
        return Some(FirstDivergence {
            field: "outputs.artifacts_created",
            path: Some(first.path.clone()),
            what: first.what.to_owned(),
            a: first.a.clone(),
            b: first.b.clone(),
            ..FirstDivergence::default()
        });
    }
    if matches!(response, Level::Identical | Level::Unavailable) {
        return None;
    }
    let (one, other) = (text_a.map_or("", Text::raw), text_b.map_or("", Text::raw));
    let (line, one, other) = lines::first_difference(one, other);
    Some(FirstDivergence {
        field: "outputs.response",
        line: Some(line),
        what: "the text differs".to_owned(),
        a: one.map(Value::from),
        b: other.map(Value::from),
        ..FirstDivergence::default()
    })
}
