//! Checks whether a session can begin, and reports all obstacles at once.

use std::collections::BTreeSet;

use faces::player::compile::{self, Settings};
use faces::player::template::{Kind, Template};
use kernel::problem::{Problem, ProblemCode, closest, instead, quoted};
use runtime::executors::Executors;
use runtime::plans::Plans;
use serde_json::{Value, json};

use super::checks::{self, Checked};
use super::context::{self, Context};
use super::templates::Found;
use super::{Args, ask};
use crate::exit::Failure;
use crate::session::Session;
use crate::talk;

/// An obstacle to a session.
#[derive(Debug)]
pub(super) struct Obstacle {
    code: &'static str,
    failure: Failure,
}

impl Obstacle {
    /// An obstacle with its stable code.
    pub(super) fn new(code: &'static str, failure: Failure) -> Self {
        Self { code, failure }
    }

    /// In the form for programs: each problem of an invalid document separately.
    fn to_json(&self) -> Vec<Value> {
        match &self.failure {
            Failure::Problems { problems, .. } => problems
                .listed
                .iter()
                .map(|problem| json!(problem))
                .collect(),
            Failure::Said { what, hint } => {
                vec![json!({ "code": self.code, "message": what, "next": hint })]
            }
            Failure::Damaged { what } => vec![json!({ "code": self.code, "message": what })],
            Failure::Unread => Vec::new(),
        }
    }
}

/// The checks before a session.
#[derive(Default)]
pub(super) struct Outlook {
    /// The template; `None` when it is invalid.
    pub(super) checked: Option<Checked>,
    /// The executors of the project; empty when their file is invalid.
    pub(super) executors: Executors,
    /// The problems that prevent the session.
    obstacles: Vec<Obstacle>,
}

impl Outlook {
    /// Checks all requirements of a session with these variables.
    pub(super) fn new(args: &Args, session: &Session, found: &Found, given: &Context) -> Self {
        let mut outlook = Self::default();
        let checked = Checked::check(found, &context::names(given));
        let checked = outlook.unless("invalid_template", checked);
        let executors = outlook.unless("invalid_executors", checks::executors(session));
        if let Some(mut checked) = checked {
            let unused = unused(&checked.template, given);
            checked.template.warnings.extend(unused);
            outlook.look(args, &checked, given);
            let compiles = compiles(args, session, &checked, given);
            outlook.unless("invalid_definition", compiles);
            if let Some(executors) = &executors {
                let lacking = checks::lacking_executors(&checked, executors);
                outlook.obstacles.extend(lacking);
            }
            outlook.checked = Some(checked);
        }
        outlook.executors = executors.unwrap_or_default();
        outlook
    }

    fn look(&mut self, args: &Args, checked: &Checked, given: &Context) {
        self.unless("odd_template", checked.warn(args.strict));
        let pauses = pause_points_exist(checked, &args.pause_at);
        self.unless("unknown_checkpoint", pauses);
        // A person at a terminal is asked for missing values.
        if let Err(missing) = checked.template.bind(given)
            && !ask::somebody()
        {
            let failure = context::lacking(&checked.template, &missing);
            self.obstacles
                .push(Obstacle::new("missing_variable", failure));
        }
    }

    /// The result of a check; a failure becomes an obstacle.
    fn unless<T>(&mut self, code: &'static str, looked: Result<T, Failure>) -> Option<T> {
        let obstacle = |failure| self.obstacles.push(Obstacle::new(code, failure));
        looked.map_err(obstacle).ok()
    }

    /// Every problem, in the form for programs.
    pub(super) fn problems(&self) -> Vec<Value> {
        self.obstacles.iter().flat_map(Obstacle::to_json).collect()
    }

    /// The requirements of the session; otherwise an error with all obstacles.
    pub(super) fn ready(self) -> Result<(Checked, Executors), Failure> {
        refuse(self.obstacles)?;
        let checked = self
            .checked
            .ok_or_else(|| Failure::new("no template was given"))?;
        Ok((checked, self.executors))
    }
}

/// An error with every obstacle, if there is one.
pub(super) fn refuse(mut obstacles: Vec<Obstacle>) -> Result<(), Failure> {
    let Some(last) = obstacles.pop() else {
        return Ok(());
    };
    for obstacle in &obstacles {
        talk::say_failure(&obstacle.failure);
    }
    Err(last.failure)
}

fn pause_points_exist(checked: &Checked, pause_at: &[String]) -> Result<(), Failure> {
    let is_checkpoint =
        |node: &&faces::player::template::Node| matches!(node.kind, Kind::Checkpoint { .. });
    let ids = || (checked.template.nodes.iter().filter(is_checkpoint)).map(|node| node.id.as_str());
    let Some(unknown) = pause_at.iter().find(|asked| !ids().any(|id| id == *asked)) else {
        return Ok(());
    };
    let what = format!(
        "--pause-at {}: the template has no such checkpoint",
        quoted(unknown)
    );
    let failure = Failure::new(what);
    Err(match instead(unknown, ids()) {
        Some(hint) => failure.hint(hint),
        None => failure.hint("the template has none"),
    })
}

/// Whether the engine accepts the definition compiled from a template.
fn compiles(
    args: &Args,
    session: &Session,
    checked: &Checked,
    given: &Context,
) -> Result<(), Failure> {
    let mut names = context::names(given);
    names.extend(checked.template.context.keys().cloned());
    let settings = Settings {
        context: names,
        pause_at: args.pause_at.iter().cloned().collect(),
        ..Settings::default()
    };
    let definition = compile::compile(&checked.template, &checked.plan, &settings);
    let document = serde_json::to_vec(&definition)
        .map_err(|error| Failure::new(format!("{}: {error}", checked.path)))?;
    let compiled = Plans::new(session.nodes.clone()).compile(&document);
    compiled.map(drop).map_err(|problems| Failure::Problems {
        document: format!("the workflow compiled from {}", checked.path),
        problems,
    })
}

/// Warns about variables that the template neither declares nor uses.
fn unused(template: &Template, given: &Context) -> Vec<Problem> {
    let used: BTreeSet<&str> = template.variables().collect();
    let unknown = given.keys().filter(|name| !used.contains(name.as_str()));
    let warning = |name: &String| {
        let hint = match closest(name, used.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if used.is_empty() => "it has none".to_owned(),
            None => format!(
                "it has {}",
                used.iter().copied().collect::<Vec<_>>().join(", ")
            ),
        };
        let what = format!("the template has no variable {}; {hint}", quoted(name));
        Problem::new("", ProblemCode::UnknownReference, what)
    };
    unknown.map(warning).collect()
}
