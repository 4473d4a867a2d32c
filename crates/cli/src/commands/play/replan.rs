//! Continues a session with the current version of its template: a new session takes over the old
//! one's results, up to the first changed node.

use std::collections::{BTreeMap, BTreeSet};

use faces::player::compile::{self, Settings};
use faces::player::foreign::Recorded;
use faces::player::projection::METADATA;
use faces::player::state::{NodeState, SessionState};
use kernel::ids::StreamId;
use kernel::run::Run;
use kernel::run::state::NodeStatus as RunStatus;
use kernel::stream::Policy;
use runtime::engine::Engine;
use serde_json::Value;

use super::checks::{self, Checked};
use super::context::{self, Context};
use super::ready::Outlook;
use super::sessions::{self, Kind, Known};
use super::start::{self, Order};
use super::{Args, decide, files, fork, resume, templates};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::{talk, text};

/// The key of a session's `--timeout` in the metadata of its run.
pub(super) const TIMEOUT: &str = "timeoutMs";

/// Continues a session with the current version of its template.
pub(super) async fn run(
    name: Option<&str>,
    args: &Args,
    session: &Session,
) -> Result<Exit, Failure> {
    let may = |known: &Known| known.kind == Kind::Open;
    let known = sessions::find_own(session, name, may, ("replan", "--replan")).await?;
    let executors = checks::executors(session)?;
    let engine = start::engine(args, &executors, session)?;
    let source = StreamId::new(&known.id);
    sessions::check_free(engine.door(), &source).await?;
    let old = Old::read(&engine, session, &source).await?;
    let found = templates::find(&old.template(session)?, &session.place.project)?;
    let given = old.context();
    let (checked, executors) = Outlook::new(args, session, &found, &given).ready()?;
    let context = context::bind(&checked.template, given).await?;
    let mut settings = Settings {
        context: context::names(&context),
        policies: checks::policies(&checked.template, &executors, old.timeout_ms()),
        pause_at: old.pause_at(),
        ..Settings::default()
    };
    let new = compile::compile(&checked.template, &checked.plan, &settings);
    let changes = Changes::between(&old, &checked, &nodes_of(&new));
    changes.say(&old)?;
    if args.dry_run {
        return Ok(Exit::Done);
    }
    settings.recorded = changes.kept(&old);
    let order = Order {
        template: &checked.template,
        plan: &checked.plan,
        settings,
        slug: &fork::slug_of(source.as_str()),
        path: &checked.path,
        digest: checked.digest.as_deref(),
        context,
        policy: old.policy(args)?,
        timeout_ms: old.timeout_ms(),
        from: Some(&source),
        adopted: None,
    };
    let run = order.create(&engine, session).await?;
    decide::end(session, engine.door(), &source).await?;
    files::bring_up_to_date(engine.door(), &session.place.project, &source).await?;
    talk::say(format!(
        "session {run} continues {source} with the current template; {source} has ended"
    ));
    resume::go_on(args, session, engine, &run).await
}

/// The current session.
struct Old {
    run: Run,
    state: SessionState,
    /// The nodes of its definition, by id.
    nodes: BTreeMap<String, Value>,
}

impl Old {
    async fn read(engine: &Engine, session: &Session, id: &StreamId) -> Result<Self, Failure> {
        let door = engine.door();
        let files = files::bring_up_to_date(door, &session.place.project, id).await?;
        let files = files.ok_or_else(|| Failure::new(format!("run {id} is not a session")))?;
        let run = door.load(id).await?;
        let nodes = match &run.header.definition {
            Some(definition) => {
                let tenant = run.header.tenant();
                let document = door.store().blob(tenant, &definition.digest).await?;
                nodes_of(&serde_json::from_slice(&document).unwrap_or_default())
            }
            None => BTreeMap::new(),
        };
        Ok(Self {
            run,
            state: files.state(),
            nodes,
        })
    }

    fn play(&self, key: &str) -> Option<&Value> {
        self.run.facts()?.metadata.get(METADATA)?.get(key)
    }

    /// The path of the template.
    fn template(&self, session: &Session) -> Result<String, Failure> {
        let file = session.place.project.join(&self.state.template_path);
        if file.is_file() {
            Ok(file.display().to_string())
        } else {
            let what = format!("the template {} is missing", self.state.template_path);
            Err(Failure::new(what).hint("restore the file"))
        }
    }

    fn context(&self) -> Context {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let given = self.state.context.iter();
        given
            .map(|(name, value)| (name.clone(), text(value)))
            .collect()
    }

    fn timeout_ms(&self) -> Option<u64> {
        self.play(TIMEOUT)?.as_u64()
    }

    /// Checkpoints that ask although the template lets them continue.
    fn pause_at(&self) -> BTreeSet<String> {
        let asks = |node: &Value| {
            node["config"]["autoContinue"] == true && node["typeId"] == "core.approvalGate"
        };
        let nodes = self.nodes.iter().filter(|(_, node)| asks(node));
        nodes.map(|(id, _)| id.clone()).collect()
    }

    /// The rest of its budget, with the newly allowed amounts.
    fn policy(&self, args: &Args) -> Result<Policy, Failure> {
        let raised = fork::raised(args, &self.run)?;
        let mut policy = raised.unwrap_or_else(|| self.run.header.policy.clone());
        let spent = self.run.facts().map(|facts| &facts.budget.spent);
        for (dimension, amount) in spent.into_iter().flatten() {
            if let Some(limit) = policy.budget.get_mut(dimension) {
                *limit = limit.saturating_sub(*amount);
            }
        }
        Ok(policy)
    }

    /// The result of a node that is over.
    fn recorded(&self, id: &str) -> Option<Recorded> {
        let (_, node) = self
            .state
            .node_states
            .0
            .iter()
            .find(|(known, _)| known == id)?;
        let asks = |at: &Option<String>| at.as_deref() == Some(id);
        let more = &self.state.x_play;
        if !node.status().is_over() || asks(&more.waits_at) || asks(&more.aborted_at) {
            return None;
        }
        Some(match node {
            NodeState::Checkpoint(node) => Recorded {
                status: node.status,
                completed_at: node.saved_at.clone(),
                ..Recorded::default()
            },
            NodeState::Work(node) => Recorded {
                status: node.status,
                started_at: node.started_at.clone(),
                completed_at: node.completed_at.clone(),
                session_id: node.session_id.clone(),
                output_path: node.output_path.clone(),
                artifacts: node.artifacts.clone(),
                error: node.error.clone(),
                cli_task_id: node.cli_task_id.clone(),
                output: self.output(id),
            },
        })
    }

    /// The output of a node for later nodes.
    fn output(&self, id: &str) -> Option<String> {
        let facts = self.run.facts()?;
        let ix = self.run.plan.node_ix(id)?;
        match &facts.nodes[ix.index()].status {
            RunStatus::Completed { outputs, .. } => {
                outputs.get("output")?.as_str().map(str::to_owned)
            }
            _ => None,
        }
    }
}

fn nodes_of(definition: &Value) -> BTreeMap<String, Value> {
    let nodes = definition["nodes"].as_array().into_iter().flatten();
    let named = nodes.filter_map(|node| Some((node["id"].as_str()?.to_owned(), node.clone())));
    named.collect()
}

/// The changes of the template.
struct Changes {
    /// Changed nodes, with the kinds of their changes.
    changed: Vec<(String, Vec<&'static str>)>,
    new: Vec<String>,
    removed: Vec<String>,
    /// Nodes whose results are taken over.
    kept: Vec<String>,
    /// Nodes that were over and run again.
    again: Vec<String>,
}

impl Changes {
    fn between(old: &Old, checked: &Checked, new: &BTreeMap<String, Value>) -> Self {
        let ids = checked
            .plan
            .order()
            .map(|at| checked.template.nodes[at].id.clone());
        let ids: BTreeSet<String> = ids.collect();
        let is_node = |node: &Value| node["config"].get("session").is_some();
        let gone = old
            .nodes
            .iter()
            .filter(|(id, node)| is_node(node) && !ids.contains(*id));
        let mut changes = Self {
            changed: Vec::new(),
            new: Vec::new(),
            removed: gone.map(|(id, _)| id.clone()).collect(),
            kept: Vec::new(),
            again: Vec::new(),
        };
        let mut is_kept = true;
        for batch in &checked.plan.batches {
            let mut goes_on = is_kept;
            for at in &batch.nodes {
                let id = &checked.template.nodes[*at].id;
                let of_old = old.nodes.get(id);
                let different = of_old.map(|of_old| differences(of_old, &new[id]));
                match &different {
                    None => changes.new.push(id.clone()),
                    Some(what) if !what.is_empty() => {
                        changes.changed.push((id.clone(), what.clone()));
                    }
                    Some(_) => {}
                }
                // The failure policy does not affect its result.
                let is_same =
                    different.is_some_and(|what| what.iter().all(|what| *what == FAILURE));
                let is_over = old.recorded(id).is_some();
                match is_kept && is_same && is_over {
                    true => changes.kept.push(id.clone()),
                    false if is_over => changes.again.push(id.clone()),
                    false => {}
                }
                goes_on &= is_same && is_over;
            }
            is_kept = goes_on;
        }
        changes
    }

    /// Reports the changes; an error without any.
    fn say(&self, old: &Old) -> Result<(), Failure> {
        if self.changed.is_empty() && self.new.is_empty() && self.removed.is_empty() {
            let id = &old.state.session_id;
            let what = format!(
                "{} has not changed since session {id} started",
                old.state.template_path
            );
            return Err(
                Failure::new(what).hint(format!("`runwright play --resume {id}` continues it"))
            );
        }
        for (id, what) in &self.changed {
            talk::say(format!(
                "  changed  {}: {}",
                text::one_line(id, 40),
                what.join(", ")
            ));
        }
        let list = |word: &str, ids: &[String]| {
            if !ids.is_empty() {
                let ids: Vec<String> = ids.iter().map(|id| text::one_line(id, 40)).collect();
                talk::say(format!("  {word:8} {}", ids.join(", ")));
            }
        };
        list("new", &self.new);
        list("removed", &self.removed);
        list("kept", &self.kept);
        list("again", &self.again);
        Ok(())
    }

    fn kept(&self, old: &Old) -> BTreeMap<String, Recorded> {
        let recorded = |id: &String| Some((id.clone(), old.recorded(id)?));
        self.kept.iter().filter_map(recorded).collect()
    }
}

/// The name of a difference that does not affect the result of a node.
const FAILURE: &str = "how a failure is handled";

/// The differences of a node, in words.
fn differences(old: &Value, new: &Value) -> Vec<&'static str> {
    let is_other = |keys: &[&str]| {
        keys.iter()
            .any(|key| old["config"][*key] != new["config"][*key])
    };
    let is_checkpoint = new["config"]["checkpoint"] == true;
    let mut what = Vec::new();
    let is_type_other = old["typeId"] != new["typeId"] && !is_checkpoint;
    if is_type_other || old["config"]["checkpoint"] != new["config"]["checkpoint"] {
        what.push("its type");
    }
    if is_other(&["executor", "cliTool", "cliMode", "cliRule"]) {
        what.push("the program it calls");
    }
    if is_other(&["args"]) || (old["inputs"] != new["inputs"] && !is_checkpoint) {
        what.push("its arguments");
    }
    if is_other(&["title", "description", "autoContinue"]) {
        what.push("its question");
    }
    if is_other(&["timeoutMs"]) || old["settings"] != new["settings"] {
        what.push(FAILURE);
    }
    what
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named() {
        let node = json!({
            "typeId": "runwright.skill", "inputs": {},
            "config": { "executor": "x", "args": ["a"], "session": { "batch": 1 } },
        });
        let changed = |change: fn(&mut Value)| {
            let mut other = node.clone();
            change(&mut other);
            differences(&node, &other)
        };
        assert!(changed(|node| node["config"]["session"]["batch"] = json!(2)).is_empty());
        assert_eq!(
            changed(|node| node["config"]["args"] = json!(["b"])),
            ["its arguments"]
        );
        assert_eq!(
            changed(|node| node["config"]["executor"] = json!("y")),
            ["the program it calls"]
        );
        assert_eq!(
            changed(|node| node["config"]["timeoutMs"] = json!(1)),
            [FAILURE]
        );
        assert_eq!(
            changed(|node| node["typeId"] = json!("runwright.agent")),
            ["its type"]
        );
    }
}
