//! The comparison of two runs: a `RunDiffResponse`.
//!
//! Events are compared place by place, by type, node and payload. Ids, times and causes differ in
//! every run.

use kernel::ids::Seq;
use kernel::run::{Event, Run};
use kernel::stream::StreamHeader;
use serde_json::{Map, Value, json};

use super::event::event;
use super::snapshot::snapshot;
use crate::mask::Mask;

/// Maximum listed differences; the answer marks a truncated list.
pub const MAX_DIFFS: usize = 1_000;
/// Maximum bytes of listed differences, except the first.
pub const MAX_DIFF_BYTES: usize = 4 << 20;

/// The compared members of a state, in addition to the maps in [`MAPS`].
const WHOLE: [&str; 5] = [
    "status",
    "outputs",
    "error",
    "currentNodeId",
    "configurable",
];
/// Parts of a state compared name by name.
const MAPS: [&str; 3] = ["variables", "channels", "nodeStates"];
/// Times in a node's state, which are not compared.
const TIMES: [&str; 3] = ["startedAt", "completedAt", "dueAt"];

/// An event of a run, with the header of the run and its mask.
pub type RunEventView<'a> = (&'a StreamHeader, Mask<'a>, &'a Event);

/// Builds a comparison from the events of both runs in order, then their states.
#[derive(Default)]
pub struct Diff {
    diverged_at: Option<Seq>,
    diffs: Vec<Value>,
    bytes: usize,
    cut: bool,
}

impl Diff {
    /// Compares the events at the next place; a run that has ended before has none. Returns whether
    /// more differences fit.
    pub fn pair(
        &mut self,
        seq: Seq,
        a: Option<RunEventView<'_>>,
        b: Option<RunEventView<'_>>,
    ) -> bool {
        if let (Some((_, _, a)), Some((_, _, b))) = (a, b)
            && a.body == b.body
        {
            return true;
        }
        let shown = |side: Option<RunEventView<'_>>| side.map(|(of, mask, it)| event(of, mask, it));
        self.pair_shown(seq, shown(a), shown(b))
    }

    /// As [`Diff::pair`], for rendered events.
    pub fn pair_shown(&mut self, seq: Seq, a: Option<Value>, b: Option<Value>) -> bool {
        let diff = match (a, b) {
            (Some(a), Some(b)) if said(&a) == said(&b) => return true,
            (Some(a), Some(b)) => json!({ "seq": seq, "op": "changed", "aEvent": a, "bEvent": b }),
            (Some(a), None) => json!({ "seq": seq, "op": "removed", "aEvent": a }),
            (None, Some(b)) => json!({ "seq": seq, "op": "added", "bEvent": b }),
            (None, None) => return true,
        };
        self.diverged_at.get_or_insert(seq);
        self.bytes += diff.to_string().len();
        self.diffs.push(diff);
        self.cut = self.diffs.len() >= MAX_DIFFS || self.bytes >= MAX_DIFF_BYTES;
        !self.cut
    }

    /// Builds the answer. With an unfinished run it covers beginnings only.
    pub fn build(self, a: &Run, b: &Run) -> Value {
        let have_ended = a.is_settled() && b.is_settled();
        self.build_shown(&snapshot(a), &snapshot(b), have_ended)
    }

    /// As [`Diff::build`], for snapshots of both runs.
    pub fn build_shown(self, a: &Value, b: &Value, have_ended: bool) -> Value {
        let mut answer = json!({
            "a": a["runId"],
            "b": b["runId"],
            "divergedAtSeq": self.diverged_at,
            "eventDiffs": self.diffs,
            "stateDiff": state_diff(a, b),
        });
        if self.cut || !have_ended {
            answer["truncated"] = json!(true);
        }
        answer
    }
}

/// The compared members of an event.
fn said(event: &Value) -> [Option<&Value>; 3] {
    ["type", "nodeId", "payload"].map(|name| event.get(name))
}

fn state_diff(a: &Value, b: &Value) -> Value {
    let mut diff = Map::new();
    for name in WHOLE {
        if a.get(name) != b.get(name) {
            diff.insert(name.to_owned(), sides(a.get(name), b.get(name)));
        }
    }
    for name in MAPS {
        let (a, b) = (&a[name], &b[name]);
        let names = [a, b].into_iter().filter_map(Value::as_object);
        let names: std::collections::BTreeSet<&String> = names.flat_map(Map::keys).collect();
        let mut of_map = Map::new();
        for key in names {
            let (a, b) = (untimed(a.get(key)), untimed(b.get(key)));
            if a != b {
                of_map.insert(key.clone(), sides(a.as_ref(), b.as_ref()));
            }
        }
        if !of_map.is_empty() {
            diff.insert(name.to_owned(), Value::Object(of_map));
        }
    }
    Value::Object(diff)
}

/// A value of both runs; a missing one is left out.
fn sides(a: Option<&Value>, b: Option<&Value>) -> Value {
    let both = [("a", a), ("b", b)].into_iter();
    let there = both.filter_map(|(side, value)| Some((side.to_owned(), value?.clone())));
    Value::Object(there.collect())
}

fn untimed(value: Option<&Value>) -> Option<Value> {
    let mut value = value?.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !TIMES.contains(&name.as_str()));
    }
    Some(value)
}
