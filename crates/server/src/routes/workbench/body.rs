//! Bodies of this face: large, perhaps encoded, of any media type.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};

use crate::problem::Problem;
use crate::route::Cx;

/// Bytes of a body that are read and thrown away before it is refused: a client that is cut off
/// takes it for a broken connection and sends everything again.
const MAX_DRAINED: usize = 256 << 20;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// 413 in the words of this API.
fn too_large(limit: usize) -> Problem {
    let message = format!("Body exceeds {limit} byte limit");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", message)
}

/// Reads the body. The bound is on bytes, as they come and as they are decoded.
pub(super) async fn read(cx: &mut Cx) -> Result<Vec<u8>, Problem> {
    let limit = cx.app.limits().document_bytes;
    let body = std::mem::take(&mut cx.body);
    let header = |name| cx.headers.get(name).and_then(|value| value.to_str().ok());
    let length = header(CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) && header(EXPECT).is_some() {
        // It waits to be asked, so nothing is on its way.
        return Err(too_large(limit));
    }
    let time = DRAIN_TIME.max(cx.app.limits().body_time);
    let collected = tokio::time::timeout(time, collect(body, limit)).await;
    let bytes = collected.map_err(|_| {
        let what = "the body took too long to arrive";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", what)
    })??;
    match header(CONTENT_ENCODING) {
        None | Some("" | "identity") => Ok(bytes),
        Some("gzip") => decode(flate2::read::MultiGzDecoder::new(&bytes[..]), limit),
        Some("zstd") => match zstd::Decoder::new(&bytes[..]) {
            Ok(decoder) => decode(decoder, limit),
            Err(_) => Err(undecodable()),
        },
        Some(_) => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UNSUPPORTED_ENCODING",
            "send the body as it is, or with Content-Encoding gzip or zstd",
        )),
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let (mut bytes, mut drained) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            let what = "the body ended before it was complete";
            Problem::new(StatusCode::BAD_REQUEST, "INCOMPLETE_BODY", what)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if drained == 0 && bytes.len() + data.len() <= limit {
            bytes.extend_from_slice(&data);
            continue;
        }
        drained += bytes.len() + data.len();
        bytes = Vec::new();
        if drained > MAX_DRAINED {
            break;
        }
    }
    match drained {
        0 => Ok(bytes),
        _ => Err(too_large(limit)),
    }
}

fn decode(decoder: impl Read, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() > limit => Err(too_large(limit)),
        Ok(_) => Ok(bytes),
        Err(_) => Err(undecodable()),
    }
}

fn undecodable() -> Problem {
    let what = "the body is not encoded as Content-Encoding says";
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_ENCODING", what)
}
