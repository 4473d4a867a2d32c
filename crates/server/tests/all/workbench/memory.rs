//! Memory for saves: a save without room is told to retry, and one that never fits is rejected.

use std::time::Duration;

use server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn a_save_without_room_gets_a_retry_time() {
    let host = Host::with(Limits {
        document_bytes: 64 << 10,
        reading_bytes: 64 << 10,
        memory_time: Duration::from_millis(20),
        ..Limits::default()
    })
    .await;
    let caller = Caller::new(&host);
    let large = noted(document("run_large"), &"x".repeat(60_000));
    let body = large.to_string();
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    let head = format!(
        "PUT /api/runs/run_large HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        host.address,
        host.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server requests the body once it has the memory for it.
    let mut interim = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut interim).await.unwrap();
    assert!(interim.starts_with(b"HTTP/1.1 100 "), "{interim:?}");
    let other = noted(document("run_other"), &"y".repeat(20_000));
    let refused = caller.put(&other).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["code"], "SERVICE_UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), Some("1"));
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(caller.put(&other).await.status, 204);
}

#[tokio::test]
async fn a_refused_save_is_read_to_its_end_before_the_answer() {
    let bytes = 24 << 20;
    let host = Host::with(Limits {
        document_bytes: bytes,
        reading_bytes: bytes,
        memory_time: Duration::from_millis(20),
        ..Limits::default()
    })
    .await;
    let head = |path: &str| {
        format!(
            "PUT /api/runs/{path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n",
            host.address, host.key
        )
    };
    let mut first = TcpStream::connect(host.address).await.unwrap();
    first.write_all(head("run_a").as_bytes()).await.unwrap();
    first.write_all(&vec![b' '; 8 << 20]).await.unwrap();
    // Its memory is taken. The other one sends all of its body before it reads the answer.
    let mut other = TcpStream::connect(host.address).await.unwrap();
    other.write_all(head("run_b").as_bytes()).await.unwrap();
    other.write_all(&vec![b' '; bytes]).await.unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn a_save_of_more_objects_than_fit_is_refused() {
    let host = Host::with(Limits {
        working_bytes: 256 << 10,
        ..Limits::default()
    })
    .await;
    let caller = Caller::new(&host);
    let mut many = document("run_many");
    for _ in 0..1_000 {
        many = noted(many, "x");
    }
    let refused = caller.put(&many).await;
    assert_eq!(refused.status, 413, "{}", refused.json());
    assert_eq!(refused.json()["code"], "BODY_TOO_LARGE");
    let text = noted(document("run_text"), &"x".repeat(20_000));
    assert_eq!(caller.put(&text).await.status, 204);
}

#[tokio::test]
async fn words_that_no_filter_knows_are_refused() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    for query in ["status=compleeted", "gates=waiting"] {
        let answer = caller.get(&format!("/api/runs?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.json()["code"], "INVALID_REQUEST", "{query}");
    }
    let known = caller.get("/api/runs?status=failed&gates=pending").await;
    assert_eq!(known.status, 200);
}
