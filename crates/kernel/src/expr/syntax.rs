//! Parsing a text to a tree that can only contain supported constructs.

use cel::Env;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators as op};
use regex::Regex;

use super::functions::Function;
use super::mistakes::explain;
use super::{ExprError, ROOTS, References};
use crate::limits::MAX_EXPRESSION_BYTES;
use crate::problem::{closest, quoted};

/// Maximum nesting of brackets.
const MAX_NESTING: usize = 32;
/// Maximum number of operators, dots and brackets of an expression: bounds the parser's stack and
/// time.
const MAX_OPERATORS: usize = 250;
/// Maximum depth of the tree: bounds the evaluator's stack.
const MAX_DEPTH: usize = 64;
/// Maximum compiled size of a pattern.
const MAX_PATTERN_BYTES: usize = 256 << 10;

pub(super) enum Ast {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Root(&'static str),
    Node(String),
    NodeAt(Box<Ast>),
    /// A variable of a comprehension, by its distance from the outermost one.
    Local(usize, String),
    Field(Box<Ast>, String),
    Index(Box<Ast>, Box<Ast>),
    Has(Box<Ast>),
    Not(Box<Ast>),
    Negate(Box<Ast>),
    And(Box<Ast>, Box<Ast>),
    Or(Box<Ast>, Box<Ast>),
    If(Box<[Ast; 3]>),
    Binary(Binary, Box<Ast>, Box<Ast>),
    List(Vec<Ast>),
    Map(Vec<(Ast, Ast)>),
    Call(Function, Vec<Ast>),
    Matches(Box<Ast>, Regex),
    Each {
        kind: Each,
        over: Box<Ast>,
        test: Option<Box<Ast>>,
        result: Box<Ast>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    In,
}

impl Binary {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equals => "==",
            Self::NotEquals => "!=",
            Self::Less => "<",
            Self::LessEquals => "<=",
            Self::Greater => ">",
            Self::GreaterEquals => ">=",
            Self::In => "in",
        }
    }
}

/// The result that a comprehension makes of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Each {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

pub(super) fn parse(text: &str) -> Result<(Ast, References), ExprError> {
    if let Some(path) = parse_plain_path(text) {
        return Ok(path);
    }
    check_bounds(text)?;
    let parsed = Env::default()
        .with_optional_support(false)
        .parser()
        .enable_ident_escape_syntax(true)
        .parse(text)
        .map_err(|errors| syntax_error(text, &errors))?;
    let mut lowering = Lowering {
        text,
        locals: Vec::new(),
        references: References::default(),
        in_has: 0,
        depth: 0,
    };
    let ast = lowering.expr(&parsed)?;
    Ok((ast, lowering.references))
}

/// A dotted path that is also valid CEL: most expressions are, and the parser is slow.
fn parse_plain_path(text: &str) -> Option<(Ast, References)> {
    let first = text.split('.').next()?;
    let cel = ROOTS.contains(&first)
        && text.split('.').all(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !matches!(name, "in" | "true" | "false" | "null")
        });
    if cel { parse_path(text) } else { None }
}

/// A dotted path in the form of conditions.
pub(super) fn parse_path(text: &str) -> Option<(Ast, References)> {
    let text = text.trim();
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let steps = text.split('.').count();
    let reserved = matches!(text, "true" | "false" | "null");
    if !begins_well || reserved || text.len() > MAX_EXPRESSION_BYTES || steps > MAX_DEPTH {
        return None;
    }
    let mut names = text.split('.').peekable();
    if !names.clone().all(is_name) {
        return None;
    }
    let mut references = References::default();
    let root = names
        .peek()
        .and_then(|first| ROOTS.into_iter().find(|root| root == first));
    let mut ast = match root {
        Some("nodes") => {
            names.next();
            let id = names.next()?;
            references.nodes.insert(id.to_owned());
            Ast::Node(id.to_owned())
        }
        root => {
            if root.is_some() {
                names.next();
            }
            let root = root.unwrap_or("output");
            references.roots.insert(root);
            Ast::Root(root)
        }
    };
    for name in names {
        ast = match name.parse() {
            Ok(index) => Ast::Index(Box::new(ast), Box::new(Ast::Int(index))),
            Err(_) => {
                references.note(&ast, name);
                Ast::Field(Box::new(ast), name.to_owned())
            }
        };
    }
    Some((ast, references))
}

/// Rejects texts that nest too deeply for the parser, before parsing.
fn check_bounds(text: &str) -> Result<(), ExprError> {
    let syntax = |message: String| Err(ExprError::Syntax(message));
    if text.len() > MAX_EXPRESSION_BYTES {
        return syntax(format!(
            "the expression is longer than {MAX_EXPRESSION_BYTES} bytes; compute it in a node"
        ));
    }
    let (mut depth, mut operators) = (0_usize, 0_usize);
    let mut quote = None;
    let mut escaped = false;
    for c in text.bytes() {
        match quote {
            // A raw string may end later than seen here. Then too much is counted, never too
            // little, because its tokens are counted as operators.
            Some(_) if escaped => escaped = false,
            Some(_) if c == b'\\' => escaped = true,
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None => match c {
                b'"' | b'\'' => quote = Some(c),
                b'(' | b'[' | b'{' => {
                    depth += 1;
                    operators += 1;
                }
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'?' | b':'
                | b'&' | b'|' | b'.' => operators += 1,
                _ => {}
            },
        }
        if depth > MAX_NESTING {
            return syntax(format!(
                "brackets are nested more than {MAX_NESTING} deep; split the expression"
            ));
        }
    }
    if operators > MAX_OPERATORS {
        return syntax(format!(
            "the expression has more than {MAX_OPERATORS} operators and brackets; split it"
        ));
    }
    Ok(())
}

/// The first error, with its place and the text there.
fn syntax_error(text: &str, errors: &cel::ParseErrors) -> ExprError {
    let Some(error) = errors.errors.first() else {
        return ExprError::Syntax("the expression cannot be read".into());
    };
    let (line, column) = error.pos;
    let (row, place) = (usize::try_from(line), usize::try_from(column));
    let (row, place) = (row.unwrap_or(1).max(1), place.unwrap_or(1).max(1));
    let start: usize = text.split_inclusive('\n').take(row - 1).map(str::len).sum();
    // Columns count characters.
    let within = text[start..].chars().take(place - 1).map(char::len_utf8);
    let message = explain(text, start + within.sum::<usize>());
    ExprError::Syntax(if line > 1 {
        format!("at line {line}, column {column}: {message}")
    } else {
        format!("at column {column}: {message}")
    })
}

struct Lowering<'t> {
    text: &'t str,
    /// The variables of the surrounding comprehensions, outermost first.
    locals: Vec<String>,
    references: References,
    /// Number of surrounding `has` calls.
    in_has: usize,
    /// Number of surrounding expressions.
    depth: usize,
}

impl Lowering<'_> {
    fn expr(&mut self, expr: &IdedExpr) -> Result<Ast, ExprError> {
        if self.depth == MAX_DEPTH {
            return Err(ExprError::Syntax(format!(
                "the expression is more than {MAX_DEPTH} steps deep; split it, or test against a \
                 list with `in`"
            )));
        }
        self.depth += 1;
        let ast = self.lower(expr);
        self.depth -= 1;
        ast
    }

    fn lower(&mut self, expr: &IdedExpr) -> Result<Ast, ExprError> {
        match &expr.expr {
            Expr::Literal(literal) => literal_ast(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => {
                if self.is_nodes(&select.operand) {
                    return Ok(self.node(&select.field));
                }
                let operand = self.expr(&select.operand)?;
                self.note(&operand, &select.field);
                Ok(Ast::Field(Box::new(operand), select.field.clone()))
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => Ok(Ast::List(self.exprs(&list.elements)?)),
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(not_here("a struct"));
                    };
                    entries.push((self.expr(&entry.key)?, self.expr(&entry.value)?));
                }
                Ok(Ast::Map(entries))
            }
            Expr::Struct(_) => Err(not_here("a struct")),
            Expr::Comprehension(_) | Expr::Unspecified => {
                Err(ExprError::Syntax("the expression cannot be read".into()))
            }
        }
    }

    fn exprs(&mut self, exprs: &[IdedExpr]) -> Result<Vec<Ast>, ExprError> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn boxed(&mut self, expr: &IdedExpr) -> Result<Box<Ast>, ExprError> {
        self.expr(expr).map(Box::new)
    }

    fn ident(&mut self, name: &str) -> Result<Ast, ExprError> {
        if let Some(index) = self.locals.iter().rposition(|local| local == name) {
            return Ok(Ast::Local(index, name.to_owned()));
        }
        match ROOTS.into_iter().find(|root| *root == name) {
            Some("nodes") => Err(ExprError::Syntax(
                "`nodes` must be followed by a node id: nodes.a or nodes[\"a-b\"]".into(),
            )),
            Some(root) => {
                self.references.roots.insert(root);
                Ok(Ast::Root(root))
            }
            None => Err(self.unknown_name(name)),
        }
    }

    fn unknown_name(&self, name: &str) -> ExprError {
        let shown = quoted(name);
        if self.text.contains(&format!("-{name}")) {
            return ExprError::Syntax(format!(
                "{shown} is not known; if it is part of a name with `-`, write the whole name \
                 in brackets, as in nodes[\"a-b\"]"
            ));
        }
        let hint = match closest(name, ROOTS) {
            Some(root) => format!("did you mean `{root}`?"),
            None => format!(
                "an expression reads {}; for a variable write `variables.{name}`",
                ROOTS.join(", ")
            ),
        };
        ExprError::Syntax(format!("{shown} is not known; {hint}"))
    }

    fn is_nodes(&self, expr: &IdedExpr) -> bool {
        matches!(&expr.expr, Expr::Ident(name) if name == "nodes")
            && !self.locals.iter().any(|local| local == "nodes")
    }

    fn node(&mut self, id: &str) -> Ast {
        self.references.nodes.insert(id.to_owned());
        Ast::Node(id.to_owned())
    }

    fn note(&mut self, operand: &Ast, name: &str) {
        match self.in_has {
            0 => self.references.note(operand, name),
            _ => self.references.note_asked(operand, name),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Ast, ExprError> {
        if let Some(target) = &call.target {
            if let Some(each) = self.each(target, &call.func_name, &call.args)? {
                return Ok(each);
            }
            let target = self.expr(target);
            // `math.max(1)` reads as a call on `math`; an error about the function is clearer.
            let args = std::iter::once(target).chain(call.args.iter().map(|arg| self.expr(arg)));
            let args: Result<Vec<_>, _> = args.collect();
            Function::check(&call.func_name)?;
            return function(&call.func_name, args?);
        }
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (op::CONDITIONAL, [test, then, other]) => Ok(Ast::If(Box::new([
                self.expr(test)?,
                self.expr(then)?,
                self.expr(other)?,
            ]))),
            (op::LOGICAL_AND, [a, b]) => Ok(Ast::And(self.boxed(a)?, self.boxed(b)?)),
            (op::LOGICAL_OR, [a, b]) => Ok(Ast::Or(self.boxed(a)?, self.boxed(b)?)),
            (op::LOGICAL_NOT, [a]) => Ok(Ast::Not(self.boxed(a)?)),
            (op::NEGATE, [a]) => Ok(Ast::Negate(self.boxed(a)?)),
            (op::INDEX, [a, b]) => self.index(a, b),
            (op::HAS, [a]) => {
                self.in_has += 1;
                let path = self.expr(a);
                self.in_has -= 1;
                match path? {
                    path @ (Ast::Field(..) | Ast::Index(..) | Ast::Node(_) | Ast::NodeAt(_)) => {
                        Ok(Ast::Has(Box::new(path)))
                    }
                    _ => Err(ExprError::Syntax(
                        "has() takes a path, as in has(variables.a)".into(),
                    )),
                }
            }
            (name, [a, b]) if binary(name).is_some() => {
                let operator = binary(name).unwrap_or(Binary::Equals);
                Ok(Ast::Binary(operator, self.boxed(a)?, self.boxed(b)?))
            }
            (name, args) => {
                Function::check(name)?;
                function(name, self.exprs(args)?)
            }
        }
    }

    fn index(&mut self, operand: &IdedExpr, index: &IdedExpr) -> Result<Ast, ExprError> {
        let nodes = self.is_nodes(operand);
        if let (true, Expr::Literal(LiteralValue::String(id))) = (nodes, &index.expr) {
            return Ok(self.node(id.inner()));
        }
        if nodes {
            return Ok(Ast::NodeAt(self.boxed(index)?));
        }
        let operand = self.boxed(operand)?;
        let index = self.boxed(index)?;
        if let Ast::Text(name) = &*index {
            self.note(&operand, name);
        }
        Ok(Ast::Index(operand, index))
    }

    fn each(
        &mut self,
        over: &IdedExpr,
        name: &str,
        args: &[IdedExpr],
    ) -> Result<Option<Ast>, ExprError> {
        let kind = match name {
            op::ALL => Each::All,
            op::EXISTS => Each::Exists,
            op::EXISTS_ONE | "existsOne" => Each::ExistsOne,
            op::MAP => Each::Map,
            op::FILTER => Each::Filter,
            _ => return Ok(None),
        };
        let (variable, test, result) = match (kind, args) {
            (_, [variable, result]) => (variable, None, result),
            (Each::Map, [variable, test, result]) => (variable, Some(test), result),
            _ => {
                return Err(ExprError::Syntax(format!(
                    "{name}() takes a name and an expression, as in list.{name}(x, …)"
                )));
            }
        };
        let Expr::Ident(variable) = &variable.expr else {
            return Err(ExprError::Syntax(format!(
                "{name}() takes a simple name first, as in list.{name}(x, …)"
            )));
        };
        let over = self.boxed(over)?;
        self.locals.push(variable.clone());
        let test = test.map(|test| self.boxed(test)).transpose();
        let result = self.boxed(result);
        self.locals.pop();
        Ok(Some(Ast::Each {
            kind,
            over,
            test: test?,
            result: result?,
        }))
    }
}

impl References {
    /// Records a name inside `has`.
    fn note_asked(&mut self, of: &Ast, name: &str) {
        if matches!(of, Ast::Root("variables" | "inputs")) {
            self.asked.insert(name.to_owned());
        }
    }

    /// Records a name that is read.
    fn note(&mut self, of: &Ast, name: &str) {
        match of {
            Ast::Root("variables") => {
                self.variables.insert(name.to_owned());
            }
            Ast::Root("inputs") => {
                self.inputs.insert(name.to_owned());
            }
            Ast::Root("output") => {
                self.own_outputs.insert(name.to_owned());
            }
            Ast::Node(id) => {
                self.fields.insert((id.clone(), name.to_owned()));
            }
            Ast::Field(of, field) if field == "outputs" => {
                if let Ast::Node(id) = &**of {
                    self.outputs.insert((id.clone(), name.to_owned()));
                }
            }
            _ => {}
        }
    }
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        op::ADD => Binary::Add,
        op::SUBSTRACT => Binary::Subtract,
        op::MULTIPLY => Binary::Multiply,
        op::DIVIDE => Binary::Divide,
        op::MODULO => Binary::Modulo,
        op::EQUALS => Binary::Equals,
        op::NOT_EQUALS => Binary::NotEquals,
        op::LESS => Binary::Less,
        op::LESS_EQUALS => Binary::LessEquals,
        op::GREATER => Binary::Greater,
        op::GREATER_EQUALS => Binary::GreaterEquals,
        op::IN => Binary::In,
        _ => return None,
    })
}

fn function(name: &str, mut args: Vec<Ast>) -> Result<Ast, ExprError> {
    if name == "matches" {
        let (Some(Ast::Text(pattern)), Some(text), true) =
            (args.pop(), args.pop(), args.is_empty())
        else {
            return Err(ExprError::Syntax(
                "matches() takes a text and a literal pattern".into(),
            ));
        };
        return Ok(Ast::Matches(Box::new(text), compile_pattern(&pattern)?));
    }
    let function = Function::check(name)?;
    function.check_arity(args.len())?;
    Ok(Ast::Call(function, args))
}

/// Compiles a pattern of bounded size; matching takes time linear in the text.
///
/// # Errors
/// [`ExprError::Syntax`] for an invalid or too large pattern.
pub(crate) fn compile_pattern(pattern: &str) -> Result<Regex, ExprError> {
    if pattern.len() > MAX_EXPRESSION_BYTES {
        return Err(ExprError::Syntax(format!(
            "the pattern is longer than {MAX_EXPRESSION_BYTES} bytes"
        )));
    }
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .nest_limit(MAX_NESTING as u32)
        .build()
        .map_err(|error| {
            ExprError::Syntax(match error {
                regex::Error::CompiledTooBig(_) => {
                    "the pattern is too large; use smaller repetitions".to_owned()
                }
                regex::Error::Syntax(text) => {
                    let last = text.lines().last().unwrap_or_default();
                    format!(
                        "the pattern cannot be read: {}",
                        last.trim_start_matches("error: ")
                    )
                }
                _ => "the pattern cannot be read".to_owned(),
            })
        })
}

fn literal_ast(literal: &LiteralValue) -> Result<Ast, ExprError> {
    Ok(match literal {
        LiteralValue::Null => Ast::Null,
        LiteralValue::Boolean(b) => Ast::Bool(*b.inner()),
        LiteralValue::Int(n) => Ast::Int(*n.inner()),
        LiteralValue::UInt(n) => Ast::Int(
            i64::try_from(*n.inner())
                .map_err(|_| ExprError::Syntax("the number is too large".into()))?,
        ),
        LiteralValue::Double(n) => Ast::Double(*n.inner()),
        LiteralValue::String(text) => Ast::Text(text.inner().to_owned()),
        LiteralValue::Bytes(_) => return Err(not_here("a bytes literal")),
    })
}

fn not_here(what: &str) -> ExprError {
    ExprError::Syntax(format!("{what} cannot be used here; use JSON values"))
}

/// A path in its written form, for messages.
pub(super) fn path_text(ast: &Ast) -> String {
    match ast {
        Ast::Root(name) => (*name).to_owned(),
        Ast::Local(_, name) => name.clone(),
        Ast::Node(id) => field_text("nodes", id),
        Ast::NodeAt(_) => "nodes[…]".to_owned(),
        Ast::Field(operand, name) => field_text(&path_text(operand), name),
        Ast::Index(operand, index) => match &**index {
            Ast::Int(index) => format!("{}[{index}]", path_text(operand)),
            Ast::Text(key) => field_text(&path_text(operand), key),
            _ => format!("{}[…]", path_text(operand)),
        },
        _ => "(…)".to_owned(),
    }
}

fn field_text(operand: &str, name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain {
        format!("{operand}.{name}")
    } else {
        format!("{operand}[{name:?}]")
    }
}
