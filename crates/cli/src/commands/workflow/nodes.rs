//! `runwright workflow nodes`.

use kernel::definition::{ConfigKey, ControlKind, Takes};
use kernel::limits::MAX_WAIT_MS;
use kernel::problem::{closest, quoted};
use serde_json::{Map, Value, json};

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright workflow nodes
  runwright workflow nodes runwright.process")]
pub(crate) struct Args {
    /// Describe these node types with everything their config takes
    #[arg(value_name = "TYPE")]
    types: Vec<String>,
}

/// The displayed form of a node type.
struct NodeType {
    id: &'static str,
    kind: &'static str,
    summary: &'static str,
    schema: Value,
}

/// Lists or describes node types.
pub(crate) fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let all = all(session);
    let chosen: Vec<&NodeType> = if args.types.is_empty() {
        all.iter().collect()
    } else {
        args.types
            .iter()
            .map(|id| find(&all, id))
            .collect::<Result<_, _>>()?
    };
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            for node in chosen {
                data.json_line(&json!({
                    "typeId": node.id,
                    "kind": node.kind,
                    "summary": node.summary,
                    "configSchema": node.schema,
                }))?;
            }
        }
        Form::Text if args.types.is_empty() => {
            let mut table = Table::new(["TYPE", "KIND", "DESCRIPTION"]);
            for node in chosen {
                table.row([
                    style::strong(node.id),
                    node.kind.into(),
                    node.summary.into(),
                ]);
            }
            table.lines().try_for_each(|line| data.line(line))?;
        }
        Form::Text => {
            for node in chosen {
                describe(&mut data, node)?;
            }
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

fn all(session: &Session) -> Vec<NodeType> {
    let work = session.nodes.nodes().map(|node| NodeType {
        id: node.type_id(),
        kind: "work",
        summary: node.summary(),
        schema: node.config_schema(),
    });
    let control = ControlKind::ALL.map(|kind| NodeType {
        id: kind.type_id(),
        kind: "control",
        summary: kind.summary(),
        schema: control_schema(kind),
    });
    let mut all: Vec<_> = work.chain(control).collect();
    all.sort_by_key(|node| node.id);
    all
}

/// The config of a control node as JSON Schema. It is open: OpenWOP allows further members.
fn control_schema(kind: ControlKind) -> Value {
    let keys = kind.config_keys();
    let property = |key: &ConfigKey| {
        let mut property = match key.takes {
            Takes::Anything => json!({}),
            Takes::Types([one]) => json!({ "type": one }),
            Takes::Types(several) => json!({ "type": several }),
            Takes::Words(words) => json!({ "enum": words }),
            Takes::Whole(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Takes::Millis => json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS }),
            Takes::Seconds => {
                json!({ "type": "integer", "minimum": 1, "maximum": MAX_WAIT_MS / 1_000 })
            }
        };
        let also = match key.aliases {
            [] => String::new(),
            aliases => format!(" Also read as {}.", aliases.join(", ")),
        };
        property["description"] = json!(format!("{}{also}", key.what));
        (key.name.to_owned(), property)
    };
    json!({
        "type": "object",
        "properties": keys.iter().map(property).collect::<Map<_, _>>(),
    })
}

fn find<'a>(all: &'a [NodeType], id: &str) -> Result<&'a NodeType, Failure> {
    all.iter().find(|node| node.id == id).ok_or_else(|| {
        let failure = Failure::new(format!("unknown node type {}", quoted(id)));
        match closest(id, all.iter().map(|node| node.id)) {
            Some(meant) => failure.hint(format!("did you mean {meant}?")),
            None => failure.hint("`runwright workflow nodes` lists them"),
        }
    })
}

/// The keys of a config with their types; the full schema is for `--json`.
fn describe(data: &mut Data, node: &NodeType) -> Result<(), Failure> {
    data.line(format!(
        "{}  {}",
        style::strong(node.id),
        style::dim(node.kind)
    ))?;
    data.line(format!("  {}", node.summary))?;
    let schema = &node.schema;
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut table = Table::new(["  CONFIG KEY", "TAKES", "WHAT FOR"]);
    let keys = schema["properties"].as_object();
    for (key, property) in keys.into_iter().flatten() {
        let must = if required.iter().any(|name| name == key) {
            " *"
        } else {
            ""
        };
        let default = match &property["default"] {
            Value::Null => String::new(),
            default => format!(" [{default}]"),
        };
        let what = property["description"].as_str().unwrap_or_default();
        table.row([
            format!("  {}{must}", style::strong(key)),
            takes(property),
            format!("{}{}", text::one_line(what, 400), style::dim(default)),
        ]);
    }
    if keys.is_some_and(|keys| !keys.is_empty()) {
        table.lines().try_for_each(|line| data.line(line))?;
    }
    Ok(())
}

fn takes(property: &Value) -> String {
    let words = |values: &[Value]| {
        let words = values.iter().map(|value| match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        });
        words.collect::<Vec<_>>().join(" | ")
    };
    match (&property["type"], &property["enum"], &property["anyOf"]) {
        (Value::String(one), ..) => one.clone(),
        (Value::Array(several), ..) => words(several),
        (_, Value::Array(values), _) => words(values),
        (_, _, Value::Array(forms)) => forms.iter().map(takes).collect::<Vec<_>>().join(" | "),
        _ => "any".into(),
    }
}
