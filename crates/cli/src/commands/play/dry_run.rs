//! Shows a session's plan without executing it.

use faces::player::plan::ExecutionPlan;
use faces::player::template::{Round, Template};
use runtime::executors::Executors;
use serde_json::{Value, json};

use super::calls::Called;
use super::checks::Checked;
use super::context::{self, Context};
use super::ready::Outlook;
use super::session_status::quoted;
use super::{Args, templates, words};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Checks and shows the plan. It reports all errors that playing would, at once.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let (template, given) = context::typed(args)?;
    let Some(template) = template else {
        return Err(Failure::new("name the template whose plan to show"));
    };
    let found = templates::find(&template, &session.place.project)?;
    let outlook = Outlook::new(args, session, &found, &given);
    let mut data = Data::new();
    match (session.form, &outlook.checked) {
        (Form::Json, _) => data.json_line(&told(&outlook, &given))?,
        (Form::Text, Some(checked)) => show(&mut data, checked, &outlook.executors, &given)?,
        (Form::Text, None) => {}
    }
    data.done()?;
    let checked = outlook.ready()?.0;
    // Only where a person can be asked for them.
    if let Err(missing) = checked.template.bind(&given) {
        let asks = style::warn("asks for");
        talk::say(format!("{asks} {}", missing.join(", ")));
    }
    Ok(Exit::Done)
}

/// The plan and all obstacles, for programs.
fn told(outlook: &Outlook, given: &Context) -> Value {
    let problems = outlook.problems();
    let mut told = json!({ "valid": problems.is_empty(), "problems": problems });
    let Some(Checked { template, plan, .. }) = &outlook.checked else {
        return told;
    };
    let batches = plan.batches.iter().enumerate().map(|(n, batch)| {
        let ids = batch.nodes.iter().map(|at| &*template.nodes[*at].id);
        let ids: Vec<&str> = ids.collect();
        json!({ "batch": n + 1, "nodes": ids, "parallel": batch.is_parallel() })
    });
    let commands = template.nodes.iter().filter_map(|node| {
        let called = Called::from_node(template, node, &outlook.executors, given)?;
        Some(json!({ "node": node.id, "argv": called.argv, "stdin": called.stdin }))
    });
    told["commands"] = commands.collect();
    told["template_id"] = json!(template.id);
    told["execution_plan"] = batches.collect();
    told["warnings"] = json!(template.warnings);
    told
}

/// The id of the last node of a loop.
fn last_of<'a>(template: &'a Template, plan: &ExecutionPlan, round: &Round) -> &'a str {
    let of_first_round = |at: &usize| {
        let other = template.nodes[*at].round;
        other.is_some_and(|other| other.first == round.first && other.number == 1)
    };
    let last = plan.order().filter(of_first_round).last();
    &template.nodes[last.unwrap_or(round.first)].id
}

/// The plan, for people: a line for each node, its command below it, and the size of the plan.
fn show(
    data: &mut Data,
    Checked { template, plan, .. }: &Checked,
    executors: &Executors,
    given: &Context,
) -> Result<(), Failure> {
    let mut number = 0;
    for batch in &plan.batches {
        for at in &batch.nodes {
            let round = template.nodes[*at].round;
            if round.is_some_and(|round| round.number > 1) {
                continue;
            }
            number += 1;
            let mark = if batch.is_parallel() { " ║" } else { "" };
            data.line(format!("{}{mark}", words::planned(number, template, *at)))?;
            let node = &template.nodes[*at];
            if let Some(called) = Called::from_node(template, node, executors, given) {
                let argv: Vec<String> = called.argv.iter().map(|word| quoted(word)).collect();
                data.line(style::dim(format!("      runs  {}", argv.join(" "))))?;
                if !called.stdin.is_empty() {
                    let stdin = text::one_line(&called.stdin, 200);
                    data.line(style::dim(format!("      reads {stdin}")))?;
                }
            }
            if let Some(round) = round.filter(Round::is_first) {
                let rounds = format!(
                    "      while it fails, the nodes up to {} run and then it runs again: at most \
                     {} rounds",
                    text::one_line(last_of(template, plan, &round), 40),
                    round.rounds
                );
                data.line(style::dim(rounds))?;
            }
        }
    }
    data.flush()?;
    let (work, checkpoints) = template.counts();
    let batches = match plan.batches.len() {
        1 => "1 batch".to_owned(),
        n => format!("{n} batches"),
    };
    talk::say(format!(
        "{}: {} in {batches}, {}",
        text::one_line(&template.name, 80),
        text::count(work, "node"),
        text::count(checkpoints, "checkpoint")
    ));
    Ok(())
}
