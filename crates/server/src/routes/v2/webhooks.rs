//! Webhooks: register, rotate, remove, dead letters.

use faces::openwop::v2;
use hyper::Method;
use kernel::delivery::DeadLetter;
use kernel::digest::Digest;
use kernel::ids::Seq;
use kernel::limits::MAX_DELIVERY_ATTEMPTS;
use kernel::problem::closest;
use kernel::registry::{EVERY_EVENT, WebhookContract};
use runtime::access::{Action, Principal};
use serde_json::{Map, Value, json};

use super::{bound, changes, check_fields, closed, doc, reads};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::webhooks as v1;

/// How long a dead letter is shown.
pub(crate) const RETENTION_DAYS: u64 = 30;
/// Dead letters of a page at most.
pub(crate) const MAX_PAGE: u64 = 100;
/// The default number of dead letters of a page.
const PAGE: u64 = 50;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let manages = Action::ManageWebhooks;
    vec![
        changes(
            "/webhooks",
            manages,
            register,
            doc(
                "registerWebhook",
                "Registers an address that receives events of runs",
                Some("WebhookOrder"),
                &[(201, "Webhook")],
            ),
        ),
        Route::new(
            Method::DELETE,
            "/webhooks/{webhookId}",
            Access::May(manages),
            v1::remove,
            doc("unregisterWebhook", "Removes a webhook", None, &[(204, "")]),
        )
        .keyed(),
        changes(
            "/webhooks/{webhookId}/rotate-secret",
            manages,
            v1::rotate,
            doc(
                "rotateWebhookSecret",
                "Replaces a webhook's secret; for a day both secrets sign",
                Some("WebhookSecret"),
                &[(200, "RotatedWebhook")],
            ),
        ),
        reads(
            "/webhooks/{webhookId}/dead-letters",
            manages,
            dead_letters,
            Doc {
                operation: "listWebhookDeadLetters",
                summary: "Undelivered events, newest first",
                parameters: &[
                    ("query", "limit", "records of a page, 1 to 100"),
                    ("query", "cursor", "nextCursor of the previous page"),
                ],
                request: None,
                responses: &[(200, "DeadLetters")],
            },
        )
        .closed(),
    ]
}

async fn register(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut body = cx.object().await?;
    let known = ["url", "events", "secret", "tags", "signatureAlgorithms"];
    check_fields(&body, &known)?;
    native_events(&mut body)?;
    cx.put_body(&body);
    let reply = v1::register_in(cx, WebhookContract::V2).await?;
    let fields = [
        "webhookId",
        "subscriptionId",
        "url",
        "secret",
        "events",
        "eventTypes",
        "signatureAlgorithms",
        "createdAt",
    ];
    Ok(reply.map(|mut doc| {
        for name in ["events", "eventTypes"] {
            let names = doc[name].as_array_mut();
            for kind in names.into_iter().flatten() {
                if let Some(native) = kind.as_str() {
                    *kind = json!(v2::wire_kind(native));
                }
            }
        }
        closed(bound(&who, doc, &["webhookId", "subscriptionId"]), &fields)
    }))
}

/// Reads names of types as version 2 spells them.
fn native_events(body: &mut Map<String, Value>) -> Result<(), Problem> {
    let names = body.get_mut("events").and_then(Value::as_array_mut);
    for name in names.into_iter().flatten() {
        let Some(wire) = name.as_str().filter(|wire| *wire != EVERY_EVENT) else {
            continue;
        };
        let Some(native) = v2::native_kind(wire) else {
            let kinds = v2::wire_kinds();
            let hint = closest(wire, kinds.iter().copied())
                .map_or_else(String::new, |meant| format!(", perhaps `{meant}`"));
            let message = format!(
                "events has an unknown event type: use one of details.supported{hint}, or \"*\" \
                 for all"
            );
            return Err(Problem::invalid(message).with("supported", json!(kinds)));
        };
        *name = json!(native);
    }
    Ok(())
}

async fn dead_letters(cx: Cx) -> Result<Reply, Problem> {
    let (who, id) = (cx.who()?, v1::named(&cx)?);
    let query = cx.query();
    // Access to the webhook is checked before the query.
    let api = cx.app.api();
    api.webhook(&who, &id).await?;
    let limit = query.number("limit", 1..=MAX_PAGE)?.unwrap_or(PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let before = match query.get("cursor") {
        None => None,
        Some(text) => Some(read_cursor(id.as_str(), text)?),
    };
    let keep = RETENTION_DAYS * 24 * 3_600_000;
    let found = api.dead_letters(&who, &id, before, (limit, keep)).await?;
    let letters = found.letters.iter();
    let shown: Vec<Value> = letters
        .map(|letter| record(&who, id.as_str(), letter, keep))
        .collect();
    let mut page = json!({ "deliveries": shown });
    if let Some(next) = found.next {
        page["nextCursor"] = json!(write_cursor(id.as_str(), next));
    }
    Ok(Reply::ok(&page))
}

/// A place in the log of a webhook, with a digest, so that another text is not taken for one.
fn write_cursor(webhook: &str, place: Seq) -> String {
    let digest = Digest::compute(format!("dead-letters\0{webhook}\0{place}").as_bytes());
    format!("{place}-{}", &digest.to_string()[..16])
}

fn read_cursor(webhook: &str, text: &str) -> Result<Seq, Problem> {
    let place = text
        .split_once('-')
        .and_then(|(place, _)| place.parse().ok());
    let is_own = |place: &Seq| write_cursor(webhook, *place) == text;
    place.filter(is_own).ok_or_else(|| {
        Problem::invalid("cursor must be the nextCursor of another page of this webhook")
    })
}

fn event_id(letter: &DeadLetter) -> String {
    letter.item.run_id.event(letter.item.sequence).to_string()
}

fn record(who: &Principal, webhook: &str, letter: &DeadLetter, keep: u64) -> Value {
    let event = event_id(letter);
    let delivery =
        Digest::compute(format!("dead-letter\0{webhook}\0{event}").as_bytes()).to_string();
    // A delivery that is given up early can never succeed.
    let reason = if letter.attempts < MAX_DELIVERY_ATTEMPTS {
        "payload_unprojectable"
    } else {
        "retries_exhausted"
    };
    json!({
        "deliveryId": v2::bind(&who.tenant, format!("delivery-{}", &delivery[..32])),
        "webhookId": v2::bind(&who.tenant, webhook),
        "runId": v2::bind(&who.tenant, &letter.item.run_id),
        "eventId": event,
        "eventType": v2::wire_kind(&letter.item.event_type),
        "attempts": letter.attempts.max(1),
        "deadLetteredAt": letter.at.to_string(),
        "expiresAt": letter.at.plus_ms(keep).to_string(),
        "reason": reason,
    })
}
