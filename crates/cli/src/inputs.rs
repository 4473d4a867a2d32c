//! Inputs of a run as typed on the command line.

use kernel::definition::{Plan, Type};
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

/// The inputs that a file and the command line give together; the command line is stronger.
pub(crate) fn bind(
    plan: &Plan,
    file: Option<&Source>,
    given: &[Given],
) -> Result<Map<String, Value>, Failure> {
    let mut inputs = match file {
        Some(file) => file.object()?,
        None => Map::new(),
    };
    let mut problems = Problems::new();
    for Given { name, value } in given {
        match read(plan, name, value) {
            Ok(value) => {
                inputs.insert(name.clone(), value);
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(plan.misspelt_inputs(&inputs).listed);
    match problems.is_empty() {
        true => Ok(inputs),
        false => Err(Failure::Problems {
            document: "the inputs".into(),
            problems,
        }),
    }
}

/// A text is what the declared type makes of it. Where nothing is declared it is JSON if it can
/// be read as such.
fn read(plan: &Plan, name: &str, text: &str) -> Result<Value, Problem> {
    let declared = plan.variables.iter().find(|variable| variable.name == name);
    let json = || serde_json::from_str::<Value>(text).ok();
    let plain = || Value::String(text.to_owned());
    match declared.map(|variable| variable.kind) {
        None => Ok(json().unwrap_or_else(plain)),
        Some(Type::String) => Ok(match json() {
            // Quotes are taken as JSON, so that a text can be given that has to be quoted.
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
                "must be of type {}; write {name}={example}, say",
                kind.as_str()
            );
            Problem::new(pointer("", name), ProblemCode::WrongType, message)
        }),
    }
}
