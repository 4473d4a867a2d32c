//! Values while an expression is evaluated: borrowed from the run's data where possible.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Number, Value};

use super::ExprError;
use super::eval::Budget;
use crate::limits::MAX_JSON_DEPTH;

/// The largest magnitude up to which every integer is a double and the other way round.
const SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A value; cloning is cheap.
#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    OwnText(Rc<str>),
    Array(&'a [Value]),
    OwnArray(Rc<Vec<Val<'a>>>),
    Object(&'a Map<String, Value>),
    OwnObject(Rc<BTreeMap<Rc<str>, Val<'a>>>),
}

impl<'a> Val<'a> {
    pub(super) fn from_json(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => Self::from_number(n),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::Array(items),
            Value::Object(object) => Self::Object(object),
        }
    }

    /// The number after a round trip through the log, where every number is a double.
    fn from_number(n: &Number) -> Self {
        let double = n.as_f64().unwrap_or_default();
        if double.fract() == 0.0 && double.abs() <= SAFE_INTEGER {
            Self::Int(double as i64)
        } else {
            Self::Double(double)
        }
    }

    /// An owned copy, which costs steps by its size.
    pub(super) fn owned(value: &Value, budget: &mut Budget) -> Result<Self, ExprError> {
        budget.spend(1)?;
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => Self::from_number(n),
            Value::String(text) => {
                budget.spend_text(text.len())?;
                Self::OwnText(text.as_str().into())
            }
            Value::Array(items) => Self::array(
                items
                    .iter()
                    .map(|item| Self::owned(item, budget))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(object) => Self::OwnObject(Rc::new(
                object
                    .iter()
                    .map(|(key, value)| {
                        budget.spend_text(key.len())?;
                        Ok((Rc::from(key.as_str()), Self::owned(value, budget)?))
                    })
                    .collect::<Result<_, ExprError>>()?,
            )),
        })
    }

    pub(super) fn text(text: String) -> Self {
        Self::OwnText(text.into())
    }

    pub(super) fn array(items: Vec<Val<'a>>) -> Self {
        Self::OwnArray(Rc::new(items))
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::OwnText(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Int(n) => Some(n as f64),
            Self::Double(n) => Some(n),
            _ => None,
        }
    }

    /// How many elements an array or object has.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Array(items) => Some(items.len()),
            Self::OwnArray(items) => Some(items.len()),
            Self::Object(object) => Some(object.len()),
            Self::OwnObject(object) => Some(object.len()),
            _ => None,
        }
    }

    /// The element of an array.
    pub(super) fn item(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::Array(items) => items.get(index).map(Self::from_json),
            Self::OwnArray(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// The value under a key of an object.
    pub(super) fn field(&self, key: &str) -> Option<Val<'a>> {
        match self {
            Self::Object(object) => object.get(key).map(Self::from_json),
            Self::OwnObject(object) => object.get(key).cloned(),
            _ => None,
        }
    }

    /// The keys of an object, in order.
    fn keys(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Self::Object(object) => {
                let mut keys: Vec<&'a str> = object.keys().map(String::as_str).collect();
                // serde_json keeps the order of insertion when another crate asks it to.
                keys.sort_unstable();
                Some(keys.into_iter().map(Val::Text).collect())
            }
            Self::OwnObject(object) => Some(object.keys().cloned().map(Val::OwnText).collect()),
            _ => None,
        }
    }

    /// The elements that a comprehension visits: those of an array, or the keys of an object.
    pub(super) fn elements(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Self::Array(items) => Some(items.iter().map(Self::from_json).collect()),
            Self::OwnArray(items) => Some(items.to_vec()),
            _ => self.keys(),
        }
    }

    /// The name of its type, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Double(_) => "a double",
            Self::Text(_) | Self::OwnText(_) => "a text",
            Self::Array(_) | Self::OwnArray(_) => "a list",
            Self::Object(_) | Self::OwnObject(_) => "a map",
        }
    }

    /// Equality as JSON; values of different types differ. Costs steps by the compared size.
    pub(super) fn equals(&self, other: &Val<'_>, budget: &mut Budget) -> Result<bool, ExprError> {
        budget.spend(1)?;
        if let (Some(a), Some(b)) = (self.as_str(), other.as_str()) {
            budget.spend_text(a.len().min(b.len()))?;
            return Ok(a == b);
        }
        Ok(match (self, other) {
            (Self::Null, Val::Null) => true,
            (Self::Bool(a), Val::Bool(b)) => a == b,
            (Self::Int(a), Val::Int(b)) => a == b,
            (Self::Int(_) | Self::Double(_), Val::Int(_) | Val::Double(_)) => {
                self.as_f64() == other.as_f64()
            }
            (Self::Array(_) | Self::OwnArray(_), Val::Array(_) | Val::OwnArray(_)) => {
                if self.len() != other.len() {
                    return Ok(false);
                }
                for index in 0..self.len().unwrap_or(0) {
                    let (Some(a), Some(b)) = (self.item(index), other.item(index)) else {
                        return Ok(false);
                    };
                    if !a.equals(&b, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Object(_) | Self::OwnObject(_), Val::Object(_) | Val::OwnObject(_)) => {
                if self.len() != other.len() {
                    return Ok(false);
                }
                budget.spend(self.len().unwrap_or(0))?;
                for key in self.keys().unwrap_or_default() {
                    let key = key.as_str().unwrap_or_default();
                    let (Some(a), Some(b)) = (self.field(key), other.field(key)) else {
                        return Ok(false);
                    };
                    if !a.equals(&b, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        })
    }

    /// As JSON with numbers as read from the log. Costs steps by its size.
    pub(super) fn into_json(self, depth: usize, budget: &mut Budget) -> Result<Value, ExprError> {
        budget.spend(1)?;
        if depth > MAX_JSON_DEPTH {
            return Err(ExprError::Invalid(format!(
                "the value is nested more than {MAX_JSON_DEPTH} deep; flatten it"
            )));
        }
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(n) => Value::Number(log_number(n as f64)),
            Self::Double(n) => Value::Number(log_number(n)),
            Self::Text(_) | Self::OwnText(_) => {
                let text = self.as_str().unwrap_or_default();
                budget.spend_text(text.len())?;
                Value::String(text.to_owned())
            }
            Self::Array(_) | Self::OwnArray(_) => {
                let mut out = Vec::new();
                for item in self.elements().unwrap_or_default() {
                    out.push(item.into_json(depth + 1, budget)?);
                }
                Value::Array(out)
            }
            Self::Object(_) | Self::OwnObject(_) => {
                let mut out = Map::new();
                for key in self.keys().unwrap_or_default() {
                    let key = key.as_str().unwrap_or_default();
                    budget.spend_text(key.len())?;
                    let Some(value) = self.field(key) else {
                        continue;
                    };
                    out.insert(key.to_owned(), value.into_json(depth + 1, budget)?);
                }
                Value::Object(out)
            }
        })
    }
}

/// The number read from the canonical text of a finite double.
fn log_number(n: f64) -> Number {
    if n.fract() == 0.0 {
        if n.abs() <= SAFE_INTEGER {
            return Number::from(n as i64);
        }
        // Below 1e21 canonical JSON writes a whole number as its shortest digits and zeros, as
        // `Display` does, and digits that fit are read as integers.
        let digits = n.to_string();
        if let Ok(n) = digits.parse::<i64>() {
            return Number::from(n);
        }
        if let Ok(n) = digits.parse::<u64>() {
            return Number::from(n);
        }
    }
    Number::from_f64(n).unwrap_or_else(|| Number::from(0))
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
