//! An independent model of which node runs when, written from the documentation alone
//! (`docs/reference/glossary.md`, `docs/design/decisions/0007-trigger-rule-groups.md`,
//! `0009-stopping.md`).
//!
//! It has no events, log or scheduler: after each outcome it evaluates the whole graph again and
//! again until nothing changes. It shares no code with the kernel.

/// A workflow with the outcomes of its nodes.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// Maximum number of work nodes that run at a time.
    pub(super) slots: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) disabled: bool,
    pub(super) failure_is_skip: bool,
    pub(super) max_retries: usize,
    /// Whether there is a wait before another attempt.
    pub(super) waits_to_retry: bool,
    /// The outcomes of its attempts, in order; the last one repeats.
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Work,
    /// Ends by the port `true` or `false` as soon as it is reached.
    Gate(bool),
    Delay,
    Question,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Attempt {
    /// Success, with the output `n`, or without one.
    Gives(Option<i64>),
    Fails {
        code: &'static str,
        fatal: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rule: Rule,
    pub(super) condition: Option<Condition>,
    /// The port of a gate.
    pub(super) port: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    AllSuccess,
    AnySuccess,
    AllComplete,
    NoneFailed,
    AnyFailed,
}

impl Rule {
    pub(super) const ALL: [Self; 5] = [
        Self::AllSuccess,
        Self::AnySuccess,
        Self::AllComplete,
        Self::NoneFailed,
        Self::AnyFailed,
    ];

    /// Whether an edge with this rule can follow a failure.
    pub(super) fn takes_failures(self) -> bool {
        matches!(self, Self::AnyFailed | Self::AllComplete)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Condition {
    /// The source gave an `n` greater than this. Without an `n` it has no value.
    NAbove(i64),
    /// The source ended in this error.
    ErrorIs(&'static str),
    /// The source completed.
    Completed,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Before,
    UnderWay,
    BetweenAttempts,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

/// The effect of an edge on its target once its source has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Success,
    Failure,
    Skip,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Progress {
    Running,
    /// It ends like this as soon as the running work has stopped.
    Stopping(End),
    Ended(End),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Completed,
    Failed(String),
    Cancelled,
}

#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    graph: Graph,
    pub(super) places: Vec<Place>,
    words: Vec<Option<Word>>,
    failures: Vec<usize>,
    pub(super) progress: Progress,
}

impl Interpreter {
    pub(super) fn new(graph: Graph) -> Self {
        Self {
            places: vec![Place::Before; graph.nodes.len()],
            words: vec![None; graph.edges.len()],
            failures: vec![0; graph.nodes.len()],
            progress: Progress::Running,
            graph,
        }
    }

    /// The outcome of a running attempt of a node.
    pub(super) fn coming(&self, node: usize) -> Attempt {
        let attempts = &self.graph.nodes[node].attempts;
        attempts[self.failures[node].min(attempts.len() - 1)]
    }

    pub(super) fn attempt_ends(&mut self, node: usize) {
        match self.coming(node) {
            Attempt::Gives(n) => self.completes(node, n),
            Attempt::Fails { code, fatal } => self.fails(node, code, fatal),
        }
        self.end_if_stopped();
    }

    pub(super) fn completes(&mut self, node: usize, n: Option<i64>) {
        self.places[node] = Place::Completed;
        let mut has_no_value = false;
        for (at, edge) in self.graph.edges.iter().enumerate() {
            if edge.from != node {
                continue;
            }
            let port = match self.graph.nodes[node].kind {
                Kind::Gate(port) => Some(port),
                _ => None,
            };
            let holds = match edge.condition {
                // It cannot follow a success, regardless of its condition.
                _ if edge.rule == Rule::AnyFailed => true,
                Some(Condition::NAbove(than)) => match n {
                    Some(n) => n > than,
                    None => {
                        has_no_value = true;
                        false
                    }
                },
                Some(Condition::ErrorIs(_)) => false,
                Some(Condition::Completed) | None => true,
            };
            let other_port = edge.port.is_some() && edge.port != port;
            self.words[at] = Some(if holds && !other_port {
                Word::Success
            } else {
                Word::Skip
            });
        }
        if has_no_value {
            self.stop(End::Failed("condition_failed".into()));
        }
    }

    fn fails(&mut self, node: usize, code: &str, fatal: bool) {
        let is_stopping = self.progress != Progress::Running;
        let of = &self.graph.nodes[node];
        if !fatal && self.failures[node] < of.max_retries && !is_stopping {
            self.failures[node] += 1;
            self.places[node] = if of.waits_to_retry {
                Place::BetweenAttempts
            } else {
                Place::UnderWay
            };
            return;
        }
        if of.failure_is_skip && !is_stopping {
            return self.skip(node);
        }
        self.places[node] = Place::Failed;
        let mut is_taken = false;
        for (at, edge) in self.graph.edges.iter().enumerate() {
            if edge.from != node {
                continue;
            }
            let holds = match edge.condition {
                Some(Condition::ErrorIs(expected)) if edge.rule.takes_failures() => {
                    expected == code
                }
                Some(Condition::Completed) if edge.rule.takes_failures() => false,
                _ => true,
            };
            is_taken |= holds && edge.rule.takes_failures();
            self.words[at] = Some(if holds { Word::Failure } else { Word::Skip });
        }
        if !is_taken && !is_stopping {
            self.stop(End::Failed(code.to_owned()));
        }
    }

    fn skip(&mut self, node: usize) {
        self.places[node] = Place::Skipped;
        for (at, edge) in self.graph.edges.iter().enumerate() {
            if edge.from == node {
                self.words[at] = Some(Word::Skip);
            }
        }
    }

    /// A wait between attempts is over.
    pub(super) fn tries_again(&mut self, node: usize) {
        self.places[node] = Place::UnderWay;
    }

    /// An attempt was stopped because the run ends.
    pub(super) fn is_stopped(&mut self, node: usize) {
        self.places[node] = Place::Cancelled;
        self.end_if_stopped();
    }

    /// Ends the run: waiting nodes end now, running work is stopped first. The first reason counts.
    pub(super) fn stop(&mut self, end: End) {
        if self.progress != Progress::Running {
            return;
        }
        for node in 0..self.places.len() {
            let waits = match self.places[node] {
                Place::BetweenAttempts => true,
                Place::UnderWay => self.graph.nodes[node].kind != Kind::Work,
                _ => false,
            };
            if waits {
                self.places[node] = Place::Cancelled;
            }
        }
        self.progress = Progress::Stopping(end);
        self.end_if_stopped();
    }

    fn end_if_stopped(&mut self) {
        if let Progress::Stopping(end) = &self.progress
            && !self.places.contains(&Place::UnderWay)
        {
            self.progress = Progress::Ended(end.clone());
        }
    }

    /// Evaluates the whole graph until nothing changes. Returns the nodes that could start but have
    /// no certain slot: the engine chooses among them, see [`Self::starts`].
    pub(super) fn look_again(&mut self) -> Vec<usize> {
        let mut could_start = Vec::new();
        let mut changed = true;
        while changed && self.progress == Progress::Running {
            changed = false;
            could_start.clear();
            for node in 0..self.places.len() {
                if self.places[node] != Place::Before {
                    continue;
                }
                let of = &self.graph.nodes[node];
                match (self.rules_of(node), of.kind) {
                    (None, _) => continue,
                    (Some(false), _) => self.skip(node),
                    (Some(true), _) if of.disabled => self.skip(node),
                    (Some(true), Kind::Gate(_)) => self.completes(node, None),
                    (Some(true), Kind::Work) if self.graph.slots.is_some() => {
                        could_start.push(node);
                        continue;
                    }
                    (Some(true), _) => self.places[node] = Place::UnderWay,
                }
                changed = true;
            }
        }
        let is_under_way =
            |place: &Place| matches!(place, Place::UnderWay | Place::BetweenAttempts);
        if self.progress == Progress::Running
            && could_start.is_empty()
            && !self.places.iter().any(is_under_way)
        {
            self.progress = Progress::Ended(End::Completed);
        }
        could_start
    }

    /// The engine gave a slot to a node that could start.
    pub(super) fn starts(&mut self, node: usize) {
        self.places[node] = Place::UnderWay;
    }

    /// Number of taken slots: a node keeps its slot between its attempts.
    pub(super) fn taken_slots(&self) -> usize {
        let takes = |(place, node): &(&Place, &Node)| {
            node.kind == Kind::Work && matches!(place, Place::UnderWay | Place::BetweenAttempts)
        };
        self.places
            .iter()
            .zip(&self.graph.nodes)
            .filter(takes)
            .count()
    }

    /// Whether a node must start, or never will; `None` while that is open. Edges of one rule form
    /// a group: all groups have to be satisfied, and one that cannot be decides.
    fn rules_of(&self, node: usize) -> Option<bool> {
        let mut all_met = true;
        for rule in Rule::ALL {
            let words: Vec<Option<Word>> = self
                .graph
                .edges
                .iter()
                .zip(&self.words)
                .filter(|(edge, _)| edge.to == node && edge.rule == rule)
                .map(|(_, word)| *word)
                .collect();
            if words.is_empty() {
                continue;
            }
            let all_known = !words.contains(&None);
            let any = |word| words.contains(&Some(word));
            let (met, can_be_met) = match rule {
                // Every source completed and is followed.
                Rule::AllSuccess => {
                    let broken = any(Word::Failure) || any(Word::Skip);
                    (all_known && !broken, !broken)
                }
                // One source completed and is followed; the others may still run.
                Rule::AnySuccess => (any(Word::Success), any(Word::Success) || !all_known),
                // Every source ended, with any result.
                Rule::AllComplete => (all_known, true),
                // Every source ended and none failed.
                Rule::NoneFailed => (all_known && !any(Word::Failure), !any(Word::Failure)),
                // One source failed; the others may still run.
                Rule::AnyFailed => (any(Word::Failure), any(Word::Failure) || !all_known),
            };
            if !can_be_met {
                return Some(false);
            }
            all_met &= met;
        }
        all_met.then_some(true)
    }
}
