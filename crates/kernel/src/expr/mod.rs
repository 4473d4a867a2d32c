//! Expressions over the data of a run: the syntax of CEL, bounded and deterministic.
//!
//! The text is parsed by the `cel` crate. It is evaluated here, because a durable run needs three
//! guarantees that a general evaluator does not give:
//!
//! - **The same answer after a restart.** Objects are walked in key order. A number means the same
//!   whether it was just computed or read back from the log, where canonical JSON writes `1.0` as
//!   `1` (see below).
//! - **A bound on work and memory.** Every step costs part of a fixed budget, also inside `&&` and
//!   `||`, which otherwise ignore errors.
//! - **Minimal reads.** Only values that the text refers to are read. They are borrowed from the
//!   run's state.
//!
//! # Language
//!
//! Names begin with one of [`ROOTS`]; `nodes` is followed by a node id, `nodes.fetch.outputs.body`
//! or, for an id with a `-`, `nodes["fetch-page"].outputs.body`. Operators, `in`, `? :`, list and
//! map literals, `has`, `all`, `exists`, `exists_one`, `map` and `filter` are CEL's. Functions:
//! `size`, `contains`, `startsWith`, `endsWith`, `matches` (the pattern must be a literal),
//! `lowerAscii`, `upperAscii`, `trim`, `split`, `join`, `int`, `double`, `string`, `bool`, `dyn`.
//! Bytes, structs, timestamps and optionals do not exist; an unsigned literal is an integer.
//!
//! # Numbers
//!
//! A whole number from the run's data is an integer, any other one a double, however it was
//! written; beyond 2^53 all are doubles. In a text, `2` is an integer and `2.0` a double, as in
//! CEL. Integers divide to integers (`7 / 2` is `3`). CEL rejects mixed operands; here the integer
//! becomes a double (`7 / 2.0` is `3.5`), because authors do not control the type of data. `1 ==
//! 1.0` holds. Overflow, division of an integer by zero and results that are not finite are errors.
//!
//! # Missing paths
//!
//! Reading a missing path is an error that names it. `has(a.b.c)` is false when any part of the
//! path is missing. An unreadable channel is a separate error, also in `has`.

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

/// The data that an expression reads. Only the parts that its text refers to are requested.
pub trait Scope {
    /// The value of a root name: one of [`ROOTS`] but `nodes`. `None` where it is undefined, such
    /// as `item` outside a loop.
    fn root(&self, name: &str) -> Option<Cow<'_, Value>>;

    /// The value of `nodes.<id>`: an object with `outputs` and `status`. `None` for an unknown node
    /// or one that has not run.
    fn node(&self, id: &str) -> Option<Cow<'_, Value>>;

    /// Whether a channel exists that the evaluating node may not read. Reading it is an error,
    /// unlike reading an absent channel.
    fn hides_channel(&self, _name: &str) -> bool {
        false
    }
}

/// The names that an expression may begin with.
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

/// The names that an expression reads, as far as its text shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Roots other than `nodes`.
    pub roots: BTreeSet<&'static str>,
    /// Literal node ids.
    pub nodes: BTreeSet<String>,
    /// Literal names of variables, outside of `has`.
    pub variables: BTreeSet<String>,
    /// Literal names of inputs, outside of `has`.
    pub inputs: BTreeSet<String>,
    /// Names of variables and inputs inside `has`.
    pub asked: BTreeSet<String>,
    /// Fields of literal nodes, outside of `has`: `outputs`, `status` and the like.
    pub fields: BTreeSet<(String, String)>,
    /// Outputs of literal nodes, outside of `has`.
    pub outputs: BTreeSet<(String, String)>,
    /// Fields of `output`, outside of `has`.
    pub own_outputs: BTreeSet<String>,
}

/// Why an expression does not compile or has no value. Texts are for people and quote only the
/// expression itself, never the data it reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is not an expression of this language.
    #[error("{0}")]
    Syntax(String),
    /// It read a missing path.
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
    #[error("the expression needs more steps than allowed; use smaller lists or texts")]
    TooCostly,
    /// An operation does not fit its operands.
    #[error("{0}")]
    Invalid(String),
}

impl Expression {
    /// Compiles a text.
    ///
    /// # Errors
    /// [`ExprError::Syntax`], with the place in the text.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        syntax::parse(text).map(|(ast, references)| Self::new(text, ast, references))
    }

    /// Compiles an operand of a condition. In addition to every expression this accepts plain paths
    /// whose names may contain `-` and whose numbers index arrays
    /// (`nodes.fetch-page.outputs.items.0`). A path that begins with none of [`ROOTS`] is read as a
    /// path into `output`.
    ///
    /// # Errors
    /// [`ExprError::Syntax`], with the place.
    pub fn parse_operand(text: &str) -> Result<Self, ExprError> {
        match syntax::parse_path(text) {
            Some((ast, references)) => Ok(Self::new(text, ast, references)),
            None => Self::parse(text),
        }
    }

    fn new(text: &str, ast: Ast, references: References) -> Self {
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

    /// The names that it reads.
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
                "the expression must give true or false; compare its value with something".into(),
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
