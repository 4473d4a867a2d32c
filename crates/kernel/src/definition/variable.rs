//! Declared variables, and binding the inputs of a run to them.

use serde_json::{Map, Value};

use super::plan::Plan;
use crate::problem::{ProblemCode, Problems, closest, pointer, quoted};
use crate::sealed::Sealed;

/// A declared variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Unique in the workflow.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
    /// A run must be given a value.
    pub required: bool,
    /// The value of a run that is given none.
    pub default: Option<Value>,
    /// Values are masked outside the run.
    pub sensitive: bool,
}

crate::words! {
    /// The type of a variable.
    pub enum Type {
        /// Text.
        String = "string",
        /// Any number.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
        /// A JSON object.
        Object = "object",
        /// A JSON array.
        Array = "array",
    }
}

impl Type {
    /// Whether a value is of this type.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }
}

/// The JSON type of a value, with its article, for messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Plan {
    /// Given inputs without a declared variable whose names resemble a declared variable without a
    /// value. These are likely typing mistakes, although undeclared inputs are allowed. Paths lead
    /// into the inputs.
    pub fn misspelt_inputs(&self, inputs: &Map<String, Value>) -> Problems {
        let declared = || self.variables.iter().map(|variable| variable.name.as_str());
        let mut problems = Problems::new();
        for name in inputs.keys() {
            if declared().any(|known| known == name) {
                continue;
            }
            let free = declared().filter(|known| !inputs.contains_key(*known));
            // One-letter names resemble too much.
            let Some(meant) = closest(name, free).filter(|_| name.len() > 1) else {
                continue;
            };
            let message = format!(
                "the workflow declares no such variable; did you mean {}?",
                quoted(meant)
            );
            problems.add(pointer("", name), ProblemCode::UnknownReference, message);
        }
        problems
    }

    /// The initial variables of a run: the given inputs, else the defaults. A variable without
    /// either is absent. Undeclared inputs are kept; they become variables only
    /// where a parent has mapped them.
    ///
    /// # Errors
    /// Every required variable without a value and every value of a wrong type, with paths into
    /// the inputs.
    pub fn bind_inputs(&self, inputs: &Map<String, Value>) -> Result<Map<String, Value>, Problems> {
        let mut problems = Problems::new();
        let mut bound = inputs.clone();
        for variable in &self.variables {
            let kind = variable.kind.as_str();
            let path = || pointer("", &variable.name);
            match inputs.get(&variable.name) {
                Some(value) if variable.kind.admits(value) => {}
                // The value was checked before it was sealed.
                Some(value)
                    if self.hides_variable(&variable.name)
                        && Sealed::from_value(value).is_some() => {}
                // A parent maps an unset variable to null; only a required one refuses that.
                Some(Value::Null) if !variable.required => {}
                Some(value) => problems.add(
                    path(),
                    ProblemCode::WrongType,
                    format!("must be of type {kind}, not {}", type_name(value)),
                ),
                None => match &variable.default {
                    Some(default) => {
                        bound.insert(variable.name.clone(), default.clone());
                    }
                    None if variable.required => problems.add(
                        path(),
                        ProblemCode::MissingInput,
                        format!("is required; give it a value of type {kind}"),
                    ),
                    None => {}
                },
            }
        }
        problems.or(bound)
    }
}
