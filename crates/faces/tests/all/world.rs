//! Runs decided by the real kernel, with a scripted worker instead of a runtime.

use std::sync::Arc;

use kernel::definition::{NodeKind, NodeTypes, Plan, UnknownTypes};
use kernel::problem::Problem;
use kernel::run::{Command, Completion, Create, Envelope, Event, NodeError, Outcome, Run, Start};
use kernel::stream::{DefinitionRef, Owner, Policy, StreamHeader};
use kernel::time::Timestamp;
use serde_json::{Value, json};

use crate::samples::{self, START};

struct Types;

impl NodeTypes for Types {
    fn kind(&self, type_id: &str) -> Option<NodeKind> {
        let is_work = ["work.", "runwright.", "core.noop", "core.merge"];
        let is_work = is_work.iter().any(|known| type_id.starts_with(known));
        is_work.then_some(NodeKind::Work)
    }

    fn type_ids(&self) -> Vec<String> {
        Vec::new()
    }

    fn check_config(&self, _: &str, _: &Value) -> Vec<Problem> {
        Vec::new()
    }
}

/// A definition: `more` is merged over one that has nodes and edges only.
pub(crate) fn definition(id: &str, nodes: Value, edges: Value, more: Value) -> Value {
    let mut document = json!({
        "id": id, "name": id, "version": "1.2.0",
        "nodes": nodes, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual" }],
        "variables": [], "metadata": {}, "settings": {},
    });
    for (key, value) in samples::object(more) {
        document[key] = value;
    }
    document
}

/// A node with a config.
pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {},
    })
}

/// An edge; `more` is merged over it.
pub(crate) fn edge(source: &str, target: &str, more: Value) -> Value {
    let mut edge = json!({
        "id": format!("{source}-{target}"),
        "sourceNodeId": source,
        "targetNodeId": target,
    });
    for (key, value) in samples::object(more) {
        edge[key] = value;
    }
    edge
}

/// Compiles a definition.
pub(crate) fn plan(document: &Value) -> Plan {
    Plan::from_json(document, &Types, UnknownTypes::Refuse)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// A run and all its decisions.
pub(crate) struct World {
    pub(crate) run: Run,
    pub(crate) log: Vec<Event>,
    now: Timestamp,
}

impl World {
    /// A run before its creation.
    pub(crate) fn unborn(document: &Value) -> Self {
        Self::unborn_as("run-1", document)
    }

    /// The same under an id.
    pub(crate) fn unborn_as(id: &str, document: &Value) -> Self {
        let plan = plan(document);
        let header = StreamHeader {
            stream: id.into(),
            owner: Owner::tenant("acme"),
            definition: Some(DefinitionRef {
                workflow: plan.workflow.clone(),
                version: plan.version.clone(),
                digest: plan.digest,
                put_by: Default::default(),
            }),
            parent: None,
            policy: Policy::default(),
            ..samples::header()
        };
        Self {
            run: Run::unborn(Arc::new(header.seal_genesis()), Arc::new(plan)),
            log: Vec::new(),
            now: START,
        }
    }

    /// A run with inputs, started at once.
    pub(crate) fn start(document: &Value, inputs: Value) -> Self {
        Self::unborn(document).tell(Command::Create(Create::new(
            samples::object(inputs),
            "rest",
            Start::Now,
        )))
    }

    /// Decides a command a second later.
    pub(crate) fn tell(mut self, command: Command) -> Self {
        let envelope = Envelope::from(command);
        let decided = kernel::run::decide(self.run, &envelope, self.now)
            .unwrap_or_else(|refused| panic!("{:?}: {envelope:?}", refused.rejection));
        self.run = decided.run;
        self.log.extend(decided.events);
        self.now = self.now.plus_ms(1_000);
        self
    }

    /// Ends the attempt of a node in flight.
    pub(crate) fn finish(self, node: &str, outcome: Outcome) -> Self {
        let attempt = self
            .run
            .live_attempts()
            .find(|live| live.id.node.as_str() == node)
            .map(|live| live.id)
            .unwrap_or_else(|| panic!("{node} is not in flight"));
        self.tell(Command::Finish { attempt, outcome })
    }

    /// It ends well, with outputs.
    pub(crate) fn complete(self, node: &str, outputs: Value) -> Self {
        self.finish(node, Outcome::completed(samples::object(outputs)))
    }

    /// It succeeds, with more than outputs.
    pub(crate) fn complete_with(self, node: &str, completion: Completion) -> Self {
        self.finish(node, Outcome::Completed(completion))
    }

    /// It ends in an error.
    pub(crate) fn fail(self, node: &str, error: NodeError) -> Self {
        self.finish(node, Outcome::failed(error))
    }

    /// The next timer is due.
    pub(crate) fn fire(mut self) -> Self {
        let (timer, due) = self.run.next_timer().expect("a timer");
        let timer = timer.to_owned();
        self.now = self.now.max(due);
        self.tell(Command::Fire { timer })
    }

    /// The run after each event in turn.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = Run> + '_ {
        let mut run = Run::unborn(self.run.header.clone(), self.run.plan.clone());
        self.log.iter().map(move |event| {
            run.fold(event).expect("a log the kernel decided");
            run.clone()
        })
    }
}
