//! Questions and their answers.

use faces::openwop::v2;
use hyper::Method;
use runtime::access::Action;
use serde_json::{Value, json};

use super::{bound, changes, closed, doc};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Route};
use crate::routes::interrupts as v1;
use crate::token;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        changes(
            "/runs/{runId}/interrupts/{nodeId}",
            Action::AnswerRun,
            resolve,
            doc(
                "resolveInterrupt",
                "Answers the question of a node",
                Some("Answer"),
                &[(200, "Answered")],
            ),
        ),
        Route::new(
            Method::GET,
            "/interrupts/{token}",
            Access::Anyone,
            inspect_by_token,
            doc(
                "inspectInterruptByToken",
                "Shows the question that a token belongs to",
                None,
                &[(200, "Interrupt")],
            ),
        ),
        Route::new(
            Method::POST,
            "/interrupts/{token}",
            Access::Anyone,
            resolve_by_token,
            doc(
                "resolveInterruptByToken",
                "Answers the question that a token belongs to",
                Some("Answer"),
                &[(200, "Answered")],
            ),
        )
        .keyed(),
    ]
}

async fn resolve(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let reply = v1::resolve(cx).await?;
    Ok(reply.map(|doc| bound(&who, doc, &["runId"])))
}

async fn inspect_by_token(cx: Cx) -> Result<Reply, Problem> {
    let reply = v1::inspect_by_token(cx).await.map_err(token::refusal)?;
    let fields = ["kind", "key", "data", "resumeSchema", "timeoutMs"];
    Ok(reply.map(|doc| closed(doc, &fields)))
}

async fn resolve_by_token(cx: Cx) -> Result<Reply, Problem> {
    let api = cx.app.api().clone();
    // Before the answer is stored: afterwards the token may have expired.
    let bearer = api.bearer(cx.param("token")).await;
    let bearer = bearer.map_err(token::refusal)?;
    let reply = v1::resolve_by_token(cx).await.map_err(token::refusal)?;
    Ok(reply.map(|mut doc| {
        if let Value::String(run) = &doc["runId"] {
            doc["runId"] = json!(v2::bind(&bearer.who.tenant, run));
        }
        doc
    }))
}
