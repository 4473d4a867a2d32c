//! Expressions over the data of a run: CEL, bounded and deterministic.

use std::borrow::Cow;

use serde_json::Value;

/// What an expression reads. Only what its text refers to is asked for.
pub trait Scope {
    /// The value of a root name: one of [`ROOTS`] but `nodes`. `None` where it has no meaning,
    /// such as `item` outside a loop.
    fn root(&self, name: &str) -> Option<Cow<'_, Value>>;

    /// What `nodes.<id>` is: an object with `outputs` and `status`. `None` when there is no such
    /// node or it did not run yet.
    fn node(&self, id: &str) -> Option<Cow<'_, Value>>;
}

/// The names an expression may begin with.
pub const ROOTS: [&str; 7] = [
    "variables",
    "inputs",
    "nodes",
    "channels",
    "run",
    "item",
    "output",
];

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Box<str>,
}

/// Why an expression does not compile or has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is not an expression of this language.
    #[error("{0}")]
    Syntax(String),
    /// It read a path that is not there.
    #[error("`{path}` is not there; ask has({path}) first if it may be missing")]
    Missing {
        /// The path, as far as it could be followed plus one step.
        path: String,
    },
    /// It needs more work or memory than allowed.
    #[error("the expression takes too much work; make its lists or texts smaller")]
    TooCostly,
    /// An operation does not fit its operands.
    #[error("{0}")]
    Invalid(String),
}

impl Expression {
    /// Compiles a text.
    ///
    /// # Errors
    /// [`ExprError::Syntax`], with the place.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Ok(Self { text: text.into() })
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value now.
    ///
    /// # Errors
    /// Any [`ExprError`] but `Syntax`.
    pub fn eval(&self, _scope: &dyn Scope) -> Result<Value, ExprError> {
        Err(ExprError::Syntax("not built yet".into()))
    }

    /// The value now, `null` where a path is missing.
    ///
    /// # Errors
    /// As [`Expression::eval`], but never [`ExprError::Missing`].
    pub fn eval_or_null(&self, scope: &dyn Scope) -> Result<Value, ExprError> {
        match self.eval(scope) {
            Err(ExprError::Missing { .. }) => Ok(Value::Null),
            result => result,
        }
    }

    /// The value now, which must be a boolean.
    ///
    /// # Errors
    /// As [`Expression::eval`], and [`ExprError::Invalid`] for any other type.
    pub fn eval_bool(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        match self.eval(scope)? {
            Value::Bool(b) => Ok(b),
            _ => Err(ExprError::Invalid(
                "the condition must come to true or false".into(),
            )),
        }
    }
}

/// Whether two values are equal as JSON: `1` and `1.0` are.
pub fn json_eq(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_eq(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| json_eq(a, b)))
        }
        (a, b) => a == b,
    }
}
