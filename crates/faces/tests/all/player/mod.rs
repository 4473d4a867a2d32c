//! Templates and the files of their sessions.

mod session;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use faces::player::compile::{self, Settings};
use faces::player::projection::{Change, METADATA, Projection, TRANSPORT};
use faces::player::state::Snapshot;
use faces::player::template::Template;
use kernel::run::{Command, Create, Start};
use serde_json::{Map, Value, json};

use crate::samples;
use crate::world::World;

/// Four work nodes, two of them parallel, and two checkpoints: the shape of session files from
/// before Runwright.
pub(crate) fn review() -> Value {
    let work = |id: &str, name: &str, kind: &str, executor: &str, args: &str| {
        json!({
            "id": id, "name": name, "type": kind, "executor": executor, "args_template": args,
            "input_ports": [], "output_ports": [], "parallel_group": null, "on_fail": "abort",
        })
    };
    let mut cli = work(
        "N-002",
        "Analyse",
        "cli",
        "ccw cli",
        "TASK: {goal} after {N-001.output_path}",
    );
    cli["cli_tool"] = json!("gemini");
    cli["cli_mode"] = json!("analysis");
    let mut test = work(
        "N-003a",
        "Test",
        "skill",
        "flow-test",
        "--session {N-001.session_id}",
    );
    test["parallel_group"] = json!("PG-1");
    let mut check = work(
        "N-003b",
        "Check",
        "agent",
        "code-reviewer",
        "see {prev_output_path}",
    );
    check["parallel_group"] = json!("PG-1");
    json!({
        "template_id": "wft-feature-tdd-review-20260310",
        "name": "Feature TDD with Review",
        "description": "Plan, analyse, test and check at once, report.",
        "version": "1.0",
        "tags": ["feature", "medium"],
        "context_schema": {
            "goal": { "type": "string", "required": true, "description": "What to build" },
            "scope": { "type": "path", "required": false, "description": "Where", "default": "src" },
        },
        "nodes": [
            work("N-001", "Plan", "skill", "flow-plan", "{goal}"),
            { "id": "CP-01", "name": "After Plan", "type": "checkpoint", "auto_continue": true },
            cli,
            {
                "id": "CP-02", "name": "Before Tests", "type": "checkpoint",
                "description": "Is the analysis right?", "auto_continue": false,
            },
            test,
            check,
            work("N-004", "Report", "command", "flow:report", "{prev_output}"),
        ],
        "edges": [
            { "from": "N-001", "to": "CP-01" }, { "from": "CP-01", "to": "N-002" },
            { "from": "N-002", "to": "CP-02" }, { "from": "CP-02", "to": "N-003a" },
            { "from": "CP-02", "to": "N-003b" }, { "from": "N-003a", "to": "N-004" },
            { "from": "N-003b", "to": "N-004" },
        ],
        "checkpoints": ["CP-01", "CP-02"],
        "atomic_groups": [{ "name": "build", "nodes": ["N-001"], "description": "" }],
        "execution_mode": "serial",
        "metadata": { "node_count": 4, "checkpoint_count": 2, "estimated_duration": "20m" },
    })
}

/// A template that is right.
pub(crate) fn template(document: &Value) -> Template {
    let text = serde_json::to_vec_pretty(document).unwrap();
    Template::parse(&text, &BTreeSet::new()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A session with its files.
pub(crate) struct Session {
    pub(crate) world: World,
}

impl Session {
    /// A new session.
    pub(crate) fn start(document: &Value, context: &[(&str, &str)]) -> Self {
        Self::start_with(document, context, Settings::default())
    }

    pub(crate) fn start_with(
        document: &Value,
        context: &[(&str, &str)],
        settings: Settings,
    ) -> Self {
        let template = template(document);
        let given: BTreeMap<String, String> = context
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let context = template.bind(&given).unwrap();
        let settings = Settings {
            context: context.keys().cloned().collect(),
            ..settings
        };
        let definition = compile::compile(&template, &template.plan, &settings);
        let inputs: Map<String, Value> = context
            .into_iter()
            .map(|(name, value)| (name, json!(value)))
            .collect();
        let mut create = Create::new(inputs, TRANSPORT, Start::Now);
        create.metadata = samples::object(json!({ METADATA: {
            "templateId": template.id,
            "templatePath": ".workflow/templates/feature-tdd-review.json",
        } }));
        let id = "WFR-feature-tdd-review-20260317-143022";
        let world = World::unborn_as(id, &definition).tell(Command::Create(create));
        Self { world }
    }

    /// Ends the nodes that the engine would complete at once.
    pub(crate) fn settle_marks(mut self) -> Self {
        loop {
            let live = self.world.run.live_attempts();
            let marks = live.filter(|live| {
                !self
                    .world
                    .run
                    .plan
                    .node(live.node)
                    .type_id
                    .starts_with("runwright.")
            });
            let Some(mark) = marks.map(|live| live.id.node).next() else {
                return self;
            };
            self.world = self.world.complete(mark.as_str(), json!({}));
        }
    }

    /// A node succeeds without output.
    pub(crate) fn complete(self, node: &str) -> Self {
        self.complete_saying(node, json!({ "output": format!("{node} is done") }))
    }

    pub(crate) fn complete_saying(mut self, node: &str, said: Value) -> Self {
        let mut outputs = json!({
            "session_id": "", "output_path": "", "artifacts": [], "output": "", "exit_code": 0,
        });
        for (key, value) in samples::object(said) {
            outputs[key] = value;
        }
        self.world = self.world.complete(node, outputs);
        self.settle_marks()
    }

    /// Answers an open question of a node.
    pub(crate) fn answer(mut self, node: &str, value: Value) -> Self {
        let facts = self.world.run.facts().unwrap();
        let ix = self.world.run.plan.node_ix(node).unwrap();
        let open = facts.interrupts.iter().find(|open| open.node == ix.0);
        let interrupt = open
            .unwrap_or_else(|| panic!("{node} asks nothing"))
            .id
            .clone();
        self.world = self.world.tell(Command::Resolve {
            interrupt,
            value,
            by: Some("ada".into()),
            capacity: Default::default(),
        });
        self.settle_marks()
    }

    /// The resulting files, and every snapshot on the way.
    pub(crate) fn files(&self) -> (Value, Vec<Snapshot>) {
        let run = &self.world.run;
        let mut projection = Projection::new(run.header.clone(), run.plan.clone()).unwrap();
        let mut snapshots = Vec::new();
        for event in &self.world.log {
            if let Change::Checkpoint(snapshot) = projection.apply(event) {
                snapshots.push(*snapshot);
            }
        }
        (json!(projection.state()), snapshots)
    }

    pub(crate) fn state(&self) -> Value {
        self.files().0
    }

    /// The resolved value of a node's input port at its start.
    pub(crate) fn inputs(&self, node: &str) -> Map<String, Value> {
        let live = self.world.run.live_attempts();
        let mut live = live.filter(|live| live.id.node.as_str() == node);
        live.next()
            .map(|live| live.inputs.clone())
            .unwrap_or_else(|| panic!("{node} is not in flight"))
    }
}
