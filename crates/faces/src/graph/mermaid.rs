//! A picture as the text of a Mermaid flowchart.

use std::fmt::Write;

use super::picture::{Edge, Flow, Kind, Node, Picture, State};

/// The longest label of a node, in characters.
const MAX_NAME: usize = 60;
/// The longest label of an edge, in characters.
const MAX_LABEL: usize = 40;

/// Renders the text. Nodes are called `n0`, `n1`, … by their place in the document, because their
/// ids may be keywords of Mermaid.
pub(super) fn render(picture: &Picture) -> String {
    let mut out = String::from("flowchart TD\n");
    let nodes: Vec<_> = picture.nodes.iter().enumerate().collect();
    for (position, node) in nodes.iter().filter(|(_, node)| node.within.is_none()) {
        declare(&mut out, 1, *position, node);
    }
    subgraphs(&mut out, picture);
    for edge in &picture.edges {
        connect(&mut out, edge);
    }
    classes(&mut out, picture);
    out
}

/// Loops as subgraphs, inner ones in outer ones.
fn subgraphs(out: &mut String, picture: &Picture) {
    let mut members = vec![Vec::new(); picture.loops.len()];
    for (position, node) in picture.nodes.iter().enumerate() {
        if let Some(within) = node.within {
            members[within].push((position, node));
        }
    }
    let mut inner = vec![Vec::new(); picture.loops.len()];
    // A stack rather than recursion: a definition may be nested very deeply.
    let mut stack = Vec::new();
    for (position, one) in picture.loops.iter().enumerate().rev() {
        match one.parent {
            Some(parent) => inner[parent].push(Step::Open(position)),
            None => stack.push(Step::Open(position)),
        }
    }
    let mut depth = 0;
    while let Some(step) = stack.pop() {
        let Step::Open(position) = step else {
            let _ = writeln!(out, "{}end", "  ".repeat(depth));
            depth -= 1;
            continue;
        };
        depth += 1;
        let one = &picture.loops[position];
        let label = format!(
            "{}: at most {} rounds",
            escape(&one.name, MAX_NAME),
            one.max_rounds
        );
        let _ = writeln!(
            out,
            "{}subgraph l{position}[\"{label}\"]",
            "  ".repeat(depth)
        );
        for (at, node) in &members[position] {
            declare(out, depth + 1, *at, node);
        }
        stack.push(Step::Close);
        stack.append(&mut inner[position]);
    }
}

#[derive(Clone, Copy)]
enum Step {
    Open(usize),
    Close,
}

fn declare(out: &mut String, depth: usize, position: usize, node: &Node) {
    let (open, close) = match node.kind {
        Kind::Work | Kind::Data => ("[", "]"),
        Kind::Choice => ("{", "}"),
        Kind::Loop => ("{{", "}}"),
        Kind::Delay => ("([", "])"),
        Kind::Gate => ("[/", "/]"),
        Kind::SubWorkflow => ("[[", "]]"),
        Kind::Agent => ("(", ")"),
    };
    let _ = writeln!(
        out,
        "{}n{position}{open}\"{}<br/>{}\"{close}",
        "  ".repeat(depth),
        escape(&node.name, MAX_NAME),
        escape(&node.type_id, MAX_NAME),
    );
}

fn connect(out: &mut String, edge: &Edge) {
    let line = match (edge.back, edge.flow) {
        (_, Flow::Declined) | (true, _) => "-.->",
        (false, Flow::Taken) => "==>",
        (false, Flow::Open) => "-->",
    };
    let label = match edge.label.as_str() {
        "" => String::new(),
        label => format!("|\"{}\"|", escape(label, MAX_LABEL)),
    };
    let _ = writeln!(out, "  n{} {line}{label} n{}", edge.source, edge.target);
}

fn classes(out: &mut String, picture: &Picture) {
    for state in State::ALL {
        let members: Vec<_> = picture
            .nodes
            .iter()
            .zip(0..)
            .filter(|(node, _)| node.progress.as_ref().is_some_and(|p| p.state == state))
            .map(|(_, position)| format!("n{position}"))
            .collect();
        if members.is_empty() {
            continue;
        }
        let name = state.as_str();
        let _ = writeln!(out, "  classDef {name} {}", style(state));
        let _ = writeln!(out, "  class {} {name}", members.join(","));
    }
}

fn style(state: State) -> &'static str {
    match state {
        State::Pending => "fill:#ffffff,stroke:#9aa4b2,color:#1c2430",
        State::Running => "fill:#e8f0fe,stroke:#1f5fd0,color:#10305f",
        State::Suspended => "fill:#fff4d6,stroke:#94690a,color:#4d3703",
        State::Retrying => "fill:#ffeede,stroke:#b8500c,color:#5a2605",
        State::Completed => "fill:#e4f5ea,stroke:#1d7a48,color:#0d3d23",
        State::Failed => "fill:#fde9e7,stroke:#bf2a23,color:#5e120e",
        State::Skipped => "fill:#f3f4f6,stroke:#9aa4b2,color:#5b6573,stroke-dasharray:4 3",
        State::Cancelled => "fill:#f1edf7,stroke:#75608f,color:#3c2f4c",
    }
}

/// A label that Mermaid shows unchanged: characters that could end it, begin an entity, or be
/// markup of HTML or Markdown are written as entities, and it becomes one line.
fn escape(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().take(max + 1).collect();
    // A list in Markdown is a line that begins with a number and a full stop, or with a sign.
    let number = chars.iter().take_while(|c| c.is_ascii_digit()).count();
    let is_inner = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(|c| c.is_alphanumeric())
    };
    for (at, &c) in chars.iter().take(max).enumerate() {
        let is_markup = match c {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '*' | '%' | '~' => true,
            '_' => !is_inner(at.checked_sub(1)) || !is_inner(Some(at + 1)),
            '.' | ')' => at == number && number > 0,
            '-' | '+' | '=' => at == 0,
            _ => false,
        };
        if is_markup {
            let _ = write!(out, "#{};", u32::from(c));
        } else if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    if chars.len() > max {
        out.push('…');
    }
    out
}
