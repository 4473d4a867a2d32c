//! Parses a template and reports all its problems at once.

mod graph;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};

use kernel::json::{self, Limits};
use kernel::limits::{MAX_NAME_BYTES, MAX_NODE_ID_CHARS, MAX_NODES, MAX_RETRIES, MAX_WAIT_MS};
use kernel::problem::{Problem, ProblemCode, Problems, closest, pointer, quoted};
use serde_json::Value;

use super::fields::Fields;
use super::plan::ExecutionPlan;
use super::reference::{self, Field, Names, Odd, Part};
pub use rounds::Round;

/// A template whose nodes and edges are consistent.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// `wft-<slug>-<date>`, or any other id.
    pub id: String,
    /// The display name; by default the id.
    pub name: String,
    /// For people.
    pub description: String,
    /// The version it claims.
    pub version: String,
    /// To find it by.
    pub tags: Vec<String>,
    /// The context variables.
    pub context: BTreeMap<String, Variable>,
    /// At least one; ids are unique. Copies for further rounds of loops come last.
    pub nodes: Vec<Node>,
    /// In which order they run.
    pub plan: ExecutionPlan,
    /// Findings that do not prevent the template from being played.
    pub warnings: Vec<Problem>,
}

/// A context variable. Values are texts, for every type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// `string`, `path` or `boolean`; for people.
    pub kind: String,
    /// Whether a session requires a value.
    pub required: bool,
    /// For people.
    pub description: String,
    /// Its default.
    pub default: Option<String>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique in the template.
    pub id: String,
    /// The display name; by default the id.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Nodes with the same group run at the same time.
    pub parallel_group: Option<String>,
    /// Its place in a loop.
    pub round: Option<Round>,
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub enum Kind {
    /// It calls something.
    Work(Work),
    /// It takes a snapshot, and may ask whether to continue.
    Checkpoint {
        /// The question.
        description: String,
        /// Whether to continue without asking.
        auto_continue: bool,
    },
}

/// A node that calls something.
#[derive(Clone, Debug)]
pub struct Work {
    /// How its executor is invoked.
    pub call: Call,
    /// The name of the called skill, command or kind of agent.
    pub executor: String,
    /// The arguments, unparsed.
    pub args_template: String,
    /// The same, read.
    pub args: Vec<Part>,
    /// The reaction to a failure.
    pub on_fail: OnFail,
    /// Attempts and the waits between them, if the template sets them.
    pub retry: Option<Retry>,
    /// The timeout of an attempt, if the template sets it.
    pub timeout_ms: Option<u64>,
}

/// How an executor is invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A skill of a coding agent.
    Skill,
    /// A command of a coding agent.
    Command,
    /// Another tool with a common command line.
    Cli {
        /// `gemini`, `qwen`, `codex`, …
        tool: String,
        /// `analysis` or `write`.
        mode: String,
        /// The name of a prompt rule.
        rule: Option<String>,
    },
    /// A sub-agent.
    Agent,
}

impl Call {
    /// The node type, in the spelling of templates.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Command => "command",
            Self::Cli { .. } => "cli",
            Self::Agent => "agent",
        }
    }
}

/// The reaction to a failed node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFail {
    /// A person decides: retry, skip or abort.
    #[default]
    Abort,
    /// It counts as skipped.
    Skip,
    /// One more attempt, then as `Abort`.
    Retry,
}

/// Attempts and the waits between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first.
    pub retries: u32,
    /// Milliseconds before the first retry; they double.
    pub base_ms: u64,
    /// The longest wait.
    pub max_ms: u64,
}

/// The node types there are.
const TYPES: [&str; 5] = ["skill", "command", "cli", "agent", "checkpoint"];

impl Template {
    /// Parses a template. `given` names context variables with a value that the template does not
    /// declare; references to them are recognised too.
    ///
    /// # Errors
    /// All errors, each with its line and column.
    pub fn parse(bytes: &[u8], given: &BTreeSet<String>) -> Result<Self, Problems> {
        let document = json::parse(bytes, Limits::DEFINITION)?;
        let mut problems = Problems::new();
        let template = read(&document, given, &mut problems);
        json::locate(bytes, &mut problems.listed);
        let place = |problem: &Problem| problem.at.map(|at| (at.line, at.column));
        problems.listed.sort_by_key(place);
        match template {
            Some(mut template) if problems.is_empty() => {
                json::locate(bytes, &mut template.warnings);
                Ok(template)
            }
            _ => Err(problems),
        }
    }

    /// The numbers of work nodes and of checkpoints, without further rounds of loops.
    pub fn counts(&self) -> (usize, usize) {
        let is_work = |node: &&Node| matches!(node.kind, Kind::Work(_));
        let work = self.written().filter(is_work).count();
        (work, self.written().count() - work)
    }

    /// The nodes without the copies for further rounds of loops.
    pub fn written(&self) -> impl Iterator<Item = &Node> {
        let is_written = |node: &&Node| node.round.is_none_or(|round| round.number == 1);
        self.nodes.iter().filter(is_written)
    }

    /// The context variables that it declares or refers to, possibly with duplicates.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let args = self.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Work(work) => Some(&work.args),
            Kind::Checkpoint { .. } => None,
        });
        let referred = args.flatten().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            _ => None,
        });
        self.context.keys().map(String::as_str).chain(referred)
    }

    /// The context of a session, from the given values and the defaults.
    ///
    /// # Errors
    /// The names of required variables without a value.
    pub fn bind(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, Vec<String>> {
        let mut context = given.clone();
        let mut missing = Vec::new();
        for (name, variable) in &self.context {
            if context.contains_key(name) {
                continue;
            }
            match &variable.default {
                Some(default) => {
                    context.insert(name.clone(), default.clone());
                }
                None if variable.required => missing.push(name.clone()),
                None => {
                    context.insert(name.clone(), String::new());
                }
            }
        }
        if missing.is_empty() {
            Ok(context)
        } else {
            Err(missing)
        }
    }
}

/// The keys of a template.
const KEYS: &[&str] = &[
    "template_id",
    "name",
    "description",
    "version",
    "tags",
    "context_schema",
    "nodes",
    "edges",
    "checkpoints",
    "atomic_groups",
    "execution_mode",
    "metadata",
];
/// The keys of a node.
const NODE_KEYS: &[&str] = &[
    "id",
    "name",
    "type",
    "executor",
    "args_template",
    "cli_tool",
    "cli_mode",
    "cli_rule",
    "parallel_group",
    "on_fail",
    "retry",
    "timeout_ms",
    "input_ports",
    "output_ports",
    "run_in_background",
    "description",
    "auto_continue",
];

fn read(document: &Value, given: &BTreeSet<String>, problems: &mut Problems) -> Option<Template> {
    let fields = Fields::open(String::new(), document, problems)?;
    let id = fields
        .required_text("template_id", "the name of the template", problems)
        .unwrap_or_default()
        .to_owned();
    let mut template = Template {
        name: fields.text("name", problems).unwrap_or(&id).to_owned(),
        description: fields
            .text("description", problems)
            .unwrap_or_default()
            .to_owned(),
        version: fields.text("version", problems).unwrap_or("1.0").to_owned(),
        tags: fields.texts("tags", problems),
        context: context(&fields, problems),
        id,
        ..Template::default()
    };
    template.warnings.extend(fields.misspelt(KEYS));
    let mut variables: BTreeSet<String> = template.context.keys().cloned().collect();
    variables.extend(given.iter().cloned());
    let listed = nodes(&fields, &mut template, &variables, problems);
    graph::edges(&fields, listed, &mut template, problems);
    graph::checkpoints(&fields, &mut template, problems);
    Some(template)
}

fn context(fields: &Fields<'_>, problems: &mut Problems) -> BTreeMap<String, Variable> {
    if fields.get("context_schema").is_none() {
        fields.missing("context_schema", "an object, which may be empty", problems);
    }
    let mut context = BTreeMap::new();
    for (name, value) in fields
        .object("context_schema", problems)
        .into_iter()
        .flatten()
    {
        let path = pointer(&fields.at("context_schema"), name);
        let Some(entry) = Fields::open(path, value, problems) else {
            continue;
        };
        let default = match entry.get("default") {
            None => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
            Some(_) => {
                entry.wrong("default", "a text, a number, true or false", problems);
                None
            }
        };
        let variable = Variable {
            kind: entry.text("type", problems).unwrap_or("string").to_owned(),
            required: entry.flag("required", problems).unwrap_or(false),
            description: entry
                .text("description", problems)
                .unwrap_or_default()
                .to_owned(),
            default,
        };
        context.insert(name.clone(), variable);
    }
    context
}

/// Parses the nodes; returns the original list, if it is one.
fn nodes<'a>(
    fields: &Fields<'a>,
    template: &mut Template,
    variables: &BTreeSet<String>,
    problems: &mut Problems,
) -> &'a [Value] {
    let Some(list) = fields.array("nodes", problems) else {
        if fields.get("nodes").is_none() {
            fields.missing("nodes", "an array of at least one node", problems);
        }
        return &[];
    };
    if list.is_empty() {
        let what = "must have at least one node";
        problems.add(fields.at("nodes"), ProblemCode::InvalidValue, what);
    }
    if list.len() > MAX_NODES / 2 {
        let what = format!(
            "has {} nodes; at most {} are allowed",
            list.len(),
            MAX_NODES / 2
        );
        problems.add(fields.at("nodes"), ProblemCode::TooLarge, what);
        return &[];
    }
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, value) in list.iter().enumerate() {
        let Some(id) = id_of(value) else { continue };
        if let Some(first) = by_id.get(id) {
            problems.add(
                format!("/nodes/{index}/id"),
                ProblemCode::DuplicateId,
                format!(
                    "node {} of the list has the id {}, too; ids are unique",
                    first + 1,
                    quoted(id)
                ),
            );
        } else {
            by_id.insert(id, index);
        }
    }
    let names = Names {
        nodes: &by_id,
        variables,
    };
    for (index, value) in list.iter().enumerate() {
        let reader = Reader {
            names: &names,
            warnings: &mut template.warnings,
        };
        if let Some(node) = reader.node(format!("/nodes/{index}"), value, problems) {
            template.nodes.push(node);
        }
    }
    list
}

/// The id of a node, if it is a text.
fn id_of(node: &Value) -> Option<&str> {
    node.get("id")?.as_str()
}

struct Reader<'a> {
    names: &'a Names<'a>,
    warnings: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn node(mut self, path: String, value: &Value, problems: &mut Problems) -> Option<Node> {
        let fields = Fields::open(path, value, problems)?;
        self.warnings.extend(fields.misspelt(NODE_KEYS));
        let id = fields.required_text("id", "a name, unique in the template", problems);
        if id.is_some_and(|id| {
            let length = id.chars().count();
            !(1..=MAX_NODE_ID_CHARS).contains(&length)
                || id.len() > MAX_NAME_BYTES
                || id.contains(|c: char| c.is_control() || matches!(c, '{' | '}'))
        }) {
            let what = format!(
                "must have 1 to {MAX_NODE_ID_CHARS} characters, at most {MAX_NAME_BYTES} bytes, no \
                 braces and no control characters"
            );
            problems.add(fields.at("id"), ProblemCode::InvalidValue, what);
        }
        let parallel_group = fields.text("parallel_group", problems).map(str::to_owned);
        let word = fields.required_text("type", &format!("one of {}", TYPES.join(", ")), problems);
        let kind = match word {
            Some("checkpoint") => {
                if parallel_group.is_some() {
                    let what =
                        "a checkpoint cannot be in a parallel group; remove `parallel_group`";
                    problems.add(fields.at("parallel_group"), ProblemCode::InvalidValue, what);
                }
                Some(Kind::Checkpoint {
                    description: fields
                        .text("description", problems)
                        .unwrap_or_default()
                        .to_owned(),
                    auto_continue: fields.flag("auto_continue", problems).unwrap_or(true),
                })
            }
            Some(word) => call(word, &fields, problems)
                .map(|call| Kind::Work(self.work(call, &fields, problems))),
            None => None,
        };
        let id = id.unwrap_or_default().to_owned();
        Some(Node {
            name: fields.text("name", problems).unwrap_or(&id).to_owned(),
            id,
            kind: kind?,
            parallel_group,
            round: None,
        })
    }

    fn work(&mut self, call: Call, fields: &Fields<'_>, problems: &mut Problems) -> Work {
        let what = "the name of the program to call";
        let executor = fields
            .required_text("executor", what, problems)
            .unwrap_or_default();
        let what = "the arguments, which may be an empty text";
        let text = fields
            .required_text("args_template", what, problems)
            .unwrap_or_default();
        let (args, odd) = reference::read(text, self.names);
        for odd in odd {
            self.odd(&fields.at("args_template"), odd, problems);
        }
        fields.array("input_ports", problems);
        fields.array("output_ports", problems);
        fields.flag("run_in_background", problems);
        Work {
            call,
            executor: executor.to_owned(),
            args_template: text.to_owned(),
            args,
            on_fail: on_fail(fields, problems),
            retry: retry(fields, problems),
            timeout_ms: fields
                .count("timeout_ms", 1, problems)
                .map(|ms| ms.min(MAX_WAIT_MS)),
        }
    }

    fn odd(&mut self, path: &str, odd: Odd, problems: &mut Problems) {
        match odd {
            Odd::NoSuchNode { id, meant } => {
                let hint = match meant {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "name a node of this template".to_owned(),
                };
                let what = format!(
                    "it refers to the node {}, which does not exist; {hint}",
                    quoted(&id)
                );
                problems.add(path, ProblemCode::UnknownReference, what);
            }
            Odd::NoSuchField { written, meant } => {
                let hint = match meant {
                    Some(meant) => format!("did you mean {{{meant}}}?"),
                    None => {
                        let fields = reference::FIELDS.map(|field| format!(".{field}"));
                        format!("a node has {}", fields.join(", "))
                    }
                };
                let what = format!("{{{written}}} is not a reference and is not replaced; {hint}");
                self.warnings
                    .push(Problem::new(path, ProblemCode::UnknownReference, what));
            }
            Odd::NoSuchVariable { name, meant } => {
                let hint = match meant {
                    Some(meant) => format!("did you mean {{{meant}}}?"),
                    None => "declare it in `context_schema` if it is a variable".to_owned(),
                };
                let what = format!("{{{name}}} is not a variable and is not replaced; {hint}");
                self.warnings
                    .push(Problem::new(path, ProblemCode::UnknownReference, what));
            }
        }
    }
}

fn call(word: &str, fields: &Fields<'_>, problems: &mut Problems) -> Option<Call> {
    Some(match word {
        "skill" => Call::Skill,
        "command" => Call::Command,
        "agent" => Call::Agent,
        "cli" => Call::Cli {
            tool: fields
                .required_text("cli_tool", "the tool to call, as gemini", problems)
                .unwrap_or_default()
                .to_owned(),
            mode: fields
                .text("cli_mode", problems)
                .unwrap_or("analysis")
                .to_owned(),
            rule: fields.text("cli_rule", problems).map(str::to_owned),
        },
        other => {
            let hint = match closest(other, TYPES) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it is one of {}", TYPES.join(", ")),
            };
            let what = format!("{} is not a node type; {hint}", quoted(other));
            problems.add(fields.at("type"), ProblemCode::UnknownType, what);
            return None;
        }
    })
}

fn on_fail(fields: &Fields<'_>, problems: &mut Problems) -> OnFail {
    match fields.text("on_fail", problems) {
        None | Some("abort") => OnFail::Abort,
        Some("skip") => OnFail::Skip,
        Some("retry") => OnFail::Retry,
        Some(other) => {
            let hint = match closest(other, ["abort", "skip", "retry"]) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "it is one of abort, skip, retry".to_owned(),
            };
            let what = format!("{} is not allowed here; {hint}", quoted(other));
            problems.add(fields.at("on_fail"), ProblemCode::InvalidValue, what);
            OnFail::Abort
        }
    }
}

fn retry(fields: &Fields<'_>, problems: &mut Problems) -> Option<Retry> {
    const BASE_MS: u64 = 500;
    const MAX_MS: u64 = 4_000;
    let value = fields.get("retry")?;
    let retry = Fields::open(fields.at("retry"), value, problems)?;
    let attempts = retry.count("max_attempts", 1, problems).unwrap_or(1);
    let base_ms = retry
        .count("base_backoff_ms", 0, problems)
        .unwrap_or(BASE_MS);
    let max_ms = retry.count("max_backoff_ms", 0, problems);
    let base_ms = base_ms.min(MAX_WAIT_MS);
    Some(Retry {
        retries: u32::try_from(attempts - 1)
            .unwrap_or(u32::MAX)
            .min(MAX_RETRIES),
        base_ms,
        max_ms: max_ms.unwrap_or(MAX_MS.max(base_ms)).min(MAX_WAIT_MS),
    })
}
