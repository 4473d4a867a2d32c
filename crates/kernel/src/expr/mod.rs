//! Expressions over the data of a run: the syntax of CEL, bounded and deterministic.
//!
//! The text is parsed by the `cel` crate. It is evaluated here, because a durable run needs three
//! things of an evaluator that a general one does not promise:
//!
//! - **The same answer after a restart.** Objects are walked in key order, and a number means the
//!   same whether it was just computed or read back from the log, where canonical JSON writes
//!   `1.0` as `1` (see below).
//! - **A bound on work and memory.** Every step is paid for out of a fixed budget, also inside
//!   `&&` and `||`, which otherwise forgive errors.
//! - **Reading no more than the text refers to.** Values are borrowed from the run's state.
//!
//! # Language
//!
//! Names begin with one of [`ROOTS`]; `nodes` is followed by a node id, `nodes.fetch.outputs.body`
//! or, for an id with a `-`, `nodes["fetch-page"].outputs.body`. Operators, `in`, `? :`, list and
//! map literals, `has`, `all`, `exists`, `exists_one`, `map` and `filter` are CEL's. Functions:
//! `size`, `contains`, `startsWith`, `endsWith`, `matches` (the pattern must be a literal),
//! `lowerAscii`, `upperAscii`, `trim`, `split`, `join`, `int`, `double`, `string`, `bool`, `dyn`.
//! There are no bytes, structs, timestamps or optionals; an unsigned literal is an integer.
//!
//! # Numbers
//!
//! A whole number from the run's data is an integer, any other one a double, however it was
//! written; beyond 2^53 all are doubles. In a text, `2` is an integer and `2.0` a double, as in
//! CEL. Integers divide to integers (`7 / 2` is `3`). Where CEL refuses to mix the two, here the
//! integer becomes a double (`7 / 2.0` is `3.5`), because data decides its own type. `1 == 1.0`
//! holds. Overflow, division of an integer by zero and results that are not finite are errors.
//!
//! # Missing paths
//!
//! Reading what is not there is an error that names the path. `has(a.b.c)` is false when any part
//! of the path is missing. A channel that may not be read is an error of its own, also in `has`.

mod eval;
mod functions;
mod mistakes;
mod syntax;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use syntax::Ast;
pub(crate) use syntax::compile_pattern;
pub use value::json_eq;

/// What an expression reads. Only what its text refers to is asked for.
pub trait Scope {
    /// The value of a root name: one of [`ROOTS`] but `nodes`. `None` where it has no meaning,
    /// such as `item` outside a loop.
    fn root(&self, name: &str) -> Option<Cow<'_, Value>>;

    /// What `nodes.<id>` is: an object with `outputs` and `status`. `None` when there is no such
    /// node or it did not run yet.
    fn node(&self, id: &str) -> Option<Cow<'_, Value>>;

    /// Whether there is a channel of a name that whoever evaluates may not read: to ask for it is
    /// an error of its own then, as it is not the same as one that is absent.
    fn hides_channel(&self, _name: &str) -> bool {
        false
    }
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

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expression(Arc<Compiled>);

struct Compiled {
    text: Box<str>,
    ast: Ast,
    references: References,
}

/// What an expression reads, as far as its text tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Roots other than `nodes`.
    pub roots: BTreeSet<&'static str>,
    /// Node ids written out.
    pub nodes: BTreeSet<String>,
    /// Names of variables written out, outside of `has`.
    pub variables: BTreeSet<String>,
    /// Names of inputs written out, outside of `has`.
    pub inputs: BTreeSet<String>,
    /// Names of variables and inputs that `has` asks for.
    pub asked: BTreeSet<String>,
    /// What is read of nodes written out, outside of `has`: `outputs`, `status` and the like.
    pub fields: BTreeSet<(String, String)>,
    /// Outputs of nodes written out, outside of `has`.
    pub outputs: BTreeSet<(String, String)>,
}

/// Why an expression does not compile or has no value. Texts are for people and quote nothing
/// but the expression itself, never the data it reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is not an expression of this language.
    #[error("{0}")]
    Syntax(String),
    /// It read a path that is not there.
    #[error("`{path}` is not there; ask `has({path})` first if it may be missing")]
    Missing {
        /// The path.
        path: String,
    },
    /// It read a channel that it may not read.
    #[error("it may not read the channel")]
    Denied {
        /// The name of the channel.
        channel: String,
    },
    /// It needs more work or memory than allowed.
    #[error("the expression takes more work than allowed; give it smaller lists or texts")]
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
        syntax::parse(text).map(|(ast, references)| Self::of(text, ast, references))
    }

    /// Compiles an operand of a condition. Besides every expression this takes plain paths whose
    /// names may hold `-` and whose numbers index arrays (`nodes.fetch-page.outputs.items.0`),
    /// and reads a path that begins with none of [`ROOTS`] as one into `output`.
    ///
    /// # Errors
    /// [`ExprError::Syntax`], with the place.
    pub fn parse_operand(text: &str) -> Result<Self, ExprError> {
        match syntax::parse_path(text) {
            Some((ast, references)) => Ok(Self::of(text, ast, references)),
            None => Self::parse(text),
        }
    }

    fn of(text: &str, ast: Ast, references: References) -> Self {
        Self(Arc::new(Compiled {
            text: text.into(),
            ast,
            references,
        }))
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What it reads.
    pub fn references(&self) -> &References {
        &self.0.references
    }

    /// The value now.
    ///
    /// # Errors
    /// Any [`ExprError`] but `Syntax`.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, ExprError> {
        eval::eval(&self.0.ast, &self.0.references, scope)
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
                "the expression must come to true or false; compare its value with something"
                    .into(),
            )),
        }
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expression({:?})", self.text())
    }
}

#[cfg(test)]
mod tests;
