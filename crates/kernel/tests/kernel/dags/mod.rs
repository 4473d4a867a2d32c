//! The scheduler against an independent interpreter, over random workflows.
//!
//! Each case is a random graph of nodes with every trigger rule, conditions, gates, delays,
//! questions, failures, retries, skips and slots, and a random order of outcomes. After each
//! command both must agree on the state of every node and of the run. A failing case is shrunk.

mod interpreter;

use kernel::replay;
use kernel::run::event::Ending;
use kernel::run::state::Phase;
use kernel::run::{End as RunEnd, NodeError, NodeStatus, Outcome, RunStatus};
use kernel::stream::Policy;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Map, Value, json};

use crate::world::World;
use crate::{flow, laws};

use interpreter::{
    Attempt, Condition, Edge, End, Graph, Interpreter, Kind, Node, Place, Progress, Rule,
};

const CODES: [&str; 2] = ["boom", "bang"];

/// A graph and the choices for the order of outcomes.
#[derive(Clone, Debug)]
struct Case {
    graph: Graph,
    choices: Vec<u16>,
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = vec(node(), 1..9);
    let edges = vec(edge(), 0..20);
    let slots = prop_oneof![3 => Just(None), 1 => (1..4usize).prop_map(Some)];
    let choices = vec(any::<u16>(), 0..60);
    (nodes, edges, slots, choices).prop_map(|(mut nodes, raw, slots, choices)| {
        // No edge leads to the first node: something can start the run.
        nodes[0].disabled = false;
        let edges = raw
            .into_iter()
            .filter_map(|raw| raw.among(&nodes))
            .collect();
        Case {
            graph: Graph {
                nodes,
                edges,
                slots,
            },
            choices,
        }
    })
}

fn node() -> impl Strategy<Value = Node> {
    let kind = prop_oneof![
        6 => Just(Kind::Work),
        1 => any::<bool>().prop_map(Kind::Gate),
        1 => Just(Kind::Delay),
        1 => Just(Kind::Question),
    ];
    let attempt = prop_oneof![
        3 => (0..4i64).prop_map(|n| Attempt::Gives(Some(n))),
        1 => prop_oneof![9 => Just(Some(0)), 1 => Just(None)].prop_map(Attempt::Gives),
        3 => (0..2usize, prop::bool::weighted(0.2))
            .prop_map(|(code, fatal)| Attempt::Fails { code: CODES[code], fatal }),
    ];
    (
        kind,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.15),
        prop_oneof![2 => Just(0usize), 1 => 1..3usize],
        any::<bool>(),
        vec(attempt, 1..4),
    )
        .prop_map(
            |(kind, disabled, failure_is_skip, max_retries, waits_to_retry, attempts)| Node {
                kind,
                disabled,
                failure_is_skip,
                max_retries,
                waits_to_retry,
                attempts,
            },
        )
}

/// An edge whose ends are not chosen yet.
#[derive(Clone, Debug)]
struct RawEdge {
    ends: (prop::sample::Index, prop::sample::Index),
    rule: Rule,
    condition: Option<(u8, i64)>,
    port: Option<bool>,
}

fn edge() -> impl Strategy<Value = RawEdge> {
    (
        any::<(prop::sample::Index, prop::sample::Index)>(),
        prop::sample::select(&Rule::ALL[..]),
        prop::option::weighted(0.35, (0..3u8, 0..3i64)),
        prop::option::weighted(0.8, any::<bool>()),
    )
        .prop_map(|(ends, rule, condition, port)| RawEdge {
            ends,
            rule,
            condition,
            port,
        })
}

impl RawEdge {
    fn among(self, nodes: &[Node]) -> Option<Edge> {
        let (x, y) = (
            self.ends.0.index(nodes.len()),
            self.ends.1.index(nodes.len()),
        );
        let (from, to) = (x.min(y), x.max(y));
        let source = nodes[from].kind;
        let condition = self.condition.map(|(kind, n)| match kind {
            // Only for successes: a failure has no known `n`.
            0 if source == Kind::Work && !self.rule.takes_failures() => Condition::NAbove(n),
            1 if self.rule.takes_failures() => Condition::ErrorIs(CODES[n as usize % 2]),
            _ => Condition::Completed,
        });
        // A node that completed has no error to read.
        let condition = match (condition, self.rule) {
            (Some(Condition::ErrorIs(_)), Rule::AllComplete) => Some(Condition::Completed),
            (condition, _) => condition,
        };
        let port = match source {
            Kind::Gate(_) => self.port,
            _ => None,
        };
        (from != to).then_some(Edge {
            from,
            to,
            rule: self.rule,
            condition,
            port,
        })
    }
}

fn document(graph: &Graph) -> Value {
    let nodes: Vec<Value> = graph.nodes.iter().enumerate().map(node_json).collect();
    let edges: Vec<Value> = graph.edges.iter().enumerate().map(edge_json).collect();
    let mut document = flow::document("n0");
    document["nodes"] = Value::Array(nodes);
    document["edges"] = Value::Array(edges);
    document
}

fn node_json((at, node): (usize, &Node)) -> Value {
    let (type_id, config) = match node.kind {
        Kind::Work => (flow::WORK, json!({})),
        Kind::Gate(port) => (
            "core.conditional",
            json!({ "expression": port.to_string() }),
        ),
        Kind::Delay => ("core.delay", json!({ "ms": 50 })),
        Kind::Question => ("core.interrupt", json!({ "key": format!("n{at}") })),
    };
    let mut settings = json!({
        "retry": {
            "maxRetries": node.max_retries,
            "initialDelayMs": if node.waits_to_retry { 20 } else { 0 },
        },
    });
    if node.failure_is_skip {
        settings["onFailure"] = json!("skip");
    }
    json!({
        "id": format!("n{at}"),
        "typeId": type_id,
        "name": "n",
        "position": { "x": 0, "y": 0 },
        "config": config,
        "inputs": {},
        "settings": settings,
        "disabled": node.disabled,
    })
}

fn edge_json((at, edge): (usize, &Edge)) -> Value {
    let rule = match edge.rule {
        Rule::AllSuccess => "all_success",
        Rule::AnySuccess => "any_success",
        Rule::AllComplete => "all_complete",
        Rule::NoneFailed => "none_failed",
        Rule::AnyFailed => "any_failed",
    };
    let source = format!("n{}", edge.from);
    let mut object = json!({
        "id": format!("e{at}"),
        "sourceNodeId": source,
        "targetNodeId": format!("n{}", edge.to),
        "triggerRule": rule,
    });
    if let Some(condition) = edge.condition {
        let text = match condition {
            Condition::NAbove(n) => format!("output.n > {n}"),
            Condition::ErrorIs(code) => format!("nodes.{source}.error.code == '{code}'"),
            Condition::Completed => format!("nodes.{source}.status == 'completed'"),
        };
        object["condition"] = json!({ "type": "expression", "expression": text });
    }
    if let Some(port) = edge.port {
        object["sourceOutput"] = json!(port.to_string());
    }
    object
}

/// A possible next step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ends(usize),
    Stopped(usize),
    Fires(usize),
    Answered(usize),
    Cancel,
    TakeOver,
}

struct Play {
    graph: Graph,
    run: World,
    model: Interpreter,
}

fn play(case: &Case) -> Result<(), TestCaseError> {
    let policy = Policy {
        max_parallel: case.graph.slots.map(|slots| slots as u32),
        ..Policy::default()
    };
    let mut run = World::new(flow::compile(&document(&case.graph)), policy);
    run.create(Map::new()).decided();
    let mut play = Play {
        graph: case.graph.clone(),
        run,
        model: Interpreter::new(case.graph.clone()),
    };
    play.compare("at the start")?;
    let mut choices = case.choices.iter().copied().map(usize::from);
    while !matches!(play.model.progress, Progress::Ended(_)) {
        let choice = choices.next().unwrap_or(0);
        let steps = play.steps(choice);
        prop_assert!(
            !steps.is_empty(),
            "nothing can happen and the run has not ended"
        );
        let step = steps[choice % steps.len()];
        play.take(step);
        play.compare(&format!("after {step:?}"))?;
    }
    prop_assert!(play.run.run.is_settled());
    cut_and_fork(&play.run, &case.choices);
    Ok(())
}

/// The laws of a log, at places that the case chooses: it folds in parts through checkpoints, is
/// decided again to the same events, and a branch can continue from any event.
fn cut_and_fork(run: &World, choices: &[u16]) {
    let len = run.records.len();
    let mut choices = choices.iter().map(|choice| usize::from(*choice) % len);
    let mut cuts = [
        choices.next().unwrap_or(1),
        choices.next().unwrap_or(len / 2),
    ];
    cuts.sort_unstable();
    let mut state = kernel::run::Run::unborn(run.run.header.clone(), run.run.plan.clone());
    let mut from = 0;
    for to in cuts.into_iter().chain([len]) {
        (state, _) = laws::fold(state, &run.records[from..to]);
        if to > 0 {
            state = laws::through_a_checkpoint(&state);
        }
        from = to;
    }
    assert_eq!(state.state, run.run.state, "fold(a + b) = fold(fold(a), b)");
    let replayed = run.replay(cuts[0] as u64);
    if run.run.status() == RunStatus::Cancelled && replayed.fork.divergence().is_some() {
        // An attempt that its source never had would follow: the replay shows that instead.
        let again = &replayed.world;
        let verified = replay::verify(&again.run.header, &again.run.plan, &again.records);
        assert!(verified.is_ok(), "a cut replay: {:?}", verified.err());
    } else {
        assert!(
            replayed.world.records == run.records,
            "a replay is its source again"
        );
    }
    let mut branch = run.branch(cuts[1] as u64);
    branch.drive_to_the_end();
    let verified = replay::verify(&branch.run.header, &branch.run.plan, &branch.records);
    assert!(
        verified.is_ok(),
        "a branch at {}: {:?}",
        cuts[1],
        verified.err()
    );
}

impl Play {
    fn steps(&self, choice: usize) -> Vec<Step> {
        let stopping = matches!(self.model.progress, Progress::Stopping(_));
        let mut steps = Vec::new();
        for (node, place) in self.model.places.iter().enumerate() {
            match (place, self.graph.nodes[node].kind) {
                (Place::UnderWay, Kind::Work) => {
                    steps.push(Step::Ends(node));
                    if stopping {
                        steps.push(Step::Stopped(node));
                    }
                }
                (Place::UnderWay, Kind::Question) => steps.push(Step::Answered(node)),
                (Place::UnderWay | Place::BetweenAttempts, _) => steps.push(Step::Fires(node)),
                _ => {}
            }
        }
        match choice / 64 % 40 {
            1 if !stopping => steps = vec![Step::Cancel],
            2 | 3 if self.run.run.has_live_work() => steps = vec![Step::TakeOver],
            _ => {}
        }
        steps
    }

    fn take(&mut self, step: Step) {
        let name = |node: usize| format!("n{node}");
        match step {
            Step::Ends(node) => {
                let outcome = match self.model.coming(node) {
                    Attempt::Gives(n) => Outcome::completed(
                        n.map(|n| ("n".to_owned(), json!(n))).into_iter().collect(),
                    ),
                    Attempt::Fails { code, fatal } => {
                        let error = NodeError::new(code, "as the case says");
                        Outcome::failed(if fatal { error.fatal() } else { error })
                    }
                };
                self.run.finish(&name(node), outcome).decided();
                self.model.attempt_ends(node);
            }
            Step::Stopped(node) if self.run.run.live_attempts().count() > 1 => {
                self.run.stopped(&name(node)).decided();
                self.model.is_stopped(node);
            }
            // The last one may also be lost with its holder.
            Step::Stopped(node) => {
                self.run.take_over(&[]).decided();
                self.model.is_stopped(node);
            }
            Step::Fires(node) => {
                let purpose = match self.graph.nodes[node].kind {
                    Kind::Delay => "delay",
                    _ => "retry",
                };
                let timer = format!("{purpose}/{}", name(node));
                let due = self.run.timers[&timer];
                self.run.now = self.run.now.max(due);
                self.run.fires(&timer).decided();
                match purpose {
                    "delay" => self.model.completes(node, None),
                    _ => self.model.tries_again(node),
                }
            }
            Step::Answered(node) => {
                self.run.resolve(&name(node), json!(1)).decided();
                self.model.completes(node, None);
            }
            Step::Cancel => {
                self.run.cancel().decided();
                self.model.stop(End::Cancelled);
            }
            Step::TakeOver => {
                let stopping = matches!(self.model.progress, Progress::Stopping(_));
                self.run.take_over(&[]).decided();
                for node in 0..self.graph.nodes.len() {
                    let is_live = self.model.places[node] == Place::UnderWay
                        && self.graph.nodes[node].kind == Kind::Work;
                    if stopping && is_live {
                        self.model.is_stopped(node);
                    }
                }
            }
        }
    }

    /// Advances the interpreter and compares it with the run.
    fn compare(&mut self, when: &str) -> Result<(), TestCaseError> {
        let could_start = self.model.look_again();
        let facts = self.run.run.facts().expect("the run began");
        if let Some(slots) = self.graph.slots {
            let began: Vec<usize> = could_start
                .iter()
                .copied()
                .filter(|node| facts.nodes[*node].status != NodeStatus::Idle)
                .collect();
            let free = slots.saturating_sub(self.model.taken_slots());
            prop_assert_eq!(
                began.len(),
                could_start.len().min(free),
                "every free slot is used, {}",
                when
            );
            began.into_iter().for_each(|node| self.model.starts(node));
        }
        for (node, place) in self.model.places.iter().enumerate() {
            let expected = match (place, self.graph.nodes[node].kind) {
                (Place::Before, _) => "pending",
                (Place::UnderWay, Kind::Question) => "suspended",
                (Place::UnderWay, _) => "running",
                (Place::BetweenAttempts, _) => "retrying",
                (Place::Completed, _) => "completed",
                (Place::Failed, _) => "failed",
                (Place::Skipped, _) => "skipped",
                (Place::Cancelled, _) => "cancelled",
            };
            let found = facts.nodes[node].status.as_str();
            prop_assert_eq!(found, expected, "n{} {}", node, when);
        }
        let found = match (self.run.run.phase(), self.run.run.end()) {
            (Some(Phase::Stopping { ending }), _) => Progress::Stopping(match ending {
                Ending::Failed { error, .. } => End::Failed(error.code.clone()),
                Ending::Cancelled { .. } => End::Cancelled,
            }),
            (_, Some(RunEnd::Completed { .. })) => Progress::Ended(End::Completed),
            (_, Some(RunEnd::Failed { error, .. })) => {
                Progress::Ended(End::Failed(error.code.clone()))
            }
            (_, Some(RunEnd::Cancelled { .. })) => Progress::Ended(End::Cancelled),
            _ => Progress::Running,
        };
        prop_assert_eq!(&found, &self.model.progress, "the run, {}", when);
        Ok(())
    }
}

/// Runs one case per seed and shrinks one that fails.
fn soak(seed: u64) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, rng).run(&case(), |case| play(&case));
    if let Err(TestError::Fail(why, case)) = result {
        let document = document(&case.graph);
        panic!("seed {seed}: {why}\n{case:#?}\n{document:#}");
    }
}

#[test]
fn soak_random_dags() {
    for seed in testkit::seeds(250, 20_000) {
        soak(seed);
    }
}
