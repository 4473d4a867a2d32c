//! Two snapshots side by side: how far they agree, and where they begin to differ.
//!
//! Each field comes to a [`Level`]; the [`ladder`](super::ladder) makes a status of the levels, and
//! the strategy decides whether that passes. Meaning is read by whoever is asked: without a
//! scorer two texts agree when they are the same after normalising, and nothing else
//! is ever called semantic.

mod artifacts;
mod called;
mod drift;
mod guard;
pub mod html;
mod kindred;
mod language;
mod lines;
#[cfg(test)]
mod long;
mod normal;
mod order;
mod report;
mod roles;
mod semantic;
mod shape;
mod signs;
#[cfg(test)]
mod tests;
mod text;
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
pub use report::{Comparison, FieldReport, FirstDivergence, Meaning, WorstPair};
pub use semantic::{Scorer, Vectors, text_similarity, texts_to_embed};

/// How similar two units are at least to count as equivalent.
pub const DEFAULT_SIMILARITY: f32 = 0.95;

/// One of the two sides.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The calls recorded beside it.
    pub calls: &'a [Call],
    /// The bytes of a hash, where they are kept.
    pub contents: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

impl Side<'_> {
    /// The text of the response: as it stands, or as its hash has it.
    fn response(&self) -> Option<String> {
        let outputs = &self.snapshot.outputs;
        match &outputs.response {
            Some(text) => Some(text.clone()),
            None => self.text(outputs.response_hash.as_deref()?),
        }
    }

    /// The hash of the response: as it is said, or computed.
    fn response_hash(&self) -> Option<String> {
        let outputs = &self.snapshot.outputs;
        let said = outputs.response_hash.as_deref();
        // A placeholder says nothing where the text itself is there.
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

/// Which fields take part beside the response.
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
    /// It does, where both sides have it.
    Taken,
    /// Nobody asks.
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

/// How to compare.
pub struct Options<'a> {
    /// What must hold; by default what the mode and the response suggest.
    pub strategy: Option<Strategy>,
    /// Which fields take part.
    pub fields: Fields,
    /// From where on two units are similar.
    pub similarity: f32,
    /// Who reads meaning, if anybody does.
    pub scorer: Option<Scorer<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            strategy: None,
            fields: Fields::default(),
            similarity: DEFAULT_SIMILARITY,
            scorer: None,
        }
    }
}

/// Compares: `a` is what is measured by.
pub fn compare(a: &Side<'_>, b: &Side<'_>, options: &Options<'_>) -> Comparison {
    let (text_a, text_b) = (a.response(), b.response());
    let (text_a, text_b) = (
        text_a.as_deref().map(Text::of),
        text_b.as_deref().map(Text::of),
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
            _ => (Level::Different, Meaning::reason("content_unavailable")),
        },
        _ => (Level::Unavailable, Meaning::reason("not_comparable")),
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
    let mode = a.snapshot.config.execution_mode;
    // A long text is not read for a default that nobody needs.
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

/// The texts that a scorer has to be asked about to compare two snapshots: sentences of the
/// responses and of files of prose that differ.
pub fn texts_to_score(a: &Side<'_>, b: &Side<'_>) -> Vec<String> {
    let mut texts = std::collections::BTreeSet::new();
    if let (Some(one), Some(other)) = (a.response(), b.response()) {
        texts.extend(texts_to_embed(&one, &other));
    }
    texts.extend(artifacts::texts_to_score(a, b));
    texts.into_iter().collect()
}

/// How far two texts agree. Data is compared as data, everything else by its meaning first.
fn texts(a: &Text<'_>, b: &Text<'_>, options: &Options<'_>) -> (Level, Meaning) {
    if let (Some(one), Some(other)) = (a.data(), b.data()) {
        let is_equal = hash::canonical_json(one) == hash::canonical_json(other);
        return match (is_equal, shape::same_value(one, other)) {
            (true, _) => (Level::Equivalent, Meaning::normalized()),
            (false, true) => (Level::SameShape, Meaning::reason("data")),
            (false, false) => (Level::Different, Meaning::reason("data")),
        };
    }
    // A program means what it says: nobody reads it for anything else.
    let is_code = a.is_code() && b.is_code();
    let unread = Options {
        scorer: None,
        fields: options.fields,
        ..*options
    };
    let mut meaning = semantic::compare(a, b, if is_code { &unread } else { options });
    if is_code {
        meaning.is_equivalent = shape::same_lines(a.raw(), b.raw());
    }
    let level = if meaning.is_equivalent {
        Level::Equivalent
    } else if shape::same(a, b) {
        Level::SameShape
    } else {
        Level::Different
    };
    (level, meaning)
}

/// Where the executions first went different ways: at a call; if at none, where the first field
/// differs.
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
