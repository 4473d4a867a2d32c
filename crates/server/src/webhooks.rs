//! The wire format of webhooks and deliveries.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use faces::Mask;
use faces::openwop::{v1, v2};
use kernel::definition::Plan;
use kernel::delivery::{Facts, Gate, Item};
use kernel::ids::{Seq, WebhookId};
use kernel::problem::closest;
use kernel::registry::{EVERY_EVENT, Webhook, WebhookContract};
use kernel::run::Event;
use kernel::stream::StreamHeader;
use kernel::time::Timestamp;
use runtime::api::{DeliveryReport, RegisteredWebhook, ShownToken};
use runtime::webhooks::{Names, Render};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::problem::Problem;
use crate::token as tokens;

/// The additional signature a subscriber may ask for.
pub(crate) const STANDARD: &str = "standard-webhooks-1";
/// Every signature scheme.
pub(crate) const SIGNATURES: [&str; 2] = ["v1", STANDARD];
/// The most runs with waiting events that a response lists.
const LISTED: usize = 100;

/// OpenWOP v1 (`webhooks.md`, *Body*): the event as polling shows it, with its run and workspace.
struct Openwop;

impl Render for Openwop {
    fn event_type<'a>(&self, stored: Cow<'a, str>, content: &[u8]) -> Cow<'a, str> {
        v1::event_type(stored, content)
    }

    fn names(
        &self,
        contract: WebhookContract,
        header: &StreamHeader,
        webhook: &WebhookId,
        event_type: &str,
    ) -> Names {
        match contract {
            WebhookContract::V1 => Names {
                webhook: webhook.to_string(),
                event_type: event_type.to_owned(),
            },
            WebhookContract::V2 => Names {
                webhook: v2::bind(&header.owner.tenant, webhook),
                event_type: v2::wire_kind(event_type).to_owned(),
            },
        }
    }

    fn body(
        &self,
        contract: WebhookContract,
        header: &StreamHeader,
        plan: &Plan,
        event: &Event,
        cause: Option<Seq>,
        token: Option<&ShownToken>,
    ) -> Vec<u8> {
        let owner = &header.owner;
        let workspace = owner.workspace.as_deref();
        if contract == WebhookContract::V2 {
            let mut body = json!({
                "runId": v2::bind(&owner.tenant, &header.stream),
                "event": v2::event(header, Mask::from_plan(plan), event, cause),
            });
            // Only where the run has one: a tenant does not stand for a workspace.
            if let Some(workspace) = workspace {
                body["workspaceId"] = json!(workspace);
            }
            if let Some(shown) = token {
                let token = tokens::show(shown.token.reveal());
                body["callbackUrl"] = json!(format!("/interrupts/{token}"));
                body["interruptToken"] = json!(token);
                body["expiresAt"] = json!(shown.expires_at.to_string());
            }
            return body.to_string().into_bytes();
        }
        let mut body = json!({
            "runId": header.stream,
            "workspaceId": workspace.unwrap_or(owner.tenant.as_str()),
            "event": v1::event_caused_by(header, Mask::from_plan(plan), event, cause),
        });
        if let Some(shown) = token {
            tokens::with_token(&mut body, shown);
            body["expiresAt"] = json!(shown.expires_at.to_string());
        }
        body.to_string().into_bytes()
    }
}

/// Delivers to webhooks while the engine of an application runs.
pub fn deliver_webhooks(app: &App) {
    let api = app.api();
    api.webhook_service().start(api.engine(), Arc::new(Openwop));
}

/// The event types of a webhook: those of the list, or `*` alone if it is among them.
///
/// # Errors
/// An empty list, or an unknown type.
pub fn event_types(asked: impl IntoIterator<Item = String>) -> Result<BTreeSet<String>, Problem> {
    let asked: BTreeSet<String> = asked.into_iter().collect();
    if asked.is_empty() {
        return Err(Problem::invalid(
            "events is required: the event types to deliver, or \"*\" for all",
        ));
    }
    if asked.contains(EVERY_EVENT) {
        return Ok(BTreeSet::from([EVERY_EVENT.to_owned()]));
    }
    match asked
        .iter()
        .find(|asked| !v1::EVENT_TYPES.contains(&asked.as_str()))
    {
        None => Ok(asked),
        Some(unknown) => {
            let hint = closest(unknown, v1::EVENT_TYPES.iter().copied())
                .map_or_else(String::new, |meant| format!(", perhaps `{meant}`"));
            let message = format!(
                "events has an unknown event type: use one of details.supported{hint}, or \"*\" \
                 for all"
            );
            Err(Problem::invalid(message).with("supported", json!(v1::EVENT_TYPES)))
        }
    }
}

/// A registered webhook, with its secret if that must be shown.
pub fn registered(made: &RegisteredWebhook, tenant: &str) -> Value {
    let mut shown = shown(&made.webhook, tenant);
    if let Some(secret) = &made.secret {
        shown.insert("secret".into(), json!(secret.reveal()));
    }
    Value::Object(shown)
}

/// A webhook with the state of its deliveries.
pub fn reported(found: &DeliveryReport, tenant: &str) -> Value {
    let mut shown = shown(&found.webhook, tenant);
    let facts = found.facts.as_ref();
    let deliveries = facts.map_or(json!({ "status": "active" }), |facts| {
        deliveries(facts, found.now)
    });
    shown.insert("deliveries".into(), deliveries);
    Value::Object(shown)
}

/// A webhook, without its secret.
pub fn shown(webhook: &Webhook, tenant: &str) -> Map<String, Value> {
    let Webhook { id, spec, .. } = webhook;
    let signatures = if spec.standard {
        &SIGNATURES[..]
    } else {
        &SIGNATURES[..1]
    };
    let mut shown = json!({
        "webhookId": id.as_str(),
        "subscriptionId": id.as_str(),
        "url": spec.url,
        "events": spec.events,
        "eventTypes": spec.events,
        "tenantId": tenant,
        "tags": spec.tags,
        "secretFingerprint": webhook.secret.fingerprint,
        "signatureAlgorithm": "v1",
        "signatureAlgorithms": signatures,
        "createdAt": webhook.created_at.to_string(),
    });
    if let Some(workspace) = &spec.workspace {
        shown["scopeId"] = json!(workspace);
    }
    if let Some(previous) = &webhook.previous {
        shown["rotatedAt"] = json!(webhook.rotated_at.map(|at| at.to_string()));
        shown["previousSecretExpiresAt"] = json!(previous.expires_at.to_string());
    }
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}

/// The state of deliveries.
fn deliveries(facts: &Facts, now: Timestamp) -> Value {
    let event = |item: &Item| json!({ "runId": item.run_id, "sequence": item.sequence, "type": item.event_type });
    let waiting = facts.waiting.values().map(|run| {
        let mut shown = run.items.front().map_or(json!({}), event);
        shown["attempts"] = json!(run.attempts);
        shown["retryAt"] = json!(run.retry_at.to_string());
        shown["lastError"] = json!(run.why);
        shown["behindIt"] = json!(run.items.len().saturating_sub(1));
        shown
    });
    let dead = facts.dead.iter().rev().map(|dead| {
        let mut shown = event(&dead.item);
        shown["attempts"] = json!(dead.attempts);
        shown["lastError"] = json!(dead.why);
        shown["at"] = json!(dead.at.to_string());
        shown
    });
    let mut shown = json!({
        "status": facts.status(now),
        "delivered": facts.delivered,
        "failedAttempts": facts.failed,
        "deadLettered": facts.dropped,
        "waitingEvents": facts.waiting_events(),
        "waiting": waiting.take(LISTED).collect::<Vec<_>>(),
        "deadLetters": dead.collect::<Vec<_>>(),
    });
    if let Gate::Open(until) = facts.gate(now) {
        shown["pausedUntil"] = json!(until.to_string());
    }
    shown
}
