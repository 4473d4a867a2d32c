//! A template with all checks that precede a session.

use std::collections::BTreeSet;
use std::path::Path;

use faces::player::compile::NodePolicy;
use faces::player::names;
use faces::player::plan::ExecutionPlan;
use faces::player::template::{Call, Kind, Template, Work};
use kernel::problem::Problems;
use runtime::executors::{Call as Type, Executor, Executors};
use serde_json::json;

use super::changed;
use super::ready::Obstacle;
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
    pub(super) digest: Option<String>,
}

impl Checked {
    /// Parses and plans a template.
    pub(super) fn check(found: &Found, given: &BTreeSet<String>) -> Result<Self, Failure> {
        let wrong = |problems: Problems| Failure::Problems {
            document: found.shown.clone(),
            problems,
        };
        let mut template = Template::parse(&found.bytes, given).map_err(wrong)?;
        let slug = found.slug.clone();
        Ok(Self {
            slug: slug.unwrap_or_else(|| names::slug_of_template_id(&template.id)),
            path: found.shown.clone(),
            digest: changed::digest(&found.bytes),
            plan: std::mem::take(&mut template.plan),
            template,
        })
    }

    /// Reports oddities, as warnings or as errors.
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

/// The type of a node's call, and the name that selects its executor.
pub(super) fn called(work: &Work) -> (Type, &str) {
    match &work.call {
        Call::Skill => (Type::Skill, &work.executor),
        Call::Command => (Type::Command, &work.executor),
        Call::Agent => (Type::Agent, &work.executor),
        Call::Cli { tool, .. } => (Type::Cli, tool),
    }
}

/// The executors' settings for each node, by position.
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

/// Nodes without an executor, and programs that are not installed.
pub(super) fn lacking_executors(checked: &Checked, executors: &Executors) -> Vec<Obstacle> {
    let mut missing: Vec<(&str, Type, &str)> = Vec::new();
    let mut absent_programs = BTreeSet::new();
    for node in checked.template.written() {
        let Kind::Work(work) = &node.kind else {
            continue;
        };
        let (kind, name) = called(work);
        match executors.of(kind, name) {
            Some(executor) => absent_programs.extend(absent(executor)),
            None => missing.push((&node.id, kind, name)),
        }
    }
    let missing = (!missing.is_empty()).then(|| not_configured(checked, executors, &missing));
    let absent = (!absent_programs.is_empty()).then(|| not_installed(&absent_programs));
    missing.into_iter().chain(absent).collect()
}

fn not_configured(
    checked: &Checked,
    executors: &Executors,
    missing: &[(&str, Type, &str)],
) -> Obstacle {
    const NAMED: usize = 10;
    let shown = |(node, kind, name): &(&str, Type, &str)| {
        let (node, name) = (text::one_line(node, 40), text::one_line(name, 60));
        format!("\n  {node} ({} {name})", kind.as_str())
    };
    let named: String = missing.iter().take(NAMED).map(shown).collect();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!("\n  and {}", text::count(n, "more node")),
    };
    let what = format!(
        "{}: no executor is configured for{named}{more}",
        checked.path
    );
    let file = match &executors.file {
        Some(file) => file.display().to_string(),
        None => format!("a file {} in the project folder", runtime::executors::FILE),
    };
    let mut entries: Vec<String> = Vec::new();
    for (_, kind, name) in missing {
        let pattern = json!(text::one_line(name, 60));
        let entry = format!(
            "\n  [[executor]]\n  type = \"{}\"\n  match = {pattern}\n  \
             preset = \"claude\"        # or: argv = [\"program\", \"{{args}}\"]\n",
            kind.as_str()
        );
        if !entries.contains(&entry) && entries.len() < NAMED {
            entries.push(entry);
        }
    }
    let hint = format!("add to {file}:\n{}", entries.concat());
    Obstacle::new("missing_executor", Failure::new(what).hint(hint))
}

fn not_installed(programs: &BTreeSet<&str>) -> Obstacle {
    let named: Vec<&str> = programs.iter().copied().collect();
    let what = match named.as_slice() {
        [one] => format!("the executor {one} is not installed"),
        several => format!("the executors {} are not installed", several.join(", ")),
    };
    let file = runtime::executors::FILE;
    let hint = format!("install it, or name another program in {file}");
    Obstacle::new("executor_not_installed", Failure::new(what).hint(hint))
}

/// The program of an executor, if it is known and cannot be found.
fn absent(executor: &Executor) -> Option<&str> {
    let program = executor.program()?;
    if program.contains('/') {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let is_there = |folder: std::path::PathBuf| Path::new(&folder).join(program).is_file();
    (!std::env::split_paths(&path).any(is_there)).then_some(program)
}
