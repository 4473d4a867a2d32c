//! Questions of runs: reading and answering them, by name or by token.

use std::time::Duration;

use faces::openwop::v1;
use faces::workbench::run_view;
use hyper::{Method, StatusCode};
use kernel::limits::MAX_NAME_BYTES;
use kernel::run::{InterruptKind, Run};
use runtime::access::{Action, Principal};
use runtime::api::{
    Api, ApiError, Asking, Question, QuestionFilter, QuestionPage, ShownToken, TakenEvent,
    TokenOrder, TokenScope,
};
use serde_json::{Map, Value, json};

use super::runs::{bounded, named, read_cursor, write_cursor};
use super::workbench::view;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The default number of questions per page.
const PAGE: u64 = 50;
/// The number of questions after which a page ends with the current run.
const MAX_PAGE: u64 = 100;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/interrupts",
            Access::May(Action::ReadRun),
            list_all,
            Doc {
                operation: "listOpenInterrupts",
                summary: "Open questions of all runs, newest run first (extension)",
                parameters: &[
                    ("query", "workflowId", "only of runs of this workflow"),
                    ("query", "kind", "only of this kind"),
                    (
                        "query",
                        "limit",
                        "1 to 100: a page ends with the run that reaches this number",
                    ),
                    ("query", "cursor", "nextCursor of the previous page"),
                ],
                request: None,
                responses: &[(200, "OpenInterrupts")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/interrupts",
            Access::May(Action::ReadRun),
            list,
            Doc {
                operation: "listInterrupts",
                summary: "Open questions of a run, oldest first (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "InterruptList")],
            },
        )
        .closed(),
        Route::new(
            Method::POST,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Access::May(Action::AnswerRun),
            resolve,
            Doc {
                operation: "resolveInterrupt",
                summary: "Answers the question of a node",
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
                summary: "Issues a token that answers, or only shows, a question (extension)",
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
                summary: "Shows the question of a token",
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
                summary: "Answers the question of a token",
                parameters: &[],
                request: Some("Answer"),
                responses: &[(200, "Answered")],
            },
        )
        .keyed(),
    ]
}

async fn list_all(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let query = cx.query();
    let kind = query.get("kind").map(|kind| {
        InterruptKind::parse(kind).ok_or_else(|| {
            let kinds = InterruptKind::WORDS.join(", ");
            Problem::invalid(format!("kind is one of {kinds}"))
        })
    });
    let kind = kind.transpose()?;
    let after = query.get("cursor").map(read_cursor).transpose()?;
    let limit = query.number("limit", 1..=MAX_PAGE)?.unwrap_or(PAGE);
    let filter = QuestionFilter {
        workflow: bounded(&query, "workflowId")?,
        kind,
        after,
        limit: limit as usize,
    };
    let QuestionPage { runs, next } = cx.app.api().open_questions(&who, filter).await?;
    let mut all = Vec::new();
    for run in &runs {
        let (asked, run, workflow) = match run {
            Asking::Run(run) => {
                let asked = shown(cx.app.api(), &who, run);
                (asked, &run.header.stream, json!(run.plan.workflow))
            }
            Asking::Document(document) => {
                let asked = run_view::open_interrupts(document);
                let workflow = run_view::workflow(document);
                (asked, &document.header().stream, json!(workflow))
            }
        };
        let fits = |open: &Value| kind.is_none_or(|kind| open["kind"] == kind.as_str());
        for mut open in asked.into_iter().filter(fits) {
            open["runId"] = json!(run);
            open["workflowId"] = workflow.clone();
            all.push(open);
        }
    }
    let mut page = json!({ "interrupts": all });
    if let Some(next) = next {
        page["nextCursor"] = json!(write_cursor(&next));
    }
    Ok(Reply::ok(&page))
}

/// The open questions of a run as shown to a caller: with tokens, if it may answer.
fn shown(api: &Api, who: &Principal, run: &Run) -> Vec<Value> {
    let mut open = v1::open_interrupts(run);
    for token in tokens(api, who, run) {
        let of_it = open
            .iter_mut()
            .find(|open| open["interruptId"] == token.interrupt.as_str());
        if let Some(open) = of_it {
            crate::token::with_token(open, &token);
        }
    }
    open
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        return view::interrupts(cx, run).await;
    }
    let run = cx.app.api().run(&who, &run).await?;
    let open = shown(cx.app.api(), &who, &run);
    let status = run.status();
    let doc = json!({ "runId": run.header.stream, "status": status, "interrupts": open });
    Ok(Reply::ok(&doc))
}

pub(super) async fn resolve(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    if view::is_document(&run) {
        return view::answer(cx, run).await;
    }
    let node = cx.param("nodeId").to_owned();
    let api = cx.app.api().clone();
    match api.question(&who, &run, &node).await {
        Ok(question) => answer(&mut cx, question).await,
        Err(error) if error.is_answered() && cx.is_repeated() => {
            // An earlier execution of this request may have answered it.
            let (value, _) = value(&mut cx).await?;
            let status = api.answered_before(&who, &run, &node, &value).await?;
            let status = status.ok_or(error)?;
            Ok(Reply::ok(
                &json!({ "runId": run, "nodeId": node, "status": status }),
            ))
        }
        Err(error) if error.is_answered() => {
            let taken = api.taken_event(&who, &run, &node).await?;
            again(&mut cx, taken, error).await
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn inspect_by_token(cx: Cx) -> Result<Reply, Problem> {
    let question = cx.app.api().look(cx.param("token")).await?;
    Ok(Reply::ok(&v1::question(
        &question.run().plan,
        question.open(),
    )))
}

pub(super) async fn resolve_by_token(mut cx: Cx) -> Result<Reply, Problem> {
    let token = cx.param("token").to_owned();
    let api = cx.app.api().clone();
    match api.question_of(&token).await {
        Ok(question) => answer(&mut cx, question).await,
        Err(error) if error.is_answered() && cx.is_repeated() => {
            // An earlier execution of this request may have answered it.
            let (value, _) = value(&mut cx).await?;
            let (run, node) = api.answered_before_by(&token, &value).await?.ok_or(error)?;
            let id = &run.header.stream;
            Ok(Reply::ok(
                &json!({ "runId": id, "nodeId": node, "status": run.status() }),
            ))
        }
        Err(error) if error.is_answered() => {
            let taken = api.taken_event_of(&token).await?;
            again(&mut cx, taken, error).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The response to a question that is already answered: the same external event gets its earlier
/// response.
async fn again(cx: &mut Cx, taken: Option<TakenEvent>, error: ApiError) -> Result<Reply, Problem> {
    let Some(taken) = taken else {
        return Err(error.into());
    };
    let (value, _) = value(cx).await?;
    let status = taken.again(&value)?;
    let doc = json!({ "runId": taken.run(), "nodeId": taken.node(), "status": status });
    Ok(Reply::ok(&doc))
}

/// Parses an answer, once it is known that the question is open, and submits it.
async fn answer(cx: &mut Cx, question: Question) -> Result<Reply, Problem> {
    let (value, about) = value(cx).await?;
    if about.is_some_and(|about| about != question.open().id.as_str()) {
        // The node has asked something else since.
        return Err(ApiError::Rejected(kernel::run::Rejection::InterruptGone).into());
    }
    let (run, node) = (
        question.run().header.stream.clone(),
        question.node().to_owned(),
    );
    let status = cx.app.api().answer(question, value).await?;
    let doc = json!({ "runId": run, "nodeId": node, "status": status });
    Ok(Reply::ok(&doc))
}

/// The answer of a body, and the question that its sender saw.
async fn value(cx: &mut Cx) -> Result<(Value, Option<String>), Problem> {
    let mut body = cx.object().await?;
    let wrong = || {
        Problem::invalid("the body takes `resumeValue`, the answer, and optionally `interruptId`")
    };
    let about = match body.remove("interruptId") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => return Err(wrong()),
    };
    let value = body.remove("resumeValue").filter(|_| body.is_empty());
    Ok((value.ok_or_else(wrong)?, about))
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
    crate::token::with_token(&mut doc, &shown);
    doc["expiresAt"] = json!(shown.expires_at.to_string());
    Ok(Reply::json(StatusCode::CREATED, &doc))
}

fn token_order(mut body: Map<String, Value>) -> Result<TokenOrder, Problem> {
    let intent = match body.remove("intent").as_ref().map(Value::as_str) {
        None | Some(Some("resolve")) => TokenScope::Resolve,
        Some(Some("inspect")) => TokenScope::Inspect,
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
    if body.is_empty() {
        Ok(TokenOrder {
            intent,
            subject,
            life,
        })
    } else {
        Err(Problem::invalid(
            "the body takes intent, subject and expiresInMs, or is empty",
        ))
    }
}

/// Tokens for the open questions of a run. Without a keyring the run is shown without them.
pub(super) fn tokens(api: &Api, who: &Principal, run: &Run) -> Vec<ShownToken> {
    api.shown_tokens(who, run).unwrap_or_else(|error| {
        tracing::warn!(%error, "the questions of a run are listed without tokens");
        Vec::new()
    })
}
