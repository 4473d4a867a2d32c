//! The stages of every request, in the protocol's order: request id, host and page of origin (403),
//! credentials (401), rate (429), admission (503), scope (403), then the handler: ownership (404),
//! the request itself (400), its state (409). Every error response is an envelope.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use faces::openwop::v2;
use futures_util::FutureExt;
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, VARY,
};
use hyper::{HeaderMap, Method, StatusCode};
use runtime::access::{Action, Denied, Principal, Resource, What, authorise, trail};
use runtime::api::Api;
use runtime::api::ApiError;
use tracing::Instrument as _;

use crate::admission;
use crate::app::{App, Phase};
use crate::contract::{self, Contract};
use crate::cors;
use crate::encode::Encoding;
use crate::idempotency;
use crate::origin;
use crate::params::Query;
use crate::problem::Problem;
use crate::reply::{REPLAYED, Reply, refusal};
use crate::route::{Access, Cx, Route, Table};
use crate::routes::workbench;
use crate::session;
use crate::token;
use crate::trace::{REQUEST_ID, TRACEPARENT, Trace};
use crate::unread_body::{Unread, UnreadBody};

/// Lists the ignored parts of a request.
const WARNING: HeaderName = HeaderName::from_static("runwright-warning");

/// Handles a request.
pub(crate) async fn answer(
    app: App,
    table: Option<Arc<Table>>,
    params: Option<RawPathParams>,
    mut request: Request,
) -> Response {
    let began = Instant::now();
    let rest = UnreadBody::take(&mut request);
    let unread = request.extensions().get::<Unread>().cloned();
    let trace = Trace::from_headers(request.headers());
    let method = request.method().clone();
    let encoding = Encoding::from_headers(request.headers());
    let (contract, negotiated) = Contract::negotiate(&request);
    let version = contract.version(request.uri().path());
    let origins = &app.limits().origins;
    let page = origin::allowed(request.headers(), origins);
    if let (Some(page), Some(mut response)) = (&page, cors::preflight(&request)) {
        cors::share(&mut response, page.clone());
        cors::vary(&mut response);
        rest.clear_up(&mut response, unread.as_ref()).await;
        return response;
    }
    let found = find(table.as_deref(), params, &request);
    let found = found.and_then(|found| of_contract(found, contract));
    let mut passed_over = None;
    let changes = !matches!(method, Method::GET | Method::HEAD);
    let is_keyed = changes
        && contract != Contract::Workbench
        && request.headers().contains_key(idempotency::KEY);
    let route = found.as_ref().ok().map(|(route, _)| &**route);
    if route.is_some_and(Route::takes_token) {
        take_token(&mut request);
    }
    let head = check_head(&app, &request).and(negotiated);
    let is_probe = route.is_some_and(|route| route.is_probe) && origin::is_unnamed(&request);
    let checked = if is_probe {
        Ok(())
    } else {
        origin::check(&request, app.limits())
    };
    let admitted = match head {
        Ok(()) => admit(&app, request.headers(), route, checked).await,
        Err(problem) => Err(problem),
    };
    let (route, result, tenant) = match (admitted, found) {
        (Err(problem), found) => (found.ok().map(|(route, _)| route), Err(problem), None),
        (Ok(()), Ok((route, params))) => {
            if contract != Contract::Workbench {
                passed_over = route.passed_over(&Query::from_uri(request.uri()));
            }
            let (result, tenant) = handle(&app, &route, params, request, &trace).await;
            (Some(route), result, tenant)
        }
        (Ok(()), Err(problem)) => (None, unrouted(&request, contract, problem), None),
    };
    let result = match contract {
        Contract::Two => result.map_err(|problem| problem.in_v2(tenant.as_deref())),
        Contract::One | Contract::Workbench => result,
    };
    let code = result.as_ref().err().map(|problem| problem.code);
    let mut response = match result {
        Ok(reply) => whole(reply, &method, encoding),
        Err(mut problem) => {
            if problem.status.is_server_error() {
                problem = problem.with("correlationId", trace.id());
            }
            match contract {
                Contract::One | Contract::Two => refusal(&problem),
                Contract::Workbench => workbench::refusal(&problem),
            }
        }
    };
    if let Some(page) = page {
        cors::share(&mut response, page);
    }
    if !origins.is_empty() {
        cors::vary(&mut response);
    }
    let headers = response.headers_mut();
    if let Some(warning) = passed_over.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(WARNING, warning);
    }
    headers.insert(REQUEST_ID, trace.id.clone());
    if let Some(version) = version {
        headers.insert(contract::HEADER, version);
    }
    if let Some(sunset) = app.sunset()
        && contract == Contract::One
        && route.as_ref().is_some_and(|route| route.has_successor)
    {
        sunset.announce(headers);
    }
    if is_keyed && route.is_some() && !headers.contains_key(REPLAYED) {
        // Rejected before its key was read.
        headers.insert(REPLAYED, HeaderValue::from_static("false"));
    }
    if let Some(parent) = &trace.parent {
        headers.insert(TRACEPARENT, parent.clone());
    }
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    let path = route.as_ref().map_or("none", |route| route.path);
    let status = response.status();
    rest.clear_up(&mut response, unread.as_ref()).await;
    let took = began.elapsed();
    let is_held = route.as_ref().is_some_and(|route| route.is_held);
    let is_slow = took >= app.limits().slow_answer && !is_held;
    app.metrics().answered(path, &method, status, took);
    let answered = Answered {
        method: &method,
        route: path,
        status,
        tenant: tenant.as_deref(),
        code,
        took,
        is_slow,
    };
    answered.log(&trace);
    response
}

/// A response in the log. The URL itself is not logged: it may contain secrets.
struct Answered<'a> {
    method: &'a Method,
    route: &'a str,
    status: StatusCode,
    tenant: Option<&'a str>,
    code: Option<&'a str>,
    took: std::time::Duration,
    is_slow: bool,
}

impl Answered<'_> {
    /// A server error and a slow response are warnings.
    fn log(&self, trace: &Trace) {
        macro_rules! answered {
            ($level:expr) => {
                tracing::event!(
                    target: "server::request",
                    $level,
                    request_id = trace.id(),
                    traceparent = trace.parent(),
                    trace_id = trace.trace_id(),
                    code = self.code,
                    method = self.method.as_str(),
                    route = self.route,
                    status = self.status.as_u16(),
                    tenant = self.tenant,
                    slow = self.is_slow,
                    micros = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
                    "answered"
                )
            };
        }
        if self.status.is_server_error() || self.is_slow {
            answered!(tracing::Level::WARN)
        } else {
            answered!(tracing::Level::DEBUG)
        }
    }
}

/// Accepts a read token in the query. Other credentials are ignored there: URLs are kept in
/// histories and logs.
fn take_token(request: &mut Request) {
    let query = Query::from_uri(request.uri());
    let token = query
        .get("access_token")
        .filter(|it| Api::is_read_token(it));
    let value = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    if let Some(value) = value
        && !request.headers().contains_key(AUTHORIZATION)
    {
        request.headers_mut().insert(AUTHORIZATION, value);
    }
}

/// Whether a request has a credential in its own header, valid or not.
fn has_credential(app: &App, headers: &HeaderMap) -> bool {
    app.gate().asks() && headers.contains_key(AUTHORIZATION)
}

/// Rejects requests that a foreign page or a foreign host name can send. Runs before every route,
/// so that none escapes it.
async fn admit(
    app: &App,
    headers: &HeaderMap,
    route: Option<&Route>,
    checked: Result<(), Problem>,
) -> Result<(), Problem> {
    let has_credential = has_credential(app, headers);
    match (checked, route.map(|route| route.access)) {
        (Err(problem), _) if !has_credential => Err(problem),
        // A header alone proves nothing: a page with a foreign host name may send any.
        (Err(_), None | Some(Access::Anyone)) => app.caller(headers).await.map(|_| ()),
        // Its credential is checked next.
        (Err(_), Some(Access::May(_))) => Ok(()),
        (Ok(()), _) => Ok(()),
    }
}

/// The connection accepts a little more than the limits: here they are exact.
fn check_head(app: &App, request: &Request) -> Result<(), Problem> {
    let limits = app.limits();
    let address = request
        .uri()
        .path_and_query()
        .map_or(0, |it| it.as_str().len());
    if address > limits.address_bytes {
        return Err(Problem::address_too_long());
    }
    let sizes = request.headers().iter();
    let bytes: usize = sizes
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > limits.head_bytes {
        Err(Problem::headers_too_large())
    } else {
        Ok(())
    }
}

type Params = Vec<(String, String)>;

fn find(
    table: Option<&Table>,
    params: Option<RawPathParams>,
    request: &Request,
) -> Result<(Arc<Route>, Params), Problem> {
    let table = table.ok_or_else(Problem::no_route)?;
    // Parameters that are not UTF-8 match nothing.
    let params = params.ok_or_else(Problem::no_route)?;
    let mut params: Params = params
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let last = params.last().map(|(_, value)| value.as_str());
    let (route, without_verb) = table.find(request.method(), last)?;
    let without_verb = without_verb.map(str::to_owned);
    if let (Some((_, value)), Some(without)) = (params.last_mut(), without_verb) {
        *value = without;
    }
    Ok((route, params))
}

/// The response for an unknown route.
fn unrouted(request: &Request, contract: Contract, problem: Problem) -> Result<Reply, Problem> {
    let path = request.uri().path();
    if problem.status != StatusCode::NOT_FOUND || contract != Contract::One {
        return Err(problem);
    }
    // A host without a pack registry says so in plain text, which clients take as "none here".
    if path.starts_with("/v1/packs") {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        return Ok(Reply::bytes(
            StatusCode::NOT_FOUND,
            text,
            "no pack registry here\n".into(),
        ));
    }
    // The protocol requires this response here, unlike the 404 of other families that are not
    // served.
    if let Some(rest) = path.strip_prefix("/v1/prompts")
        && (rest.is_empty() || rest.starts_with(['/', ':', '%']))
    {
        let capability = "prompts";
        return Err(ApiError::NotProvided { capability }.into());
    }
    let root = path.trim_start_matches('/').split(['/', ':']).next();
    if matches!(
        root,
        Some("runs" | "workflows" | "interrupts" | "webhooks" | "audit")
    ) {
        return Err(Problem::unversioned());
    }
    Err(problem)
}

/// The route that was found, where it belongs to the contract of the request. An address without a
/// version belongs to OpenWOP 2; the address of discovery answers in both.
fn of_contract(
    found: (Arc<Route>, Params),
    contract: Contract,
) -> Result<(Arc<Route>, Params), Problem> {
    match (found.0.contract, contract) {
        (Contract::Two, Contract::One) => Err(Problem::unversioned()),
        _ => Ok(found),
    }
}

/// Reads the ids of a v2 address: the tenant in front of an id is the caller's own.
fn bind(params: &mut Params, who: Option<&Principal>) -> Result<(), Problem> {
    for (name, value) in params {
        if name == "token" {
            *value = token::read(value)?;
        }
        if !matches!(name.as_str(), "runId" | "webhookId") {
            continue;
        }
        let bound = v2::unproject(value).map_err(|_| {
            Problem::invalid(
                "an id in the address has an invalid escape; write `~` and two hex digits",
            )
        })?;
        let own = who.map(|who| who.tenant.as_str());
        if bound
            .tenant
            .as_deref()
            .is_some_and(|tenant| Some(tenant) != own)
        {
            return Err(Problem::foreign_tenant());
        }
        *value = bound.id;
    }
    Ok(())
}

async fn handle(
    app: &App,
    route: &Arc<Route>,
    mut params: Params,
    mut request: Request,
    trace: &Trace,
) -> (Result<Reply, Problem>, Option<String>) {
    let has_credential = has_credential(app, request.headers());
    let who = match route.access {
        Access::Anyone => None,
        Access::May(_)
            if route.path.starts_with(workbench::ROOT)
                && let Err(problem) = workbench::admit_session(&mut request) =>
        {
            return (Err(problem), None);
        }
        Access::May(_) if let Err(problem) = session::admit(app, request.headers_mut()) => {
            return (Err(problem), None);
        }
        Access::May(_) => match app.caller(request.headers()).await {
            Ok(who) => Some(who),
            Err(problem) => return (Err(problem), None),
        },
    };
    let tenant = who.as_ref().map(|who| who.tenant.to_string());
    if !has_credential && let Err(problem) = origin::check_body(&request) {
        return (Err(problem), tenant);
    }
    if let Some(who) = &who
        && let Err(problem) = app.rates().check(who)
    {
        return (Err(problem), tenant);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && app.phase() == Phase::Draining {
        let problem = Problem::unavailable("the server is being stopped; try again");
        return (Err(problem), tenant);
    }
    if route.contract == Contract::Two
        && let Err(problem) = bind(&mut params, who.as_deref())
            .and_then(|()| idempotency::check_v2(request.method(), request.headers()))
    {
        return (Err(problem), tenant);
    }
    // Held until the run exists.
    let _place = match route.access {
        Access::May(action) => match admission::check(app, action).await {
            Ok(place) => place,
            Err(problem) => return (Err(problem), tenant),
        },
        Access::Anyone => None,
    };
    if let (Access::May(action), Some(who)) = (route.access, &who) {
        let named = params.iter().find(|(name, _)| name == "runId");
        let only = who.run.as_ref().map(|run| run.as_str());
        let is_beside = only.is_some_and(|run| changes || named.is_none_or(|(_, it)| it != run));
        let permitted = if is_beside {
            Err(Problem::one_run())
        } else {
            permit(app, who, action, trace).await
        };
        if let Err(problem) = permitted {
            return (Err(problem), tenant);
        }
    }
    if route.is_closed
        && let Some(problem) = route.passed_over(&Query::from_uri(request.uri()))
    {
        return (Err(Problem::invalid(problem)), tenant);
    }
    let (parts, body) = request.into_parts();
    let cx = Cx {
        app: app.clone(),
        who,
        uri: parts.uri,
        headers: parts.headers,
        params,
        body,
        trace: trace.clone(),
        effect: None,
        memory: Vec::new(),
    };
    let result = if route.is_keyed {
        idempotency::answer(route.clone(), cx).await
    } else {
        call(route, cx).await
    };
    (result, tenant)
}

/// Calls a handler within the time limit of a response. A panic is a server error.
pub(crate) async fn call(route: &Route, cx: Cx) -> Result<Reply, Problem> {
    let (time, trace) = (cx.app.limits().answer_time, cx.trace.clone());
    let tenant = cx.who.as_ref().map(|who| who.tenant.to_string());
    // Log lines about runs carry the id of this request.
    let span = tracing::info_span!("request", request_id = trace.id());
    let call = AssertUnwindSafe(async { route.call(cx).await }).catch_unwind();
    match tokio::time::timeout(time, call).instrument(span).await {
        Ok(Ok(result)) if route.contract == Contract::Two => {
            // Here, so that an answer that is kept under a key is in the words of its contract.
            result.map_err(|problem| problem.in_v2(tenant.as_deref()))
        }
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            tracing::error!(
                request_id = trace.id(),
                route = route.path,
                "a handler panicked"
            );
            Err(Problem::internal())
        }
        Err(_) => {
            tracing::warn!(
                request_id = trace.id(),
                route = route.path,
                "an answer took too long"
            );
            Err(Problem::unavailable("the answer took too long; try again"))
        }
    }
}

/// Checks the caller's scope for the route. Denied administrative actions are recorded on the
/// tenant's trail.
async fn permit(app: &App, who: &Principal, action: Action, trace: &Trace) -> Result<(), Problem> {
    let what = match action {
        Action::ReadWorkflows | Action::WriteWorkflows => What::Workflows,
        Action::ManageWebhooks => What::Webhooks,
        Action::ReadAudit => What::Audit,
        _ => who.run.clone().map_or(What::Runs, What::Run),
    };
    let resource = Resource::own(who, what);
    let Err(denied) = authorise(who, action, &resource) else {
        return Ok(());
    };
    let store = app.api().engine().door().store();
    let id = Some(trace.id());
    if let Err(error) = trail::record_denial(&**store, who, action, &resource, denied, id).await {
        tracing::warn!(%error, "a denial was not written to the audit trail");
    }
    Err(match denied {
        Denied::Scope { needs } => Problem::scope(needs.as_str()),
        Denied::NotFound => Problem::no_route(),
    })
}

/// A reply as bytes, encoded if the client accepts it.
fn whole(reply: Reply, method: &Method, encoding: Option<Encoding>) -> Response {
    let (status, mut headers, mut body) = match reply {
        Reply::Ready(response) => return response,
        Reply::Whole {
            status,
            headers,
            body,
        } => (status, headers, body),
    };
    let may_encode = status == StatusCode::OK && matches!(*method, Method::GET | Method::HEAD);
    if may_encode {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
        if let Some(encoding) = encoding
            && let Some(encoded) = encoding.encode(&body)
        {
            headers.insert(CONTENT_ENCODING, encoding.header());
            body = encoded;
        }
    }
    respond(status, headers, body)
}

fn respond(status: StatusCode, headers: HeaderMap, body: bytes::Bytes) -> Response {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if status != StatusCode::NOT_MODIFIED && status != StatusCode::NO_CONTENT {
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    response
}
