//! Conditions on edges.

use regex::Regex;
use serde_json::Value;

use crate::expr::{ExprError, Expression, Scope, json_eq};

/// Whether an edge is followed.
///
/// The operand of every form but [`Condition::Expression`] reads a missing path as `null`. An
/// expression fails on one unless it checks `has(…)` first.
#[derive(Debug)]
pub enum Condition {
    /// A boolean expression.
    Expression(Expression),
    /// The operand equals the value; `1` equals `1.0`.
    Equals(Expression, Value),
    /// The operand does not equal the value.
    NotEquals(Expression, Value),
    /// The operand is a text that contains the text, an array that contains the element, or an
    /// object that has the key.
    Contains(Expression, Value),
    /// The operand is a text in which the pattern is found.
    Regex(Expression, Regex),
    /// The operand is neither missing, `null`, `false`, `0`, empty text nor empty array.
    Truthy(Expression),
    /// The opposite of truthy.
    Falsy(Expression),
}

impl Condition {
    /// The expression, or the operand.
    pub(crate) fn expression(&self) -> &Expression {
        match self {
            Self::Expression(expression)
            | Self::Equals(expression, _)
            | Self::NotEquals(expression, _)
            | Self::Contains(expression, _)
            | Self::Regex(expression, _)
            | Self::Truthy(expression)
            | Self::Falsy(expression) => expression,
        }
    }

    /// Whether the condition holds now.
    ///
    /// # Errors
    /// When an expression fails: a missing key, a wrong type, a result that is not a boolean, or
    /// more work than allowed.
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        Ok(match self {
            Self::Expression(expression) => expression.eval_bool(scope)?,
            Self::Equals(left, right) => json_eq(&left.eval_or_null(scope)?, right),
            Self::NotEquals(left, right) => !json_eq(&left.eval_or_null(scope)?, right),
            Self::Contains(left, right) => contains(&left.eval_or_null(scope)?, right),
            Self::Regex(left, pattern) => left
                .eval_or_null(scope)?
                .as_str()
                .is_some_and(|text| pattern.is_match(text)),
            Self::Truthy(left) => is_truthy(&left.eval_or_null(scope)?),
            Self::Falsy(left) => !is_truthy(&left.eval_or_null(scope)?),
        })
    }
}

fn contains(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), right) => items.iter().any(|item| json_eq(item, right)),
        (Value::Object(object), Value::String(key)) => object.contains_key(key),
        _ => false,
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
    }
}
