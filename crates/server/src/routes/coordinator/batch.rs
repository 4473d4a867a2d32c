//! A worker's reports on several tasks at once. Each has its own result, so that one that is over
//! does not affect the others.

use std::collections::HashSet;

use futures_util::future::join_all;
use kernel::coordinator::{TaskError, assignment_number};
use kernel::ids::Seq;
use kernel::limits::MAX_TAKEN_AT_ONCE;
use runtime::access::{Action, Principal};
use runtime::api::{Api, ApiError};
use serde_json::{Map, Value, json};

use super::work::{error, outputs};
use super::{number, queue};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::Cx;

/// One of several assignments: its name, the assignment, and its report.
struct Named {
    name: String,
    assignment: (Seq, u32),
    said: Map<String, Value>,
}

/// How a task ends.
enum End {
    Outputs(Map<String, Value>),
    Error(TaskError),
    Release,
}

pub(super) async fn begin(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, each) = named(&mut cx).await?;
    let (api, who) = (cx.app.api(), cx.who()?);
    let answers = each.into_iter().map(|one| {
        let (api, who, queue) = (&api, &who, &queue);
        async move {
            let begun = api.begin_task(who, queue, one.assignment).await;
            let begun = begun.map_err(Problem::from);
            answered(&one.name, begun.map(|()| json!({ "begun": true })))
        }
    });
    Ok(answer(join_all(answers).await))
}

pub(super) async fn settle(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, each) = named(&mut cx).await?;
    let (api, who) = (cx.app.api(), cx.who()?);
    let answers = each.into_iter().map(|mut one| {
        let (api, who, queue) = (&api, &who, &queue);
        async move {
            let told = match end(&mut one.said) {
                Ok(end) => tell(api, who, queue, one.assignment, end).await,
                Err(problem) => Err(problem),
            };
            answered(&one.name, told)
        }
    });
    Ok(answer(join_all(answers).await))
}

async fn tell(
    api: &Api,
    who: &Principal,
    queue: &str,
    assignment: (Seq, u32),
    end: End,
) -> Result<Value, Problem> {
    let (status, reported) = match end {
        End::Outputs(outputs) => {
            let told = api.report_task(who, queue, assignment, Ok(outputs));
            ("delivered", told.await)
        }
        End::Error(error) => {
            let told = api.report_task(who, queue, assignment, Err(error));
            ("failed", told.await)
        }
        End::Release => ("notified", api.release_task(who, queue, assignment).await),
    };
    let reported = reported.map_err(|error: ApiError| Problem::from(error))?;
    Ok(json!({
        "request_id": reported.request,
        "status": status,
        "repeated": reported.is_repeated,
    }))
}

/// The result of a task: exactly one of `outputs`, `error` and `release`.
fn end(said: &mut Map<String, Value>) -> Result<End, Problem> {
    let is_there = |name: &&str| said.contains_key(*name);
    let names: Vec<&str> = ["outputs", "error", "release"]
        .into_iter()
        .filter(is_there)
        .collect();
    match names.as_slice() {
        ["outputs"] => outputs(said).map(End::Outputs),
        ["error"] => error(said).map(End::Error),
        ["release"] if said["release"] == true => Ok(End::Release),
        ["release"] => Err(Problem::invalid("release must be true")),
        _ => Err(Problem::invalid(
            "each assignment needs exactly one of outputs, error and release",
        )),
    }
}

/// The assignments of a body, each named once.
async fn named(cx: &mut Cx) -> Result<(String, Vec<Named>), Problem> {
    let (who, queue) = (cx.who()?, queue(cx));
    cx.app.api().watch_queue(&who, Action::WorkTasks, &queue)?;
    let mut body = cx.object_of_several().await?;
    let most = MAX_TAKEN_AT_ONCE;
    let wrong = || Problem::invalid(format!("assignments must be a list of 1 to {most} objects"));
    let Some(Value::Array(each)) = body.remove("assignments") else {
        return Err(wrong());
    };
    if !(1..=most).contains(&each.len()) {
        return Err(wrong());
    }
    let mut names = HashSet::new();
    let each = each.into_iter().map(|one| {
        let Value::Object(said) = one else {
            return Err(wrong());
        };
        let name = said.get("assignment_id").and_then(Value::as_str);
        let name = name.ok_or_else(|| Problem::invalid("assignment_id must be a text"))?;
        let name = name.to_owned();
        if !names.insert(name.clone()) {
            let text = format!(
                "the assignment {} occurs twice",
                kernel::problem::quoted(&name)
            );
            return Err(Problem::invalid(text));
        }
        let fence = number(&said, "fence", 1..=u64::from(u32::MAX), None)?;
        let fence = u32::try_from(fence).unwrap_or(u32::MAX);
        let number = assignment_number(&name);
        Ok(Named {
            // An impossible sequence: matches no assignment.
            assignment: (number.unwrap_or(Seq::MAX), fence),
            name,
            said,
        })
    });
    let each: Result<Vec<Named>, Problem> = each.collect();
    Ok((queue, each?))
}

fn answered(name: &str, told: Result<Value, Problem>) -> Value {
    let mut answer = told.unwrap_or_else(|problem| problem.envelope());
    answer["assignment_id"] = json!(name);
    answer
}

fn answer(answers: Vec<Value>) -> Reply {
    Reply::ok(&json!({ "assignments": answers }))
}
