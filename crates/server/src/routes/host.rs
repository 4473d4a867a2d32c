//! The server's own documents.

use hyper::header::{CACHE_CONTROL, ETAG, VARY};
use hyper::{HeaderMap, Method, StatusCode};
use kernel::digest::Digest;

use super::runs::is_known;
use crate::contract;
use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            contract::WELL_KNOWN,
            Access::Anyone,
            discovery,
            Doc {
                operation: "getCapabilities",
                summary: "The capabilities of this server",
                parameters: &[],
                request: None,
                responses: &[(200, "Capabilities")],
            },
        ),
        Route::new(
            Method::GET,
            "/v1/openapi.json",
            Access::Anyone,
            openapi,
            Doc {
                operation: "getOpenApi",
                summary: "This document",
                parameters: &[],
                request: None,
                responses: &[(200, "OpenApi")],
            },
        ),
    ]
}

async fn discovery(cx: Cx) -> Result<Reply, Problem> {
    // The pipeline has refused any other version.
    let asked = cx.header(contract::NAME)?.unwrap_or_default();
    let document = if asked.trim().starts_with('2') {
        cx.app.discovery_v2()
    } else {
        cx.app.discovery()
    };
    let tag = format!("\"{}\"", Digest::compute(&document));
    if is_known(&cx.headers, &tag) {
        return Ok(Reply::Whole {
            status: StatusCode::NOT_MODIFIED,
            headers: HeaderMap::new(),
            body: bytes::Bytes::new(),
        }
        .with(ETAG, tag)
        .with(VARY, contract::NAME));
    }
    Ok(cached(document).with(ETAG, tag).with(VARY, contract::NAME))
}

async fn openapi(cx: Cx) -> Result<Reply, Problem> {
    Ok(cached(cx.app.openapi()))
}

pub(super) fn cached(body: bytes::Bytes) -> Reply {
    Reply::bytes(StatusCode::OK, JSON, body).with(CACHE_CONTROL, "public, max-age=300")
}
