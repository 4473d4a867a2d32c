//! Derives the status of a comparison from its fields, and whether it passes.

use serde::{Deserialize, Serialize};

use super::document::{MatchStatus, Mode};

/// The agreement of one field of two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It is missing on a side and is ignored.
    Unavailable,
    /// It differs.
    Different,
    /// The same shape with other values.
    SameShape,
    /// Other bytes with the same meaning.
    Equivalent,
    /// The same bytes.
    Identical,
}

/// A compared field in addition to the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its agreement.
    pub level: Level,
    /// Whether it is an empty list on both sides: identical, but not evidence.
    pub is_empty: bool,
}

/// Everything the ladder looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared<'a> {
    /// The agreement of the responses.
    pub response: Level,
    /// The share of matching units of the responses, from 0 to 1.
    pub matching_units: f64,
    /// The other fields.
    pub fields: &'a [Field],
}

impl Compared<'_> {
    /// The fields that take part.
    fn others(&self) -> impl Iterator<Item = &Field> {
        let fields = self.fields.iter();
        fields.filter(|field| field.level != Level::Unavailable)
    }

    /// The status by the first matching rule. `None` without a response on both sides.
    pub fn status(&self) -> Option<MatchStatus> {
        if self.response == Level::Unavailable {
            return None;
        }
        let others = |least: Level| self.others().all(|field| field.level >= least);
        if self.response == Level::Identical && others(Level::Identical) {
            return Some(MatchStatus::ExactMatch);
        }
        if self.response >= Level::Equivalent && others(Level::Equivalent) {
            return Some(MatchStatus::SemanticMatch);
        }
        let mut evidence = self.others().filter(|field| !field.is_empty);
        let agrees = self.response >= Level::SameShape
            || evidence.any(|field| field.level >= Level::SameShape)
            || self.matching_units >= 0.5;
        if agrees {
            Some(MatchStatus::PartialMatch)
        } else {
            Some(MatchStatus::NoMatch)
        }
    }

    /// Whether this passes a strategy.
    pub fn passes(&self, strategy: Strategy) -> bool {
        let status = self.status();
        match strategy {
            Strategy::Exact => status == Some(MatchStatus::ExactMatch),
            Strategy::Semantic => matches!(
                status,
                Some(MatchStatus::ExactMatch | MatchStatus::SemanticMatch)
            ),
            Strategy::Structural => {
                self.response >= Level::SameShape
                    && self.others().all(|field| field.level >= Level::SameShape)
            }
        }
    }
}

kernel::words! {
    /// The condition for a comparison to pass. The status does not depend on it.
    pub enum Strategy {
        /// The same bytes.
        Exact = "exact",
        /// The same meaning.
        Semantic = "semantic",
        /// The same shape.
        Structural = "structural",
    }
}

impl Strategy {
    /// The default: by the mode, and by whether the response has a structure.
    pub fn default_for(mode: Mode, is_structured: bool) -> Self {
        match (mode, is_structured) {
            (Mode::Strict, _) => Self::Exact,
            (_, true) => Self::Structural,
            (_, false) => Self::Semantic,
        }
    }
}
