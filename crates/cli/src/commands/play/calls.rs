//! The command line of a node, shown before it runs.

use faces::player::reference::{Field, Part};
use faces::player::template::{Call, Kind, Node, Template};
use runtime::executors::{Executors, Places};

use super::checks;
use super::context::Context;

/// The process of a node. References to earlier nodes stay unresolved.
pub(super) struct Called {
    /// Program and arguments.
    pub(super) argv: Vec<String>,
    /// The program's standard input; empty for none.
    pub(super) stdin: String,
}

impl Called {
    /// The process of a work node; `None` without a matching executor.
    pub(super) fn from_node(
        template: &Template,
        node: &Node,
        executors: &Executors,
        context: &Context,
    ) -> Option<Self> {
        let Kind::Work(work) = &node.kind else {
            return None;
        };
        let (kind, name) = checks::called(work);
        let executor = executors.of(kind, name)?;
        let args: String = (work.args.iter())
            .map(|part| written(template, part, context))
            .collect();
        let (tool, mode, rule) = match &work.call {
            Call::Cli { tool, mode, rule } => (tool.as_str(), mode.as_str(), rule.as_deref()),
            _ => ("", "", None),
        };
        let places = Places {
            args: &args,
            executor: &work.executor,
            cli_tool: tool,
            cli_mode: mode,
            cli_rule: rule.unwrap_or_default(),
            node: &node.id,
            session: "{session}",
            session_dir: "{session_dir}",
            task_id: "{task_id}",
            result_file: "{result_file}",
        };
        Some(Self {
            argv: executor.argv(&places),
            stdin: String::from_utf8_lossy(&executor.stdin(&places)).into_owned(),
        })
    }
}

/// A part of the arguments: the value of a known variable, else the text unchanged.
fn written(template: &Template, part: &Part, context: &Context) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Variable(name) => {
            let declared = template.context.get(name);
            let default = || declared.and_then(|variable| variable.default.clone());
            let value = context.get(name).cloned().or_else(default);
            value.unwrap_or_else(|| format!("{{{name}}}"))
        }
        Part::Node(of, Field::Artifact(index)) => {
            format!("{{{}.artifacts[{index}]}}", template.nodes[*of].id)
        }
        Part::Node(of, field) => format!("{{{}.{}}}", template.nodes[*of].id, field.port()),
        Part::Previous(field) => format!("{{prev_{}}}", field.port()),
    }
}
