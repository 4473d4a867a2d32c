//! Inputs of a run on the command line.

use std::collections::BTreeSet;

use kernel::definition::{Plan, Type};
use kernel::json;
use kernel::problem::{Problem, ProblemCode, Problems, pointer};
use serde_json::{Map, Value};

use crate::document::Source;
use crate::exit::Failure;

/// An input as typed: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    name: String,
    value: String,
}

impl std::str::FromStr for Given {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.into(),
                value: value.into(),
            }),
            _ => Err("write NAME=VALUE"),
        }
    }
}

/// Merges the inputs of a file and the command line; the command line wins. Errors are reported
/// together, with their line if they are in the file.
pub(crate) fn bind(
    plan: &Plan,
    file: Option<&Source>,
    given: &[Given],
) -> Result<Map<String, Value>, Failure> {
    let text = file.map(Source::read).transpose()?;
    let mut inputs = match (file, &text) {
        (Some(file), Some(text)) => file.object_of(text)?,
        _ => Map::new(),
    };
    let mut problems = Problems::new();
    let mut typed = BTreeSet::new();
    for Given { name, value } in given {
        if !typed.insert(name) {
            let message = "the command line gives it twice; give it once";
            problems.add(pointer("", name), ProblemCode::DuplicateKey, message);
            continue;
        }
        match read(plan, name, value) {
            Ok(value) => {
                inputs.insert(name.clone(), value);
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(plan.misspelt_inputs(&inputs).listed);
    if plan.variables.is_empty() {
        for name in inputs.keys() {
            let what = "the workflow takes no inputs: its `variables` are empty; declare it there";
            problems.add(pointer("", name), ProblemCode::UnknownReference, what);
        }
    }
    if let Err(wrong) = plan.bind_inputs(&inputs) {
        // An invalid input is not missing.
        let known: Vec<String> = problems
            .listed
            .iter()
            .map(|known| known.path.clone())
            .collect();
        let is_new = |problem: &Problem| match problem.code {
            ProblemCode::MissingInput => known.is_empty(),
            _ => !known.contains(&problem.path),
        };
        problems.extend(wrong.listed.into_iter().filter(is_new).map(said_how));
    }
    if problems.is_empty() {
        return Ok(inputs);
    }
    let document = match (file, &text) {
        (Some(file), Some(text)) => {
            locate(text, given, &mut problems);
            format!("the inputs of {}", file.name())
        }
        _ => "the inputs".to_owned(),
    };
    Err(Failure::Problems { document, problems })
}

/// Adds how a missing input is typed.
fn said_how(mut problem: Problem) -> Problem {
    if problem.code == ProblemCode::MissingInput {
        let name = problem.path.trim_start_matches('/');
        problem.message = format!("{}, as `-i {name}=VALUE`", problem.message);
    }
    problem
}

/// Adds the place in the file to each problem of an input from the file.
fn locate(text: &[u8], given: &[Given], problems: &mut Problems) {
    let is_typed = |problem: &Problem| {
        let of = |given: &Given| problem.path == pointer("", &given.name);
        given.iter().any(of)
    };
    let (typed, mut of_file): (Vec<_>, Vec<_>) = std::mem::take(&mut problems.listed)
        .into_iter()
        .partition(is_typed);
    json::locate(text, &mut of_file);
    of_file.sort_by_key(|problem| problem.at.map(|at| (at.line, at.column)));
    problems.listed = of_file.into_iter().chain(typed).collect();
}

/// Parses a text by the declared type. Without a declaration it is JSON if it is valid JSON.
fn read(plan: &Plan, name: &str, text: &str) -> Result<Value, Problem> {
    let declared = plan.variables.iter().find(|variable| variable.name == name);
    let json = || serde_json::from_str::<Value>(text).ok();
    let plain = || Value::String(text.to_owned());
    match declared.map(|variable| variable.kind) {
        None => Ok(json().unwrap_or_else(plain)),
        Some(Type::String) => Ok(match json() {
            // A quoted text is parsed as JSON, so that any text can be given.
            Some(value @ Value::String(_)) => value,
            _ => plain(),
        }),
        Some(kind) => json().filter(|value| kind.admits(value)).ok_or_else(|| {
            let example = match kind {
                Type::Number => "42",
                Type::Boolean => "true",
                Type::Object => "'{\"key\": 1}'",
                Type::Array => "'[1, 2]'",
                Type::String => "text",
            };
            let message = format!(
                "must be of type {}; write for example {name}={example}",
                kind.as_str()
            );
            Problem::new(pointer("", name), ProblemCode::WrongType, message)
        }),
    }
}
