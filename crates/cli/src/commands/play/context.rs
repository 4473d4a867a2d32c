//! The context of a session.

use std::collections::{BTreeMap, BTreeSet};

use faces::player::template::Template;
use kernel::problem::quoted;
use serde_json::Value;

use super::{Args, ask};
use crate::document::Source;
use crate::exit::Failure;
use crate::{style, text};

/// Context variables by name.
pub(super) type Context = BTreeMap<String, String>;

/// The typed template, which may be among the words after `--context`, and the variables.
pub(super) fn typed(args: &Args) -> Result<(Option<String>, Context), Failure> {
    let mut context = Context::new();
    if let Some(file) = &args.context_file {
        let source = Source::from(file.as_str());
        for (name, value) in source.object()? {
            let value = match value {
                Value::String(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            };
            context.insert(name, value);
        }
    }
    let mut template = args.template.clone();
    let mut typed = BTreeSet::new();
    for word in &args.context {
        match word.split_once('=') {
            Some((name, _)) if !typed.insert(name) => {
                let what = format!("--context gives {} twice", quoted(name));
                return Err(Failure::new(what).hint("give it once"));
            }
            Some((name, value)) if !name.is_empty() => {
                context.insert(name.to_owned(), value.to_owned());
            }
            _ if template.is_none() => template = Some(word.clone()),
            _ => {
                let what = format!("--context {} is not NAME=VALUE", quoted(word));
                return Err(Failure::new(what).hint("write NAME=VALUE"));
            }
        }
    }
    Ok((template, context))
}

/// The names that are given.
pub(super) fn names(context: &Context) -> BTreeSet<String> {
    context.keys().cloned().collect()
}

/// The complete context of the session. Asks for missing values at a terminal.
pub(super) async fn bind(template: &Template, mut given: Context) -> Result<Context, Failure> {
    loop {
        let missing = match template.bind(&given) {
            Ok(context) => return Ok(context),
            Err(missing) => missing,
        };
        if !ask::somebody() {
            return Err(lacking(template, &missing));
        }
        for name in &missing {
            let description = template.context.get(name);
            let description = description.map_or("", |variable| &variable.description);
            let question = match description {
                "" => String::new(),
                text => format!(" ({})", text::one_line(text, 120)),
            };
            let prompt = format!("{}{question}: ", style::strong(text::one_line(name, 60)));
            match ask::line(&prompt).await.ok().flatten() {
                Some(value) if !value.is_empty() => {
                    given.insert(name.clone(), value);
                }
                Some(_) => {}
                None => return Err(lacking(template, &missing)),
            }
        }
    }
}

/// The error for missing required variables.
pub(super) fn lacking(template: &Template, missing: &[String]) -> Failure {
    let mut what = match missing {
        [one] => format!("the required variable {} has no value", quoted(one)),
        several => format!("{} required variables have no value", several.len()),
    };
    for name in missing {
        let description = template.context.get(name);
        let description = description.map_or("", |variable| variable.description.as_str());
        let name = text::one_line(name, 60);
        what.push_str(&match description {
            "" => format!("\n  {name}"),
            said => format!("\n  {name}: {}", text::one_line(said, 120)),
        });
    }
    let typed: Vec<String> = missing.iter().map(|name| format!("{name}=…")).collect();
    Failure::new(what).hint(format!("give --context {}", typed.join(" ")))
}
