//! The largest document, and larger ones.

use std::io::Write;

use serde_json::{Value, json};

use super::{Caller, ID, code, document};
use crate::client::Conn;
use crate::host::Host;

/// 25 MiB, as the API has it.
const LIMIT: usize = 26_214_400;

/// A document of this size in bytes.
fn of_size(bytes: usize) -> Vec<u8> {
    let mut large = document(ID);
    large["run"]["metadata"] = json!({ "pad": "" });
    let pad = "x".repeat(bytes - large.to_string().len());
    large["run"]["metadata"]["pad"] = json!(pad);
    let text = large.to_string().into_bytes();
    assert_eq!(text.len(), bytes);
    text
}

#[tokio::test]
async fn the_limit_is_in_bytes_and_a_larger_body_is_read_first() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let path = format!("/api/runs/{ID}");
    for bytes in [24_990_000, LIMIT] {
        let request = caller.request("PUT", &path);
        let answer = caller
            .send(request.body("application/json", of_size(bytes)))
            .await;
        assert_eq!(answer.status, 204);
    }
    let length = caller.get(&path).await.body.len();
    assert_eq!(length, LIMIT);
    for bytes in [LIMIT + 1, 25_100_000 + 1_200_000] {
        // On a connection that stays open: the rejected body was read, so the next request is
        // answered.
        let mut conn = Conn::to(host.address).await;
        let request = caller
            .request("PUT", &path)
            .body("application/json", of_size(bytes));
        conn.send(&request.bytes()).await;
        let answer = conn
            .answer()
            .await
            .expect("an answer on the same connection");
        assert_eq!(code(&answer, 413), "BODY_TOO_LARGE");
        let message = format!("Body exceeds {LIMIT} byte limit");
        assert_eq!(answer.json()["error"], message);
        conn.send(&caller.request("GET", "/api/runs").bytes()).await;
        assert_eq!(
            conn.answer().await.expect("the connection lives").status,
            200
        );
    }
}

#[tokio::test]
async fn a_body_in_chunks_is_counted_in_bytes() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    // Fewer characters than the limit has bytes, but more bytes.
    let mut large = document(ID);
    large["run"]["metadata"] = json!("é".repeat(LIMIT / 2));
    let body = large.to_string().into_bytes();
    assert!(large.to_string().chars().count() < LIMIT && body.len() > LIMIT);
    let mut conn = Conn::to(host.address).await;
    let request = caller.request("PUT", &format!("/api/runs/{ID}"));
    conn.send(&request.header("transfer-encoding", "chunked").bytes())
        .await;
    for chunk in body.chunks(1 << 20) {
        conn.send(format!("{:x}\r\n", chunk.len()).as_bytes()).await;
        conn.send(chunk).await;
        conn.send(b"\r\n").await;
    }
    conn.send(b"0\r\n\r\n").await;
    let answer = conn.answer().await.expect("an answer");
    assert_eq!(code(&answer, 413), "BODY_TOO_LARGE");
}

#[tokio::test]
async fn bodies_and_answers_may_be_encoded() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    let path = format!("/api/runs/{ID}");
    let text = document(ID).to_string();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
    for (encoding, body) in [("gzip", gzip(text.as_bytes())), ("zstd", zstd)] {
        let request = caller
            .request("PUT", &path)
            .header("content-encoding", encoding);
        let answer = caller.send(request.body("application/json", body)).await;
        assert_eq!(answer.status, 204, "{encoding}");
        let request = caller
            .request("GET", &path)
            .header("accept-encoding", encoding);
        let answer = caller.send(request).await;
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        let mut plain = Vec::new();
        match encoding {
            "gzip" => {
                let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
                std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
            }
            _ => plain = zstd::stream::decode_all(&answer.body[..]).unwrap(),
        }
        assert_eq!(
            serde_json::from_slice::<Value>(&plain).unwrap(),
            document(ID)
        );
    }
    let bomb = gzip(&vec![b' '; LIMIT + 1]);
    assert!(bomb.len() < 1 << 20);
    let wrong = [
        ("gzip", b"no gzip".to_vec(), 400, "INVALID_ENCODING"),
        ("gzip", bomb, 413, "BODY_TOO_LARGE"),
        ("br", Vec::new(), 415, "UNSUPPORTED_ENCODING"),
    ];
    for (encoding, body, status, expected) in wrong {
        let request = caller
            .request("PUT", &path)
            .header("content-encoding", encoding);
        let answer = caller.send(request.body("application/json", body)).await;
        assert_eq!(code(&answer, status), expected);
    }
}

#[tokio::test]
async fn requests_over_the_rate_get_a_retry_time() {
    let limits = server::Limits {
        principal_rate: std::num::NonZeroU32::new(2),
        ..server::Limits::default()
    };
    let host = Host::with(limits).await;
    let caller = Caller::new(&host);
    let mut refused = None;
    for _ in 0..20 {
        let answer = caller.get("/api/runs").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a refusal");
    assert_eq!(refused.json()["error"], "Too many requests");
    assert!(
        refused
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    assert_eq!(caller.get("/api/health").await.status, 200);
}
