//! The attempts of a run and of its child runs with their outcomes, from their logs.
//!
//! In a fork, child runs have other ids than in the recording. Their path is the same: the node
//! that started them, with visit and attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use faces::{Mask, apply_mask};
use kernel::definition::Plan;
use kernel::ids::{AttemptId, InterruptId, NodeId, StreamId, child_stream, worker_stream};
use kernel::limits::MAX_WORKERS;
use kernel::run::capacity::Capacity;
use kernel::run::{Command, Event, Outcome, Report, RunEvent};
use kernel::sealed::has_sealed;
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::replayer::{Divergence, Reason, Side, first_difference};

/// The log of a run.
pub struct Log {
    /// Which.
    pub run: StreamId,
    /// The runs from which the ids of its children may derive: itself, and the sources it was
    /// forked from.
    pub origins: Vec<StreamId>,
    /// Its events.
    pub events: Vec<Event>,
    /// Its workflow, which defines the values that readers may not see.
    pub plan: Arc<Plan>,
}

/// The path from a run to a descendant.
type Way = Vec<Link>;

/// One run's link to a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    by: AttemptId,
    /// The number of the child, if one attempt started several.
    worker: Option<u32>,
}

impl Link {
    /// The child run that an attempt started, found by the id it received.
    fn find(log: &Log, node: &NodeId, visit: u32, last: u32, child: &StreamId) -> Option<Self> {
        let attempts = (0..=last).rev();
        attempts
            .flat_map(|attempt| log.origins.iter().map(move |origin| (attempt, origin)))
            .find_map(|(attempt, origin)| {
                let workers = 0..u32::try_from(MAX_WORKERS).unwrap_or(u32::MAX);
                let all = std::iter::once(None).chain(workers.map(Some));
                let by = AttemptId {
                    node: node.clone(),
                    visit,
                    attempt,
                };
                let link = |worker| Self {
                    by: by.clone(),
                    worker,
                };
                all.map(link).find(|link| link.started(origin) == *child)
            })
    }

    /// The id of this child for a run of the given id.
    fn started(&self, by: &StreamId) -> StreamId {
        let AttemptId {
            node,
            visit,
            attempt,
        } = &self.by;
        match self.worker {
            Some(worker) => worker_stream(by, node, *visit, *attempt, worker),
            None => child_stream(by, node, *visit, *attempt),
        }
    }
}

/// The inputs and outcomes of a run's attempts.
#[derive(Default)]
pub struct Attempts {
    steps: Vec<Step>,
    places: BTreeMap<(Way, AttemptId), usize>,
    questions: Vec<Question>,
    /// The paths of runs, by every id they have.
    runs: BTreeMap<StreamId, Way>,
    /// The workflows of runs.
    plans: BTreeMap<Way, Arc<Plan>>,
}

/// A question of a node, with its answers: several, where a quorum is needed.
struct Question {
    run: StreamId,
    way: Way,
    id: InterruptId,
    node: NodeId,
    key: String,
    answers: Vec<Answer>,
    is_settled: bool,
}

/// An answer to a question.
#[derive(Clone)]
pub struct Answer {
    value: Value,
    by: Option<String>,
    capacity: Capacity,
}

impl Answer {
    /// The same to another question.
    fn again(&self, interrupt: &InterruptId) -> Command {
        Command::Resolve {
            interrupt: interrupt.clone(),
            value: self.value.clone(),
            by: self.by.clone(),
            capacity: self.capacity.clone(),
        }
    }
}

struct Step {
    at: Timestamp,
    way: Way,
    attempt: AttemptId,
    type_id: String,
    inputs: Map<String, Value>,
    reports: Vec<Report>,
    outcome: Option<Outcome>,
    /// The workflow of the attempt.
    plan: Option<Arc<Plan>>,
}

impl Attempts {
    /// Collects the attempts of a run, whose log is the first, and of its child runs, in the order
    /// of their start. Each child's log follows its parent's.
    pub fn from_logs(logs: &[Log]) -> Self {
        let mut attempts = Self::default();
        if let Some(first) = logs.first() {
            attempts.runs.insert(first.run.clone(), Way::new());
        }
        for log in logs {
            let Some(way) = attempts.runs.get(&log.run).cloned() else {
                continue;
            };
            attempts.plans.insert(way.clone(), log.plan.clone());
            let mut begun = 0;
            for end in 1..=log.events.len() {
                let next = log.events.get(end);
                if next.is_none_or(|event| event.cause.is_some()) {
                    attempts.batch(log, &way, &log.events[begun..end]);
                    begun = end;
                }
            }
        }
        // Attempts of one run keep their order: its log never goes back in time.
        attempts.steps.sort_by_key(|step| step.at);
        let steps = attempts.steps.iter().enumerate();
        attempts.places = steps
            .map(|(place, step)| ((step.way.clone(), step.attempt.clone()), place))
            .collect();
        attempts
    }

    /// Registers the replay of this run: its children are then also known by their ids in the fork.
    pub fn known_in(&mut self, fork: &StreamId) {
        let ways: Vec<Way> = self.runs.values().cloned().collect();
        for way in ways {
            let id = way
                .iter()
                .fold(fork.clone(), |run, link| link.started(&run));
            self.runs.insert(id, way);
        }
    }

    fn batch(&mut self, log: &Log, way: &Way, batch: &[Event]) {
        match Command::from_log(batch).map(|(envelope, _)| envelope.command) {
            Some(Command::Finish { attempt, outcome }) => {
                if let Some(step) = self.step(way, &attempt) {
                    step.outcome = Some(outcome);
                }
            }
            Some(Command::Resolve {
                interrupt,
                value,
                by,
                capacity,
            }) => {
                if let Some(asked) = self.question(log, &interrupt) {
                    asked.answers.push(Answer {
                        value,
                        by,
                        capacity,
                    });
                }
            }
            Some(Command::Report { report }) => {
                if let Some(step) = self.step(way, &report.attempt()) {
                    step.reports.push(*report);
                }
            }
            _ => {}
        }
        for event in batch {
            self.event(log, way, event);
        }
    }

    fn event(&mut self, log: &Log, way: &Way, event: &Event) {
        match &event.body {
            RunEvent::NodeDispatched {
                node_id,
                visit,
                child_run_id,
                ..
            } => {
                let is_of = |step: &&Step| {
                    step.way == *way
                        && step.attempt.node == *node_id
                        && step.attempt.visit == *visit
                };
                let last = self.steps.iter().rfind(is_of);
                let last = last.map_or(0, |step| step.attempt.attempt);
                if let Some(link) = Link::find(log, node_id, *visit, last, child_run_id) {
                    let way = way.iter().cloned().chain([link]).collect();
                    self.runs.insert(child_run_id.clone(), way);
                }
            }
            RunEvent::NodeStarted {
                node_id,
                type_id,
                visit,
                attempt,
                inputs,
                ..
            } => {
                let attempt = AttemptId {
                    node: node_id.clone(),
                    visit: *visit,
                    attempt: *attempt,
                };
                // Later attempts of a visit have the inputs of the first.
                let first = AttemptId {
                    attempt: 0,
                    ..attempt.clone()
                };
                let inputs = inputs.clone().or_else(|| {
                    let first = self.step(way, &first)?;
                    Some(first.inputs.clone())
                });
                let place = (way.clone(), attempt.clone());
                self.places.insert(place, self.steps.len());
                self.steps.push(Step {
                    at: event.at,
                    way: way.clone(),
                    attempt,
                    type_id: type_id.clone(),
                    inputs: inputs.unwrap_or_default(),
                    reports: Vec::new(),
                    outcome: None,
                    plan: Some(log.plan.clone()),
                });
            }
            // Work handed to an external agent completes later.
            RunEvent::NodeCompleted {
                node_id,
                visit,
                attempt,
                outputs,
                ..
            } => self.came_back(way, (node_id, *visit, *attempt), || {
                Outcome::completed(outputs.clone())
            }),
            RunEvent::NodeFailed {
                node_id,
                visit,
                error,
                attempts,
                ..
            } => self.came_back(way, (node_id, *visit, attempts.saturating_sub(1)), || {
                Outcome::failed(error.clone())
            }),
            RunEvent::InterruptRequested {
                interrupt_id,
                node_id,
                key,
                ..
            } => {
                self.questions.push(Question {
                    run: log.run.clone(),
                    way: way.clone(),
                    id: interrupt_id.clone(),
                    node: node_id.clone(),
                    key: key.clone(),
                    answers: Vec::new(),
                    is_settled: false,
                });
            }
            RunEvent::InterruptResolved {
                interrupt_id,
                resume_value,
                resolved_by,
                ..
            } => {
                if let Some(asked) = self.question(log, interrupt_id) {
                    asked.is_settled = true;
                    // Resolved by a signal or by a timer.
                    if asked.answers.is_empty() {
                        asked.answers.push(Answer {
                            value: resume_value.clone(),
                            by: resolved_by.clone(),
                            capacity: Capacity::default(),
                        });
                    }
                }
            }
            _ => {}
        }
    }

    fn came_back(
        &mut self,
        way: &Way,
        (node, visit, attempt): (&NodeId, u32, u32),
        with: impl Fn() -> Outcome,
    ) {
        let attempt = AttemptId {
            node: node.clone(),
            visit,
            attempt,
        };
        if let Some(step) = self.step(way, &attempt)
            && matches!(step.outcome, None | Some(Outcome::Waits { .. }))
        {
            step.outcome = Some(with());
        }
    }

    fn question(&mut self, log: &Log, id: &InterruptId) -> Option<&mut Question> {
        let mut asked = self.questions.iter_mut();
        asked.find(|asked| asked.run == log.run && asked.id == *id)
    }

    fn step(&mut self, way: &Way, attempt: &AttemptId) -> Option<&mut Step> {
        let place = self.place(way, attempt)?;
        self.steps.get_mut(place)
    }

    fn place(&self, way: &Way, attempt: &AttemptId) -> Option<usize> {
        let of = (way.clone(), attempt.clone());
        self.places.get(&of).copied()
    }

    /// A value with ids of runs, which differ in every execution, replaced by their paths.
    fn named(&self, mut value: Value) -> Value {
        self.name(&mut value);
        value
    }

    fn name(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for (id, way) in &self.runs {
                    if text.contains(id.as_str()) {
                        *text = text.replace(id.as_str(), &format!("[run /{}]", shown(way, "")));
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.name(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.name(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether two attempts have the same inputs. A sealed value is encrypted differently each
    /// time, so it is not compared.
    fn are_same(&self, a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
        let is_same = |a: &Value, b: &Value| {
            a == b || has_sealed(a) || self.named(a.clone()) == self.named(b.clone())
        };
        a.len() == b.len()
            && a.iter()
                .all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
    }

    /// The recorded outcome for an attempt of a run, by the run's id here or in a fork.
    ///
    /// # Errors
    /// When there is none, or the inputs differ.
    pub fn answer(
        &self,
        (run, attempt, inputs): (&StreamId, &AttemptId, &Map<String, Value>),
        type_id: &str,
    ) -> Result<(&[Report], &Outcome), Box<Divergence>> {
        let way = self.runs.get(run);
        let unknown = || {
            let by = AttemptId {
                node: "(another run)".into(),
                visit: 0,
                attempt: 0,
            };
            vec![Link { by, worker: None }]
        };
        let asked = Step {
            at: Timestamp(0),
            way: way.cloned().unwrap_or_else(unknown),
            attempt: attempt.clone(),
            type_id: type_id.to_owned(),
            inputs: inputs.clone(),
            reports: Vec::new(),
            outcome: None,
            plan: way.and_then(|way| self.plans.get(way)).cloned(),
        };
        let step = self.place(&asked.way, attempt).map(|at| &self.steps[at]);
        let reason = match step {
            None => Reason::Added,
            Some(step) if !self.are_same(&step.inputs, inputs) => Reason::Changed,
            Some(step) => match &step.outcome {
                Some(outcome) => return Ok((&step.reports, outcome)),
                None => Reason::ContentUnavailable,
            },
        };
        Err(Box::new(self.parted(reason, step, Some(&asked))))
    }

    /// The answers that open questions of these runs still lack, from another execution: those to
    /// the same question of the same node, at the same repetition.
    pub fn answers_of(&self, other: &Self) -> Vec<(StreamId, Command)> {
        let alike =
            |a: &Question, b: &Question| (&a.way, &a.node, &a.key) == (&b.way, &b.node, &b.key);
        let mut all = Vec::new();
        for (place, open) in self.questions.iter().enumerate() {
            let before = self.questions[..place].iter();
            let nth = before.filter(|asked| alike(asked, open)).count();
            let mut theirs = other.questions.iter().filter(|asked| alike(asked, open));
            if let (false, Some(theirs)) = (open.is_settled, theirs.nth(nth)) {
                let rest = theirs.answers.iter().skip(open.answers.len());
                all.extend(rest.map(|answer| (open.run.clone(), answer.again(&open.id))));
            }
        }
        all
    }

    /// The first attempt of another run that differs from this one's.
    pub fn first_divergence(&self, other: &Self) -> Option<Divergence> {
        let mut behind = None;
        for step in &self.steps {
            let found = other.place(&step.way, &step.attempt);
            let Some(theirs) = found.map(|place| &other.steps[place]) else {
                return Some(self.parted(Reason::Missing, Some(step), None));
            };
            if !self.are_same(&step.inputs, &theirs.inputs) {
                return Some(self.parted(Reason::Changed, Some(step), Some(theirs)));
            }
            let came_to = |step: &Step| {
                let mut result = self.named(step.result());
                // A sealed value is encrypted differently each time.
                apply_mask(&mut result);
                result
            };
            if came_to(step) != came_to(theirs) {
                let parted = self.parted(Reason::OtherResult, Some(step), Some(theirs));
                // The result follows from child runs, whose own divergence is reported first.
                if !self.has_started(step) {
                    return Some(parted);
                }
                behind.get_or_insert(parted);
            }
        }
        let mut others = other.steps.iter();
        let added = others.find(|step| self.place(&step.way, &step.attempt).is_none());
        let added = added.map(|added| self.parted(Reason::Added, None, Some(added)));
        added.or(behind)
    }

    fn has_started(&self, step: &Step) -> bool {
        let mut ways = self.runs.values();
        ways.any(|way| {
            let last = way.split_last();
            last.is_some_and(|(link, to)| to == step.way && link.by == step.attempt)
        })
    }

    /// The inputs or the result of an attempt, masked for readers.
    fn as_shown(step: &Step, reason: Reason) -> Value {
        let Some(plan) = &step.plan else {
            // Without the plan, no value may be shown.
            return Value::Null;
        };
        let (mask, node) = (Mask::from_plan(plan), &step.attempt.node);
        match reason {
            Reason::OtherResult => step.result_seen(mask),
            _ => mask.inputs(node, &step.inputs).into(),
        }
    }

    fn parted(&self, reason: Reason, ours: Option<&Step>, theirs: Option<&Step>) -> Divergence {
        let given = |step: &Step| match reason {
            Reason::OtherResult => self.named(step.result()),
            _ => self.named(Value::Object(step.inputs.clone())),
        };
        let told = |step: &Step| self.named(Self::as_shown(step, reason));
        let side = |step: &Step| Side {
            kind: "node",
            name: shown(&step.way, &step.attempt.to_string()),
            input: told(step),
        };
        let at = match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let at = first_difference(&given(ours), &given(theirs));
                // The pointer of a masked value ends at the mask.
                at.map(|at| visible(&at, &[told(ours), told(theirs)]))
            }
            _ => None,
        };
        let place = ours.and_then(|step| self.place(&step.way, &step.attempt));
        let recorded = place.map(|place| place as u64 + 1);
        let step = recorded.unwrap_or(self.steps.len() as u64 + 1);
        let word = match reason {
            Reason::Missing => "was not started again",
            Reason::Added => "was not recorded",
            Reason::OtherResult => "had another result",
            _ => "had another input",
        };
        let named = ours.or(theirs);
        let node = named.map_or_else(String::new, |step| {
            shown(&step.way, step.attempt.node.as_str())
        });
        let type_id = named.map_or("", |step| step.type_id.as_str());
        let place = at.as_deref().filter(|at| !at.is_empty());
        let place = place.map_or_else(String::new, |at| format!(" at {at}"));
        Divergence {
            step,
            reason,
            message: format!("step {step}: node {node} ({type_id}) {word}{place}"),
            at,
            recorded_step: recorded,
            expected: ours.map(side),
            actual: theirs.map(side),
        }
    }
}

impl Step {
    /// The result, masked for readers.
    fn result_seen(&self, mask: Mask<'_>) -> Value {
        let node = &self.attempt.node;
        match &self.outcome {
            Some(Outcome::Completed(done)) => {
                let mut result = self.result();
                result["outputs"] = mask.outputs_of(node, &done.outputs).into();
                result["variables"] = mask.variables(&result["variables"]);
                result
            }
            Some(Outcome::Failed { error, .. }) => {
                let error = mask.error(Some(node), error);
                json!({ "error": { "code": error.code, "message": error.message } })
            }
            _ => self.result(),
        }
    }

    /// The result without values that differ in every run.
    fn result(&self) -> Value {
        match &self.outcome {
            Some(Outcome::Completed(done)) => {
                let contents = done.artifacts.iter();
                let contents: Vec<_> = contents.map(|artifact| &artifact.digest).collect();
                json!({ "outputs": done.outputs, "variables": done.variables, "artifacts": contents })
            }
            Some(Outcome::Failed { error, .. }) => {
                json!({ "error": { "code": error.code, "message": error.message } })
            }
            Some(Outcome::Waits { key, .. }) => json!({ "waits": key }),
            Some(Outcome::Stopped) => json!({ "stopped": true }),
            None => Value::Null,
        }
    }
}

/// A pointer, cut where either displayed side ends.
fn visible(pointer: &str, shown: &[Value]) -> String {
    let has = |end: usize| {
        let mut sides = shown
            .iter()
            .filter_map(|side| side.pointer(&pointer[..end]));
        sides.any(|found| found.is_object() || found.is_array())
    };
    let mut ends = pointer.match_indices('/').map(|(end, _)| end);
    match ends.find(|end| !has(*end)) {
        Some(end) => pointer[..end].to_owned(),
        None => pointer.to_owned(),
    }
}

/// The name of an item in the run at the end of a path.
fn shown(way: &Way, name: &str) -> String {
    let nodes = way.iter().map(|link| match link.worker {
        Some(worker) => format!("{}#{worker}/", link.by.node),
        None => format!("{}/", link.by.node),
    });
    nodes.chain([name.to_owned()]).collect()
}
