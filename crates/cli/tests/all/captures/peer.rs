//! A model server of the tests: it answers from a script and counts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::Lab;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
    pub(crate) bytes: Vec<u8>,
}

/// A server of models.
pub(crate) struct Peer {
    pub(crate) address: String,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Peer {
    /// Answers each request by `answer`, with its number.
    pub(crate) fn start(answer: impl Fn(usize, &Came) -> Value + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let came = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (came.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (seen.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        Self { address, came }
    }

    /// Makes it a lab's provider `small`.
    pub(crate) fn provides(&self, lab: &Lab) {
        let address = &self.address;
        let file = format!("[provider.small]\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n");
        lab.write("providers.toml", file);
    }

    /// The options that let a command ask.
    pub(crate) fn options(&self) -> [&str; 4] {
        let file = "providers.toml";
        ["--providers", file, "--allow-http", &self.address]
    }

    /// The requests so far.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<Came>>,
    answer: &(impl Fn(usize, &Came) -> Value + ?Sized),
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let came = Came {
            path: head.split(' ').nth(1).unwrap().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            bytes: body,
            head,
        };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(came.clone());
            seen.len() - 1
        };
        let answer = answer(number, &came);
        let status = answer["status"].as_u64().unwrap_or(200);
        // A truncated stream: cut off, or left open until the client disconnects.
        if let Some(then) = answer["then"].as_str() {
            let begun = answer["sse"].as_str().filter(|text| !text.is_empty());
            if let Some(text) = begun {
                let length = text.len();
                let _ = write!(
                    writer,
                    "HTTP/1.1 {status} OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{text}\r\n"
                );
            }
            if then == "stay" {
                let _ = reader.read_to_end(&mut Vec::new());
            }
            return;
        }
        // A text is a stream of events.
        let (kind, body) = match (&answer["sse"], &answer["base64"]) {
            (Value::String(text), _) => ("text/event-stream", text.clone().into_bytes()),
            (_, Value::String(_)) => ("application/json", capture::clean::bytes_of(&answer)),
            _ => ("application/json", answer["body"].to_string().into_bytes()),
        };
        let more = answer["headers"].as_object().into_iter().flatten();
        let more = more.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()));
        let (length, more) = (body.len(), more.collect::<String>());
        let head = format!(
            "HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nset-cookie: id=planted-cookie\r\n{more}\r\n"
        );
        if writer
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

/// An answer of chat completions.
pub(crate) fn says(text: &str) -> Value {
    json!({ "body": {
        "id": "c", "model": "tiny-1", "system_fingerprint": "fp_tiny",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
    } })
}

/// An answer that requests tool calls: id, name, arguments.
pub(crate) fn wants(tools: &[(&str, &str, Value)]) -> Value {
    let calls: Vec<Value> = tools
        .iter()
        .map(|(id, name, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } })
        })
        .collect();
    json!({ "body": {
        "id": "c", "model": "tiny-1",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": null, "tool_calls": calls } }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
    } })
}
