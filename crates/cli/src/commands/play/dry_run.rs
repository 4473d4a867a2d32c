//! What a session would do, without doing any of it.

use faces::player::template::{Kind, Template};
use serde_json::json;

use super::checks::{self, Checked, called};
use super::context::{self, Context};
use super::{Args, templates, words};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Checks and shows the plan.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let (template, given) = context::typed(args)?;
    let Some(template) = template else {
        return Err(Failure::new("name the template whose plan is to be shown"));
    };
    let found = templates::find(&template, &session.place.project)?;
    let checked = Checked::of(&found, &context::names(&given))?;
    checked.warn(args.strict)?;
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            let ids = |nodes: &[usize]| -> Vec<&str> {
                nodes
                    .iter()
                    .map(|at| checked.template.nodes[*at].id.as_str())
                    .collect()
            };
            let batches = checked.plan.batches.iter().enumerate().map(|(n, batch)| {
                json!({
                    "batch": n + 1, "nodes": ids(&batch.nodes), "parallel": batch.is_parallel(),
                })
            });
            let batches: Vec<_> = batches.collect();
            data.json_line(&json!({
                "template_id": checked.template.id, "execution_plan": batches,
            }))?;
        }
        Form::Text => {
            let mut number = 0;
            for batch in &checked.plan.batches {
                for at in &batch.nodes {
                    number += 1;
                    let mark = if batch.is_parallel() { " ║" } else { "" };
                    data.line(format!(
                        "{}{mark}",
                        words::planned(number, &checked.template, *at)
                    ))?;
                }
            }
        }
    }
    data.done()?;
    say_what_is_missing(&checked, session, &given)?;
    Ok(Exit::Done)
}

/// Says what would keep a session from beginning, and how large the plan is.
fn say_what_is_missing(
    checked: &Checked,
    session: &Session,
    given: &Context,
) -> Result<(), Failure> {
    let (work, checkpoints) = checked.template.counts();
    talk::say(format!(
        "{}: {} in {}, {}",
        text::one_line(&checked.template.name, 80),
        text::count(work, "node"),
        text::count(checked.plan.batches.len(), "batch").replace("batchs", "batches"),
        text::count(checkpoints, "checkpoint")
    ));
    if let Err(missing) = checked.template.bind(given) {
        talk::say(format!(
            "{} {}",
            style::warn("needs --context"),
            missing.join(", ")
        ));
    }
    let without = without_executor(&checked.template, session)?;
    if without > 0 {
        talk::say(format!(
            "{} {} no executor in {}",
            style::warn("warning:"),
            text::count(without, "node") + if without == 1 { " has" } else { " have" },
            runtime::executors::FILE
        ));
    }
    Ok(())
}

fn without_executor(template: &Template, session: &Session) -> Result<usize, Failure> {
    let executors = checks::executors(session)?;
    let lacks = |kind: &Kind| match kind {
        Kind::Work(work) => {
            let (kind, name) = called(work);
            executors.of(kind, name).is_none()
        }
        Kind::Checkpoint { .. } => false,
    };
    Ok(template
        .nodes
        .iter()
        .filter(|node| lacks(&node.kind))
        .count())
}
