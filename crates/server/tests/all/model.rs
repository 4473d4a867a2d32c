//! A scripted model over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use runtime::models::Providers;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::host::{Host, Models};

/// A model that returns answers in order; the last one is repeated.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    /// The requests it received.
    asked: Arc<Mutex<Vec<Value>>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Says {
    Text(&'static str),
    /// The beginning of a text, then its token limit is reached.
    Cut(&'static str),
    Refuses,
    /// It is busy, and names the time to retry.
    Busy {
        seconds: u32,
    },
}

impl Says {
    fn response(self) -> String {
        let (delta, finish) = match self {
            Self::Text(text) => (json!({ "content": text }), "stop"),
            Self::Cut(text) => (json!({ "content": text }), "length"),
            Self::Refuses => (json!({ "refusal": "planted words" }), "stop"),
            Self::Busy { seconds } => {
                return format!(
                    "HTTP/1.1 429 Too Many Requests\r\nretry-after: {seconds}\r\n\
                     content-length: 0\r\nconnection: close\r\n\r\n"
                );
            }
        };
        let chunk = |delta: &Value, finish: Option<&str>| json!({ "model": "mock-mini", "choices": [{ "delta": delta, "finish_reason": finish }] });
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
             data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
            chunk(&delta, None),
            chunk(&json!({}), Some(finish))
        )
    }
}

impl Model {
    pub(crate) fn saying(answers: &'static [Says]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let asked = model.asked.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let mut from = BufReader::new(connection);
                let (mut line, mut length) = (String::new(), 0);
                while from.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                        length = said.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                from.read_exact(&mut body).unwrap();
                let mut asked = asked.lock().unwrap();
                let says = answers[asked.len().min(answers.len() - 1)];
                asked.push(serde_json::from_slice(&body).unwrap());
                let said = says.response();
                from.get_mut().write_all(said.as_bytes()).unwrap();
            }
        });
        model
    }

    pub(crate) async fn host(&self) -> Host {
        let address = self.address;
        let text =
            format!("[provider.mock]\nbase_url = \"http://{address}/v1\"\nmodel = \"mock-mini\"\n");
        let models = Models {
            providers: Providers::parse(&text, Path::new("/")).unwrap(),
            outbound: runtime::outbound::Outbound::new(address.to_string().parse().unwrap()),
            ..Models::default()
        };
        Host::with_models(Limits::default(), Reach::Public, models).await
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}
