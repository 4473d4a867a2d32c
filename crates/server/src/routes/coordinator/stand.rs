//! The state of a queue, and commands to it.

use faces::coordinator::{CommandJson, EventJson, SnapshotJson};
use hyper::Method;
use kernel::coordinator::{CoordinatorCommand, HandedOut, assignment_name};
use kernel::time::Timestamp;
use runtime::access::Action;
use serde_json::{Value, json};

use super::queue;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadQueue);
    let doc = |operation, summary, schema| Doc {
        operation,
        summary,
        parameters: &[],
        request: None,
        responses: schema,
    };
    vec![
        Route::new(
            Method::GET,
            "/v1/coordinator",
            reads,
            queues,
            doc(
                "listQueues",
                "The queues that have had work, with their backlogs",
                &[(200, "QueueList")],
            ),
        ),
        Route::new(
            Method::GET,
            "/v1/coordinator/{queue}/snapshot",
            reads,
            snapshot,
            doc(
                "queueSnapshot",
                "The authority, backlog, replay and readiness of a queue",
                &[(200, "QueueSnapshot")],
            ),
        ),
        Route::new(
            Method::GET,
            "/v1/coordinator/{queue}/readiness",
            reads,
            readiness,
            doc(
                "queueReadiness",
                "Whether tasks of a queue are assigned, and why not",
                &[(200, "QueueReadiness")],
            ),
        ),
        Route::new(
            Method::GET,
            "/v1/coordinator/{queue}/workers",
            reads,
            workers,
            doc(
                "queueWorkers",
                "Workers of a queue and their assignments",
                &[(200, "QueueWorkers")],
            ),
        ),
        Route::new(
            Method::POST,
            "/v1/coordinator/{queue}/commands",
            Access::May(Action::CommandQueue),
            command,
            Doc {
                operation: "commandQueue",
                summary: "Sends a command to the coordinator of a queue; answers its event",
                parameters: &[],
                request: Some("QueueCommand"),
                responses: &[(200, "QueueEvent")],
            },
        )
        .keyed(),
    ]
}

async fn queues(cx: Cx) -> Result<Reply, Problem> {
    let found = cx.app.api().queues(&*cx.who()?).await?;
    let queues: Vec<Value> = (found.iter().map(|row| &row.index))
        .map(|index| {
            let count = |name: &str| index.summary[name].as_u64().unwrap_or_default();
            json!({
                "queue": index.queue, "pending": count("pending"), "notified": count("notified"),
                "changed_at": index.updated_at.to_string(),
            })
        })
        .collect();
    Ok(Reply::ok(&json!({ "queues": queues })))
}

async fn standing(cx: Cx) -> Result<SnapshotJson, Problem> {
    let (api, who, queue) = (cx.app.api(), cx.who()?, queue(&cx));
    let standing = api.queue_standing(&who, Action::ReadQueue, &queue).await?;
    Ok(SnapshotJson::from(&standing))
}

async fn snapshot(cx: Cx) -> Result<Reply, Problem> {
    Ok(Reply::ok(&standing(cx).await?))
}

async fn readiness(cx: Cx) -> Result<Reply, Problem> {
    Ok(Reply::ok(&standing(cx).await?.readiness))
}

async fn workers(cx: Cx) -> Result<Reply, Problem> {
    let found = cx.app.api().queue_workers(&*cx.who()?, &queue(&cx)).await?;
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let workers = found.workers.iter().map(|worker| {
        json!({
            "worker": worker.worker,
            "last_seen": time(worker.last_seen),
            "stalled": worker.is_stalled,
            "assignments": worker.assignments,
        })
    });
    let of = |(out, heartbeat): &(HandedOut, Option<Timestamp>)| {
        json!({
            "assignment_id": assignment_name(out.assignment),
            "request_id": out.request,
            "worker": out.worker,
            "fence": out.fence,
            "assigned_at": out.at.to_string(),
            "last_heartbeat": time(*heartbeat),
        })
    };
    let (workers, assignments): (Vec<Value>, Vec<Value>) = (
        workers.collect(),
        found.assignments.iter().map(of).collect(),
    );
    Ok(Reply::ok(
        &json!({ "workers": workers, "assignments": assignments }),
    ))
}

async fn command(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, queue) = (cx.who()?, queue(&cx));
    // Ownership is checked before the request.
    cx.app
        .api()
        .queue_standing(&who, Action::CommandQueue, &queue)
        .await?;
    let limit = cx.app.limits().body_bytes;
    let bytes = cx.bytes(limit).await?;
    let body = crate::body::object(&bytes)?;
    let wrong = || {
        Problem::invalid(
            "the body must be a command of the runtime contract with all its fields; \
             docs/reference/runtime.md lists them",
        )
    };
    let command: CommandJson = serde_json::from_value(Value::Object(body)).map_err(|_| wrong())?;
    let command = CoordinatorCommand::from(command);
    let event = cx.app.api().command_queue(&who, &queue, &command).await?;
    Ok(Reply::ok(&EventJson::from(&event)))
}
