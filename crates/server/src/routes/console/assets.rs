//! The files of the console.

use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, X_FRAME_OPTIONS,
};
use hyper::{HeaderMap, Method, StatusCode};
use kernel::digest::Digest;

use crate::contract::CONSOLE_ROOT;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::routes::runs::is_known;

/// Scripts, styles and requests of this server only; no inline code, no `eval`, no frames. Images
/// may be made from downloaded bytes.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' blob: data:; connect-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file: its address, its media type, its bytes.
struct Asset(&'static str, &'static str, &'static [u8]);

/// The code of the pages.
pub(super) const SCRIPT: &[u8] = include_bytes!("../../../../../console/dist/console.js");
/// Their style.
pub(super) const STYLE: &[u8] = include_bytes!("../../../../../console/dist/console.css");

static ASSETS: [Asset; 4] = [
    Asset(
        CONSOLE_ROOT,
        "text/html; charset=utf-8",
        include_bytes!("../../../../../console/dist/index.html"),
    ),
    Asset(
        "/console/console.js",
        "text/javascript; charset=utf-8",
        SCRIPT,
    ),
    Asset("/console/console.css", "text/css; charset=utf-8", STYLE),
    Asset(
        "/console/icon.svg",
        "image/svg+xml",
        include_bytes!("../../../../../console/dist/icon.svg"),
    ),
];
/// The address with a slash at its end, which people type.
const WITH_SLASH: &str = "/console/";

/// Whether a path is that of a file instead of an operation.
pub(crate) fn is_asset(path: &str) -> bool {
    path == WITH_SLASH || ASSETS.iter().any(|asset| asset.0 == path)
}

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let files = ASSETS.iter().map(|asset| {
        let handler = move |cx: Cx| async move { Ok(asset.reply(&cx)) };
        Route::new(Method::GET, asset.0, Access::Anyone, handler, doc())
    });
    let redirect = Route::new(Method::GET, WITH_SLASH, Access::Anyone, redirect, doc());
    files.chain([redirect]).collect()
}

fn doc() -> Doc {
    Doc {
        operation: "getConsole",
        summary: "A file of the console",
        parameters: &[],
        request: None,
        responses: &[],
    }
}

async fn redirect(_: Cx) -> Result<Reply, Problem> {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let reply = Reply::bytes(StatusCode::PERMANENT_REDIRECT, text, Bytes::new());
    // Relative, as a proxy may add a prefix.
    Ok(reply.with(LOCATION, "../console"))
}

impl Asset {
    fn reply(&self, cx: &Cx) -> Reply {
        let Self(_, media, bytes) = self;
        let tag = format!("\"{}\"", Digest::compute(bytes));
        let (status, body) = if is_known(&cx.headers, &tag) {
            (StatusCode::NOT_MODIFIED, Bytes::new())
        } else {
            (StatusCode::OK, Bytes::from_static(bytes))
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        for (name, value) in [
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (REFERRER_POLICY, "no-referrer"),
            (X_FRAME_OPTIONS, "DENY"),
            (
                HeaderName::from_static("cross-origin-opener-policy"),
                "same-origin",
            ),
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                "same-origin",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Reply::Whole {
            status,
            headers,
            body,
        }
        .with(ETAG, tag)
    }
}
