//! The table of routes: method, path, access, handler, and documentation.
//!
//! A route that changes something is made with `Route::new` and `.keyed()`: then a request with an
//! `Idempotency-Key` has one effect, and its response is repeated. The handler's only duty is that
//! its effect can begin again after a crash: it names the objects it creates by `Cx::effect` and
//! looks for them first, and checks `Cx::is_repeated` where the rules would reject a second
//! execution. Bodies are stored sealed, so that a response may contain a secret that is shown once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use kernel::limits::MAX_JSON_DEPTH;
use runtime::access::{Action, Principal};
use runtime::api::Effect;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::app::App;
use crate::body;
use crate::contract::Contract;
use crate::limits::Limits;
use crate::memory::Taken;
use crate::params::Query;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::trace::Trace;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every caller, without a credential.
    Anyone,
    /// Callers whose credential allows the action. The command API decides about the object.
    May(Action),
}

/// A route's part of the OpenAPI document.
#[derive(Clone, Debug)]
pub struct Doc {
    /// The operation id.
    pub operation: &'static str,
    /// A summary in one sentence.
    pub summary: &'static str,
    /// Query parameters and headers: (in, name, description).
    pub parameters: &'static [(&'static str, &'static str, &'static str)],
    /// The component that describes the request's body.
    pub request: Option<&'static str>,
    /// Statuses and the components that describe their bodies; empty for none.
    pub responses: &'static [(u16, &'static str)],
}

/// A query parameter for a read token.
pub(crate) const ACCESS_TOKEN: (&str, &str, &str) = (
    "query",
    "access_token",
    "a token that reads this run, for clients that cannot send headers",
);

type Answer = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;
type Handler = Arc<dyn Fn(Cx) -> Answer + Send + Sync>;

/// A route. The constructor requires its access rule.
#[derive(Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path in OpenAPI's notation, with parameters in braces. A last segment may end in a verb:
    /// `{runId}:cancel`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Its documentation.
    pub doc: Doc,
    /// Whether the pipeline honours an `Idempotency-Key`.
    pub is_keyed: bool,
    /// Whether a query with an undocumented name is rejected. Otherwise, as the protocol lets
    /// clients send more than a host knows, the response reports that it was ignored.
    pub is_closed: bool,
    /// The wire format of its answers.
    pub(crate) contract: Contract,
    /// Whether OpenWOP 2 has the same route without the version.
    pub(crate) has_successor: bool,
    /// Whether it is a health probe: it reveals nothing, so that a request needs no host.
    pub(crate) is_probe: bool,
    /// Whether a response may be held until there is something to send.
    pub is_held: bool,
    /// The body limit in bytes, if it differs from the default.
    body: Option<fn(&Limits) -> usize>,
    handler: Handler,
}

impl Route {
    /// A route.
    pub(crate) fn new<F, A>(
        method: Method,
        path: &'static str,
        access: Access,
        handler: F,
        doc: Doc,
    ) -> Self
    where
        F: Fn(Cx) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Self {
            method,
            path,
            access,
            doc,
            is_keyed: false,
            is_closed: false,
            contract: Contract::One,
            has_successor: false,
            is_probe: false,
            is_held: false,
            body: None,
            handler: Arc::new(move |cx| Box::pin(handler(cx))),
        }
    }

    /// The same route; equal requests with one `Idempotency-Key` have one effect and one response.
    pub(crate) fn keyed(self) -> Self {
        Self {
            is_keyed: true,
            ..self
        }
    }

    /// The same route, also for requests that name no host.
    pub(crate) fn for_probes(self) -> Self {
        Self {
            is_probe: true,
            ..self
        }
    }

    /// The same route, as one of OpenWOP 2.
    pub(crate) fn v2(self) -> Self {
        Self {
            contract: Contract::Two,
            ..self
        }
    }

    /// The same route with another body limit.
    pub(crate) fn takes(self, bytes: fn(&Limits) -> usize) -> Self {
        Self {
            body: Some(bytes),
            ..self
        }
    }

    /// The largest body in bytes that its handler can read.
    pub(crate) fn body_bytes(&self, limits: &Limits) -> usize {
        let usual = limits.body_bytes.max(limits.definition_bytes);
        self.body.map_or(usual, |bytes| bytes(limits))
    }

    /// The same route; its response may be held until there is something to send.
    pub(crate) fn held(self) -> Self {
        Self {
            is_held: true,
            ..self
        }
    }

    /// The same route; it rejects unknown query parameters: for routes outside the protocol.
    pub(crate) fn closed(self) -> Self {
        Self {
            is_closed: true,
            ..self
        }
    }

    /// Whether it accepts a read token in the query, as `EventSource` cannot set headers.
    pub(crate) fn takes_token(&self) -> bool {
        self.doc.parameters.contains(&ACCESS_TOKEN)
    }

    /// The report of a query name that the route does not read.
    pub(crate) fn passed_over(&self, query: &Query) -> Option<String> {
        let read = || {
            let parameters = self.doc.parameters.iter();
            parameters.filter_map(|(place, name, _)| (*place == "query").then_some(*name))
        };
        if query.names().all(|name| read().any(|read| read == name)) {
            return None;
        }
        let names: Vec<&str> = read().collect();
        let which = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        Some(format!(
            "unknown query parameter; this address reads {which}"
        ))
    }

    pub(crate) fn call(&self, cx: Cx) -> Answer {
        (self.handler)(cx)
    }

    /// The verb after the last parameter, if there is one.
    fn verb(&self) -> Option<&'static str> {
        let (_, verb) = self.path.rsplit_once("}:")?;
        Some(verb)
    }

    /// The paths at which the router mounts it. A verb after a parameter is dispatched by the
    /// table, as routers match whole segments; one after a word is mounted as it is, plain or
    /// percent-encoded.
    pub(crate) fn mounted_at(&self) -> Vec<String> {
        match (self.path.rsplit_once("}:"), self.path.rsplit_once(':')) {
            (Some((base, _)), _) => vec![format!("{base}}}")],
            (None, Some((base, verb))) => [":", "%3A", "%3a"]
                .map(|colon| format!("{base}{colon}{verb}"))
                .into(),
            (None, None) => vec![self.path.to_owned()],
        }
    }
}

/// The routes of one path.
#[derive(Default)]
pub(crate) struct Table {
    plain: Vec<Arc<Route>>,
    verbs: Vec<(&'static str, Arc<Route>)>,
}

impl Table {
    pub(crate) fn add(&mut self, route: Route) {
        match route.verb() {
            Some(verb) => self.verbs.push((verb, Arc::new(route))),
            None => self.plain.push(Arc::new(route)),
        }
    }

    /// The route of a method, and the last parameter without its verb.
    pub(crate) fn find<'a>(
        &self,
        method: &Method,
        last: Option<&'a str>,
    ) -> Result<(Arc<Route>, Option<&'a str>), Problem> {
        let wanted = match *method {
            Method::HEAD => Method::GET,
            ref method => method.clone(),
        };
        let fits = |route: &&Arc<Route>| route.method == wanted;
        if let Some((before, verb)) = last.and_then(|last| last.rsplit_once(':')) {
            let of_verb: Vec<_> = self.verbs.iter().filter(|(v, _)| *v == verb).collect();
            if let Some(route) = of_verb.iter().map(|(_, route)| route).find(fits) {
                return Ok((route.clone(), Some(before)));
            }
            if !of_verb.is_empty() {
                return Err(Problem::method(&methods(of_verb.iter().map(|(_, r)| r))));
            }
        }
        match self.plain.iter().find(fits) {
            Some(route) => Ok((route.clone(), last)),
            None if last.is_some_and(|last| last.contains(':')) && !self.verbs.is_empty() => {
                Err(Problem::no_verb(self.verbs.iter().map(|(verb, _)| *verb)))
            }
            None if self.plain.is_empty() => Err(Problem::no_route()),
            None => Err(Problem::method(&methods(self.plain.iter()))),
        }
    }
}

fn methods<'a>(routes: impl Iterator<Item = &'a Arc<Route>>) -> String {
    let mut names: Vec<&str> = routes.map(|route| route.method.as_str()).collect();
    if names.contains(&"GET") {
        names.push("HEAD");
    }
    names.join(", ")
}

/// A request for a handler.
pub(crate) struct Cx {
    pub(crate) app: App,
    /// The caller; `None` on a public route without a credential.
    pub(crate) who: Option<Arc<Principal>>,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// The parameters of the address, decoded.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) trace: Trace,
    /// The effect of the request, if it came with a key.
    pub(crate) effect: Option<Effect>,
    /// Memory reserved for its body.
    pub(crate) memory: Vec<Taken>,
}

impl Cx {
    /// The caller.
    pub(crate) fn who(&self) -> Result<Arc<Principal>, Problem> {
        self.who.clone().ok_or_else(Problem::internal)
    }

    /// A parameter of the address.
    pub(crate) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// The query.
    pub(crate) fn query(&self) -> Query {
        Query::from_uri(&self.uri)
    }

    /// Puts another value of a name in place of those of the query.
    pub(crate) fn set_query(&mut self, name: &str, value: &str) {
        let query = self.query();
        let mut pairs = form_urlencoded::Serializer::new(String::new());
        for (key, given) in query.pairs().filter(|(key, _)| *key != name) {
            pairs.append_pair(key, given);
        }
        pairs.append_pair(name, value);
        let address = format!("{}?{}", self.uri.path(), pairs.finish());
        if let Ok(uri) = address.parse() {
            self.uri = uri;
        }
    }

    /// Whether the request was begun before with the same key, and its outcome is unknown.
    pub(crate) fn is_repeated(&self) -> bool {
        self.effect
            .as_ref()
            .is_some_and(|effect| effect.is_repeated)
    }

    /// A header that is text and occurs once.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match (value.to_str(), values.next()) {
            (Ok(text), None) => Ok(Some(text)),
            _ => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "validation_error",
                "a single-valued header must occur once, as plain text",
            )),
        }
    }

    /// Puts another body in place of the one that was read.
    pub(crate) fn put_body(&mut self, body: &Map<String, Value>) {
        for name in [CONTENT_ENCODING, CONTENT_LENGTH] {
            self.headers.remove(name);
        }
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.body = Body::from(body);
    }

    /// The raw body.
    pub(crate) async fn bytes(&mut self, limit: usize) -> Result<Vec<u8>, Problem> {
        body::check_media(&self.headers)?;
        let body = std::mem::take(&mut self.body);
        body::read(&self.headers, body, limit, self.app.limits().body_time).await
    }

    /// The body as a JSON object.
    pub(crate) async fn object(&mut self) -> Result<Map<String, Value>, Problem> {
        let limit = self.app.limits().body_bytes;
        body::object(&self.bytes(limit).await?)
    }

    /// The body as a JSON object with a list of others, each of which may be as deep as a body.
    pub(crate) async fn object_of_several(&mut self) -> Result<Map<String, Value>, Problem> {
        let limit = self.app.limits().body_bytes;
        body::object_within(&self.bytes(limit).await?, MAX_JSON_DEPTH + 2)
    }

    /// The body as a JSON object; empty without a body.
    pub(crate) async fn object_or_nothing(&mut self) -> Result<Map<String, Value>, Problem> {
        let limit = self.app.limits().body_bytes;
        let bytes = self.bytes(limit).await?;
        if bytes.is_empty() {
            Ok(Map::new())
        } else {
            body::object(&bytes)
        }
    }
}
