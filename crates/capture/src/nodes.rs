//! The nodes of a workflow while a recorded run is done again: some are answered from its log,
//! the others do their work.
//!
//! An attempt is found by node, visit and number, and answered only if its inputs are those of
//! the recording. What only computes is computed again, whatever the sources are.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::ids::{AttemptId, AttemptKey, InterruptId, NodeId, StreamId};
use kernel::problem::Problem;
use kernel::run::{Command, Event, NodeError, Outcome, Report, RunEvent};
use kernel::sealed::has_sealed;
use parking_lot::Mutex;
use runtime::nodes::{Given, NodeContext, Past, Ports, Registry, Repeat, Started, WorkNode};
use serde_json::{Map, Value, json};

use crate::call::Kind;
use crate::tape::{Divergence, Reason, Side, Sources, first_difference};

/// The code of an attempt that the recording does not have.
pub const LEFT: &str = "replay_left_recording";

/// What the attempts of a run were given, and what they came to.
#[derive(Default)]
pub struct Attempts {
    steps: Vec<Step>,
    places: BTreeMap<AttemptId, usize>,
    questions: Vec<Question>,
}

/// A question of a node, and what it was answered with.
struct Question {
    id: InterruptId,
    node: NodeId,
    key: String,
    answer: Option<Value>,
}

struct Step {
    attempt: AttemptId,
    type_id: String,
    inputs: Map<String, Value>,
    reports: Vec<Report>,
    outcome: Option<Outcome>,
}

impl Attempts {
    /// Those of a log, in the order of their start.
    pub fn of(events: &[Event]) -> Self {
        let mut attempts = Self::default();
        let mut begun = 0;
        for end in 1..=events.len() {
            if events.get(end).is_none_or(|event| event.cause.is_some()) {
                attempts.batch(&events[begun..end]);
                begun = end;
            }
        }
        attempts
    }

    fn batch(&mut self, batch: &[Event]) {
        match Command::from_log(batch).map(|(envelope, _)| envelope.command) {
            Some(Command::Finish { attempt, outcome }) => {
                if let Some(step) = self.step(&attempt) {
                    step.outcome = Some(outcome);
                }
            }
            Some(Command::Report { report }) => {
                if let Some(step) = self.step(&report.attempt()) {
                    step.reports.push(*report);
                }
            }
            _ => {}
        }
        for event in batch {
            self.event(&event.body);
        }
    }

    fn event(&mut self, event: &RunEvent) {
        match event {
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
                    let first = self.places.get(&first)?;
                    Some(self.steps[*first].inputs.clone())
                });
                self.places.insert(attempt.clone(), self.steps.len());
                self.steps.push(Step {
                    attempt,
                    type_id: type_id.clone(),
                    inputs: inputs.unwrap_or_default(),
                    reports: Vec::new(),
                    outcome: None,
                });
            }
            // What was handed to somebody outside comes back later.
            RunEvent::NodeCompleted {
                node_id,
                visit,
                attempt,
                outputs,
                ..
            } => self.came_back(node_id, *visit, *attempt, || {
                Outcome::completed(outputs.clone())
            }),
            RunEvent::NodeFailed {
                node_id,
                visit,
                error,
                attempts,
                ..
            } => self.came_back(node_id, *visit, attempts.saturating_sub(1), || {
                Outcome::failed(error.clone())
            }),
            RunEvent::InterruptRequested {
                interrupt_id,
                node_id,
                key,
                ..
            } => {
                self.questions.push(Question {
                    id: interrupt_id.clone(),
                    node: node_id.clone(),
                    key: key.clone(),
                    answer: None,
                });
            }
            RunEvent::InterruptResolved {
                interrupt_id,
                resume_value,
                ..
            } => {
                let mut asked = self.questions.iter_mut();
                if let Some(asked) = asked.find(|asked| asked.id == *interrupt_id) {
                    asked.answer = Some(resume_value.clone());
                }
            }
            _ => {}
        }
    }

    fn came_back(&mut self, node: &NodeId, visit: u32, attempt: u32, with: impl Fn() -> Outcome) {
        let attempt = AttemptId {
            node: node.clone(),
            visit,
            attempt,
        };
        if let Some(step) = self.step(&attempt)
            && matches!(step.outcome, None | Some(Outcome::Waits { .. }))
        {
            step.outcome = Some(with());
        }
    }

    fn step(&mut self, attempt: &AttemptId) -> Option<&mut Step> {
        let place = *self.places.get(attempt)?;
        self.steps.get_mut(place)
    }

    /// The step of an attempt, counted from 1.
    fn number(&self, attempt: &AttemptId) -> Option<u64> {
        Some(*self.places.get(attempt)? as u64 + 1)
    }

    /// The open questions of this run with what another one answered them: the same question of
    /// the same node, as often as it was asked before.
    pub fn answers_of<'a>(&self, other: &'a Self) -> Vec<(InterruptId, Option<&'a Value>)> {
        let alike = |a: &Question, b: &Question| a.node == b.node && a.key == b.key;
        let answered = self.questions.iter().enumerate().map(|(place, open)| {
            let before = self.questions[..place].iter();
            let nth = before.filter(|asked| alike(asked, open)).count();
            let mut theirs = other.questions.iter().filter(|asked| alike(asked, open));
            (
                open,
                theirs.nth(nth).and_then(|asked| asked.answer.as_ref()),
            )
        });
        let open = answered.filter(|(open, _)| open.answer.is_none());
        open.map(|(open, answer)| (open.id.clone(), answer))
            .collect()
    }

    /// The first attempt of another run that is not that of this one.
    pub fn first_divergence(&self, other: &Self) -> Option<Divergence> {
        for step in &self.steps {
            let found = other.places.get(&step.attempt);
            let Some(theirs) = found.map(|place| &other.steps[*place]) else {
                return Some(self.parted(Reason::Missing, Some(step), None));
            };
            if !are_same(&step.inputs, &theirs.inputs) {
                return Some(self.parted(Reason::Changed, Some(step), Some(theirs)));
            }
            if step.result() != theirs.result() {
                return Some(self.parted(Reason::OtherResult, Some(step), Some(theirs)));
            }
        }
        let mut others = other.steps.iter();
        let added = others.find(|step| !self.places.contains_key(&step.attempt))?;
        Some(self.parted(Reason::Added, None, Some(added)))
    }

    fn parted(&self, reason: Reason, ours: Option<&Step>, theirs: Option<&Step>) -> Divergence {
        let shown = |step: &Step| match reason {
            Reason::OtherResult => step.result(),
            _ => Value::Object(step.inputs.clone()),
        };
        let side = |step: &Step| Side {
            kind: "node",
            name: step.attempt.to_string(),
            input: shown(step),
        };
        let at = match (ours, theirs) {
            (Some(ours), Some(theirs)) => first_difference(&shown(ours), &shown(theirs)),
            _ => None,
        };
        let recorded = ours.and_then(|step| self.number(&step.attempt));
        let step = recorded.unwrap_or(self.steps.len() as u64 + 1);
        let word = match reason {
            Reason::Missing => "was not started again",
            Reason::Added => "was not recorded",
            Reason::OtherResult => "came to something else",
            _ => "was given something else",
        };
        let named = ours.or(theirs);
        let node = named.map_or("?", |step| step.attempt.node.as_str());
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
    /// What it came to, without what no two runs have in common.
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

/// Whether inputs are the same. What is sealed is so anew each time, and tells nothing.
fn are_same(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(name, a)| b.get(name).is_some_and(|b| a == b || has_sealed(a)))
}

/// What is told of a run that is done again.
#[derive(Debug, Default)]
pub struct Told {
    /// Attempts of nodes that ask models and were made.
    pub live_models: u64,
    /// Attempts of other nodes with effects that were made.
    pub live_tools: u64,
    /// Where it left the recording.
    pub divergence: Option<Divergence>,
}

/// The nodes of an engine for doing a run again.
pub fn again(
    nodes: &Registry,
    recorded: Arc<Attempts>,
    sources: Sources,
    told: &Arc<Mutex<Told>>,
) -> Registry {
    Registry::of(nodes.nodes().map(|node| {
        let again = Again {
            kind: kind_of(node.type_id()),
            node: node.clone(),
            recorded: recorded.clone(),
            sources,
            told: told.clone(),
        };
        Arc::new(again) as Arc<dyn WorkNode>
    }))
}

/// What a node is for a replay: nodes that ask models and those that hand work to an agent, which
/// does, are models; every other one is a tool.
fn kind_of(type_id: &str) -> Kind {
    let is_model = type_id.starts_with("core.ai.")
        || matches!(
            type_id,
            "runwright.skill" | "runwright.command" | "runwright.agent"
        );
    match is_model {
        true => Kind::Model,
        false => Kind::Tool,
    }
}

struct Again {
    node: Arc<dyn WorkNode>,
    kind: Kind,
    recorded: Arc<Attempts>,
    sources: Sources,
    told: Arc<Mutex<Told>>,
}

impl Again {
    fn is_served(&self) -> bool {
        self.sources.has(self.kind)
    }

    /// What the recording has for an attempt.
    fn answer(&self, started: &Started) -> Result<&Step, Box<Divergence>> {
        let attempt = started.attempt();
        let asked = Step {
            attempt: attempt.clone(),
            type_id: self.node.type_id().to_owned(),
            inputs: started.inputs().clone(),
            reports: Vec::new(),
            outcome: None,
        };
        let recorded = &self.recorded;
        let step = recorded.places.get(attempt).map(|at| &recorded.steps[*at]);
        let (reason, step) = match step {
            None => (Reason::Added, None),
            Some(step) if !are_same(&step.inputs, &asked.inputs) => (Reason::Changed, Some(step)),
            Some(step) if step.outcome.is_none() => (Reason::ContentUnavailable, Some(step)),
            Some(step) => return Ok(step),
        };
        Err(Box::new(recorded.parted(reason, step, Some(&asked))))
    }

    async fn serve(&self, started: &Started, cx: &NodeContext) -> Outcome {
        let step = match self.answer(started) {
            Ok(step) => step,
            Err(divergence) => {
                let message = divergence.message.clone();
                self.told.lock().divergence.get_or_insert(*divergence);
                return Outcome::failed(NodeError::new(LEFT, message).fatal());
            }
        };
        for report in &step.reports {
            if cx.output.report(report.clone()).await.is_err() {
                return Outcome::Stopped;
            }
        }
        step.outcome.clone().unwrap_or(Outcome::Stopped)
    }
}

#[async_trait]
impl WorkNode for Again {
    fn type_id(&self) -> &'static str {
        self.node.type_id()
    }

    fn summary(&self) -> &'static str {
        self.node.summary()
    }

    fn repeat(&self, config: &Value) -> Repeat {
        match self.is_served() {
            true => Repeat::Repeatable,
            false => self.node.repeat(config),
        }
    }

    fn config_schema(&self) -> Value {
        self.node.config_schema()
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        self.node.check(config)
    }

    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        !self.is_served() && self.node.has_result(ports, run, key)
    }

    fn remembers_calls(&self) -> bool {
        !self.is_served() && self.node.remembers_calls()
    }

    fn goes_on(&self, past: &Past<'_>) -> bool {
        !self.is_served() && self.node.goes_on(past)
    }

    fn leaves_results(&self) -> bool {
        self.node.leaves_results()
    }

    fn spends(&self) -> &'static [&'static str] {
        self.node.spends()
    }

    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        self.node.compute(given)
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let computed = self.node.compute(&Given {
            config: started.config(),
            inputs: started.inputs(),
            key: started.key(),
        });
        if let Some(outcome) = computed {
            return outcome;
        }
        if self.is_served() {
            return self.serve(&started, &cx).await;
        }
        {
            let mut told = self.told.lock();
            match self.kind {
                Kind::Model => told.live_models += 1,
                Kind::Tool | Kind::Protocol => told.live_tools += 1,
            }
        }
        self.node.run(started, cx).await
    }
}
