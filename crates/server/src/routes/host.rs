//! The server's own documents.

use hyper::header::CACHE_CONTROL;
use hyper::{Method, StatusCode};

use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/.well-known/openwop",
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
    Ok(cached(cx.app.discovery()))
}

async fn openapi(cx: Cx) -> Result<Reply, Problem> {
    Ok(cached(cx.app.openapi()))
}

fn cached(body: bytes::Bytes) -> Reply {
    Reply::bytes(StatusCode::OK, JSON, body).with(CACHE_CONTROL, "public, max-age=300")
}
