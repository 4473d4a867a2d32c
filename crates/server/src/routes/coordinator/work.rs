//! Requests of workers.

use std::time::Duration;

use faces::coordinator::SnapshotJson;
use hyper::Method;
use kernel::coordinator::{TaskError, assignment_number};
use kernel::ids::Seq;
use kernel::limits::{
    MAX_CHUNK_BYTES, MAX_COUNT, MAX_ERROR_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_TAKE_KEY_BYTES,
    MAX_TAKEN_AT_ONCE, MAX_TASK_RESULT_BYTES,
};
use kernel::run::event::OutputChannel;
use runtime::access::Action;
use runtime::api::{Assignment, Heartbeat, Taking, TaskOutput};
use runtime::authority::BlockedOn;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{MAX_WAIT_MS, batch, number, queue, refused, text};
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// Bytes of the reason why a worker waits.
const MAX_REASON: usize = 1_024;

pub(super) fn routes() -> Vec<Route> {
    let works = Access::May(Action::WorkTasks);
    let doc = |operation, summary, request, responses| Doc {
        operation,
        summary,
        parameters: &[],
        request: Some(request),
        responses,
    };
    vec![
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/take",
            works,
            take,
            doc(
                "takeTasks",
                "Takes tasks of a queue; waits for one",
                "TaskTake",
                &[(200, "TaskAssignments")],
            ),
        )
        .keyed()
        .held(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/release",
            works,
            release_take,
            doc(
                "releaseTake",
                "Returns the tasks of a take whose answer was not read",
                "TakeRelease",
                &[(200, "TakeReleased")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/begin",
            works,
            batch::begin,
            doc(
                "beginTasks",
                "Reports that a worker starts offered tasks",
                "TaskBeginnings",
                &[(200, "TaskAnswers")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/settle",
            works,
            batch::settle,
            doc(
                "settleTasks",
                "Reports the results of several tasks",
                "TaskSettlements",
                &[(200, "TaskAnswers")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/begin",
            works,
            begin,
            doc(
                "beginTask",
                "Reports that a worker starts an offered task",
                "TaskRelease",
                &[(200, "TaskBegun")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/heartbeat",
            works,
            heartbeat,
            doc(
                "heartbeatTask",
                "Reports that a worker is alive",
                "TaskHeartbeat",
                &[(200, "TaskExpiry")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/output",
            works,
            output,
            doc(
                "outputOfTask",
                "Writes output of a task to the log of its run",
                "TaskOutput",
                &[(200, "TaskOutputKept")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/result",
            works,
            result,
            doc(
                "completeTask",
                "Reports the result of a task",
                "TaskResult",
                &[(200, "TaskReported")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/failure",
            works,
            failure,
            doc(
                "failTask",
                "Reports why a task failed",
                "TaskFailure",
                &[(200, "TaskReported")],
            ),
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/assignments/{assignmentId}/release",
            works,
            release,
            doc(
                "releaseTask",
                "Returns a task untouched",
                "TaskRelease",
                &[(200, "TaskReported")],
            ),
        )
        .keyed(),
    ]
}

async fn take(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, queue) = (cx.who()?, queue(&cx));
    // Ownership is checked before the request.
    let mut watch = cx.app.api().watch_queue(&who, Action::WorkTasks, &queue)?;
    let body = cx.object().await?;
    let max = number(&body, "max", 1..=MAX_TAKEN_AT_ONCE as u64, Some(1))?;
    let taking = Taking {
        worker: text(&body, "worker", MAX_NAME_BYTES)?.into(),
        max: usize::try_from(max).unwrap_or(usize::MAX),
        key: match body.get("key") {
            None | Some(Value::Null) => None,
            Some(_) => Some(key(&body)?),
        },
    };
    let wait = number(&body, "wait_ms", 0..=MAX_WAIT_MS, Some(0))?;
    let until = Instant::now() + Duration::from_millis(wait);
    let mut pass = CredentialRecheck::new(&cx, Action::WorkTasks)?;
    let api = cx.app.api();
    let taken = loop {
        pass.check().await?;
        let taken = api.take_tasks(&who, &queue, &taking).await?;
        let is_over = Instant::now() >= until || cx.app.draining().is_cancelled();
        if !taken.is_empty() || is_over {
            break taken;
        }
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep_until(until.min(pass.due)) => {}
            () = cx.app.draining().cancelled() => {}
        }
    };
    let standing = api.queue_standing(&who, Action::WorkTasks, &queue).await?;
    let readiness = SnapshotJson::from(&standing).readiness;
    let assignments: Vec<Value> = {
        let one = |one: &Assignment| {
            faces::coordinator::assignment(&queue, &one.handed, &one.task, one.terms.as_ref())
        };
        taken.iter().map(one).collect()
    };
    Ok(Reply::ok(&json!({
        "assignments": assignments,
        "ready": readiness.ready,
        "reasons": readiness.reasons,
    })))
}

/// The key of a take.
fn key(body: &Map<String, Value>) -> Result<String, Problem> {
    let key = text(body, "key", MAX_TAKE_KEY_BYTES)?;
    if key.is_empty() {
        Err(Problem::invalid("key must not be empty"))
    } else {
        Ok(key.to_owned())
    }
}

async fn release_take(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, queue) = (cx.who()?, queue(&cx));
    cx.app.api().watch_queue(&who, Action::WorkTasks, &queue)?;
    let body = cx.object().await?;
    let worker = text(&body, "worker", MAX_NAME_BYTES)?.into();
    let key = key(&body)?;
    let api = cx.app.api();
    let released = api.release_take(&who, &queue, &worker, &key).await?;
    Ok(Reply::ok(&json!({ "released": released })))
}

/// The assignment in the path, and the body.
async fn said(cx: &mut Cx) -> Result<(String, (Seq, u32), Map<String, Value>), Problem> {
    let (who, queue) = (cx.who()?, queue(cx));
    cx.app.api().watch_queue(&who, Action::WorkTasks, &queue)?;
    let named = assignment_number(cx.param("assignmentId"));
    let assignment =
        named.ok_or_else(|| refused(&kernel::coordinator::Rejection::NoAssignment(None)))?;
    let body = cx.object().await?;
    let fence = number(&body, "fence", 1..=u64::from(u32::MAX), None)?;
    let fence = u32::try_from(fence).unwrap_or(u32::MAX);
    Ok((queue, (assignment, fence), body))
}

async fn heartbeat(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, body) = said(&mut cx).await?;
    let on = match body.get("blocked_on") {
        None | Some(Value::Null) => None,
        Some(word) => match word.as_str() {
            Some("user") => Some(BlockedOn::User),
            Some("system") => Some(BlockedOn::System),
            _ => return Err(Problem::invalid("blocked_on must be user, system or null")),
        },
    };
    let reason = match body.get("reason") {
        None | Some(Value::Null) if on.is_none() => "",
        _ => text(&body, "reason", MAX_REASON)?,
    };
    let blocked = on.map(|on| (on, reason.to_owned()));
    let (api, who) = (cx.app.api(), cx.who()?);
    let timeout = api
        .heartbeat(&who, &queue, assignment, Heartbeat { blocked })
        .await?;
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    Ok(Reply::ok(&json!({ "expires_in_ms": ms })))
}

async fn output(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, body) = said(&mut cx).await?;
    let channel = match body.get("stream").and_then(Value::as_str) {
        Some("stdout") => OutputChannel::Stdout,
        Some("stderr") => OutputChannel::Stderr,
        _ => return Err(Problem::invalid("stream must be stdout or stderr")),
    };
    let chunk = body.get("chunk").and_then(Value::as_str);
    if chunk.is_some_and(|chunk| chunk.len() > MAX_CHUNK_BYTES) {
        return Err(Problem::too_large(MAX_CHUNK_BYTES));
    }
    let output = TaskOutput {
        channel,
        seq: match body.get("seq") {
            None | Some(Value::Null) => None,
            Some(_) => Some(number(&body, "seq", 0..=MAX_COUNT, None)?),
        },
        chunk: text(&body, "chunk", MAX_CHUNK_BYTES)?.to_owned(),
    };
    let (api, who) = (cx.app.api(), cx.who()?);
    let kept = api.task_output(&who, &queue, assignment, output).await?;
    Ok(Reply::ok(&json!({ "kept": kept })))
}

async fn begin(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, _) = said(&mut cx).await?;
    let (api, who) = (cx.app.api(), cx.who()?);
    api.begin_task(&who, &queue, assignment).await?;
    Ok(Reply::ok(&json!({ "begun": true })))
}

async fn result(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, mut body) = said(&mut cx).await?;
    let outcome = outputs(&mut body)?;
    report(cx, &queue, assignment, Ok(outcome)).await
}

async fn failure(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, mut body) = said(&mut cx).await?;
    let failed = error(&mut body)?;
    report(cx, &queue, assignment, Err(failed)).await
}

/// The outputs that a body has.
pub(super) fn outputs(body: &mut Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let Some(Value::Object(outputs)) = body.remove("outputs") else {
        return Err(Problem::invalid("outputs must be an object"));
    };
    let text = serde_json::to_string(&outputs).map_err(|_| Problem::internal())?;
    if text.len() > MAX_TASK_RESULT_BYTES {
        Err(Problem::too_large(MAX_TASK_RESULT_BYTES))
    } else {
        Ok(outputs)
    }
}

/// The failure that a body has.
pub(super) fn error(body: &mut Map<String, Value>) -> Result<TaskError, Problem> {
    let Some(Value::Object(error)) = body.remove("error") else {
        return Err(Problem::invalid("error must be an object"));
    };
    let code = text(&error, "code", 64)?;
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if code.is_empty() || !code.bytes().all(is_plain) {
        return Err(Problem::invalid(
            "error.code must be 1 to 64 of a-z, 0-9 and _",
        ));
    }
    let retryable = match error.get("retryable") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(may)) => Some(*may),
        Some(_) => return Err(Problem::invalid("error.retryable must be true or false")),
    };
    Ok(TaskError {
        code: code.to_owned(),
        message: text(&error, "message", MAX_ERROR_MESSAGE_BYTES)?.to_owned(),
        retryable,
    })
}

async fn report(
    cx: Cx,
    queue: &str,
    assignment: (Seq, u32),
    outcome: Result<Map<String, Value>, TaskError>,
) -> Result<Reply, Problem> {
    let status = match outcome {
        Ok(_) => "delivered",
        Err(_) => "failed",
    };
    let (api, who) = (cx.app.api(), cx.who()?);
    let reported = api.report_task(&who, queue, assignment, outcome).await?;
    Ok(Reply::ok(&json!({
        "request_id": reported.request,
        "status": status,
        "repeated": reported.is_repeated,
    })))
}

async fn release(mut cx: Cx) -> Result<Reply, Problem> {
    let (queue, assignment, _) = said(&mut cx).await?;
    let (api, who) = (cx.app.api(), cx.who()?);
    let reported = api.release_task(&who, &queue, assignment).await?;
    Ok(Reply::ok(&json!({
        "request_id": reported.request,
        "status": "notified",
        "repeated": reported.is_repeated,
    })))
}
