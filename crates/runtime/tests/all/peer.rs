//! An HTTP peer on the loopback with scripted answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// Method and target.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The peer's reaction to a request.
pub(crate) enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes, then nothing until the other side disconnects.
    Begun(Vec<u8>),
    /// Sends nothing until the other side disconnects.
    Silence,
    /// Sends a body without end.
    Endless,
}

/// A complete response.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Answer::Bytes(bytes)
}

/// The beginning of a response of server-sent events, without a length: it ends with the
/// connection.
pub(crate) fn sse(events: &[(&str, serde_json::Value)]) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    for (name, data) in events {
        let data = match data {
            serde_json::Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        if !name.is_empty() {
            bytes.extend_from_slice(format!("event: {name}\n").as_bytes());
        }
        bytes.extend_from_slice(format!("data: {data}\n\n").as_bytes());
    }
    bytes
}

pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    /// Notified when the other side closed a silent connection.
    pub(crate) left: Arc<tokio::sync::Notify>,
    /// Notified when a request has arrived.
    pub(crate) came: Arc<tokio::sync::Notify>,
}

impl Peer {
    pub(crate) async fn start(answers: impl Fn(&Got) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Self {
            address: listener.local_addr().unwrap(),
            got: Arc::default(),
            left: Arc::default(),
            came: Arc::default(),
        };
        let (got, left, came) = (peer.got.clone(), peer.left.clone(), peer.came.clone());
        let answers = Arc::new(answers);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (got, left, came) = (got.clone(), left.clone(), came.clone());
                let answers = answers.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let request = read(&mut stream).await;
                    let answer = answers(&request);
                    got.lock().unwrap().push(request);
                    came.notify_one();
                    say(stream, answer).await;
                    left.notify_one();
                });
            }
        });
        peer
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Got {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
    Got {
        line,
        headers,
        body: String::from_utf8(body).unwrap(),
    }
}

async fn say(mut stream: BufReader<TcpStream>, answer: Answer) {
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Answer::Begun(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0]).await;
        }
        Answer::Silence => {
            let _ = stream.read(&mut [0]).await;
        }
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
        }
    }
}
