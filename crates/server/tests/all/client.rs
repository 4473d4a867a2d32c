//! A client that sends any bytes and reads responses as they are on the wire.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A test step that takes longer hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The first header of a name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&self.body));
        })
    }

    /// The code of an error, whose envelope must be closed and of this status.
    pub(crate) fn refusal(&self, status: u16) -> String {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self.envelope()
    }

    /// The code of an error whose envelope is closed.
    pub(crate) fn envelope(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let media = self.header("content-type").unwrap_or_default();
        assert_eq!(media, "application/json; charset=utf-8", "{text}");
        let body = self.json();
        let object = body.as_object().expect("an object");
        if let Some(code) = object.get("code") {
            // The workbench face has a format of its own.
            let known = ["error", "code", "requiredScope", "correlationId"];
            assert!(
                object.keys().all(|key| known.contains(&key.as_str())),
                "{text}"
            );
            assert!(!body["error"].as_str().expect("an error").is_empty());
            return code.as_str().expect("a code").to_ascii_lowercase();
        }
        let is_known = |key: &&String| !["error", "message", "details"].contains(&key.as_str());
        assert_eq!(object.keys().find(is_known), None, "{text}");
        assert!(!body["message"].as_str().expect("a message").is_empty());
        assert!(object.get("details").is_none_or(Value::is_object), "{text}");
        let code = body["error"].as_str().expect("a code").to_owned();
        let is_snake = |c: char| c.is_ascii_lowercase() || c == '_';
        // The one code that the protocol spells differently.
        let is_ours = code != "INVALID_RESUME_VALUE";
        // Version 2 has codes of vendors.
        let word = code.strip_prefix("runwright.").unwrap_or(&code);
        assert!(!word.is_empty(), "{text}");
        assert!(!is_ours || word.chars().all(is_snake), "{code}");
        code
    }
}

/// A connection.
pub(crate) struct Conn {
    stream: BufReader<TcpStream>,
}

impl Conn {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("it listens");
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends bytes. A peer that has disconnected may still have responded.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = timeout(DEADLINE, self.stream.get_mut().write_all(bytes)).await;
    }

    /// Closes the sending side.
    pub(crate) async fn finish(&mut self) {
        let _ = self.stream.get_mut().shutdown().await;
    }

    /// Reads a response; `None` if the peer disconnects without one.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        timeout(DEADLINE, self.read())
            .await
            .expect("an answer in time")
    }

    async fn read(&mut self) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let header = |name: &str| {
            let found = headers.iter().find(|(key, _)| key == name);
            found.map(|(_, value): &(String, String)| value.clone())
        };
        let mut body = Vec::new();
        if let Some(length) = header("content-length") {
            body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut body).await.ok()?;
        } else if header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                body.extend_from_slice(&chunk);
            }
        }
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    /// Reads the status line and headers of a response.
    pub(crate) async fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                return Some((status, headers));
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    /// Reads a chunk of a body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let reading = async {
            let size = usize::from_str_radix(&self.line().await?, 16).ok()?;
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).await.ok()?;
            chunk.truncate(size);
            (size > 0).then_some(chunk)
        };
        timeout(DEADLINE, reading).await.expect("a chunk in time")
    }
}

/// A request under construction.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self::for_host(method, path, "localhost")
    }

    /// A request that names another host.
    pub(crate) fn for_host(method: &str, path: &str, host: &str) -> Self {
        Self {
            head: format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n"),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string().into_bytes())
    }

    pub(crate) fn body(self, media: &str, body: Vec<u8>) -> Self {
        let length = body.len().to_string();
        let with = self
            .header("content-type", media)
            .header("content-length", &length);
        Self { body, ..with }
    }

    /// The bytes on the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// Sends it over a connection of its own.
    pub(crate) async fn send(self, address: SocketAddr) -> Answer {
        let mut conn = Conn::to(address).await;
        conn.send(&self.header("connection", "close").bytes()).await;
        conn.answer().await.expect("an answer")
    }
}
