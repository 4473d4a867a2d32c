//! HTTP requests to a receiver.

use std::time::Duration;

use bytes::Bytes;
use kernel::time::Timestamp;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use url::Url;

use super::sign::{Secret, Signers, draw_challenge};
use crate::outbound::{Outbound, OutboundError, Redirects, Request, Response};

/// The timeout of a delivery.
const DELIVERY: Duration = Duration::from_secs(5);
/// The timeout of a verification.
const VERIFICATION: Duration = Duration::from_secs(10);
/// The timeout of resolving an address's name at registration.
pub(super) const LOOK_UP: Duration = Duration::from_secs(2);
/// Bytes read of a verification's response.
const ANSWER: usize = 16 << 10;
/// Characters of a reason stored in the log.
const REASON: usize = 256;

/// Delivers an event. The error is why the receiver did not confirm it.
pub(super) async fn deliver(
    outbound: &Outbound,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(), String> {
    let sent = post(outbound, url, headers, body, DELIVERY).await;
    match sent.map_err(|error| reason(&error))? {
        response if response.status().is_success() => Ok(()),
        response if response.status().is_redirection() => {
            let status = response.status().as_u16();
            Err(format!("the receiver redirects (status {status})"))
        }
        response => Err(format!(
            "the receiver answered with status {}",
            response.status().as_u16()
        )),
    }
}

/// Verifies once that an endpoint wants deliveries: its response must repeat the challenge of the
/// request (OpenWOP RFC 0201, section D).
pub(crate) async fn verify(
    outbound: &Outbound,
    url: &Url,
    secret: &Secret,
    now: Timestamp,
) -> std::io::Result<bool> {
    let challenge = draw_challenge()?;
    let body = json!({ "type": "openwop.webhook.verification", "challenge": challenge });
    let body = Bytes::from(body.to_string());
    let id = format!("msg_{}", draw_challenge()?);
    let headers = Signers::of_one(secret.clone()).verification(&id, &body, now);
    let answered = async {
        let sent = post(outbound, url, headers, body, VERIFICATION)
            .await
            .ok()?;
        answer(sent).await
    };
    let answer = tokio::time::timeout(VERIFICATION, answered).await;
    let answer = answer.ok().flatten().unwrap_or_default();
    Ok(answer["challenge"] == Value::String(challenge))
}

async fn answer(mut response: Response) -> Option<Value> {
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}

async fn post(
    outbound: &Outbound,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
) -> Result<Response, OutboundError> {
    let request = Request {
        method: Method::POST,
        url: url.clone(),
        headers,
        origin_headers: HeaderMap::new(),
        body,
        timeout,
        redirects: Redirects::Return,
    };
    outbound.send(request).await
}

fn reason(error: &OutboundError) -> String {
    error.to_string().chars().take(REASON).collect()
}
