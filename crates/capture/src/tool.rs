//! Tools of a recorded command, which report their calls to the proxy. It records them, or answers
//! in their place.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::call::{EffectClass, Kind, Side};
use crate::environment::CAPTURE_URL;
use crate::recorder::{Beginning, Begun, Recorder};

/// A call begins: `{ kind, name, input, effect?, server?, within? }`, with its tool server or its
/// enclosing call. The answer is `{ "run": seq }`, `{ "recorded": output, "seq": …, "is_error": …,
/// "before": […], "after": […] }` with the messages around it, or `{ "diverged": message }`.
pub const BEGIN: &str = "begin";
/// A call ends: `{ seq, output, is_error, effect?, input? }`, with its input if that was incomplete
/// at the beginning.
pub const END: &str = "end";

/// Unrequested messages of a tool server around a call: `{ seq, side, told: […], cut? }`.
pub const NOTIFIED: &str = "notified";

/// Queries whether tools are served from a recording: `{ "serves": … }`.
pub const ASK: &str = "ask";

/// Answers a request of a tool; `None` if it is malformed. Blocks.
pub(crate) fn answer(
    recorder: &Recorder,
    within: Option<u64>,
    path: &str,
    mut body: Value,
) -> Option<Value> {
    let effect = serde_json::from_value::<EffectClass>(body["effect"].take()).ok();
    match path {
        BEGIN => {
            let kind = match body["kind"].as_str() {
                Some("tool") => Kind::Tool,
                Some("protocol") => Kind::Protocol,
                _ => return None,
            };
            let input = body["input"].take();
            let name = body["name"].as_str().filter(|name| !name.is_empty())?;
            let beginning = Beginning {
                kind,
                name,
                server: None,
                input,
                effect_class: effect,
                within: body["within"].as_u64().or(within),
            };
            Some(match recorder.begin(beginning) {
                Begun::Live(seq) => {
                    if let Some(server) = body["server"].as_u64() {
                        recorder.is_of_server(server, seq);
                    }
                    json!({ "run": seq })
                }
                Begun::Recorded {
                    seq,
                    output,
                    is_error,
                    told,
                } => json!({
                    "recorded": output, "seq": seq, "is_error": is_error,
                    "before": told.before, "after": told.after,
                }),
                Begun::Diverged(divergence) => json!({ "diverged": divergence.message }),
            })
        }
        ASK => Some(json!({ "serves": recorder.serves(Kind::Tool) })),
        END => {
            let seq = body["seq"].as_u64()?;
            if let Some(effect) = effect {
                recorder.classify(seq, effect);
            }
            let input = body["input"].take();
            if !input.is_null() {
                recorder.was_given(seq, input);
            }
            let is_error = body["is_error"].as_bool().unwrap_or(false);
            recorder.end(seq, body["output"].take(), is_error);
            Some(json!({}))
        }
        NOTIFIED => {
            let seq = body["seq"].as_u64()?;
            let side = serde_json::from_value::<Side>(body["side"].take()).ok()?;
            let told = serde_json::from_value::<Vec<Value>>(body["told"].take()).ok()?;
            recorder.notified(seq, side, told, body["cut"] == true);
            Some(json!({}))
        }
        _ => None,
    }
}

/// A client of the proxy of a recorded command.
pub struct Client {
    address: String,
    path: String,
}

/// Why the proxy does not answer.
#[derive(Debug, thiserror::Error)]
pub enum NotRecorded {
    /// The variable does not contain an address of one.
    #[error("{CAPTURE_URL} was not set by a capture")]
    BadAddress,
    /// It is gone, or refuses.
    #[error("the capture does not answer: {0}")]
    Gone(String),
}

impl Client {
    /// A client by the address in the environment.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn new(url: &str) -> Result<Self, NotRecorded> {
        let rest = url.strip_prefix("http://").ok_or(NotRecorded::BadAddress)?;
        let (address, token) = rest.split_once('/').ok_or(NotRecorded::BadAddress)?;
        let is_loopback = address.starts_with("127.0.0.1:");
        if is_loopback && !token.is_empty() && !url.contains(char::is_whitespace) {
            Ok(Self {
                address: address.to_owned(),
                path: format!("/{token}/tool"),
            })
        } else {
            Err(NotRecorded::BadAddress)
        }
    }

    /// Sends one request: [`BEGIN`], [`END`] or another of these.
    ///
    /// # Errors
    /// When the proxy has ended or rejects the request.
    pub async fn ask(&self, what: &str, body: &Value) -> Result<Value, NotRecorded> {
        let gone = |error: std::io::Error| NotRecorded::Gone(error.to_string());
        let body = body.to_string();
        let head = format!(
            "POST {}/{what} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.path,
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.map_err(gone)?;
        stream.write_all(head.as_bytes()).await.map_err(gone)?;
        stream.write_all(body.as_bytes()).await.map_err(gone)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.map_err(gone)?;
        let refused = || NotRecorded::Gone("it refused the call".to_owned());
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .ok_or_else(refused)?;
        if !answer.starts_with(b"HTTP/1.1 200") {
            return Err(refused());
        }
        serde_json::from_slice(&answer[end + 4..]).map_err(|_| refused())
    }
}
