//! Bodies of this face: large, possibly encoded, of any media type.

use std::io::{self, Read, Write};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};

use crate::problem::Problem;
use crate::route::Cx;

/// Bytes of a body that are read and discarded before it is rejected: a client that is cut off
/// treats it as a broken connection and sends everything again.
const MAX_DRAINED: usize = 256 << 20;
/// The time limit for that.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// 413 in the format of this API.
fn too_large(limit: usize) -> Problem {
    let message = format!("Body exceeds {limit} byte limit");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", message)
}

/// Reads the body. The limit applies to its bytes, both encoded and decoded. Its memory, and that
/// of the parsed JSON, is reserved until the end of the request.
pub(super) async fn read(cx: &mut Cx) -> Result<Vec<u8>, Problem> {
    let limit = cx.app.limits().document_bytes;
    let body = std::mem::take(&mut cx.body);
    let header = |name| cx.headers.get(name).and_then(|value| value.to_str().ok());
    let length = header(CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) && header(EXPECT).is_some() {
        // The client waits for permission to send, so no body is in transit.
        return Err(too_large(limit));
    }
    let encoding = Encoding::parse(header(CONTENT_ENCODING))?;
    // A longer body is not kept.
    let memory = cx.app.memory();
    let time = DRAIN_TIME.max(cx.app.limits().body_time);
    match memory.to_read(length.unwrap_or(limit).min(limit)).await {
        Ok(taken) => cx.memory.push(taken),
        Err(problem) => {
            if header(EXPECT).is_none() {
                let _ = tokio::time::timeout(time, drain(body)).await;
            }
            return Err(problem);
        }
    }
    let collected = tokio::time::timeout(time, collect(body, limit)).await;
    let bytes = collected.map_err(|_| {
        let what = "the body took too long to arrive";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", what)
    })??;
    let bytes = match encoding {
        Encoding::Identity => bytes,
        encoding => {
            let decoded = encoding.decode(&bytes, limit, &mut io::sink())?;
            // The current reservation is released first: two requests that wait for each other's
            // would both fail.
            cx.memory.clear();
            let taken = memory.to_read(bytes.len() + decoded).await?;
            cx.memory.push(taken);
            let mut text = Vec::with_capacity(decoded);
            encoding.decode(&bytes, limit, &mut text)?;
            text
        }
    };
    let taken = cx.app.memory().to_work_on(&bytes).await?;
    cx.memory.push(taken);
    Ok(bytes)
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    fn parse(header: Option<&str>) -> Result<Self, Problem> {
        match header {
            None | Some("" | "identity") => Ok(Self::Identity),
            Some("gzip") => Ok(Self::Gzip),
            Some("zstd") => Ok(Self::Zstd),
            Some(_) => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_ENCODING",
                "send the body plain, or with Content-Encoding gzip or zstd",
            )),
        }
    }

    /// Decodes into `into`; returns the number of bytes.
    fn decode(self, bytes: &[u8], limit: usize, into: &mut impl Write) -> Result<usize, Problem> {
        let decoder: Box<dyn Read + '_> = match self {
            Self::Identity => Box::new(bytes),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
            Self::Zstd => Box::new(zstd::Decoder::new(bytes).map_err(|_| undecodable())?),
        };
        let decoded = io::copy(&mut decoder.take(limit as u64 + 1), into);
        match decoded.ok().and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count > limit => Err(too_large(limit)),
            Some(count) => Ok(count),
            None => Err(undecodable()),
        }
    }
}

/// Reads a body and throws it away, so that the client reads the refusal that follows.
async fn drain(mut body: Body) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await {
        drained += frame.data_ref().map_or(0, bytes::Bytes::len);
        if drained > MAX_DRAINED {
            return;
        }
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

fn undecodable() -> Problem {
    let what = "the body is not encoded as Content-Encoding says";
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_ENCODING", what)
}
