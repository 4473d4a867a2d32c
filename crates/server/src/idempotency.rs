//! `Idempotency-Key` of HTTP: one effect and one response for equal requests.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, StatusCode, Uri};
use kernel::digest::Digest;
use kernel::json::{self, Limits};
use kernel::limits::MAX_JSON_DEPTH;
use runtime::api::{Finish, IdempotencyState, KeptAnswer, KeyedBy};
use serde_json::Value;

use crate::contract::Contract;
use crate::pipeline;
use crate::problem::Problem;
use crate::reply::{JSON, REPLAYED, Reply};
use crate::route::{Cx, Route};
use crate::routes::workbench;
use crate::token;

/// The client's name for a request.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of a request.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    match (value.to_str().map(str::trim), given.next()) {
        (Ok(key), None) if (1..=255).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(Problem::invalid(
            "Idempotency-Key must occur once and have 1 to 255 characters",
        )),
    }
}

/// Checks the key of a v2 request: 22 to 128 characters that need no escape, so that it cannot be
/// guessed. A key on a request that changes nothing means nothing.
pub(crate) fn check_v2(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    let fits = |key: &str| (22..=128).contains(&key.len()) && key.bytes().all(is_plain);
    match key(headers) {
        Ok(None) => Ok(()),
        Ok(Some(key)) if fits(&key) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "idempotency_key_invalid",
            "Idempotency-Key must occur once and have 22 to 128 of the characters A-Z a-z 0-9 . _ \
             ~ -",
        )),
    }
}

/// Handles a request of a keyed route. A request with a key continues when its client disconnects,
/// so that the response exists when the client repeats it.
pub(crate) async fn answer(route: Arc<Route>, cx: Cx) -> Result<Reply, Problem> {
    match key(&cx.headers)? {
        None => pipeline::call(&route, cx).await,
        Some(key) => {
            let answered = tokio::spawn(once(route, cx, key)).await;
            let result = answered.unwrap_or_else(|_| Err(Problem::internal()));
            result.map_err(Problem::first_answer)
        }
    }
}

async fn once(route: Arc<Route>, mut cx: Cx, key: String) -> Result<Reply, Problem> {
    let limits = cx.app.limits();
    let limit = route.body_bytes(limits);
    let body = cx.bytes(limit).await?;
    let app = cx.app.clone();
    let (who, operation) = match &cx.who {
        Some(who) => (who.clone(), operation(&route, &cx.params)),
        // The interrupt token identifies the caller. A repeated request may carry another one.
        None => {
            let bearer = app.api().bearer(cx.param("token")).await;
            let (bearer, version) = match route.contract {
                Contract::Two => (bearer.map_err(token::refusal)?, "2 "),
                Contract::One | Contract::Workbench => (bearer?, ""),
            };
            let operation = format!("{version}{} {}", route.method, bearer.question);
            (Arc::new(bearer.who), operation)
        }
    };
    let keyed = KeyedBy {
        key,
        operation,
        request: digest(&cx.uri, &body),
    };
    cx.body = Body::from(body);
    let begun = match app.api().begin(&who, &keyed).await? {
        IdempotencyState::Again(KeptAnswer { status, body }) => {
            let status = StatusCode::from_u16(status).map_err(|_| Problem::internal())?;
            return Ok(Reply::bytes(status, JSON, body.into()).with(REPLAYED, "true"));
        }
        IdempotencyState::First(begun) => begun,
    };
    let id = cx.trace.id.clone();
    let envelope = if cx.uri.path().starts_with(workbench::ROOT) {
        workbench::envelope
    } else {
        Problem::envelope
    };
    cx.effect = Some(begun.effect().clone());
    let result = pipeline::call(&route, cx).await;
    if let Err(error) = app.api().finish(begun, how(&result, envelope)).await {
        let request_id = id.to_str().unwrap_or("-");
        tracing::warn!(%error, request_id, "an answer was not stored under its idempotency key");
    }
    result.map(|reply| reply.with(REPLAYED, "false"))
}

/// The operation and its target. Both spellings of a verb are one operation.
fn operation(route: &Route, params: &[(String, String)]) -> String {
    let mut path = route.path.replace("}:", "}/");
    for (name, value) in params {
        path = path.replace(&format!("{{{name}}}"), value);
    }
    format!("{} {path}", route.method)
}

/// The identity of a request: its query, and its body without the order and spacing of the JSON.
fn digest(uri: &Uri, body: &[u8]) -> Digest {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_depth: MAX_JSON_DEPTH,
    };
    let mut bytes = match json::parse(body, limits) {
        Ok(value) => json::canonical(&value),
        Err(_) => body.to_vec(),
    };
    bytes.push(0);
    bytes.extend_from_slice(uri.query().unwrap_or_default().as_bytes());
    Digest::compute(&bytes)
}

/// The outcome of a request. Successes are repeated, and so are permanent errors. If the client can
/// correct its request or its credential the key is freed; after a server error only the same
/// request may be executed again, as it may have had its effect.
fn how(result: &Result<Reply, Problem>, envelope: fn(&Problem) -> Value) -> Finish {
    let (status, body) = match result {
        Ok(Reply::Whole { status, body, .. }) => (*status, body.clone()),
        Ok(Reply::Ready(_)) => return Finish::Unknown,
        Err(problem) if problem.status.is_server_error() => return Finish::Unknown,
        Err(problem) => {
            let is_mendable = matches!(
                problem.status,
                StatusCode::UNAUTHORIZED
                    | StatusCode::FORBIDDEN
                    | StatusCode::REQUEST_TIMEOUT
                    | StatusCode::TOO_MANY_REQUESTS
            );
            let waits = problem.retry_after.is_some();
            if is_mendable || waits || problem.code == "validation_error" {
                return Finish::Refused;
            }
            let body = envelope(problem).to_string();
            (problem.status, Bytes::from(body))
        }
    };
    match String::from_utf8(body.into()) {
        Ok(body) => Finish::Answered(KeptAnswer {
            status: status.as_u16(),
            body,
        }),
        Err(_) => Finish::Unknown,
    }
}
