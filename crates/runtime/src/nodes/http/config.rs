//! The config of an HTTP node, and the request built from it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kernel::definition::Reads;
use kernel::problem::{Problem, ProblemCode, pointer};
use kernel::recompute::is_cut;
use kernel::run::NodeError;
use kernel::sealed::has_sealed;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::super::template::{
    Template, as_text, check_texts, fill_texts, input, note_text, note_texts,
};
use super::super::{Ports, ReceiverKey, Repeat, Started, parsed};
use crate::outbound::{Redirects, Request};
use crate::secrets::{misplaced_reference, wrong_reference};

pub(super) const DEFAULT_TIMEOUT_MS: u64 = 30_000;
pub(super) const DEFAULT_MAX_RESPONSE_BYTES: u64 = 10 << 20;
pub(super) const DEFAULT_CAPTURE_BYTES: usize = 256 << 10;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Headers that the connection itself sets.
const NOT_OURS: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    method: Verb,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    secret_headers: BTreeMap<String, SecretHeader>,
    body: Option<BodySource>,
    json: Option<Value>,
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    #[serde(default = "default_max_response")]
    pub max_response_bytes: u64,
    #[serde(default = "default_capture")]
    pub capture_bytes: usize,
    #[serde(default)]
    redirects: RedirectWord,
    repeat: Option<RepeatWord>,
    success_codes: Option<Vec<u16>>,
    #[serde(default)]
    response_format: ResponseFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Head,
    Options,
    Put,
    Delete,
    Post,
    Patch,
}

impl Verb {
    fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Head => Method::HEAD,
            Self::Options => Method::OPTIONS,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
            Self::Post => Method::POST,
            Self::Patch => Method::PATCH,
        }
    }

    fn changes_nothing(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }
}

/// A header whose value is a secret, perhaps after a word such as `Bearer`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SecretHeader {
    Reference(String),
    Prefixed { prefix: String, secret: String },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum BodySource {
    Text(String),
    Input { input: String },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RedirectWord {
    #[default]
    Follow,
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepeatWord {
    Repeatable,
    Once,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResponseFormat {
    #[default]
    Auto,
    Text,
    Json,
}

/// Whether a response is parsed as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadJson {
    /// Never.
    No,
    /// If its content type is JSON.
    IfItIs,
    /// Always.
    Must,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_MS
}

fn default_max_response() -> u64 {
    DEFAULT_MAX_RESPONSE_BYTES
}

fn default_capture() -> usize {
    DEFAULT_CAPTURE_BYTES
}

const NAMED: &str =
    "a user name or password is not allowed here: put it into `secretHeaders`, by reference";

/// Checks that a schema cannot express.
pub(super) fn check(config: &Value) -> Vec<Problem> {
    let config: Config = match parsed(config) {
        Ok(config) => config,
        Err(error) => return vec![Problem::new("", ProblemCode::InvalidValue, error.message)],
    };
    let mut problems = Vec::new();
    let mut refuse = |path: String, code, message: String| {
        problems.push(Problem::new(path, code, message));
    };
    let body = match &config.body {
        Some(BodySource::Text(text)) => Some(("/body".to_owned(), text)),
        _ => None,
    };
    let headers = config
        .headers
        .iter()
        .map(|(name, text)| (pointer("/headers", name), text));
    for (path, text) in body.into_iter().chain(headers) {
        if let Err(message) = Template::parse(text) {
            refuse(path, ProblemCode::InvalidExpression, message);
        } else if path.starts_with("/headers/")
            && let Some(message) = misplaced_reference(text, "secretHeaders")
        {
            refuse(path, ProblemCode::UnknownReference, message);
        }
    }
    match Template::parse(&config.url) {
        Err(message) => refuse("/url".to_owned(), ProblemCode::InvalidExpression, message),
        Ok(_) if config.url.contains("${") => {}
        Ok(_) => {
            // The definition is stored as it is, and would keep the credential; such a request is
            // refused anyway.
            let named = |url: &Url| !url.username().is_empty() || url.password().is_some();
            let message = match parse_url(&config.url) {
                Err(message) => Some(message),
                Ok(url) => named(&url).then(|| NAMED.to_owned()),
            };
            if let Some(message) = message {
                refuse("/url".to_owned(), ProblemCode::InvalidValue, message);
            }
        }
    }
    let named = config
        .headers
        .keys()
        .map(|name| (pointer("/headers", name), name));
    let secret = config
        .secret_headers
        .keys()
        .map(|name| (pointer("/secretHeaders", name), name));
    for (path, name) in named.chain(secret) {
        if let Err(message) = header_name(name) {
            refuse(path, ProblemCode::InvalidValue, message);
        }
    }
    for (name, header) in &config.secret_headers {
        let (SecretHeader::Reference(reference)
        | SecretHeader::Prefixed {
            secret: reference, ..
        }) = header;
        if let Some(message) = wrong_reference(reference) {
            let path = pointer("/secretHeaders", name);
            refuse(path, ProblemCode::UnknownReference, message);
        }
    }
    if let Some(json) = &config.json {
        check_texts(json, "/json", &mut problems);
    }
    if config.body.is_some() && config.json.is_some() {
        let message = "give `body` or `json`, not both";
        problems.push(Problem::new("/json", ProblemCode::InvalidValue, message));
    }
    problems
}

/// The node inputs that a config reads.
pub(super) fn reads(config: &Value) -> Reads {
    let mut reads = Reads::default();
    for key in ["url", "headers", "json"] {
        note_texts(&mut reads, &format!("/{key}"), &config[key]);
    }
    match &config["body"] {
        Value::String(text) => note_text(&mut reads, "/body", text),
        body => {
            let name = body.get("input").and_then(Value::as_str);
            let place = || "/body/input".to_owned();
            reads
                .inputs
                .extend(name.map(|name| (place(), name.to_owned())));
        }
    }
    reads
}

impl Config {
    pub(super) fn parse(config: &Value) -> Result<Self, NodeError> {
        parsed(config)
    }

    pub(super) fn repeat(&self) -> Repeat {
        match (self.repeat, self.method) {
            (Some(RepeatWord::Repeatable), _) => Repeat::Repeatable,
            (Some(RepeatWord::Once), _) | (None, Verb::Post | Verb::Patch) => Repeat::Once,
            (None, _) => Repeat::Repeatable,
        }
    }

    /// How the server recognises a repetition of the request.
    pub(super) fn receiver_key(&self, inputs: &Map<String, Value>) -> ReceiverKey {
        if self.method.changes_nothing() {
            return ReceiverKey::None;
        }
        let is_key = |name: &String| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY.as_str());
        let given = self.headers.iter().find(|(name, _)| is_key(name));
        let is_secret = self.secret_headers.keys().any(is_key);
        if given.is_none() && !is_secret {
            return ReceiverKey::Effect;
        }
        // The log has these inputs sealed or redacted: what was sent cannot be told from it.
        let is_clear = !inputs
            .values()
            .any(|value| has_sealed(value) || is_cut(value));
        let filled = |text: &str| is_clear.then(|| fill(text, inputs).ok()).flatten();
        let url = filled(&self.url);
        ReceiverKey::Named {
            operation: format!(
                "{} {}",
                self.method.method(),
                url.as_ref().unwrap_or(&self.url)
            ),
            key: match given {
                Some((_, text)) if !is_secret && url.is_some() => filled(text),
                _ => None,
            },
        }
    }

    pub(super) fn is_success(&self, status: StatusCode) -> bool {
        match &self.success_codes {
            Some(codes) => codes.contains(&status.as_u16()),
            None => {
                let is_returned = self.redirects == RedirectWord::Return && status.is_redirection();
                status.is_success() || is_returned
            }
        }
    }

    pub(super) fn read_json(&self, content_type: Option<&str>) -> ReadJson {
        let essence = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let is_json =
            essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json");
        match self.response_format {
            ResponseFormat::Json => ReadJson::Must,
            ResponseFormat::Auto if is_json => ReadJson::IfItIs,
            ResponseFormat::Auto | ResponseFormat::Text => ReadJson::No,
        }
    }

    /// The request of one attempt.
    pub(super) async fn request(
        &self,
        started: &Started,
        ports: &Ports,
    ) -> Result<Request, NodeError> {
        let inputs = started.inputs();
        let url = parse_url(&fill(&self.url, inputs)?).map_err(invalid)?;
        let (body, media_type) = self.body(inputs)?;
        let mut headers = HeaderMap::new();
        let agent = concat!("runwright/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(media_type) = media_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        if !self.method.changes_nothing() {
            headers.insert(IDEMPOTENCY_KEY, header_value(started.effect().as_str())?);
        }
        for (name, text) in &self.headers {
            let value = header_value(&fill(text, inputs)?)?;
            headers.insert(header_name(name).map_err(invalid)?, value);
        }
        let mut origin_headers = HeaderMap::new();
        for (name, secret) in &self.secret_headers {
            let (prefix, reference) = match secret {
                SecretHeader::Reference(reference) => ("", reference),
                SecretHeader::Prefixed { prefix, secret } => (prefix.as_str(), secret),
            };
            let secret = ports.secrets.resolve(started.owner(), reference).await?;
            let mut value = header_value(&format!("{prefix}{secret}"))?;
            value.set_sensitive(true);
            origin_headers.insert(header_name(name).map_err(invalid)?, value);
        }
        Ok(Request {
            method: self.method.method(),
            url,
            headers,
            origin_headers,
            body,
            timeout: Duration::from_millis(self.timeout_ms),
            redirects: match self.redirects {
                RedirectWord::Follow => Redirects::Follow,
                RedirectWord::Return => Redirects::Return,
            },
        })
    }

    fn body(
        &self,
        inputs: &Map<String, Value>,
    ) -> Result<(Bytes, Option<&'static str>), NodeError> {
        const JSON: Option<&str> = Some("application/json");
        const TEXT: Option<&str> = Some("text/plain; charset=utf-8");
        let (text, media_type) = match (&self.body, &self.json) {
            (_, Some(value)) => {
                let mut value = value.clone();
                fill_texts(&mut value, inputs)?;
                (value.to_string(), JSON)
            }
            (None, None) => (String::new(), None),
            (Some(BodySource::Text(text)), None) => (fill(text, inputs)?, TEXT),
            (Some(BodySource::Input { input: name }), None) => match input(inputs, name)? {
                Value::String(text) => (text.clone(), TEXT),
                value => (as_text(value), JSON),
            },
        };
        Ok((text.into(), media_type))
    }
}

fn invalid(message: String) -> NodeError {
    NodeError::new("invalid_config", message).fatal()
}

fn fill(text: &str, inputs: &Map<String, Value>) -> Result<String, NodeError> {
    Template::parse(text).map_err(invalid)?.fill(inputs)
}

fn parse_url(text: &str) -> Result<Url, String> {
    let advice = "start it with http:// or https:// and a host";
    match Url::parse(text) {
        Err(error) => Err(format!("this is not a URL ({error}); {advice}")),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            Err(format!("only http and https are supported; {advice}"))
        }
        Ok(url) => Ok(url),
    }
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| "this is not a valid header name".to_owned())?;
    if NOT_OURS.contains(&parsed.as_str()) {
        return Err("the connection sets this header itself; remove it".to_owned());
    }
    Ok(parsed)
}

fn header_value(text: &str) -> Result<HeaderValue, NodeError> {
    HeaderValue::from_str(text).map_err(|_| {
        invalid("a header value has a line break or another control character in it".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn repeat(config: Value) -> Repeat {
        Config::parse(&config).unwrap().repeat()
    }

    #[test]
    fn methods_that_make_something_new_are_sent_once() {
        let of = |method: &str| repeat(json!({ "url": "https://a.example/", "method": method }));
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
            assert_eq!(of(method), Repeat::Repeatable, "{method}");
        }
        for method in ["POST", "PATCH"] {
            assert_eq!(of(method), Repeat::Once, "{method}");
        }
        let config =
            json!({ "url": "https://a.example/", "method": "POST", "repeat": "repeatable" });
        assert_eq!(repeat(config), Repeat::Repeatable);
    }

    #[track_caller]
    fn problem(config: Value) -> Problem {
        let [problem] = check(&config).try_into().expect("one problem");
        problem
    }

    #[test]
    fn problems_outside_the_schema_are_found() {
        assert_eq!(problem(json!({ "url": "example.com" })).path, "/url");
        assert_eq!(problem(json!({ "url": "ftp://example.com" })).path, "/url");
        assert_eq!(problem(json!({ "url": "https://${x}/" })).path, "/url");
        let named = problem(json!({ "url": "https://ada:hunter2@a.example/" }));
        assert_eq!(named.path, "/url");
        assert!(!named.message.contains("hunter2"), "{}", named.message);
        let url = "https://a.example/";
        let config = json!({ "url": url, "headers": { "a b": "" } });
        assert_eq!(problem(config).path, "/headers/a b");
        let config = json!({ "url": url, "secretHeaders": { "Host": "env:A" } });
        assert_eq!(problem(config).path, "/secretHeaders/Host");
        assert_eq!(
            problem(json!({ "url": url, "body": "x", "json": 1 })).path,
            "/json"
        );
        let config = json!({ "url": url, "json": { "a": ["${x}"] } });
        assert_eq!(problem(config).path, "/json/a/0");
        assert_eq!(check(&json!({ "url": "${inputs.url}" })), []);
    }

    #[test]
    fn json_is_read_where_the_answer_says_so() {
        let config = Config::parse(&json!({ "url": "https://a.example/" })).unwrap();
        for media_type in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/problem+json",
        ] {
            assert_eq!(
                config.read_json(Some(media_type)),
                ReadJson::IfItIs,
                "{media_type}"
            );
        }
        for media_type in [None, Some("text/html"), Some("application/jsonp")] {
            assert_eq!(config.read_json(media_type), ReadJson::No, "{media_type:?}");
        }
    }
}
