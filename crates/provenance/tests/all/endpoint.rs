//! Vectors and judgements from an endpoint: a real peer on the loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use faces::provenance::compare::{Judgement, Undecided};
use provenance::{Endpoint, Reads};
use runtime::outbound::{Allowed, Outbound};
use serde_json::{Value, json};

/// Answers a number of requests by a function of their bodies; returns the requests.
fn peer(
    count: usize,
    answer: impl Fn(&Value) -> (u16, String) + Send + 'static,
) -> (u16, JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, body) = request(&mut stream);
            let (status, text) = answer(&body);
            let length = text.len();
            let head_out = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head_out + &text).as_bytes()).unwrap();
            asked.push((head, body));
        }
        asked
    });
    (port, asked)
}

fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap().parse::<usize>().unwrap() {
            return (head, serde_json::from_str(body).unwrap());
        }
    }
}

fn endpoint(port: u16, allowed: Allowed) -> Endpoint {
    reading(port, allowed, Reads::Embeddings)
}

fn reading(port: u16, allowed: Allowed, reads: Reads) -> Endpoint {
    let url = format!("http://127.0.0.1:{port}/v1").parse().unwrap();
    Endpoint::new(
        url,
        reads,
        "vec-1".into(),
        Some("key-of-mine".into()),
        Outbound::new(allowed),
    )
}

fn open(port: u16) -> Allowed {
    Allowed::parse([format!("127.0.0.1:{port}").as_str()]).unwrap()
}

#[tokio::test]
async fn texts_are_asked_for_in_batches_and_come_back_as_vectors() {
    let (port, asked) = peer(2, |body| {
        let texts = body["input"].as_array().unwrap();
        // In a different order than requested, as an endpoint may.
        let rows = texts.iter().enumerate().rev().map(
            |(at, text)| json!({ "index": at, "embedding": [text.as_str().unwrap().len(), 1] }),
        );
        (200, json!({ "data": rows.collect::<Vec<_>>() }).to_string())
    });
    let texts: Vec<String> = (0..70).map(|at| "x".repeat(at + 1)).collect();
    let endpoint = endpoint(port, open(port));
    let vectors = endpoint.embed(&texts).await.unwrap();
    assert_eq!(vectors.len(), 70);
    assert_eq!(vectors["xxx"], [3.0, 1.0]);
    assert_eq!(endpoint.id(), "openai-compatible:127.0.0.1/vec-1");
    let asked = asked.join().unwrap();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].0.starts_with("post /v1/embeddings ") && asked[0].0.contains("bearer key-of-mine")
    );
    assert_eq!(asked[0].1["model"], "vec-1");
    assert_eq!(asked[0].1["input"].as_array().unwrap().len(), 64);
}

#[tokio::test]
async fn answers_without_vectors_are_rejected_without_the_key() {
    for (status, text) in [
        (200, "no json".to_owned()),
        (200, json!({ "data": [] }).to_string()),
        (200, json!({ "data": [{ "embedding": ["a"] }] }).to_string()),
        (401, "{\"error\":\"key-of-mine is wrong\"}".to_owned()),
    ] {
        let (port, asked) = peer(1, move |_| (status, text.clone()));
        let error = endpoint(port, open(port))
            .embed(&["x".into()])
            .await
            .unwrap_err();
        assert!(!error.to_string().contains("key-of-mine"), "{error}");
        asked.join().unwrap();
    }
}

#[tokio::test]
async fn the_outbound_guard_checks_the_endpoint() {
    let refused = endpoint(9, Allowed::default()).embed(&["x".into()]).await;
    assert!(refused.is_err());
}

/// Pairs to be judged.
fn pairs(count: usize) -> Vec<Undecided> {
    let pair = |at: usize| Undecided {
        a: format!("a {at}"),
        b: format!("b {at}"),
        is_open_to_similarity: false,
    };
    (0..count).map(pair).collect()
}

#[tokio::test]
async fn a_model_judges_pairs_in_order() {
    let (port, asked) = peer(2, |body| {
        let said = body["messages"][1]["content"].as_str().unwrap();
        let said: Value = serde_json::from_str(said).unwrap();
        let verdicts = said["pairs"].as_array().unwrap().iter().map(|pair| {
            match pair["a"].as_str().unwrap() {
                "a 0" => "same",
                "a 16" => "different",
                _ => "unsure",
            }
        });
        let text = json!({ "verdicts": verdicts.collect::<Vec<_>>() }).to_string();
        let content = format!("```json\n{text}\n```");
        (
            200,
            json!({ "choices": [{ "message": { "content": content } }] }).to_string(),
        )
    });
    let judge = reading(port, open(port), Reads::Judges);
    let judgements = judge.judge(&pairs(17)).await.unwrap();
    let of = |at: usize| judgements[&(format!("a {at}"), format!("b {at}"))];
    assert_eq!(
        (of(0), of(1), of(16)),
        (Judgement::Same, Judgement::Unsure, Judgement::Different)
    );
    assert_eq!(judge.id(), "judge:127.0.0.1/vec-1");
    let asked = asked.join().unwrap();
    assert!(asked[0].0.starts_with("post /v1/chat/completions "));
    assert_eq!(asked[0].1["temperature"], 0);
}

#[tokio::test]
async fn a_judge_that_leaves_out_a_pair_is_refused() {
    for said in [
        "",
        "same",
        "{\"verdicts\": [\"same\"]}",
        "{\"verdicts\": [\"same\", \"yes\"]}",
    ] {
        let (port, asked) = peer(1, move |_| {
            let answer = json!({ "choices": [{ "message": { "content": said } }] });
            (200, answer.to_string())
        });
        let judged = reading(port, open(port), Reads::Judges)
            .judge(&pairs(2))
            .await;
        assert!(
            judged
                .unwrap_err()
                .to_string()
                .contains("a verdict for each pair"),
            "{said}"
        );
        asked.join().unwrap();
    }
}
