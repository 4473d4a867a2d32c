//! The OpenAPI document and the effect seams.

use std::io::Read as _;

use hyper::Method;
use kernel::digest::Hasher;
use runtime::access::Action;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::doc;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Route};
use crate::routes::host::cached;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/host/effect-seams",
            Access::May(Action::ReadRun),
            seams,
            doc(
                "getEffectSeams",
                "Lists every outside effect of nodes, and how a replay prevents it",
                None,
                &[(200, "EffectSeams")],
            ),
        ),
        Route::new(
            Method::GET,
            "/openapi.json",
            Access::Anyone,
            openapi,
            doc("getOpenApi", "This document", None, &[(200, "OpenApi")]),
        ),
    ]
}

/// The ways to the outside: name, kind, and the mechanism of those that the protocol has no kind
/// for. A branch takes each of them again.
const SEAMS: [(&str, &str, Option<&str>); 8] = [
    ("model.call", "provider-sdk", None),
    ("http.request", "http", None),
    ("mcp.call", "http", None),
    (
        "mcp.stdio",
        "other",
        Some("a tool server as a child process"),
    ),
    ("process.run", "other", Some("a child process")),
    ("worker.task", "queue", None),
    ("artifact.write", "storage", None),
    ("webhook.delivery", "webhook-fanout", None),
];

/// The SHA-256 of the running program, read once.
async fn program_digest() -> String {
    static DIGEST: OnceCell<String> = OnceCell::const_new();
    let read = || async {
        let read = tokio::task::spawn_blocking(digest_of_program).await;
        let digest = read.ok().and_then(Result::ok);
        digest.unwrap_or_else(|| "unknown".to_owned())
    };
    DIGEST.get_or_init(read).await.clone()
}

fn digest_of_program() -> std::io::Result<String> {
    let mut file = std::fs::File::open(std::env::current_exe()?)?;
    let (mut hasher, mut part) = (Hasher::default(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hasher.finish().to_string()),
            read => hasher.update(&part[..read]),
        }
    }
}

async fn seams(_: Cx) -> Result<Reply, Problem> {
    let seams: Vec<Value> = SEAMS
        .iter()
        .map(|(seam, kind, note)| {
            let mut row = json!({
                "seam": seam,
                "kind": kind,
                "guarded": true,
                "guardedBy": "a replay decides the log of its source again and starts no node",
                "branchReFires": true,
            });
            if let Some(note) = note {
                row["note"] = json!(note);
            }
            row
        })
        .collect();
    let build = json!({ "kind": "artifact-sha256", "id": program_digest().await });
    Ok(Reply::ok(&json!({
        "manifestVersion": "1",
        "host": { "name": "runwright", "build": build },
        "seams": seams,
    })))
}

async fn openapi(cx: Cx) -> Result<Reply, Problem> {
    Ok(cached(cx.app.openapi_v2()))
}
