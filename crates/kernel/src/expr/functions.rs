//! The functions of the language.

use super::ExprError;
use super::eval::Budget;
use super::value::Val;
use crate::problem::{closest, quoted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Int,
    Double,
    String,
    Bool,
    Dyn,
    /// Compiled separately, because its pattern is part of the expression.
    Matches,
}

const NAMES: [(&str, Function); 15] = [
    ("size", Function::Size),
    ("contains", Function::Contains),
    ("startsWith", Function::StartsWith),
    ("endsWith", Function::EndsWith),
    ("lowerAscii", Function::LowerAscii),
    ("upperAscii", Function::UpperAscii),
    ("trim", Function::Trim),
    ("split", Function::Split),
    ("join", Function::Join),
    ("int", Function::Int),
    ("double", Function::Double),
    ("string", Function::String),
    ("bool", Function::Bool),
    ("dyn", Function::Dyn),
    ("matches", Function::Matches),
];

/// The equivalent of a function name from another language.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "len" | "length" | "count" => "size",
        "lower" | "toLowerCase" | "tolower" => "lowerAscii",
        "upper" | "toUpperCase" | "toupper" => "upperAscii",
        "includes" | "has_substring" => "contains",
        "strip" => "trim",
        "str" | "toString" => "string",
        "float" | "number" => "double",
        "test" | "match" | "regex" => "matches",
        _ => return None,
    })
}

impl Function {
    /// Looks up a function by its name.
    pub(super) fn check(name: &str) -> Result<Self, ExprError> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, function)| *function)
            .ok_or_else(|| {
                let near = || closest(name, NAMES.iter().map(|(known, _)| *known));
                let hint = match elsewhere(name).or_else(near) {
                    Some(known) => format!("did you mean {known}()?"),
                    None => {
                        let names: Vec<_> = NAMES.iter().map(|(known, _)| *known).collect();
                        format!("there are {}", names.join(", "))
                    }
                };
                ExprError::Syntax(format!("unknown function {}; {hint}", quoted(name)))
            })
    }

    fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, function)| *function == self)
            .map_or("", |(name, _)| name)
    }

    pub(super) fn check_arity(self, given: usize) -> Result<(), ExprError> {
        let takes = match self {
            Self::Contains | Self::StartsWith | Self::EndsWith | Self::Split | Self::Matches => {
                2..=2
            }
            Self::Join => 1..=2,
            _ => 1..=1,
        };
        if takes.contains(&given) {
            return Ok(());
        }
        Err(ExprError::Syntax(format!(
            "{}() takes {} value{}, including the one before the dot",
            self.name(),
            takes.end(),
            if *takes.end() == 1 { "" } else { "s" },
        )))
    }

    pub(super) fn call<'a>(
        self,
        args: &[Val<'a>],
        budget: &mut Budget,
    ) -> Result<Val<'a>, ExprError> {
        let Some(first) = args.first() else {
            return Err(self.refuse(&Val::Null));
        };
        let text = || first.as_str().ok_or_else(|| self.refuse(first));
        let other = || {
            let arg = args.get(1).unwrap_or(&Val::Null);
            arg.as_str().ok_or_else(|| self.refuse(arg))
        };
        if let Some(text) = first.as_str() {
            budget.spend_text(text.len())?;
        }
        Ok(match self {
            Self::Size => match (first.as_str(), first.len()) {
                (Some(text), _) => Val::Int(text.chars().count() as i64),
                (None, Some(len)) => Val::Int(len as i64),
                (None, None) => return Err(self.refuse(first)),
            },
            Self::Contains => Val::Bool(text()?.contains(other()?)),
            Self::StartsWith => Val::Bool(text()?.starts_with(other()?)),
            Self::EndsWith => Val::Bool(text()?.ends_with(other()?)),
            Self::LowerAscii => Val::text(text()?.to_ascii_lowercase()),
            Self::UpperAscii => Val::text(text()?.to_ascii_uppercase()),
            Self::Trim => Val::text(text()?.trim().to_owned()),
            Self::Split => {
                let (text, separator) = (text()?, other()?);
                let mut parts = Vec::new();
                let mut add = |part: &str, budget: &mut Budget| {
                    budget.spend(1)?;
                    parts.push(Val::text(part.to_owned()));
                    Ok::<_, ExprError>(())
                };
                if separator.is_empty() {
                    for (at, c) in text.char_indices() {
                        add(&text[at..at + c.len_utf8()], budget)?;
                    }
                } else {
                    for part in text.split(separator) {
                        add(part, budget)?;
                    }
                }
                Val::array(parts)
            }
            Self::Join => self.join(first, args.get(1), budget)?,
            Self::Int => int(first).ok_or_else(|| self.refuse(first))?,
            Self::Double => match first.as_str() {
                Some(text) => text.trim().parse::<f64>().ok().filter(|n| n.is_finite()),
                None => first.as_f64(),
            }
            .map(Val::Double)
            .ok_or_else(|| self.refuse(first))?,
            Self::String => match first {
                Val::Text(_) | Val::OwnText(_) => first.clone(),
                Val::Bool(b) => Val::text(b.to_string()),
                Val::Int(n) => Val::text(n.to_string()),
                // As JSON writes it, so that a whole double has no fraction.
                Val::Double(_) => Val::text(first.clone().into_json(0, budget)?.to_string()),
                _ => return Err(self.refuse(first)),
            },
            Self::Bool => match (first, first.as_str()) {
                (Val::Bool(b), _) => Val::Bool(*b),
                (_, Some("true" | "True" | "TRUE" | "t" | "1")) => Val::Bool(true),
                (_, Some("false" | "False" | "FALSE" | "f" | "0")) => Val::Bool(false),
                _ => return Err(self.refuse(first)),
            },
            Self::Dyn => first.clone(),
            Self::Matches => return Err(self.refuse(first)),
        })
    }

    fn join<'a>(
        self,
        list: &Val<'a>,
        separator: Option<&Val<'a>>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, ExprError> {
        let separator = match separator {
            None => "",
            Some(separator) => separator.as_str().ok_or_else(|| self.refuse(separator))?,
        };
        let (Val::Array(_) | Val::OwnArray(_), Some(len)) = (list, list.len()) else {
            return Err(self.refuse(list));
        };
        let mut out = String::new();
        for index in 0..len {
            let item = list.item(index).unwrap_or(Val::Null);
            let text = item.as_str().ok_or_else(|| self.refuse(&item))?;
            budget.spend(1)?;
            budget.spend_text(text.len() + separator.len())?;
            if index > 0 {
                out.push_str(separator);
            }
            out.push_str(text);
        }
        Ok(Val::text(out))
    }

    fn refuse(self, arg: &Val<'_>) -> ExprError {
        ExprError::Invalid(format!("{}() cannot take {}", self.name(), arg.type_name()))
    }
}

fn int(value: &Val<'_>) -> Option<Val<'static>> {
    match (value, value.as_str()) {
        (Val::Int(n), _) => Some(Val::Int(*n)),
        (Val::Double(n), _) => {
            let whole = n.trunc();
            (whole >= i64::MIN as f64 && whole < i64::MAX as f64).then_some(Val::Int(whole as i64))
        }
        (_, Some(text)) => text.trim().parse().ok().map(Val::Int),
        _ => None,
    }
}
