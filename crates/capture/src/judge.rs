//! What a replay came to: the fields of its snapshot against those of the recording, and the first
//! step that is another.

use faces::provenance::compare::{self, Comparison, Options, compare};
use faces::provenance::document::Snapshot;
use faces::provenance::hash::digest;
use faces::provenance::ladder::Strategy;
use serde_json::Value;

use crate::call::{Call, Keep, Kind};
use crate::tape::{Divergence, Reason, Side, first_difference};

/// Compares a replay with its recording, content by content.
pub fn judge(
    recorded: (&Snapshot, &dyn Keep),
    replayed: (&Snapshot, &dyn Keep),
    strategy: Option<Strategy>,
) -> Comparison {
    let contents = |keep: &dyn Keep, hash: &str| keep.get(digest(hash)?).ok()?;
    let of_recorded = |hash: &str| contents(recorded.1, hash);
    let of_replayed = |hash: &str| contents(replayed.1, hash);
    let options = Options {
        strategy,
        ..Options::default()
    };
    compare(
        &compare::Side {
            snapshot: recorded.0,
            calls: &[],
            contents: &of_recorded,
        },
        &compare::Side {
            snapshot: replayed.0,
            calls: &[],
            contents: &of_replayed,
        },
        &options,
    )
}

/// The first call of a replay that is not that of its recording, for calls that were made again.
pub fn first_divergence(
    recorded: (&[Call], &dyn Keep),
    replayed: (&[Call], &dyn Keep),
) -> Option<Divergence> {
    let steps = |calls: &[Call]| -> Vec<Call> {
        let calls = calls.iter().filter(|call| call.kind != Kind::Protocol);
        calls.cloned().collect()
    };
    let (a, b) = (steps(recorded.0), steps(replayed.0));
    for (place, step) in (0..a.len().max(b.len())).zip(1..) {
        let (old, new) = (a.get(place), b.get(place));
        let (reason, word) = match (old, new) {
            (Some(old), Some(new)) if (old.kind, &old.name) != (new.kind, &new.name) => {
                (Reason::Changed, "another call was made")
            }
            (Some(old), Some(new)) if old.input != new.input => {
                (Reason::Changed, "the input differs")
            }
            (Some(old), Some(new)) if old.output != new.output => {
                (Reason::OtherResult, "the result differs")
            }
            (Some(_), Some(_)) => continue,
            (Some(_), None) => (Reason::Missing, "this call was not made again"),
            (None, _) => (Reason::Added, "this call was not recorded"),
        };
        let by_result = reason == Reason::OtherResult;
        let side = |call: Option<&Call>, keep: &dyn Keep| {
            call.map(|call| {
                let digest = match by_result {
                    true => call.output,
                    false => Some(call.input),
                };
                let bytes = digest.and_then(|digest| keep.get(digest).ok().flatten());
                Side {
                    kind: call.kind.as_str(),
                    name: call.name.clone(),
                    input: bytes
                        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                        .unwrap_or(Value::Null),
                }
            })
        };
        let (expected, actual) = (side(old, recorded.1), side(new, replayed.1));
        let at = match (&expected, &actual) {
            (Some(expected), Some(actual)) => first_difference(&expected.input, &actual.input),
            _ => None,
        };
        let name = old.or(new).map_or("", |call| call.name.as_str());
        let kind = old.or(new).map_or("call", |call| call.kind.as_str());
        let place = at.as_deref().filter(|at| !at.is_empty());
        let place = place.map_or_else(String::new, |at| format!(" at {at}"));
        return Some(Divergence {
            step,
            reason,
            at,
            recorded_step: old.map(|call| call.seq),
            expected,
            actual,
            message: format!("step {step}: {kind} {name}: {word}{place}"),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use faces::provenance::document::{Artifact, Config, MatchStatus, Mode, Model, ToolCall};
    use kernel::time::Timestamp;
    use serde_json::Map;

    use super::*;
    use crate::folder_keep::InMemory;

    fn snapshot(response: &str, files: &[&str], tools: &[(&str, &str)]) -> Snapshot {
        let config = Config::new(Model::named("none"), Mode::Default);
        let mut snapshot = Snapshot::new("id".into(), "w".into(), Timestamp(0), config);
        let outputs = &mut snapshot.outputs;
        outputs.response_hash = Some(faces::provenance::hash::hash_text(response));
        let artifact = |path: &&str| Artifact {
            path: Some((*path).to_owned()),
            hash: Some("sha256:00".into()),
            operation: Some(faces::provenance::document::Operation::Created),
            other: Map::new(),
        };
        outputs.artifacts_created = Some(files.iter().map(artifact).collect());
        let call = |(tool, input): &(&str, &str)| ToolCall {
            tool: Some((*tool).to_owned()),
            input_hash: Some((*input).to_owned()),
            ..ToolCall::default()
        };
        outputs.tool_calls = Some(tools.iter().map(call).collect());
        snapshot
    }

    #[test]
    fn what_a_replay_comes_to() {
        let recorded = snapshot("a", &["x"], &[("grep", "1"), ("sed", "2")]);
        let keep = InMemory::default();
        let judged = |replayed: &Snapshot| {
            judge((&recorded, &keep), (replayed, &keep), Some(Strategy::Exact))
        };
        let status = |replayed: &Snapshot| judged(replayed).match_status;
        assert_eq!(status(&recorded), Some(MatchStatus::ExactMatch));
        let moved = snapshot("a", &["x"], &[("sed", "2"), ("grep", "1")]);
        assert_eq!(status(&moved), Some(MatchStatus::SemanticMatch));
        let other_file = snapshot("a", &["y"], &[("grep", "1"), ("sed", "2")]);
        assert_eq!(status(&other_file), Some(MatchStatus::PartialMatch));
        let nothing = snapshot("b", &["y"], &[("rm", "1")]);
        assert_eq!(status(&nothing), Some(MatchStatus::NoMatch));
        assert!(!judged(&moved).pass);
        let mut silent = recorded.clone();
        silent.outputs.response_hash = None;
        assert_eq!(status(&silent), None);
    }
}
