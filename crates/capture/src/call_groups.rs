//! Which calls contain which, and which ran concurrently.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{Call, Kind};

/// Whether two calls ran at the same time. A model's call and the calls it asked for never overlap.
pub(crate) fn overlap(earlier: &Call, later: &Call) -> bool {
    match (earlier.order, later.order) {
        (Some(earlier), Some(later)) => earlier.ended.is_none_or(|ended| later.began < ended),
        _ => earlier.ended.is_none_or(|ended| later.started < ended),
    }
}

/// Whether some of these calls, which are in order, ran at the same time. A call never overlaps the
/// calls it makes itself. The time of a call that was only observed is unknown.
pub(crate) fn is_parallel(calls: &[Call]) -> bool {
    let family = Family::from_calls(calls);
    let mut running: Vec<&Call> = Vec::new();
    calls.iter().filter(|call| !call.observed).any(|call| {
        running.retain(|earlier| overlap(earlier, call));
        let above: BTreeSet<u64> = family.above(call.seq).collect();
        let is_beside = running.iter().any(|other| !above.contains(&other.seq));
        running.push(call);
        is_beside
    })
}

/// The enclosing call of each call.
pub(crate) struct Family {
    parents: BTreeMap<u64, u64>,
    tools: BTreeSet<u64>,
}

impl Family {
    /// The family of these calls.
    pub(crate) fn from_calls(calls: &[Call]) -> Self {
        let parents = calls
            .iter()
            .filter_map(|call| Some((call.seq, call.parent?)))
            .collect();
        let tools = calls.iter().filter(|call| call.kind != Kind::Model);
        Self {
            parents,
            tools: tools.map(|call| call.seq).collect(),
        }
    }

    /// The enclosing calls of a call, innermost first.
    pub(crate) fn above(&self, seq: u64) -> impl Iterator<Item = u64> {
        let next = |seq: &u64| self.parents.get(seq).copied().filter(|above| above < seq);
        std::iter::successors(next(&seq), next)
    }

    /// Whether it is a tool's call.
    pub(crate) fn is_tool(&self, seq: u64) -> bool {
        self.tools.contains(&seq)
    }
}

/// Calls that were only observed and were not made within a recorded tool: they cannot be served.
pub fn unobserved(calls: &[Call]) -> Vec<&Call> {
    let family = Family::from_calls(calls);
    let run = calls
        .iter()
        .filter(|call| call.kind != Kind::Model && !call.observed);
    let run: BTreeSet<u64> = run.map(|call| call.seq).collect();
    let is_within = |call: &&Call| family.above(call.seq).any(|above| run.contains(&above));
    let observed = calls.iter().filter(|call| call.observed);
    observed.filter(|call| !is_within(call)).collect()
}
