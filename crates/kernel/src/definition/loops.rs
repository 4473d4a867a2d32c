//! Loops: the bodies of `core.loop` nodes, and supervisors with their dispatch.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{EdgeIx, LoopBody, NodeIx, NodeKind, Plan};
use crate::control::ControlKind;
use crate::limits::{DEFAULT_LOOP_ITERATIONS, MAX_LOOP_ITERATIONS};
use crate::problem::{ProblemCode, Problems, quoted};

/// The port of a loop's head that begins a round.
const BODY: &str = "body";
/// The port of a loop's head that leaves the loop.
const DONE: &str = "done";
/// The port of a supervisor that begins a round.
const DISPATCH: &str = "dispatch";
/// The port of a supervisor that ends its work.
const TERMINATE: &str = "terminate";
/// Maximum edges visited to find the bodies of all loops. Loops within loops are visited once per
/// level, so only absurdly nested loops exceed it.
const MAX_STEPS: usize = 5_000_000;

/// Finds the body of every loop and marks the back edges.
pub(super) fn mark(
    plan: &mut Plan,
    places: &[usize],
    declared_iterations: Option<u32>,
    problems: &mut Problems,
) {
    let mut search = Search {
        places,
        problems,
        steps: 0,
        seen: vec![None; plan.nodes.len()],
    };
    let mut loops = Vec::new();
    for head in plan.node_ixs() {
        if is_control(plan, head, ControlKind::Loop) {
            loops.extend(search.find(plan, head));
        }
        if search.is_exhausted() {
            return;
        }
    }
    // Edges back to a `core.loop` do not lead back to a supervisor inside of it.
    for found in &loops {
        for &edge in &found.body.back_edges {
            plan.edges[edge.index()].back = true;
        }
    }
    for head in plan.node_ixs() {
        if is_control(plan, head, ControlKind::Supervisor) {
            loops.extend(search.find_supervised(plan, head));
        }
        if search.is_exhausted() {
            return;
        }
    }
    let tangled = search.check_nesting(plan, &loops);
    for found in loops.iter().filter(|found| !tangled.contains(&found.head)) {
        search.check_closed(plan, found);
    }
    // Larger bodies first, so that the innermost loop is the one that stays.
    loops.sort_by_key(|found| std::cmp::Reverse(found.body.nodes.len()));
    for Found { head, mut body, .. } in loops {
        for &edge in &body.back_edges {
            plan.edges[edge.index()].back = true;
        }
        for &node in &body.nodes {
            plan.nodes[node.index()].within = Some(head);
        }
        let default = match body.port {
            DISPATCH => plan.settings.max_loop_iterations,
            _ => DEFAULT_LOOP_ITERATIONS,
        };
        body.max_iterations = search
            .iterations(plan, head)
            .or(declared_iterations)
            .unwrap_or(default);
        plan.nodes[head.index()].body = Some(body);
    }
}

/// A loop and its body.
struct Found {
    head: NodeIx,
    /// Its nodes are in order, so that they can be searched.
    body: LoopBody,
}

impl Found {
    fn holds(&self, node: NodeIx) -> bool {
        self.body.nodes.binary_search(&node).is_ok()
    }
}

fn is_control(plan: &Plan, ix: NodeIx, kind: ControlKind) -> bool {
    plan.node(ix).kind == NodeKind::Control(kind)
}

struct Search<'a> {
    places: &'a [usize],
    problems: &'a mut Problems,
    steps: usize,
    /// The last loop whose body each node was found in.
    seen: Vec<Option<NodeIx>>,
}

impl Search<'_> {
    /// Whether the limit of visited edges is reached; reports it.
    fn is_exhausted(&mut self) -> bool {
        let is_exhausted = self.steps > MAX_STEPS;
        if is_exhausted {
            self.problems.add(
                "/nodes",
                ProblemCode::TooLarge,
                "the loops are nested too deep; split the workflow",
            );
        }
        is_exhausted
    }

    fn problem_at(&mut self, edge: EdgeIx, message: String) {
        let place = format!("/edges/{}", self.places[edge.index()]);
        self.problems.add(place, ProblemCode::InvalidLoop, message);
    }

    fn problem_of(&mut self, head: NodeIx, message: String) {
        let place = format!("/nodes/{}", head.index());
        self.problems.add(place, ProblemCode::InvalidLoop, message);
    }

    /// The loop of a head: all nodes that a round reaches. `None` if it is not a loop.
    fn find(&mut self, plan: &Plan, head: NodeIx) -> Option<Found> {
        let name = name(plan, head);
        let (starts, exits) = self.ports(plan, head, &name);
        if starts.is_empty() {
            let message =
                format!("the loop {name} has no body; add an edge from its port `{BODY}`");
            self.problem_of(head, message);
            return None;
        }
        let nodes = self.reach(plan, head, &starts);
        let back_edges = self.back_edges(plan, head);
        if back_edges.is_empty() {
            let message =
                format!("no edge leads back to the loop {name}; add one from the end of its body");
            self.problem_of(head, message);
            return None;
        }
        let body = LoopBody {
            port: BODY,
            nodes,
            back_edges,
            max_iterations: 0,
            starts,
            exits,
        };
        Some(Found { head, body })
    }

    /// The loop of a supervisor: everything between a dispatch and its next decision. `None` if no
    /// dispatch leads back to it.
    fn find_supervised(&mut self, plan: &Plan, head: NodeIx) -> Option<Found> {
        let forward: Vec<EdgeIx> = plan
            .node(head)
            .outgoing
            .iter()
            .copied()
            .filter(|&edge| !plan.edge(edge).back)
            .collect();
        let leads_back = self.leads_to(plan, head);
        let (starts, exits): (Vec<EdgeIx>, Vec<EdgeIx>) =
            forward
                .into_iter()
                .partition(|&edge| match plan.edge(edge).source_output.as_deref() {
                    Some(TERMINATE) => false,
                    Some(DISPATCH) => true,
                    _ => leads_back[plan.edge(edge).target.index()],
                });
        let nodes = self.reach(plan, head, &starts);
        let back_edges = self.back_edges(plan, head);
        let has_dispatch = nodes
            .iter()
            .any(|&node| is_control(plan, node, ControlKind::Dispatch));
        if back_edges.is_empty() || !has_dispatch {
            return None;
        }
        let body = LoopBody {
            port: DISPATCH,
            nodes,
            back_edges,
            max_iterations: 0,
            starts,
            exits,
        };
        Some(Found { head, body })
    }

    /// The edges to a head from the nodes that it reaches.
    fn back_edges(&self, plan: &Plan, head: NodeIx) -> Vec<EdgeIx> {
        let mut incoming = plan.node(head).incoming.clone();
        incoming.retain(|&edge| self.seen[plan.edge(edge).source.index()] == Some(head));
        incoming
    }

    /// Which nodes lead to a head without passing it.
    fn leads_to(&mut self, plan: &Plan, head: NodeIx) -> Vec<bool> {
        let mut leads = vec![false; plan.nodes.len()];
        self.steps += plan.nodes.len() / 64;
        let mut open = vec![head];
        while let Some(node) = open.pop() {
            for &edge in &plan.node(node).incoming {
                self.steps += 1;
                let source = plan.edge(edge).source;
                if source != head && !plan.edge(edge).back && !leads[source.index()] {
                    leads[source.index()] = true;
                    open.push(source);
                }
            }
            if self.steps > MAX_STEPS {
                break;
            }
        }
        leads
    }

    /// The edges of the two ports of a head.
    fn ports(&mut self, plan: &Plan, head: NodeIx, name: &str) -> (Vec<EdgeIx>, Vec<EdgeIx>) {
        let (mut starts, mut exits) = (Vec::new(), Vec::new());
        for &ix in &plan.node(head).outgoing {
            let edge = plan.edge(ix);
            match edge.source_output.as_deref() {
                Some(BODY) if edge.target == head => {
                    let message =
                        format!("the body of the loop {name} is empty; put a node into it");
                    self.problem_at(ix, message);
                }
                Some(BODY) => starts.push(ix),
                Some(DONE) => exits.push(ix),
                _ => {
                    let message = format!(
                        "an edge from the loop {name} needs a port: set `sourceOutput` to `{BODY}` \
                         or `{DONE}`"
                    );
                    self.problem_at(ix, message);
                }
            }
        }
        (starts, exits)
    }

    /// Every node that some edges lead to without passing the head, in document order.
    fn reach(&mut self, plan: &Plan, head: NodeIx, starts: &[EdgeIx]) -> Vec<NodeIx> {
        let mut reached = Vec::new();
        let mut next = 0;
        let mut edges = starts;
        loop {
            self.steps += 1 + edges.len();
            for &edge in edges {
                if plan.edge(edge).back {
                    continue;
                }
                let node = plan.edge(edge).target;
                if node != head && self.seen[node.index()] != Some(head) {
                    self.seen[node.index()] = Some(head);
                    reached.push(node);
                }
            }
            match reached.get(next) {
                Some(&node) if self.steps <= MAX_STEPS => {
                    edges = &plan.node(node).outgoing;
                    next += 1;
                }
                _ => break,
            }
        }
        reached.sort_unstable();
        reached
    }

    /// Two loops must be nested or disjoint. Returns the heads of those that are neither.
    fn check_nesting(&mut self, plan: &Plan, loops: &[Found]) -> BTreeSet<NodeIx> {
        let by_head: BTreeMap<NodeIx, &Found> =
            loops.iter().map(|found| (found.head, found)).collect();
        let mut tangled = BTreeSet::new();
        for Found { head, body, .. } in loops {
            for &other in body.nodes.iter().filter(|node| *node > head) {
                if by_head.get(&other).is_some_and(|other| other.holds(*head)) {
                    let message = format!(
                        "the loops {} and {} overlap; leave the inner one only by its port `{DONE}`",
                        name(plan, *head),
                        name(plan, other)
                    );
                    self.problem_of(*head, message);
                    tangled.extend([*head, other]);
                }
            }
        }
        tangled
    }

    /// A body is entered by the head's port `body` only.
    fn check_closed(&mut self, plan: &Plan, found: &Found) {
        let head = name(plan, found.head);
        for &node in &found.body.nodes {
            let id = name(plan, node);
            for &ix in &plan.node(node).incoming {
                let edge = plan.edge(ix);
                if found.holds(edge.source) {
                    continue;
                }
                if edge.source != found.head {
                    let source = name(plan, edge.source);
                    let message = format!(
                        "leads from {source} into the body of the loop {head}, which {id} is part \
                         of; lead it to {head} itself, or {id} out of the loop by port `{DONE}`"
                    );
                    self.problem_at(ix, message);
                } else if found.body.exits.contains(&ix) {
                    let port = match found.body.port {
                        DISPATCH => TERMINATE,
                        _ => DONE,
                    };
                    let message = format!(
                        "leads from port `{port}` of the loop {head} into its own body, which \
                         {id} is part of; only one of the two ports may lead to {id}"
                    );
                    self.problem_at(ix, message);
                }
            }
        }
    }

    /// The rounds a head's config allows.
    fn iterations(&mut self, plan: &Plan, head: NodeIx) -> Option<u32> {
        let value = plan.node(head).config.get("maxIterations")?;
        let rounds = value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && (1.0..=f64::from(MAX_LOOP_ITERATIONS)).contains(n));
        if rounds.is_none() {
            self.problems.add(
                format!("/nodes/{}/config/maxIterations", head.index()),
                ProblemCode::InvalidValue,
                format!("must be an integer from 1 to {MAX_LOOP_ITERATIONS}"),
            );
        }
        rounds.map(|n| n as u32)
    }
}

fn name(plan: &Plan, ix: NodeIx) -> String {
    quoted(plan.node(ix).id.as_str())
}
