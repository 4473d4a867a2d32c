//! API keys: list, create, revoke.

use std::collections::BTreeSet;
use std::time::Duration;

use hyper::{HeaderMap, Method, StatusCode};
use kernel::ids::KeyId;
use kernel::registry::Key;
use kernel::time::Timestamp;
use runtime::access::{Action, NewKey, Scopes};
use runtime::api::{ApiError, ResourceKind};
use serde_json::{Map, Value, json};

use super::runs::bounded;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The longest name or workspace, in characters.
const MAX_TEXT: usize = 256;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let access = Access::May(Action::ManageKeys);
    vec![
        Route::new(
            Method::GET,
            "/v1/keys",
            access,
            list,
            Doc {
                operation: "listKeys",
                summary: "API keys, newest first (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "KeyList")],
            },
        )
        .closed(),
        Route::new(
            Method::POST,
            "/v1/keys",
            access,
            create,
            Doc {
                operation: "createKey",
                summary: "Creates an API key with scopes that the caller has (extension)",
                parameters: &[],
                request: Some("KeyOrder"),
                responses: &[(201, "CreatedKey")],
            },
        )
        .keyed(),
        Route::new(
            Method::DELETE,
            "/v1/keys/{keyId}",
            access,
            revoke,
            Doc {
                operation: "revokeKey",
                summary: "Revokes an API key (extension)",
                parameters: &[("query", "reason", "why; kept in the log")],
                request: None,
                responses: &[(204, "")],
            },
        )
        .keyed()
        .closed(),
    ]
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let keys = cx.app.api().keys(&*cx.who()?).await?;
    let now = cx.app.api().engine().door().store().now();
    let keys: Vec<Value> = keys.iter().map(|key| shown(key, now)).collect();
    Ok(Reply::ok(&json!({ "keys": keys })))
}

fn shown(key: &Key, now: Timestamp) -> Value {
    let mut shown = json!({
        "keyId": key.id, "principal": key.grant.principal, "scopes": key.grant.scopes,
        "status": key.standing(now).as_str(), "createdAt": key.created_at.to_string(),
    });
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    for (name, value) in [
        ("name", key.grant.name.clone()),
        ("workspace", key.grant.workspace.clone()),
        ("expiresAt", time(key.grant.expires_at)),
        ("revokedAt", time(key.revoked_at)),
        ("revokeReason", key.revoke_reason.clone()),
    ] {
        if let Some(value) = value {
            shown[name] = json!(value);
        }
    }
    shown
}

async fn create(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut body = cx.object().await?;
    let words = body.remove("scopes").unwrap_or(Value::Null);
    let words: Vec<String> = serde_json::from_value(words).unwrap_or_default();
    if words.is_empty() {
        let message = "scopes is required: a list of scopes, or [\"*\"] for all";
        return Err(Problem::invalid(message));
    }
    let scopes = Scopes::parse(words.iter().map(String::as_str));
    let scopes = scopes.map_err(|unknown| Problem::invalid(unknown.to_string()))?;
    let (name, workspace) = (text(&mut body, "name")?, text(&mut body, "workspace")?);
    let now = cx.app.api().engine().door().store().now();
    let expires_at = match body.remove("expiresInMs") {
        None | Some(Value::Null) => None,
        Some(ms) => {
            let ms = ms.as_u64().filter(|ms| *ms >= 1_000);
            let message = "expiresInMs must be a number of milliseconds, at least 1000";
            let ms = ms.ok_or_else(|| Problem::invalid(message))?;
            Some(now.plus(Duration::from_millis(ms)))
        }
    };
    if !body.is_empty() {
        let message = "the body has scopes, name, workspace and expiresInMs only";
        return Err(Problem::invalid(message));
    }
    let new = NewKey {
        principal: None,
        workspace,
        scopes,
        groups: BTreeSet::new(),
        roles: BTreeSet::new(),
        name,
        expires_at,
    };
    let api = cx.app.api();
    let issued = api.create_key(&who, new, Some(cx.trace.id())).await?;
    let doc = json!({ "keyId": issued.token.key(), "token": issued.token.reveal() });
    Ok(Reply::json(StatusCode::CREATED, &doc))
}

async fn revoke(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let unknown = || ApiError::NotFound(ResourceKind::Key);
    let key = KeyId::parse(cx.param("keyId")).ok_or_else(unknown)?;
    let reason = bounded(&cx.query(), "reason")?;
    let why = (reason, Some(cx.trace.id()));
    cx.app.api().revoke_key(&who, &key, why).await?;
    Ok(Reply::Whole {
        status: StatusCode::NO_CONTENT,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
    })
}

fn text(body: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if (1..=MAX_TEXT).contains(&text.chars().count()) => {
            Ok(Some(text))
        }
        Some(_) => Err(Problem::invalid(format!(
            "{name} must be a text of 1 to {MAX_TEXT} characters"
        ))),
    }
}
