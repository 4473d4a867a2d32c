//! Evaluation within a budget of steps.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::syntax::{Ast, Binary, Each, path_text};
use super::value::Val;
use super::{ExprError, References, Scope};
use crate::limits::MAX_EXPRESSION_STEPS;

/// Bytes of text that cost as much as one step.
const BYTES_PER_STEP: usize = 16;

/// The remaining work of an evaluation. It bounds memory too, because every copied element and byte
/// costs steps.
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), ExprError> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(ExprError::TooCostly)
            }
        }
    }

    pub(super) fn spend_text(&mut self, bytes: usize) -> Result<(), ExprError> {
        self.spend(bytes / BYTES_PER_STEP)
    }
}

pub(super) fn eval(
    ast: &Ast,
    references: &References,
    scope: &dyn Scope,
) -> Result<Value, ExprError> {
    // Owned values of the scope must outlive the values that borrow from them.
    let roots: Vec<(&str, Cow<'_, Value>)> = references
        .roots
        .iter()
        .filter_map(|name| Some((*name, scope.root(name)?)))
        .collect();
    let nodes: BTreeMap<&str, Cow<'_, Value>> = references
        .nodes
        .iter()
        .filter_map(|id| Some((id.as_str(), scope.node(id)?)))
        .collect();
    let mut evaluation = Evaluation {
        scope,
        roots: &roots,
        nodes: &nodes,
        locals: Vec::new(),
        budget: Budget {
            left: MAX_EXPRESSION_STEPS,
        },
    };
    let value = evaluation.eval(ast)?;
    value.into_json(0, &mut evaluation.budget)
}

struct Evaluation<'a> {
    scope: &'a dyn Scope,
    roots: &'a [(&'a str, Cow<'a, Value>)],
    nodes: &'a BTreeMap<&'a str, Cow<'a, Value>>,
    locals: Vec<Val<'a>>,
    budget: Budget,
}

impl<'a> Evaluation<'a> {
    fn eval(&mut self, ast: &'a Ast) -> Result<Val<'a>, ExprError> {
        self.budget.spend(1)?;
        Ok(match ast {
            Ast::Null => Val::Null,
            Ast::Bool(b) => Val::Bool(*b),
            Ast::Int(n) => Val::Int(*n),
            Ast::Double(n) => Val::Double(*n),
            Ast::Text(text) => Val::Text(text),
            Ast::Root(name) => {
                let root = self.roots.iter().find(|(root, _)| root == name);
                root.map(|(_, value)| Val::from_json(value))
                    .ok_or_else(|| missing(ast))?
            }
            Ast::Node(id) => {
                let node = self.nodes.get(id.as_str());
                node.map(|value| Val::from_json(value))
                    .ok_or_else(|| missing(ast))?
            }
            Ast::NodeAt(id) => {
                let id = self.eval(id)?;
                let node = id.as_str().and_then(|id| self.scope.node(id));
                match node.ok_or_else(|| missing(ast))? {
                    Cow::Borrowed(value) => Val::from_json(value),
                    Cow::Owned(value) => Val::owned(&value, &mut self.budget)?,
                }
            }
            Ast::Local(index, _) => self.locals[*index].clone(),
            Ast::Field(operand, name) => match self.eval(operand)?.field(name) {
                Some(value) => value,
                None => return Err(self.denied(operand, name).unwrap_or_else(|| missing(ast))),
            },
            Ast::Index(operand, index) => {
                let value = self.eval(operand)?;
                let index = self.eval(index)?;
                let found = match (&index, index.as_str()) {
                    (Val::Int(index), _) => usize::try_from(*index)
                        .ok()
                        .and_then(|index| value.item(index)),
                    (_, Some(key)) => value.field(key),
                    _ => None,
                };
                let denied = || self.denied(operand, index.as_str()?);
                match found {
                    Some(value) => value,
                    None => return Err(denied().unwrap_or_else(|| missing(ast))),
                }
            }
            Ast::Has(path) => match self.eval(path) {
                Ok(_) => Val::Bool(true),
                Err(ExprError::Missing { .. }) => Val::Bool(false),
                Err(error) => return Err(error),
            },
            Ast::Not(operand) => match self.eval(operand)? {
                Val::Bool(b) => Val::Bool(!b),
                other => return Err(wrong_operand("!", &other)),
            },
            Ast::Negate(operand) => match self.eval(operand)? {
                Val::Int(n) => Val::Int(n.checked_neg().ok_or_else(overflow)?),
                Val::Double(n) => Val::Double(-n),
                other => return Err(wrong_operand("-", &other)),
            },
            Ast::And(a, b) => self.connect(a, b, false)?,
            Ast::Or(a, b) => self.connect(a, b, true)?,
            Ast::If(parts) => {
                let [test, then, other] = &**parts;
                let branch = if self.bool(test)? { then } else { other };
                self.eval(branch)?
            }
            Ast::Binary(operator, a, b) => {
                let a = self.eval(a)?;
                let b = self.eval(b)?;
                self.binary(*operator, a, b)?
            }
            Ast::List(items) => Val::array(self.all(items)?),
            Ast::Map(entries) => {
                let mut map = BTreeMap::new();
                for (key, value) in entries {
                    let key = self.eval(key)?;
                    let text = key.as_str().ok_or_else(|| {
                        ExprError::Invalid(format!(
                            "the keys of a map must be texts, not {}",
                            key.type_name()
                        ))
                    })?;
                    self.budget.spend_text(text.len())?;
                    let value = self.eval(value)?;
                    if map.insert(Rc::from(text), value).is_some() {
                        return Err(ExprError::Invalid("a map has the same key twice".into()));
                    }
                }
                Val::OwnObject(Rc::new(map))
            }
            Ast::Call(function, args) => {
                let args = self.all(args)?;
                function.call(&args, &mut self.budget)?
            }
            Ast::Matches(text, pattern) => {
                let text = self.eval(text)?;
                let Some(text) = text.as_str() else {
                    return Err(ExprError::Invalid(format!(
                        "matches() cannot take {}",
                        text.type_name()
                    )));
                };
                // The worst case of a match is text times pattern.
                let pattern_cost = 1 + pattern.as_str().len() / BYTES_PER_STEP;
                self.budget
                    .spend_text(text.len().saturating_mul(pattern_cost))?;
                Val::Bool(pattern.is_match(text))
            }
            Ast::Each {
                kind,
                over,
                test,
                result,
            } => self.each(*kind, over, test.as_deref(), result)?,
        })
    }

    /// The error for an existing channel that may not be read.
    fn denied(&self, operand: &Ast, name: &str) -> Option<ExprError> {
        let is_hidden = matches!(operand, Ast::Root("channels")) && self.scope.hides_channel(name);
        is_hidden.then(|| ExprError::Denied {
            channel: name.to_owned(),
        })
    }

    fn all(&mut self, asts: &'a [Ast]) -> Result<Vec<Val<'a>>, ExprError> {
        asts.iter().map(|ast| self.eval(ast)).collect()
    }

    fn bool(&mut self, ast: &'a Ast) -> Result<bool, ExprError> {
        match self.eval(ast)? {
            Val::Bool(b) => Ok(b),
            other => Err(ExprError::Invalid(format!(
                "true or false is needed, not {}",
                other.type_name()
            ))),
        }
    }

    /// `&&` and `||`: a deciding operand overrides an error of the other one.
    fn connect(&mut self, a: &'a Ast, b: &'a Ast, decides: bool) -> Result<Val<'a>, ExprError> {
        let first = self.bool(a);
        match first {
            Ok(value) if value == decides => return Ok(Val::Bool(decides)),
            Err(ExprError::TooCostly) => return Err(ExprError::TooCostly),
            _ => {}
        }
        match self.bool(b) {
            Ok(value) if value == decides => Ok(Val::Bool(decides)),
            Ok(value) => first.map(|_| Val::Bool(value)),
            Err(ExprError::TooCostly) => Err(ExprError::TooCostly),
            Err(error) => Err(first.err().unwrap_or(error)),
        }
    }

    fn each(
        &mut self,
        kind: Each,
        over: &'a Ast,
        test: Option<&'a Ast>,
        result: &'a Ast,
    ) -> Result<Val<'a>, ExprError> {
        let over = self.eval(over)?;
        self.budget.spend(over.len().unwrap_or(0))?;
        let elements = over.elements().ok_or_else(|| {
            ExprError::Invalid(format!("a list or map is needed, not {}", over.type_name()))
        })?;
        let mut out = Vec::new();
        let mut found = 0_usize;
        let mut pending = None;
        for element in elements {
            self.locals.push(element.clone());
            let step = self.step(kind, test, result);
            self.locals.pop();
            match (kind, step) {
                (Each::All, Ok(Step::Bool(false))) => return Ok(Val::Bool(false)),
                (Each::Exists, Ok(Step::Bool(true))) => return Ok(Val::Bool(true)),
                // As with && and ||, a later element may decide in spite of an error.
                (Each::All | Each::Exists, Err(error)) if error != ExprError::TooCostly => {
                    pending.get_or_insert(error);
                }
                (Each::ExistsOne, Ok(Step::Bool(true))) => found += 1,
                (Each::Filter, Ok(Step::Bool(true))) => out.push(element),
                (_, Ok(Step::Value(value))) => out.push(value),
                (_, Ok(Step::Bool(_) | Step::Skip)) => {}
                (_, Err(error)) => return Err(error),
            }
        }
        match (kind, pending) {
            (_, Some(error)) => Err(error),
            (Each::All, None) => Ok(Val::Bool(true)),
            (Each::Exists, None) => Ok(Val::Bool(false)),
            (Each::ExistsOne, None) => Ok(Val::Bool(found == 1)),
            (Each::Map | Each::Filter, None) => Ok(Val::array(out)),
        }
    }

    fn step(
        &mut self,
        kind: Each,
        test: Option<&'a Ast>,
        result: &'a Ast,
    ) -> Result<Step<'a>, ExprError> {
        if kind != Each::Map {
            return self.bool(result).map(Step::Bool);
        }
        if let Some(test) = test
            && !self.bool(test)?
        {
            return Ok(Step::Skip);
        }
        self.eval(result).map(Step::Value)
    }

    fn binary(&mut self, op: Binary, a: Val<'a>, b: Val<'a>) -> Result<Val<'a>, ExprError> {
        Ok(match op {
            Binary::Equals => Val::Bool(a.equals(&b, &mut self.budget)?),
            Binary::NotEquals => Val::Bool(!a.equals(&b, &mut self.budget)?),
            Binary::In => Val::Bool(self.is_in(&a, &b)?),
            Binary::Less => Val::Bool(self.order(op, &a, &b)? == Some(Ordering::Less)),
            Binary::Greater => Val::Bool(self.order(op, &a, &b)? == Some(Ordering::Greater)),
            Binary::LessEquals => Val::Bool(self.order(op, &a, &b)?.is_some_and(Ordering::is_le)),
            Binary::GreaterEquals => {
                Val::Bool(self.order(op, &a, &b)?.is_some_and(Ordering::is_ge))
            }
            Binary::Add if a.as_str().is_some() => {
                let (Some(left), Some(right)) = (a.as_str(), b.as_str()) else {
                    return Err(wrong_operands(op, &a, &b));
                };
                self.budget.spend_text(left.len() + right.len())?;
                Val::text([left, right].concat())
            }
            Binary::Add if matches!(a, Val::Array(_) | Val::OwnArray(_)) => {
                let (Val::Array(_) | Val::OwnArray(_), Some(left), Some(right)) =
                    (&b, a.len(), b.len())
                else {
                    return Err(wrong_operands(op, &a, &b));
                };
                self.budget.spend(left + right)?;
                let mut items = a.elements().unwrap_or_default();
                items.extend(b.elements().unwrap_or_default());
                Val::array(items)
            }
            _ => arithmetic(op, &a, &b)?,
        })
    }

    fn is_in(&mut self, a: &Val<'a>, b: &Val<'a>) -> Result<bool, ExprError> {
        match b {
            Val::Array(_) | Val::OwnArray(_) => {
                for index in 0..b.len().unwrap_or(0) {
                    if let Some(item) = b.item(index)
                        && item.equals(a, &mut self.budget)?
                    {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Val::Object(_) | Val::OwnObject(_) => {
                Ok(a.as_str().is_some_and(|key| b.field(key).is_some()))
            }
            _ => Err(wrong_operands(Binary::In, a, b)),
        }
    }

    fn order(
        &mut self,
        op: Binary,
        a: &Val<'a>,
        b: &Val<'a>,
    ) -> Result<Option<Ordering>, ExprError> {
        if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
            self.budget.spend_text(a.len().min(b.len()))?;
            return Ok(Some(a.cmp(b)));
        }
        match (a, b) {
            (Val::Int(a), Val::Int(b)) => Ok(Some(a.cmp(b))),
            (Val::Bool(a), Val::Bool(b)) => Ok(Some(a.cmp(b))),
            _ => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
                _ => Err(wrong_operands(op, a, b)),
            },
        }
    }
}

enum Step<'a> {
    Bool(bool),
    Value(Val<'a>),
    Skip,
}

fn arithmetic<'a>(op: Binary, a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, ExprError> {
    if let (Val::Int(a), Val::Int(b)) = (a, b) {
        if *b == 0 && matches!(op, Binary::Divide | Binary::Modulo) {
            return Err(ExprError::Invalid("division by zero".into()));
        }
        return match op {
            Binary::Add => a.checked_add(*b),
            Binary::Subtract => a.checked_sub(*b),
            Binary::Multiply => a.checked_mul(*b),
            Binary::Divide => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Val::Int)
        .ok_or_else(overflow);
    }
    let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
        return Err(wrong_operands(op, a, b));
    };
    let result = match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        // CEL has no remainder of doubles.
        _ => return Err(wrong_operands(op, a, b)),
    };
    if result.is_finite() {
        Ok(Val::Double(result))
    } else {
        Err(overflow())
    }
}

fn overflow() -> ExprError {
    ExprError::Invalid("the result of a calculation is too large or not a number".into())
}

fn missing(ast: &Ast) -> ExprError {
    ExprError::Missing {
        path: path_text(ast),
    }
}

fn wrong_operand(symbol: &str, operand: &Val<'_>) -> ExprError {
    ExprError::Invalid(format!("`{symbol}` cannot take {}", operand.type_name()))
}

fn wrong_operands(op: Binary, a: &Val<'_>, b: &Val<'_>) -> ExprError {
    ExprError::Invalid(format!(
        "`{}` cannot take {} and {}",
        op.symbol(),
        a.type_name(),
        b.type_name()
    ))
}
