//! An HTTP server that webhooks deliver to.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

use crate::client::DEADLINE;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(key, _)| key == name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Run, sequence and type of the event.
    pub(crate) fn event(&self) -> (String, u64, String) {
        let body = self.json();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let event = &body["event"];
        let sequence = event["sequence"].as_u64().expect("a number");
        (text(&body["runId"]), sequence, text(&event["type"]))
    }
}

/// The response to a request: a status, and the body.
pub(crate) type Answers = dyn Fn(&Received) -> Option<(u16, String)> + Send + Sync;

/// A receiver. It listens until it is dropped.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    arrivals: Mutex<mpsc::UnboundedReceiver<Received>>,
    listening: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Receiver {
    /// One that accepts everything.
    pub(crate) async fn new() -> Self {
        Self::answering(|_| Some((204, String::new()))).await
    }

    /// One that accepts everything once the gate has a permit.
    pub(crate) async fn held(gate: Arc<Semaphore>) -> Self {
        Self::gated(gate, |_| Some((204, String::new()))).await
    }

    /// One with a scripted response; `None` never responds.
    pub(crate) async fn answering(
        answers: impl Fn(&Received) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        Self::gated(Arc::new(Semaphore::new(1)), answers).await
    }

    async fn gated(
        gate: Arc<Semaphore>,
        answers: impl Fn(&Received) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        let answers: Arc<Answers> = Arc::new(answers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, arrivals) = mpsc::unbounded_channel();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tell, answers, gate) = (tell.clone(), answers.clone(), gate.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(received) = read(&mut stream).await {
                        let answer = answers(&received);
                        let _ = tell.send(received);
                        drop(gate.acquire().await);
                        let Some((status, body)) = answer else {
                            std::future::pending::<()>().await;
                            return;
                        };
                        let head = format!(
                            "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\
                             location: http://127.0.0.1:1/\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.get_mut().write_all(head.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            address,
            arrivals: Mutex::new(arrivals),
            listening,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=1", self.address)
    }

    /// Waits for the next request.
    pub(crate) async fn next(&self) -> Received {
        let mut arrivals = self.arrivals.lock().await;
        let arrived = timeout(DEADLINE, arrivals.recv()).await;
        arrived.expect("a delivery in time").expect("it listens")
    }

    /// The requests received but not read.
    pub(crate) async fn rest(&self) -> Vec<Received> {
        let mut arrivals = self.arrivals.lock().await;
        std::iter::from_fn(|| arrivals.try_recv().ok()).collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut received = Received {
        path,
        headers,
        body: Vec::new(),
    };
    let length = received.header("content-length").parse().unwrap_or(0);
    received.body = vec![0; length];
    stream.read_exact(&mut received.body).await.ok()?;
    Some(received)
}
