//! Texts of an executor, with placeholders.

kernel::words! {
    /// The node types that call something.
    pub enum Call {
        /// A skill of a coding agent.
        Skill = "skill",
        /// A command of a coding agent.
        Command = "command",
        /// Another tool.
        Cli = "cli",
        /// A sub-agent.
        Agent = "agent",
    }
}

/// The values of placeholders.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// The resolved arguments of the node.
    pub args: &'a str,
    /// The name that the node calls.
    pub executor: &'a str,
    /// The tool of a `cli` node.
    pub cli_tool: &'a str,
    /// Its mode.
    pub cli_mode: &'a str,
    /// Its rule.
    pub cli_rule: &'a str,
    /// The node's id.
    pub node: &'a str,
    /// The session's id.
    pub session: &'a str,
    /// The session's folder.
    pub session_dir: &'a str,
    /// The id of the work in the external system.
    pub task_id: &'a str,
    /// The file in which the process may leave its result.
    pub result_file: &'a str,
}

/// The names of the placeholders.
const NAMES: [&str; 10] = [
    "args",
    "executor",
    "cli_tool",
    "cli_mode",
    "cli_rule",
    "node",
    "session",
    "session_dir",
    "task_id",
    "result_file",
];

impl<'a> Places<'a> {
    fn get(&self, name: &str) -> &'a str {
        match name {
            "args" => self.args,
            "executor" => self.executor,
            "cli_tool" => self.cli_tool,
            "cli_mode" => self.cli_mode,
            "cli_rule" => self.cli_rule,
            "node" => self.node,
            "session" => self.session,
            "session_dir" => self.session_dir,
            "task_id" => self.task_id,
            _ => self.result_file,
        }
    }
}

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    Place(&'static str),
}

impl Text {
    /// Parses a text. Only a known name in braces is a placeholder; `{{name}}` yields `{name}`
    /// itself, and any other brace stays as it is, so that scripts may contain them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(name) = named(from, "{{", "}}") {
                plain.push_str(&format!("{{{name}}}"));
                rest = &from[name.len() + 4..];
                continue;
            }
            let Some(name) = named(from, "{", "}") else {
                plain.push('{');
                rest = &from[1..];
                continue;
            };
            let Some(known) = NAMES.iter().find(|known| **known == name) else {
                return Err(format!(
                    "unknown placeholder {{{name}}}; the placeholders are {}. Write {{{{{name}}}}} \
                     for the characters themselves",
                    NAMES.map(|name| format!("{{{name}}}")).join(" ")
                ));
            };
            if !plain.is_empty() {
                pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Place(known));
            rest = &from[name.len() + 2..];
        }
        plain.push_str(rest);
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Plain(plain));
        }
        Ok(Self(pieces))
    }

    pub(super) fn fill(&self, places: &Places<'_>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Plain(text) => text.clone(),
            Piece::Place(name) => places.get(name).to_owned(),
        };
        self.0.iter().map(piece).collect()
    }

    /// The text itself, if it has no placeholder.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Plain(text)] => Some(text),
            _ => None,
        }
    }

    fn has_empty_place(&self, places: &Places<'_>) -> bool {
        let is_empty = |piece: &Piece| match piece {
            Piece::Plain(_) => false,
            Piece::Place(name) => places.get(name).is_empty(),
        };
        self.0.iter().any(is_empty)
    }
}

/// The name at the beginning of a text, between these braces.
fn named<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (name, _) = text.strip_prefix(open)?.split_once(close)?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_name.then_some(name)
}

/// An element of `argv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// One argument.
    One(Text),
    /// Arguments that are omitted together if a placeholder among them is empty.
    Group(Vec<Text>),
}

impl Element {
    pub(super) fn fill(&self, places: &Places<'_>) -> Vec<String> {
        match self {
            Self::One(text) => vec![text.fill(places)],
            Self::Group(texts) if texts.iter().any(|text| text.has_empty_place(places)) => {
                Vec::new()
            }
            Self::Group(texts) => texts.iter().map(|text| text.fill(places)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places<'static> = Places {
        args: "a {executor} \"$(x)\"\n",
        executor: "plan",
        cli_tool: "gemini",
        cli_mode: "",
        cli_rule: "",
        node: "N-1",
        session: "WFR-1",
        session_dir: "/s",
        task_id: "gem-1",
        result_file: "/r",
    };

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Text::parse(text).unwrap().fill(&PLACES), expected);
    }

    #[test]
    fn places_are_filled_once() {
        check("", "");
        check("-p", "-p");
        check("/{executor} {args}", "/plan a {executor} \"$(x)\"\n");
        check(
            "{{args}} {{}} ${1#x} ${HOME} {} { a; }",
            "{args} {{}} ${1#x} ${HOME} {} { a; }",
        );
        check(
            "{cli_tool}{node}{session}{session_dir}{task_id}{result_file}",
            "geminiN-1WFR-1/sgem-1/r",
        );
    }

    #[test]
    fn an_invalid_place_name_is_rejected() {
        for text in ["{arg}", "x {executo} y", "{{args}} {argv}"] {
            let error = Text::parse(text).unwrap_err();
            assert!(error.contains("{args} {executor}"), "{error}");
        }
    }

    #[test]
    fn a_group_is_left_out_where_a_place_is_empty() {
        let group = |text: &str| {
            Element::Group(vec![
                Text::parse("--x").unwrap(),
                Text::parse(text).unwrap(),
            ])
        };
        assert_eq!(group("{cli_tool}").fill(&PLACES), ["--x", "gemini"]);
        assert!(group("{cli_rule}").fill(&PLACES).is_empty());
    }
}
