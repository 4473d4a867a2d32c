//! A template with everything that must be right before a session of it can begin.

use std::collections::BTreeSet;
use std::path::Path;

use faces::player::compile::NodePolicy;
use faces::player::names;
use faces::player::plan::ExecutionPlan;
use faces::player::template::{Call, Kind, Template, Work};
use kernel::problem::Problems;
use runtime::executors::{Call as Type, Executor, Executors};

use super::templates::Found;
use crate::exit::Failure;
use crate::session::Session;
use crate::{style, talk, text};

/// A template that can be played.
pub(super) struct Checked {
    pub(super) template: Template,
    pub(super) plan: ExecutionPlan,
    pub(super) slug: String,
    pub(super) path: String,
}

impl Checked {
    /// Reads a template and plans it.
    pub(super) fn of(found: &Found, given: &BTreeSet<String>) -> Result<Self, Failure> {
        let wrong = |problems: Problems| Failure::Problems {
            document: found.shown.clone(),
            problems,
        };
        let template = Template::parse(&found.bytes, given).map_err(wrong)?;
        let plan = template.plan().map_err(wrong)?;
        let slug = found.slug.clone();
        Ok(Self {
            slug: slug.unwrap_or_else(|| names::slug_of_template_id(&template.id)),
            path: found.shown.clone(),
            template,
            plan,
        })
    }

    /// Says what is odd, or refuses it.
    pub(super) fn warn(&self, is_strict: bool) -> Result<(), Failure> {
        if self.template.warnings.is_empty() {
            return Ok(());
        }
        let mut problems = Problems::new();
        problems.extend(self.template.warnings.iter().cloned());
        if is_strict {
            return Err(Failure::Problems {
                document: self.path.clone(),
                problems,
            });
        }
        for line in problems.to_string().lines() {
            talk::say(format!("{} {}", style::warn("warning:"), text::plain(line)));
        }
        Ok(())
    }
}

/// The executors of the project.
pub(super) fn executors(session: &Session) -> Result<Executors, Failure> {
    Executors::nearest(&session.place.project).map_err(|error| Failure::new(error.to_string()))
}

/// The type of a node's call, and the name by which its executor is chosen.
pub(super) fn called(work: &Work) -> (Type, &str) {
    match &work.call {
        Call::Skill => (Type::Skill, &work.executor),
        Call::Command => (Type::Command, &work.executor),
        Call::Agent => (Type::Agent, &work.executor),
        Call::Cli { tool, .. } => (Type::Cli, tool),
    }
}

/// What executors say about each node, by position.
pub(super) fn policies(
    template: &Template,
    executors: &Executors,
    timeout_ms: Option<u64>,
) -> Vec<NodePolicy> {
    let policy = |kind: &Kind| match kind {
        Kind::Checkpoint { .. } => NodePolicy::default(),
        Kind::Work(work) => {
            let (kind, name) = called(work);
            NodePolicy {
                retries: executors
                    .of(kind, name)
                    .map_or(0, |executor| executor.retries),
                timeout_ms,
            }
        }
    };
    template
        .nodes
        .iter()
        .map(|node| policy(&node.kind))
        .collect()
}

/// Refuses a template with nodes that nothing carries out.
pub(super) fn all_have_executors(checked: &Checked, executors: &Executors) -> Result<(), Failure> {
    const NAMED: usize = 10;
    let mut missing = Vec::new();
    let mut not_installed = BTreeSet::new();
    let mut first = None;
    for node in &checked.template.nodes {
        let Kind::Work(work) = &node.kind else {
            continue;
        };
        let (kind, name) = called(work);
        match executors.of(kind, name) {
            Some(executor) => {
                if let Some(program) = absent(executor) {
                    not_installed.insert(program.to_owned());
                }
            }
            None => {
                first.get_or_insert((kind, name));
                missing.push(format!("{} ({} {})", node.id, kind.as_str(), name));
            }
        }
    }
    if let Some((kind, name)) = first {
        let more = missing.len().saturating_sub(NAMED);
        missing.truncate(NAMED);
        let more = match more {
            0 => String::new(),
            n => format!("\n  and {}", text::count(n, "more node")),
        };
        let what = format!(
            "{}: no executor is configured for\n  {}{more}",
            checked.path,
            missing.join("\n  ")
        );
        let file = match &executors.file {
            Some(file) => file.display().to_string(),
            None => format!("a file {} in the project folder", runtime::executors::FILE),
        };
        return Err(Failure::new(what).hint(format!(
            "add to {file}:\n\n  [[executor]]\n  type = \"{}\"\n  match = \"{name}\"\n  \
             preset = \"claude\"        # or: argv = [\"program\", \"{{args}}\"]\n",
            kind.as_str(),
        )));
    }
    if let Some(program) = not_installed.first() {
        let what = format!("the executor {program} is not installed");
        return Err(Failure::new(what).hint(format!(
            "install it, or name another program in {}",
            runtime::executors::FILE
        )));
    }
    Ok(())
}

/// The program of an executor, where it is known and nowhere to be found.
fn absent(executor: &Executor) -> Option<&str> {
    let program = executor.program()?;
    if program.contains('/') {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let is_there = |folder: std::path::PathBuf| Path::new(&folder).join(program).is_file();
    (!std::env::split_paths(&path).any(is_there)).then_some(program)
}
