//! Questions of runs: looking at them and answering them, by name or by token.

use std::time::Duration;

use faces::openwop::v1;
use hyper::{Method, StatusCode};
use kernel::limits::MAX_NAME_BYTES;
use kernel::run::Run;
use runtime::access::{Action, Principal};
use runtime::api::{Api, Intent, Question, ShownToken, TokenOrder};
use serde_json::{Map, Value, json};

use super::runs::named;
use super::workbench::view;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/interrupts",
            Access::May(Action::ReadRun),
            list,
            Doc {
                operation: "listInterrupts",
                summary: "What a run waits for, oldest first (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "InterruptList")],
            },
        ),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Access::May(Action::AnswerRun),
            resolve,
            Doc {
                operation: "resolveInterrupt",
                summary: "Answers what a node of a run asks",
                parameters: &[],
                request: Some("Answer"),
                responses: &[(200, "Answered")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}/interrupts/{nodeId}/tokens",
            Access::May(Action::AnswerRun),
            issue,
            Doc {
                operation: "issueInterruptToken",
                summary: "Makes a token that answers, or only shows, a question (extension)",
                parameters: &[],
                request: Some("TokenOrder"),
                responses: &[(201, "InterruptToken")],
            },
        )
        .keyed(),
        Route::new(
            Method::GET,
            "/v1/interrupts/{token}",
            Access::Anyone,
            inspect_by_token,
            Doc {
                operation: "inspectInterruptByToken",
                summary: "Shows the question a token stands for",
                parameters: &[],
                request: None,
                responses: &[(200, "Interrupt")],
            },
        ),
        Route::new(
            Method::POST,
            "/v1/interrupts/{token}",
            Access::Anyone,
            resolve_by_token,
            Doc {
                operation: "resolveInterruptByToken",
                summary: "Answers the question a token stands for",
                parameters: &[],
                request: Some("Answer"),
                responses: &[(200, "Answered")],
            },
        ),
    ]
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        return view::interrupts(cx, run).await;
    }
    let run = cx.app.api().run(&who, &run).await?;
    let mut open = v1::open_interrupts(&run);
    for token in tokens(cx.app.api(), &who, &run) {
        let of_it = open
            .iter_mut()
            .find(|open| open["interruptId"] == token.interrupt.as_str());
        if let Some(open) = of_it {
            with_token(open, &token);
        }
    }
    let status = run.status();
    let doc = json!({ "runId": run.header.stream, "status": status, "interrupts": open });
    Ok(Reply::ok(&doc))
}

async fn resolve(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        return view::answer(cx, run).await;
    }
    let question = cx
        .app
        .api()
        .question(&who, &run, cx.param("nodeId"))
        .await?;
    answer(&mut cx, question).await
}

async fn inspect_by_token(cx: Cx) -> Result<Reply, Problem> {
    let question = cx.app.api().look(cx.param("token")).await?;
    Ok(Reply::ok(&v1::question(question.open())))
}

async fn resolve_by_token(mut cx: Cx) -> Result<Reply, Problem> {
    let question = cx.app.api().question_of(cx.param("token")).await?;
    answer(&mut cx, question).await
}

/// Reads an answer, once it is known that somebody waits for it, and gives it.
async fn answer(cx: &mut Cx, question: Question) -> Result<Reply, Problem> {
    let mut body = cx.object().await?;
    let value = body.remove("resumeValue");
    let Some(value) = value.filter(|_| body.is_empty()) else {
        return Err(Problem::invalid(
            "the body has `resumeValue`, what is answered, and nothing else",
        ));
    };
    let (run, node) = (
        question.run().header.stream.clone(),
        question.node().to_owned(),
    );
    let status = cx.app.api().answer(question, value).await?;
    let doc = json!({ "runId": run, "nodeId": node, "status": status });
    Ok(Reply::ok(&doc))
}

async fn issue(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let question = cx
        .app
        .api()
        .question(&who, &run, cx.param("nodeId"))
        .await?;
    let order = token_order(cx.object_or_nothing().await?)?;
    let intent = order.intent;
    let shown = cx.app.api().issue_token(&question, order)?;
    let mut doc = json!({ "intent": intent });
    with_token(&mut doc, &shown);
    doc["expiresAt"] = json!(shown.expires_at.to_string());
    Ok(Reply::json(StatusCode::CREATED, &doc))
}

fn token_order(mut body: Map<String, Value>) -> Result<TokenOrder, Problem> {
    let intent = match body.remove("intent").as_ref().map(Value::as_str) {
        None | Some(Some("resolve")) => Intent::Resolve,
        Some(Some("inspect")) => Intent::Inspect,
        Some(_) => return Err(Problem::invalid("intent is resolve or inspect")),
    };
    let is_name = |text: &str| {
        !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control)
    };
    let subject = match body.remove("subject") {
        None => None,
        Some(Value::String(subject)) if is_name(&subject) => Some(subject),
        Some(_) => return Err(Problem::invalid("subject is a name of 1 to 256 bytes")),
    };
    let life = match body.remove("expiresInMs").map(|ms| ms.as_u64()) {
        None => None,
        Some(Some(ms)) if ms > 0 => Some(Duration::from_millis(ms)),
        Some(_) => return Err(Problem::invalid("expiresInMs is a number of milliseconds")),
    };
    match body.is_empty() {
        true => Ok(TokenOrder {
            intent,
            subject,
            life,
        }),
        false => Err(Problem::invalid(
            "the body has intent, subject and expiresInMs, or nothing",
        )),
    }
}

/// Tokens for the open questions of a run. Without a keyring the run is shown all the same.
pub(super) fn tokens(api: &Api, who: &Principal, run: &Run) -> Vec<ShownToken> {
    api.shown_tokens(who, run).unwrap_or_else(|error| {
        tracing::warn!(%error, "no tokens are shown for the questions of a run");
        Vec::new()
    })
}

/// Puts a token where an interrupt is shown.
pub(super) fn with_token(open: &mut Value, shown: &ShownToken) {
    let token = shown.token.reveal();
    open["interruptToken"] = json!(token);
    open["callbackUrl"] = json!(format!("/v1/interrupts/{token}"));
}
