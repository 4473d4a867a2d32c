//! References in the arguments of a node.
//!
//! `{name}` is a context variable, `{N-001.session_id}` a field of an earlier node,
//! `{prev_output_path}` one of the nearest earlier work node. All other text stays unchanged, so
//! that prompts may contain JSON and code. Inserted text is not scanned for references.

use std::collections::{BTreeMap, BTreeSet};

use kernel::problem::closest;

/// A piece of a node's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// A context variable.
    Variable(String),
    /// A field of another node, by its position in the template.
    Node(usize, Field),
    /// A field of the nearest earlier completed work node.
    Previous(Field),
}

/// The fields of a node that references can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The session it worked in.
    SessionId,
    /// The main file it wrote.
    OutputPath,
    /// A file it wrote, by position.
    Artifact(usize),
    /// Its output text.
    Output,
    /// The exit code of its process.
    ExitCode,
    /// The status of the node: completed, skipped or failed.
    Status,
    /// The error of its last round, for the first node of a loop.
    Error,
}

/// The fields, in the spelling after the id of a node.
pub const FIELDS: [&str; 7] = [
    "session_id",
    "output_path",
    "artifacts[0]",
    "output",
    "status",
    "exit_code",
    "error",
];

impl Field {
    /// The node's output port with it.
    pub fn port(self) -> &'static str {
        match self {
            Self::SessionId => "session_id",
            Self::OutputPath => "output_path",
            Self::Artifact(_) => "artifacts",
            Self::Output => "output",
            Self::ExitCode => "exit_code",
            Self::Status => "status",
            Self::Error => "error",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "session_id" => Self::SessionId,
            "output_path" => Self::OutputPath,
            "output" => Self::Output,
            "exit_code" => Self::ExitCode,
            "status" => Self::Status,
            "error" => Self::Error,
            _ => {
                let index = text.strip_prefix("artifacts[")?.strip_suffix(']')?;
                Self::Artifact(index.parse().ok()?)
            }
        })
    }

    /// Whether every player of these templates supports it.
    fn is_original(self) -> bool {
        matches!(self, Self::SessionId | Self::OutputPath | Self::Artifact(_))
    }
}

/// Something odd about a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Odd {
    /// It names an unknown node.
    NoSuchNode {
        /// The name.
        id: String,
        /// The most likely intended name.
        meant: Option<String>,
    },
    /// It names a node with an unknown field; it stays literal text.
    NoSuchField {
        /// The reference, without its braces.
        written: String,
        /// The most likely intended name.
        meant: Option<String>,
    },
    /// It may mean an undeclared variable; it stays literal text.
    NoSuchVariable {
        /// The name.
        name: String,
        /// The most likely intended name.
        meant: Option<String>,
    },
}

/// The names that references can use.
pub struct Names<'a> {
    /// Nodes by id.
    pub nodes: &'a BTreeMap<&'a str, usize>,
    /// Context variables.
    pub variables: &'a BTreeSet<String>,
}

/// Parses the arguments of a node, from left to right and once.
pub fn read(text: &str, names: &Names<'_>) -> (Vec<Part>, Vec<Odd>) {
    let (mut parts, mut odd) = (Vec::new(), Vec::new());
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let found = from[1..]
            .find(['{', '}'])
            .filter(|end| from.as_bytes()[1 + end] == b'}')
            .map(|end| &from[1..1 + end]);
        match found.map(|inner| (inner, reference(inner, names))) {
            Some((inner, Sense::Means(part))) => {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(part);
                rest = &from[inner.len() + 2..];
                continue;
            }
            Some((_, Sense::Odd(what))) => odd.push(what),
            Some((_, Sense::Nothing)) | None => {}
        }
        plain.push('{');
        rest = &from[1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    (parts, odd)
}

enum Sense {
    Means(Part),
    Odd(Odd),
    Nothing,
}

fn reference(inner: &str, names: &Names<'_>) -> Sense {
    match inner {
        "prev_session_id" => return Sense::Means(Part::Previous(Field::SessionId)),
        "prev_output_path" => return Sense::Means(Part::Previous(Field::OutputPath)),
        "prev_output" => return Sense::Means(Part::Previous(Field::Output)),
        _ => {}
    }
    if names.variables.contains(inner) {
        return Sense::Means(Part::Variable(inner.to_owned()));
    }
    if let Some((id, field)) = inner.rsplit_once('.')
        && let Some(field) = Field::parse(field)
    {
        if let Some(node) = names.nodes.get(id) {
            return Sense::Means(Part::Node(*node, field));
        }
        let meant = closest(id, names.nodes.keys().copied()).map(str::to_owned);
        // Prose may contain `{response.output}`; the other fields only occur in templates of
        // players.
        let is_meant = field.is_original() || meant.is_some() || is_node_shaped(id);
        if is_meant && !id.contains(char::is_whitespace) {
            let id = id.to_owned();
            return Sense::Odd(Odd::NoSuchNode { id, meant });
        }
        return Sense::Nothing;
    }
    if let Some(odd) = no_such_field(inner, names) {
        return Sense::Odd(odd);
    }
    let mut chars = inner.chars();
    let is_name = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Sense::Nothing;
    }
    let known = names.variables.iter().map(String::as_str);
    let known = known.chain(["prev_session_id", "prev_output_path", "prev_output"]);
    Sense::Odd(Odd::NoSuchVariable {
        name: inner.to_owned(),
        meant: closest(inner, known).map(str::to_owned),
    })
}

/// Text similar to a reference to a node, but with an unknown field or with spaces around it.
fn no_such_field(inner: &str, names: &Names<'_>) -> Option<Odd> {
    let (id, field) = inner.trim().rsplit_once('.')?;
    let is_node = names.nodes.contains_key(id) || is_node_shaped(id);
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '[' | ']');
    let is_field =
        field.starts_with(|c: char| c.is_ascii_alphabetic()) && field.chars().all(is_word);
    if !is_node || !is_field {
        return None;
    }
    let meant = match Field::parse(field) {
        Some(_) => Some(field),
        None if field.starts_with("artifact") => Some("artifacts[0]"),
        None => closest(field, FIELDS),
    };
    Some(Odd::NoSuchField {
        written: inner.to_owned(),
        meant: meant.map(|field| format!("{id}.{field}")),
    })
}

/// `N-001`, `CP-01` and the like.
fn is_node_shaped(id: &str) -> bool {
    id.split_once('-').is_some_and(|(letters, number)| {
        !letters.is_empty()
            && letters.chars().all(|c| c.is_ascii_uppercase())
            && number.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Part], oddities: usize) {
        let nodes = BTreeMap::from([("N-001", 0), ("a.b", 1)]);
        let variables = BTreeSet::from(["goal".to_owned(), "x-y".to_owned()]);
        let names = Names {
            nodes: &nodes,
            variables: &variables,
        };
        let (parts, odd) = read(text, &names);
        assert_eq!(parts, expected, "{text}");
        assert_eq!(odd.len(), oddities, "{text}: {odd:?}");
    }

    fn text(text: &str) -> Part {
        Part::Text(text.into())
    }

    #[test]
    fn references_of_every_form() {
        let goal = || Part::Variable("goal".into());
        check("{goal}", &[goal()], 0);
        check("a{goal}b{goal}", &[text("a"), goal(), text("b"), goal()], 0);
        check("{x-y}", &[Part::Variable("x-y".into())], 0);
        check("{N-001.session_id}", &[Part::Node(0, Field::SessionId)], 0);
        check("{a.b.output}", &[Part::Node(1, Field::Output)], 0);
        check(
            "{N-001.artifacts[2]}",
            &[Part::Node(0, Field::Artifact(2))],
            0,
        );
        check("{prev_output}", &[Part::Previous(Field::Output)], 0);
        check("{prev_session_id}", &[Part::Previous(Field::SessionId)], 0);
    }

    #[test]
    fn other_braces_stay() {
        for plain in [
            "",
            "{}",
            "{\"goal\": 1}",
            "{ goal }",
            "fn f() { x }",
            "{goal",
            "goal}",
            "{a b.session_id}",
            "{response.output}",
        ] {
            let expected: Vec<Part> = (!plain.is_empty())
                .then(|| text(plain))
                .into_iter()
                .collect();
            check(plain, &expected, 0);
        }
        check(
            "{{goal}}",
            &[text("{"), Part::Variable("goal".into()), text("}")],
            0,
        );
    }

    #[test]
    fn possible_mistakes_are_reported() {
        check("{gaol}", &[text("{gaol}")], 1);
        check("{N-009.session_id}", &[text("{N-009.session_id}")], 1);
        check("{N-01.output}", &[text("{N-01.output}")], 1);
    }

    #[test]
    fn a_field_that_no_node_has_is_said() {
        for odd in [
            "{N-001.outptu}",
            "{N-001.artifacts}",
            "{N-001.artifacts[x]}",
            "{N-009.outptu}",
            "{ N-001.output }",
        ] {
            check(odd, &[text(odd)], 1);
        }
        for plain in ["{N-001.}", "{N-1.5}", "{response.outptu}", "{N-001.a b}"] {
            check(plain, &[text(plain)], 0);
        }
        check("{N-001.status}", &[Part::Node(0, Field::Status)], 0);
        check("{N-001.error}", &[Part::Node(0, Field::Error)], 0);
    }
}
