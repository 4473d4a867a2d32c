//! Sessions: a key or token becomes a cookie that scripts cannot read.

use hyper::header::{AUTHORIZATION, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, Method, StatusCode};
use runtime::access::{AuthError, Principal, Scopes};
use runtime::api::{Api, SESSION_LIFE};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth;
use crate::origin;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::session::{SECRET, cookie, cookie_name};

const PATH: &str = "/console/session";
/// The longest cookie that browsers keep.
const MAX_COOKIE_BYTES: usize = 4_096;
/// The longest key or token.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let doc = |operation, summary, request, responses| Doc {
        operation,
        summary,
        parameters: &[],
        request,
        responses,
    };
    vec![
        Route::new(
            Method::GET,
            PATH,
            Access::Anyone,
            show,
            doc(
                "getSession",
                "The session of the console in this browser",
                None,
                &[(200, "Session")],
            ),
        )
        .closed(),
        Route::new(
            Method::POST,
            PATH,
            Access::Anyone,
            sign_in,
            doc(
                "signIn",
                "Begins a session of the console for a key or token",
                Some("SignIn"),
                &[(200, "Session")],
            ),
        )
        .closed(),
        Route::new(
            Method::DELETE,
            PATH,
            Access::Anyone,
            sign_out,
            doc(
                "signOut",
                "Ends the session of the console in this browser",
                None,
                &[(204, "")],
            ),
        )
        .closed(),
    ]
}

async fn show(cx: Cx) -> Result<Reply, Problem> {
    origin::check_own_page(&cx.headers)?;
    if !cx.app.gate().asks() {
        return open(&cx.app, &cx.headers).await;
    }
    let signed_out = || Ok(Reply::ok(&json!({ "signedIn": false })));
    // The cookie alone proves nothing: browsers send it to servers on other ports, too.
    let (Some(text), Some(given)) = (cookie(&cx.headers), cx.headers.get(SECRET)) else {
        return signed_out();
    };
    let session = match cx.app.api().session(&text) {
        Ok(session) if given.as_bytes() == session.page_secret.as_bytes() => session,
        Err(AuthError::Unavailable) => return Err(AuthError::Unavailable.into()),
        Ok(_) | Err(_) => return signed_out(),
    };
    let who = match cx.app.caller(&bearer(&session.bearer)?).await {
        Ok(who) => who,
        // Revoked or expired since.
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => return signed_out(),
        Err(problem) => return Err(problem),
    };
    let mut doc = described(&who);
    doc["expiresAt"] = json!(session.expires_at.to_string());
    Ok(Reply::ok(&doc))
}

async fn sign_in(mut cx: Cx) -> Result<Reply, Problem> {
    origin::check_own_page(&cx.headers)?;
    let mut body = cx.object().await?;
    let token = body.remove("token");
    let token = token.as_ref().and_then(Value::as_str).map(str::trim);
    let fits = |token: &&str| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES;
    let (Some(token), true) = (token.filter(fits), body.is_empty()) else {
        return Err(Problem::invalid("the body has token, a key or a JWT"));
    };
    if !cx.app.gate().asks() {
        return open(&cx.app, &cx.headers).await;
    }
    if Api::is_read_token(token) {
        return Err(Problem::one_run());
    }
    let who = cx.app.caller(&bearer(token)?).await?;
    let (session, text) = cx.app.api().begin_session(token)?;
    if cookie_name(&cx.headers).len() + 1 + text.len() > MAX_COOKIE_BYTES {
        let message = "the token is too long for the cookie of a browser; sign in with an API key";
        return Err(Problem::invalid(message));
    }
    let mut doc = described(&who);
    doc["secret"] = json!(session.page_secret);
    doc["expiresAt"] = json!(session.expires_at.to_string());
    let life = SESSION_LIFE.as_secs();
    Ok(Reply::ok(&doc).with(SET_COOKIE, written(&cx.headers, &text, life)))
}

async fn sign_out(cx: Cx) -> Result<Reply, Problem> {
    origin::check_own_page(&cx.headers)?;
    let reply = Reply::Whole {
        status: StatusCode::NO_CONTENT,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
    };
    Ok(reply.with(SET_COOKIE, written(&cx.headers, "", 0)))
}

/// The session of a server that requires no credential.
async fn open(app: &App, headers: &HeaderMap) -> Result<Reply, Problem> {
    let who = app.caller(headers).await?;
    let mut doc = described(&who);
    doc["open"] = json!(true);
    Ok(Reply::ok(&doc))
}

fn described(who: &Principal) -> Value {
    let scopes = match &who.scopes {
        Scopes::Everything => vec!["*".to_owned()],
        Scopes::Only(scopes) => scopes.iter().map(|one| one.as_str().to_owned()).collect(),
    };
    let mut doc = json!({
        "signedIn": true, "tenant": who.tenant, "principal": who.id, "scopes": scopes,
    });
    if let Some(workspace) = &who.workspace {
        doc["workspace"] = json!(workspace);
    }
    doc
}

/// A credential as the header of a request.
fn bearer(token: &str) -> Result<HeaderMap, Problem> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let value = value.map_err(|_| Problem::invalid_token())?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    auth::token(&headers)?;
    Ok(headers)
}

/// The header that sets the cookie. Browsers that came by https return it by https only.
fn written(headers: &HeaderMap, text: &str, seconds: u64) -> String {
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    let is_https = origin.is_some_and(|origin| origin.starts_with(b"https://"));
    let secure = if is_https { "; Secure" } else { "" };
    let name = cookie_name(headers);
    format!("{name}={text}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

/// The bodies of this group.
pub(crate) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "SignIn": {
            "type": "object", "required": ["token"], "additionalProperties": false,
            "properties": { "token": { "type": "string", "minLength": 1 } },
        },
        "Session": {
            "type": "object", "required": ["signedIn"], "additionalProperties": false,
            "properties": {
                "signedIn": { "type": "boolean" },
                "open": { "type": "boolean", "description": "the server requires no key" },
                "tenant": text, "workspace": text, "principal": text,
                "scopes": { "type": "array", "items": text },
                "secret": {
                    "type": "string",
                    "description": "the value of X-Runwright-Session in requests of the session",
                },
                "expiresAt": { "type": "string", "format": "date-time" },
            },
        },
    })
}
