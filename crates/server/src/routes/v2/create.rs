//! Creating runs.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use kernel::registry::WebhookContract;
use runtime::access::Action;
use serde_json::{Map, Value, json};

use super::{address, check_fields, closed, settings};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::create as v1;

const DEDUP: HeaderName = HeaderName::from_static("openwop-dedup");
const FORCE_ENGINE: HeaderName = HeaderName::from_static("openwop-force-engine-version");
/// Headers of v1 and what v2 calls them.
const HEADERS: [(HeaderName, HeaderName); 2] = [
    (HeaderName::from_static("x-dedup"), DEDUP),
    (
        HeaderName::from_static("x-force-engine-version"),
        FORCE_ENGINE,
    ),
];
/// The fields of a creation.
const FIELDS: [&str; 12] = [
    "workflowId",
    "inputs",
    "tenantId",
    "scopeId",
    "residency",
    "callbackUrl",
    "mode",
    "evalSuiteRef",
    "agentId",
    "configurable",
    "tags",
    "metadata",
];

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        Method::POST,
        "/runs",
        Access::May(Action::CreateRun),
        create,
        Doc {
            operation: "createRun",
            summary: "Creates a run and drives it",
            parameters: &[
                (
                    "header",
                    "Idempotency-Key",
                    "22 to 128 characters; the same key and body create one run",
                ),
                (
                    "header",
                    "OpenWOP-Dedup",
                    "enforce: refuse while a run of the same workflow and scope is active",
                ),
                (
                    "header",
                    "OpenWOP-Force-Engine-Version",
                    "with test keys: the engine version of the run",
                ),
            ],
            request: Some("RunOrder"),
            responses: &[(201, "CreatedRun")],
        },
    )]
}

async fn create(mut cx: Cx) -> Result<Reply, Problem> {
    let who = cx.who()?;
    let mut body = cx.object().await?;
    read(&mut body)?;
    cx.put_body(&body);
    for (older, name) in HEADERS {
        cx.headers.remove(&older);
        let given: Vec<HeaderValue> = cx.headers.get_all(&name).iter().cloned().collect();
        for value in given {
            cx.headers.append(older.clone(), value);
        }
    }
    let reply = v1::create_in(cx, WebhookContract::V2).await?;
    Ok(reply.map(|mut doc| {
        let run = doc["runId"].as_str().unwrap_or_default().to_owned();
        let at = address(&who, &run);
        doc["eventsUrl"] = json!(format!("{at}/events"));
        doc["statusUrl"] = json!(at);
        let doc = super::bound(&who, doc, &["runId"]);
        closed(doc, &["runId", "status", "eventsUrl", "statusUrl"])
    }))
}

/// Makes a v1 body of a v2 one. Options that are not served are refused by name.
fn read(body: &mut Map<String, Value>) -> Result<(), Problem> {
    body.retain(|_, value| !value.is_null());
    check_fields(body, &FIELDS)?;
    if body.contains_key("residency") {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "residency_unavailable",
            "this server does not offer regions; remove residency",
        )
        .with("field", "residency"));
    }
    settings(body, "")
}
