//! The proxy through which a recorded command reaches its models.
//!
//! It listens on the loopback only, and answers only below a random path, which is part of the base
//! URLs in the command's environment. Answers are passed on unchanged, streams event by event; the
//! recorded copy is clean. Request headers are passed on and never recorded, and their credentials
//! are added to the redactor, which removes them everywhere. Answer headers are passed back and recorded,
//! except cookies and connection headers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use runtime::redact::{Redactor, is_secret_name};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::Kind;
use crate::clean::Cleaner;
use crate::dialect::Route;
use crate::elsewhere::{Elsewhere, Rule, Seen, to_model};
use crate::environment::CAPTURE_URL;
use crate::headers::{self, Unpacking};
use crate::recorder::{Beginning, Begun, Passed, Recorder, TOO_LARGE, UNREACHED, answer_of};
use crate::redirected::{meant, name_server};
use crate::upstream::{NotAServer, Upstream, first_segment, query};
use crate::{clean, multipart, tool, upstream};

/// Maximum bytes of a request.
const MAX_REQUEST: usize = 64 << 20;
/// Maximum bytes of a recorded answer.
const MAX_ANSWER: usize = 64 << 20;
/// Connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// Maximum time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Headers that carry credentials.
const CREDENTIALS: [&str; 7] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "proxy-authorization",
    "cookie",
    "x-auth-token",
];

/// Path segment before the number of a call in the base URLs of a tool's process.
const WITHIN: &str = "in";
/// The type of our own answers.
const JSON: &str = "application/json";

/// Path segment before the number of a tool server in a base URL.
const OF_SERVER: &str = "of";

/// The replaced proxy variables of a tool call's process, so that its own calls are attributed to
/// it.
pub fn environment_within(
    environment: &BTreeMap<String, String>,
    seq: u64,
) -> BTreeMap<String, String> {
    moved(environment, WITHIN, seq)
}

/// The same for the process of a tool server: its own calls belong to the call that it is serving
/// then.
pub fn environment_of_server(
    environment: &BTreeMap<String, String>,
    server: u64,
) -> BTreeMap<String, String> {
    moved(environment, OF_SERVER, server)
}

fn moved(
    environment: &BTreeMap<String, String>,
    word: &str,
    number: u64,
) -> BTreeMap<String, String> {
    let Some(base) = environment.get(CAPTURE_URL) else {
        return BTreeMap::new();
    };
    // The scheme, the address and the token, without the part that names a process.
    let own: Vec<&str> = base.splitn(5, '/').take(4).collect();
    let own = own.join("/");
    let moved = environment.iter().filter_map(|(name, value)| {
        let rest = value.strip_prefix(base.as_str())?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        is_below.then(|| (name.clone(), format!("{own}/{word}/{number}{rest}")))
    });
    moved.collect()
}

type Answer = Response<BoxBody<Bytes, io::Error>>;

/// A proxy that listens.
pub struct Proxy {
    base: String,
    elsewhere: Arc<Elsewhere>,
    address: String,
    ended: CancellationToken,
    connections: TaskTracker,
    hosts: Vec<(&'static str, String)>,
}

/// The real servers of models.
pub struct Upstreams {
    openai: Upstream,
    anthropic: Upstream,
}

impl Upstreams {
    /// From the variables of an environment, else the providers' own servers.
    ///
    /// # Errors
    /// When a variable is not a URL.
    pub fn from_environment(environment: &BTreeMap<String, String>) -> Result<Self, NotAServer> {
        let set = |name: &'static str| {
            let value = environment
                .get(name)
                .filter(|value| !value.trim().is_empty());
            value.map(|value| (name, value.as_str()))
        };
        let (name, base) = set("OPENAI_BASE_URL")
            .or_else(|| set("OPENAI_API_BASE"))
            .unwrap_or(("OPENAI_BASE_URL", "https://api.openai.com/v1"));
        let openai = Upstream::new(name, base)?;
        let (name, base) = set("ANTHROPIC_BASE_URL")
            .unwrap_or(("ANTHROPIC_BASE_URL", "https://api.anthropic.com"));
        let anthropic = Upstream::new(name, base)?;
        Ok(Self { openai, anthropic })
    }
}

struct Shared {
    token: String,
    address: String,
    elsewhere: Arc<Elsewhere>,
    recorder: Arc<Recorder>,
    upstreams: Upstreams,
}

impl Proxy {
    /// Starts the proxy on a free port.
    ///
    /// # Errors
    /// The system's.
    pub async fn start(
        recorder: Arc<Recorder>,
        upstreams: Upstreams,
        rule: Rule,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let base = format!("http://{address}/{token}");
        // Part of the command's environment, which the command may print.
        recorder.cleaner().learn("capture", &base);
        recorder.cleaner().learn("capture", &token);
        let hosts = vec![
            ("openai", upstreams.openai.host()),
            ("anthropic", upstreams.anthropic.host()),
        ];
        let elsewhere = Arc::new(Elsewhere::new(rule));
        let shared = Arc::new(Shared {
            token,
            address: address.clone(),
            elsewhere: elsewhere.clone(),
            recorder,
            upstreams,
        });
        let (ended, connections) = (CancellationToken::new(), TaskTracker::new());
        tokio::spawn(accept(listener, shared, ended.clone(), connections.clone()));
        Ok(Self {
            base,
            elsewhere,
            address,
            ended,
            connections,
            hosts,
        })
    }

    /// The variables with the proxy's addresses for a command.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let (openai, anthropic) = (
            format!("{}/openai", self.base),
            format!("{}/anthropic", self.base),
        );
        let variables = [
            ("OPENAI_BASE_URL", openai.clone()),
            ("OPENAI_API_BASE", openai),
            ("ANTHROPIC_BASE_URL", anthropic.clone()),
            ("ANTHROPIC_API_BASE", anthropic),
            (CAPTURE_URL, self.base.clone()),
        ];
        let variables = variables.into_iter();
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The port it listens on.
    pub fn port(&self) -> Option<u16> {
        self.address.rsplit_once(':')?.1.parse().ok()
    }

    /// The requested servers other than models.
    pub fn seen(&self) -> Seen {
        self.elsewhere.seen()
    }

    /// Variables that route every other request through the proxy.
    pub fn for_elsewhere(&self) -> BTreeMap<String, String> {
        let proxy = format!("http://{}", self.address);
        let mut variables = BTreeMap::new();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            variables.insert(name.to_owned(), proxy.clone());
            variables.insert(name.to_ascii_lowercase(), proxy.clone());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            variables.insert(name.to_owned(), String::new());
        }
        variables
    }

    /// Host and port of the upstream servers, by provider.
    pub fn hosts(&self) -> &[(&'static str, String)] {
        &self.hosts
    }

    /// Stops accepting requests and gives those in progress a short time to end.
    pub async fn stop(self) {
        self.ended.cancel();
        self.connections.close();
        let _ = tokio::time::timeout(Duration::from_secs(2), self.connections.wait()).await;
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    ended: CancellationToken,
    connections: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended.cancelled() => return,
        };
        // After a failed accept, the client may retry.
        let Ok((stream, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        if connections.len() >= MAX_CONNECTIONS {
            continue;
        }
        let (shared, ended) = (shared.clone(), ended.clone());
        connections.spawn(async move { connection(stream, shared, ended).await });
    }
}

async fn connection(mut stream: TcpStream, shared: Arc<Shared>, ended: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let meant = tokio::select! {
        meant = tokio::time::timeout(HEAD_TIME, meant(&mut stream, &shared.token)) => meant,
        () = ended.cancelled() => return,
    };
    let server = match meant {
        Ok(Ok(None)) => None,
        Ok(Ok(Some(meant))) if meant.is_http => Some(meant.server),
        Ok(Ok(Some(meant))) => {
            shared.recorder.deny();
            return shared.elsewhere.refuse(&meant.server);
        }
        // It sent nothing, or something invalid.
        Ok(Err(_)) | Err(_) => return,
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME);
    if let Some(server) = server {
        return redirected(&builder, stream, shared, server, ended).await;
    }
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let connection = builder
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ended.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Serves a connection to another server that was led to the proxy.
async fn redirected(
    builder: &http1::Builder,
    stream: TcpStream,
    shared: Arc<Shared>,
    server: String,
    ended: CancellationToken,
) {
    let service = service_fn(move |mut request| {
        let shared = shared.clone();
        name_server(&mut request, &server);
        async move {
            let answer = if request.method() == Method::CONNECT {
                refuse_tunnel(&shared, request.uri())
            } else {
                answer(&shared, request).await
            };
            match answer.extensions().get::<Refusal>() {
                Some(Refusal) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                None => Ok(answer),
            }
        }
    });
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let served = tokio::select! {
        served = &mut connection => served,
        () = ended.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if served.is_err() {
        let stream = connection.into_parts().io.into_inner();
        // The client sees a reset and not the end of an answer.
        let _ = stream.set_zero_linger();
    }
}

/// Refuses a tunnel through a proxy whose address the program has in its text.
fn refuse_tunnel(shared: &Shared, target: &Uri) -> Answer {
    shared.recorder.deny();
    let server = target.authority().map_or("", |server| server.as_str());
    shared.elsewhere.refuse(server);
    let message = "the program has the address of a proxy in its text, and a tunnel through it \
                   cannot be recorded: make it take the proxy from HTTPS_PROXY, which is set here";
    problem(StatusCode::FORBIDDEN, "not_recorded", message)
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let uri = request.uri().clone();
    let other = uri
        .authority()
        .filter(|asked| asked.as_str() != shared.address);
    if let Some(server) = other {
        return of_other(shared, request, server.as_str()).await;
    }
    let (token, rest) = first_segment(uri.path());
    if !bool::from(token.as_bytes().ct_eq(shared.token.as_bytes())) {
        return problem(StatusCode::NOT_FOUND, "not_found", "there is nothing here");
    }
    let (within, rest) = within(&shared.recorder, rest);
    let (provider, rest) = first_segment(rest);
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let body = match whole(request).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let (provider, upstream) = match provider {
        "openai" => ("openai", &shared.upstreams.openai),
        "anthropic" => ("anthropic", &shared.upstreams.anthropic),
        "tool" => return of_tool(shared, (within, rest), body).await,
        _ => {
            return problem(StatusCode::NOT_FOUND, "not_found", "unknown provider");
        }
    };
    let asked = ProxiedRequest {
        provider,
        method,
        rest: rest.to_owned(),
        query: query(&uri).map(str::to_owned),
        headers,
        body,
        server: None,
        within,
    };
    of_model(shared, upstream, asked).await
}

/// Answers a request for another server.
async fn of_other(shared: &Arc<Shared>, request: Request<Incoming>, server: &str) -> Answer {
    let elsewhere = &shared.elsewhere;
    let is_tunnel = request.method() == Method::CONNECT;
    let answered = match to_model(request.uri()) {
        Some(_) if !is_tunnel && shared.recorder.has_no_server() && elsewhere.is_denied() => {
            elsewhere.refuse(server);
            None
        }
        Some(meant) if !is_tunnel => {
            return of_written_address(shared, request, server, meant).await;
        }
        None if !is_tunnel => elsewhere.pass(request, server).await,
        _ if shared.is_models(server) => {
            elsewhere.refuse(server);
            let message = "the program has the address of this model in its text, and a tunnel \
                           cannot be recorded: make it take the base URL from OPENAI_BASE_URL or \
                           ANTHROPIC_BASE_URL, which are set here";
            return problem(StatusCode::FORBIDDEN, "not_recorded", message);
        }
        _ => elsewhere.tunnel(request, server).await,
    };
    match answered {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            let message = format!("{server} cannot be reached: {error}");
            problem(StatusCode::BAD_GATEWAY, "elsewhere_unreachable", &message)
        }
        None => {
            shared.recorder.deny();
            let message = "this execution is a replay: other servers are not called";
            refusal(StatusCode::FORBIDDEN, "replay_network_denied", message)
        }
    }
}

/// Answers a request to a model at a hard-coded address.
async fn of_written_address(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    server: &str,
    (provider, base, rest): (&'static str, String, String),
) -> Answer {
    let upstream = match Upstream::new("the address in the program", &base) {
        Ok(upstream) => upstream,
        Err(error) => {
            return problem(StatusCode::BAD_REQUEST, "not_a_server", &error.to_string());
        }
    };
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let query = query(request.uri()).map(str::to_owned);
    let body = match whole(request).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let asked = ProxiedRequest {
        provider,
        method,
        rest,
        query,
        headers,
        body,
        server: Some(server.to_owned()),
        within: None,
    };
    of_model(shared, &upstream, asked).await
}

/// The body of a request.
async fn whole(request: Request<Incoming>) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), MAX_REQUEST)
        .collect()
        .await;
    body.map(|body| body.to_bytes()).map_err(|_| {
        let message = format!(
            "a request has at most {} MiB and must arrive completely",
            MAX_REQUEST >> 20
        );
        problem(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &message)
    })
}

impl Shared {
    /// Whether a server is known as a model server.
    fn is_models(&self, server: &str) -> bool {
        let own = [
            self.upstreams.openai.host(),
            self.upstreams.anthropic.host(),
        ];
        let host = server.strip_suffix(":443").unwrap_or(server);
        let known = ["api.openai.com", "api.anthropic.com"];
        known.contains(&host) || own.iter().any(|own| own == server || own == host)
    }
}

/// The call within which a process makes a request, by the prefix of its path: that of a call, of a
/// tool server, or of the command itself.
fn within<'a>(recorder: &Recorder, path: &'a str) -> (Option<u64>, &'a str) {
    let (word, rest) = first_segment(path);
    let (number, behind) = first_segment(rest);
    match (word, number.parse().ok()) {
        (WITHIN, seq) => (seq, behind),
        (OF_SERVER, server) => (
            server.and_then(|server| recorder.within_server(server)),
            behind,
        ),
        _ => (None, path),
    }
}

/// A request to a model.
struct ProxiedRequest {
    provider: &'static str,
    method: Method,
    rest: String,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
    /// The server, where the program has its address in its text.
    server: Option<String>,
    /// The call whose process makes the request.
    within: Option<u64>,
}

async fn of_model(shared: &Arc<Shared>, upstream: &Upstream, asked: ProxiedRequest) -> Answer {
    let recorder = &shared.recorder;
    learn(recorder.cleaner(), &asked.headers, asked.query.as_deref());
    let route = Route::from_path(&format!("/{}", asked.rest));
    let name = format!("{}/{}", asked.provider, asked.rest.trim_end_matches('/'));
    let parsed = serde_json::from_slice::<Value>(&asked.body);
    // Only such a body is rewritten; any other is forwarded byte for byte.
    let is_json = parsed.as_ref().is_ok_and(Value::is_object);
    let mut body: Value = match parsed {
        Ok(body) => body,
        Err(_) if asked.body.is_empty() => Value::Null,
        Err(_) => {
            let matched = multipart::matched(&asked.headers, &asked.body);
            recorder.cleaner().output(&matched)
        }
    };
    // Matching uses the program's request, before the settings are put in.
    let input = match (&asked.method, &asked.query) {
        (&Method::POST, None) => body.clone(),
        (method, query) => {
            let query = query
                .as_deref()
                .map(|query| keyless(query, recorder.cleaner()));
            json!({ "method": method.as_str(), "query": query, "body": body })
        }
    };
    let said = body.clone();
    let enforced = if is_json {
        recorder.enforce(route, &mut body)
    } else {
        Ok(())
    };
    let begun = {
        let (recorder, name, sent) = (recorder.clone(), name.clone(), body.clone());
        let (provider, server, within) = (asked.provider, asked.server, asked.within);
        tokio::task::spawn_blocking(move || {
            let beginning = Beginning {
                kind: Kind::Model,
                name: &name,
                server: server.as_deref(),
                input,
                effect_class: None,
                within,
            };
            recorder.begin_model(beginning, route, provider, (&said, &sent))
        })
        .await
    };
    let seq = match begun {
        Ok(Begun::Live(seq)) => seq,
        Ok(Begun::Recorded { output, .. }) => return served(&output).await,
        Ok(Begun::Diverged(divergence)) => {
            return refusal(
                StatusCode::CONFLICT,
                "replay_divergence",
                &divergence.message,
            );
        }
        Err(_) => {
            return problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the recording failed",
            );
        }
    };
    if let Err(refused) = enforced {
        let answer = json!({ "error": { "type": "mode_conflict", "code": "mode_conflict",
            "message": refused.to_string() } });
        let (status, answer) = (StatusCode::BAD_REQUEST, answer.to_string());
        let recorded = answer.clone().into_bytes();
        let recorded = answer_of(recorder, Some(status.as_u16()), JSON, recorded);
        end(recorder, seq, recorded).await;
        return reply(status, HeaderMap::new(), answer.into());
    }
    let sent = if is_json {
        Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
    } else {
        asked.body
    };
    let query = asked.query.as_deref();
    let waiting = Waiting::new(recorder, seq);
    let sent = upstream.send(asked.method, &asked.rest, query, &asked.headers, sent);
    let response = match sent.await {
        Ok(response) => response,
        Err(error) => {
            let body = problem_of("upstream_unreachable", &error.to_string());
            waiting.end();
            let status = StatusCode::BAD_GATEWAY;
            let mut output = answer_of(recorder, Some(status.as_u16()), JSON, body.clone());
            output[UNREACHED] = json!(true);
            end(recorder, seq, output).await;
            return reply(status, HeaderMap::new(), body.into());
        }
    };
    let status = response.status();
    let mut headers = headers::passed_back(response.headers());
    let unpacking = Unpacking::from_headers(&mut headers);
    let length = match unpacking {
        Unpacking::Plain => response.headers().get(header::CONTENT_LENGTH),
        Unpacking::Gzip(..) => None,
    };
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // The end of an empty body cannot wait for the recording.
    let length = length.filter(|length| *length > 0);
    if let Some(aim) = headers.get(header::LOCATION)
        && let Ok(aim) = HeaderValue::try_from(upstream.aim(response.url(), aim.as_bytes()))
    {
        headers.insert(header::LOCATION, aim);
    }
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let passed = waiting.end();
    {
        let mut passed = passed.lock();
        passed.status = Some(status.as_u16());
        passed.kind = kind;
        passed.headers = headers::recorded(&headers);
    }
    // Some clients cannot read a body without its length. A replay sends its own.
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let (pieces, coming) = mpsc::channel::<Result<Frame<Bytes>, io::Error>>(64);
    let came = (response, unpacking, length);
    tokio::spawn(pass_on(recorder.clone(), seq, came, passed, pieces));
    let stream = futures_stream(coming);
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(stream)));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

fn futures_stream(
    coming: mpsc::Receiver<Result<Frame<Bytes>, io::Error>>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, io::Error>> + Send + Sync {
    futures_util::stream::unfold(coming, |mut coming| async move {
        coming.recv().await.map(|piece| (piece, coming))
    })
}

/// Passes an answer on as it arrives, and records it.
async fn pass_on(
    recorder: Arc<Recorder>,
    seq: u64,
    (mut response, mut unpacking, length): (upstream::Response, Unpacking, Option<usize>),
    passed: Arc<Mutex<Passed>>,
    pieces: mpsc::Sender<Result<Frame<Bytes>, io::Error>>,
) {
    let (mut end, mut is_too_large) = (BytesMut::new(), false);
    let mut received = 0;
    let cut = loop {
        let piece = tokio::select! {
            piece = response.chunk() => piece,
            // A client that disconnects has received the passed-on part; the request ends.
            () = pieces.closed() => return leave(recorder, seq).await,
        };
        let is_last = matches!(piece, Ok(None));
        let piece = match piece {
            Ok(Some(piece)) => unpacking.piece(piece),
            Ok(None) => unpacking.end(),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        match piece {
            Ok(piece) if piece.is_empty() => {}
            Ok(piece) => {
                is_too_large |= passed.lock().body.len() + piece.len() > MAX_ANSWER;
                // Clients continue when they have read the end of a stream: their next call must
                // begin after this one is on record.
                received += piece.len();
                let is_whole = length.is_some_and(|length| received >= length);
                if !end.is_empty() || is_whole || is_end(&piece) {
                    end.extend_from_slice(&piece);
                } else {
                    if !is_too_large {
                        passed.lock().body.extend_from_slice(&piece);
                    }
                    if pieces.send(Ok(Frame::data(piece))).await.is_err() {
                        return leave(recorder, seq).await;
                    }
                }
            }
            Err(error) => break Some(error),
        }
        if is_last {
            break None;
        }
    };
    let (status, kind, headers, mut body) = {
        let passed = passed.lock();
        let (kind, headers) = (passed.kind.clone(), passed.headers.clone());
        (passed.status, kind, headers, passed.body.clone())
    };
    body.extend_from_slice(&end);
    let mut output = answer_of(&recorder, status, &kind, body);
    headers::record(&mut output, headers);
    if cut.is_some() {
        output["cut"] = json!(true);
    }
    if is_too_large {
        output[TOO_LARGE] = json!(true);
    }
    let is_good = status.is_some_and(|status| (200..300).contains(&status));
    let is_error = cut.is_some() || is_too_large || !is_good;
    let ending = tokio::task::spawn_blocking(move || recorder.end(seq, output, is_error));
    // The command may only end once its call is on record: the end of the body waits for that.
    let _ = ending.await;
    if !end.is_empty() {
        let _ = pieces.send(Ok(Frame::data(end.freeze()))).await;
    }
    if let Some(error) = cut {
        let _ = pieces.send(Err(error)).await;
    }
}

/// Whether a piece of a stream contains its final event.
fn is_end(piece: &[u8]) -> bool {
    let has = |words: &str| {
        piece
            .windows(words.len())
            .any(|part| part == words.as_bytes())
    };
    [
        "data: [DONE]",
        "event: message_stop",
        "event: response.completed",
    ]
    .into_iter()
    .any(has)
}

/// Records that the program disconnected.
async fn leave(recorder: Arc<Recorder>, seq: u64) {
    let _ = tokio::task::spawn_blocking(move || recorder.leave(seq)).await;
}

/// A request whose answer has not begun. A disconnect before then drops this.
struct Waiting {
    recorder: Arc<Recorder>,
    seq: u64,
    passed: Arc<Mutex<Passed>>,
    is_over: bool,
}

impl Waiting {
    fn new(recorder: &Arc<Recorder>, seq: u64) -> Self {
        let passed = Arc::new(Mutex::new(Passed::default()));
        recorder.passes(seq, passed.clone());
        Self {
            recorder: recorder.clone(),
            seq,
            passed,
            is_over: false,
        }
    }

    /// The answer has begun; returns the passed-on part.
    fn end(mut self) -> Arc<Mutex<Passed>> {
        self.is_over = true;
        self.passed.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_over
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(leave(self.recorder.clone(), self.seq));
        }
    }
}

/// Ends a call with an answer of our own.
async fn end(recorder: &Arc<Recorder>, seq: u64, output: Value) {
    let recorder = recorder.clone();
    let ending = tokio::task::spawn_blocking(move || recorder.end(seq, output, true));
    let _ = ending.await;
}

/// An answer from the recording. A stream is sent at once, since its pace is not recorded. It ends
/// as recorded: a truncated stream is truncated again, and where the program disconnected, this
/// waits for its disconnect.
async fn served(output: &Value) -> Answer {
    let headers = headers::of_recorded(output);
    let has_left = output["left"] == true;
    if has_left && output["status"].is_null() {
        return std::future::pending().await;
    }
    let status = output["status"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
    let body = clean::bytes_of(&output["body"]);
    if !has_left && output["cut"] != true {
        return reply(status, headers, body.into());
    }
    let (pieces, coming) = mpsc::channel(2);
    tokio::spawn(async move {
        let _ = pieces.send(Ok(Frame::data(Bytes::from(body)))).await;
        if has_left {
            pieces.closed().await
        } else {
            let error = io::Error::other("the recorded answer was cut off here");
            let _ = pieces.send(Err(error)).await;
        }
    });
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(futures_stream(coming))));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

async fn of_tool(shared: &Arc<Shared>, (within, rest): (Option<u64>, &str), body: Bytes) -> Answer {
    let recorder = shared.recorder.clone();
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return problem(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "this is not JSON",
        );
    };
    let rest = rest.to_owned();
    let answered =
        tokio::task::spawn_blocking(move || tool::answer(&recorder, within, &rest, body)).await;
    match answered {
        Ok(Some(answer)) => reply(StatusCode::OK, HeaderMap::new(), answer.to_string().into()),
        Ok(None) => problem(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "the request has an unknown form",
        ),
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the recording failed",
        ),
    }
}

/// Learns the keys in a request's headers and query.
fn learn(cleaner: &Cleaner, headers: &HeaderMap, query: Option<&str>) {
    for name in CREDENTIALS {
        for value in headers.get_all(name) {
            let Ok(value) = value.to_str() else { continue };
            let secret = value.rsplit_once(' ').map_or(value, |(_, secret)| secret);
            cleaner.learn(name, secret);
        }
    }
    for pair in query.unwrap_or_default().split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && is_key(name)
        {
            let pair = format!("x={value}");
            let mut decoded = url::form_urlencoded::parse(pair.as_bytes());
            let decoded = decoded.next().map(|(_, value)| value.into_owned());
            cleaner.learn("query", &decoded.unwrap_or_default());
        }
    }
}

/// Whether a parameter of a request to a model is a key, in any letter case.
fn is_key(name: &str) -> bool {
    let is_so = |key: &str| name.eq_ignore_ascii_case(key);
    ["key", "code", "sig", "signature", "auth", "session"]
        .iter()
        .any(|key| is_so(key))
        || is_secret_name(name)
}

/// A query without the values of its keys, including those too short to be found elsewhere. Text
/// that the general rules remove has the same form as in older recordings.
fn keyless(query: &str, cleaner: &Cleaner) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if is_key(name) && !value.is_empty() => {
            cleaner.tally(&BTreeMap::from([("field".to_owned(), 1)]));
            let pair = format!("?{pair}");
            match Redactor::masking().text(&pair) {
                Cow::Borrowed(_) => format!("{name}=[REDACTED:field]"),
                Cow::Owned(clean) => clean[1..].to_owned(),
            }
        }
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn reply(status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Answer {
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static(JSON));
    let body = Full::new(body).map_err(|never: Infallible| match never {});
    let mut answer = Response::new(BodyExt::boxed(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// A refusal in the format of model clients.
fn problem(status: StatusCode, code: &str, message: &str) -> Answer {
    reply(status, HeaderMap::new(), problem_of(code, message).into())
}

/// A refusal in a replay. A connection that was led to the proxy is reset instead: the program
/// believes that it is connected to another server.
fn refusal(status: StatusCode, code: &str, message: &str) -> Answer {
    let mut answer = problem(status, code, message);
    answer.extensions_mut().insert(Refusal);
    answer
}

/// Marks an answer as a refusal in a replay.
#[derive(Clone, Copy, Debug)]
struct Refusal;

/// The body of an error answer.
fn problem_of(code: &str, message: &str) -> Vec<u8> {
    let body = json!({ "error": { "type": code, "code": code, "message": message } });
    body.to_string().into_bytes()
}
