//! Serves a recording: matches calls with recorded ones, and finds where they diverge.

use std::collections::{BTreeMap, BTreeSet};

use kernel::digest::Digest;
use provenance::Redaction;
use serde::Serialize;
use serde_json::Value;

use crate::call::{Call, Kind, OF_CLIENT};
use crate::call_groups::{Family, is_parallel, overlap};

/// Requests to tool servers without effects, which clients repeat at will.
const QUESTIONS: [&str; 5] = [
    "mcp/tools/list",
    "mcp/prompts/list",
    "mcp/resources/list",
    "mcp/resources/templates/list",
    "mcp/ping",
];

/// The kinds of calls that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Calls of models.
    pub models: bool,
    /// Calls of tools, and of tool servers.
    pub tools: bool,
}

impl Sources {
    /// No kind is served.
    pub const LIVE: Self = Self {
        models: false,
        tools: false,
    };

    /// Whether calls of a kind are.
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Model => self.models,
            Kind::Tool | Kind::Protocol => self.tools,
        }
    }
}

/// The reaction to a call that the recording does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMiss {
    /// It ends the replay.
    #[default]
    Stop,
    /// A tool without effects is executed; any other call ends the replay.
    LiveReads,
}

/// One side of a divergence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The kind of the call.
    pub kind: &'static str,
    /// Which.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// How a replay left its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Another call came in the place of the recorded one.
    Changed,
    /// The call was recorded at a later step; the expected one came after it, or this is unknown.
    OutOfOrder,
    /// The recording does not have this call.
    Added,
    /// This call did not come.
    Missing,
    /// The call has another result.
    OtherResult,
    /// The program ended otherwise.
    OtherEnd,
    /// A content that the call needs is not kept.
    ContentUnavailable,
}

impl Reason {
    /// Whether both sides are the same call with a difference.
    pub(crate) fn is_of_one_call(self) -> bool {
        !matches!(self, Self::OutOfOrder | Self::Added | Self::Missing)
    }
}

/// The first step at which a replay differs from its recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// The step, counted from 1.
    pub step: u64,
    /// The reason.
    pub reason: Reason,
    /// The place of the first difference in the input, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The step of the recording that has the call, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_step: Option<u64>,
    /// The recorded call.
    pub expected: Option<Side>,
    /// The actual call.
    pub actual: Option<Side>,
    /// A message for people.
    pub message: String,
}

impl Divergence {
    /// The divergence with secrets removed everywhere.
    pub fn cleaned(mut self, redaction: &Redaction) -> Self {
        for side in [&mut self.expected, &mut self.actual].into_iter().flatten() {
            side.name = redaction.text(&side.name);
            redaction.value(&mut side.input);
        }
        self.at = self.at.map(|at| redaction.text(&at));
        self.message = redaction.text(&self.message);
        self
    }
}

/// A recording that serves calls.
pub struct Replayer {
    calls: Vec<Call>,
    is_used: Vec<bool>,
    /// Calls that repeat a question without effects. A client with concurrent calls repeats them at
    /// random, so a replay does not require them.
    is_repeated: Vec<bool>,
    /// Unused calls by key, earliest first.
    by_key: BTreeMap<(Kind, String, Digest), Vec<usize>>,
    /// Calls made within a served call, by the step of the outermost such.
    within: BTreeMap<u64, Vec<Call>>,
    sources: Sources,
    /// The step of the last recorded call, served or not.
    last: u64,
    /// Whether any recorded calls ran concurrently.
    is_parallel: bool,
    /// Whether at most one tool server was initialised. With several, a list cannot be attributed
    /// to one of them.
    is_one_server: bool,
    /// Whether calls are live after the end of the recording.
    goes_on: bool,
    /// Keys of calls by step, where they differ from the input.
    keys: BTreeMap<u64, Digest>,
}

/// The result of looking up a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// This, at its place in [`Replayer::calls`].
    Call(usize),
    /// The next recorded call is another; `None` at the end of the recording.
    Other {
        /// The first unserved call.
        expected: Option<usize>,
        /// The recorded place of the actual call.
        found: Option<usize>,
    },
}

impl Replayer {
    /// A recording. Calls that were only observed, or were cut short, cannot be served. Calls
    /// within a tool are not expected either: the tool is not executed.
    pub fn new(mut calls: Vec<Call>, sources: Sources) -> Self {
        let last = last_step(&calls);
        calls.sort_by_key(|call| call.seq);
        let is_parallel = is_parallel(&calls);
        let mut within: BTreeMap<u64, Vec<Call>> = BTreeMap::new();
        let greeted = |call: &&Call| call.kind == Kind::Protocol && call.name == "mcp/initialize";
        let is_one_server = calls.iter().filter(greeted).count() <= 1;
        let family = Family::from_calls(&calls);
        let is_run = |call: &Call| call.kind != Kind::Model && !call.observed;
        let tools = calls.iter().filter(|call| sources.tools && is_run(call));
        let tools: BTreeSet<u64> = tools.map(|call| call.seq).collect();
        calls.retain(|call| {
            let above = family.above(call.seq);
            let above: Vec<u64> = above.filter(|above| tools.contains(above)).collect();
            match above.last().copied() {
                // A server's request to its client is repeated by the server of the call.
                Some(_) if above.len() == 1 && call.is_of_client() => true,
                Some(outer) => {
                    within.entry(outer).or_default().push(call.clone());
                    false
                }
                None => !call.observed && sources.has(call.kind),
            }
        });
        let mut by_key: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, call) in calls.iter().enumerate() {
            let key = (call.kind, call.name.clone(), call.input);
            by_key.entry(key).or_default().push(place);
        }
        let repeated = by_key.iter().filter(|((kind, name, _), _)| {
            is_one_server && *kind == Kind::Protocol && QUESTIONS.contains(&name.as_str())
        });
        let repeated: BTreeSet<usize> = repeated
            .flat_map(|(_, places)| places.iter().skip(1).copied())
            .collect();
        let is_repeated = (0..calls.len()).map(|place| repeated.contains(&place));
        let is_repeated = is_repeated.collect();
        by_key.values_mut().for_each(|places| places.reverse());
        Self {
            is_used: vec![false; calls.len()],
            is_repeated,
            calls,
            by_key,
            within,
            sources,
            last,
            is_parallel,
            is_one_server,
            goes_on: false,
            keys: BTreeMap::new(),
        }
    }

    /// The same, with other keys than the input for some calls.
    pub fn matched_by(mut self, keys: BTreeMap<u64, Digest>) -> Self {
        self.keys = keys;
        self.by_key.clear();
        for place in (0..self.calls.len()).rev() {
            let key = self.key(&self.calls[place]);
            self.by_key.entry(key).or_default().push(place);
        }
        self
    }

    /// The key of a call.
    fn key(&self, call: &Call) -> (Kind, String, Digest) {
        let input = self.keys.get(&call.seq).copied().unwrap_or(call.input);
        (call.kind, call.name.clone(), input)
    }

    /// The first steps of a recording; later calls are live. `None` where it has fewer steps.
    pub fn first(mut calls: Vec<Call>, sources: Sources, steps: u64) -> Option<Self> {
        if last_step(&calls) < steps {
            return None;
        }
        // Calls made within a call belong to it.
        let family = Family::from_calls(&calls);
        calls.retain(|call| {
            let mut line = family.above(call.seq);
            call.seq <= steps || line.any(|above| above <= steps && family.is_tool(above))
        });
        Some(Self {
            goes_on: true,
            ..Self::new(calls, sources)
        })
    }

    /// Whether calls of a kind are served.
    pub fn serves(&self, kind: Kind) -> bool {
        let is_over = self.goes_on && self.unused().is_none();
        self.sources.has(kind) && !is_over
    }

    /// The recorded calls.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The calls made within one of [`calls`](Self::calls), in the order of their beginning.
    pub fn within(&self, place: usize) -> &[Call] {
        let calls = self.within.get(&self.calls[place].seq);
        calls.map_or(&[], Vec::as_slice)
    }

    /// The number of counted beginnings and ends of its calls.
    pub(crate) fn counted(&self) -> u64 {
        let calls = self.calls.iter().chain(self.within.values().flatten());
        let orders = calls.filter_map(|call| call.order);
        let last = orders.map(|order| order.ended.unwrap_or(order.began).max(order.began));
        last.max().unwrap_or(0)
    }

    /// Whether the recording has concurrent calls, so that an earlier one may still be in progress
    /// when a later one arrives: the order of immediate answers does not order the calls of two
    /// threads.
    pub fn is_parallel(&self) -> bool {
        self.is_parallel
    }

    /// Finds the recorded answer of a call: the earliest unused one with the same name and input,
    /// unless an earlier call is still outstanding. Concurrent calls may come in any order. A
    /// repeated or early question without effects gets its recorded answer. Does not mark a call as
    /// used.
    pub fn find(&self, kind: Kind, name: &str, input: Digest) -> Match {
        let key = (kind, name.to_owned(), input);
        let found = self
            .by_key
            .get(&key)
            .and_then(|places| places.last())
            .copied();
        let is_of_client = kind == Kind::Protocol && name.starts_with(OF_CLIENT);
        let mut unused = (0..self.calls.len()).filter(|place| !self.is_used[*place]);
        let first = unused.next();
        let mut unused = first.into_iter().chain(unused);
        let expected = unused.find(|place| {
            self.calls[*place].is_of_client() == is_of_client && !self.is_repeated[*place]
        });
        let expected = expected.or(first.filter(|place| !self.is_repeated[*place]));
        match found {
            Some(place) if self.may_come(place) => Match::Call(place),
            found => match self.answered(&key) {
                Some(place) => Match::Call(place),
                None => Match::Other { expected, found },
            },
        }
    }

    /// The step of a recorded call; without a place, the step after the end. Steps count all calls
    /// of the recording, so they do not depend on which calls are served.
    pub fn step(&self, place: Option<usize>) -> u64 {
        place.map_or(self.last + 1, |place| self.calls[place].seq)
    }

    /// Marks a call as served.
    pub fn consume(&mut self, place: usize) {
        let key = self.key(&self.calls[place]);
        if let Some(places) = self.by_key.get_mut(&key) {
            places.retain(|other| *other != place);
        }
        self.is_used[place] = true;
    }

    /// Whether a call of this name and input was served.
    pub(crate) fn was_used(&self, key: &(Kind, String, Digest)) -> bool {
        let mut used = self
            .calls
            .iter()
            .zip(&self.is_used)
            .filter(|(_, used)| **used);
        used.any(|(call, _)| self.key(call) == *key)
    }

    /// The first unused call that a replay requires.
    pub fn unused(&self) -> Option<&Call> {
        let mut places = 0..self.calls.len();
        let place = places.find(|place| !self.is_used[*place] && !self.is_repeated[*place])?;
        Some(&self.calls[place])
    }

    /// Whether a call has already been served.
    pub(crate) fn is_used(&self, place: usize) -> bool {
        self.is_used[place]
    }

    /// The last served call for a repeated question without effects.
    fn answered(&self, key: &(Kind, String, Digest)) -> Option<usize> {
        let is_it = |place: &usize| {
            let call = &self.calls[*place];
            self.is_used[*place] && (call.kind, &call.name, call.input) == (key.0, &key.1, key.2)
        };
        let is_question =
            self.is_one_server && key.0 == Kind::Protocol && QUESTIONS.contains(&key.1.as_str());
        let mut places = (0..self.calls.len()).rev();
        is_question.then(|| places.find(is_it)).flatten()
    }

    /// Whether the model's answer that requested this tool also requested others that are not
    /// served yet: a program may call them in threads, in any order.
    pub(crate) fn has_siblings(&self, place: usize) -> bool {
        let call = &self.calls[place];
        let is_wanted = |call: &Call| call.kind == Kind::Tool && call.call_id.is_some();
        let mut unused = (0..self.calls.len()).filter(|at| *at != place && !self.is_used[*at]);
        call.parent.is_some()
            && is_wanted(call)
            && unused.any(|at| {
                let other = &self.calls[at];
                is_wanted(other) && other.parent == call.parent
            })
    }

    fn may_come(&self, place: usize) -> bool {
        let call = &self.calls[place];
        // A client answers concurrently with its own calls, so their order is random.
        if call.is_of_client() {
            return true;
        }
        let before = (0..place).filter(|at| !self.is_used[*at] && !self.is_repeated[*at]);
        let mut before = before.map(|at| &self.calls[at]);
        before.all(|earlier| earlier.is_of_client() || overlap(earlier, call))
    }
}

/// The step of the last of these calls; 0 without calls.
pub fn last_step(calls: &[Call]) -> u64 {
    calls.iter().map(|call| call.seq).max().unwrap_or(0)
}

/// The first difference of two values, as a JSON pointer; `None` where they are equal.
pub fn first_difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            names.into_iter().find_map(|name| {
                let token = name.replace('~', "~0").replace('/', "~1");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => {
                        first_difference(a, b).map(|rest| format!("/{token}{rest}"))
                    }
                    _ => Some(format!("/{token}")),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            let within = a.iter().zip(b).enumerate().find_map(|(place, (a, b))| {
                first_difference(a, b).map(|rest| format!("/{place}{rest}"))
            });
            let longer = (a.len() != b.len()).then(|| format!("/{}", a.len().min(b.len())));
            within.or(longer)
        }
        _ => (a != b).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use kernel::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::call::{FolderMetadata, Order};

    fn call(seq: u64, input: &str, from: i64, to: i64) -> Call {
        Call {
            seq,
            kind: Kind::Tool,
            name: "grep".into(),
            server: None,
            input: Digest::compute(input.as_bytes()),
            output: Some(Digest::compute(b"out")),
            started: Timestamp(from),
            ended: Some(Timestamp(to)),
            order: None,
            is_error: false,
            effect_class: None,
            call_id: None,
            parent: None,
            observed: false,
            effects: Vec::new(),
            metadata: FolderMetadata::default(),
            notified: Vec::new(),
        }
    }

    /// Serves inputs from a recording and returns the place of a divergence.
    fn play(calls: &[Call], inputs: &[&str]) -> Result<Option<u64>, (usize, Match)> {
        let mut replayer = Replayer::new(
            calls.to_vec(),
            Sources {
                models: true,
                tools: true,
            },
        );
        for (step, input) in inputs.iter().enumerate() {
            match replayer.find(Kind::Tool, "grep", Digest::compute(input.as_bytes())) {
                Match::Call(place) => replayer.consume(place),
                other => return Err((step + 1, other)),
            }
        }
        Ok(replayer.unused().map(|call| call.seq))
    }

    #[test]
    fn each_divergence_is_reported_at_its_step() {
        let calls = [
            call(1, "a", 0, 1),
            call(2, "b", 2, 3),
            call(3, "a", 4, 5),
            call(4, "c", 6, 7),
        ];
        let other = |expected, found| Match::Other { expected, found };
        assert_eq!(play(&calls, &["a", "b", "a", "c"]), Ok(None));
        assert_eq!(
            play(&calls, &["a", "b", "a"]),
            Ok(Some(4)),
            "dropped at the end"
        );
        assert_eq!(
            play(&calls, &["a", "a", "c"]),
            Err((2, other(Some(1), Some(2)))),
            "dropped"
        );
        assert_eq!(
            play(&calls, &["b", "a", "a", "c"]),
            Err((1, other(Some(0), Some(1)))),
            "moved"
        );
        assert_eq!(
            play(&calls, &["a", "x", "a", "c"]),
            Err((2, other(Some(1), None))),
            "changed"
        );
        assert_eq!(
            play(&calls, &["a", "b", "a", "c", "c"]),
            Err((5, other(None, None))),
            "added"
        );
    }

    #[test]
    fn calls_that_ran_at_once_come_in_any_order() {
        let calls = [call(1, "a", 0, 9), call(2, "b", 1, 4), call(3, "c", 5, 9)];
        assert_eq!(play(&calls, &["b", "c", "a"]), Ok(None));
        assert_eq!(play(&calls, &["b", "a", "c"]), Ok(None));
        let (step, _) = play(&calls, &["a", "c", "b"]).unwrap_err();
        assert_eq!(step, 2, "c began when b had ended");
    }

    #[test]
    fn parallel_calls_are_ordered_by_count_when_times_are_coarse() {
        let order = |mut call: Call, began, ended| {
            call.order = Some(Order {
                began,
                ended: Some(ended),
            });
            call
        };
        // All within one millisecond.
        let metadata = [
            order(call(1, "a", 5, 5), 1, 3),
            order(call(2, "b", 5, 5), 2, 4),
        ];
        assert_eq!(play(&metadata, &["b", "a"]), Ok(None));
        let in_turn = [
            order(call(1, "a", 5, 5), 1, 2),
            order(call(2, "b", 5, 5), 3, 4),
        ];
        assert!(play(&in_turn, &["b", "a"]).is_err());
        let everything = Sources {
            models: true,
            tools: true,
        };
        let is_parallel = |calls: &[Call]| Replayer::new(calls.to_vec(), everything).is_parallel();
        assert_eq!(
            (is_parallel(&metadata), is_parallel(&in_turn)),
            (true, false)
        );
    }

    #[test]
    fn tools_requested_by_one_answer_are_siblings_until_served() {
        let wanted = |seq, by, id: Option<&str>| Call {
            parent: by,
            call_id: id.map(str::to_owned),
            ..call(seq, &seq.to_string(), 0, 1)
        };
        let calls = vec![
            wanted(2, Some(1), Some("a")),
            wanted(3, Some(1), Some("b")),
            wanted(5, Some(4), Some("c")),
            wanted(6, Some(4), None),
            wanted(7, None, Some("d")),
        ];
        let everything = Sources {
            models: true,
            tools: true,
        };
        let mut replayer = Replayer::new(calls, everything);
        let siblings = |replayer: &Replayer| {
            (0..5)
                .map(|at| replayer.has_siblings(at))
                .collect::<Vec<_>>()
        };
        assert_eq!(siblings(&replayer), [true, true, false, false, false]);
        replayer.consume(0);
        assert!(!siblings(&replayer)[1]);
    }

    #[test]
    fn nested_calls_are_not_expected_from_the_program() {
        let mut calls = vec![call(1, "a", 0, 9), call(2, "b", 1, 8), call(3, "c", 2, 4)];
        calls[1].parent = Some(1);
        calls[2].parent = Some(2);
        calls[2].kind = Kind::Model;
        calls.push(call(4, "d", 9, 10));
        let everything = Sources {
            models: true,
            tools: true,
        };
        let replayer = Replayer::new(calls.clone(), everything);
        let steps = |calls: &[Call]| calls.iter().map(|call| call.seq).collect::<Vec<_>>();
        assert_eq!(steps(replayer.calls()), [1, 4]);
        assert_eq!(
            (steps(replayer.within(0)), steps(replayer.within(1))),
            (vec![2, 3], vec![])
        );
        assert!(
            !replayer.is_parallel(),
            "a tool does not run at the same time as its calls"
        );
        let first = Replayer::first(calls.clone(), everything, 1).unwrap();
        assert_eq!(
            steps(first.within(0)),
            [2, 3],
            "they are part of the first step"
        );
        // For live tools, their own calls are expected.
        let models = Sources {
            models: true,
            tools: false,
        };
        let replayer = Replayer::new(calls, models);
        assert_eq!(steps(replayer.calls()), [3]);
    }

    #[test]
    fn first_steps_are_served_then_the_run_is_live() {
        let calls = vec![call(1, "a", 0, 1), call(2, "b", 2, 3)];
        let everything = Sources {
            models: true,
            tools: true,
        };
        assert!(Replayer::first(calls.clone(), everything, 3).is_none());
        let mut replayer = Replayer::first(calls, everything, 1).unwrap();
        let input = Digest::compute(b"a");
        assert_eq!(
            replayer.find(Kind::Tool, "grep", Digest::compute(b"b")),
            Match::Other {
                expected: Some(0),
                found: None
            }
        );
        assert_eq!(replayer.find(Kind::Tool, "grep", input), Match::Call(0));
        assert!(replayer.serves(Kind::Tool));
        replayer.consume(0);
        assert!(!replayer.serves(Kind::Tool));
        assert_eq!(replayer.unused(), None);
    }

    #[test]
    fn an_answer_of_the_client_has_no_place_among_its_calls() {
        let mut answer = call(2, "folders", 2, 3);
        answer.kind = Kind::Protocol;
        answer.name = format!("{OF_CLIENT}roots/list");
        answer.parent = Some(1);
        let calls = vec![
            call(1, "hello", 0, 1),
            answer.clone(),
            call(3, "list", 4, 5),
        ];
        let everything = Sources {
            models: true,
            tools: true,
        };
        let digest = |text: &str| Digest::compute(text.as_bytes());
        let mut replayer = Replayer::new(calls, everything);
        replayer.consume(0);
        assert_eq!(
            replayer.find(Kind::Tool, "grep", digest("list")),
            Match::Call(2)
        );
        assert_eq!(
            replayer.find(Kind::Tool, "grep", digest("other")),
            Match::Other {
                expected: Some(2),
                found: None
            }
        );
        replayer.consume(2);
        assert_eq!(
            replayer.find(Kind::Protocol, &answer.name, digest("other")),
            Match::Other {
                expected: Some(1),
                found: None
            }
        );
        assert_eq!(
            replayer.find(Kind::Protocol, &answer.name, digest("folders")),
            Match::Call(1)
        );
        replayer.consume(1);
        assert_eq!(replayer.unused(), None);
    }

    #[test]
    fn a_list_may_be_asked_for_more_or_less_often_than_it_was() {
        let list = |seq, from, to| Call {
            kind: Kind::Protocol,
            name: "mcp/tools/list".into(),
            ..call(seq, "", from, to)
        };
        let calls = [
            list(1, 0, 1),
            call(2, "a", 2, 3),
            list(3, 4, 5),
            call(4, "b", 6, 7),
        ];
        let served = |order: &str| -> Result<Vec<u64>, Match> {
            let everything = Sources {
                models: true,
                tools: true,
            };
            let mut replayer = Replayer::new(calls.to_vec(), everything);
            for word in order.split(' ') {
                let (kind, name, input) = match word {
                    "list" => (Kind::Protocol, "mcp/tools/list", ""),
                    input => (Kind::Tool, "grep", input),
                };
                match replayer.find(kind, name, Digest::compute(input.as_bytes())) {
                    Match::Call(place) => replayer.consume(place),
                    other => return Err(other),
                }
            }
            let unused = replayer.unused().map(|call| call.seq);
            Ok(unused.into_iter().collect())
        };
        for order in [
            "list a list b",
            "list a b",
            "list list a list list b list",
            "list a b list",
        ] {
            assert_eq!(served(order), Ok(vec![]), "{order}");
        }
        // The first one has a fixed place, and so have calls with effects.
        assert_eq!(served("list a"), Ok(vec![4]));
        let other = |expected, found| Err(Match::Other { expected, found });
        assert_eq!(served("a list b"), other(Some(0), Some(1)));
        assert_eq!(served("list b a"), other(Some(1), Some(3)));
        assert_eq!(served("list a a"), other(Some(3), None));
    }

    #[test]
    fn of_several_servers_each_list_has_its_place() {
        let protocol = |seq: u64, name: &str, input| {
            let at = 2 * i64::try_from(seq).unwrap();
            Call {
                kind: Kind::Protocol,
                name: name.into(),
                ..call(seq, input, at, at + 1)
            }
        };
        let calls = vec![
            protocol(1, "mcp/initialize", "a"),
            protocol(2, "mcp/tools/list", ""),
            protocol(3, "mcp/initialize", "b"),
            protocol(4, "mcp/tools/list", ""),
        ];
        let everything = Sources {
            models: true,
            tools: true,
        };
        let mut replayer = Replayer::new(calls, everything);
        for (place, (name, input)) in [
            ("mcp/initialize", "a"),
            ("mcp/tools/list", ""),
            ("mcp/initialize", "b"),
        ]
        .into_iter()
        .enumerate()
        {
            let found = replayer.find(Kind::Protocol, name, Digest::compute(input.as_bytes()));
            assert_eq!(found, Match::Call(place));
            replayer.consume(place);
        }
        // The second server's list was not requested yet, and the first server's must not be served
        // for it.
        assert_eq!(replayer.unused().map(|call| call.seq), Some(4));
        replayer.consume(3);
        let again = replayer.find(Kind::Protocol, "mcp/tools/list", Digest::compute(b""));
        assert!(
            matches!(again, Match::Other { found: None, .. }),
            "{again:?}"
        );
    }

    #[test]
    fn calls_that_are_not_served_are_not_expected() {
        let mut observed = call(1, "a", 0, 1);
        observed.observed = true;
        let calls = [observed, call(2, "b", 2, 3)];
        assert_eq!(play(&calls, &["b"]), Ok(None));
        let models = Sources {
            models: true,
            tools: false,
        };
        let mut ask = call(3, "c", 4, 5);
        ask.kind = Kind::Model;
        let replayer = Replayer::new(vec![call(1, "a", 0, 1), ask, call(4, "b", 6, 7)], models);
        assert_eq!((replayer.step(Some(0)), replayer.step(None)), (3, 5));
    }

    #[test]
    fn the_first_difference_is_a_pointer() {
        let a = json!({ "b": [1, { "c/d": 2 }], "e": 3 });
        assert_eq!(first_difference(&a, &a), None);
        let b = json!({ "b": [1, { "c/d": 5 }], "e": 4 });
        assert_eq!(first_difference(&a, &b).as_deref(), Some("/b/1/c~1d"));
        let b = json!({ "b": [1], "e": 3 });
        assert_eq!(first_difference(&a, &b).as_deref(), Some("/b/1"));
        assert_eq!(first_difference(&json!(1), &json!(2)).as_deref(), Some(""));
    }
}
