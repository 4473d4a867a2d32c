//! Webhooks: register, list, inspect, rotate, remove.

use std::collections::BTreeSet;

use hyper::{HeaderMap, Method, StatusCode};
use kernel::ids::WebhookId;
use kernel::registry::WebhookContract;
use runtime::access::{Action, Principal};
use runtime::api::{ApiError, NewWebhook, ResourceKind};
use serde_json::{Map, Value, json};

use crate::params::webhook_id;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::webhooks::{SIGNATURES, STANDARD, event_types, registered, reported, shown};

const TENANT: (&str, &str, &str) = ("query", "tenantId", "the tenant of the credential");

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let access = Access::May(Action::ManageWebhooks);
    vec![
        Route::new(
            Method::POST,
            "/v1/webhooks",
            access,
            register,
            Doc {
                operation: "registerWebhook",
                summary: "Registers an address that receives events of runs",
                parameters: &[],
                request: Some("WebhookOrder"),
                responses: &[(201, "Webhook")],
            },
        )
        .keyed(),
        Route::new(
            Method::GET,
            "/v1/webhooks",
            access,
            list,
            Doc {
                operation: "listWebhooks",
                summary: "Webhooks, newest first (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "WebhookList")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/webhooks/{webhookId}",
            access,
            get,
            Doc {
                operation: "getWebhook",
                summary: "A webhook with its waiting and abandoned deliveries (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "WebhookReport")],
            },
        ),
        Route::new(
            Method::DELETE,
            "/v1/webhooks/{webhookId}",
            access,
            remove,
            Doc {
                operation: "unregisterWebhook",
                summary: "Removes a webhook",
                parameters: &[TENANT],
                request: None,
                responses: &[(204, "")],
            },
        )
        .keyed(),
        Route::new(
            Method::POST,
            "/v1/webhooks/{webhookId}/rotate-secret",
            access,
            rotate,
            Doc {
                operation: "rotateWebhookSecret",
                summary: "Rotates the secret of a webhook; for a day both sign",
                parameters: &[TENANT],
                request: Some("WebhookSecret"),
                responses: &[(200, "RotatedWebhook")],
            },
        )
        .keyed(),
    ]
}

async fn register(cx: Cx) -> Result<Reply, Problem> {
    register_in(cx, WebhookContract::V1).await
}

/// Registers a webhook that is served in a major of the protocol.
pub(super) async fn register_in(mut cx: Cx, contract: WebhookContract) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let body = cx.object().await?;
    of_tenant(&who, text(&body, "tenantId")?)?;
    let signatures = match body.get("signatureAlgorithms") {
        None | Some(Value::Null) => None,
        Some(_) => Some(words(&body, "signatureAlgorithms")?),
    };
    let new = NewWebhook {
        url: text(&body, "url")?
            .ok_or_else(|| Problem::invalid("url is required: the address for deliveries"))?
            .to_owned(),
        events: events(&body)?,
        tags: words(&body, "tags")?.into_iter().collect(),
        workspace: text(&body, "scopeId")?.map(str::to_owned),
        secret: text(&body, "secret")?.map(str::to_owned),
        standard: is_standard(signatures.as_deref())?,
        contract,
    };
    let api = cx.app.api();
    let (id, effect) = (Some(cx.trace.id()), cx.effect.as_ref());
    let made = api.register_webhook(&who, new, id, effect).await?;
    Ok(Reply::json(
        StatusCode::CREATED,
        &registered(&made, wire_tenant(&who)),
    ))
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let webhooks = cx.app.api().webhooks(&who).await?;
    let shown: Vec<_> = webhooks
        .iter()
        .map(|one| shown(one, wire_tenant(&who)))
        .collect();
    Ok(Reply::ok(&json!({ "webhooks": shown })))
}

async fn get(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, named(&cx)?);
    let found = cx.app.api().webhook(&who, &id).await?;
    Ok(Reply::ok(&reported(&found, wire_tenant(&who))))
}

pub(super) async fn remove(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, named(&cx)?);
    of_tenant(&who, cx.query().get("tenantId"))?;
    let api = cx.app.api();
    api.remove_webhook(&who, &id, Some(cx.trace.id())).await?;
    Ok(Reply::Whole {
        status: StatusCode::NO_CONTENT,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
    })
}

pub(super) async fn rotate(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, named(&cx)?);
    of_tenant(&who, cx.query().get("tenantId"))?;
    let body = cx.object().await?;
    let secret = text(&body, "secret")?;
    let secret = secret.ok_or_else(|| Problem::invalid("secret is required: the new one"))?;
    let api = cx.app.api();
    let rotated = api.rotate_webhook(&who, &id, secret, Some(cx.trace.id()));
    let rotated = rotated.await?;
    Ok(Reply::ok(&json!({
        "rotatedAt": rotated.at.to_string(),
        "previousSecretExpiresAt": rotated.previous_expires_at.to_string(),
    })))
}

/// The webhook in the path.
pub(super) fn named(cx: &Cx) -> Result<WebhookId, Problem> {
    let id = webhook_id(cx.param("webhookId"));
    id.ok_or_else(|| ApiError::NotFound(ResourceKind::Webhook).into())
}

/// The protocol's name for the tenant of a webhook (RFC 0048): the workspace of a credential that
/// is bound to one, else its tenant.
fn wire_tenant(who: &Principal) -> &str {
    who.workspace
        .as_deref()
        .unwrap_or_else(|| who.tenant.as_str())
}

/// Rejects a request that names another tenant than the credential's. A credential bound to a
/// workspace is not a member of the whole tenant.
fn of_tenant(who: &Principal, named: Option<&str>) -> Result<(), Problem> {
    if named.is_none_or(|named| named == wire_tenant(who)) {
        Ok(())
    } else {
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "workspace_membership_required",
            "tenantId must be the credential's workspace, or its tenant without a workspace, or be \
             absent",
        ))
    }
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= 2_048 => Ok(Some(text)),
        Some(_) => Err(Problem::invalid(format!(
            "{name} must be a text of at most 2048 bytes"
        ))),
    }
}

fn words(body: &Map<String, Value>, name: &str) -> Result<Vec<String>, Problem> {
    let Some(value) = body.get(name).filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let words = serde_json::from_value(value.clone());
    words.map_err(|_| Problem::invalid(format!("{name} must be an array of texts")))
}

/// The event types: `events` by the protocol's prose, `eventTypes` by its clients.
fn events(body: &Map<String, Value>) -> Result<BTreeSet<String>, Problem> {
    let by_clients = words(body, "eventTypes")?;
    event_types(words(body, "events")?.into_iter().chain(by_clients))
}

/// Whether a subscriber asks for the additional signature.
fn is_standard(signatures: Option<&[String]>) -> Result<bool, Problem> {
    let Some(signatures) = signatures else {
        return Ok(false);
    };
    let distinct: BTreeSet<&str> = signatures.iter().map(String::as_str).collect();
    let is_known = distinct.iter().all(|name| SIGNATURES.contains(name));
    let is_listed = distinct.contains("v1") && distinct.len() == signatures.len();
    if is_known && is_listed {
        Ok(distinct.contains(STANDARD))
    } else {
        Err(Problem::invalid(
            "signatureAlgorithms must have v1, optionally standard-webhooks-1, and neither twice",
        ))
    }
}
